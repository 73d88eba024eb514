import { useEffect } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { call, Refusal } from "../live/call.ts";
import { useDashboard } from "../live/dashboard.ts";
import { type Autotune, latestSweep, type SweepPicture } from "../live/sweep.ts";
import { ExportLinks } from "../parts/export_links.tsx";
import { SweepCurve } from "../parts/sweep_curve.tsx";
import { duration, fixed, UNKNOWN } from "../format.ts";
import { SweepForm } from "./sweep_form.tsx";

const RENEW_MS = 30_000;
const RENEW_RUNNING_MS = 2_000;

/** One lever tried against a real workload: what is under way, what was measured, and what came of it. */
export function AutotunePanel() {
  const { part } = useDashboard();
  const status = useSignal<Autotune | null>(null);
  const error = useSignal<string | null>(null);
  const isRunning = (part.runs.value ?? []).some(({ operation, state }) =>
    operation === "autotune-sweep" && state === "running"
  );
  useEffect(() => {
    const load = async () => {
      if (document.visibilityState !== "visible") return;
      try {
        status.value = await call("autotune", {});
        error.value = null;
      } catch (cause) {
        if (!(cause instanceof Refusal)) throw cause;
        error.value = cause.message;
      }
    };
    void load();
    const timer = setInterval(() => void load(), isRunning ? RENEW_RUNNING_MS : RENEW_MS);
    return () => clearInterval(timer);
  }, [isRunning]);
  const picture = status.value === null ? null : latestSweep(status.value);
  return (
    <section class="panel area-statistics" aria-labelledby="autotune-title">
      <div class="panel-head">
        <h2 id="autotune-title">Autotune</h2>
        <span class="faint">one lever against a real workload</span>
        <span class="end">
          <ExportLinks what="autotune" />
        </span>
      </div>
      <div class="panel-body statistics">
        {error.value !== null && <p class="empty">{error.value}</p>}
        <SweepForm running={isRunning ? status.value?.running ?? null : null} isRunning={isRunning} />
        {picture === null
          ? <p class="faint">Nothing was swept yet. The card is put back after every sweep, however it ends.</p>
          : <Measured of={picture} />}
        <LastResult of={status.value} />
      </div>
    </section>
  );
}

function Measured({ of }: { readonly of: SweepPicture }) {
  const unit = of.workload === "comfy" ? "it/s" : "tok/s";
  return (
    <div>
      <SweepCurve of={of} />
      <table class="figures">
        <thead>
          <tr>
            <th scope="col">{of.knob}</th>
            {["n", unit, "least", "most", "°C", "W", ""].map((name) => (
              <th key={name} scope="col" class="num">{name}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {of.points.map((point, at) => (
            <tr key={at}>
              <th scope="row">
                {String(point.value)} {point.isControl && <span class="faint">current</span>}
              </th>
              <td class="num">{point.samples.length}</td>
              <td class="num">{point.median === null ? UNKNOWN : fixed(point.median, 2)}</td>
              <td class="num">{point.samples.length === 0 ? UNKNOWN : fixed(Math.min(...point.samples), 2)}</td>
              <td class="num">{point.samples.length === 0 ? UNKNOWN : fixed(Math.max(...point.samples), 2)}</td>
              <td class="num">{point.hottestC === null ? UNKNOWN : fixed(point.hottestC, 0)}</td>
              <td class="num">{point.powerW === null ? UNKNOWN : fixed(point.powerW, 0)}</td>
              <td class="num" title={point.reason ?? ""}>{point.verdict}</td>
            </tr>
          ))}
        </tbody>
        <caption>
          {of.model ?? "no model"}
          {of.confirmations > 0 && `, ${of.confirmations} confirming runs of the fastest and the current value in turn`}
        </caption>
      </table>
    </div>
  );
}

function LastResult({ of }: { readonly of: Autotune | null }) {
  const last = of?.last_result ?? null;
  if (last === null) return null;
  const message = String(last["message"] ?? "");
  const ago = Date.now() - Date.parse(last.at);
  return <p class={last["end"] === "improved" ? "callout" : "faint"}>{message} ({duration(Math.max(0, ago))} ago)</p>;
}
