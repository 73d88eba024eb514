/** How the card stands, as its client knows: fine, refused until a retry is due, or wedged. */
import { type Clock, GpuUnavailable, type Log } from "../model/ports.ts";
import type { MonotonicMs } from "../model/units.ts";

const FIRST_RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 30_000;

interface Refused {
  readonly cause: GpuUnavailable;
  readonly retryAtMs: MonotonicMs;
}

/**
 * Decides whether asking makes sense now. While a call is overdue nothing is asked: the driver would only hold more of
 * them. After a refusal the library is opened anew at growing intervals, so that a driver that comes later is found.
 * Each change of standing is logged once.
 */
export class GpuStanding {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #overdue = new Map<number, MonotonicMs>();
  #refused: Refused | null = null;
  #retryMs = FIRST_RETRY_MS;

  constructor(clock: Clock, log: Log) {
    this.#clock = clock;
    this.#log = log;
  }

  get isWedged(): boolean {
    return this.#overdue.size > 0;
  }

  /** Why not to ask now; null = ask. */
  objection(): GpuUnavailable | null {
    if (this.isWedged) return this.#wedged();
    const refused = this.#refused;
    return refused !== null && this.#clock.monotonicMs() < refused.retryAtMs ? refused.cause : null;
  }

  /** A call has not returned in time. Gives what its caller is told. */
  overdue(id: number, sinceMs: MonotonicMs): GpuUnavailable {
    if (!this.isWedged) this.#log.warn("The GPU's driver does not answer: a call is overdue", { id });
    this.#overdue.set(id, sinceMs);
    return this.#wedged();
  }

  /** A call has returned, in time or not: whatever it brought, the driver answers again. */
  returned(id: number): void {
    if (!this.#overdue.delete(id) || this.isWedged) return;
    this.#log.info("The GPU's driver answers again", { id });
  }

  /** A call brought figures. */
  fine(): void {
    if (this.#refused !== null) this.#log.info("The GPU can be read again");
    this.#refused = null;
    this.#retryMs = FIRST_RETRY_MS;
  }

  /** A call brought a refusal; the next one may be tried after the back-off. */
  refuse(cause: GpuUnavailable): void {
    const before = this.#refused;
    const nowMs = this.#clock.monotonicMs();
    if (before?.cause.message !== cause.message) {
      this.#log.warn(cause.message, { kind: cause.kind, hint: cause.remedy });
    }
    // Several calls under way fail together: that is one failed attempt.
    if (before !== null && nowMs < before.retryAtMs) return;
    // Whether a card still sleeps costs a look into sysfs, and it should be seen awake at once.
    const waitMs = cause.kind === "asleep" ? 0 : this.#retryMs;
    this.#retryMs = Math.min(LONGEST_RETRY_MS, this.#retryMs * 2);
    this.#refused = { cause, retryAtMs: nowMs + waitMs };
  }

  /** Nothing is overdue any more: the Worker that held the calls is gone. */
  forgetOverdue(): void {
    this.#overdue.clear();
  }

  #wedged(): GpuUnavailable {
    const sinceMs = Math.min(...this.#overdue.values());
    const seconds = ((this.#clock.monotonicMs() - sinceMs) / 1000).toFixed(1);
    return new GpuUnavailable(
      "wedged",
      `Cannot read the GPU: a driver call has not returned for ${seconds} s`,
      "It heals by itself when the call returns; if it never does, see `dmesg` for the nvidia module and reboot",
    );
  }
}
