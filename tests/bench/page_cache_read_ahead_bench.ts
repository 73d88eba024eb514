import type { Bench } from "../tasks/figures.ts";
import { FILE_BYTES, warmBench } from "./page_cache_file.ts";
import { onSmallReadAhead } from "./page_cache_loop.ts";
import { comparisons, ROUNDS, rounds } from "./page_cache_rounds.ts";

export const bench: Bench = {
  name: "page_cache_read_ahead",
  about: "a cold 2 GiB file warmed by us and by others in turn, with a read-ahead of 128 KiB",
  async measure() {
    const note = "read-ahead 128 KiB (ext4 on a loop)";
    const figures = await onSmallReadAhead(FILE_BYTES, async (folder) => {
      await using given = await warmBench(FILE_BYTES, folder);
      return comparisons(await rounds(given, ROUNDS), note, { "vmtouch -t": 2 });
    });
    if (typeof figures !== "string") return figures;
    return [{
      name: "warm: speed against vmtouch -t, read-ahead 128 KiB",
      value: null,
      unit: "×",
      bar: { atLeast: 2 },
      n: 0,
      note: figures,
    }];
  },
};
