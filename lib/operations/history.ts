/** What happened, and how well it is kept. */
import * as z from "zod";
import { HISTORY_KINDS } from "../model/history.ts";
import { round } from "../model/units.ts";
import { HistoryItemWire, viewHistoryItem } from "./history_view.ts";
import { define } from "./operation.ts";
import { isoOrNull, time } from "./quantities.ts";
import { ROUTES } from "./routes.ts";

export const history = define({
  name: "history",
  summary: "Swaps, yields, purges and other events, newest first",
  access: "read",
  input: z.object({
    limit: z.int().min(1).max(1000).default(20).describe("how many"),
    kind: z.enum(HISTORY_KINDS).optional().describe("only this kind of event"),
    durable: z.boolean().default(true).describe("false: only what was seen since the service started"),
    before: z.int().min(1).optional().describe("only events with a smaller id: the next page"),
  }),
  output: z.object({ events: z.array(HistoryItemWire) }),
  fails: ["unavailable"],
  http: ROUTES.history,
  cli: { words: ["history"] },
  tool: { name: "get_switch_history", idempotent: true },
  async handle(services, { limit, kind, durable, before }) {
    const items = await services.history.list({ limit, kind: kind ?? null, before: before ?? null, durable });
    return { events: items.map(viewHistoryItem) };
  },
});

export const db = define({
  name: "db",
  summary: "The record's store: where it is, how large, how far back it goes, and whether it is being written",
  access: "read",
  input: z.object({}),
  output: z.object({
    path: z.string().nullable().describe("null when nothing is kept on disk"),
    size_bytes: z.int().nullable(),
    rows: z.record(z.string(), z.int()).describe("rows by table"),
    hours_held: z.number().nullable(),
    last_flush_at: time("last write", null),
    schema_version: z.int().nullable(),
    error: z.string().nullable().describe("why history is not being kept; null while it is"),
  }),
  fails: ["unavailable"],
  http: ROUTES.db,
  cli: { words: ["db"] },
  tool: { name: "get_store_status", idempotent: true },
  async handle(services) {
    const status = await services.history.status();
    return {
      path: status.path,
      size_bytes: status.sizeBytes,
      rows: { ...status.rows },
      hours_held: round(status.hoursHeld, 2),
      last_flush_at: isoOrNull(status.lastFlushAtMs),
      schema_version: status.schemaVersion,
      error: status.error,
    };
  },
});
