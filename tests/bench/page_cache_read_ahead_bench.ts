import type { Bench, Figure } from "../tasks/figures.ts";
import { FILE_BYTES, warmBench } from "./page_cache_file.ts";
import { type LoopDisk, onLoopDisk } from "./page_cache_loop.ts";
import { comparisons, ROUNDS, rounds } from "./page_cache_rounds.ts";

/** Ours and vmtouch in turn on a disk with a read-ahead of 128 KiB; dd tells how fast that disk is. */
export async function smallReadAhead(disk: Omit<LoopDisk, "sizeBytes">, medium: string): Promise<Figure[]> {
  const note = `read-ahead 128 KiB, ${disk.scheduler}, ext4 on a loop device over ${medium}`;
  const figures = await onLoopDisk({ ...disk, sizeBytes: FILE_BYTES }, async (folder) => {
    await using given = await warmBench(FILE_BYTES, folder);
    return comparisons(await rounds(given, ROUNDS, ["vmtouch", "dd"]), note, { "vmtouch -t": 2 });
  });
  if (typeof figures !== "string") return figures;
  const name = "warm: speed against vmtouch -t";
  return [{ name, value: null, unit: "×", bar: { atLeast: 2 }, n: 0, note: `${note}: ${figures}` }];
}

export const bench: Bench = {
  name: "page_cache_read_ahead",
  about: "a cold 2 GiB file warmed by us and by vmtouch in turn, with a read-ahead of 128 KiB, on this disk",
  measure: () => smallReadAhead({ dir: "/var/tmp", scheduler: "none" }, "this disk"),
};
