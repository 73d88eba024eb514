import type { DatabaseSync, StatementSync } from "node:sqlite";
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

/** Rows times metrics that are read at most before a coarser grain is taken: about 60 ms each. */
const MOST_CELLS: Readonly<Record<Grain, number>> = { raw: 250_000, minute: 120_000, hour: Infinity };
const GRAINS: readonly Grain[] = ["raw", "minute", "hour"];

/** Least, average and most of each metric a bucket: from the coarsest rows that are fine enough, and still kept. */
export function readSeries(db: DatabaseSync, query: SeriesQuery): Series {
  const span = { from: Math.floor(query.fromMs / 1_000), to: Math.ceil(query.toMs / 1_000) };
  const grain = pickGrain(db, { ...span, points: query.points, metrics: query.metrics.length });
  const { start, bucketS, count } = bucketsOf(span, query.points, GRAIN_S[grain]);
  const reader = new BucketReader(db, grain, query.metrics);
  const starts = Array.from({ length: count }, (_, at) => start + at * bucketS);
  const buckets = starts.map((second) => reader.read(second, second + bucketS));
  const lines = query.metrics.map((metric, at): [Metric, SeriesLine] => {
    const { worth } = SOURCES[metric];
    const pick = (of: (cell: Cell) => number | null) =>
      buckets.map((cells) => {
        const value = of(cells[at] ?? NOTHING);
        return value === null ? null : Math.round(value * worth * 1_000) / 1_000;
      });
    const avg = pick(({ sum, n }) => n === 0 ? null : sum / n);
    return [metric, { min: pick(({ min }) => min), avg, max: pick(({ max }) => max) }];
  });
  return {
    grain,
    bucketMs: bucketS * 1_000,
    atMs: starts.map((second) => second * 1_000),
    lines: Object.fromEntries(lines),
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
    if ((to - from) / GRAIN_S[grain] * metrics > MOST_CELLS[grain]) return false;
    // Finer rows are kept for less time: an old span has only the coarser ones left.
    return Math.max(from, oldest(coarser) + GRAIN_S[coarser]) >= oldest(grain);
  });
  return fits[0] ?? "hour";
}

/** Buckets of whole rows, on a grid that doesn't move with the span: zooming shows the same buckets again. */
function bucketsOf({ from, to }: Span, points: number, grainS: number) {
  let bucketS = Math.max(grainS, Math.ceil((to - from) / points / grainS) * grainS);
  for (;;) {
    const start = from - from % bucketS;
    const count = Math.max(1, Math.ceil((to - start) / bucketS));
    if (count <= points) return { start, bucketS, count };
    bucketS += grainS;
  }
}

interface Cell {
  readonly min: number | null;
  readonly max: number | null;
  readonly sum: number;
  /** Seconds behind the sum. */
  readonly n: number;
}

const NOTHING: Cell = { min: null, max: null, sum: 0, n: 0 };

/** Reads buckets from one grain, and what that grain doesn't have yet from the finer ones. */
class BucketReader {
  readonly #levels: readonly { readonly done: number; readonly statement: StatementSync }[];
  readonly #metrics: number;

  constructor(db: DatabaseSync, grain: Grain, metrics: readonly Metric[]) {
    const done = (name: Grain) =>
      name === "raw"
        ? Infinity
        : Number(db.prepare("SELECT second FROM roll_up_done WHERE grain = ?").get(name)?.["second"] ?? 0);
    this.#metrics = metrics.length;
    this.#levels = GRAINS.slice(0, GRAINS.indexOf(grain) + 1).toReversed().map((name) => ({
      done: done(name),
      statement: db.prepare(
        `SELECT ${metrics.map((metric, at) => cellSql(SOURCES[metric].column, name, at)).join(", ")}
         FROM ${GRAIN_TABLE[name]} WHERE second >= ? AND second < ?`,
      ),
    }));
  }

  /** One cell a metric, of [from, to). */
  read(from: number, to: number): readonly Cell[] {
    let cells: readonly Cell[] = Array<Cell>(this.#metrics).fill(NOTHING);
    let at = from;
    for (const { done, statement } of this.#levels) {
      if (at >= to) break;
      const end = Math.min(to, done);
      if (end <= at) continue;
      const row = statement.get(at, end) ?? {};
      cells = cells.map((cell, metric) => add(cell, cellOf(row, metric)));
      at = end;
    }
    return cells;
  }
}

/** Sums of tenths, so that both kinds of rows add up. */
function cellSql(column: string, grain: Grain, at: number): string {
  return grain === "raw"
    ? `min(${column}) AS l${at}, sum(${column}) * 10 AS s${at}, count(${column}) AS n${at}, max(${column}) AS h${at}`
    : `min(${column}_min) AS l${at}, sum(${column}_avg10 * n) AS s${at},
       sum(CASE WHEN ${column}_avg10 IS NOT NULL THEN n END) AS n${at}, max(${column}_max) AS h${at}`;
}

function cellOf(row: Readonly<Record<string, unknown>>, at: number): Cell {
  const number = (name: string) => typeof row[name] === "number" ? row[name] : null;
  return {
    min: number(`l${at}`),
    max: number(`h${at}`),
    sum: (number(`s${at}`) ?? 0) / 10,
    n: number(`n${at}`) ?? 0,
  };
}

function add(a: Cell, b: Cell): Cell {
  if (b.n === 0) return a;
  if (a.n === 0) return b;
  return {
    min: Math.min(a.min ?? Infinity, b.min ?? Infinity),
    max: Math.max(a.max ?? -Infinity, b.max ?? -Infinity),
    sum: a.sum + b.sum,
    n: a.n + b.n,
  };
}
