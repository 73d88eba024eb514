import { type ArbiterState } from "../decide/arbiter_state.ts";
import { describeJob } from "../decide/describe.ts";
import { findStuck } from "../decide/stuck.ts";
import { viewArbiter } from "../decide/view.ts";
import type {
  ArbiterReply,
  ArbiterRequest,
  Decision,
  EndRunnerResult,
  PurgeResult,
  RequestVramResult,
  SwitchResult,
  YieldResult,
} from "../model/arbitration.ts";
import type { ArbiterEvent } from "../model/events.ts";
import { Failure } from "../model/failure.ts";
import type { GateView } from "../model/gate.ts";
import type { Clock } from "../model/ports.ts";
import type { Arbitration, CallOptions } from "../model/services.ts";

/** How the service reaches the arbiter. */
export interface ArbitrationParts {
  readonly clock: Clock;
  readonly state: () => ArbiterState;
  readonly send: (event: ArbiterEvent) => void;
  /** Newest last. */
  readonly decisions: () => readonly Decision[];
  readonly gate: () => GateView;
}

interface Caller {
  readonly answer: (reply: ArbiterReply) => void;
  readonly call: CallOptions;
  phase: string | null;
}

/** A request without the id it will get. */
type Asked = ArbiterRequest extends infer R ? R extends ArbiterRequest ? Omit<R, "id"> : never : never;

/** How finely a jump of the wall clock is followed. */
const OFFSET_STEP_MS = 10;

export class ArbitrationService implements Arbitration {
  readonly #parts: ArbitrationParts;
  readonly #callers = new Map<string, Caller>();

  constructor(parts: ArbitrationParts) {
    this.#parts = parts;
  }

  view(): ReturnType<Arbitration["view"]> {
    const { clock, state } = this.#parts;
    // In steps: two readings of two clocks differ by a moment each time, and what hasn't changed must not look so.
    const offsetMs = Math.round((clock.wallMs() - clock.monotonicMs()) / OFFSET_STEP_MS) * OFFSET_STEP_MS;
    return { ...viewArbiter(state(), (ms) => ms + offsetMs), gate: this.#parts.gate() };
  }

  set(change: Parameters<Arbitration["set"]>[0]): ReturnType<Arbitration["set"]> {
    const { clock, send } = this.#parts;
    if (change.untilMs !== null && change.untilMs <= clock.wallMs()) {
      throw new Failure("invalid_input", "until lies in the past", { hint: "Give a time to come, or leave it out" });
    }
    send({ type: "modeSet", atMs: clock.monotonicMs(), change });
    return this.view();
  }

  async yieldVram(request: Parameters<Arbitration["yieldVram"]>[0], call: CallOptions) {
    const { operation, models, confirm } = request;
    const reply = await this.#ask({ kind: "yield", models, confirm }, operation, call);
    return expect(reply, "yield");
  }

  async purge(request: Parameters<Arbitration["purge"]>[0], call: CallOptions) {
    return expect(await this.#ask({ kind: "purge", confirm: request.confirm }, request.operation, call), "purge");
  }

  async requestVram(request: Parameters<Arbitration["requestVram"]>[0], call: CallOptions) {
    const { neededBytes, operation } = request;
    return expect(await this.#ask({ kind: "requestVram", neededBytes }, operation, call), "requestVram");
  }

  async switchModel(request: Parameters<Arbitration["switchModel"]>[0], call: CallOptions) {
    const { model, keepAlive, prompt, operation } = request;
    return expect(await this.#ask({ kind: "switch", model, keepAlive, prompt }, operation, call), "switch");
  }

  async endRunner({ process, operation }: Parameters<Arbitration["endRunner"]>[0], call: CallOptions) {
    const found = findStuck(this.#parts.state(), process);
    return expect(
      await this.#ask({ kind: "endRunner", process, model: found?.model ?? null }, operation, call),
      "endRunner",
    );
  }

  why({ id, limit }: { id: number | null; limit: number }): readonly Decision[] {
    const decisions = this.#parts.decisions();
    if (id === null) return decisions.slice(-limit).reverse();
    const found = decisions.find((decision) => decision.id === id);
    if (found !== undefined) return [found];
    const first = decisions[0]?.id;
    throw new Failure("not_found", `There is no decision ${id}`, {
      hint: first === undefined ? "No decision has been taken yet" : `The oldest one kept is ${first}`,
    });
  }

  /** The arbiter's answer to a request; each comes exactly once. */
  resolve(requestId: string, reply: ArbiterReply): void {
    const caller = this.#callers.get(requestId);
    this.#callers.delete(requestId);
    caller?.answer(reply);
  }

  /** Called after each transition: tells callers where their job stands. */
  report(): void {
    const { holder } = this.#parts.state();
    for (const [id, caller] of this.#callers) {
      const isMine = holder?.requestIds.includes(id) ?? false;
      const phase = isMine && holder !== null ? describeJob(holder.job) : "waiting for the lane";
      if (phase === caller.phase) continue;
      caller.phase = phase;
      caller.call.progress({ phase, done: null, etaMs: null });
    }
  }

  #ask(asked: Asked, operation: string, call: CallOptions): Promise<ArbiterReply> {
    const { clock, send } = this.#parts;
    const id = clock.uuid();
    return new Promise((resolve) => {
      const onAbort = () => send({ type: "cancelled", atMs: clock.monotonicMs(), requestId: id });
      const answer = (reply: ArbiterReply) => {
        call.signal.removeEventListener("abort", onAbort);
        resolve(reply);
      };
      this.#callers.set(id, { answer, call, phase: null });
      call.signal.addEventListener("abort", onAbort, { once: true });
      // The id completes the request it was asked as; the union's members are otherwise unchanged.
      send({ type: "requested", atMs: clock.monotonicMs(), request: { ...asked, id } as ArbiterRequest, operation });
      if (call.signal.aborted) onAbort();
    });
  }
}

/** The value each kind of request resolves to. */
interface Values {
  readonly yield: YieldResult;
  readonly purge: PurgeResult;
  readonly requestVram: RequestVramResult;
  readonly switch: SwitchResult;
  readonly endRunner: EndRunnerResult;
}

/** The value of a reply of that kind; a refusal becomes the Failure it states. */
function expect<K extends keyof Values>(reply: ArbiterReply, kind: K): Values[K] {
  if (reply.kind === "refused") {
    const { code, message, hint, details } = reply.refusal;
    throw new Failure(code, message, {
      ...(hint === null ? {} : { hint }),
      ...(details === null ? {} : { details }),
    });
  }
  if (reply.kind !== kind) throw new TypeError(`Cannot answer a ${kind} with a ${reply.kind}`);
  // The kind was just compared; TypeScript doesn't narrow the value by a generic.
  return reply.value as Values[K];
}
