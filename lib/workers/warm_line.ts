/** Warms in turn: one runs, the rest wait where they can be seen. */
import { Failure } from "../model/failure.ts";
import type { CacheCall, Residency, UnmeasurableResidency, WarmProgress } from "../model/page_cache.ts";
import type { Clock, Timer } from "../model/ports.ts";
import type { MeasureClient } from "./measure_client.ts";
import { WarmClient, type WarmTurn } from "./warm_client.ts";
import type { WarmOrder, WarmResult } from "./warm_protocol.ts";
import { WarmTicket } from "./warm_ticket.ts";

export interface WarmRequest {
  readonly ticket: WarmTicket;
  readonly call: CacheCall;
  readonly order: Pick<WarmOrder, "bytesPerS" | "reserveBytes" | "isLocking">;
  /** Called when it moved. */
  readonly report: () => void;
  /** May refuse, by throwing, once it is known what there is. */
  readonly check?: (before: Residency) => void;
}

export interface WarmEnded {
  readonly result: WarmResult;
  readonly before: Residency;
  readonly after: Residency;
}

/** A cancel is answered by then, whatever the disk still does: the promise is 100 ms, and timers come late. */
const ACKNOWLEDGED_MS = 50;

export class WarmLine {
  readonly #clock: Clock;
  readonly #measure: MeasureClient;
  readonly #roots: Pick<WarmOrder, "procRoot" | "sysRoot">;
  readonly #worker: WarmClient;
  /** The one that runs, then those that wait. */
  #tickets: readonly WarmTicket[] = [];
  /** Resolves when the Worker is free for the next. */
  #free: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(parts: { clock: Clock; measure: MeasureClient; roots: Pick<WarmOrder, "procRoot" | "sysRoot"> }) {
    this.#clock = parts.clock;
    this.#measure = parts.measure;
    this.#roots = parts.roots;
    this.#worker = new WarmClient(parts.clock);
  }

  queue(): readonly WarmProgress[] {
    return this.#tickets.map((ticket) => this.progressOf(ticket));
  }

  progressOf(ticket: WarmTicket): WarmProgress {
    return ticket.progress(Math.max(0, this.#tickets.indexOf(ticket)));
  }

  /** Waits for its turn and runs. A cancel of one that runs resolves it; one that waits rejects with the reason. */
  async take(request: WarmRequest): Promise<WarmEnded> {
    const { ticket, call: { signal } } = request;
    signal?.throwIfAborted();
    this.#tickets = [...this.#tickets, ticket];
    request.report();
    const turn = this.#free;
    const next = Promise.withResolvers<void>();
    this.#free = next.promise;
    try {
      await orAborted(turn, signal);
      return await this.#run(request, next.resolve);
    } catch (error) {
      // Whoever waits behind one that never began waits for what that one waited for.
      if (!ticket.hasBegun) turn.then(next.resolve);
      throw error;
    } finally {
      this.#tickets = this.#tickets.filter((one) => one !== ticket);
    }
  }

  close(): void {
    this.#isClosed = true;
    for (const ticket of this.#tickets) ticket.cancel();
    this.#worker.close();
  }

  async #run({ ticket, call, order, report, check }: WarmRequest, onFree: () => void): Promise<WarmEnded> {
    const { roots, signal } = call;
    const before = await this.#look(ticket.path, { ...call, purpose: "probe" });
    if (this.#isClosed) throw new Failure("cancelled", `Cannot warm ${ticket.path}: the page cache was closed`);
    check?.(before);
    // Locked pages are taken out of what is available, cached before or not.
    const residentBytes = before.kind === "measured" && !order.isLocking ? before.residentBytes : 0;
    const startedAtMs = this.#clock.monotonicMs();
    const turn = this.#worker.start({ ...order, ...this.#roots, path: ticket.path, roots, residentBytes }, () => {
      ticket.tick(this.#clock.monotonicMs());
      report();
    });
    turn.ended.then(onFree, onFree);
    ticket.begin(turn.shared, startedAtMs);
    report();
    using late = this.#acknowledge(signal, () => {
      ticket.cancel();
      report();
    });
    const result = await Promise.race([turn.ended, late.promise]);
    if (result === null) {
      this.#letGo(turn);
      return { before, result: this.#given(turn, startedAtMs), after: this.#unknown(turn) };
    }
    const after = await Promise.race([this.#look(ticket.path, { roots, purpose: "figure" }), late.promise]);
    return { before, result, after: after ?? this.#unknown(turn) };
  }

  /** Calls `onAbort`, and resolves with null when a cancel has to be answered. */
  #acknowledge(signal: AbortSignal | undefined, onAbort: () => void): Disposable & { readonly promise: Promise<null> } {
    const { promise, resolve } = Promise.withResolvers<null>();
    let timer: Timer | null = null;
    const abort = () => {
      onAbort();
      timer = this.#clock.after(ACKNOWLEDGED_MS, () => resolve(null));
    };
    if (signal?.aborted) abort();
    else signal?.addEventListener("abort", abort, { once: true });
    return {
      promise,
      [Symbol.dispose]: () => {
        signal?.removeEventListener("abort", abort);
        timer?.stop();
      },
    };
  }

  async #look(path: string, question: Parameters<MeasureClient["measure"]>[1]): Promise<Residency> {
    const [residency] = await this.#measure.measure([path], question);
    if (residency === undefined) throw new TypeError("A question about one file is answered with one residency");
    return residency;
  }

  /** A lock that came about after all is nobody's. */
  #letGo({ ended }: WarmTurn): void {
    ended.then(async ({ locked }) => {
      if (locked !== null) await this.#measure.unlock(locked);
    }).catch(() => {
      // It was cancelled and answered: how its last call failed, or that the Worker is gone with it, changes nothing.
    });
  }

  /** What is known of a warm whose last call is still under way. */
  #given({ shared }: WarmTurn, startedAtMs: number): WarmEnded["result"] {
    return {
      end: "cancelled",
      reason: "It was cancelled; the last call to the disk is still under way",
      method: shared.method,
      sizeBytes: shared.get("sizeBytes"),
      doneBytes: shared.get("doneBytes"),
      diskBytes: null,
      durationMs: this.#clock.monotonicMs() - startedAtMs,
      heldBackMs: shared.get("heldBackMs"),
      availableBeforeBytes: null,
      availableAfterBytes: null,
      locked: null,
    };
  }

  #unknown({ shared }: WarmTurn): UnmeasurableResidency {
    return {
      kind: "unmeasurable",
      sizeBytes: shared.get("sizeBytes"),
      cause: "interrupted",
      reason: "Cannot tell how much is in memory: the warm was cancelled before it was measured",
      atMs: this.#clock.monotonicMs(),
    };
  }
}

/** Waits, but not longer than the signal lets. */
function orAborted(promise: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(() => {
      signal.removeEventListener("abort", onAbort);
      resolve();
    }, reject);
  });
}
