import type { Archive, ProfileReport, RankedModel, Series, SwapReport } from "../model/analytics.ts";
import { Failure } from "../model/failure.ts";
import type { Clock } from "../model/ports.ts";
import type { Analytics, Moment, SeriesRequest, SpanRequest } from "../model/services.ts";
import type { WallMs } from "../model/units.ts";

const DAY_MS = 86_400_000;
/** What a series shows when nobody says. */
const USUAL_SPAN_MS = 3_600_000;

/** The archive as operations ask for it: in days back from now. */
export class AnalyticsService implements Analytics {
  readonly #archive: Archive;
  readonly #clock: Pick<Clock, "wallMs">;

  constructor(archive: Archive, clock: Pick<Clock, "wallMs">) {
    this.#archive = archive;
    this.#clock = clock;
  }

  async series({ metrics, from, to, points }: SeriesRequest, signal: AbortSignal): Promise<Series> {
    const toMs = this.#at(to) ?? this.#clock.wallMs();
    const fromMs = this.#at(from) ?? toMs - USUAL_SPAN_MS;
    if (fromMs >= toMs || fromMs < 0) {
      throw new Failure("invalid_input", "Cannot show a span that ends before it begins", {
        hint: "from must be earlier than to, and after 1970",
      });
    }
    return await this.#archive.series({ metrics, fromMs, toMs, points }, signal);
  }

  profiles({ days }: { days: number }, signal: AbortSignal): Promise<ProfileReport> {
    return this.#archive.profiles({ sinceMs: this.#since(days) }, signal);
  }

  swaps({ days }: { days: number }, signal: AbortSignal): Promise<SwapReport> {
    return this.#archive.swaps({ sinceMs: this.#since(days) }, signal);
  }

  models({ days }: { days: number }, signal: AbortSignal): Promise<readonly RankedModel[]> {
    return this.#archive.models({ sinceMs: this.#since(days), nowMs: this.#clock.wallMs() }, signal);
  }

  async *events(span: SpanRequest, signal: AbortSignal) {
    const { fromMs, toMs } = this.#span(span);
    for (let after: number | null = 0; after !== null;) {
      const page = await this.#archive.events({ fromMs, toMs, after, kind: span.kind ?? null }, signal);
      yield page.events;
      after = page.next;
    }
  }

  async *telemetry(span: SpanRequest, signal: AbortSignal) {
    const { fromMs, toMs } = this.#span(span);
    for (let from: number | null = fromMs; from !== null;) {
      const page = await this.#archive.telemetry({ fromMs: from, toMs }, signal);
      yield page.rows;
      from = page.next;
    }
  }

  #span({ from, to }: SpanRequest): { readonly fromMs: WallMs; readonly toMs: WallMs } {
    // A clock that was ahead once may have recorded events of a future that is all kept.
    return { fromMs: this.#at(from) ?? 0, toMs: this.#at(to) ?? Number.MAX_SAFE_INTEGER };
  }

  #at(moment: Moment | null): WallMs | null {
    if (moment === null) return null;
    return "atMs" in moment ? moment.atMs : this.#clock.wallMs() - moment.agoMs;
  }

  #since(days: number): WallMs {
    return Math.max(0, Math.round(this.#clock.wallMs() - days * DAY_MS));
  }
}

const refuse = () =>
  Promise.reject(
    new Failure("unavailable", "Cannot look back: nothing is kept on disk here", {
      hint: "`hyperswap serve` keeps history in its state directory",
    }),
  );

/** Where nothing is kept beyond the process. */
export const NO_ARCHIVE: Archive = {
  series: refuse,
  profiles: refuse,
  swaps: refuse,
  models: refuse,
  events: refuse,
  telemetry: refuse,
  close: () => {},
};
