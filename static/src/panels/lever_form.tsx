import { useId, useState } from "preact/hooks";
import type { Action } from "../live/action.ts";
import { call } from "../live/call.ts";
import { sayChanged } from "../live/change.ts";
import type { LeverRow } from "../live/overclock.ts";
import { leverName } from "../format.ts";

/** What a change on trial is given, unless somebody says otherwise. */
const TRIAL_S = 30;

/** Sets one lever by hand, on trial: unconfirmed, it is taken back. */
export function LeverForm({ levers, action }: { readonly levers: readonly LeverRow[]; readonly action: Action }) {
  const id = useId();
  const settable = levers.filter(({ adjustable }) => adjustable === true);
  const [picked, pick] = useState<string | null>(null);
  const [value, setValue] = useState("");
  const [trialS, setTrialS] = useState(String(TRIAL_S));
  const lever = settable.find((row) => row.lever === picked) ?? settable[0];
  if (lever === undefined) return <p class="faint">No lever of this card can be set.</p>;
  const set = (wanted: string) =>
    void action.run(`Setting ${leverName(lever.lever)}`, async () =>
      sayChanged(
        await call("set-lever", { lever: lever.lever, value: wanted, confirm_within_s: Number(trialS) }),
      ));
  const submit = (event: Event) => {
    event.preventDefault();
    set(value);
  };
  return (
    <form class="tuning-form" onSubmit={submit}>
      <label class="field" for={`${id}-lever`}>
        <span class="field-label">Lever</span>
        <select id={`${id}-lever`} value={lever.lever} onChange={(event) => pick(event.currentTarget.value)}>
          {settable.map((row) => <option key={row.lever} value={row.lever}>{leverName(row.lever)}</option>)}
        </select>
      </label>
      <label class="field" for={`${id}-value`}>
        <span class="field-label">Value, {lever.min} to {lever.max} {lever.unit}</span>
        <input
          id={`${id}-value`}
          type="text"
          inputMode="numeric"
          required
          placeholder="or default, max"
          value={value}
          onInput={(event) => setValue(event.currentTarget.value)}
        />
      </label>
      <label class="field" for={`${id}-trial`}>
        <span class="field-label">Taken back after, s</span>
        <input
          id={`${id}-trial`}
          type="number"
          min={0}
          max={3_600}
          title="Unless it is confirmed by then; 0: it stays"
          value={trialS}
          onInput={(event) => setTrialS(event.currentTarget.value)}
        />
      </label>
      <button type="submit" class="button button-small">Set</button>
      <button type="button" class="button button-small" onClick={() => set("default")}>Stock</button>
    </form>
  );
}
