/** Who is on the card, and how much of it each one works. */
import type { DeviceHandle, Nvml, NvmlProcess, ProcessKind } from "../../ffi/nvml.ts";
import type { GpuProcess } from "../model/sample.ts";

const KINDS: readonly ProcessKind[] = ["compute", "graphics"];

/**
 * One row a pid. A process that computes and draws stands in both lists with figures of the same memory: the larger one
 * counts, never the sum.
 */
export function mergeProcesses(
  lists: Readonly<Partial<Record<ProcessKind, readonly NvmlProcess[]>>>,
): readonly GpuProcess[] {
  const rows = new Map<number, GpuProcess>();
  for (const kind of KINDS) {
    for (const { pid, usedBytes } of lists[kind] ?? []) {
      const known = rows.get(pid);
      const bytes = known === undefined ? usedBytes : larger(known.usedBytes, usedBytes);
      const kinds = known === undefined || known.kinds.includes(kind) ? [kind] : [...known.kinds, kind];
      rows.set(pid, { pid, usedBytes: bytes, kinds });
    }
  }
  return [...rows.values()];
}

function larger(a: number | null, b: number | null): number | null {
  return a === null || b === null ? a ?? b : Math.max(a, b);
}

/** SM utilisation by pid since `sinceUs`, and the newest stamp in it; the driver's clock is the wall clock in µs. */
export function readSmUtilization(
  nvml: Nvml,
  asked: { readonly device: DeviceHandle; readonly sinceUs: number; readonly processes: readonly GpuProcess[] | null },
): { readonly smPctByPid: Readonly<Record<number, number>>; readonly newestUs: number } {
  // The ring keeps rows of processes that are gone: only who is on the card counts.
  const present = asked.processes === null ? null : new Set(asked.processes.map((process) => process.pid));
  const newestByPid = new Map<number, number>();
  const smPctByPid: Record<number, number> = {};
  let newestUs = asked.sinceUs;
  for (const sample of nvml.processUtilization(asked.device, asked.sinceUs)) {
    if (present !== null && !present.has(sample.pid)) continue;
    newestUs = Math.max(newestUs, sample.timestampUs);
    if (sample.timestampUs < (newestByPid.get(sample.pid) ?? 0)) continue;
    newestByPid.set(sample.pid, sample.timestampUs);
    smPctByPid[sample.pid] = sample.smPct;
  }
  return { smPctByPid, newestUs };
}
