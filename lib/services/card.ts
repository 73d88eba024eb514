import type { TuningState } from "../decide/card_state.ts";
import { viewGovernor, viewTuning } from "../decide/card_view.ts";
import { Failure } from "../model/failure.ts";
import type { Clock } from "../model/ports.ts";
import type { Card } from "../model/services.ts";
import type { TuneEvent, TuneReply, TuneRequest } from "../model/tuning.ts";

export interface CardParts {
  readonly clock: Clock;
  readonly state: () => TuningState;
  readonly send: (event: TuneEvent) => void;
}

export class CardService implements Card {
  readonly #parts: CardParts;
  readonly #callers = new Map<string, (reply: TuneReply) => void>();

  constructor(parts: CardParts) {
    this.#parts = parts;
  }

  tuning(): ReturnType<Card["tuning"]> {
    return viewTuning(this.#parts.state(), this.#toWall());
  }

  governor(): ReturnType<Card["governor"]> {
    return viewGovernor(this.#parts.state(), this.#toWall());
  }

  /** Resolves once the card has answered. What was asked goes on when the caller hangs up: it can be undone by asking. */
  async tune(request: TuneRequest, signal: AbortSignal): ReturnType<Card["tune"]> {
    const { clock, send } = this.#parts;
    const requestId = clock.uuid();
    const { promise, resolve, reject } = Promise.withResolvers<TuneReply>();
    const onAbort = () => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    this.#callers.set(requestId, resolve);
    try {
      send({ type: "tuneAsked", atMs: clock.monotonicMs(), requestId, request });
      const reply = await promise;
      if (reply.kind === "refused") throw new Failure(reply.code, reply.message, { hint: reply.hint });
      const asked = new Set(reply.levers);
      return { message: reply.message, levers: this.tuning().levers.filter(({ lever }) => asked.has(lever)) };
    } finally {
      signal.removeEventListener("abort", onAbort);
      this.#callers.delete(requestId);
    }
  }

  /** The reducer's answer to a request; each comes exactly once. */
  resolve(requestId: string, reply: TuneReply): void {
    this.#callers.get(requestId)?.(reply);
  }

  #toWall(): (monotonicMs: number) => number {
    const { clock } = this.#parts;
    const offsetMs = clock.wallMs() - clock.monotonicMs();
    return (monotonicMs) => monotonicMs + offsetMs;
  }
}
