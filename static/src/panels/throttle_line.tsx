import { words } from "../format.ts";
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
  hw_power_brake: { text: "Power brake: the supply asked for less", mild: false },
  display_clock_setting: { text: "Held to the display's clocks", mild: true },
};

/** What holds the clocks back, in words. */
export function ThrottleLine({ reasons, why }: { readonly reasons: readonly string[] | null; readonly why: string }) {
  if (reasons === null) {
    return (
      <p class="throttle">
        Clock limits <Unknown why={why} />
      </p>
    );
  }
  if (reasons.length === 0) return <p class="throttle faint">Nothing holds the clocks back</p>;
  return (
    <ul class="throttle">
      {reasons.map((name) => {
        const reason = REASONS[name] ?? { text: words(name), mild: false };
        return <li key={name} class={reason.mild ? "faint" : "late"}>{reason.text}</li>;
      })}
    </ul>
  );
}
