/** What of the card's moves is written into the history. */
import type { TuneEffect } from "../model/tuning.ts";
import type { TuningState } from "./card_state.ts";

/** Whether Ollama came back on the card. */
export function tellReturn(finding: NonNullable<TuningState["ollama"]["finding"]>): TuneEffect {
  const { isOnGpu, text } = finding;
  return {
    kind: "recordTuning",
    event: isOnGpu ? "Ollama is back on the GPU" : "Ollama did not come back on the GPU",
    reason: text,
    item: { kind: isOnGpu ? "profile" : "fault", fields: { cause: "reopened", levers: [], reason: text } },
  };
}

/** That the governor has moved. */
export function tellGovernor(before: TuningState, governor: TuningState["governor"]): TuneEffect {
  return {
    kind: "recordTuning",
    event: `The governor goes from level ${before.governor.level} to ${governor.level}`,
    reason: governor.reason,
    item: {
      kind: "governor",
      fields: {
        from: before.governor.level,
        level: governor.level,
        blind: governor.isBlind,
        reason: governor.reason,
      },
    },
  };
}
