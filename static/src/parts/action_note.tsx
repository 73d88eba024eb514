import type { Action } from "../live/action.ts";

/** What became of the last thing asked for: progress, result or refusal with its hint. */
export function ActionNote({ action }: { readonly action: Action }) {
  const state = action.state.value;
  // The live region stays in the page: a region that appears together with its text isn't announced.
  return (
    <div class="note-region" role="status" aria-live="polite">
      {state.kind === "pending" && (
        <div class="note note-info">
          <span class="spinner" aria-hidden="true" />
          <p class="note-title">{state.label}</p>
        </div>
      )}
      {state.kind === "said" && (
        <div class={`note note-${state.said.tone}`}>
          <div>
            <p class="note-title">{state.said.title}</p>
            {state.said.detail !== null && <p class="note-detail">{state.said.detail}</p>}
          </div>
          <button type="button" class="icon-button" aria-label="Dismiss this message" onClick={() => action.dismiss()}>
            ×
          </button>
        </div>
      )}
    </div>
  );
}
