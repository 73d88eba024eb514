/** A cold file warmed by us and by others in turn: how fast, and on how much CPU. */
import { type Figure, median } from "../tasks/figures.ts";
import { FILE_BYTES, has, ran, type WarmBench } from "./page_cache_file.ts";
import { withMemoryKept } from "./page_cache_memory.ts";

export const ROUNDS = 5;
/** Giving way to others is another bench's subject, and on a shared machine there are always some. */
export const AT_FULL_SPEED = 1e12;

interface Round {
  readonly ms: Readonly<Record<string, number>>;
  readonly cpuMs: Readonly<Record<string, number>>;
}

interface Rival {
  readonly program: string;
  /** What it is called with, by a shell. */
  readonly args: string;
}

/** What it is compared with, each over a cold file. */
function rivals(path: string): Readonly<Record<string, Rival>> {
  return {
    dd: { program: "dd", args: `if=${path} of=/dev/null bs=1M status=none` },
    // How fast the disk is past the cache; what comes in by it isn't resident.
    "dd direct": { program: "dd", args: `if=${path} of=/dev/null bs=16M iflag=direct status=none` },
    fio: {
      program: "fio",
      args: `--name=seq --filename=${path} --readonly --rw=read --bs=1M --ioengine=psync --invalidate=0 --minimal`,
    },
    cat: { program: "cat", args: `${path} > /dev/null` },
    vmtouch: { program: "vmtouch", args: `-q -t ${path}` },
  };
}

async function installed(path: string, names: readonly string[] | undefined): Promise<Turn[]> {
  const wanted = Object.entries(rivals(path)).filter(([name]) => names?.includes(name) ?? true);
  const all = await Promise.all(
    wanted.map(async ([name, { program, args }]) => await has(program) ? [[name, `${program} ${args}`] as const] : []),
  );
  return all.flat();
}

/** Ours and theirs (default all), each from cold, in another order each time: what follows upon what matters. */
export async function rounds(given: WarmBench, count: number, names?: readonly string[]): Promise<Round[]> {
  const turns = [["ours", ""] as const, ...await installed(given.file.path, names)];
  return await withMemoryKept(() => inTurn(given, count, turns));
}

type Turn = readonly [name: string, line: string];

async function inTurn(given: WarmBench, count: number, turns: readonly Turn[]): Promise<Round[]> {
  const done: Round[] = [];
  for (let round = 0; round < count; round++) {
    const ms: Record<string, number> = {};
    const cpuMs: Record<string, number> = {};
    for (const [name, line] of shuffled(turns)) {
      given.file.evict();
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

/** How many times as fast we are as the best of them, each taken at its median. */
function timesAsFast(done: readonly Round[], names: readonly string[]): number | null {
  const middle = (name: string) => median(done.flatMap(({ ms }) => ms[name] ?? []));
  const theirs = names.flatMap((name) => middle(name) ?? []);
  const ours = middle("ours");
  return ours === null || theirs.length === 0 ? null : Math.min(...theirs) / ours;
}

/** The same against whichever of them a round was kindest to: on a disk that varies, the luckiest of several draws. */
function timesAsFastAsLuckiest(done: readonly Round[], names: readonly string[]): number | null {
  return median(done.flatMap(({ ms }) => {
    const theirs = names.flatMap((name) => ms[name] ?? []);
    return ms["ours"] === undefined || theirs.length === 0 ? [] : [Math.min(...theirs) / ms["ours"]];
  }));
}

export function comparisons(done: readonly Round[], where: string, bars: Readonly<Record<string, number>>): Figure[] {
  const note = where;
  const n = done.length;
  const speeds = ["ours", "dd", "dd direct", "fio", "cat", "vmtouch"].flatMap((name): Figure[] => {
    const middle = median(done.flatMap(({ ms }) => ms[name] ?? []));
    if (middle === null) return [];
    return [{ name: `warm: ${name}`, value: FILE_BYTES / middle / 1e6, unit: "GB/s", bar: null, n, note }];
  });
  const groups = {
    "best of dd, dd direct, fio": ["dd", "dd direct", "fio"],
    cat: ["cat"],
    "vmtouch -t": ["vmtouch"],
  };
  const ratios = Object.entries(groups).map(([name, names]): Figure => {
    const atLeast = bars[name];
    const bar = atLeast === undefined ? null : { atLeast };
    return { name: `warm: speed against ${name}`, value: timesAsFast(done, names), unit: "×", bar, n, note };
  });
  const best = groups["best of dd, dd direct, fio"];
  const luckiest: Figure = {
    name: "warm: speed against the luckiest of the three each round",
    value: timesAsFastAsLuckiest(done, best),
    unit: "×",
    bar: null,
    n,
    note,
  };
  const cpu = median(
    done.flatMap(({ cpuMs }) =>
      cpuMs["ours"] === undefined || cpuMs["vmtouch"] === undefined ? [] : [cpuMs["ours"] / cpuMs["vmtouch"]]
    ),
  );
  return [
    ...speeds,
    ...ratios,
    luckiest,
    { name: "warm: CPU against vmtouch -t", value: cpu, unit: "×", bar: { atMost: 0.3 }, n, note },
  ];
}
