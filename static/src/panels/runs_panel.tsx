import { useState } from "preact/hooks";
import { createAction } from "../live/action.ts";
import { call } from "../live/call.ts";
import { useDashboard } from "../live/dashboard.ts";
import type { Run } from "../live/wire.ts";
import { ActionNote } from "../parts/action_note.tsx";
import { duration, words } from "../format.ts";

/** Long work under way, with its progress and a way out. Shown only while there is some. */
export function RunsPanel() {
  const { part } = useDashboard();
  const [action] = useState(createAction);
  const running = (part.runs.value ?? []).filter(({ state }) => state === "running");
  if (running.length === 0 && action.state.value.kind === "idle") return null;
  return (
    <section class="panel" aria-labelledby="runs-title">
      <div class="panel-head">
        <h2 id="runs-title">Under way</h2>
      </div>
      <div class="panel-body">
        <ul class="runs">
          {running.map((run) => (
            <RunRow
              key={run.id}
              run={run}
              onCancel={() =>
                void action.run(`Cancelling ${words(run.operation)}`, async () => {
                  await call("cancel-run", { id: run.id });
                  return null;
                })}
            />
          ))}
        </ul>
        <ActionNote action={action} />
      </div>
    </section>
  );
}

function RunRow({ run, onCancel }: { readonly run: Run; readonly onCancel: () => void }) {
  const { nowMs } = useDashboard();
  const done = run.done_pct;
  return (
    <li class="run">
      <div class="run-line">
        <b>{words(run.operation)}</b>
        <span class="muted run-phase">{run.phase ?? "started"}</span>
        <span class="faint">{duration(Math.max(0, nowMs.value - Date.parse(run.started_at)))}</span>
        <button type="button" class="button button-small" onClick={onCancel}>Cancel</button>
      </div>
      <div
        class={done === null ? "meter meter-unknown" : "meter"}
        role="progressbar"
        aria-label={`Progress of ${words(run.operation)}`}
        {...(done === null ? {} : { "aria-valuenow": Math.round(done), "aria-valuemin": 0, "aria-valuemax": 100 })}
      >
        <span class="meter-fill" style={{ width: `${(done ?? 100).toFixed(1)}%` }} />
      </div>
      {run.eta_ms !== null && <p class="faint">about {duration(run.eta_ms)} left</p>}
    </li>
  );
}
