/**
 * The residual of a yield (SPEC 2.1): used − Σ(all processes) when it starts. Too small a one only delays a
 * confirmation; too large a one would call memory freed that isn't. It comes out too large when a process has just left
 * the driver's list while its memory is still on its way back (measured: up to 174 ms), so such a departure is looked for.
 */
import type { GpuState } from "../model/sample.ts";
import type { Bytes } from "../model/units.ts";
import type { MemoryView } from "./release.ts";

export interface Residual {
  readonly bytes: Bytes;
  /** Processes whose bytes the driver didn't give then: they stay in the residual. */
  readonly blindPids: readonly number[];
}

/** What the samples showed, so that a yield knows whether something was leaving as it started. */
export interface ResidualHistory {
  /** The newest sample's view; null when the card couldn't be read. */
  readonly view: MemoryView | null;
  /** True when a process had left between the last two samples. */
  readonly hasDeparture: boolean;
  /** The residual of the newest sample without a departure; null before the first. */
  readonly quietBytes: Bytes | null;
}

export const NO_HISTORY: ResidualHistory = { view: null, hasDeparture: false, quietBytes: null };

/** What no process accounts for. A process without bytes stays in it, and so do `blindPids`. Not below 0. */
export function residualOf(view: MemoryView, blindPids: readonly number[] = []): Bytes {
  let held = 0;
  for (const { pid, usedBytes } of view.processes) held += blindPids.includes(pid) ? 0 : usedBytes ?? 0;
  return Math.max(0, view.usedBytes - held);
}

/** The memory of a card as the sample shows it; null where either half is missing. */
export function viewOf(gpu: GpuState): MemoryView | null {
  if (!gpu.available || gpu.reading.memory === null || gpu.reading.processes === null) return null;
  return { usedBytes: gpu.reading.memory.usedBytes, processes: gpu.reading.processes };
}

/** Takes a sample into the history. */
export function followResidual(history: ResidualHistory, gpu: GpuState): ResidualHistory {
  const view = viewOf(gpu);
  if (view === null) return NO_HISTORY;
  const hasDeparture = history.view !== null && hasDeparted(history.view, view);
  return { view, hasDeparture, quietBytes: hasDeparture ? history.quietBytes : residualOf(view) };
}

/** True when somebody is no longer listed. However little it held then: it may have taken more before it went. */
function hasDeparted(before: MemoryView, after: MemoryView): boolean {
  return before.processes.some(({ pid }) => !after.processes.some((process) => process.pid === pid));
}

/** True when two looks in a row give the same residual: neither then fell between the driver's two calls. */
export function isSteady(views: readonly MemoryView[], slackBytes: Bytes): boolean {
  const [before, after] = views.slice(-2);
  if (before === undefined || after === undefined) return false;
  const blindPids = blindIn([before, after]);
  return Math.abs(residualOf(before, blindPids) - residualOf(after, blindPids)) <= slackBytes;
}

/** The residual by the last two looks; null without any. The smaller one is the safe one. */
export function settleResidual(views: readonly MemoryView[], history: ResidualHistory): Residual | null {
  const looks = views.slice(-2);
  const last = looks.at(-1);
  if (last === undefined) return null;
  const blindPids = blindIn(looks);
  const bytes = Math.min(...looks.map((view) => residualOf(view, blindPids)));
  const isLeaving = history.hasDeparture || history.view !== null && hasDeparted(history.view, last);
  const capBytes = isLeaving ? history.quietBytes : null;
  return { bytes: capBytes === null ? bytes : Math.min(bytes, capBytes), blindPids };
}

function blindIn(views: readonly MemoryView[]): readonly number[] {
  const pids = views.flatMap((view) => view.processes.filter((process) => process.usedBytes === null));
  return [...new Set(pids.map((process) => process.pid))];
}
