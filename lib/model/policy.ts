/** What the owner has configured, as the decisions need it. Units in the names. */
import { DEFAULT_GATE_POLICY, type GatePolicy } from "./gate.ts";
import type { Bytes } from "./units.ts";

/** `observe` decides and records what it would do, and touches nothing; `paused` doesn't act by itself at all. */
export type Mode = "auto" | "observe" | "paused";

export interface YieldPolicy {
  /** Room left beside what a newcomer needs (SPEC 2.2). */
  readonly headroomBytes: Bytes;
  /** Models that are never unloaded by an automatic yield or a switch. */
  readonly keep: readonly string[];
  /** When a held runner is looked at for being busy. */
  readonly busyAfterMs: number;
  /** How long an idle runner may hold its memory before that is a fault. */
  readonly faultAfterMs: number;
  /** Ceiling of a yield of one model; each further model adds `ceilingPerModelMs`. */
  readonly ceilingMs: number;
  readonly ceilingPerModelMs: number;
  /** What may remain above the residual and still count as back. */
  readonly slackBytes: Bytes;
}

export interface PurgePolicy {
  /** Idle seconds of a truly empty queue before ComfyUI is purged; null = never by itself. */
  readonly idleMs: number | null;
  /** Least time between a prompt's end and `/free`. */
  readonly quietMs: number;
  readonly resendAfterMs: number;
  readonly ceilingMs: number;
  /** How long its bytes must stay level to count as fallen. */
  readonly levelMs: number;
  readonly slackBytes: Bytes;
}

export interface MarginPolicy {
  /** Growth of the winner that counts as its first allocation. */
  readonly growthBytes: Bytes;
  readonly watchMs: number;
  /** How long our own loads for the loser wait after a hand-off. */
  readonly loserOutMs: number;
}

export interface LoadPolicy {
  /** Our own deadline on a load; hanging up cancels it. */
  readonly deadlineMs: number;
  readonly keepAlive: string;
}

/** From which bandwidths on a load counts as from RAM, and as partly from RAM; null = as calibrated or built in. */
export interface ClassifyPolicy {
  readonly hitBytesPerSecond: number | null;
  readonly partialBytesPerSecond: number | null;
}

export interface Policy {
  readonly mode: Mode;
  readonly yield: YieldPolicy;
  readonly purge: PurgePolicy;
  readonly margin: MarginPolicy;
  readonly load: LoadPolicy;
  readonly classify: ClassifyPolicy;
  readonly gate: GatePolicy;
  /** What a model or ComfyUI is said to need, by name ("comfyui" for ComfyUI). Measured footprints come after it. */
  readonly needs: Readonly<Record<string, Bytes>>;
  /** Whether automatic hand-offs go on when the driver can't confirm them. */
  readonly proceedUnconfirmed: boolean;
  /** Whether a ComfyUI that seems to have loaded half a model is purged by itself when it is idle. */
  readonly healPartial: boolean;
  /** Whether a runner that was reported as stuck may be ended at all; even then only when it is asked for. */
  readonly mayEndRunners: boolean;
}

/** The built-in policy (SPEC 2.1–2.4); config/ overlays it. */
export const DEFAULT_POLICY: Policy = {
  mode: "auto",
  yield: {
    headroomBytes: 512 * 2 ** 20,
    keep: [],
    busyAfterMs: 600,
    faultAfterMs: 6_000,
    ceilingMs: 10_000,
    ceilingPerModelMs: 5_000,
    slackBytes: 64 * 2 ** 20,
  },
  purge: {
    idleMs: 30_000,
    quietMs: 1_000,
    resendAfterMs: 5_000,
    ceilingMs: 10_000,
    levelMs: 250,
    slackBytes: 64 * 2 ** 20,
  },
  margin: { growthBytes: 64 * 2 ** 20, watchMs: 10_000, loserOutMs: 2_000 },
  load: { deadlineMs: 300_000, keepAlive: "30m" },
  classify: { hitBytesPerSecond: null, partialBytesPerSecond: null },
  gate: DEFAULT_GATE_POLICY,
  needs: {},
  proceedUnconfirmed: true,
  healPartial: false,
  mayEndRunners: false,
};
