/** What a sweep has found, and how it stands in history. */
import { compare } from "../model/compare.ts";
import type { SweepEnd, SweepResult, SweepStep } from "../model/autotune.ts";
import type { LeverValue } from "../model/card.ts";
import { sweepResultFields } from "../model/sweep_fields.ts";
import { round } from "../model/units.ts";
import type { Sweep } from "./autotune_state.ts";
import { controlOf, fastest } from "./autotune_tasks.ts";

const UNITS = { ollama: "tok/s", comfy: "it/s" } as const;

export function namedValue({ plan }: Pick<Sweep, "plan">, value: LeverValue): string {
  const { knob } = plan.request;
  if (value !== "stock") return knob === "power_limit_w" ? `${value} W` : `${value} MHz`;
  return knob.startsWith("lock") ? "unlocked" : "stock";
}

/** `end`: set where it ended otherwise than by having tried everything. */
export function conclude(sweep: Sweep, end: { readonly kind: SweepEnd; readonly why: string } | null): SweepResult {
  const { plan, steps, stoppedBy, pauses } = sweep;
  const best = fastest(steps);
  const control = controlOf(steps);
  const samplesOf = (role: SweepStep["role"]) =>
    steps.filter((step) => step.role === role && step.verdict === "stable")
      .flatMap(({ samples }) => samples.map(({ perSecond }) => perSecond));
  const [controls, bests] = [samplesOf("confirm_control"), samplesOf("confirm_best")];
  const isConfirmed = best !== null && controls.length > 0 && bests.length > 0;
  const comparison = isConfirmed
    ? compare(
      { name: namedValue(sweep, plan.control), values: controls },
      { name: namedValue(sweep, best.value), values: bests },
      { among: 1 },
    )
    : null;
  const gainPct = comparison?.differencePct ?? null;
  const isImproved = comparison?.standsOut === true && (gainPct ?? 0) > 0;
  const found: Omit<SweepResult, "end" | "message"> = {
    controlValue: plan.control,
    controlMedian: control,
    bestValue: best?.value ?? null,
    bestMedian: best?.median ?? null,
    gainPct,
    comparison,
    spreadPct: spreadOf(steps, control),
    stoppedBy,
    pauses,
    applied: null,
  };
  if (end !== null) return { ...found, end: end.kind, message: end.why };
  const kind = isImproved ? "improved" : stoppedBy === null ? "flat" : "stopped_early";
  return { ...found, end: kind, message: sentence(sweep, found, isImproved) };
}

/** How far apart the values tried lie: it says what the knob does, not what is gained. */
function spreadOf(steps: readonly SweepStep[], control: number | null): number | null {
  const medians = steps.flatMap(({ role, verdict, medianPerSecond }) =>
    (role === "candidate" || role === "control" || role === "unlocked") && verdict === "stable" &&
      medianPerSecond !== null
      ? [medianPerSecond]
      : []
  );
  if (control === null || control <= 0 || medians.length < 2) return null;
  return (Math.max(...medians) - Math.min(...medians)) / control * 100;
}

function sentence(sweep: Sweep, found: Omit<SweepResult, "end" | "message">, isImproved: boolean): string {
  const { plan, stoppedBy } = sweep;
  const unit = UNITS[plan.request.workload];
  const stopped = stoppedBy === null ? "" : `. The climb stopped: ${stoppedBy}`;
  const { bestValue, comparison, gainPct, controlMedian } = found;
  const current = `${namedValue(sweep, plan.control)} (${controlMedian?.toFixed(2) ?? "?"} ${unit})`;
  if (bestValue === null) return `No other value proved stable: stay at ${current}${stopped}`;
  const best = namedValue(sweep, bestValue);
  if (comparison === null) {
    const isFaster = (found.bestMedian ?? 0) > (controlMedian ?? 0);
    return isFaster
      ? `${best} (${found.bestMedian?.toFixed(2)} ${unit}) came out above ${current}, which was not confirmed${stopped}`
      : `Nothing was faster than the current setting, ${current}${stopped}`;
  }
  const test = `${comparison.test}, n=${comparison.aN}+${comparison.bN}, p=${
    comparison.pValue?.toPrecision(2) ?? "not told"
  }`;
  const much = `${(gainPct ?? 0) >= 0 ? "+" : ""}${(gainPct ?? 0).toFixed(1)} %`;
  return isImproved
    ? `${best} is the fastest stable value: ${much} over ${current}, and that stands out from noise (${test})${stopped}`
    : `Flat: ${best} came out at ${much} against ${current}, which doesn't stand out from noise (${test})${stopped}`;
}

/** A step in wire form, with its raw samples. */
export function stepFields(sweep: Sweep, step: SweepStep): Readonly<Record<string, unknown>> {
  const { plan, model } = sweep;
  const { knob, workload, profile } = plan.request;
  return {
    event: "step",
    sweep: plan.id,
    knob,
    workload,
    model,
    profile,
    role: step.role,
    value: step.value,
    per_second: round(step.medianPerSecond, 3),
    samples: step.samples.map(({ perSecond, count, durationMs, seed, degenerate }) => ({
      per_second: round(perSecond, 4),
      count,
      duration_ms: round(durationMs),
      seed,
      ...(degenerate === null ? {} : { degenerate }),
    })),
    rejected: step.rejected,
    verdict: step.verdict,
    reason: step.reason,
    temperature_max_c: step.temperatureMaxC,
    power_w: round(step.powerW),
    graphics_mhz: round(step.graphicsMhz, 0),
    memory_mhz: round(step.memoryMhz, 0),
    duration_ms: round(step.durationMs),
    message: `${knob} at ${namedValue(sweep, step.value)} (${step.role}): ${step.reason ?? step.verdict}`,
  };
}

/** What history keeps of a sweep's begin: it shows, if no result follows, that the service ended before it. */
export function startFields({ plan: { id, request, control, candidates } }: Sweep): Readonly<Record<string, unknown>> {
  const { knob, workload, profile, repeats } = request;
  return {
    event: "start",
    sweep: id,
    knob,
    workload,
    model: request.model,
    profile,
    control_value: control,
    candidates,
    repeats,
    message: `The sweep of ${knob} has begun`,
  };
}

/** A result in wire form. */
export function resultFields({ plan, model }: Sweep, result: SweepResult): Readonly<Record<string, unknown>> {
  const { knob, workload, profile } = plan.request;
  return { event: "result", sweep: plan.id, knob, workload, model, profile, ...sweepResultFields(result) };
}

/** The result of a sweep that its service didn't live to end, from what history kept of it. */
export function interruptedFields(
  begun: Readonly<Record<string, unknown>>,
  steps: readonly Readonly<Record<string, unknown>>[],
): Readonly<Record<string, unknown>> {
  const { sweep, knob, workload, profile, control_value: controlValue } = begun;
  const control = steps.find(({ role }) => role === "control")?.["per_second"] ?? null;
  const kept = steps.length === 1 ? "its one step is kept" : `its ${steps.length} steps are kept`;
  return {
    event: "result",
    sweep,
    knob,
    workload,
    model: steps[0]?.["model"] ?? begun["model"] ?? null,
    profile,
    end: "interrupted",
    control_value: controlValue,
    control_per_second: control,
    best_value: null,
    best_per_second: null,
    gain_pct: null,
    stands_out: null,
    test: null,
    p_value: null,
    n: null,
    spread_pct: null,
    stopped_by: null,
    pauses: null,
    applied: null,
    message:
      `Interrupted: the service ended in the middle of the sweep of ${knob}; ${kept}, and what was set is taken ` +
      "back from the journal before anything else",
  };
}
