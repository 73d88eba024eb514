/** The card's tuning as every second of the live stream shows it. */
import * as z from "zod";
import { LEVERS } from "../model/card.ts";
import type { LeverValue } from "../model/card.ts";
import { RUNGS } from "../model/tuning.ts";
import type { GovernorView, TuningView } from "../model/tuning_view.ts";
import { round } from "../model/units.ts";
import { ConfirmWire, DriftWire, leverValue, viewConfirm, viewDrift } from "./tuning_view.ts";

/** What `/api/stats` shows of it: enough to see at a glance; `/api/overclock` has the rest. */
export const TuningStatsWire = z.object({
  available: z.boolean(),
  reason: z.string().nullable(),
  active_profile: z.string().nullable(),
  active_by: z.enum(["auto", "operator"]).nullable(),
  why: z.string(),
  automatic: z.boolean(),
  levers: z.array(z.object({
    lever: z.enum(LEVERS),
    wanted: leverValue("what it was set to"),
    read_back: leverValue("what the card says"),
    verdict: z.string().nullable(),
  })),
  governor: z.object({
    enabled: z.boolean(),
    level: z.int(),
    rung: z.enum(RUNGS),
    blind: z.boolean(),
    reason: z.string(),
  }),
  quarantine: z.array(z.string()),
  drift: z.array(DriftWire),
  confirm: ConfirmWire,
});

export function viewTuningStats(
  { card, governor }: { readonly card: TuningView; readonly governor: GovernorView },
): z.output<typeof TuningStatsWire> {
  return {
    available: card.isReady,
    reason: card.reason,
    active_profile: card.active,
    active_by: card.activeBy,
    why: card.why,
    automatic: card.isAutomatic,
    levers: card.levers.map((view) => ({
      lever: view.lever,
      wanted: roundValue(view.wanted),
      read_back: roundValue(view.readBack),
      verdict: view.report?.verdict ?? null,
    })),
    governor: {
      enabled: governor.enabled,
      level: governor.level,
      rung: RUNGS[governor.level] ?? "stock",
      blind: governor.isBlind,
      reason: governor.reason,
    },
    quarantine: card.quarantine.map(({ profile }) => profile),
    drift: viewDrift(card),
    confirm: viewConfirm(card),
  };
}

function roundValue(value: LeverValue | null): LeverValue | null {
  return typeof value === "number" ? round(value, 1) : value;
}
