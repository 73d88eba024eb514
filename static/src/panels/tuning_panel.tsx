import { useState } from "preact/hooks";
import { type Action, createAction } from "../live/action.ts";
import { call } from "../live/call.ts";
import { useDashboard } from "../live/dashboard.ts";
import { useOverclock } from "../live/overclock.ts";
import type { Tuning } from "../live/wire.ts";
import { ActionNote } from "../parts/action_note.tsx";
import { FanControl } from "./fan_control.tsx";
import { GovernorLine } from "./governor_line.tsx";
import { LeverTable } from "./lever_table.tsx";
import { ProfileSwitch } from "./profile_switch.tsx";

/** How the card is set and why: profile, fans, governor, and what became of each lever. */
export function TuningPanel() {
  const { part } = useDashboard();
  const tuning = part.tuning.value;
  const overclock = useOverclock();
  const [action] = useState(createAction);
  if (tuning === null) return null;
  return (
    <section class="panel area-tuning" aria-labelledby="tuning-title">
      <div class="panel-head">
        <h2 id="tuning-title">Tuning</h2>
        <span class="end">
          <DriftBadge tuning={tuning} />
          <span class="chip">{tuning.active_profile ?? "no profile"}</span>
        </span>
      </div>
      <div class="panel-body">
        {!tuning.available && <p class="callout">Nothing can be set now: {tuning.reason}</p>}
        {tuning.confirm && <Trial what={tuning.confirm.what} until={tuning.confirm.until} action={action} />}
        <ActionNote action={action} />
        {overclock === null ? <p class="empty">Asking the card …</p> : (
          <div class="tuning">
            <ProfileSwitch
              tuning={tuning}
              profiles={overclock.profiles}
              levers={overclock.levers}
              action={action}
            />
            <div>
              <FanControl fans={overclock.fans} action={action} />
              <GovernorLine governor={tuning.governor} action={action} />
            </div>
            <LeverTable levers={overclock.levers} action={action} />
          </div>
        )}
      </div>
    </section>
  );
}

function DriftBadge({ tuning: { drift } }: { readonly tuning: Tuning }) {
  if (drift.length === 0) return null;
  const isConflict = drift.some(({ conflict }) => conflict);
  const said = drift.map(({ lever, wanted, found, suspects }) =>
    `${lever}: set to ${wanted ?? "unknown"}, found ${found ?? "unknown"}${
      suspects.length > 0 ? `; running: ${suspects.join(", ")}` : ""
    }`
  );
  return (
    <span class="chip chip-warn" title={said.join("\n")}>
      {isConflict ? "another tool writes" : "drifted"}: {drift.map(({ lever }) => lever).join(", ")}
    </span>
  );
}

/** A change that is taken back unless somebody confirms it. */
function Trial(
  { what, until, action }: { readonly what: string; readonly until: string; readonly action: Action },
) {
  const { nowMs } = useDashboard();
  const leftS = Math.max(0, Math.ceil((Date.parse(until) - nowMs.value) / 1_000));
  const confirm = () =>
    void action.run("Confirming the change", async () => {
      const { message } = await call("confirm-change", {});
      return { tone: "ok", title: message, detail: null };
    });
  return (
    <div class="callout tuning-trial">
      <span>On trial: {what}. It is taken back in {leftS} s.</span>
      <button type="button" class="button button-small button-primary" onClick={confirm}>Keep it</button>
    </div>
  );
}
