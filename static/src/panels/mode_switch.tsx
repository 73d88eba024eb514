import { useState } from "preact/hooks";
import { call } from "../live/call.ts";
import { useDashboard } from "../live/dashboard.ts";
import type { Mode } from "../live/wire.ts";
import { createAction } from "../live/action.ts";
import { ActionNote } from "../parts/action_note.tsx";
import { ConfirmDialog } from "../parts/confirm_dialog.tsx";
import { clockTime } from "../format.ts";

const MODES: readonly { readonly mode: Mode; readonly label: string; readonly effect: string }[] = [
  {
    mode: "auto",
    label: "Auto",
    effect: "HyperSwap hands the card over by itself: it unloads Ollama when ComfyUI starts work and needs the room, " +
      "and purges an idle ComfyUI when a model needs it.",
  },
  {
    mode: "observe",
    label: "Observe",
    effect: "HyperSwap goes on deciding and records what it would do, but touches nothing. ComfyUI may run out of " +
      "memory beside a resident model.",
  },
  {
    mode: "paused",
    label: "Paused",
    effect: "HyperSwap does nothing by itself until it is set to auto again. What you ask for here still works.",
  },
];

/** Auto, observe, paused; a change says what it means before it is made. */
export function ModeSwitch() {
  const { part } = useDashboard();
  const arbitration = part.arbitration.value;
  const [asked, ask] = useState<Mode | null>(null);
  const [action] = useState(createAction);
  const question = MODES.find(({ mode }) => mode === asked);
  const set = (mode: Mode) => {
    ask(null);
    void action.run(`Setting arbitration to ${mode}`, async () => {
      await call("set-arbitration", { mode });
      return null;
    });
  };
  return (
    <div class="mode">
      <fieldset class="segmented" disabled={arbitration === null}>
        <legend class="visually-hidden">Arbitration mode</legend>
        {MODES.map(({ mode, label, effect }) => (
          <button
            key={mode}
            type="button"
            class={`segment segment-${mode}`}
            aria-pressed={arbitration?.mode === mode}
            title={effect}
            onClick={() => arbitration?.mode !== mode && ask(mode)}
          >
            {label}
          </button>
        ))}
      </fieldset>
      {arbitration?.until && (
        <span class="faint mode-until">until {clockTime(new Date(arbitration.until)).slice(0, 5)}</span>
      )}
      {question && (
        <ConfirmDialog
          title={`Set arbitration to ${question.label.toLowerCase()}?`}
          confirm={`Set to ${question.label.toLowerCase()}`}
          onConfirm={() => set(question.mode)}
          onCancel={() => ask(null)}
        >
          <p>{question.effect}</p>
        </ConfirmDialog>
      )}
      <div class="mode-note">
        <ActionNote action={action} />
      </div>
    </div>
  );
}
