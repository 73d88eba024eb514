import type { ArbiterState } from "../decide/arbiter_state.ts";
import { describeEffect, describeEvent, describeState } from "../decide/describe.ts";
import type { Decision } from "../model/arbitration.ts";
import type { ArbiterEffect, ArbiterEvent } from "../model/events.ts";
import type { Log } from "../model/ports.ts";
import type { WallMs } from "../model/units.ts";

/** Decisions kept for `why`. */
const KEPT = 500;

/** What the log sees of a transition. */
export interface ArbiterTransition {
  readonly event: ArbiterEvent;
  readonly before: ArbiterState;
  readonly state: ArbiterState;
  readonly effects: readonly ArbiterEffect[];
}

/**
 * The why-log: every transition that did something to somebody, or answered somebody, with its reason. Readings and
 * samples that changed nothing leave no trace.
 */
export class DecisionLog {
  readonly #decisions: Decision[] = [];
  #nextId = 1;
  readonly #log: Log;

  constructor(log: Log) {
    this.#log = log;
  }

  /** Newest last. */
  all(): readonly Decision[] {
    return this.#decisions;
  }

  note(transition: ArbiterTransition, atMs: WallMs): void {
    const told = transition.effects.flatMap((effect) => {
      const words = describeEffect(effect);
      return words === null ? [] : [{ words, reason: effect.reason }];
    });
    if (told.length === 0) return;
    const decision: Decision = {
      id: this.#nextId++,
      atMs,
      event: describeEvent(transition.event),
      before: describeState(transition.before),
      after: describeState(transition.state),
      effects: told.map((effect) => effect.words),
      reason: [...new Set(told.map((effect) => effect.reason))].join("; "),
    };
    this.#decisions.push(decision);
    if (this.#decisions.length > KEPT) this.#decisions.shift();
    this.#log.info(`${decision.event}: ${decision.effects.join(", ")}`, {
      decision: decision.id,
      reason: decision.reason,
    });
  }
}
