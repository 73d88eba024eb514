import { useState } from "preact/hooks";
import { type Action, createAction } from "../live/action.ts";
import { call, start } from "../live/call.ts";
import { useDashboard } from "../live/dashboard.ts";
import { endOfWarm, type PageCacheState, usePageCache, warmOf, type WarmPlan } from "../live/page_cache.ts";
import type { Run } from "../live/wire.ts";
import { ActionNote } from "../parts/action_note.tsx";
import { Value } from "../parts/value.tsx";
import { duration, fixed } from "../format.ts";
import { CacheFiles } from "./cache_files.tsx";

/** Which models are in memory: a load of those takes seconds, of the others up to a minute. */
export function CachePanel() {
  const { part } = useDashboard();
  const [action] = useState(createAction);
  const warm = warmOf(part.runs.value);
  const measuredAt = part.ram.value?.model_files_measured_at ?? null;
  const state = usePageCache(`${measuredAt} ${warm?.id}`, warm !== null);
  const { report } = state;
  return (
    <section class="panel area-cache" aria-labelledby="cache-title">
      <div class="panel-head">
        <h2 id="cache-title">Models in RAM</h2>
        <span class="end muted">
          {report !== null && (
            <span>
              <Value of={report.resident_gb} digits={1} unit="GB" /> of{" "}
              <Value of={report.size_gb} digits={1} unit="GB" />
            </span>
          )}
          <span class="chip">
            <Value of={report?.residency_pct} unit="%" digits={1} why={state.error ?? "Not measured yet"} />
          </span>
        </span>
      </div>
      <div class="panel-body">
        {state.error !== null && <p class="callout">{state.error}</p>}
        {warm === null ? <WarmAll state={state} action={action} /> : <Warming run={warm} />}
        <ActionNote action={action} />
        {report !== null && <CacheFiles report={report} isWarming={warm !== null} action={action} />}
      </div>
    </section>
  );
}

/** What a warm would do, before it does it. */
function WarmAll({ state: { plan }, action }: { readonly state: PageCacheState; readonly action: Action }) {
  const dashboard = useDashboard();
  const begin = () =>
    void action.run("Starting to warm", async () => await endOfWarm(dashboard, await start("warm-all", {})));
  if (plan === null) return null;
  const isDone = plan.steps.length === 0;
  return (
    <div class="cache-plan">
      <button type="button" class="button button-primary" disabled={isDone} onClick={begin}>Warm all</button>
      <details>
        <summary class="muted">
          {isDone
            ? "Everything that the budget allows is in memory"
            : `${fixed(plan.read_gb, 1)} GB to read, ${plan.steps[0]?.models[0] ?? "a file"} first`}
        </summary>
        <PlanList plan={plan} />
      </details>
    </div>
  );
}

function PlanList({ plan }: { readonly plan: WarmPlan }) {
  return (
    <>
      <p class="faint">Budget {fixed(plan.budget_gb, 1)} GB: {plan.budget_basis}</p>
      <ol class="cache-steps">
        {plan.steps.map((step) => (
          <li key={step.path}>
            <b>{step.models[0] ?? step.path}</b> {fixed(step.read_gb, 1)} GB, saves {fixed(step.saves_s, 1)} s{" "}
            <span class="faint">{step.why}</span>
          </li>
        ))}
      </ol>
      {plan.skipped.filter(({ cause }) => cause !== "resident").map(({ path, models, why }) => (
        <p key={path} class="faint">{models[0] ?? path} is left out: {why}</p>
      ))}
    </>
  );
}

function Warming({ run }: { readonly run: Run }) {
  const [action] = useState(createAction);
  const cancel = () =>
    void action.run("Cancelling the warm", async () => {
      await call("warm-cancel", { id: run.id });
      return null;
    });
  const done = run.done_pct;
  return (
    <div class="cache-warming">
      <div class="run-line">
        <b>Warming</b>
        <span class="muted run-phase">{run.phase?.replace(/^warming /, "") ?? "planning"}</span>
        {run.eta_ms !== null && <span class="faint">{duration(run.eta_ms)} left</span>}
        <button type="button" class="button button-small" onClick={cancel}>Cancel</button>
      </div>
      <div
        class={done === null ? "meter meter-unknown" : "meter"}
        role="progressbar"
        aria-label="Progress of the warm"
        {...(done === null ? {} : { "aria-valuenow": Math.round(done), "aria-valuemin": 0, "aria-valuemax": 100 })}
      >
        <span class="meter-fill" style={{ width: `${(done ?? 100).toFixed(1)}%` }} />
      </div>
      <ActionNote action={action} />
    </div>
  );
}
