/** The record, handed out whole: events, telemetry or sweeps, as JSON or CSV, page by page. */
import * as z from "zod";
import type { HistoryItem, TelemetryRow } from "../model/history.ts";
import type { Services } from "../model/services.ts";
import { toIso } from "../model/units.ts";
import { download } from "./download.ts";
import { viewHistoryItem } from "./history_view.ts";
import { moment, momentOf } from "./moment.ts";
import { DOWNLOADS } from "./routes.ts";

const WHAT = ["events", "telemetry", "autotune"] as const;
type What = typeof WHAT[number];

type Cell = string | number | boolean | null | undefined;
type Row = Readonly<Record<string, unknown>>;

/** A kind of export: pages of records, and what of each is a row of a table. */
interface Source<T> {
  readonly pages: AsyncIterable<readonly T[]>;
  readonly columns: readonly string[];
  json(record: T): Row;
  rows(record: T): readonly (readonly Cell[])[];
}

export const exportRecord = download({
  name: "export",
  summary: "Events, 1 Hz telemetry or sweeps with their raw samples, oldest first, as JSON or CSV",
  access: "read",
  input: z.object({
    what: z.enum(WHAT).describe("what is exported"),
    format: z.enum(["json", "csv"]).default("json"),
    from: moment("the first record's time"),
    to: moment("records before this time"),
  }),
  http: DOWNLOADS.export,
  cli: { words: ["export"] },
  open(services, { what, format, from, to }, signal) {
    const span = { from: momentOf(from), to: momentOf(to) };
    const source = sourceOf(what, { services, span, signal });
    const isCsv = format === "csv";
    return {
      contentType: isCsv ? "text/csv; charset=utf-8; header=present" : "application/json",
      fileName: `hyperswap-${what}.${format}`,
      chunks: isCsv ? csvOf(source) : jsonOf(source),
    };
  },
});

function sourceOf(
  what: What,
  { services: { analytics }, span, signal }: {
    readonly services: Services;
    readonly span: Parameters<Services["analytics"]["events"]>[0];
    readonly signal: AbortSignal;
  },
  // deno-lint-ignore no-explicit-any -- each source is whole in itself: its pages hold what its own functions take
): Source<any> {
  switch (what) {
    case "events":
      return { pages: analytics.events(span, signal), ...EVENTS };
    case "telemetry":
      return { pages: analytics.telemetry(span, signal), ...TELEMETRY };
    case "autotune":
      return { pages: analytics.events({ ...span, kind: "autotune" }, signal), ...AUTOTUNE };
  }
}

const EVENTS: Omit<Source<HistoryItem>, "pages"> = {
  columns: ["id", "at", "kind", "message", "fields"],
  json: viewHistoryItem,
  rows: ({ id, atMs, kind, fields }) => {
    const { message, ...others } = fields;
    return [[id, toIso(atMs), kind, typeof message === "string" ? message : null, JSON.stringify(others)]];
  },
};

/** Column → field: the names that the API has elsewhere. Bytes stay bytes: an export is for machines. */
const TELEMETRY_FIELDS = {
  vram_used_bytes: "vramUsedBytes",
  ollama_bytes: "ollamaBytes",
  comfyui_bytes: "comfyBytes",
  desktop_bytes: "desktopBytes",
  unmanaged_bytes: "unmanagedBytes",
  unaccounted_bytes: "unaccountedBytes",
  gpu_util_pct: "gpuUtilPct",
  memory_util_pct: "memoryUtilPct",
  temperature_c: "temperatureC",
  memory_temperature_c: "memoryTemperatureC",
  power_w: "powerW",
  power_limit_w: "powerLimitW",
  fan_pct: "fanPct",
  graphics_mhz: "graphicsMhz",
  memory_mhz: "memoryMhz",
  throttle_reasons: "throttleReasons",
  pcie_rx_kbps: "pcieRxKbps",
  pcie_tx_kbps: "pcieTxKbps",
  ram_used_bytes: "ramUsedBytes",
  ram_cached_bytes: "ramCachedBytes",
  ram_available_bytes: "ramAvailableBytes",
  comfy_queue: "comfyQueue",
} as const satisfies Readonly<Record<string, keyof TelemetryRow>>;

const TELEMETRY: Omit<Source<TelemetryRow>, "pages"> = {
  columns: ["at", ...Object.keys(TELEMETRY_FIELDS)],
  json: (row) => ({
    at: toIso(row.atMs),
    ...Object.fromEntries(Object.entries(TELEMETRY_FIELDS).map(([name, field]) => [name, row[field]])),
  }),
  rows: (row) => [[toIso(row.atMs), ...Object.values(TELEMETRY_FIELDS).map((field) => row[field])]],
};

const STEP_COLUMNS = [
  "event",
  "sweep",
  "knob",
  "workload",
  "model",
  "profile",
  "role",
  "value",
  "verdict",
  "reason",
  "end",
  "gain_pct",
  "p_value",
  "temperature_max_c",
  "power_w",
  "graphics_mhz",
  "memory_mhz",
  "message",
] as const;
const SAMPLE_COLUMNS = ["per_second", "count", "duration_ms", "seed"] as const;

/** A row for each raw sample; a step without any, and a result, have one with those cells empty. */
const AUTOTUNE: Omit<Source<HistoryItem>, "pages"> = {
  columns: ["id", "at", ...STEP_COLUMNS, ...SAMPLE_COLUMNS.map((name) => `sample_${name}`)],
  json: viewHistoryItem,
  rows: ({ id, atMs, fields }) => {
    const own = STEP_COLUMNS.map((name) => cellOf(fields[name]));
    const samples: readonly unknown[] = Array.isArray(fields["samples"]) ? fields["samples"] : [];
    const rows = samples.length === 0 ? [null] : samples;
    return rows.map((
      sample,
    ) => [id, toIso(atMs), ...own, ...SAMPLE_COLUMNS.map((name) => cellOf(fieldOf(sample, name)))]);
  },
};

function fieldOf(value: unknown, name: string): unknown {
  // as: an object, so that its fields can be looked at by name.
  return typeof value === "object" && value !== null ? (value as Row)[name] : null;
}

function cellOf(value: unknown): Cell {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? value : null;
}

async function* jsonOf<T>({ pages, json }: Source<T>): AsyncGenerator<string> {
  let separator = "[\n";
  for await (const page of pages) {
    if (page.length === 0) continue;
    yield separator + page.map((record) => JSON.stringify(json(record))).join(",\n");
    separator = ",\n";
  }
  yield separator === "[\n" ? "[]\n" : "\n]\n";
}

async function* csvOf<T>({ pages, columns, rows }: Source<T>): AsyncGenerator<string> {
  let head = `${columns.join(",")}\r\n`;
  for await (const page of pages) {
    yield head + page.flatMap(rows).map((row) => `${row.map(csvCell).join(",")}\r\n`).join("");
    head = "";
  }
  if (head !== "") yield head;
}

/** RFC 4180. Text that a spreadsheet would take for a formula is marked as text: some of it comes from other programs. */
export function csvCell(value: Cell): string {
  if (value === null || value === undefined) return "";
  if (typeof value !== "string") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
