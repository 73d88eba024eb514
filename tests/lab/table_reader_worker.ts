/** Reads a GPU table from another thread, for gpu_table_test.ts. */
import { openGpuTable } from "../../lib/lab/gpu_table.ts";
import type { Nvml } from "../../ffi/nvml.ts";

export type Question = { readonly buffer: SharedArrayBuffer } | { readonly ask: "pairs" | "memory" };

let nvml: Nvml | null = null;

/** Looks until it has seen 50 different lists; each list of n rows has n in every row, or it was torn. */
function countTorn(card: Nvml): { torn: number; kinds: number } {
  const seen = new Set<number>();
  let torn = 0;
  while (seen.size < 50) {
    const rows = card.processes(1n, "compute");
    if (rows.some((row) => row.usedBytes !== rows.length)) torn += 1;
    seen.add(rows.length);
  }
  return { torn, kinds: seen.size };
}

self.addEventListener("message", ({ data }: MessageEvent<Question>) => {
  if ("buffer" in data) nvml = openGpuTable(data.buffer);
  if (nvml === null || !("ask" in data)) return;
  if (data.ask === "pairs") {
    self.postMessage(countTorn(nvml));
    return;
  }
  self.postMessage("asking");
  self.postMessage({ usedBytes: nvml.memory(1n).usedBytes });
});

self.postMessage("ready");
