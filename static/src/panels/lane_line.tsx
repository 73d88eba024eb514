import { useComputed } from "@preact/signals";
import { useDashboard } from "../live/dashboard.ts";
import { duration, words } from "../format.ts";

const HOLDERS = {
  ollama: "Ollama holds the card",
  comfyui: "ComfyUI holds the card",
  both: "Both fit: Ollama and ComfyUI share the card",
} as const;

const JOBS = {
  yield: "Yielding Ollama",
  purge: "Purging ComfyUI",
  switch: "Switching model",
  requestVram: "Making room",
  hold: "Measuring",
  reload: "Reloading a model",
  endRunner: "Ending a runner",
} as const;

/** What moves VRAM just now and for whom, or who has the card while nothing moves. */
export function LaneLine() {
  const { part, nowMs } = useDashboard();
  const arbitration = part.arbitration.value;
  const isReadable = useComputed(() => part.gpu.value?.available ?? false).value;
  if (arbitration === null) return null;
  const { lane, holder, waiting, hand_offs, late_hand_offs } = arbitration;
  return (
    <div class="lane">
      {lane === null
        ? (
          <p class="lane-now">
            <span class={`dot dot-${holder ?? "none"}`} aria-hidden="true" />
            {holder !== null
              ? HOLDERS[holder]
              : isReadable
              ? "Neither tenant holds the card"
              : "Who holds the card can't be read"}
          </p>
        )
        : (
          <p class="lane-now lane-moving">
            <span class="spinner" aria-hidden="true" />
            {JOBS[lane.job]}
            <span class="muted">
              for {words(lane.cause)} · {lane.phase} · {duration(Math.max(0, nowMs.value - Date.parse(lane.since)))}
            </span>
          </p>
        )}
      <p class="lane-sub">
        {waiting.length > 0
          ? (
            <span title={waiting.map(({ kind, reason }) => `${words(kind)}: ${reason}`).join("\n")}>
              {waiting.length} waiting, {waiting[0]?.reason}
            </span>
          )
          : (
            <>
              {hand_offs} hand-offs
              {late_hand_offs > 0 && (
                <span class="late" title="The winner allocated before the memory was back">
                  , {late_hand_offs} late
                </span>
              )}
            </>
          )}
      </p>
    </div>
  );
}
