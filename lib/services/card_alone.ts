/** The card where no service runs: it can be restored, and nothing else. */
import type { CardControl, CardLimits, RestoreReport } from "../model/card.ts";
import { Failure } from "../model/failure.ts";
import { GpuUnavailable } from "../model/ports.ts";
import type { Card } from "../model/services.ts";
import type { TuneResult } from "../model/tuning_view.ts";

export interface CardAloneParts {
  readonly control: CardControl;
  /** What the caller should know beforehand, e.g. that the owner's lock could not be had; null = nothing. */
  readonly note: string | null;
}

export function cardAlone({ control, note }: CardAloneParts): Pick<Card, "tune"> {
  return {
    tune: async (request, signal) => {
      if (request.kind !== "restore") {
        throw new Failure("unavailable", "Cannot set the card: no HyperSwap service is running here", {
          hint: "Start it with systemctl start hyperswap, or hyperswap serve; restoring works without it",
        });
      }
      try {
        const report = await control.restore(request.scope, signal);
        // Nothing was changed, so nothing was opened: a card that sleeps isn't woken for its limits.
        return resultOf(report, report.levers.length === 0 ? null : await control.limits(signal), note);
      } catch (error) {
        if (!(error instanceof GpuUnavailable)) throw error;
        throw new Failure("unavailable", error.message.replace("Cannot read", "Cannot restore"), {
          hint: error.remedy,
          cause: error,
        });
      }
    },
  };
}

function resultOf(
  { scope, levers, journalProblem }: RestoreReport,
  limits: CardLimits | null,
  note: string | null,
): TuneResult {
  const open = levers.filter(({ verdict }) => verdict !== "honoured" && verdict !== "not_supported");
  const [first] = open;
  if (first !== undefined) {
    const message = `Cannot put everything back: ${open.map(({ evidence }) => evidence).join("; ")}`;
    throw new Failure("unavailable", note === null ? message : `${message}. ${note}`, {
      hint: first.remedy ?? "Try again when the driver is ready",
    });
  }
  const said = levers.length === 0
    ? "Nothing to put back: the journal names no change"
    : `The card is at stock: ${levers.length} levers put back or found there`;
  const message = [said, note, journalProblem].filter((text) => text !== null).join(". ");
  return {
    message,
    levers: levers.map((report) => ({
      lever: report.lever,
      limits: limits?.levers[report.lever] ?? null,
      wanted: "stock",
      by: "restore",
      why: scope === "all" ? "Restored by hand" : "Restored by its journal",
      readBack: report.readBack,
      report,
    })),
  };
}
