import { GIB, MIB } from "../../lib/model/units.ts";
import { type Bench, type Figure, median, quantile } from "../tasks/figures.ts";
import { cachedFile } from "../sample/cached_file.ts";
import { FILE_BYTES, foreground, has, ran, type WarmBench, warmBench, warmOn } from "./page_cache_file.ts";

const PAIRS = 5;
const SECONDS = 4;
const CANCELS = 20;
/** One chunk, and the read-ahead that the kernel had in flight. */
const FOLLOWS_BYTES = 8 * MIB + 16 * MIB;

const settled = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

interface Pair {
  readonly alone: number;
  readonly beside: number;
  readonly warmedGbPerS: number;
  /** From the reader's end until the warm was at full speed; null = not within 4 s. */
  readonly backAfterMs: number | null;
}

/** A reader alone, then the same beside a warm that goes on after it. */
async function pair(given: WarmBench, path: string): Promise<Pair> {
  const alone = await foreground(path, SECONDS);
  const stop = new AbortController();
  const warming = warmOn(given, stop.signal);
  const beganMs = performance.now();
  const beside = await foreground(path, SECONDS);
  const endedMs = performance.now();
  let backAfterMs: number | null = null;
  while (backAfterMs === null && performance.now() - endedMs < 4_000) {
    if (given.cache.queue()[0]?.pace === "full") backAfterMs = performance.now() - endedMs;
    else await settled(10);
  }
  stop.abort();
  const bytes = await warming;
  return {
    alone: alone.iops,
    beside: beside.iops,
    warmedGbPerS: bytes / (performance.now() - beganMs) / 1e6,
    backAfterMs,
  };
}

async function readers(given: WarmBench, path: string, note: string): Promise<Figure[]> {
  const pairs: Pair[] = [];
  for (let round = 0; round < PAIRS; round++) pairs.push(await pair(given, path));
  const n = pairs.length;
  const back = pairs.flatMap(({ backAfterMs }) => backAfterMs ?? []);
  const share = median(pairs.map(({ alone, beside }) => beside / alone));
  return [
    {
      name: "polite: reader's IOPS alone",
      value: median(pairs.map(({ alone }) => alone)),
      unit: "IOPS",
      bar: null,
      n,
      note,
    },
    { name: "polite: of them left beside a warm", value: share, unit: "×", bar: { atLeast: 0.8 }, n, note },
    {
      name: "polite: warmed meanwhile and after",
      value: median(pairs.map(({ warmedGbPerS }) => warmedGbPerS)),
      unit: "GB/s",
      bar: null,
      n,
      note,
    },
    {
      name: "polite: back at full speed after the reader's end",
      value: back.length === n ? Math.max(...back) : null,
      unit: "ms at most",
      bar: { atMost: 2_000 },
      n,
      note: back.length === n ? note : `${note}; others kept the disk busy in ${n - back.length} of ${n}`,
    },
  ];
}

interface Cancel {
  readonly acknowledgedMs: number;
  readonly followedBytes: number;
}

/** Cancels somewhere within a warm, and looks at what still comes in. */
async function cancel(given: WarmBench, bytesPerS: number): Promise<Cancel> {
  given.file.evict();
  const stop = new AbortController();
  let abortedMs = 0;
  const size = given.file.sizeBytes;
  const at = size * (0.1 + 0.3 * Math.random());
  const poll = setInterval(() => {
    if (abortedMs > 0 || (given.cache.queue()[0]?.doneBytes ?? 0) < Math.min(at, bytesPerS / 4)) return;
    abortedMs = performance.now();
    stop.abort();
  }, 3);
  await given.warm({ bytesPerS, signal: stop.signal });
  const acknowledgedMs = abortedMs === 0 ? 0 : performance.now() - abortedMs;
  const before = given.file.resident();
  clearInterval(poll);
  await settled(300);
  return { acknowledgedMs, followedBytes: (given.file.resident() - before) * given.file.pages.pageSizeBytes };
}

async function cancels(given: WarmBench): Promise<Figure[]> {
  const found: Figure[] = [];
  for (const [note, bytesPerS] of [["at full speed", 1e12], ["at 150 MB/s", 150e6]] as const) {
    const all: Cancel[] = [];
    for (let round = 0; round < CANCELS / 2; round++) all.push(await cancel(given, bytesPerS));
    const n = all.length;
    const followed = quantile(all.map(({ followedBytes }) => followedBytes / MIB), 1);
    found.push(
      {
        name: "cancel: acknowledged",
        value: quantile(all.map(({ acknowledgedMs }) => acknowledgedMs), 1),
        unit: "ms at most",
        bar: { atMost: 100 },
        n,
        note,
      },
      {
        name: "cancel: read after that",
        value: followed,
        unit: "MiB at most",
        bar: { atMost: FOLLOWS_BYTES / MIB },
        n,
        note,
      },
    );
  }
  return found;
}

/** With another I/O scheduler of the whole disk, put back afterwards; in words why not. */
async function withScheduler<T>(folder: string, scheduler: string, run: () => Promise<T>): Promise<T | string> {
  const line = `lsblk -no pkname,name "$(df --output=source ${folder} | tail -1)" | head -1 | awk '{print $1}'`;
  const disk = (await ran(line)).output.trim();
  const path = `/sys/block/${disk}/queue/scheduler`;
  const text = await Deno.readTextFile(path).catch(() => "");
  const [, present] = /\[(.+?)\]/.exec(text) ?? [];
  if (present === undefined) return `the scheduler of ${disk || "this disk"} can't be read`;
  if (present === scheduler) return await run();
  try {
    await Deno.writeTextFile(path, scheduler);
  } catch (error) {
    return `the scheduler of ${disk} is ${present} and can't be set: ${error instanceof Error ? error.message : error}`;
  }
  try {
    return await run();
  } finally {
    await Deno.writeTextFile(path, present);
  }
}

export const bench: Bench = {
  name: "page_cache_polite",
  about: "a reader of 4 KiB at random beside a default warm, alone and beside it in turn; cancels",
  async measure() {
    await using given = await warmBench(FILE_BYTES);
    await using read = await cachedFile({ sizeBytes: GIB });
    const figures = await cancels(given);
    if (!await has("fio")) {
      const missing = { value: null, unit: "×", bar: { atLeast: 0.8 }, n: 0, note: "fio is not installed" };
      return [...figures, { name: "polite: of the reader's IOPS left beside a warm", ...missing }];
    }
    figures.push(...await readers(given, read.path, "this disk's scheduler"));
    const none = await withScheduler(given.file.folder, "none", () => readers(given, read.path, "scheduler none"));
    if (typeof none !== "string") return [...figures, ...none];
    const missing = { value: null, unit: "×", bar: { atLeast: 0.8 }, n: 0, note: none };
    return [...figures, { name: "polite: scheduler none", ...missing }];
  },
};
