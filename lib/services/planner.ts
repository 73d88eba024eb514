/** `plan` and `footprints`: what would happen, and what was learned. Reads only. */
import type { ArbiterState } from "../decide/arbiter_state.ts";
import { type Footprints, LEAST_MEASUREMENTS } from "../decide/footprint.ts";
import { contextOf } from "../decide/lane.ts";
import { COMFY_KEY } from "../decide/need.ts";
import { planWorkload } from "../decide/workload_plan.ts";
import { canonical } from "../decide/yield_targets.ts";
import { Failure } from "../model/failure.ts";
import type { FootprintRow, LoadTimes, PlanRequest, WorkloadPlan } from "../model/footprints.ts";
import type { HistoryItem } from "../model/history.ts";
import type { Clock, Store } from "../model/ports.ts";
import type { Planner } from "../model/services.ts";
import type { Bytes } from "../model/units.ts";

/** Swaps that load times are taken from. */
const MOST_SWAPS = 1_000;

export interface PlannerParts {
  readonly clock: Clock;
  readonly store: Pick<Store, "history">;
  readonly state: () => ArbiterState;
}

export class PlannerService implements Planner {
  readonly #parts: PlannerParts;

  constructor(parts: PlannerParts) {
    this.#parts = parts;
  }

  plan(request: PlanRequest): WorkloadPlan {
    const { clock, state } = this.#parts;
    const now = state();
    const context = contextOf(now, { isAuto: false, isWanted: true }, clock.monotonicMs());
    if (context === null) {
      throw new Failure("unavailable", "The first sample isn't in yet", { hint: "Try again in a second" });
    }
    const plan = planWorkload(request, now, context);
    // A name that nobody knows is a mistake in the question, not an answer to it.
    if (plan.refusal?.code === "not_found") {
      const { message, hint, details } = plan.refusal;
      throw new Failure("not_found", message, {
        ...(hint === null ? {} : { hint }),
        ...(details === null ? {} : { details }),
      });
    }
    return plan;
  }

  async footprints(): Promise<readonly FootprintRow[]> {
    const { store, state } = this.#parts;
    const swaps = await store.history({ limit: MOST_SWAPS, kind: "swap", before: null, durable: true });
    return rowsOf(state().footprints, swaps);
  }
}

/** Largest first. */
export function rowsOf(footprints: Footprints, swaps: readonly HistoryItem[]): readonly FootprintRow[] {
  const rows = Object.entries(footprints).flatMap(([name, measured]) => {
    const latestBytes = measured.at(-1);
    return latestBytes === undefined ? [] : [rowOf(name, { measured, latestBytes, swaps })];
  });
  return rows.sort((a, b) => b.peakBytes - a.peakBytes);
}

function rowOf(
  name: string,
  { measured, latestBytes, swaps }: {
    readonly measured: readonly Bytes[];
    readonly latestBytes: Bytes;
    readonly swaps: readonly HistoryItem[];
  },
): FootprintRow {
  const mine = swaps.filter(({ fields }) => typeof fields["model"] === "string" && canonical(fields["model"]) === name);
  return {
    name,
    source: name === COMFY_KEY ? "comfyui" : "ollama",
    n: measured.length,
    isUsed: measured.length >= LEAST_MEASUREMENTS,
    peakBytes: Math.max(...measured),
    medianBytes: middle(measured) ?? latestBytes,
    leastBytes: Math.min(...measured),
    latestBytes,
    warm: timesOf(mine, "ram_hit"),
    cold: timesOf(mine, "cold"),
  };
}

function timesOf(swaps: readonly HistoryItem[], wanted: "ram_hit" | "cold"): LoadTimes {
  const times = swaps.flatMap(({ fields }) =>
    fields["class"] === wanted && typeof fields["load_ms"] === "number" ? [fields["load_ms"]] : []
  );
  return { n: times.length, medianMs: middle(times) };
}

/** The median (the lower of two middles); null without values. */
function middle(values: readonly number[]): number | null {
  return [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) / 2)] ?? null;
}
