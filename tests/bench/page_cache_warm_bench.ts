import { type Bench, type Figure, quantile } from "../tasks/figures.ts";
import { FILE_BYTES, ran, type WarmBench, warmBench } from "./page_cache_file.ts";
import { AT_FULL_SPEED, comparisons, ROUNDS, rounds } from "./page_cache_rounds.ts";

const TICK_MS = 5;

/** Between two ticks of a 5 ms timer, beyond those 5 ms, while something goes on. */
async function gaps(during: () => Promise<unknown>): Promise<number[]> {
  const found: number[] = [];
  let last = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    found.push(Math.max(0, now - last - TICK_MS));
    last = now;
  }, TICK_MS);
  await during();
  clearInterval(timer);
  return found;
}

async function loopGaps(given: WarmBench): Promise<Figure[]> {
  const warming: number[] = [];
  const idle: number[] = [];
  for (let round = 0; round < 5; round++) {
    given.file.evict();
    warming.push(...await gaps(() => given.warm({ bytesPerS: AT_FULL_SPEED })));
    given.file.evict();
    idle.push(...await gaps(() => ran(`dd if=${given.file.path} of=/dev/null bs=1M status=none`)));
  }
  const [while99, control99] = [quantile(warming, 0.999), quantile(idle, 0.999)];
  const beyond = while99 === null || control99 === null ? null : Math.max(0, while99 - control99);
  const unit = "ms at p99.9";
  return [
    { name: "event loop: gap while warming", value: while99, unit, bar: null, n: warming.length },
    { name: "event loop: gap while dd reads instead (control)", value: control99, unit, bar: null, n: idle.length },
    { name: "event loop: gap beyond the control's", value: beyond, unit, bar: { atMost: 20 }, n: warming.length },
  ];
}

export const bench: Bench = {
  name: "page_cache_warm",
  about: "a cold 2 GiB file warmed by us and by others in turn, on this disk",
  async measure() {
    await using given = await warmBench(FILE_BYTES);
    const bars = { "best of dd, dd direct, fio": 0.9, cat: 1.2, "vmtouch -t": 1 };
    return [...comparisons(await rounds(given, ROUNDS), "this disk", bars), ...await loopGaps(given)];
  },
};
