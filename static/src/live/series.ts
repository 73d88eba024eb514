/** The last ten minutes, second by second, kept in this tab's session so that a refresh doesn't lose them. */
import { type ReadonlySignal, signal } from "@preact/signals";
import type { Stats } from "../../../lib/operations/stats.ts";
import { BUCKETS } from "../buckets.ts";

export const WINDOW_S = 600;
const KEY = "hyperswap.series.1";
/** A longer silence is drawn as a gap, not as a straight line that claims to know. */
const GAP_S = 3.5;
/** A refresh saves by itself (pagehide); this is for a page that ends without a word. */
const SAVE_EVERY_S = 20;

export const COLUMNS = [
  ...BUCKETS.map(({ key }) => key),
  "cache",
  "util",
  "temperature",
  "power",
  "fan",
] as const;
export type Column = typeof COLUMNS[number];

type Cells = Record<Column, (number | null)[]>;

interface Saved {
  readonly device: string | null;
  readonly t: number[];
  readonly cells: Cells;
}

export class Series {
  /** Unix seconds of each point, rising. */
  readonly t: number[] = [];
  readonly cells: Cells = emptyCells();
  readonly #revision = signal(0);
  #device: string | null = null;
  #savedAtS = 0;

  /** Goes up with every change of the arrays, which are mutated in place. */
  get revision(): ReadonlySignal<number> {
    return this.#revision;
  }

  push(stats: Stats): void {
    const t = stats.timestamp;
    if (stats.gpu.uuid !== this.#device) this.#start(stats.gpu.uuid);
    // A clock that was set back would put new points among the old ones.
    if (t < (this.t.at(-1) ?? t) - GAP_S) this.#cut(Number.POSITIVE_INFINITY);
    const last = this.t.at(-1);
    // One point a sample: frames between samples (arbitration moved) carry the same card.
    if (last !== undefined && t <= last) return;
    if (last !== undefined && t - last > GAP_S) this.#append(last + 1, () => null);
    const row = rowOf(stats);
    this.#append(t, (column) => row[column]);
    this.#cut(t - WINDOW_S);
    this.#revision.value += 1;
    if (t - this.#savedAtS >= SAVE_EVERY_S) this.save(t);
  }

  /** Restores what this tab kept; anything unreadable is dropped. The first sample cuts what is too old by then. */
  restore(): void {
    const saved = readSaved();
    if (saved === null) return;
    this.#device = saved.device;
    this.t.push(...saved.t);
    for (const column of COLUMNS) this.cells[column].push(...saved.cells[column]);
    this.#revision.value += 1;
  }

  save(nowS = this.t.at(-1) ?? 0): void {
    this.#savedAtS = nowS;
    try {
      sessionStorage.setItem(KEY, JSON.stringify({ device: this.#device, t: this.t, cells: this.cells }));
    } catch (error) {
      // A full or forbidden storage costs the chart's memory, not the chart.
      if (!(error instanceof DOMException)) throw error;
    }
  }

  #start(device: string | null): void {
    // Another card, or the first frame ever: nothing kept belongs to it. A card that went away keeps its past.
    if (this.#device !== null && device !== null) this.#cut(Number.POSITIVE_INFINITY);
    this.#device = device ?? this.#device;
  }

  #append(t: number, cell: (column: Column) => number | null): void {
    this.t.push(t);
    for (const column of COLUMNS) this.cells[column].push(cell(column));
  }

  #cut(beforeS: number): void {
    const found = this.t.findIndex((t) => t >= beforeS);
    const drop = found < 0 ? this.t.length : found;
    if (drop === 0) return;
    this.t.splice(0, drop);
    for (const column of COLUMNS) this.cells[column].splice(0, drop);
  }
}

function rowOf({ gpu, ram }: Stats): Record<Column, number | null> {
  const { breakdown } = gpu;
  return {
    unaccounted: breakdown.unaccounted_gb,
    desktop: breakdown.desktop_gb,
    unmanaged: breakdown.unmanaged_gb,
    ollama: breakdown.ollama_gb,
    comfy: breakdown.comfyui_gb,
    free: breakdown.free_gb,
    cache: ram?.cached_gb ?? null,
    util: gpu.gpu_util_pct,
    temperature: gpu.temperature_c,
    power: gpu.power_w,
    fan: gpu.fan_pct,
  };
}

function emptyCells(): Cells {
  // fromEntries forgets the keys that it was given; COLUMNS has exactly those of Cells.
  return Object.fromEntries(COLUMNS.map((column) => [column, []])) as unknown as Cells;
}

function readSaved(): Saved | null {
  try {
    const saved = JSON.parse(sessionStorage.getItem(KEY) ?? "null");
    const length: unknown = saved?.t?.length;
    const isWhole = typeof length === "number" && COLUMNS.every((column) => saved.cells?.[column]?.length === length);
    return isWhole ? saved : null;
  } catch {
    // Written by something else, or storage is forbidden: start empty, as in a new tab.
    return null;
  }
}
