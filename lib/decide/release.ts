/**
 * The barrier's predicate: has the driver really given the memory back? (SPEC 2.1)
 *
 * A process that allocates or frees beside the targets moves `used` and its own bytes together, so it cancels out; what
 * no process accounts for (the residual) is fixed when the yield starts. Memory and process list are two calls, not one
 * snapshot: one reading proves nothing, two in a row do.
 */
import type { GpuProcess } from "../model/sample.ts";
import type { Bytes } from "../model/units.ts";

/** The part of a reading the predicate looks at. */
export interface MemoryView {
  readonly usedBytes: Bytes;
  readonly processes: readonly GpuProcess[];
}

/** Readings in a row that must agree. */
export const READINGS_IN_A_ROW = 2;

/** What no process accounts for. A process without bytes stays in it. Not below 0. */
export function residualOf(view: MemoryView): Bytes {
  let held = 0;
  for (const process of view.processes) held += process.usedBytes ?? 0;
  return Math.max(0, view.usedBytes - held);
}

/** Bytes of one process; 0 when it isn't on the card; null when it is and the driver doesn't say. */
export function bytesOf(view: MemoryView, pid: number): Bytes | null {
  const row = view.processes.find((process) => process.pid === pid);
  return row === undefined ? 0 : row.usedBytes;
}

/** Bytes of several processes; null when one of them is there without bytes. */
export function bytesOfAll(view: MemoryView, pids: readonly number[]): Bytes | null {
  let sum = 0;
  for (const pid of pids) {
    const bytes = bytesOf(view, pid);
    if (bytes === null) return null;
    sum += bytes;
  }
  return sum;
}

/**
 * True when no target holds anything and the device's used bytes, less every other process, are down to the residual.
 * One reading; the caller counts them.
 */
export function isReleased(
  view: MemoryView,
  { targets, residualBytes, slackBytes }: {
    readonly targets: readonly number[];
    readonly residualBytes: Bytes;
    readonly slackBytes: Bytes;
  },
): boolean {
  let others = 0;
  for (const process of view.processes) {
    if (targets.includes(process.pid)) {
      if (process.usedBytes !== 0) return false;
    } else {
      others += process.usedBytes ?? 0;
    }
  }
  return view.usedBytes - others <= residualBytes + slackBytes;
}
