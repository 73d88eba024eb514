/**
 * The shares as stacked areas, drawn in one pass under the axes' plot. uPlot could draw them as series with bands; with
 * 600 points a share that was most of a tick's cost, since it clips each band against its neighbour.
 */
import type uPlot from "uplot";
import { BUCKETS } from "../buckets.ts";
import type { Palette } from "./chart_palette.ts";
import type { Series } from "./series.ts";

const STACKED = BUCKETS.map(({ key }) => key).filter((key) => key !== "free");

/** A hook for uPlot's `drawAxes`: shares above an unknown one are left out of that moment, since their height isn't known. */
export function drawStack(series: Series, palette: Palette): (plot: uPlot) => void {
  return (plot) => {
    const { ctx, bbox } = plot;
    const x = lineOf(plot, "x");
    const y = lineOf(plot, "gib");
    const points = series.t.map(x);
    let below: (number | null)[] = points.map(() => 0);
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const key of STACKED) {
      const own = series.cells[key];
      const top = below.map((sum, index) => {
        const value = own[index] ?? null;
        return sum === null || value === null ? null : sum + value;
      });
      ctx.fillStyle = palette.fill[key];
      ctx.beginPath();
      for (const [from, to] of runsOf(top)) {
        // Without this, the first line would start at the stretch before and paint over what wasn't known.
        ctx.moveTo(points[from] ?? 0, y(top[from] ?? 0));
        for (let at = from; at < to; at += 1) {
          if (at === from || at === to - 1 || isCorner(top, at)) ctx.lineTo(points[at] ?? 0, y(top[at] ?? 0));
        }
        for (let at = to - 1; at >= from; at -= 1) {
          if (at === from || at === to - 1 || isCorner(below, at)) ctx.lineTo(points[at] ?? 0, y(below[at] ?? 0));
        }
        ctx.closePath();
      }
      ctx.fill();
      below = top;
    }
    ctx.restore();
  };
}

/** False in the middle of a level stretch, which is most of the time: memory moves seldom, and then all at once. */
function isCorner(edge: readonly (number | null)[], at: number): boolean {
  return edge[at] !== edge[at - 1] || edge[at] !== edge[at + 1];
}

/** Value → canvas pixel for a linear scale: what plot.valToPos does, without looking everything up for every point. */
function lineOf(plot: uPlot, scale: "x" | "gib"): (value: number) => number {
  const { min, max } = plot.scales[scale] ?? {};
  const origin = plot.valToPos(min ?? 0, scale, true);
  const perUnit = (plot.valToPos(max ?? 1, scale, true) - origin) / ((max ?? 1) - (min ?? 0) || 1);
  return (value) => origin + (value - (min ?? 0)) * perUnit;
}

/** Stretches without a gap, as half-open index ranges. */
function runsOf(cells: readonly (number | null)[]): readonly (readonly [number, number])[] {
  const runs: [number, number][] = [];
  let from = -1;
  for (let at = 0; at <= cells.length; at += 1) {
    const isKnown = (cells[at] ?? null) !== null;
    if (isKnown && from < 0) from = at;
    if (!isKnown && from >= 0) {
      runs.push([from, at]);
      from = -1;
    }
  }
  return runs;
}
