import { DatabaseSync } from "node:sqlite";
import type { EventsPage, ProfileReport, Series, SeriesQuery, SwapReport, TelemetryPage } from "../model/analytics.ts";
import type { HistoryItem, HistoryKind } from "../model/history.ts";
import type { WallMs } from "../model/units.ts";
import { decodeEvent } from "./events_table.ts";
import { SCHEMA_VERSION, schemaVersion } from "./migrations.ts";
import { profileReport } from "./profile_report.ts";
import { readSeries } from "./series.ts";
import { swapReport } from "./swap_report.ts";
import { decodeTelemetry } from "./telemetry_table.ts";
import { readThroughput } from "./throughput_table.ts";

/** Events and measurements that a report reads at most, the newest: their JSON takes about 5 µs each. */
const MOST_ITEMS = 2_000;
/** Rows of one page of an export. */
const PAGE_EVENTS = 1_000;
const PAGE_SECONDS = 2_000;

/** What is no JSON is shown as it stands rather than lost. */
const FIELDS_JSON = "CASE WHEN json_valid(fields) THEN json(fields) ELSE json_object('unreadable', fields) END";

type Fields = HistoryItem["fields"];

interface Span {
  readonly fromMs: WallMs;
  readonly toMs: WallMs;
}

/**
 * The record's file, read only, in a connection of its own. It is opened for each question: a file that was set aside or
 * replaced meanwhile is never read on. Every call is synchronous and belongs into a Worker.
 */
export class ArchiveFile {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  series(query: SeriesQuery): Series {
    return this.#read((db) => readSeries(db, query));
  }

  profiles(sinceMs: WallMs): ProfileReport {
    return this.#read((db) => {
      const measured = readThroughput(db, { sinceMs, limit: MOST_ITEMS });
      return profileReport(measured, measured.length === MOST_ITEMS);
    });
  }

  swaps(sinceMs: WallMs): SwapReport {
    const items = this.newest(sinceMs, ["swap", "yield", "purge"]);
    return swapReport(items, items.length === MOST_ITEMS);
  }

  /** Newest first. */
  newest(sinceMs: WallMs, kinds: readonly HistoryKind[]): readonly HistoryItem[] {
    const marks = kinds.map(() => "?").join(", ");
    // One JSON text: the binding takes longer over thousands of row objects than all the rest does.
    const row = this.#read((db) =>
      db.prepare(
        `SELECT json_group_array(json_array(id, at_ms, kind, ${FIELDS_JSON})) AS items FROM (
           SELECT id, at_ms, kind, fields FROM events WHERE at_ms >= ? AND kind IN (${marks})
           ORDER BY at_ms DESC LIMIT ${MOST_ITEMS})`,
      ).get(sinceMs, ...kinds)
    );
    // Written by the statement above, with kinds of this version only.
    const items = JSON.parse(String(row?.["items"] ?? "[]")) as readonly [number, number, HistoryKind, Fields][];
    return items.map(([id, atMs, kind, fields]) => ({ id, atMs, kind, fields }));
  }

  events(
    { fromMs, toMs, after, kind }: Span & { readonly after: number; readonly kind: HistoryKind | null },
  ): EventsPage {
    return this.#read((db) => {
      const ofKind = kind === null ? "" : "AND kind = ?";
      const rows = db.prepare(
        `SELECT id, at_ms, kind, fields FROM events WHERE id > ? AND at_ms >= ? AND at_ms < ? ${ofKind}
         ORDER BY id LIMIT ${PAGE_EVENTS}`,
      ).all(after, fromMs, toMs, ...(kind === null ? [] : [kind]));
      const last = rows.at(-1)?.["id"];
      return {
        events: rows.flatMap((row) => decodeEvent(row) ?? []),
        next: rows.length < PAGE_EVENTS ? null : Number(last),
      };
    });
  }

  telemetry({ fromMs, toMs }: Span): TelemetryPage {
    return this.#read((db) => {
      const rows = db.prepare(
        `SELECT * FROM telemetry WHERE second >= ? AND second < ? ORDER BY second LIMIT ${PAGE_SECONDS}`,
      ).all(Math.ceil(fromMs / 1_000), Math.ceil(toMs / 1_000)).map(decodeTelemetry);
      const last = rows.at(-1);
      return { rows, next: rows.length < PAGE_SECONDS || last === undefined ? null : last.atMs + 1_000 };
    });
  }

  #read<T>(work: (db: DatabaseSync) => T): T {
    const db = new DatabaseSync(this.#path, { readOnly: true });
    try {
      db.exec("PRAGMA busy_timeout = 2000");
      const version = schemaVersion(db);
      if (version !== SCHEMA_VERSION) {
        throw new Error(`${this.#path} has layout ${version}, not ${SCHEMA_VERSION}: the service brings it up to date`);
      }
      return work(db);
    } finally {
      db.close();
    }
  }
}
