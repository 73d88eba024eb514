/**
 * The spine: one second of the service's life, top to bottom.
 *
 *   hardware → sample → decide → act → record → show
 *
 * The sampler reads the machine once, for everyone. The sample goes to the reducers as an event; what they decide is
 * carried out elsewhere and comes back as events of its own. Then the second is kept, and shown.
 */
import { reduceArbiter } from "./decide/arbiter.ts";
import { type ArbiterState, initialArbiter } from "./decide/arbiter_state.ts";
import { reduceCard } from "./decide/card.ts";
import type { TuningState } from "./decide/card_state.ts";
import type { Footprints } from "./decide/footprint.ts";
import type { ArbiterEffect, ArbiterEvent, Step } from "./model/events.ts";
import type { Policy } from "./model/policy.ts";
import type { Clock } from "./model/ports.ts";
import type { Sample } from "./model/sample.ts";
import { isTuneEvent, type TuneEffect, type TuneEvent } from "./model/tuning.ts";

/** Every reducer's state. One mailbox serves them all, so that none waits for another's lock. */
export interface HouseState {
  readonly arbiter: ArbiterState;
  readonly card: TuningState;
}

export type HouseEvent = ArbiterEvent | TuneEvent;
export type HouseEffect = ArbiterEffect | TuneEffect;

export function initialHouse(
  policy: Policy,
  { footprints, card }: { readonly footprints: Footprints; readonly card: TuningState },
): HouseState {
  return { arbiter: initialArbiter(policy, footprints), card };
}

/** One event through every reducer, in order. */
export function reduceHouse(state: HouseState, event: HouseEvent): Step<HouseState, HouseEffect> {
  const arbiter = isTuneEvent(event) ? { state: state.arbiter, effects: [] } : reduceArbiter(state.arbiter, event);
  const card = isTuneEvent(event) || event.type === "sampled" || event.type === "stopped"
    ? reduceCard(state.card, event, { mode: arbiter.state.mode })
    : { state: state.card, effects: [] };
  const isSame = arbiter.state === state.arbiter && card.state === state.card;
  return {
    state: isSame ? state : { arbiter: arbiter.state, card: card.state },
    effects: [...arbiter.effects, ...card.effects],
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
