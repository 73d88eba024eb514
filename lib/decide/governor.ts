/**
 * The thermal governor (SPEC 4.4): bad samples climb four rungs, good ones come down again, one rung at a time. It only
 * says how high it stands; decide/card_wishes makes settings of that.
 */
import type { GpuState } from "../model/sample.ts";
import type { GovernorChange, GovernorPolicy } from "../model/tuning.ts";
import type { MonotonicMs } from "../model/units.ts";

/** Changes kept for "why". */
const KEPT = 50;
const TOP = 4;

export interface GovernorState {
  readonly enabled: boolean;
  /** 0–4; RUNGS names them. */
  readonly level: number;
  /** The temperature has not been readable for a while: nothing may be assumed, so the card goes to stock. */
  readonly isBlind: boolean;
  readonly bad: number;
  readonly good: number;
  /** Samples in a row without a temperature; while blind, those with one count in `good`. */
  readonly missing: number;
  readonly changedAtMs: MonotonicMs | null;
  readonly hotC: number | null;
  readonly reason: string;
  /** Oldest first. */
  readonly history: readonly GovernorChange[];
}

export function initialGovernor(policy: GovernorPolicy): GovernorState {
  return {
    enabled: policy.enabled,
    level: 0,
    isBlind: false,
    bad: 0,
    good: 0,
    missing: 0,
    changedAtMs: null,
    hotC: null,
    reason: policy.enabled ? "cool so far" : "disabled by the configuration",
    history: [],
  };
}

/** One sample's verdict, with what made it bad. */
export type Heat =
  | { readonly kind: "bad"; readonly why: string }
  | { readonly kind: "good" }
  /** Warm: neither climbs nor comes down. */
  | { readonly kind: "between" }
  | { readonly kind: "unknown"; readonly why: string }
  /** Asleep: nothing runs that could get hot. */
  | { readonly kind: "none" };

/** °C from which a sample is bad on this card. */
export function hotOf(slowdownC: number | null, policy: GovernorPolicy): number {
  return slowdownC === null ? policy.hotFallbackC : slowdownC - policy.hotMarginC;
}

/** The same of its memory: what is configured, or the card's own limit where that is lower. */
export function memoryHotOf(memoryMaxC: number | null, policy: GovernorPolicy): number {
  return memoryMaxC === null ? policy.memoryHotC : Math.min(policy.memoryHotC, memoryMaxC);
}

export function heatOf(gpu: GpuState, policy: GovernorPolicy): Heat {
  if (!gpu.available) {
    // A card that was never there, or sleeps, has no sensor to be blind.
    return gpu.kind === "asleep" || gpu.facts === null ? { kind: "none" } : { kind: "unknown", why: gpu.reason };
  }
  const { temperatureC, memoryTemperatureC, throttleReasons } = gpu.reading;
  const { slowdownC, memoryMaxC } = gpu.facts.thresholds;
  const [hotC, memoryHotC] = [hotOf(slowdownC, policy), memoryHotOf(memoryMaxC, policy)];
  // Nothing that a card without eyes says of its heat may be believed, good or bad.
  if (temperatureC === null) return { kind: "unknown", why: "the card gives no temperature" };
  const throttled = throttleWhy(throttleReasons, policy.throttleMask);
  if (throttled !== null) return { kind: "bad", why: throttled };
  if (temperatureC >= hotC) {
    return { kind: "bad", why: `the core is at ${temperatureC} °C, hot from ${hotC} °C` };
  }
  if (memoryTemperatureC !== null && memoryTemperatureC >= memoryHotC) {
    return { kind: "bad", why: `the memory is at ${memoryTemperatureC} °C, hot from ${memoryHotC} °C` };
  }
  const isCoolAgain = temperatureC <= hotC - policy.recoverMarginC &&
    (memoryTemperatureC === null || memoryTemperatureC <= memoryHotC - policy.recoverMarginC);
  return isCoolAgain ? { kind: "good" } : { kind: "between" };
}

/** The driver's 64-bit mask comes as a number; the bits asked for lie in its low 32. */
function throttleWhy(mask: number | null, wanted: number): string | null {
  const set = mask === null ? 0 : (mask % 2 ** 32) & wanted;
  if (set === 0) return null;
  const names = [[0x20, "software thermal slowdown"], [0x40, "hardware thermal slowdown"], [
    0x80,
    "power brake",
  ]] as const;
  const known = names.filter(([bit]) => (set & bit) !== 0).map(([, name]) => name);
  return `the driver throttles: ${known.join(", ") || `0x${set.toString(16)}`}`;
}

/** One second. */
export function watchHeat(
  state: GovernorState,
  { gpu, atMs, policy }: { readonly gpu: GpuState; readonly atMs: MonotonicMs; readonly policy: GovernorPolicy },
): GovernorState {
  const heat = heatOf(gpu, policy);
  const hotC = gpu.facts === null ? state.hotC : hotOf(gpu.facts.thresholds.slowdownC, policy);
  const counted = count({ ...state, hotC }, heat);
  if (counted.isBlind) return regain(counted, { atMs, policy });
  if (heat.kind === "unknown") {
    return counted.missing >= policy.blindSamples
      ? change({ ...counted, isBlind: true }, { to: 0, atMs, reason: `Blind, so stock: ${heat.why}` })
      : counted;
  }
  if (!counted.enabled || !isCool(counted, { atMs, policy })) return counted;
  if (heat.kind === "bad" && counted.bad >= policy.badSamples && counted.level < TOP) {
    const reason = `${capital(heat.why)}, for ${counted.bad} samples in a row`;
    return change(counted, { to: counted.level + 1, atMs, reason });
  }
  if (heat.kind === "good" && counted.good >= policy.goodSamples && counted.level > 0) {
    const reason = `At most ${
      (hotC ?? policy.hotFallbackC) - policy.recoverMarginC
    } °C for ${counted.good} samples in a row`;
    return change(counted, { to: counted.level - 1, atMs, reason });
  }
  return counted;
}

function count(state: GovernorState, heat: Heat): GovernorState {
  const zero = { bad: 0, good: 0, missing: 0 };
  switch (heat.kind) {
    case "bad":
      // While blind, a reading is a reading: what counts is that the sensor answers.
      return { ...state, ...zero, bad: state.bad + 1, good: state.isBlind ? state.good + 1 : 0 };
    case "good":
      return { ...state, ...zero, good: state.good + 1 };
    case "between":
      return { ...state, ...zero, good: state.isBlind ? state.good + 1 : 0 };
    case "unknown":
      return { ...state, ...zero, missing: state.missing + 1 };
    case "none":
      return { ...state, ...zero };
  }
}

/** Out of blindness: the sensor has answered for as long as it takes to believe a bad sample, and the pause is over. */
function regain(
  state: GovernorState,
  { atMs, policy }: { readonly atMs: MonotonicMs; readonly policy: GovernorPolicy },
): GovernorState {
  if (state.good < policy.badSamples || !isCool(state, { atMs, policy })) return state;
  return change({ ...state, isBlind: false }, { to: 0, atMs, reason: "The temperature can be read again" });
}

/** Whether the last change is long enough ago. */
function isCool(
  state: GovernorState,
  { atMs, policy }: { readonly atMs: MonotonicMs; readonly policy: GovernorPolicy },
): boolean {
  return state.changedAtMs === null || atMs - state.changedAtMs >= policy.cooldownMs;
}

function change(
  state: GovernorState,
  { to, atMs, reason }: { readonly to: number; readonly atMs: MonotonicMs; readonly reason: string },
): GovernorState {
  const entry: GovernorChange = { atMs, from: state.level, to, reason };
  return {
    ...state,
    level: to,
    bad: 0,
    good: 0,
    changedAtMs: atMs,
    reason,
    history: [...state.history, entry].slice(-KEPT),
  };
}

/** Enables, disables, or clears by hand. Back on level 0 at once in each case but enabling. */
export function setGovernor(
  state: GovernorState,
  { enabled, reset, atMs }: { readonly enabled: boolean | null; readonly reset: boolean; readonly atMs: MonotonicMs },
): GovernorState {
  const next = enabled ?? state.enabled;
  if (next === state.enabled && !reset) return state;
  const word = reset ? "Cleared by hand" : next ? "Enabled by hand" : "Disabled by hand";
  const changed = change({ ...state, enabled: next }, { to: 0, atMs, reason: word });
  // Blindness is a fact of the card, not a decision that could be cleared.
  return { ...changed, missing: state.missing };
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
