import type { DatabaseSync } from "node:sqlite";

/** Figures that layout 2 sums up; throttle reasons are bits, of which there is no average. */
const ROLLED_UP_2 = [
  "vram_used_mib",
  "ollama_mib",
  "comfy_mib",
  "desktop_mib",
  "unmanaged_mib",
  "unaccounted_mib",
  "gpu_util_pct",
  "memory_util_pct",
  "temperature_c",
  "memory_temperature_c",
  "power_dw",
  "power_limit_dw",
  "fan_pct",
  "graphics_mhz",
  "memory_mhz",
  "pcie_rx_mbps",
  "pcie_tx_mbps",
  "ram_used_mib",
  "ram_cached_mib",
  "ram_available_mib",
  "comfy_queue",
] as const;

/** One row a minute or hour, keyed by its first second: how many seconds it is of, and each figure's min, average, max. */
function rollUpTable(name: string): string {
  const columns = ROLLED_UP_2.map((column) =>
    // The average in tenths of the figure's unit: a whole number takes a quarter of a REAL's room.
    `${column}_min INTEGER, ${column}_avg10 INTEGER, ${column}_max INTEGER`
  );
  return `CREATE TABLE ${name} (second INTEGER PRIMARY KEY, n INTEGER NOT NULL, ${columns.join(", ")}) STRICT;`;
}

/**
 * Every layout the file has had, oldest first; the number of the last one is what PRAGMA user_version holds. A step is
 * never edited once it was shipped: what comes next is another step. There is no way back.
 */
const STEPS: readonly string[] = [
  `
  -- AUTOINCREMENT: an id is never used again, so "before" pages and amendments can't mean another event.
  CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    fields TEXT NOT NULL
  ) STRICT;
  CREATE INDEX events_by_kind ON events (kind);

  -- Units are those of TELEMETRY_COLUMNS in telemetry_table.ts. The second is the row id, which costs no index.
  CREATE TABLE telemetry (
    second INTEGER PRIMARY KEY,
    vram_used_mib INTEGER,
    ollama_mib INTEGER,
    comfy_mib INTEGER,
    desktop_mib INTEGER,
    unmanaged_mib INTEGER,
    unaccounted_mib INTEGER,
    gpu_util_pct INTEGER,
    memory_util_pct INTEGER,
    temperature_c INTEGER,
    memory_temperature_c INTEGER,
    power_dw INTEGER,
    power_limit_dw INTEGER,
    fan_pct INTEGER,
    graphics_mhz INTEGER,
    memory_mhz INTEGER,
    throttle_reasons INTEGER,
    pcie_rx_mbps INTEGER,
    pcie_tx_mbps INTEGER,
    ram_used_mib INTEGER,
    ram_cached_mib INTEGER,
    ram_available_mib INTEGER,
    comfy_queue INTEGER
  ) STRICT;
  `,
  `
  ${rollUpTable("telemetry_minute")}
  ${rollUpTable("telemetry_hour")}
  -- Up to which second (exclusive) the finer rows have been summed up, by grain.
  CREATE TABLE roll_up_done (grain TEXT PRIMARY KEY, second INTEGER NOT NULL) STRICT, WITHOUT ROWID;

  -- One measured speed: of a generation (tokens/s) or a sampling (iterations/s), with what the card did meanwhile.
  CREATE TABLE throughput (
    id INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    workload TEXT NOT NULL,
    model TEXT,
    profile TEXT,
    basis TEXT NOT NULL,
    per_second REAL NOT NULL,
    duration_ms INTEGER,
    temperature_c REAL,
    power_w REAL,
    graphics_mhz REAL,
    memory_mhz REAL,
    fan_pct REAL,
    throttled_pct REAL
  ) STRICT;
  CREATE INDEX throughput_by_time ON throughput (at_ms);
  CREATE INDEX events_by_time ON events (at_ms);
  `,
];

/** The layout this program writes. */
export const SCHEMA_VERSION = STEPS.length;

/** A file written by a later HyperSwap, whose layout this one doesn't know. */
export class NewerDatabase extends Error {
  override readonly name = "NewerDatabase";
  constructor(readonly version: number) {
    super(`Cannot use a database of layout ${version}: this version knows up to ${SCHEMA_VERSION}`);
  }
}

/** Brings the file to the present layout, all steps or none; throws NewerDatabase for one from the future. */
export function migrate(db: DatabaseSync): { readonly from: number; readonly to: number } {
  const from = schemaVersion(db);
  if (from > SCHEMA_VERSION) throw new NewerDatabase(from);
  if (from === SCHEMA_VERSION) return { from, to: from };
  db.exec("BEGIN IMMEDIATE");
  try {
    for (const step of STEPS.slice(from)) db.exec(step);
    // The version is part of the transaction: a file is never of one layout and called another.
    db.exec(`PRAGMA user_version = ${SCHEMA_VERSION}`);
    db.exec("COMMIT");
  } catch (error) {
    db.exec("ROLLBACK");
    throw error;
  }
  return { from, to: SCHEMA_VERSION };
}

/** PRAGMA user_version; 0 for a new file. */
export function schemaVersion(db: DatabaseSync): number {
  return Number(db.prepare("PRAGMA user_version").get()?.["user_version"] ?? 0);
}
