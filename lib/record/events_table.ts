import type { DatabaseSync, StatementSync } from "node:sqlite";
import { HISTORY_KINDS, type HistoryItem, type HistoryKind, type HistoryQuery } from "../model/history.ts";
import { parseFields } from "./fields_text.ts";
import type { EventText } from "./store_link.ts";

/** How many of the newest events are searched for one that may have been written before a failure. */
const REPEAT_SPAN = 1_024;

/** Events with their fields as JSON. */
export class EventsTable {
  readonly #db: DatabaseSync;
  readonly #insert: StatementSync;
  readonly #twin: StatementSync;
  readonly #get: StatementSync;
  readonly #update: StatementSync;
  readonly #prune: StatementSync;

  constructor(db: DatabaseSync) {
    this.#db = db;
    this.#insert = db.prepare("INSERT INTO events (at_ms, kind, fields) VALUES (?, ?, ?)");
    this.#twin = db.prepare(
      `SELECT id FROM events WHERE id > (SELECT coalesce(max(id), 0) FROM events) - ${REPEAT_SPAN}
       AND at_ms = ? AND kind = ? AND fields = ? ORDER BY id LIMIT 1`,
    );
    this.#get = db.prepare("SELECT id, at_ms, kind, fields FROM events WHERE id = ?");
    this.#update = db.prepare("UPDATE events SET fields = ? WHERE id = ?");
    this.#prune = db.prepare("DELETE FROM events WHERE id IN (SELECT id FROM events WHERE at_ms < ? LIMIT ?)");
  }

  get count(): number {
    return Number(this.#db.prepare("SELECT count(*) AS n FROM events").get()?.["n"] ?? 0);
  }

  /** Ids go on after `lastId`: a new file must not give an id that an earlier one gave to another event. */
  continueAfter(lastId: number): void {
    const sequence = this.#db.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'events'").get()?.["seq"];
    if (lastId <= Number(sequence ?? 0)) return;
    this.#db.exec("DELETE FROM sqlite_sequence WHERE name = 'events'");
    this.#db.prepare("INSERT INTO sqlite_sequence (name, seq) VALUES ('events', ?)").run(lastId);
  }

  /** The event's id. With `isRepeat`, an equal one that is there already is taken for it. */
  append(event: EventText, isRepeat: boolean): number {
    if (isRepeat) {
      const twin = this.#twin.get(event.atMs, event.kind, event.fields)?.["id"];
      if (twin !== undefined) return Number(twin);
    }
    return Number(this.#insert.run(event.atMs, event.kind, event.fields).lastInsertRowid);
  }

  /** Adds fields, or replaces those of the same name; null when there is no such event. */
  amend(id: number, fields: string): HistoryItem | null {
    const before = this.get(id);
    if (before === null) return null;
    const merged = { ...before.fields, ...parseFields(fields) };
    this.#update.run(JSON.stringify(merged), id);
    return { ...before, fields: merged };
  }

  get(id: number): HistoryItem | null {
    const row = this.#get.get(id);
    return row === undefined ? null : decodeEvent(row);
  }

  /** Newest first. Events of a kind that this version doesn't know are left out. */
  list(query: Omit<HistoryQuery, "durable">): readonly HistoryItem[] {
    const where = ["id < ?", ...(query.kind === null ? [] : ["kind = ?"])].join(" AND ");
    const values = [query.before ?? Number.MAX_SAFE_INTEGER, ...(query.kind === null ? [] : [query.kind])];
    return this.#db
      .prepare(`SELECT id, at_ms, kind, fields FROM events WHERE ${where} ORDER BY id DESC LIMIT ?`)
      .all(...values, query.limit)
      .flatMap((row) => decodeEvent(row) ?? []);
  }

  /** Deletes events older than `beforeMs`, at most `limit` of them; answers how many. */
  prune(beforeMs: number, limit: number): number {
    return Number(this.#prune.run(beforeMs, limit).changes);
  }
}

/** Null for a kind that this version does not know. */
export function decodeEvent(row: Readonly<Record<string, unknown>>): HistoryItem | null {
  const kind = row["kind"];
  if (!isKind(kind)) return null;
  return { id: Number(row["id"]), atMs: Number(row["at_ms"]), kind, fields: parseFields(String(row["fields"])) };
}

function isKind(kind: unknown): kind is HistoryKind {
  return HISTORY_KINDS.some((known) => known === kind);
}
