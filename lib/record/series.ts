import type { DatabaseSync } from "node:sqlite";
import type { Metric, Series, SeriesLine, SeriesQuery } from "../model/analytics.ts";
import { type Grain, GRAIN_S, GRAIN_TABLE } from "./roll_ups.ts";

/** Each metric's column, and what a whole number of it is worth. */
const SOURCES: Readonly<Record<Metric, { readonly column: string; readonly worth: number }>> = {
  vram_used_gb: { column: "vram_used_mib", worth: 1 / 1_024 },
  ollama_gb: { column: "ollama_mib", worth: 1 / 1_024 },
  comfyui_gb: { column: "comfy_mib", worth: 1 / 1_024 },
  desktop_gb: { column: "desktop_mib", worth: 1 / 1_024 },
  unmanaged_gb: { column: "unmanaged_mib", worth: 1 / 1_024 },
  unaccounted_gb: { column: "unaccounted_mib", worth: 1 / 1_024 },
  gpu_util_pct: { column: "gpu_util_pct", worth: 1 },
  memory_util_pct: { column: "memory_util_pct", worth: 1 },
  temperature_c: { column: "temperature_c", worth: 1 },
  memory_temperature_c: { column: "memory_temperature_c", worth: 1 },
  power_w: { column: "power_dw", worth: 0.1 },
  power_limit_w: { column: "power_limit_dw", worth: 0.1 },
  fan_pct: { column: "fan_pct", worth: 1 },
  graphics_mhz: { column: "graphics_mhz", worth: 1 },
  memory_mhz: { column: "memory_mhz", worth: 1 },
  pcie_rx_mbps: { column: "pcie_rx_mbps", worth: 1 },
  pcie_tx_mbps: { column: "pcie_tx_mbps", worth: 1 },
  ram_used_gb: { column: "ram_used_mib", worth: 1 / 1_024 },
  ram_cached_gb: { column: "ram_cached_mib", worth: 1 / 1_024 },
  ram_available_gb: { column: "ram_available_mib", worth: 1 / 1_024 },
  comfy_queue: { column: "comfy_queue", worth: 1 },
};

/** What may be read, in rows of four figures, before a coarser grain is taken: it is sorted on its way. */
const MOST_WORK: Readonly<Record<Grain, number>> = { raw: 40_000, minute: 40_000, hour: Infinity };
/** Figures in one answer: what carries them and checks them in the service's own thread must stay short. */
const MOST_FIGURES = 12_000;
const GRAINS: readonly Grain[] = ["raw", "minute", "hour"];

/** Least, average and most of each metric a bucket: from the coarsest rows that are fine enough, and still kept. */
export function readSeries(db: DatabaseSync, query: SeriesQuery): Series {
  const { metrics } = query;
  const span = { from: Math.floor(query.fromMs / 1_000), to: Math.ceil(query.toMs / 1_000) };
  const points = Math.max(2, Math.min(query.points, Math.floor(MOST_FIGURES / metrics.length)));
  const grain = pickGrain(db, { ...span, points, metrics: metrics.length });
  const grid = bucketsOf(span, points, GRAIN_S[grain]);
  const lines = new Lines(metrics, grid);
  for (const part of partsOf(db, grain, grid)) addPart(db, lines, part);
  return {
    grain,
    bucketMs: grid.bucketS * 1_000,
    atMs: Array.from({ length: grid.count }, (_, at) => (grid.start + at * grid.bucketS) * 1_000),
    lines: lines.finished(),
  };
}

interface Span {
  readonly from: number;
  readonly to: number;
}

function pickGrain(
  db: DatabaseSync,
  { from, to, points, metrics }: Span & { readonly points: number; readonly metrics: number },
): Grain {
  const oldest = (grain: Grain) =>
    Number(db.prepare(`SELECT min(second) AS second FROM ${GRAIN_TABLE[grain]}`).get()?.["second"] ?? Infinity);
  const wantedS = (to - from) / points;
  const fits = GRAINS.filter((grain, at) => {
    const coarser = GRAINS[at + 1];
    if (coarser === undefined) return true;
    if (GRAIN_S[coarser] <= wantedS) return false;
    if ((to - from) / GRAIN_S[grain] * (1 + metrics / 4) > MOST_WORK[grain]) return false;
    // Finer rows are kept for less time: an old span has only the coarser ones left.
    return Math.max(from, oldest(coarser) + GRAIN_S[coarser]) >= oldest(grain);
  });
  return fits[0] ?? "hour";
}

interface Grid {
  readonly start: number;
  readonly bucketS: number;
  readonly count: number;
}

/** Buckets of whole rows, on a grid that doesn't move with the span: zooming shows the same buckets again. */
function bucketsOf({ from, to }: Span, points: number, grainS: number): Grid {
  let bucketS = Math.max(grainS, Math.ceil((to - from) / points / grainS) * grainS);
  for (;;) {
    const start = from - from % bucketS;
    const count = Math.max(1, Math.ceil((to - start) / bucketS));
    if (count <= points) return { start, bucketS, count };
    bucketS += grainS;
  }
}

interface Part extends Span {
  readonly grain: Grain;
}

/** The span from the grain as far as it has been made, and the newest of it from the finer ones. */
function partsOf(db: DatabaseSync, grain: Grain, { start, bucketS, count }: Grid): readonly Part[] {
  const done = (name: Grain) =>
    name === "raw"
      ? Infinity
      : Number(db.prepare("SELECT second FROM roll_up_done WHERE grain = ?").get(name)?.["second"] ?? 0);
  const end = start + bucketS * count;
  const parts: Part[] = [];
  let from = start;
  for (const name of GRAINS.slice(0, GRAINS.indexOf(grain) + 1).toReversed()) {
    const to = Math.min(end, done(name));
    if (to <= from) continue;
    parts.push({ grain: name, from, to });
    from = to;
  }
  return parts;
}

/** One array a figure, as JSON: a row object for every bucket takes SQLite's binding twenty times as long. */
function addPart(db: DatabaseSync, lines: Lines, { grain, from, to }: Part): void {
  const { bucketS } = lines.grid;
  // A bucket of one row needs no grouping, and the sorting that it takes.
  const isSingle = bucketS === GRAIN_S[grain];
  const figures = lines.metrics.flatMap((metric, at) => {
    const { column } = SOURCES[metric];
    const [low, average10, high] = grain === "raw"
      ? [column, `${column} * 10`, column]
      : [`${column}_min`, `${column}_avg10`, `${column}_max`];
    return isSingle
      ? [`${low} AS l${at}`, `${average10} AS a${at}`, `${high} AS h${at}`]
      : [`min(${low}) AS l${at}`, `round(avg(${average10}), 2) AS a${at}`, `max(${high}) AS h${at}`];
  });
  const seconds = grain === "raw" ? "1" : "n";
  const names = ["bucket", "n", ...lines.metrics.flatMap((_, at) => [`l${at}`, `a${at}`, `h${at}`])];
  const row = db.prepare(
    `SELECT ${names.map((name) => `json_group_array(${name}) AS ${name}`).join(", ")} FROM (
       SELECT second / ${bucketS} AS bucket, ${isSingle ? seconds : `sum(${seconds})`} AS n, ${figures.join(", ")}
       FROM ${GRAIN_TABLE[grain]} WHERE second >= ? AND second < ? ${isSingle ? "" : "GROUP BY 1"})`,
  ).get(from, to);
  const list = (name: string): readonly (number | null)[] => JSON.parse(String(row?.[name] ?? "[]"));
  lines.add({ buckets: list("bucket"), seconds: list("n"), list });
}

interface Cells {
  readonly low: Float64Array;
  readonly high: Float64Array;
  /** Of tenths. */
  readonly sum: Float64Array;
  /** Seconds behind the sum. */
  readonly n: Float64Array;
}

/** Every bucket of every metric, added up from one or more parts. */
class Lines {
  readonly metrics: readonly Metric[];
  readonly grid: Grid;
  readonly #cells: readonly Cells[];

  constructor(metrics: readonly Metric[], grid: Grid) {
    this.metrics = metrics;
    this.grid = grid;
    this.#cells = metrics.map(() => ({
      low: new Float64Array(grid.count).fill(Infinity),
      high: new Float64Array(grid.count).fill(-Infinity),
      sum: new Float64Array(grid.count),
      n: new Float64Array(grid.count),
    }));
  }

  add({ buckets, seconds, list }: {
    readonly buckets: readonly (number | null)[];
    readonly seconds: readonly (number | null)[];
    readonly list: (name: string) => readonly (number | null)[];
  }): void {
    const first = this.grid.start / this.grid.bucketS;
    this.#cells.forEach(({ low, high, sum, n }, metric) => {
      const [lows, averages, highs] = [list(`l${metric}`), list(`a${metric}`), list(`h${metric}`)];
      buckets.forEach((bucket, at) => {
        const [least, average10, most] = [lows[at] ?? null, averages[at] ?? null, highs[at] ?? null];
        if (bucket === null || least === null || average10 === null || most === null) return;
        const index = bucket - first;
        const weight = seconds[at] ?? 0;
        low[index] = Math.min(low[index] ?? Infinity, least);
        high[index] = Math.max(high[index] ?? -Infinity, most);
        sum[index] = (sum[index] ?? 0) + average10 * weight;
        n[index] = (n[index] ?? 0) + weight;
      });
    });
  }

  finished(): Series["lines"] {
    return Object.fromEntries(this.metrics.flatMap((metric, at): [Metric, SeriesLine][] => {
      const cells = this.#cells[at];
      if (cells === undefined) return [];
      const { low, high, sum, n } = cells;
      const { worth } = SOURCES[metric];
      const shown = (values: Float64Array, scale: (bucket: number) => number) =>
        Array.from(
          values,
          (value, bucket) => (n[bucket] ?? 0) === 0 ? null : Math.round(value / scale(bucket) * worth * 1_000) / 1_000,
        );
      const whole = () => 1;
      const avg = shown(sum, (bucket) => (n[bucket] ?? 1) * 10);
      return [[metric, { min: shown(low, whole), avg, max: shown(high, whole) }]];
    }));
  }
}
