/**
 * The barrier's predicate: has the driver really given the memory back? (SPEC 2.1)
 *
 * A process that allocates or frees beside the targets moves `used` and its own bytes together, so it cancels out; what
 * no process accounts for (the residual) is fixed when the yield starts. Memory and process list are two calls, not one
 * snapshot: one reading proves nothing, two in a row do.
 */
import type { GpuProcess } from "../model/sample.ts";
import type { Bytes } from "../model/units.ts";
import type { Residual } from "./residual.ts";

/** The part of a reading the predicate looks at. */
export interface MemoryView {
  readonly usedBytes: Bytes;
  readonly processes: readonly GpuProcess[];
}

/** Readings in a row that must agree. */
export const READINGS_IN_A_ROW = 2;

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
  { targets, residual, slackBytes }: {
    readonly targets: readonly number[];
    readonly residual: Residual;
    readonly slackBytes: Bytes;
  },
): boolean {
  let others = 0;
  for (const { pid, usedBytes } of view.processes) {
    if (targets.includes(pid)) {
      if (usedBytes !== 0) return false;
      // What had no bytes when the residual was taken is part of it, whatever the driver says of it now.
    } else if (!residual.blindPids.includes(pid)) {
      others += usedBytes ?? 0;
    }
  }
  return view.usedBytes - others <= residual.bytes + slackBytes;
}

/** True once a process whose bytes were never known has left: it took an unknown part of the residual with it. */
export function isResidualVoid(view: MemoryView, residual: Residual): boolean {
  return residual.blindPids.some((pid) => !view.processes.some((process) => process.pid === pid));
}
