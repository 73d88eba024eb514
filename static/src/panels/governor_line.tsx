import type { Action } from "../live/action.ts";
import { call } from "../live/call.ts";
import type { Tuning } from "../live/wire.ts";
import { words } from "../format.ts";

/** Where the thermal governor stands, why, and its switch. */
export function GovernorLine(
  { governor, action }: { readonly governor: Tuning["governor"]; readonly action: Action },
) {
  const { enabled, level, rung, blind, reason } = governor;
  const ask = (label: string, input: { readonly enabled?: boolean; readonly reset?: boolean }) =>
    void action.run(label, async () => {
      await call("set-governor", input);
      return null;
    });
  const tone = blind ? "chip chip-bad" : level > 0 ? "chip chip-warn" : "chip";
  return (
    <div>
      <h3 class="tuning-title">Thermal governor</h3>
      <p>
        <span class={tone}>
          {blind
            ? "blind: at stock"
            : !enabled
            ? "off"
            : level === 0
            ? "nothing to do"
            : `level ${level}: ${words(rung)}`}
        </span>
        <span class="muted">{reason}</span>
      </p>
      <div class="buttons">
        <button
          type="button"
          class="button button-small"
          onClick={() => ask(enabled ? "Disabling the governor" : "Enabling the governor", { enabled: !enabled })}
        >
          {enabled ? "Disable" : "Enable"}
        </button>
        {level > 0 && (
          <button
            type="button"
            class="button button-small"
            onClick={() => ask("Clearing the governor", { reset: true })}
          >
            Clear
          </button>
        )}
      </div>
    </div>
  );
}
