import type { Bench } from "../tasks/figures.ts";
import { smallReadAhead } from "./page_cache_read_ahead_bench.ts";

export const bench: Bench = {
  name: "page_cache_fast_disk",
  about: "the same with its image in memory: a disk that is never what holds the reading up",
  measure: async () => [
    ...await smallReadAhead({ dir: "/dev/shm", scheduler: "none" }, "memory"),
    ...await smallReadAhead({ dir: "/dev/shm", scheduler: "mq-deadline" }, "memory"),
  ],
};
