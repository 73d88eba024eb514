/**
 * The spine: one second of the service's life, top to bottom.
 *
 *   hardware → sample → decide → act → record → show
 *
 * The sampler reads the machine once, for everyone. The sample goes to the reducers as an event; what they decide is
 * carried out elsewhere and comes back as events of its own. Then the second is kept, and shown.
 */
import { reduceArbiter } from "./decide/arbiter.ts";
import { type ArbiterState, initialArbiter, type Learned } from "./decide/arbiter_state.ts";
import { advance, reduceAutotune, type SweepHears } from "./decide/autotune.ts";
import { type AutotuneState, type AutotuneStep, NO_SWEEP } from "./decide/autotune_state.ts";
import { reduceCard } from "./decide/card.ts";
import { hideOwnPrompt } from "./decide/own_prompts.ts";
import type { TuningState } from "./decide/card_state.ts";
import { reduceGate } from "./decide/gate.ts";
import { type GateState, initialGate } from "./decide/gate_state.ts";
import { isSweepEvent, type SweepEffect, type SweepEvent } from "./model/autotune.ts";
import type { ArbiterEffect, ArbiterEvent, Step } from "./model/events.ts";
import { type GateEffect, type GateEvent, isGateEvent } from "./model/gate.ts";
import type { Policy } from "./model/policy.ts";
import type { Clock } from "./model/ports.ts";
import type { Sample } from "./model/sample.ts";
import { isTuneEvent, type TuneEffect, type TuneEvent } from "./model/tuning.ts";

/** Every reducer's state. One mailbox serves them all, so that none waits for another's lock. */
export interface HouseState {
  readonly arbiter: ArbiterState;
  readonly card: TuningState;
  readonly gate: GateState;
  readonly autotune: AutotuneState;
}

export type HouseEvent = ArbiterEvent | TuneEvent | GateEvent | SweepEvent;
export type HouseEffect = ArbiterEffect | TuneEffect | GateEffect | SweepEffect;

export function initialHouse(
  policy: Policy,
  { card, ...learned }: Learned & { readonly card: TuningState },
): HouseState {
  return { arbiter: initialArbiter(policy, learned), card, gate: initialGate(policy.gate), autotune: NO_SWEEP };
}

/** One event through every reducer, in order; a sweep sees what became of the others, and tells them what it wants. */
export function reduceHouse(state: HouseState, event: HouseEvent): Step<HouseState, HouseEffect> {
  if (isGateEvent(event)) return letGo(state, event);
  const first = isSweepEvent(event) ? { state, effects: [] } : reduceOthers(state, event);
  // Readings come a thousand a second and change nothing that a sweep looks at.
  if (event.type === "reading" || first.state.autotune.sweep === null && event.type !== "sweepAsked") return first;
  return followSweep(first, event);
}

/** More rounds than any event takes: a sweep's step leads to a tell, and that to its next step. */
const MOST_ROUNDS = 8;

function followSweep(first: Step<HouseState, HouseEffect>, event: SweepHears): Step<HouseState, HouseEffect> {
  let { state } = first;
  const effects: HouseEffect[] = [...first.effects];
  for (let round = 0; round < MOST_ROUNDS; round += 1) {
    const step: AutotuneStep = round === 0
      ? reduceAutotune(state.autotune, event, state)
      : advance(state.autotune, event.atMs, state);
    const isSame = step.state === state.autotune;
    state = isSame ? state : { ...state, autotune: step.state };
    effects.push(...step.effects);
    for (const tell of step.tells) {
      const told = reduceOthers(state, tell);
      state = told.state;
      effects.push(...told.effects);
    }
    if (round > 0 && isSame && step.tells.length === 0) break;
  }
  return { state, effects };
}

/** What the gate asks of the arbiter goes through the mailbox like everybody else's requests. */
function letGo(state: HouseState, event: GateEvent): Step<HouseState, HouseEffect> {
  const gate = reduceGate(state.gate, event, state.arbiter);
  return { state: gate.state === state.gate ? state : { ...state, gate: gate.state }, effects: gate.effects };
}

/** The gate sees an event after the arbiter has: it lets go by what the arbiter knows now. */
function reduceOthers(state: HouseState, event: ArbiterEvent | TuneEvent): Step<HouseState, HouseEffect> {
  const arbiter = isTuneEvent(event) ? { state: state.arbiter, effects: [] } : reduceArbiter(state.arbiter, event);
  const gate = isTuneEvent(event) ? { state: state.gate, effects: [] } : reduceGate(state.gate, event, arbiter.state);
  // A prompt of our own is nobody's workload: no profile follows it.
  const seen = isTuneEvent(event) ? event : hideOwnPrompt(state.arbiter, event).event;
  const card = isTuneEvent(seen) || seen.type === "sampled" || seen.type === "stopped"
    ? reduceCard(state.card, seen, { mode: arbiter.state.mode })
    : { state: state.card, effects: [] };
  const isSame = arbiter.state === state.arbiter && card.state === state.card && gate.state === state.gate;
  return {
    state: isSame ? state : { ...state, arbiter: arbiter.state, card: card.state, gate: gate.state },
    effects: [...arbiter.effects, ...card.effects, ...gate.effects],
  };
}

/** The stations of a second, named by what they do. */
export interface LoopParts {
  readonly clock: Clock;
  /** Reads the machine. Never rejects: a source that fails costs its own fields. */
  readonly sample: () => Promise<Sample>;
  readonly decide: (event: HouseEvent) => void;
  readonly record: (sample: Sample) => void;
  readonly show: (sample: Sample) => void;
  /** Told after each completed tick: this is what feeds the watchdog, with or without a card. */
  readonly ticked: (sample: Sample) => void;
}

/** Length of a tick. */
export const TICK_MS = 1_000;

/** Runs until the signal aborts. Ticks keep to the second: one that was late doesn't push the others. */
export async function runLoop(parts: LoopParts, signal: AbortSignal): Promise<void> {
  const { clock } = parts;
  let dueMs = clock.monotonicMs();
  while (!signal.aborted) {
    const sample = await parts.sample();
    if (signal.aborted) return;
    parts.decide({ type: "sampled", atMs: clock.monotonicMs(), sample });
    parts.record(sample);
    parts.show(sample);
    parts.ticked(sample);
    dueMs = nextDue(dueMs, clock.monotonicMs());
    const pause = clock.sleep(dueMs - clock.monotonicMs(), signal);
    await pause.catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
  }
}

/** The next whole second after now on the grid of the first tick; seconds missed are left out, not caught up. */
function nextDue(dueMs: number, nowMs: number): number {
  const missed = Math.max(0, Math.floor((nowMs - dueMs) / TICK_MS));
  return dueMs + (missed + 1) * TICK_MS;
}
