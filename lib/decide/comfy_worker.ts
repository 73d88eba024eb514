/**
 * ComfyUI's worker dead behind a living server (SPEC 2.3): a node that raises what isn't an Exception ends the one thread
 * that runs prompts. HTTP goes on, the running entry stays for ever, and everything behind it waits. From outside it
 * shows as a prompt whose process neither computes nor uses the card; a node that waits for the network looks the same,
 * so it is said as what it is, and nothing is interrupted.
 */
import type { ArbiterEffect, ArbiterEvent } from "../model/events.ts";
import type { Sample } from "../model/sample.ts";
import type { MonotonicMs } from "../model/units.ts";
import type { ArbiterState, ArbiterStep } from "./arbiter_state.ts";
import { comfyHoldings } from "./purge_job.ts";

/** Stillness before it is said: loading from a slow disk uses the processor all along. */
const STILL_MS = 60_000;
/** Ticks of CPU time a second that an idle server uses; Linux counts 100 to the second. */
const IDLE_TICKS = 5;

export interface WorkerWatch {
  readonly promptId: string;
  /** How far it had come, where the server shows that. */
  readonly progress: number | null;
  readonly cpuTicks: number;
  readonly stillSinceMs: MonotonicMs;
  readonly isTold: boolean;
}

export function watchWorker(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  if (event.type !== "sampled") return { state, effects: [] };
  const watch = follow(state.worker, event.sample, event.atMs);
  if (watch === null || watch.isTold || event.atMs - watch.stillSinceMs < STILL_MS) {
    return { state: watch === state.worker ? state : { ...state, worker: watch }, effects: [] };
  }
  return { state: { ...state, worker: { ...watch, isTold: true } }, effects: [tell(watch, event.sample, event.atMs)] };
}

function follow(before: WorkerWatch | null, { comfy, gpu }: Sample, atMs: MonotonicMs): WorkerWatch | null {
  const promptId = comfy.runningPromptId;
  const cpuTicks = comfy.serverCpuTicks ?? null;
  if (!comfy.online || comfy.isRemote || promptId === null || cpuTicks === null) return null;
  const progress = comfy.progress?.value ?? null;
  const fresh: WorkerWatch = { promptId, progress, cpuTicks, stillSinceMs: atMs, isTold: false };
  if (before === null || before.promptId !== promptId || before.progress !== progress) return fresh;
  const smPct = gpu.available ? gpu.reading.smPctByPid : null;
  const isOnCard = gpu.available && comfyHoldings({ gpu }).pids.some((pid) => (smPct?.[pid] ?? 0) > 0);
  const isStill = !isOnCard && cpuTicks - before.cpuTicks <= IDLE_TICKS;
  return isStill ? { ...before, cpuTicks } : fresh;
}

function tell(watch: WorkerWatch, { comfy }: Sample, atMs: MonotonicMs): ArbiterEffect {
  const seconds = Math.round((atMs - watch.stillSinceMs) / 1_000);
  const behind = Math.max(0, (comfy.queueRemaining ?? 1) - 1);
  const message = `ComfyUI's prompt ${watch.promptId} has run for ${seconds} s without computing or using the card` +
    `${behind === 0 ? "" : `, with ${behind} waiting behind it`}: its worker may have died while its server lives on`;
  const fields = {
    what: "comfyui_worker",
    prompt_id: watch.promptId,
    still_s: seconds,
    pids: comfy.server === null ? [] : [comfy.server.pid],
    message,
    remedy: "Interrupt it in ComfyUI; if it is still listed as running after that, its worker is dead: restart ComfyUI",
  };
  return { kind: "record", key: `worker-${watch.promptId}-${atMs}`, item: { kind: "fault", fields }, reason: message };
}
