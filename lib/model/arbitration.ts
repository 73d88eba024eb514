/** What arbitration is asked for and what it answers: the vocabulary between operations, the arbiter and the record. */
import type { FailureCode } from "./failure.ts";
import type { GateView } from "./gate.ts";
import type { Mode } from "./policy.ts";
import type { Bucket, ProcessId, Tenant } from "./tenants.ts";
import type { Bytes, MonotonicMs, WallMs } from "./units.ts";

/** SPEC 2.1, the outcome table. Only `released` says that the driver gave the memory back. */
export type Outcome =
  | "nothing_loaded"
  | "unreachable"
  | "remote"
  | "unconfirmed"
  | "released"
  | "busy"
  | "fault"
  | "timeout";

/** Why something happens: whose request, or which observation. Our own prompts and loads never trigger arbitration. */
export type Cause =
  | { readonly kind: "operation"; readonly operation: string; readonly requestId: string }
  | { readonly kind: "comfy_enqueued" }
  | { readonly kind: "comfy_idle" }
  /** A request that is held at the gate. */
  | { readonly kind: "gate"; readonly requestId: string }
  /** A model came back before ComfyUI had taken the memory it was given. */
  | { readonly kind: "crept_back" }
  /** A model lies partly outside VRAM. */
  | { readonly kind: "spilled" }
  /** Another client's load was refused for want of memory. */
  | { readonly kind: "refused_elsewhere" }
  /** ComfyUI is thought to have loaded half a model. */
  | { readonly kind: "partial_load" };

/** A cause in one word, as history shows it. */
export function causeWord(cause: Cause): string {
  return cause.kind === "operation" ? cause.operation : cause.kind;
}

/** A process or model that still holds memory when a yield ends, and what it was seen doing. */
export interface Held {
  readonly pid: number | null;
  /** With the pid it names the process and no later one; absent or null where it isn't known. */
  readonly startTime?: number | null;
  readonly model: string | null;
  readonly bytes: Bytes | null;
  readonly evidence: string;
}

export interface YieldResult {
  readonly outcome: Outcome;
  readonly cause: Cause;
  /** From the start to the last unload reply; null when nothing was asked. */
  readonly requestMs: number | null;
  /** From the start to the driver's confirmation; null unless `released`. */
  readonly confirmMs: number | null;
  /** What the targets held at the start, less what they hold at the end; null when the driver doesn't say. */
  readonly freedBytes: Bytes | null;
  readonly models: readonly string[];
  readonly pids: readonly number[];
  /** What confirmed it, in words ("NVML: …"), or null. */
  readonly confirmedBy: string | null;
  readonly held: readonly Held[];
  /** One sentence for people; names the remedy where there is one. */
  readonly message: string;
}

export interface PurgeResult {
  readonly outcome: Outcome;
  readonly cause: Cause;
  readonly requestMs: number | null;
  readonly confirmMs: number | null;
  readonly freedBytes: Bytes | null;
  /** What ComfyUI holds afterwards; its CUDA context (~0.8 GiB) stays and is no error. */
  readonly remainingBytes: Bytes | null;
  readonly confirmedBy: string | null;
  /** A prompt slipped in between `/free` and its effect. */
  readonly overlapped: boolean;
  readonly message: string;
}

export interface HolderShare {
  readonly bucket: Bucket | "unaccounted";
  readonly bytes: Bytes;
  /** The processes behind it: "pid 4711 whisper 0.8 GB". */
  readonly who: readonly string[];
}

export interface RequestVramResult {
  readonly hadBytes: Bytes | null;
  readonly neededBytes: Bytes;
  readonly reclaimedBytes: Bytes | null;
  readonly freeBytes: Bytes | null;
  readonly fits: boolean | null;
  readonly purge: PurgeResult | null;
  readonly holders: readonly HolderShare[];
  readonly message: string;
}

/** SPEC 2.7: what a load achieved. */
export type LoadClass = "ram_hit" | "partial" | "cold" | "unclassified";

/** From which bandwidths on a load counts as from RAM, and as partly from RAM (SPEC 2.7), and where they come from. */
export interface ClassLimits {
  readonly hitBytesPerSecond: number;
  readonly partialBytesPerSecond: number;
  readonly basis: "configured" | "calibrated" | "default";
  /** Loads of this box that were surely warm, and surely cold: it takes 10 and 5 to calibrate. */
  readonly warmN: number;
  readonly coldN: number;
}

/** What else a load was measured by. */
export interface LoadFigures {
  /** All of its files. */
  readonly sizeBytes: Bytes | null;
  /** Every page was counted, not a sample of them; null: residency wasn't measured. */
  readonly isResidencyExact: boolean | null;
  /** Its time includes no eviction and no wait. */
  readonly isPlain: boolean;
  readonly limits: ClassLimits;
  /** Tokens of context, slots and the runner, as the look at what was loaded found them; null where it didn't. */
  readonly contextLength: number | null;
  readonly parallel: number | null;
  readonly process: ProcessId | null;
  /** The best that the disk was seen to give, bytes/s; null before the first warm. */
  readonly diskBytesPerSecond: number | null;
  /** The PCIe link as it ran meanwhile; null where the card doesn't say. */
  readonly link: PcieLink | null;
}

export interface PcieLink {
  readonly gen: number;
  readonly width: number;
  /** What the card could do. */
  readonly maxGen: number | null;
  readonly maxWidth: number | null;
}

/** Where a switch's time went, ms, in this order. Null: there was no such part, or nobody says how long it took. */
export interface SwapPhases {
  /** Others unloaded and ComfyUI reclaimed, each confirmed; a first try that was refused counts here, too. */
  readonly roomMs: number | null;
  /** Held back, so that ComfyUI surely saw the hand-off. */
  readonly waitMs: number | null;
  /** Ollama's own figure. */
  readonly loadMs: number | null;
  /** Prompt and answer, by Ollama's own figures. */
  readonly answerMs: number | null;
  /** From Ollama's reply until the driver had shown what it takes. */
  readonly readBackMs: number | null;
}

export interface SwitchResult {
  readonly prevModel: string | null;
  readonly targetModel: string;
  readonly totalMs: number;
  readonly loadMs: number | null;
  readonly phases: SwapPhases;
  readonly tokensPerSecond: number | null;
  readonly response: string;
  readonly class: LoadClass;
  readonly classBasis: string;
  readonly bytesPerSecond: number | null;
  readonly residencyBeforePct: number | null;
  readonly figures: LoadFigures;
  readonly reclaimedBytes: Bytes | null;
  readonly vramBytes: Bytes | null;
  readonly spilled: boolean | null;
  /** True when it was resident already and nothing was loaded. */
  readonly alreadyResident: boolean;
  readonly yielded: YieldResult | null;
  readonly purged: PurgeResult | null;
  readonly retried: boolean;
  readonly verdict: string;
}

/** How the end of a stuck runner went. */
export interface EndRunnerResult {
  /** `released`: the driver has its memory back. */
  readonly outcome: Outcome;
  readonly process: ProcessId;
  readonly model: string | null;
  readonly confirmMs: number | null;
  readonly freedBytes: Bytes | null;
  readonly confirmedBy: string | null;
  readonly message: string;
}

/** A refusal as data, so that decisions can state one without throwing. */
export interface Refusal {
  readonly code: FailureCode;
  readonly message: string;
  readonly hint: string | null;
  readonly details: Readonly<Record<string, unknown>> | null;
}

export type ArbiterRequest =
  | {
    readonly kind: "yield";
    readonly id: string;
    readonly models: readonly string[] | null;
    readonly confirm: boolean;
  }
  | { readonly kind: "purge"; readonly id: string; readonly confirm: boolean }
  | { readonly kind: "requestVram"; readonly id: string; readonly neededBytes: Bytes }
  /** The card goes to a tenant whose request is held at the gate: Ollama yields all but what is kept, or ComfyUI is purged. */
  | { readonly kind: "handOff"; readonly id: string; readonly to: Tenant }
  | {
    readonly kind: "switch";
    readonly id: string;
    readonly model: string;
    readonly keepAlive: string;
    readonly prompt: string | null;
  }
  /** The lane itself, for a measurement; it is let go of by cancelling, and taken away by ComfyUI's work. */
  | { readonly kind: "hold"; readonly id: string; readonly purpose: string }
  /** The end of one runner that was reported as stuck. */
  | { readonly kind: "endRunner"; readonly id: string; readonly process: ProcessId; readonly model: string | null };

/** What each request resolves to, exactly once. */
export type ArbiterReply =
  | { readonly kind: "yield"; readonly value: YieldResult }
  | { readonly kind: "purge"; readonly value: PurgeResult }
  | { readonly kind: "requestVram"; readonly value: RequestVramResult }
  | { readonly kind: "switch"; readonly value: SwitchResult }
  | { readonly kind: "endRunner"; readonly value: EndRunnerResult }
  | { readonly kind: "refused"; readonly refusal: Refusal };

/** Who has the lane: everything that moves VRAM goes through it, one at a time. */
export interface LaneView {
  readonly job: "yield" | "purge" | "switch" | "requestVram" | "reload" | "endRunner" | "hold";
  readonly cause: Cause;
  /** Where it stands, in words. */
  readonly phase: string;
  readonly sinceMs: WallMs;
}

export interface ArbitrationView {
  readonly mode: Mode;
  /** When `paused`/`observe` ends by itself; null = by hand. */
  readonly untilMs: WallMs | null;
  readonly keep: readonly string[];
  readonly lane: LaneView | null;
  readonly waiting: readonly {
    readonly kind: ArbiterRequest["kind"] | "auto";
    readonly reason: string;
    readonly sinceMs: WallMs;
  }[];
  /** The tenant that holds the card: whose work was admitted last, or null when neither holds anything. */
  readonly holder: "ollama" | "comfyui" | "both" | null;
  /** Busy or stuck runners still watched for their release. */
  readonly watching: readonly { readonly model: string | null; readonly pid: number; readonly sinceMs: WallMs }[];
  readonly lateHandOffs: number;
  readonly handOffs: number;
  readonly lastMarginMs: number | null;
  /** Left out where there is none. */
  readonly gate?: GateView;
  /** Models that came back within the last minute though the card was ComfyUI's; newest last. */
  readonly insisters?: readonly InsisterView[];
  /** Runners that were reported as a fault and are still there. */
  readonly stuck?: readonly StuckView[];
  /** A prompt of ComfyUI's that does nothing any more: its worker may be dead. */
  readonly comfyWorker?: { readonly promptId: string; readonly stillMs: number } | null;
}

/** A runner that neither works nor goes; what `runner end` takes. */
export interface StuckView {
  readonly pid: number;
  readonly startTime: number;
  readonly model: string | null;
  readonly bytes: Bytes | null;
  readonly evidence: string;
  readonly sinceMs: WallMs;
}

/** Who insists on a card that was handed over. */
export interface InsisterView {
  /** The model, or its blob where no name is known. */
  readonly model: string;
  readonly pid: number;
  /** Times it came back within the last minute. */
  readonly times: number;
  readonly lastAtMs: WallMs;
  /** When it is asked to go again; null: it isn't, unless it comes back once more. */
  readonly nextAtMs: WallMs | null;
}

/** One committed transition of the arbiter: why did it do that? */
export interface Decision {
  readonly id: number;
  readonly atMs: WallMs;
  /** What happened, in words. */
  readonly event: string;
  readonly before: string;
  readonly after: string;
  readonly effects: readonly string[];
  readonly reason: string;
}

/** A stretch of time that ends; used for mode changes. */
export interface ModeChange {
  readonly mode: Mode;
  readonly untilMs: WallMs | null;
  readonly keep: readonly string[] | null;
}

/** A hand-off's race, as it ended: positive = the memory was back before the winner's first allocation. */
export interface Margin {
  readonly marginMs: number | null;
  readonly confirmedAtMs: MonotonicMs | null;
  readonly grewAtMs: MonotonicMs | null;
}
