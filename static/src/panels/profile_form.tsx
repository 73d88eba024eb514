import { useId, useState } from "preact/hooks";
import type { Action } from "../live/action.ts";
import { call } from "../live/call.ts";
import { sayChanged } from "../live/change.ts";
import type { LeverRow, Profile } from "../live/overclock.ts";
import { leverName } from "../format.ts";
import { ConfirmDialog } from "../parts/confirm_dialog.tsx";

interface Props {
  readonly profiles: readonly Profile[];
  readonly levers: readonly LeverRow[];
  readonly action: Action;
}

/** Saves a profile of one's own, or the same name anew; deletes one that was saved. */
export function ProfileForm({ profiles, levers, action }: Props) {
  const id = useId();
  const [name, setName] = useState("");
  const [values, setValues] = useState<Readonly<Record<string, string>>>({});
  const [trialS, setTrialS] = useState("0");
  const settable = levers.filter(({ adjustable }) => adjustable === true);
  const save = (event: Event) => {
    event.preventDefault();
    const wanted = Object.fromEntries(Object.entries(values).filter(([, value]) => value.trim() !== ""));
    void action.run(
      `Saving ${name}`,
      async () => sayChanged(await call("save-profile", { name, ...wanted, confirm_within_s: Number(trialS) })),
    );
  };
  return (
    <details class="tuning-evidence">
      <summary>Save or delete a profile</summary>
      <form class="tuning-form" onSubmit={save}>
        <label class="field" for={`${id}-name`}>
          <span class="field-label">Name</span>
          <input
            id={`${id}-name`}
            type="text"
            required
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </label>
        {settable.map(({ lever, min, max, unit }) => (
          <label key={lever} class="field" for={`${id}-${lever}`}>
            <span class="field-label">{leverName(lever)}</span>
            <input
              id={`${id}-${lever}`}
              type="text"
              title={`${min} to ${max} ${unit}, default or max; empty: left as it is`}
              placeholder={`${min} to ${max} ${unit}`}
              value={values[lever] ?? ""}
              onInput={({ currentTarget: { value } }) => setValues({ ...values, [lever]: value })}
            />
          </label>
        ))}
        <label class="field" for={`${id}-trial`}>
          <span class="field-label">On trial for, s</span>
          <input
            id={`${id}-trial`}
            type="number"
            min={0}
            max={3_600}
            title="It is applied at once and taken back unless it is confirmed by then; 0: only saved"
            value={trialS}
            onInput={(event) => setTrialS(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="button button-small">Save</button>
      </form>
      <SavedProfiles profiles={profiles.filter(({ built_in }) => !built_in)} action={action} />
    </details>
  );
}

function SavedProfiles({ profiles, action }: Pick<Props, "profiles" | "action">) {
  const [doomed, doom] = useState<string | null>(null);
  const remove = (name: string) => {
    doom(null);
    void action.run(`Deleting ${name}`, async () => sayChanged(await call("delete-profile", { name })));
  };
  if (profiles.length === 0) return <p class="faint">None was saved yet; the built-in ones stay.</p>;
  return (
    <div class="buttons">
      {profiles.map(({ name }) => (
        <button
          key={name}
          type="button"
          class="button button-small"
          onClick={() => doom(name)}
        >
          Delete {name}
        </button>
      ))}
      {doomed !== null && (
        <ConfirmDialog
          title={`Delete the profile ${doomed}?`}
          confirm="Delete"
          onConfirm={() => remove(doomed)}
          onCancel={() => doom(null)}
        >
          <p>If it is in force, what it set goes back to stock.</p>
        </ConfirmDialog>
      )}
    </div>
  );
}
