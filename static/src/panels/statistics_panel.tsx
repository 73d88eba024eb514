import { useEffect } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { type Answer, call, Refusal } from "../live/call.ts";
import { ErrorBars } from "../parts/error_bars.tsx";
import { duration, fixed, UNKNOWN } from "../format.ts";

type Swaps = Answer<"analytics-swaps">;
type Profiles = Answer<"analytics-profiles">;

const RENEW_MS = 60_000;
const DAYS = 7;

/** How long hand-offs and loads took, and how fast each profile was, over the last week. */
export function StatisticsPanel() {
  const swaps = useSignal<Swaps | null>(null);
  const profiles = useSignal<Profiles | null>(null);
  const error = useSignal<string | null>(null);
  useEffect(() => {
    const load = async () => {
      if (document.visibilityState !== "visible") return;
      try {
        swaps.value = await call("analytics-swaps", { days: DAYS });
        profiles.value = await call("analytics-profiles", { days: DAYS });
        error.value = null;
      } catch (cause) {
        if (!(cause instanceof Refusal)) throw cause;
        error.value = cause.message;
      }
    };
    void load();
    const timer = setInterval(() => void load(), RENEW_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <section class="panel area-statistics" aria-labelledby="statistics-title">
      <div class="panel-head">
        <h2 id="statistics-title">Statistics</h2>
        <span class="faint">last {DAYS} days</span>
      </div>
      <div class="panel-body statistics">
        {error.value !== null && <p class="empty">{error.value}</p>}
        {swaps.value !== null && <Latencies of={swaps.value} />}
        {swaps.value !== null && <Loads of={swaps.value} />}
        {profiles.value !== null && <ProfileSpeeds of={profiles.value} />}
      </div>
    </section>
  );
}

function Latencies({ of }: { readonly of: Swaps }) {
  const rows = [
    ["Load", of.swap_ms],
    ["Yield until confirmed", of.yield_ms],
    ["Purge until confirmed", of.purge_ms],
    ["Margin of hand-offs", of.margin_ms],
  ] as const;
  return (
    <table class="figures">
      <thead>
        <tr>
          <th scope="col">Times</th>
          {["n", "p50", "p95", "p99"].map((name) => <th key={name} scope="col" class="num">{name}</th>)}
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, times]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td class="num">{times?.n ?? 0}</td>
            <td class="num">{shownMs(times?.p50)}</td>
            <td class="num" title="Takes 20 values">{shownMs(times?.p95)}</td>
            <td class="num" title="Takes 100 values">{shownMs(times?.p99)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Loads({ of }: { readonly of: Swaps }) {
  const classes = Object.entries(of.classes).map(([name, n]) => `${n} ${name.replace("_", " ")}`).join(", ");
  return (
    <table class="figures">
      <thead>
        <tr>
          <th scope="col">Loads by model</th>
          {["n", "p50", "GB/s", "tok/s"].map((name) => <th key={name} scope="col" class="num">{name}</th>)}
        </tr>
      </thead>
      <tbody>
        {of.models.slice(0, 6).map((model) => (
          <tr key={model.model}>
            <th scope="row">{model.model}</th>
            <td class="num">{model.swaps}</td>
            <td class="num">{shownMs(model.load_ms?.p50)}</td>
            <td class="num">{shown(model.gb_per_s?.p50, 2)}</td>
            <td class="num">{shown(model.tokens_per_sec?.p50, 1)}</td>
          </tr>
        ))}
      </tbody>
      <caption>{classes === "" ? "No model was loaded yet" : `By class: ${classes}`}</caption>
    </table>
  );
}

function ProfileSpeeds({ of }: { readonly of: Profiles }) {
  if (of.profiles.length === 0) {
    return <p class="faint">No speed was measured yet: it comes from generations and pictures as they are made.</p>;
  }
  const most = Math.max(...of.profiles.map(({ per_second }) => per_second.max));
  return (
    <div>
      <table class="figures">
        <thead>
          <tr>
            <th scope="col">Speed by profile</th>
            <th scope="col" class="num">n</th>
            <th scope="col">least, quartiles, most</th>
            <th scope="col" class="num">p50</th>
            <th scope="col" class="num">W</th>
          </tr>
        </thead>
        <tbody>
          {of.profiles.map((entry) => (
            <tr key={`${entry.profile} ${entry.workload} ${entry.model} ${entry.basis}`}>
              <th scope="row">
                {entry.profile} <span class="faint">{entry.model} {entry.basis}</span>
              </th>
              <td class="num">{entry.per_second.n}</td>
              <td>
                <ErrorBars of={entry.per_second} most={most} />
              </td>
              <td class="num">
                {shown(entry.per_second.p50, 1)} {entry.workload === "ollama" ? "tok/s" : "it/s"}
              </td>
              <td class="num">{shown(entry.power_w, 0)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {of.comparisons.map((one) => (
        <p key={`${one.a} ${one.b} ${one.model} ${one.basis}`} class="faint" title={one.test}>{one.verdict}</p>
      ))}
    </div>
  );
}

function shownMs(ms: number | null | undefined): string {
  return ms === null || ms === undefined ? UNKNOWN : duration(ms);
}

function shown(value: number | null | undefined, digits: number): string {
  return value === null || value === undefined ? UNKNOWN : fixed(value, digits);
}
