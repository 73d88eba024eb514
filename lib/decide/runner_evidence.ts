/**
 * Whether a runner works, judged by its own doing (SPEC 2.1): its SM utilisation, its CPU time (a spilled model computes
 * there), its own word. ComfyUI's load on the card never makes a stuck runner look busy.
 */
import type { RunnerProbe } from "../model/events.ts";
import { NOTHING_TOLD, type RunnerTold } from "../model/ports.ts";
import type { BarrierReading } from "../model/sample.ts";
import type { MonotonicMs } from "../model/units.ts";

/** SM utilisation of the runner itself that counts as work, percent (SPEC 2.1). */
export const BUSY_SM_PCT = 50;
/** CPU time growth that counts as work, cores (SPEC 2.1). */
export const BUSY_CORES = 0.5;
/** CPU growth over less than this says nothing: the tick is 10 ms. */
const LEAST_SPAN_MS = 200;

export interface RunnerEvidence {
  readonly smPct: number | null;
  readonly cpuSeconds: number | null;
  readonly cpuAtMs: MonotonicMs | null;
  /** Cores used between the last two looks; null before the second. */
  readonly cores: number | null;
  readonly told: RunnerTold;
  /** What it was seen doing, in words; null = idle as far as can be seen. */
  readonly working: string | null;
}

export function noEvidence(): RunnerEvidence {
  return { smPct: null, cpuSeconds: null, cpuAtMs: null, cores: null, told: NOTHING_TOLD, working: null };
}

/** Adds what was seen of these runners; others are left out. */
export function observe(
  before: Readonly<Record<number, RunnerEvidence>>,
  pids: readonly number[],
  seen: { readonly sm?: BarrierReading; readonly probes?: readonly RunnerProbe[]; readonly atMs?: MonotonicMs },
): Readonly<Record<number, RunnerEvidence>> {
  const after: Record<number, RunnerEvidence> = {};
  for (const pid of pids) {
    let evidence = before[pid] ?? noEvidence();
    if (seen.sm !== undefined) evidence = { ...evidence, smPct: seen.sm.smPctByPid?.[pid] ?? 0 };
    const probe = seen.probes?.find((entry) => entry.pid === pid);
    if (probe !== undefined && seen.atMs !== undefined) evidence = withProbe(evidence, probe, seen.atMs);
    after[pid] = { ...evidence, working: describeWork(evidence) };
  }
  return after;
}

function withProbe(evidence: RunnerEvidence, probe: RunnerProbe, atMs: MonotonicMs): RunnerEvidence {
  const spanMs = evidence.cpuAtMs === null ? 0 : atMs - evidence.cpuAtMs;
  const told = { activity: probe.activity, tokensLeft: probe.tokensLeft };
  // Gone or unreadable: what it did before says nothing any more.
  if (probe.cpuSeconds === null) return { ...evidence, told, cpuSeconds: null, cores: null };
  if (evidence.cpuSeconds !== null && spanMs < LEAST_SPAN_MS) return { ...evidence, told };
  return {
    ...evidence,
    told,
    cpuSeconds: probe.cpuSeconds,
    cpuAtMs: atMs,
    cores: evidence.cpuSeconds === null ? null : ((probe.cpuSeconds - evidence.cpuSeconds) * 1000) / spanMs,
  };
}

function describeWork(evidence: RunnerEvidence): string | null {
  const { activity, tokensLeft } = evidence.told;
  if (activity === "loading") return "it says it is loading";
  if (activity === "busy") {
    // How long a busy unload takes: it goes when its answer ends.
    const left = tokensLeft === null ? "" : `, ${tokensLeft} tokens left at most`;
    return `it says it is answering a request${left}`;
  }
  if (evidence.smPct !== null && evidence.smPct >= BUSY_SM_PCT) return `its own SM utilisation is ${evidence.smPct} %`;
  if (evidence.cores !== null && evidence.cores >= BUSY_CORES) return `it uses ${evidence.cores.toFixed(1)} CPU cores`;
  return null;
}
