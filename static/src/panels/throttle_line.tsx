import type { Stats } from "../../../lib/operations/stats.ts";
import { span, words } from "../format.ts";
import { Unknown } from "../parts/value.tsx";

/** What each of the driver's reasons means for whoever waits for a result; `mild` ones are how a card normally works. */
const REASONS: Readonly<Record<string, { readonly text: string; readonly mild: boolean }>> = {
  gpu_idle: { text: "Idle, so its clocks are low", mild: true },
  applications_clocks_setting: { text: "Held to the application clocks", mild: true },
  sw_power_cap: { text: "At its power limit", mild: true },
  hw_slowdown: { text: "Slowed down by the hardware: too hot, or short of power", mild: false },
  sync_boost: { text: "Held to the clocks of a sync group", mild: true },
  sw_thermal_slowdown: { text: "Slowed down by the driver: too warm", mild: false },
  hw_thermal_slowdown: { text: "Slowed down by the hardware: too hot", mild: false },
  hw_power_brake_slowdown: { text: "Power brake: the supply asked for less", mild: false },
  display_clock_setting: { text: "Held to the display's clocks", mild: true },
};

interface Props {
  readonly reasons: readonly string[] | null;
  readonly heldMs: Stats["gpu"]["throttled_ms"];
  readonly why: string;
}

/** What holds the clocks back now and for how long it did so far, in words. */
export function ThrottleLine({ reasons, heldMs, why }: Props) {
  if (reasons === null) {
    return (
      <p class="throttle">
        Clock limits <Unknown why={why} />
      </p>
    );
  }
  return (
    <ul class="throttle">
      {reasons.length === 0 && <li class="faint">Nothing holds the clocks back</li>}
      {reasons.map((name) => {
        const reason = REASONS[name] ?? { text: words(name), mild: false };
        return <li key={name} class={reason.mild ? "faint" : "late"}>{reason.text}</li>;
      })}
      <HeldSoFar heldMs={heldMs} />
    </ul>
  );
}

/** Counted by the driver since it was loaded: what held the clocks back between two readings shows here too. */
function HeldSoFar({ heldMs }: Pick<Props, "heldMs">) {
  const held = Object.entries(heldMs).flatMap(([name, ms]) => ms === null || ms === 0 ? [] : [{ name, ms }]);
  if (held.length === 0) return null;
  const text = held.map(({ name, ms }) => `${span(ms)} ${(REASONS[name]?.text ?? words(name)).toLowerCase()}`);
  return <li class="faint">Since the driver was loaded: {text.join(", ")}</li>;
}
