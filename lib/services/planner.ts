/** `plan` and `footprints`: what would happen, and what was learned. Reads only. */
import type { ArbiterState } from "../decide/arbiter_state.ts";
import { limitsOf } from "../decide/calibration.ts";
import {
  alike,
  type Footprints,
  isAlike,
  LEAST_MEASUREMENTS,
  type Measurement,
  peakOf,
  type Shape,
} from "../decide/footprint.ts";
import { contextOf } from "../decide/lane.ts";
import { COMFY_KEY } from "../decide/need.ts";
import type { PartialBook } from "../decide/partial_load.ts";
import { planWorkload } from "../decide/workload_plan.ts";
import type { ClassLimits } from "../model/arbitration.ts";
import { Failure } from "../model/failure.ts";
import type { FootprintRow, LoadTimes, PlanRequest, WorkloadPlan } from "../model/footprints.ts";
import type { HistoryItem } from "../model/history.ts";
import { canonical } from "../model/model_names.ts";
import type { Clock, Store } from "../model/ports.ts";
import type { Planner } from "../model/services.ts";

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

  limits(): ClassLimits {
    const { policy, loads } = this.#parts.state();
    return limitsOf(policy.classify, loads);
  }

  async footprints(): Promise<readonly FootprintRow[]> {
    const { store, state } = this.#parts;
    const swaps = await store.history({ limit: MOST_SWAPS, kind: "swap", before: null, durable: true });
    const { footprints, misses, partials } = state();
    return rowsOf({ footprints, misses, workflows: partials.runs }, swaps);
  }
}

export interface LearnedNeeds {
  readonly footprints: Footprints;
  readonly misses: Readonly<Record<string, number>>;
  /** By workflow: its whole runs. */
  readonly workflows: PartialBook["runs"];
}

/** Largest first; a row for each way a model was loaded, and for each workflow. */
export function rowsOf(
  { footprints, misses, workflows }: LearnedNeeds,
  swaps: readonly HistoryItem[],
): readonly FootprintRow[] {
  const rows = Object.entries(footprints).flatMap(([name, measured]) => {
    const newest = measured.at(-1);
    const mine = swaps.filter(({ fields }) =>
      typeof fields["model"] === "string" && canonical(fields["model"]) === name
    );
    return shapesOf(measured).flatMap((shape) => {
      const isNewest = newest !== undefined && isAlike(shape, newest);
      const row = rowOf(alike(measured, shape), { name, shape, mine });
      return row === null ? [] : [{ ...row, misses: isNewest ? misses[name] ?? 0 : 0, isUsed: isNewest && row.isUsed }];
    });
  });
  const runs = Object.entries(workflows).flatMap(([name, whole]) => {
    const measured = whole.flatMap(({ peakBytes }) => peakBytes === null ? [] : [peakOf(peakBytes)]);
    const row = rowOf(measured, { name, shape: NO_SHAPE, mine: [] });
    // Whether to yield is decided before anybody knows which workflow it is: by all of them together.
    return row === null ? [] : [{ ...row, source: "comfyui" as const, isUsed: false }];
  });
  return [...rows, ...runs].sort((a, b) => b.peakBytes - a.peakBytes);
}

const NO_SHAPE: Shape = { contextLength: null, parallel: null };

function shapesOf(measured: readonly Measurement[]): readonly Shape[] {
  const shapes: Shape[] = [];
  for (const one of measured) if (!shapes.some((shape) => isAlike(shape, one))) shapes.push(one);
  return shapes;
}

function rowOf(
  measured: readonly Measurement[],
  { name, shape, mine }: {
    readonly name: string;
    readonly shape: Shape;
    readonly mine: readonly HistoryItem[];
  },
): FootprintRow | null {
  const latest = measured.at(-1);
  if (latest === undefined) return null;
  const peaks = measured.map(({ peakBytes }) => peakBytes);
  const steady = measured.flatMap(({ steadyBytes }) => steadyBytes === null ? [] : [steadyBytes]);
  const own = mine.filter(({ fields }) => (fields["context_length"] ?? null) === shape.contextLength);
  return {
    name,
    source: name === COMFY_KEY ? "comfyui" : "ollama",
    contextLength: shape.contextLength,
    parallel: shape.parallel,
    n: measured.length,
    isUsed: measured.length >= LEAST_MEASUREMENTS,
    peakBytes: Math.max(...peaks),
    medianBytes: middle(peaks) ?? latest.peakBytes,
    leastBytes: Math.min(...peaks),
    latestBytes: latest.peakBytes,
    steadyBytes: middle(steady),
    misses: 0,
    warm: timesOf(own, "ram_hit"),
    cold: timesOf(own, "cold"),
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
