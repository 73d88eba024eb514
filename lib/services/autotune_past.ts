import { interruptedFields } from "../decide/autotune_result.ts";
import type { HistoryItem } from "../model/history.ts";
import type { Clock, Store } from "../model/ports.ts";
import type { RunView } from "../model/services.ts";

/** More records than one sweep leaves. */
const LOOKED_AT = 1_000;

/**
 * A sweep that had begun and has no result was cut off with its service. That is written down once, and its run can be
 * asked for by the id that its caller was given. Null: the last sweep ended as it should.
 */
export async function tellInterrupted(
  { store, clock }: { readonly store: Pick<Store, "append" | "history">; readonly clock: Clock },
): Promise<RunView | null> {
  const items = await store.history({ limit: LOOKED_AT, kind: "autotune", before: null, durable: true });
  const newest = items.find(({ fields }) => fields["event"] === "start" || fields["event"] === "result");
  if (newest?.fields["event"] !== "start") return null;
  const { fields: begun, atMs: startedAtMs } = newest;
  const steps = items.filter(({ fields }) => fields["event"] === "step" && fields["sweep"] === begun["sweep"]);
  const fields = interruptedFields(begun, steps.map((step) => step.fields));
  await store.append({ atMs: clock.wallMs(), kind: "autotune", fields });
  return runOf(newest, { startedAtMs, lastAtMs: steps[0]?.atMs ?? startedAtMs, message: String(fields["message"]) });
}

function runOf(
  { fields }: HistoryItem,
  { startedAtMs, lastAtMs, message }: {
    readonly startedAtMs: number;
    readonly lastAtMs: number;
    readonly message: string;
  },
): RunView {
  return {
    id: String(fields["sweep"]),
    operation: "autotune-sweep",
    state: "failed",
    progress: { phase: "interrupted", done: null, etaMs: null },
    startedAtMs,
    // The last that is known of it: nobody was there to see its end.
    endedAtMs: lastAtMs,
    result: null,
    error: {
      code: "unavailable",
      message,
      hint: "hyperswap autotune shows its steps, hyperswap overclock where the card stands; start the sweep again",
      details: null,
    },
    version: 1,
  };
}
