/** The levers of the arbitrated card, seen from the main thread: asked of the nvml Worker like everything else. */
import type { CardControl, CardEvent } from "../model/card.ts";
import { GpuUnavailable, type Timer } from "../model/ports.ts";
import type { Answers, Question } from "./nvml_protocol.ts";

export interface CardClientParts {
  ask<What extends keyof Answers>(question: Question, signal?: AbortSignal): Promise<Answers[What]>;
  /** False: whoever only reads changes nothing, not even the journal. */
  readonly mayChange: boolean;
}

/** What the client hears from the Worker goes to `hear`. */
export interface CardClient {
  readonly control: CardControl;
  hear(event: CardEvent): void;
}

export function cardClient({ ask, mayChange }: CardClientParts): CardClient {
  const listeners = new Set<(event: CardEvent) => void>();
  const change = <T>(send: () => Promise<T>): Promise<T> => mayChange ? send() : Promise.reject(readOnly());
  return {
    hear: (event) => {
      for (const listener of [...listeners]) listener(event);
    },
    control: {
      limits: (signal) => ask<"limits">({ what: "limits" }, signal),
      state: (signal) => ask<"state">({ what: "state" }, signal),
      apply: (setting, reason, signal) => change(() => ask<"apply">({ what: "apply", setting, reason }, signal)),
      restore: (scope, signal) => change(() => ask<"restore">({ what: "restore", scope }, signal)),
      forgetUncleanEnd: async (signal) => void await change(() => ask<"forget">({ what: "forget" }, signal)),
      watchEvents: (onEvent): Timer => {
        // A wrapper, so that one function may listen twice.
        const listener = (event: CardEvent) => onEvent(event);
        listeners.add(listener);
        return { stop: () => void listeners.delete(listener) };
      },
    },
  };
}

function readOnly(): GpuUnavailable {
  return new GpuUnavailable(
    "refused",
    "Cannot set the GPU: it was opened for reading only",
    "Start the service: it alone sets the card",
  );
}
