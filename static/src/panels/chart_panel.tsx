import { useEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { BUCKETS } from "../buckets.ts";
import { openChart, type Reading } from "../live/chart.ts";
import { useDashboard } from "../live/dashboard.ts";
import { WINDOW_S } from "../live/series.ts";
import { Gib } from "../parts/gib.tsx";
import { clockTime, span } from "../format.ts";

const SHOWN = BUCKETS.filter(({ key }) => key !== "free");

/** The last ten minutes: VRAM by holder, stacked to the card's size, with the page cache on its own axis. */
export function ChartPanel() {
  const dashboard = useDashboard();
  const { series } = dashboard;
  const host = useRef<HTMLDivElement>(null);
  const reading = useSignal<Reading | null>(null);
  useEffect(() => {
    if (host.current === null) return;
    const chart = openChart(host.current, dashboard, (next) => (reading.value = next));
    return () => chart.close();
  }, []);
  const at = reading.value;
  const keptMs = ((series.t.at(-1) ?? 0) - (series.t[0] ?? 0)) * 1_000;
  return (
    <section class="panel area-chart" aria-labelledby="chart-title">
      <div class="panel-head chart-head">
        <h2 id="chart-title">VRAM and page cache</h2>
        <span class="faint" title="Kept in this tab: a refresh keeps it, closing the tab doesn't">
          last {WINDOW_S / 60} min, kept over a refresh
        </span>
        <span class="end muted">{at?.isPast === true ? clockTime(new Date(at.t * 1_000)) : null}</span>
      </div>
      <div class="panel-body">
        <ul class="chart-legend">
          {SHOWN.map(({ key, label }) => (
            <li key={key}>
              <span class={`swatch seg-${key}`} aria-hidden="true" />
              {label} <Gib of={at?.values[key]} why="Not known at that moment" />
            </li>
          ))}
          <li class="chart-legend-end">
            <span class="swatch swatch-line" aria-hidden="true" />
            Page cache <Gib of={at?.values.cache} why="Not known at that moment" />
          </li>
        </ul>
        <div class="chart" ref={host} role="img" aria-label={`VRAM by holder and page cache, ${span(keptMs)} of it`} />
      </div>
    </section>
  );
}
