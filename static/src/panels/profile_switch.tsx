import type { Action } from "../live/action.ts";
import { call } from "../live/call.ts";
import { sayChanged } from "../live/change.ts";
import type { LeverRow, Profile } from "../live/overclock.ts";
import type { Tuning } from "../live/wire.ts";
import { ProfileForm } from "./profile_form.tsx";

export interface ProfileSwitchProps {
  readonly tuning: Tuning;
  readonly profiles: readonly Profile[];
  readonly levers: readonly LeverRow[];
  readonly action: Action;
}

/** Which profile is in force and why, a switch, and the evidence behind each of its settings. */
export function ProfileSwitch({ tuning, profiles, levers, action }: ProfileSwitchProps) {
  const apply = (profile: string) =>
    void action.run(`Applying ${profile}`, async () => sayChanged(await call("apply-profile", { profile })));
  const shown = profiles.find(({ active }) => active);
  return (
    <div>
      <h3 class="tuning-title">Profile</h3>
      <fieldset class="tuning-profiles" disabled={!tuning.available}>
        <legend class="visually-hidden">Profile of the card</legend>
        <button
          type="button"
          class="button button-small"
          aria-pressed={tuning.automatic}
          title="The profile follows whoever works on the card"
          onClick={() => apply("auto")}
        >
          auto
        </button>
        {profiles.map(({ name, active, quarantined_for: why }) => (
          <button
            key={name}
            type="button"
            class="button button-small"
            aria-pressed={active && !tuning.automatic}
            title={why === null ? `Apply ${name} until another is applied` : `Quarantined: ${why}`}
            onClick={() => apply(name)}
          >
            {name}
            {why === null ? null : <span class="chip chip-warn">quarantined</span>}
          </button>
        ))}
      </fieldset>
      <p class="muted">{tuning.why}</p>
      {shown && (
        <details class="tuning-evidence">
          <summary>What {shown.name} sets, and the evidence for it</summary>
          <dl>
            {shown.settings.map(({ lever, value, measured }) => (
              <div key={lever}>
                <dt>
                  {lever} <b>{value}</b>
                </dt>
                <dd class="faint">{measured}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
      <ProfileForm profiles={profiles} levers={levers} action={action} />
    </div>
  );
}
