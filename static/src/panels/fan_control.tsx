import { useState } from "preact/hooks";
import type { Action } from "../live/action.ts";
import { call } from "../live/call.ts";
import type { Overclock } from "../live/overclock.ts";

/** The least speed that may be set by hand, whatever the card allows below it. */
const LEAST_PCT = 30;

/** The fans, all together: automatic, or a speed by hand. */
export function FanControl({ fans, action }: { readonly fans: Overclock["fans"]; readonly action: Action }) {
  const least = Math.max(LEAST_PCT, fans.min_pct ?? LEAST_PCT);
  const most = fans.max_pct ?? 100;
  const [percent, setPercent] = useState<number | null>(null);
  const shown = percent ?? fans.target_pct ?? 60;
  const set = (mode: "auto" | "manual") =>
    void action.run(
      mode === "auto" ? "Giving the fans back to the card" : `Setting the fans to ${shown} %`,
      async () => {
        const { message, levers: [lever] } = await call(
          "set-fan",
          mode === "auto" ? { mode } : { mode, percent: shown },
        );
        const isHonoured = lever?.verdict === "honoured";
        const detail = isHonoured ? null : lever?.remedy ?? lever?.evidence ?? null;
        return { tone: isHonoured ? "ok" : "warn", title: message, detail };
      },
    );
  if (fans.adjustable === false) {
    return (
      <div>
        <h3 class="tuning-title">Fans</h3>
        <p class="muted">They can't be set here: {fans.reason}</p>
      </div>
    );
  }
  return (
    <div>
      <h3 class="tuning-title">Fans</h3>
      <p class="muted">
        {fans.mode === "manual" ? `By hand, ${fans.target_pct ?? "unknown"} %` : "Automatic"}
        {fans.pct === null ? null : `, turning at ${fans.pct} %`}
        {fans.rpm === null ? null : ` (${fans.rpm} rpm)`}
      </p>
      <fieldset class="tuning-fan" disabled={fans.adjustable === null}>
        <legend class="visually-hidden">Fan control</legend>
        <button
          type="button"
          class="button button-small"
          aria-pressed={fans.mode === "auto"}
          onClick={() => set("auto")}
        >
          Automatic
        </button>
        <input
          type="range"
          min={least}
          max={most}
          step={1}
          value={shown}
          aria-label="Fan speed, percent"
          onInput={(event) => setPercent(Number(event.currentTarget.value))}
        />
        <button type="button" class="button button-small" onClick={() => set("manual")}>Set {shown} %</button>
      </fieldset>
    </div>
  );
}
