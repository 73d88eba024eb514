/** Whose turn the card is set for: the profile follows the workload, and iterating flips nothing (SPEC 4.2). */
import type { Sample } from "../model/sample.ts";
import type { TuningPolicy } from "../model/tuning.ts";
import type { MonotonicMs } from "../model/units.ts";

export type Automatic = "ollama" | "comfy" | "balanced";

export interface WorkloadState {
  /** When each was last seen working; null = never. */
  readonly ollamaAtMs: MonotonicMs | null;
  readonly comfyAtMs: MonotonicMs | null;
  /** Since when neither has worked; null while one does. */
  readonly idleSinceMs: MonotonicMs | null;
  /** What the workload asks for; null until something has worked. */
  readonly profile: Automatic | null;
  readonly changedAtMs: MonotonicMs | null;
  readonly why: string;
}

export const NO_WORKLOAD: WorkloadState = {
  ollamaAtMs: null,
  comfyAtMs: null,
  idleSinceMs: null,
  profile: null,
  changedAtMs: null,
  why: "Nothing has worked on the card yet",
};

/** One second: who works, and which profile that asks for. */
export function watchWorkload(
  state: WorkloadState,
  { sample, atMs, policy }: { readonly sample: Sample; readonly atMs: MonotonicMs; readonly policy: TuningPolicy },
): WorkloadState {
  const comfyWorks = sample.comfy.executing === true || (sample.comfy.queueRemaining ?? 0) > 0;
  const ollamaWorks = isOllamaWorking(sample, comfyWorks);
  const isIdle = !comfyWorks && !ollamaWorks;
  const seen: WorkloadState = {
    ...state,
    comfyAtMs: comfyWorks ? atMs : state.comfyAtMs,
    ollamaAtMs: ollamaWorks ? atMs : state.ollamaAtMs,
    idleSinceMs: isIdle ? state.idleSinceMs ?? atMs : null,
  };
  const wanted = wantedOf(seen, { comfyWorks, ollamaWorks, atMs, policy });
  return wanted === null || wanted.profile === seen.profile ? seen : { ...seen, ...wanted, changedAtMs: atMs };
}

/**
 * Ollama works when one of its runners does. Where the driver gives no utilisation by process, a resident model beside
 * an idle ComfyUI on a busy card is the best sign there is.
 */
function isOllamaWorking(sample: Sample, comfyWorks: boolean): boolean {
  const { gpu, ollama } = sample;
  if (!gpu.available) return false;
  const runners = gpu.breakdown.processes.filter(({ bucket }) => bucket === "ollama");
  if (runners.some(({ smPct }) => smPct !== null)) return runners.some(({ smPct }) => (smPct ?? 0) > 0);
  return !comfyWorks && ollama.resident.length > 0 && (gpu.reading.gpuUtilPct ?? 0) > 0;
}

function wantedOf(
  state: WorkloadState,
  now: {
    readonly comfyWorks: boolean;
    readonly ollamaWorks: boolean;
    readonly atMs: MonotonicMs;
    readonly policy: TuningPolicy;
  },
): Pick<WorkloadState, "profile" | "why"> | null {
  const { atMs, policy } = now;
  const isSettled = state.changedAtMs === null || atMs - state.changedAtMs >= policy.dwellMs;
  if (!isSettled) return null;
  const isQuiet = (lastMs: MonotonicMs | null) => lastMs === null || atMs - lastMs >= policy.dwellMs;
  if (now.comfyWorks && (state.profile !== "ollama" || isQuiet(state.ollamaAtMs))) {
    return { profile: "comfy", why: "ComfyUI works" };
  }
  if (now.ollamaWorks && (state.profile !== "comfy" || isQuiet(state.comfyAtMs))) {
    return { profile: "ollama", why: "Ollama works" };
  }
  const isLongIdle = policy.idleMs !== null && state.idleSinceMs !== null &&
    atMs - state.idleSinceMs >= policy.idleMs;
  return isLongIdle ? { profile: "balanced", why: `Both have been idle for ${minutes(policy.idleMs)}` } : null;
}

function minutes(ms: number | null): string {
  const count = Math.round((ms ?? 0) / 6_000) / 10;
  return count === 1 ? "a minute" : `${count} minutes`;
}
