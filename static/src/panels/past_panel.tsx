import { useEffect, useRef, useState } from "preact/hooks";
import { createPast, type FigureGroup, GROUPS, type PastSpan, SPANS } from "../live/past.ts";
import { openPastChart, type PastChart } from "../live/past_chart.ts";
import { ExportLinks } from "../parts/export_links.tsx";
import { duration } from "../format.ts";

const RENEW_MS = 30_000;
const FIRST = GROUPS[0];

/** What the service kept: any figure over any span, zoomed by dragging. It outlives this tab and the service. */
export function PastPanel() {
  const [past] = useState(createPast);
  const [group, setGroup] = useState<FigureGroup | undefined>(FIRST);
  const [spans, setSpans] = useState<readonly PastSpan[]>([{ lastMs: SPANS[0].ms }]);
  const host = useRef<HTMLDivElement>(null);
  const span = spans.at(-1) ?? { lastMs: SPANS[0].ms };
  const series = past.series.value;
  useEffect(() => {
    if (group === undefined) return;
    const load = () => document.visibilityState === "visible" && void past.load(group, span);
    load();
    // A picked span has passed; one that ends now goes on.
    const timer = "lastMs" in span ? setInterval(load, RENEW_MS) : null;
    return () => timer !== null && clearInterval(timer);
  }, [group, span]);
  const chart = useRef<PastChart | null>(null);
  useEffect(() => {
    if (host.current === null || group === undefined) return;
    chart.current = openPastChart(host.current, group, (fromMs, toMs) => setSpans((all) => [...all, { fromMs, toMs }]));
    return () => chart.current?.close();
  }, [group]);
  useEffect(() => {
    if (series !== null) chart.current?.show(series);
  }, [series, group]);
  return (
    <section class="panel area-past" aria-labelledby="past-title">
      <div class="panel-head">
        <h2 id="past-title">History</h2>
        <span class="faint">
          {series === null ? "" : `${duration(series.bucket_s * 1_000)} a point, band from least to most; drag to zoom`}
        </span>
        <span class="end past-controls">
          <Choice
            legend="Figures"
            options={GROUPS.map(({ name }) => name)}
            chosen={group?.name ?? null}
            onChoose={(name) => setGroup(GROUPS.find((candidate) => candidate.name === name))}
          />
          <Choice
            legend="Span"
            options={SPANS.map(({ label }) => label)}
            chosen={"lastMs" in span ? SPANS.find(({ ms }) => ms === span.lastMs)?.label ?? null : null}
            onChoose={(label) => setSpans([{ lastMs: SPANS.find((one) => one.label === label)?.ms ?? SPANS[0].ms }])}
          />
          <ExportLinks what="telemetry" {...boundsOf(span)} />
          <button
            type="button"
            class="button button-small"
            disabled={spans.length < 2}
            onClick={() => setSpans((all) => all.slice(0, -1))}
          >
            Zoom out
          </button>
        </span>
      </div>
      <div class="panel-body">
        <ul class="chart-legend">
          {group?.metrics.map(({ metric, label }, at) => (
            <li key={metric}>
              <span class={`swatch seg-${["ollama", "comfy", "unaccounted"][at]}`} aria-hidden="true" />
              {label} <span class="faint">{series?.series[metric]?.unit ?? ""}</span>
            </li>
          ))}
        </ul>
        {past.error.value !== null && <p class="empty">{past.error.value}</p>}
        <div class="past-chart" ref={host} role="img" aria-label={`History of ${group?.name ?? "figures"}`} />
      </div>
    </section>
  );
}

/** What is shown, as the export takes it. */
function boundsOf(span: PastSpan): { readonly from: string; readonly to?: string } {
  if ("lastMs" in span) return { from: `${span.lastMs / 3_600_000}h` };
  return { from: new Date(span.fromMs).toISOString(), to: new Date(span.toMs).toISOString() };
}

interface ChoiceProps {
  readonly legend: string;
  readonly options: readonly string[];
  readonly chosen: string | null;
  readonly onChoose: (option: string) => void;
}

function Choice({ legend, options, chosen, onChoose }: ChoiceProps) {
  return (
    <fieldset class="segmented">
      <legend class="visually-hidden">{legend}</legend>
      {options.map((option) => (
        <button
          key={option}
          type="button"
          class="segment"
          aria-pressed={option === chosen}
          onClick={() => onChoose(option)}
        >
          {option}
        </button>
      ))}
    </fieldset>
  );
}
