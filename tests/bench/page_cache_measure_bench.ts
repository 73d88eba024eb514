import type { MeasuredResidency } from "../../lib/model/page_cache.ts";
import { GIB, MIB } from "../../lib/model/units.ts";
import { systemClock } from "../../lib/system/clock.ts";
import { connectPageCache } from "../../lib/workers/page_cache_client.ts";
import { type CachedFile, cachedFile, range } from "../sample/cached_file.ts";
import { stranger, whyNoStranger } from "../sample/stranger.ts";
import { type Bench, type Figure, median, quantile } from "../tasks/figures.ts";
import { has, ran } from "./page_cache_file.ts";

const FILES = 1_000;
/** 264 GiB in all. */
const SPARSE_BYTES = 264 * GIB / FILES;
const SCANS = 5;
const TRIALS = 52;

async function scans(): Promise<Figure[]> {
  const folder = await Deno.realPath(await Deno.makeTempDir({ dir: "/var/tmp", prefix: "hyperswap_sparse_" }));
  const cache = connectPageCache({ clock: systemClock() });
  try {
    const paths = Array.from({ length: FILES }, (_, at) => `${folder}/${at}`);
    for (const path of paths) {
      await Deno.writeTextFile(path, "");
      await Deno.truncate(path, Math.floor(SPARSE_BYTES));
    }
    // Some of them in memory, so that there's something to count.
    for (const path of paths.slice(0, 6)) await ran(`head -c 100M ${path} > /dev/null`);
    const rivals = { vmtouch: `vmtouch ${folder}`, fincore: `fincore --bytes --noheadings ${folder}/*` };
    const ms: Record<string, number[]> = { ours: [], vmtouch: [], fincore: [] };
    let residentBytes = 0;
    await cache.measure(paths, { roots: [folder] });
    for (let scan = 0; scan < SCANS; scan++) {
      const beganMs = performance.now();
      const found = await cache.measure(paths, { roots: [folder] });
      ms["ours"]?.push(performance.now() - beganMs);
      residentBytes = found.reduce((sum, one) => sum + (one.kind === "measured" ? one.residentBytes : NaN), 0);
      for (const [name, line] of Object.entries(rivals)) {
        if (await has(name)) ms[name]?.push((await ran(line)).ms);
      }
    }
    const figures = ["ours", "vmtouch", "fincore"].map((name): Figure => ({
      name: `scan of 1,000 sparse files, 264 GiB: ${name}`,
      value: median(ms[name] ?? []),
      unit: "ms",
      bar: null,
      n: SCANS,
    }));
    const times = (name: string): Figure => {
      const value = median((ms[name] ?? []).map((theirs, at) => theirs / (ms["ours"]?.[at] ?? NaN)));
      return { name: `scan: times as fast as ${name}`, value, unit: "×", bar: { atLeast: 20 }, n: SCANS };
    };
    const counted = { name: "scan: resident, counted", value: residentBytes / MIB, unit: "MiB", n: SCANS };
    return [...figures, times("vmtouch"), times("fincore"), { ...counted, bar: null, note: "600 MiB were read in" }];
  } finally {
    await cache.close();
    await Deno.remove(folder, { recursive: true });
  }
}

/** 30 % of a file, each time differently spread. */
const PATTERNS: Readonly<Record<string, (pages: number) => Iterable<number>>> = {
  head: (pages) => range(0, Math.round(pages * 0.3)),
  tail: (pages) => range(Math.round(pages * 0.7), pages),
  *stripes(pages) {
    for (let from = 0; from < pages; from += 5_120) yield* range(from, Math.min(pages, from + 1_536));
  },
  *random(pages) {
    for (let page = 0; page < pages; page++) if (Math.random() < 0.3) yield page;
  },
};

interface Trial {
  readonly errorPoints: number;
  readonly isCovered: boolean;
  readonly isAll: boolean;
  readonly method: string;
  readonly reportedShare: number;
  /** What was resident afterwards beyond what was before. */
  readonly leftShare: number;
}

async function trials(file: CachedFile): Promise<Trial[]> {
  using nobody = await stranger();
  const pages = file.sizeBytes / file.pages.pageSizeBytes;
  const done: Trial[] = [];
  for (const pattern of Object.values(PATTERNS)) {
    file.evict();
    file.load(pattern(pages));
    for (let trial = 0; trial < TRIALS; trial++) {
      const truth = file.resident() / pages;
      const [residency] = await nobody.ask({
        path: file.path,
        question: { roots: [file.folder], purpose: "figure" },
        times: 1,
      });
      if (residency?.kind !== "measured") throw new Error(`Cannot bench: ${residency?.reason}`);
      done.push(judged(residency, truth, file.resident() / pages));
    }
  }
  return done;
}

function judged(residency: MeasuredResidency, truth: number, after: number): Trial {
  const { share, low, high, method, disturbance, sizeBytes } = residency;
  return {
    errorPoints: Math.abs(share - truth) * 100,
    isCovered: low <= truth && truth <= high,
    isAll: high === 1,
    method,
    reportedShare: disturbance.readBytes / sizeBytes,
    leftShare: Math.abs(after - truth),
  };
}

async function sampling(): Promise<Figure[]> {
  const reason = whyNoStranger();
  if (reason !== null) {
    return [{ name: "sampled: error", value: null, unit: "points", bar: { atMost: 3.5 }, n: 0, note: reason }];
  }
  await using file = await cachedFile({ sizeBytes: GIB });
  const all = await trials(file);
  const n = all.length;
  const note = `head, tail, stripes, random; by ${[...new Set(all.map(({ method }) => method))].join(", ")}`;
  const share = (of: (trial: Trial) => boolean) => all.filter(of).length / n;
  return [
    {
      name: "sampled: error of 1,024 pages of 1 GiB at p95",
      value: quantile(all.map(({ errorPoints }) => errorPoints), 0.95),
      unit: "points",
      bar: { atMost: 3.5 },
      n,
      note,
    },
    {
      name: "sampled: truth inside the interval",
      value: share(({ isCovered }) => isCovered),
      unit: "×",
      bar: { atLeast: 0.97 },
      n,
    },
    { name: "sampled: called all resident", value: share(({ isAll }) => isAll), unit: "×", bar: { atMost: 0 }, n },
    {
      name: "sampled: read by the probe, as reported, at most",
      value: (quantile(all.map(({ reportedShare }) => reportedShare), 1) ?? NaN) * 100,
      unit: "% of the file",
      bar: { atMost: 1 },
      n,
    },
    {
      name: "sampled: left of it, by the kernel's count, at most",
      value: (quantile(all.map(({ leftShare }) => leftShare), 1) ?? NaN) * 100,
      unit: "% of the file",
      bar: { atMost: 1 },
      n,
    },
  ];
}

export const bench: Bench = {
  name: "page_cache_measure",
  about: "a scan of many files against vmtouch and fincore in turn; a stranger's file 30 % in memory, sampled",
  measure: async () => [...await scans(), ...await sampling()],
};
