/** Whether what was measured can be believed, and whether the card bore it. */
import type { BenchOutcome, BenchSample, StepVerdict, SweepPlan, SweepStep } from "../model/autotune.ts";
import type { LeverReport } from "../model/card.ts";
import type { Sample } from "../model/sample.ts";
import { quantile } from "../model/distribution.ts";
import type { Current, Second } from "./autotune_state.ts";
import { isLock } from "./autotune_tasks.ts";

/** No lever doubles a speed: what looks like it was answered from a cache. */
const IMPLAUSIBLE_FACTOR = 2;
/** A black picture packs into a few per cent of a real one. */
const DEGENERATE_SHARE = 0.2;
/** SPEC 4.5: the temperature that ends a climb, and its distance from the card's own threshold. */
const CEILING_C = 87;
const CEILING_MARGIN_C = 3;
/** How far above its lock a clock may read: one step of the card's. */
const LOCK_TOLERANCE_MHZ = 15;

export function medianOf(values: readonly number[]): number | null {
  return values.length === 0 ? null : quantile(values.toSorted((a, b) => a - b), 0.5);
}

/** Why a result isn't believed, or null. `known`: steps so far. */
export function disbelief(outcome: BenchOutcome, known: readonly SweepStep[]): string | null {
  if (!outcome.ok) return outcome.isRejected ? outcome.message : null;
  const { perSecond } = outcome.sample;
  const reference = medianOf(referenceOf(known).map((sample) => sample.perSecond));
  if (reference === null || perSecond <= reference * IMPLAUSIBLE_FACTOR) return null;
  const times = (perSecond / reference).toFixed(1);
  return `${perSecond.toFixed(2)} a second is ${times} times the current setting's: answered from a cache`;
}

/** What is wrong with the output, where it was right at the current setting; null: nothing is. */
export function degeneration({ degenerate, outputBytes }: BenchSample, known: readonly SweepStep[]): string | null {
  const reference = referenceOf(known);
  if (reference.length === 0) return null;
  if (degenerate !== null && reference.every((sample) => sample.degenerate === null)) return degenerate;
  const usual = medianOf(reference.flatMap((sample) => sample.outputBytes ?? []));
  if (outputBytes === null || usual === null || outputBytes >= usual * DEGENERATE_SHARE) return null;
  return `The picture packs into ${outputBytes} bytes where ${Math.round(usual)} are usual: it is all but empty`;
}

function referenceOf(known: readonly SweepStep[]): readonly BenchSample[] {
  const control = known.filter(({ role }) => role === "control").flatMap(({ samples }) => samples);
  return control.length > 0
    ? control
    : known.filter(({ role }) => role === "warm_up").flatMap(({ samples }) => samples);
}

/** Why the card must not be driven on, by a second's sample; null: it is well. */
export function overheating({ gpu }: Sample): string | null {
  if (!gpu.available) return `The card can't be read: ${gpu.reason}`;
  const { temperatureC } = gpu.reading;
  if (temperatureC === null) return "The card gives no temperature: nobody would see it overheat";
  const { slowdownC } = gpu.facts.thresholds;
  const ceilingC = slowdownC === null ? CEILING_C : Math.min(CEILING_C, slowdownC - CEILING_MARGIN_C);
  return temperatureC >= ceilingC ? `${temperatureC} °C: the ceiling is ${ceilingC} °C` : null;
}

export function secondOf({ gpu }: Sample): Second | null {
  if (!gpu.available) return null;
  const { temperatureC, powerW, clocks } = gpu.reading;
  return { temperatureC, powerW, graphicsMhz: clocks.graphicsMhz, memoryMhz: clocks.memoryMhz };
}

/** What the preflight says of its knob. `more`: it takes another run to tell. */
export type Preflight = { readonly kind: "moved" | "more" } | { readonly kind: "refused"; readonly why: string };

/** Seconds under load that a lock is judged by, and how many runs they may take. */
const LOCK_SECONDS = 2;
const LOCK_RUNS = 5;

/** The farthest value was applied: did the hardware move? */
export function judgePreflight(plan: SweepPlan, current: Current, report: LeverReport | null): Preflight {
  if (report === null) return { kind: "refused", why: "Nothing was reported of the value that was set" };
  const { verdict, evidence } = report;
  if (!isLock(plan) || (verdict !== "unverified" && verdict !== "honoured")) {
    return verdict === "honoured" ? { kind: "moved" } : { kind: "refused", why: evidence };
  }
  if (current.samples.length === 0) return { kind: "more" };
  const isCore = plan.request.knob === "lock_core_mhz";
  const clocks = current.seconds.flatMap(({ graphicsMhz, memoryMhz }) => (isCore ? graphicsMhz : memoryMhz) ?? []);
  if (clocks.length < LOCK_SECONDS) {
    return current.samples.length < LOCK_RUNS
      ? { kind: "more" }
      : { kind: "refused", why: "The card's clock could not be read under load" };
  }
  const highest = Math.max(...clocks);
  const locked = current.value === "stock" ? Infinity : current.value;
  if (highest <= locked + LOCK_TOLERANCE_MHZ) return { kind: "moved" };
  return { kind: "refused", why: `Locked at ${locked} MHz, and under load the clock read ${highest} MHz` };
}

export function closeStep(
  current: Current,
  { verdict, reason, atMs }: { readonly verdict: StepVerdict; readonly reason: string | null; readonly atMs: number },
): SweepStep {
  const { role, value, samples, rejected, seconds, startedMs } = current;
  const known = (of: (second: Second) => number | null) => seconds.flatMap((second) => of(second) ?? []);
  const temperatures = known(({ temperatureC }) => temperatureC);
  return {
    role,
    value,
    samples,
    rejected,
    verdict,
    reason,
    medianPerSecond: medianOf(samples.map(({ perSecond }) => perSecond)),
    temperatureMaxC: temperatures.length === 0 ? null : Math.max(...temperatures),
    powerW: medianOf(known(({ powerW }) => powerW)),
    graphicsMhz: medianOf(known(({ graphicsMhz }) => graphicsMhz)),
    memoryMhz: medianOf(known(({ memoryMhz }) => memoryMhz)),
    durationMs: atMs - startedMs,
  };
}
