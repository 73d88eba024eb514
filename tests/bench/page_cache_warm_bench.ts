import { type Bench, type Figure, median, quantile } from "../tasks/figures.ts";
import { FILE_BYTES, has, ran, type WarmBench, warmBench } from "./page_cache_file.ts";
import { onSmallReadAhead } from "./page_cache_loop.ts";

const ROUNDS = 5;
const TICK_MS = 5;
/** Giving way to others is another bench's subject, and on a shared machine there are always some. */
const AT_FULL_SPEED = 1e12;

interface Round {
  readonly ms: Readonly<Record<string, number>>;
  readonly cpuMs: Readonly<Record<string, number>>;
}

/** What it is compared with, each over a cold file. */
function rivals(path: string): Readonly<Record<string, string>> {
  return {
    dd: `dd if=${path} of=/dev/null bs=1M status=none`,
    // How fast the disk is past the cache; what comes in by it isn't resident.
    "dd direct": `dd if=${path} of=/dev/null bs=16M iflag=direct status=none`,
    fio: `fio --name=seq --filename=${path} --readonly --rw=read --bs=1M --ioengine=psync --invalidate=0 --minimal`,
    cat: `cat ${path} > /dev/null`,
    vmtouch: `vmtouch -q -t ${path}`,
  };
}

async function installed(path: string): Promise<[string, string][]> {
  const all = await Promise.all(
    Object.entries(rivals(path)).map(async ([name, line]) =>
      await has(line.split(" ")[0] ?? "") ? [[name, line] as [string, string]] : []
    ),
  );
  return all.flat();
}

/**
 * Memory that a virtual machine has given back to its host must be fetched again by whoever touches it first, which costs
 * more than the reading does: touched here, it is there for all of them.
 */
const fetchMemory = () => ran(`dd if=/dev/zero of=/dev/null bs=${Math.round(FILE_BYTES * 1.1)} count=1 status=none`);

/** Ours and theirs, each from cold, in another order each time: what follows upon what matters. */
async function rounds(given: WarmBench, count: number): Promise<Round[]> {
  const turns = [["ours", ""] as const, ...await installed(given.file.path)];
  const done: Round[] = [];
  for (let round = 0; round < count; round++) {
    const ms: Record<string, number> = {};
    const cpuMs: Record<string, number> = {};
    for (const [name, line] of shuffled(turns)) {
      given.file.evict();
      await fetchMemory();
      const one = name === "ours" ? await ourTurn(given) : await ran(line);
      ms[name] = one.ms;
      cpuMs[name] = one.cpuMs;
    }
    done.push({ ms, cpuMs });
  }
  return done;
}

async function ourTurn({ file, warm }: WarmBench): Promise<{ readonly ms: number; readonly cpuMs: number }> {
  const cpuBefore = file.pages.usage("process").cpuMs;
  const beganMs = performance.now();
  const outcome = await warm({ bytesPerS: AT_FULL_SPEED });
  const ms = performance.now() - beganMs;
  if (outcome.end !== "done") throw new Error(`Cannot bench: a warm ended ${outcome.end}: ${outcome.reason}`);
  return { ms, cpuMs: file.pages.usage("process").cpuMs - cpuBefore };
}

function shuffled<T>(items: readonly T[]): readonly T[] {
  return items.map((item) => ({ item, key: Math.random() })).sort((a, b) => a.key - b.key).map(({ item }) => item);
}

/** How many times as fast as `rival` (null: the fastest of some) each round was; the median. */
function timesAsFast(done: readonly Round[], names: readonly string[]): number | null {
  return median(done.flatMap(({ ms }) => {
    const theirs = names.flatMap((name) => ms[name] ?? []);
    return ms["ours"] === undefined || theirs.length === 0 ? [] : [Math.min(...theirs) / ms["ours"]];
  }));
}

function comparisons(done: readonly Round[], where: string, bars: Readonly<Record<string, number>>): Figure[] {
  const note = where;
  const n = done.length;
  const speeds = ["ours", "dd", "dd direct", "fio", "cat", "vmtouch"].map((name): Figure => {
    const middle = median(done.flatMap(({ ms }) => ms[name] ?? []));
    const value = middle === null ? null : FILE_BYTES / middle / 1e6;
    return { name: `warm: ${name}`, value, unit: "GB/s", bar: null, n, note };
  });
  const groups = { "best of dd, dd direct, fio": ["dd", "dd direct", "fio"], cat: ["cat"], "vmtouch -t": ["vmtouch"] };
  const ratios = Object.entries(groups).map(([name, names]): Figure => {
    const atLeast = bars[name];
    const bar = atLeast === undefined ? null : { atLeast };
    return { name: `warm: speed against ${name}`, value: timesAsFast(done, names), unit: "×", bar, n, note };
  });
  const cpu = median(
    done.flatMap(({ cpuMs }) =>
      cpuMs["ours"] === undefined || cpuMs["vmtouch"] === undefined ? [] : [cpuMs["ours"] / cpuMs["vmtouch"]]
    ),
  );
  return [
    ...speeds,
    ...ratios,
    { name: "warm: CPU against vmtouch -t", value: cpu, unit: "×", bar: { atMost: 0.3 }, n, note },
  ];
}

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
  about: "a cold 2 GiB file warmed by us and by others in turn, on this disk and with a read-ahead of 128 KiB",
  async measure() {
    const figures: Figure[] = [];
    {
      await using given = await warmBench(FILE_BYTES);
      const bars = { "best of dd, dd direct, fio": 0.9, cat: 1.2, "vmtouch -t": 1 };
      figures.push(...comparisons(await rounds(given, ROUNDS), "this disk", bars), ...await loopGaps(given));
    }
    const note = "read-ahead 128 KiB (ext4 on a loop)";
    const small = await onSmallReadAhead(FILE_BYTES, async (folder) => {
      await using given = await warmBench(FILE_BYTES, folder);
      return comparisons(await rounds(given, 5), note, { "vmtouch -t": 2 });
    });
    if (typeof small !== "string") return [...figures, ...small];
    const missing = { value: null, unit: "×", bar: { atLeast: 2 }, n: 0, note: small };
    return [...figures, { name: "warm: speed against vmtouch -t, read-ahead 128 KiB", ...missing }];
  },
};
