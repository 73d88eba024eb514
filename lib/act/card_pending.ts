/** Levers that failed in passing, until their next try. Pure but for its memory. */
import type { CardReason, Lever, LeverReport, LeverValue } from "../model/card.ts";
import type { WallMs } from "../model/units.ts";

/** A driver that isn't ready at boot (fan control once failed silently for a whole session) is asked again. */
const RETRY_MS = 5_000;
const MOST_TRIES = 60;

interface Pending {
  readonly lever: Lever;
  readonly wanted: LeverValue;
  readonly reason: CardReason;
  readonly tries: number;
  readonly retryAtMs: WallMs;
}

export class PendingLevers {
  readonly #pending = new Map<Lever, Pending>();

  /** What failed waits; what was decided since replaces it. */
  note(reports: readonly LeverReport[], { reason, atMs }: { reason: CardReason; atMs: WallMs }): void {
    for (const { lever, wanted, verdict } of reports) {
      const before = this.#pending.get(lever);
      const tries = before?.wanted === wanted ? before.tries + 1 : 1;
      this.#pending.delete(lever);
      if (verdict !== "failed" || tries > MOST_TRIES) continue;
      this.#pending.set(lever, { lever, wanted, reason, tries, retryAtMs: atMs + RETRY_MS });
    }
  }

  /** Those whose next try is due. A wall clock that was set back puts nothing off for longer. */
  due(atMs: WallMs): readonly Pending[] {
    return [...this.#pending.values()].filter(({ retryAtMs }) => atMs >= retryAtMs || retryAtMs - atMs > RETRY_MS);
  }

  clear(): void {
    this.#pending.clear();
  }
}
