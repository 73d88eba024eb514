/** Runners that were reported as a fault: what may be ended, if its owner says so (SPEC 2.1, the ladder's last step). */
import type { Refusal, YieldResult } from "../model/arbitration.ts";
import type { Sample } from "../model/sample.ts";
import { isSameProcess, type ProcessId } from "../model/tenants.ts";
import type { Bytes, MonotonicMs } from "../model/units.ts";
import type { ArbiterState, LaneJob } from "./arbiter_state.ts";
import { refusal } from "./switch_plan.ts";
import { targetsIn } from "./watched.ts";

/** Kept at once; a box has a handful. */
const MOST_STUCK = 32;

export interface Stuck {
  readonly process: ProcessId;
  readonly model: string | null;
  readonly bytes: Bytes | null;
  /** Why it is one, in words. */
  readonly evidence: string;
  readonly sinceMs: MonotonicMs;
}

/** A yield has ended: those it reported as a fault are added. */
export function noteStuck(
  stuck: readonly Stuck[],
  job: LaneJob,
  { result, atMs }: { readonly result: YieldResult; readonly atMs: MonotonicMs },
): readonly Stuck[] {
  if (result.outcome !== "fault") return stuck;
  const targets = targetsIn(job);
  const fresh = result.held.flatMap(({ pid, model, bytes, evidence }): readonly Stuck[] => {
    const target = targets.find(({ runner }) => runner.pid === pid);
    if (target === undefined) return [];
    const { startTime } = target.runner;
    return [{ process: { pid: target.runner.pid, startTime }, model, bytes, evidence, sinceMs: atMs }];
  });
  const others = stuck.filter((entry) => !fresh.some((other) => isSameProcess(other.process, entry.process)));
  return [...others, ...fresh].slice(-MOST_STUCK);
}

/** Without those that have ended. */
export function withoutEnded(stuck: readonly Stuck[], { ollama, sources }: Sample): readonly Stuck[] {
  if (stuck.length === 0 || !sources.processes.ok) return stuck;
  const left = stuck.filter(({ process }) => ollama.runners.some((runner) => isSameProcess(runner, process)));
  return left.length === stuck.length ? stuck : left;
}

export function findStuck({ stuck }: Pick<ArbiterState, "stuck">, process: ProcessId): Stuck | null {
  return stuck.find((entry) => isSameProcess(entry.process, process)) ?? null;
}

/** Why that process may not be ended; null: it may. */
export function objectionToEnd(state: Pick<ArbiterState, "stuck" | "policy">, process: ProcessId): Refusal | null {
  if (!state.policy.mayEndRunners) {
    return refusal("forbidden", "Ending a runner is switched off", {
      hint: "Set arbitration.end_stuck_runners = true in the configuration, or restart Ollama",
    });
  }
  if (findStuck(state, process) !== null) return null;
  const { pid, startTime } = process;
  const others = state.stuck.map((entry) => `pid ${entry.process.pid} starttime ${entry.process.startTime}`);
  return refusal("not_found", `No runner with pid ${pid} and starttime ${startTime} was reported as stuck`, {
    hint: others.length === 0
      ? "Only a runner that a yield has reported as a fault can be ended, and none is"
      : `Those that were: ${others.join(", ")}`,
  });
}
