import type { Clock } from "../model/ports.ts";
import type { SourceReport } from "../model/sample.ts";
import type { WallMs } from "../model/units.ts";

/** Keeps how the calls of one source did, in the form that samples show. */
export class CallReport {
  readonly #clock: Clock;
  #durationMs = 0;
  #lastOkAtMs: WallMs | null = null;
  #lastError: string | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A call begins; what it gives back ends it: null for an answer, else the error's words. */
  begin(): (error: string | null) => void {
    const startedAtMs = this.#clock.monotonicMs();
    return (error) => {
      this.#durationMs = this.#clock.monotonicMs() - startedAtMs;
      this.#lastError = error;
      if (error === null) this.#lastOkAtMs = this.#clock.wallMs();
    };
  }

  /** `others`: what else is wrong with this source; the first that is counts. */
  report(...others: readonly (string | null)[]): SourceReport {
    const lastError = [this.#lastError, ...others].find((error) => error !== null) ?? null;
    return { ok: lastError === null, durationMs: this.#durationMs, lastOkAtMs: this.#lastOkAtMs, lastError };
  }
}
