import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { Throughput } from "../model/history.ts";

/** Every field but the time, with its column. */
const COLUMNS = {
  workload: "workload",
  model: "model",
  profile: "profile",
  basis: "basis",
  perSecond: "per_second",
  durationMs: "duration_ms",
  temperatureC: "temperature_c",
  powerW: "power_w",
  graphicsMhz: "graphics_mhz",
  memoryMhz: "memory_mhz",
  fanPct: "fan_pct",
  throttledPct: "throttled_pct",
} as const satisfies Record<Exclude<keyof Throughput, "atMs">, string>;

// Object.keys loses the key type; the object above is a literal without further keys.
const FIELDS = Object.keys(COLUMNS) as readonly (keyof typeof COLUMNS)[];

/** Measured speeds, of ordinary use and of benchmarks. */
export class ThroughputTable {
  readonly #insert: StatementSync;
  readonly #prune: StatementSync;

  constructor(db: DatabaseSync) {
    const columns = FIELDS.map((field) => COLUMNS[field]);
    this.#insert = db.prepare(
      `INSERT INTO throughput (at_ms, ${columns.join(", ")}) VALUES (?${", ?".repeat(columns.length)})`,
    );
    this.#prune = db.prepare("DELETE FROM throughput WHERE id IN (SELECT id FROM throughput WHERE at_ms < ? LIMIT ?)");
  }

  /** To be called within a transaction. What is no number at all is left out. */
  insert(measured: readonly Throughput[]): void {
    for (const one of measured) {
      if (!Number.isFinite(one.perSecond) || !Number.isFinite(one.atMs)) continue;
      const values = FIELDS.map((field) => field === "durationMs" ? roundOrNull(one.durationMs) : one[field]);
      this.#insert.run(Math.round(one.atMs), ...values);
    }
  }

  /** Deletes what is older than `beforeMs`, at most `limit` of it; answers how many. */
  prune(beforeMs: number, limit: number): number {
    return Number(this.#prune.run(beforeMs, limit).changes);
  }
}

function roundOrNull(value: number | null): number | null {
  return value === null ? null : Math.round(value);
}

/** What was measured since `sinceMs`, newest first, at most `limit`. */
export function readThroughput(
  db: DatabaseSync,
  { sinceMs, limit }: { readonly sinceMs: number; readonly limit: number },
): readonly Throughput[] {
  const pairs = ["at_ms", ...FIELDS.map((field) => COLUMNS[field])].map((column) => `'${column}', ${column}`);
  const row = db.prepare(
    `SELECT json_group_array(json_object(${pairs.join(", ")})) AS rows FROM (
       SELECT * FROM throughput WHERE at_ms >= ? ORDER BY at_ms DESC LIMIT ?)`,
  ).get(sinceMs, limit);
  // Written by the statement above.
  const rows = JSON.parse(String(row?.["rows"] ?? "[]")) as readonly Readonly<Record<string, unknown>>[];
  return rows.flatMap(decode);
}

function decode(row: Readonly<Record<string, unknown>>): Throughput | [] {
  const number = (column: string) => typeof row[column] === "number" ? row[column] : null;
  const text = (column: string) => typeof row[column] === "string" ? row[column] : null;
  const workload = row["workload"];
  if (workload !== "ollama" && workload !== "comfy") return [];
  return {
    atMs: Number(row["at_ms"]),
    workload,
    model: text("model"),
    profile: text("profile"),
    basis: text("basis") ?? "",
    perSecond: Number(row["per_second"]),
    durationMs: number("duration_ms"),
    temperatureC: number("temperature_c"),
    powerW: number("power_w"),
    graphicsMhz: number("graphics_mhz"),
    memoryMhz: number("memory_mhz"),
    fanPct: number("fan_pct"),
    throttledPct: number("throttled_pct"),
  };
}
