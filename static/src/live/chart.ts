/** The chart: uPlot on a canvas, fed from the series once a sample. */
import { effect } from "@preact/signals";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { handOffMarks } from "./chart_marks.ts";
import { type Palette, readPalette } from "./chart_palette.ts";
import { drawStack } from "./chart_stack.ts";
import type { Dashboard } from "./dashboard.ts";
import { type Column, type Series, WINDOW_S } from "./series.ts";

/** What the chart shows at one moment: the newest, or the one under the pointer. */
export interface Reading {
  readonly t: number;
  readonly isPast: boolean;
  readonly values: Readonly<Record<Column, number | null>>;
}

/** A second is a pixel or two: every other one saves half the work, and a hand-off is drawn at once anyway. */
const DRAW_EVERY_S = 1.9;
/** Ticks that read well in GiB: cards and memory come in powers of two. */
const GIB_STEPS = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/** Draws into `host` until closed; follows its width and the colour scheme. */
export function openChart(
  host: HTMLElement,
  dashboard: Dashboard,
  onReading: (reading: Reading | null) => void,
): { close(): void } {
  const { series } = dashboard;
  let plot = build();

  function build(): uPlot {
    const next = new uPlot(optionsOf(host, readPalette(host), dashboard), dataOf(series), host);
    next.over.addEventListener("pointerleave", () => tell());
    return next;
  }

  function tell(): void {
    const index = plot.cursor.idx ?? null;
    onReading(readingOf(series, index));
  }

  let drawnAtS = 0;
  let drawnHistory: unknown = null;
  const stopDrawing = effect(() => {
    // Points come with samples, marks with history.
    const nowS = dashboard.stats.value?.timestamp ?? series.t.at(-1) ?? 0;
    const history = dashboard.part.history.value;
    if (document.visibilityState === "hidden") return;
    const isDue = Math.abs(nowS - drawnAtS) >= DRAW_EVERY_S || history !== drawnHistory;
    if (isDue) {
      draw(plot, series);
      [drawnAtS, drawnHistory] = [nowS, history];
    }
    tell();
  });
  plot.over.addEventListener("pointermove", tell);
  const resizer = new ResizeObserver(() => plot.setSize(sizeOf(host)));
  resizer.observe(host);
  const scheme = matchMedia("(prefers-color-scheme: light)");
  const rebuild = () => {
    plot.destroy();
    plot = build();
    plot.over.addEventListener("pointermove", tell);
    draw(plot, series);
  };
  scheme.addEventListener("change", rebuild);
  return {
    close: () => {
      stopDrawing();
      resizer.disconnect();
      scheme.removeEventListener("change", rebuild);
      plot.destroy();
    },
  };
}

function sizeOf(host: HTMLElement): { width: number; height: number } {
  return { width: host.clientWidth, height: host.clientHeight };
}

/** An axis whose whole isn't known has no figures. */
function labels(ticks: readonly number[], wholeGb: number | null): string[] {
  return ticks.map((gb) => (wholeGb === null ? "" : String(gb)));
}

function draw(plot: uPlot, series: Series): void {
  const newest = series.t.at(-1);
  if (newest === undefined) return;
  plot.batch(() => {
    plot.setData(dataOf(series), false);
    plot.setScale("x", { min: newest - WINDOW_S, max: newest });
  });
}

/** uPlot draws the page cache; the shares are drawn by drawStack from the same arrays. */
function dataOf(series: Series): uPlot.AlignedData {
  return [series.t, series.cells.cache];
}

function readingOf(series: Series, index: number | null): Reading | null {
  const at = index ?? series.t.length - 1;
  const t = series.t[at];
  if (t === undefined) return null;
  const entries = Object.entries(series.cells).map(([key, cells]) => [key, cells[at] ?? null]);
  // fromEntries forgets the keys that it was given; cells has exactly those of Column.
  return { t, isPast: index !== null, values: Object.fromEntries(entries) as Reading["values"] };
}

function optionsOf(host: HTMLElement, palette: Palette, dashboard: Dashboard): uPlot.Options {
  const { stats } = dashboard;
  const totalGb = () => stats.peek()?.gpu.vram_total_gb ?? null;
  const ramGb = () => stats.peek()?.ram?.total_gb ?? null;
  // Five or so lines, on a phone as on a wall.
  const space = (_: uPlot, __: number, ___: number, ____: number, px: number) => Math.max(30, px / 6);
  const axis = {
    stroke: palette.text,
    font: palette.font,
    ticks: { show: false },
    grid: { stroke: palette.line, width: 1 },
  };
  return {
    ...sizeOf(host),
    padding: [12, 0, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    scales: {
      x: { time: true, auto: false },
      gib: { auto: false, range: () => [0, Math.ceil(totalGb() ?? 16)] },
      ram: { range: (_, __, dataMax) => [0, Math.ceil(ramGb() ?? Math.max(1, dataMax))] },
    },
    axes: [
      { ...axis, grid: { show: false }, size: 26, space: 80, incrs: [60, 120, 300], values: "{HH}:{mm}" },
      { ...axis, scale: "gib", size: 40, space, incrs: GIB_STEPS, values: (_, ticks) => labels(ticks, totalGb()) },
      {
        ...axis,
        scale: "ram",
        side: 1,
        values: (_, ticks) => labels(ticks, ramGb()),
        size: 40,
        space,
        incrs: GIB_STEPS,
        grid: { show: false },
        stroke: palette.cache,
      },
    ],
    series: [
      {},
      { scale: "ram", stroke: palette.cache, width: 1.5, dash: [4, 3], points: { show: false } },
    ],
    hooks: { drawAxes: [drawStack(dashboard.series, palette)], draw: [handOffMarks(dashboard, palette)] },
  };
}
