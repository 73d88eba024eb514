import type { Reduce, Step } from "../model/events.ts";

/** One event's way through: what was, what is, and what was asked for. */
export interface Transition<State, Event, Effect> extends Step<State, Effect> {
  readonly event: Event;
  readonly before: State;
}

export interface MachineParts<State, Event, Effect> {
  readonly reduce: Reduce<State, Event, Effect>;
  /** Starts an effect; what comes of it is sent back as events. Must not throw. */
  readonly perform: (effect: Effect) => void;
  /** Sees every transition that changed the state or asked for something. */
  readonly record: (transition: Transition<State, Event, Effect>) => void;
}

/**
 * Runs a reducer over one mailbox, an event at a time. The state is stored before its effects start, and they report
 * back as events, so nothing awaits inside a decision and no lock is needed.
 */
export class Machine<State, Event, Effect> {
  #state: State;
  #isDraining = false;
  readonly #mailbox: Event[] = [];
  readonly #parts: MachineParts<State, Event, Effect>;

  constructor(initial: State, parts: MachineParts<State, Event, Effect>) {
    this.#state = initial;
    this.#parts = parts;
  }

  get state(): State {
    return this.#state;
  }

  send(event: Event): void {
    this.#mailbox.push(event);
    if (this.#isDraining) return;
    this.#isDraining = true;
    try {
      for (let next = this.#mailbox.shift(); next !== undefined; next = this.#mailbox.shift()) this.#apply(next);
    } finally {
      this.#isDraining = false;
    }
  }

  #apply(event: Event): void {
    const before = this.#state;
    const step = this.#parts.reduce(before, event);
    this.#state = step.state;
    if (step.state !== before || step.effects.length > 0) this.#parts.record({ event, before, ...step });
    for (const effect of step.effects) this.#parts.perform(effect);
  }
}
