import type { ArbiterState } from "../decide/arbiter_state.ts";
import type { GateState } from "../decide/gate_state.ts";
import { viewHeld } from "../decide/gate_view.ts";
import type {
  Admission,
  AdmissionRequest,
  GateCounts,
  GateUrls,
  HeldNote,
  RetryVerdict,
  Ticket,
  Verdict,
} from "../model/admission.ts";
import type { ArbiterReply } from "../model/arbitration.ts";
import type { ArbiterEvent } from "../model/events.ts";
import type { GateEffect, GateEvent, GateVerdict, GateView } from "../model/gate.ts";
import type { Clock, Timer } from "../model/ports.ts";
import type { HealthCheck } from "../model/services.ts";
import { checkGate } from "./gate_health.ts";

/** Deadlines are looked at once a second while somebody is held, whether or not there are samples. */
const TICK_MS = 1_000;
/** Past the deadline by this, nobody decides any more: the request passes. */
const STUCK_MS = 5_000;

const NO_URLS: GateUrls = { ollama: null, comfyui: null };

export interface AdmissionParts {
  readonly clock: Clock;
  readonly state: () => GateState;
  readonly arbiter: () => ArbiterState;
  readonly send: (event: GateEvent | ArbiterEvent) => void;
  /** Completes a record that the arbiter made. */
  readonly amend: (key: string, fields: Readonly<Record<string, unknown>>, reason: string) => void;
}

type Passed = Extract<Verdict, { kind: "pass" }>;

interface Asker {
  readonly sinceMs: number;
  readonly answer: (verdict: GateVerdict) => void;
  /** Without a decision. */
  readonly pass: (verdict: Omit<Passed, "ticket">) => void;
  readonly held: (note: HeldNote) => void;
  note: HeldNote | null;
}

/** The gate's word, given to its proxies: each offer and each refusal is answered exactly once, whatever happens. */
export class AdmissionService implements Admission {
  readonly #parts: AdmissionParts;
  readonly #askers = new Map<string, Asker>();
  readonly #retries = new Map<string, { readonly sinceMs: number; readonly answer: (verdict: RetryVerdict) => void }>();
  #ticker: Timer | null = null;
  #urls = NO_URLS;
  #problems: readonly string[] = [];
  /** Passed without the reducer, which didn't answer. */
  #stuck = 0;

  constructor(parts: AdmissionParts) {
    this.#parts = parts;
  }

  /** Where the gate listens, once it does, and what of it could not be opened. */
  opened({ urls, problems }: { readonly urls: GateUrls; readonly problems: readonly string[] }): void {
    this.#urls = urls;
    this.#problems = problems;
  }

  check(): HealthCheck {
    const { clock, state, arbiter } = this.#parts;
    const standing = { gate: state(), arbiter: arbiter(), atMs: clock.monotonicMs() };
    return checkGate({ ...standing, urls: this.#urls, problems: this.#problems });
  }

  view(): GateView {
    const { clock, state } = this.#parts;
    const atMs = clock.monotonicMs();
    const offsetMs = clock.wallMs() - atMs;
    return {
      urls: this.#urls,
      held: viewHeld(state(), { atMs, toWall: (ms) => ms + offsetMs }),
      counts: this.#counts(),
    };
  }

  #counts(): GateCounts {
    const { counts } = this.#parts.state();
    if (this.#stuck === 0) return counts;
    const open = { ...counts.open, stuck: (counts.open.stuck ?? 0) + this.#stuck };
    return { ...counts, passed: counts.passed + this.#stuck, open };
  }

  offer(
    request: AdmissionRequest,
    { signal, held = () => {} }: Parameters<Admission["offer"]>[1],
  ): Promise<Verdict> {
    const { clock } = this.#parts;
    const id = clock.uuid();
    if (signal.aborted) return Promise.resolve({ kind: "lapsed" });
    return new Promise((resolve) => {
      const onAbort = () => this.#send({ type: "gateLeft", id });
      const answer = (verdict: GateVerdict) => {
        if (verdict.kind === "pass") return resolve({ ...verdict, ticket: this.#ticket(id, signal, onAbort) });
        signal.removeEventListener("abort", onAbort);
        resolve(verdict);
      };
      const pass = (verdict: Omit<Passed, "ticket">) => {
        signal.removeEventListener("abort", onAbort);
        resolve({ ...verdict, ticket: freeTicket(signal) });
      };
      this.#askers.set(id, { sinceMs: clock.monotonicMs(), answer, pass, held, note: null });
      signal.addEventListener("abort", onAbort, { once: true });
      this.#send({ type: "gateOffered", id, request });
      const isKnown = !this.#askers.has(id) || this.#parts.state().waiting.some((entry) => entry.id === id);
      if (!isKnown) this.#passStuck(id);
      this.#tend();
    });
  }

  /** A verdict, a retry, or what the gate asks of the arbiter. */
  perform(effect: GateEffect): void {
    const { send, amend, clock } = this.#parts;
    const atMs = clock.monotonicMs();
    switch (effect.kind) {
      case "gateVerdict":
        return this.#answer(effect.id, effect.verdict);
      case "gateRetry": {
        const { id, isOn, heldMs, reason } = effect;
        const retry = this.#retries.get(id);
        this.#retries.delete(id);
        return retry?.answer(isOn ? { kind: "retry", heldMs, reason } : { kind: "give_up", reason });
      }
      case "gateHandOff": {
        const request = { kind: "handOff" as const, id: effect.requestId, to: effect.to };
        return send({ type: "requested", atMs, operation: "gate", request });
      }
      case "gateCallOff":
        return send({ type: "cancelled", atMs, requestId: effect.requestId });
      case "gateAmend":
        return amend(effect.key, effect.fields, effect.reason);
    }
  }

  /** The arbiter's answer, where it was the gate that had asked. */
  resolve(requestId: string, reply: ArbiterReply): boolean {
    if (!requestId.startsWith("gate-")) return false;
    this.#send({ type: "gateAnswered", requestId, reply });
    return true;
  }

  /** Called after each transition: tells those who wait what they wait for. */
  report(): void {
    if (this.#askers.size === 0) return;
    for (const { id, note } of this.#parts.state().waiting) {
      const asker = this.#askers.get(id);
      if (asker === undefined || note === null || asker.note === note) continue;
      asker.note = note;
      asker.held(note);
    }
  }

  /** Nobody is held any more: whoever comes from now on passes, marked. */
  end(): void {
    this.#send({ type: "gateStopped" });
  }

  /** Stops looking at deadlines. The reducer has answered everybody by then. */
  close(): void {
    this.#ticker?.stop();
    this.#ticker = null;
  }

  #send(event: Unstamped): void {
    // The omitted time is put back here, so the union's member is whole again.
    this.#parts.send({ ...event, atMs: this.#parts.clock.monotonicMs() } as GateEvent);
  }

  #answer(id: string, verdict: GateVerdict): void {
    const asker = this.#askers.get(id);
    this.#askers.delete(id);
    asker?.answer(verdict);
    this.#tend();
  }

  #ticket(id: string, signal: AbortSignal, onAbort: () => void): Ticket {
    const isKnown = () => this.#parts.state().inFlight.some((entry) => entry.id === id);
    return {
      take: () => {
        signal.removeEventListener("abort", onAbort);
        if (signal.aborted || !isKnown()) return false;
        this.#send({ type: "gateTaken", id });
        return isKnown();
      },
      outOfMemory: (message) => this.#refused(id, message, signal),
      ended: (outcome) => this.#send({ type: "gateEnded", id, outcome }),
    };
  }

  #refused(id: string, message: string, signal: AbortSignal): Promise<RetryVerdict> {
    if (signal.aborted) return Promise.resolve({ kind: "give_up", reason: "its client left" });
    return new Promise((resolve) => {
      const onAbort = () => this.#send({ type: "gateLeft", id });
      signal.addEventListener("abort", onAbort, { once: true });
      const answer = (verdict: RetryVerdict) => {
        signal.removeEventListener("abort", onAbort);
        resolve(verdict);
        this.#tend();
      };
      this.#retries.set(id, { sinceMs: this.#parts.clock.monotonicMs(), answer });
      this.#send({ type: "gateRefused", id, message });
      this.#tend();
    });
  }

  /** Keeps the second hand going while somebody waits. */
  #tend(): void {
    const isAnyone = this.#askers.size > 0 || this.#retries.size > 0;
    if (!isAnyone) return this.close();
    this.#ticker ??= this.#parts.clock.every(TICK_MS, () => this.#tick());
  }

  #tick(): void {
    this.#send({ type: "gateTicked" });
    const { clock, state } = this.#parts;
    const { deadlineMs } = state().policy;
    const isOverdue = (sinceMs: number) => clock.monotonicMs() - sinceMs >= deadlineMs + STUCK_MS;
    for (const [id, { sinceMs }] of this.#askers) if (isOverdue(sinceMs)) this.#passStuck(id);
    for (const [id, { sinceMs, answer }] of this.#retries) {
      if (!isOverdue(sinceMs)) continue;
      this.#retries.delete(id);
      answer({ kind: "give_up", reason: "nobody has answered in time" });
    }
    this.#tend();
  }

  /** A defect in a decision must not hold anybody: the request passes, and says so. */
  #passStuck(id: string): void {
    const asker = this.#askers.get(id);
    this.#askers.delete(id);
    if (asker === undefined) return;
    this.#stuck += 1;
    asker.pass({
      kind: "pass",
      heldMs: this.#parts.clock.monotonicMs() - asker.sinceMs,
      reason: "stuck",
      isOpen: true,
      message: "HyperSwap didn't decide in time",
    });
    this.#send({ type: "gateLeft", id });
  }
}

/** A ticket of one that passed without a decision: nobody has to be told how it ends. */
function freeTicket(signal: AbortSignal): Ticket {
  return {
    take: () => !signal.aborted,
    outOfMemory: () => Promise.resolve({ kind: "give_up", reason: "nobody decides" }),
    ended: () => {},
  };
}

/** An event without its time. */
type Unstamped = GateEvent extends infer E ? E extends GateEvent ? Omit<E, "atMs"> : never : never;
