import { DatabaseSync } from "node:sqlite";
import { messageOf } from "../model/failure.ts";
import type { HistoryItem, HistoryQuery, TelemetryRow, Throughput } from "../model/history.ts";
import type { Clock } from "../model/ports.ts";
import type { WallMs } from "../model/units.ts";
import { EventsTable } from "./events_table.ts";
import { migrate, NewerDatabase, SCHEMA_VERSION } from "./migrations.ts";
import type { Retention } from "./retention.ts";
import { RollUps } from "./roll_ups.ts";
import { setAside } from "./set_aside.ts";
import { describeTrouble, troubleOf } from "./sqlite_error.ts";
import type { EventWrite, FileStatus } from "./store_link.ts";
import { TelemetryTable } from "./telemetry_table.ts";
import { ThroughputTable } from "./throughput_table.ts";

/** Rows deleted in one call: about 40 ms, so that writes never wait long behind it. */
const PRUNE_ROWS = 20_000;
/** Minutes and hours that are summed up in one call: about 20 ms. */
const ROLL_UP_ROWS = 60;
/** The journal is cut back to this after a checkpoint (SQLite checkpoints at 1,000 pages of 4 KiB). */
const WAL_LIMIT_BYTES = 4 * 2 ** 20;

export interface StoreFileOptions {
  readonly clock: Pick<Clock, "wallMs">;
  readonly retention: Retention;
  /** Told in one sentence when a file had to be set aside. */
  readonly onNote: (note: string) => void;
  /** How long a lock of another program is waited for. Default 2,000. */
  readonly busyMs?: number;
  /** Largest size, in pages of 4 KiB, after which writes fail as on a full disk. Default: SQLite's own. */
  readonly maxPages?: number;
}

interface Open {
  readonly db: DatabaseSync;
  readonly events: EventsTable;
  readonly telemetry: TelemetryTable;
  readonly throughput: ThroughputTable;
  readonly rollUps: RollUps;
  readonly inode: number | null;
}

/**
 * The record's file: SQLite in WAL mode, one writer, every call synchronous (it belongs into a Worker). It is opened by
 * the first call and again after trouble. A file that is damaged or of a later version is renamed, never deleted, and a
 * new one begun; anything else makes the call throw, and the next one tries again.
 */
export class StoreFile {
  readonly #path: string;
  readonly #options: StoreFileOptions;
  #open: Open | null = null;
  #lastFlushAtMs: WallMs | null = null;
  #lastEventId = 0;

  constructor(path: string, options: StoreFileOptions) {
    this.#path = path;
    this.#options = options;
  }

  /** All or none, in order, on the disk when it returns: WAL commits are flushed only with synchronous = FULL. */
  writeEvents(writes: readonly EventWrite[]): readonly (HistoryItem | null)[] {
    return this.#use((open) => {
      open.db.exec("PRAGMA synchronous = FULL");
      try {
        const items = this.#transact(open, () => writes.map((write) => applyWrite(open.events, write)));
        this.#lastEventId = items.reduce((last, item) => Math.max(last, item?.id ?? 0), this.#lastEventId);
        return items;
      } finally {
        open.db.exec("PRAGMA synchronous = NORMAL");
      }
    });
  }

  writeTelemetry(rows: readonly TelemetryRow[]): void {
    this.#use((open) =>
      this.#transact(open, () => {
        open.telemetry.insert(rows);
        for (const { atMs } of rows) if (Number.isFinite(atMs)) open.rollUps.note(Math.floor(atMs / 1_000));
      })
    );
  }

  writeThroughput(measured: readonly Throughput[]): void {
    this.#use((open) => this.#transact(open, () => open.throughput.insert(measured)));
  }

  /** Sums up a part of what is over and isn't summed up yet; answers how many rows were made. */
  rollUp(): number {
    return this.#use((open) => {
      try {
        return this.#transact(open, () => open.rollUps.advance(ROLL_UP_ROWS));
      } catch (error) {
        open.rollUps.reload();
        throw error;
      }
    });
  }

  history(query: Omit<HistoryQuery, "durable">): readonly HistoryItem[] {
    return this.#use((open) => open.events.list(query));
  }

  /** Telemetry of [fromMs, toMs), oldest first. */
  telemetry(span: { readonly fromMs: WallMs; readonly toMs: WallMs; readonly limit: number }): readonly TelemetryRow[] {
    return this.#use((open) => open.telemetry.read(span));
  }

  status(): FileStatus {
    return this.#use(({ db, events, telemetry }) => ({
      path: this.#path,
      sizeBytes: sizeOf(this.#path) + sizeOf(`${this.#path}-wal`),
      rows: { events: events.count, telemetry: telemetry.count, ...summedRows(db) },
      schemaVersion: SCHEMA_VERSION,
      lastFlushAtMs: this.#lastFlushAtMs,
    }));
  }

  /** Deletes a part of what is older than is to be kept; answers how many rows. */
  prune(nowMs: WallMs): number {
    const { telemetryMs, minutesMs, hoursMs, eventsMs } = this.#options.retention;
    return this.#use((open) =>
      this.#transact(open, () => {
        const { telemetry, events, throughput, rollUps } = open;
        // Seconds go only once their minute has been made.
        const rawMs = Math.min(nowMs - telemetryMs, rollUps.done.minute * 1_000);
        const before = { minute: secondsOf(nowMs - minutesMs), hour: secondsOf(nowMs - hoursMs) };
        return telemetry.prune(rawMs, PRUNE_ROWS) + rollUps.prune(before, PRUNE_ROWS) +
          events.prune(nowMs - eventsMs, PRUNE_ROWS) + throughput.prune(nowMs - eventsMs, PRUNE_ROWS);
      })
    );
  }

  /** Closing twice does nothing; a later call opens the file again. */
  close(): void {
    const open = this.#open;
    this.#open = null;
    // The last connection to close writes the journal back into the file and removes it.
    open?.db.close();
  }

  #use<T>(work: (open: Open) => T): T {
    if (this.#open !== null && inodeOf(this.#path) !== this.#open.inode) {
      // Somebody moved or deleted the file: what we write would go where nobody finds it.
      this.close();
    }
    try {
      return work(this.#opened());
    } catch (error) {
      if (troubleOf(error) !== "corrupt") throw this.#refuse(error);
      this.#replace("corrupt", error);
    }
    try {
      return work(this.#opened());
    } catch (error) {
      throw this.#refuse(error);
    }
  }

  /** A lock or a full disk passes; after anything else the file is opened anew, which also heals a remount. */
  #refuse(error: unknown): Error {
    const trouble = troubleOf(error);
    if (trouble !== "locked" && trouble !== "full") this.#abandon();
    return new Error(describeTrouble(error, this.#path), { cause: error });
  }

  #abandon(): void {
    try {
      this.close();
    } catch (error) {
      this.#options.onNote(`Cannot close ${this.#path} properly: ${messageOf(error)}`);
    }
  }

  #opened(): Open {
    if (this.#open !== null) return this.#open;
    try {
      return this.#open = this.#openOnce();
    } catch (error) {
      if (!(error instanceof NewerDatabase)) throw error;
      this.#replace(`newer-v${error.version}`, error);
    }
    return this.#open = this.#openOnce();
  }

  #openOnce(): Open {
    Deno.mkdirSync(this.#path.slice(0, this.#path.lastIndexOf("/")), { recursive: true, mode: 0o750 });
    const db = new DatabaseSync(this.#path);
    try {
      db.exec(`PRAGMA busy_timeout = ${this.#options.busyMs ?? 2_000}`);
      if (this.#options.maxPages !== undefined) db.exec(`PRAGMA max_page_count = ${this.#options.maxPages}`);
      db.exec("PRAGMA journal_mode = WAL");
      db.exec("PRAGMA synchronous = NORMAL");
      db.exec(`PRAGMA journal_size_limit = ${WAL_LIMIT_BYTES}`);
      migrate(db);
      const events = new EventsTable(db);
      events.continueAfter(this.#lastEventId);
      return {
        db,
        events,
        telemetry: new TelemetryTable(db),
        throughput: new ThroughputTable(db),
        rollUps: new RollUps(db),
        inode: inodeOf(this.#path),
      };
    } catch (error) {
      db.close();
      throw error;
    }
  }

  /** Renames the file, and begins a new one with an event that says so. */
  #replace(why: string, error: unknown): void {
    const atMs = this.#options.clock.wallMs();
    // Renamed while it is open: closing first could write the journal into a damaged file.
    const kept = setAside(this.#path, { why, atMs });
    this.#abandon();
    const message = `The history in ${this.#path} could not be used (${why}) and was kept as ${kept}`;
    this.#options.onNote(message);
    this.#open = this.#openOnce();
    const fields = JSON.stringify({ what: "history set aside", why, kept_as: kept, error: messageOf(error), message });
    this.writeEvents([{ kind: "append", event: { atMs, kind: "fault", fields }, isRepeat: false }]);
  }

  #transact<T>({ db }: Open, work: () => T): T {
    db.exec("BEGIN IMMEDIATE");
    let result: T;
    try {
      result = work();
      db.exec("COMMIT");
    } catch (error) {
      rollBack(db);
      throw error;
    }
    this.#lastFlushAtMs = this.#options.clock.wallMs();
    return result;
  }
}

function secondsOf(ms: number): number {
  return Math.floor(ms / 1_000);
}

function applyWrite(events: EventsTable, write: EventWrite): HistoryItem | null {
  return write.kind === "amend"
    ? events.amend(write.id, write.fields)
    : events.get(events.append(write.event, write.isRepeat));
}

function summedRows(
  db: DatabaseSync,
): { readonly minutes: number; readonly hours: number; readonly throughput: number } {
  const count = (table: string) => Number(db.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.["n"] ?? 0);
  return { minutes: count("telemetry_minute"), hours: count("telemetry_hour"), throughput: count("throughput") };
}

function rollBack(db: DatabaseSync): void {
  try {
    db.exec("ROLLBACK");
  } catch (error) {
    // A full disk makes SQLite roll back by itself; there is then nothing left to undo.
    if (!/no transaction is active/.test(String(error))) throw error;
  }
}

function inodeOf(path: string): number | null {
  try {
    return Deno.statSync(path).ino;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

function sizeOf(path: string): number {
  try {
    return Deno.statSync(path).size;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return 0;
    throw error;
  }
}
