import { messageOf } from "../model/failure.ts";
import type {
  HistoryItem,
  HistoryQuery,
  NewHistoryItem,
  StoreStatus,
  TelemetryRow,
  Throughput,
} from "../model/history.ts";
import type { Clock, Log, Store, Timer } from "../model/ports.ts";
import { fieldsToText, parseFields } from "./fields_text.ts";
import { RecentItems } from "./recent_items.ts";
import { PruneSchedule } from "./retention.ts";
import type { FileStatus, StoreLink } from "./store_link.ts";
import { within } from "./within.ts";
import { WriteQueue } from "./write_queue.ts";

/** Telemetry is written this often, and a store that failed is tried again this often. SPEC 5 allows 5 s. */
const TICK_MS = 4_000;
/** A write that takes longer leaves its callers with what is in memory; it may still succeed later. */
const WRITE_MS = 3_000;
const READ_MS = 5_000;
/** Until the file has answered once: its Worker starts, and a large file is counted. */
const FIRST_MS = 15_000;
/** At the end: for what waits, and then for the file itself. */
const FLUSH_MS = 3_000;
const CLOSE_MS = 1_000;
/** What waits in memory while the file can't be written: an hour of rows. */
const MAX_ROWS = 3_600;
const MAX_RECENT = 1_000;
const MAX_MEASURED = 1_000;

export interface SteadyStoreOptions {
  readonly link: StoreLink;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * A Store over a file that may fail or hang. While it does, events get temporary negative ids, wait in memory and are
 * written when it works again; a temporary id goes on meaning its event for `amend` and `before`. Nothing here throws.
 */
export class SteadyStore implements Store {
  readonly #link: StoreLink;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #queue = new WriteQueue();
  readonly #recent = new RecentItems(MAX_RECENT);
  readonly #pruning = new PruneSchedule();
  readonly #ticking: Timer;
  #rows: TelemetryRow[] = [];
  #measured: Throughput[] = [];
  #lostRows = 0;
  #flight: Promise<void> | null = null;
  /** The write under way is overdue: nothing else can be asked meanwhile. */
  #isStuck = false;
  #isRollingUp = false;
  #error: string | null = null;
  #hasAnswered = false;
  #closing: Promise<void> | null = null;

  constructor(options: SteadyStoreOptions) {
    this.#link = options.link;
    this.#clock = options.clock;
    this.#log = options.log;
    this.#ticking = this.#clock.every(TICK_MS, () => this.#tick());
  }

  append(item: NewHistoryItem): Promise<HistoryItem> {
    const fields = fieldsToText(item.fields);
    const atMs = Number.isFinite(item.atMs) ? Math.round(item.atMs) : this.#clock.wallMs();
    const entry = this.#queue.append({ atMs, kind: item.kind, fields });
    if (this.#error !== null || this.#closing !== null) {
      this.#recent.add(this.#queue.giveTemporaryId(entry));
    } else {
      this.#pump();
    }
    return entry.kept;
  }

  amend(id: number, fields: Readonly<Record<string, unknown>>): Promise<HistoryItem | null> {
    const text = fieldsToText(fields);
    const known = this.#recent.amend(this.#queue.idOf(id), parseFields(text));
    const written = this.#queue.amend(id, text);
    if (written === null || this.#error !== null || this.#closing !== null) return Promise.resolve(known);
    this.#pump();
    return written.then((item) => item ?? known);
  }

  telemetry(row: TelemetryRow): void {
    if (this.#closing !== null) return;
    this.#rows.push(row);
    this.#boundRows();
  }

  throughput(measured: Throughput): void {
    if (this.#closing !== null) return;
    this.#measured = [...this.#measured, measured].slice(-MAX_MEASURED);
  }

  async history(query: HistoryQuery): Promise<readonly HistoryItem[]> {
    const before = query.before === null ? null : this.#queue.idOf(query.before);
    const asked = { ...query, before };
    if (!query.durable) return this.#recent.list(asked);
    const isInFile = before !== null && before >= 0;
    const kept = await this.#read(() =>
      this.#link.history({ limit: query.limit, kind: query.kind, before: isInFile ? before : null })
    );
    // Asked after the file, which answers in order: an event written meanwhile is in one of the two, and only one.
    // Temporary ids name what is in memory only, and that is newer than anything in the file.
    const waiting = isInFile ? [] : this.#recent.list(asked).filter((item) => item.id < 0);
    return kept === null ? this.#recent.list(asked) : [...waiting, ...kept].slice(0, query.limit);
  }

  async status(): Promise<StoreStatus> {
    const file = await this.#read(() => this.#link.status());
    const waiting = { waiting_events: this.#queue.length, waiting_telemetry: this.#rows.length };
    return {
      path: this.#link.path,
      sizeBytes: file?.sizeBytes ?? null,
      rows: file === null ? waiting : { ...file.rows, ...waiting },
      hoursHeld: file === null ? null : hoursOf(file),
      lastFlushAtMs: file?.lastFlushAtMs ?? null,
      error: this.#error,
      schemaVersion: file?.schemaVersion ?? null,
    };
  }

  /** Writes what waits, as far as it can be written within 3 s, and closes the file. */
  close(): Promise<void> {
    return this.#closing ??= this.#close();
  }

  async #close(): Promise<void> {
    this.#ticking.stop();
    const flushed = async () => {
      if (this.#flight !== null) await this.#flight;
      await this.#write();
    };
    await within(this.#clock, FLUSH_MS, flushed).catch((error) =>
      this.#log.error("History was lost at the end: it could not be written in time", {
        error: messageOf(error),
        events: this.#queue.length,
        seconds: this.#rows.length,
      })
    );
    this.#releaseCallers();
    await within(this.#clock, CLOSE_MS, (signal) => this.#link.close(signal)).catch((error) =>
      this.#log.warn("Cannot close the store", { error: messageOf(error) })
    );
  }

  #tick(): void {
    this.#pump({ isTick: true });
    const now = { wallMs: this.#clock.wallMs(), monotonicMs: this.#clock.monotonicMs() };
    if (this.#error === null && !this.#isStuck) this.#rollUp();
    if (this.#error !== null || !this.#pruning.isDue(now)) return;
    this.#link.prune(now.wallMs).then(
      (rows) => rows > 0 && this.#log.debug("Old history was deleted", { rows }),
      (error) => this.#log.warn("Cannot delete old history", { error: messageOf(error) }),
    );
  }

  /** In its own call: a write never waits for more than a part of it. */
  #rollUp(): void {
    if (this.#isRollingUp) return;
    this.#isRollingUp = true;
    this.#link.rollUp()
      .catch((error) => this.#log.debug("Cannot sum up telemetry", { error: messageOf(error) }))
      .finally(() => (this.#isRollingUp = false));
  }

  /** Starts a write unless one is under way. A store that failed is tried by the tick alone. */
  #pump(options: { readonly isTick?: boolean } = {}): void {
    const isTick = options.isTick ?? false;
    if (this.#flight !== null || (this.#error !== null && !isTick)) return;
    const isTelemetryDue = isTick && (this.#rows.length > 0 || this.#measured.length > 0 || this.#error !== null);
    if (this.#queue.length === 0 && !isTelemetryDue) return;
    this.#flight = this.#write().finally(() => {
      this.#flight = null;
      if (this.#closing === null) this.#pump();
    });
  }

  async #write(): Promise<void> {
    const limitMs = this.#hasAnswered ? WRITE_MS : FIRST_MS;
    const late = this.#clock.after(limitMs, () => {
      this.#isStuck = true;
      this.#fail(`Cannot keep history in ${this.#link.path}: the disk has not answered for ${limitMs} ms`);
    });
    let rows: readonly TelemetryRow[] = this.#rows;
    let measured: readonly Throughput[] = this.#measured;
    [this.#rows, this.#measured] = [[], []];
    try {
      // A store that failed is not taken for healed before it has done something.
      if (this.#queue.length === 0 && rows.length === 0 && measured.length === 0) await this.#link.status();
      while (this.#queue.length > 0) await this.#writeEvents();
      if (rows.length > 0) await this.#link.writeTelemetry(rows);
      rows = [];
      if (measured.length > 0) await this.#link.writeThroughput(measured);
      measured = [];
      this.#heal();
    } catch (error) {
      this.#rows = [...rows, ...this.#rows];
      this.#measured = [...measured, ...this.#measured].slice(-MAX_MEASURED);
      this.#boundRows();
      this.#fail(messageOf(error));
    } finally {
      this.#hasAnswered = true;
      late.stop();
      this.#isStuck = false;
    }
  }

  async #writeEvents(): Promise<void> {
    const batch = this.#queue.take();
    try {
      const results = batch.writes.length === 0 ? [] : await this.#link.writeEvents(batch.writes);
      for (const { temporaryId, item } of this.#queue.written(batch, results)) {
        if (temporaryId === null) this.#recent.add(item);
        else this.#recent.rename(temporaryId, item.id);
      }
    } catch (error) {
      this.#queue.putBack(batch);
      throw error;
    }
  }

  #fail(message: string): void {
    if (this.#error === null) this.#log.warn("History is not being kept", { error: message });
    this.#error = message;
    this.#releaseCallers();
  }

  #releaseCallers(): void {
    for (const entry of this.#queue.releaseCallers()) this.#recent.add(this.#queue.giveTemporaryId(entry));
  }

  #heal(): void {
    if (this.#error === null) return;
    this.#error = null;
    this.#log.info("History is being kept again", { lost_events: this.#queue.lost, lost_seconds: this.#lostRows });
  }

  #boundRows(): void {
    const excess = this.#rows.length - MAX_ROWS;
    if (excess <= 0) return;
    this.#rows.splice(0, excess);
    this.#lostRows += excess;
  }

  /** Null when the file can't be read now; why shows at the next write. */
  async #read<T>(ask: () => Promise<T>): Promise<T | null> {
    if (this.#isStuck || this.#closing !== null) return null;
    try {
      const answer = await within(this.#clock, this.#hasAnswered ? READ_MS : FIRST_MS, ask);
      this.#hasAnswered = true;
      return answer;
    } catch (error) {
      this.#log.debug("Cannot read the store", { error: messageOf(error) });
      return null;
    }
  }
}

/** Hours of 1 Hz rows: counted, not measured from first to last, since the wall clock may have jumped. */
function hoursOf(file: FileStatus): number {
  return file.rows.telemetry / 3_600;
}
