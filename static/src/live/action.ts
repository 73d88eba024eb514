/** Something the user asked for: under way, answered, or refused; it stays in sight until the next one. */
import { type ReadonlySignal, signal } from "@preact/signals";
import { Refusal } from "./call.ts";

export type Tone = "ok" | "info" | "warn" | "bad";

export interface Said {
  readonly tone: Tone;
  readonly title: string;
  readonly detail: string | null;
}

export type ActionState =
  | { readonly kind: "idle" }
  | { readonly kind: "pending"; readonly label: string }
  | { readonly kind: "said"; readonly said: Said };

export interface Action {
  readonly state: ReadonlySignal<ActionState>;
  /** Runs one thing at a time; what it returns, or the refusal it throws, is shown. */
  run(label: string, work: () => Promise<Said | null>): Promise<void>;
  dismiss(): void;
}

export function createAction(): Action {
  const state = signal<ActionState>({ kind: "idle" });
  return {
    state,
    dismiss: () => (state.value = { kind: "idle" }),
    run: async (label, work) => {
      if (state.value.kind === "pending") return;
      state.value = { kind: "pending", label };
      try {
        const said = await work();
        state.value = said === null ? { kind: "idle" } : { kind: "said", said };
      } catch (error) {
        state.value = { kind: "said", said: refused(error) };
      }
    },
  };
}

/** A refusal in the service's words; anything else is a mistake of this page and says so. */
export function refused(error: unknown): Said {
  if (error instanceof Refusal) return { tone: "bad", title: error.message, detail: error.hint };
  return { tone: "bad", title: "The page could not finish this", detail: String(error) };
}
