/** The chart of the past: each figure's average as a line, least to most as a band; dragging picks a span. */
import uPlot from "uplot";
import { readPalette } from "./chart_palette.ts";
import type { FigureGroup, PastSeries } from "./past.ts";

const TONES = ["ollama", "comfy", "unaccounted"] as const;
/** A drag that is shorter was a click. */
const LEAST_DRAG_PX = 8;

export interface PastChart {
  show(series: PastSeries): void;
  close(): void;
}

export function openPastChart(
  host: HTMLElement,
  group: FigureGroup,
  onPick: (fromMs: number, toMs: number) => void,
): PastChart {
  let shown: PastSeries | null = null;
  let plot = build();

  function build(): uPlot {
    return new uPlot(optionsOf(host, group, pick), dataOf(shown, group), host);
  }

  function pick(self: uPlot): void {
    const { left, width } = self.select;
    if (width < LEAST_DRAG_PX) return;
    self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    onPick(self.posToVal(left, "x") * 1_000, self.posToVal(left + width, "x") * 1_000);
  }

  const resizer = new ResizeObserver(() => plot.setSize({ width: host.clientWidth, height: host.clientHeight }));
  resizer.observe(host);
  const scheme = matchMedia("(prefers-color-scheme: light)");
  const rebuild = () => {
    plot.destroy();
    plot = build();
  };
  scheme.addEventListener("change", rebuild);
  return {
    show: (series) => {
      shown = series;
      plot.setData(dataOf(series, group));
    },
    close: () => {
      resizer.disconnect();
      scheme.removeEventListener("change", rebuild);
      plot.destroy();
    },
  };
}

/** Per figure: average, most, least. */
function dataOf(series: PastSeries | null, { metrics }: FigureGroup): uPlot.AlignedData {
  if (series === null) return [[], ...metrics.flatMap(() => [[], [], []])];
  return [
    series.at,
    ...metrics.flatMap(({ metric }) => {
      const { avg = [], max = [], min = [] } = series.series[metric] ?? {};
      return [avg, max, min];
    }),
  ];
}

const DAY_S = 86_400;
const formatTime = uPlot.fmtDate("{HH}:{mm}");
const formatDay = uPlot.fmtDate("{YYYY}-{MM}-{DD}");

/** Days where the ticks are that far apart, else the time of day, in one line. */
function timesOf(_plot: uPlot, splits: readonly number[], _axis: number, _space: number, stepS: number): string[] {
  const format = stepS >= DAY_S ? formatDay : formatTime;
  return splits.map((at) => format(new Date(at * 1_000)));
}

function optionsOf(host: HTMLElement, { metrics }: FigureGroup, pick: (self: uPlot) => void): uPlot.Options {
  const palette = readPalette(host);
  const axis = {
    stroke: palette.text,
    font: palette.font,
    ticks: { show: false },
    grid: { stroke: palette.line, width: 1 },
  };
  const toneOf = (at: number) => palette.fill[TONES[at] ?? "unaccounted"];
  const hidden = { width: 0, points: { show: false } };
  return {
    width: host.clientWidth,
    height: host.clientHeight,
    padding: [12, 8, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: true, y: false, setScale: false }, points: { show: false } },
    scales: { x: { time: true }, y: { range: (_, __, most) => [0, Math.max(1, (most ?? 1) * 1.05)] } },
    axes: [
      { ...axis, grid: { show: false }, size: 26, space: 80, values: timesOf },
      { ...axis, size: 48 },
    ],
    series: [
      {},
      ...metrics.flatMap((_, at) => [
        { stroke: toneOf(at), width: 1.5, points: { show: false } },
        { ...hidden, stroke: toneOf(at) },
        { ...hidden, stroke: toneOf(at) },
      ]),
    ],
    // Alpha in two hex digits replaces the stronger one that the palette's fills carry.
    bands: metrics.map((_, at) => ({ series: [at * 3 + 2, at * 3 + 3], fill: `${toneOf(at).slice(0, -2)}30` })),
    hooks: { setSelect: [pick] },
  };
}
