/** The record: what it takes on disk, what a write takes, what looking back over 30 days takes, and what kill -9 costs. */
import { METRIC_NAMES, type Series } from "../../lib/model/analytics.ts";
import { DEFAULT_RETENTION } from "../../lib/record/retention.ts";
import { StoreFile } from "../../lib/record/store_file.ts";
import { TELEMETRY_COLUMNS } from "../../lib/record/telemetry_table.ts";
import { systemClock } from "../../lib/system/clock.ts";
import { connectArchive } from "../../lib/workers/archive_client.ts";
import { AT_MS } from "../record/store_contract.ts";
import { busySecond } from "../record/busy_second.ts";
import { tempFolder } from "../record/temp_folder.ts";
import { type Bench, type Figure, median, quantile } from "../tasks/figures.ts";
import { killWriters } from "./kill_writers.ts";
import { makeMonth, MONTH_S } from "./month.ts";

const NEVER = new AbortController().signal;
const RUNS = 11;
const INSERTS = 20_000;
const KILLS = 50;
const COLUMNS = Object.keys(TELEMETRY_COLUMNS).length;

export const bench: Bench = {
  name: "history",
  about: `size over ${COLUMNS} columns of a busy card, single inserts, 30 days (${MONTH_S} rows), ${KILLS} kills`,
  async measure(): Promise<readonly Figure[]> {
    return [...size(), ...inserts(), ...await lookingBack(), ...await killWriters(KILLS)];
  },
};

function openFile(path: string): StoreFile {
  return new StoreFile(path, { clock: { wallMs: () => AT_MS }, retention: DEFAULT_RETENTION, onNote: console.error });
}

function bytesOf(hours: number, isSummedUp: boolean): number {
  using folder = tempFolder();
  const path = `${folder.path}/h.sqlite`;
  const file = openFile(path);
  for (let second = 0; second < hours * 3_600; second += 4) {
    file.writeTelemetry([0, 1, 2, 3].map((n) => busySecond(second + n)));
    if (isSummedUp && second % 60 === 0) file.rollUp();
  }
  // Closing is what checkpoints.
  file.close();
  return Deno.statSync(path).size;
}

function size(): Figure[] {
  const perHour = (isSummedUp: boolean) => (bytesOf(8, isSummedUp) - bytesOf(2, isSummedUp)) / 6;
  const [raw, all] = [perHour(false), perHour(true)];
  const n = 6 * 3_600;
  return [
    { name: "raw history", value: raw / 1e6, unit: "MB/h", bar: { atMost: 0.27 }, n },
    { name: "raw history, a column", value: raw / COLUMNS, unit: "bytes/h", bar: null, n, note: `${COLUMNS} columns` },
    { name: "with minutes and hours", value: all / 1e6, unit: "MB/h", bar: null, n },
  ];
}

function inserts(): Figure[] {
  using folder = tempFolder();
  const file = openFile(`${folder.path}/h.sqlite`);
  const took: number[] = [];
  for (let second = 0; second < INSERTS; second++) {
    const row = busySecond(second);
    const startedMs = performance.now();
    file.writeTelemetry([row]);
    took.push(performance.now() - startedMs);
    if (second % 60 === 0) file.rollUp();
  }
  file.close();
  return [
    { name: "insert, p50", value: median(took), unit: "ms", bar: null, n: INSERTS, note: "a transaction each" },
    { name: "insert, p99", value: quantile(took, 0.99), unit: "ms", bar: { atMost: 0.2 }, n: INSERTS },
  ];
}

async function lookingBack(): Promise<Figure[]> {
  using folder = tempFolder();
  const path = `${folder.path}/h.sqlite`;
  const endMs = AT_MS;
  const { rollUpMs } = makeMonth(path, endMs);
  // The service's own connection is open all the while.
  const file = openFile(path);
  file.status();
  const archive = connectArchive({ path, clock: systemClock() });
  const series =
    (days: number, points: number, metrics: readonly (typeof METRIC_NAMES)[number][]) => (): Promise<Series> =>
      archive.series({ metrics, fromMs: endMs - days * 86_400_000, toMs: endMs, points }, NEVER);
  const sinceMs = endMs - 30 * 86_400_000;
  const chart = ["ollama_gb", "comfyui_gb", "power_w", "temperature_c", "gpu_util_pct"] as const;
  const calls: Readonly<Record<string, () => Promise<unknown>>> = {
    "chart, 30 days, 5 figures": series(30, 600, chart),
    "chart, 30 days, all figures": series(30, 600, METRIC_NAMES),
    "series, 30 days, 5,000 points, 2 figures": series(30, 5_000, ["power_w", "temperature_c"]),
    "series, 30 days, 5,000 points, all figures": series(30, 5_000, METRIC_NAMES),
    "series, 7 days, 600 points, 5 figures": series(7, 600, chart),
    "series, 3 days, 5,000 points, 1 figure": series(3, 5_000, ["power_w"]),
    "series, 8 h, 600 points, 5 figures": series(8 / 24, 600, chart),
    "series, 1 h, 3,600 points, 5 figures": series(1 / 24, 3_600, chart),
    "profiles, 30 days": () => archive.profiles({ sinceMs }, NEVER),
    "swaps, 30 days": () => archive.swaps({ sinceMs }, NEVER),
    "model ranking, 30 days": () => archive.models({ sinceMs, nowMs: endMs }, NEVER),
  };
  // The Worker starts, and the file comes into the page cache.
  for (const call of Object.values(calls)) await call();
  const idle = await gapsDuring(() => systemClock().sleep(1_000));
  const figures: Figure[] = [];
  const busy = await gapsDuring(async () => {
    for (const [name, call] of Object.entries(calls)) {
      const took: number[] = [];
      for (let run = 0; run < RUNS; run++) {
        const startedMs = performance.now();
        await call();
        took.push(performance.now() - startedMs);
      }
      const atMost = name.startsWith("chart, 30 days") ? 60 : 100;
      figures.push({ name, value: median(took), unit: "ms", bar: { atMost }, n: RUNS });
    }
  });
  archive.close();
  file.close();
  const note = `control, idle: ${quantile(idle, 1)?.toFixed(1)} ms at most`;
  return [
    { name: "60 minutes summed up in a call", value: median(rollUpMs), unit: "ms", bar: null, n: rollUpMs.length },
    ...figures,
    {
      name: "event-loop gap meanwhile",
      value: quantile(busy, 1),
      unit: "ms",
      bar: { atMost: 20 },
      n: busy.length,
      note,
    },
  ];
}

/** How much later than due each turn of the event loop came while `work` ran. */
async function gapsDuring(work: () => Promise<unknown>): Promise<number[]> {
  const gaps: number[] = [];
  let lastMs = performance.now();
  const timer = setInterval(() => {
    const nowMs = performance.now();
    gaps.push(Math.max(0, nowMs - lastMs - 2));
    lastMs = nowMs;
  }, 2);
  await work();
  clearInterval(timer);
  return gaps;
}
