import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { TelemetryRow } from "../model/history.ts";
import { MIB } from "../model/units.ts";

/**
 * How each figure is kept: a whole number of `unit`, so that SQLite stores it in one to three bytes (a REAL takes
 * eight, which is 2.7 times the file). Reading gives the figure back to within half a unit; unknown stays NULL.
 */
export const TELEMETRY_COLUMNS = {
  vramUsedBytes: { column: "vram_used_mib", unit: MIB },
  ollamaBytes: { column: "ollama_mib", unit: MIB },
  comfyBytes: { column: "comfy_mib", unit: MIB },
  desktopBytes: { column: "desktop_mib", unit: MIB },
  unmanagedBytes: { column: "unmanaged_mib", unit: MIB },
  unaccountedBytes: { column: "unaccounted_mib", unit: MIB },
  gpuUtilPct: { column: "gpu_util_pct", unit: 1 },
  memoryUtilPct: { column: "memory_util_pct", unit: 1 },
  temperatureC: { column: "temperature_c", unit: 1 },
  memoryTemperatureC: { column: "memory_temperature_c", unit: 1 },
  powerW: { column: "power_dw", unit: 0.1 },
  powerLimitW: { column: "power_limit_dw", unit: 0.1 },
  fanPct: { column: "fan_pct", unit: 1 },
  graphicsMhz: { column: "graphics_mhz", unit: 1 },
  memoryMhz: { column: "memory_mhz", unit: 1 },
  throttleReasons: { column: "throttle_reasons", unit: 1 },
  // NVML counts PCIe in KB/s over 20 ms: MB/s is finer than its noise.
  pcieRxKbps: { column: "pcie_rx_mbps", unit: 1_000 },
  pcieTxKbps: { column: "pcie_tx_mbps", unit: 1_000 },
  ramUsedBytes: { column: "ram_used_mib", unit: MIB },
  ramCachedBytes: { column: "ram_cached_mib", unit: MIB },
  ramAvailableBytes: { column: "ram_available_mib", unit: MIB },
  comfyQueue: { column: "comfy_queue", unit: 1 },
} as const satisfies Record<Exclude<keyof TelemetryRow, "atMs">, { readonly column: string; readonly unit: number }>;

type Figure = keyof typeof TELEMETRY_COLUMNS;

// Object.keys loses the key type; the object above is a literal without further keys.
const FIGURES = Object.keys(TELEMETRY_COLUMNS) as readonly Figure[];
const COLUMNS = FIGURES.map((figure) => TELEMETRY_COLUMNS[figure].column);

/** The 1 Hz rows, keyed by their wall-clock second. */
export class TelemetryTable {
  readonly #insert: StatementSync;
  readonly #has: StatementSync;
  readonly #between: StatementSync;
  readonly #prune: StatementSync;
  #count: number;

  constructor(db: DatabaseSync) {
    // A second recorded twice is one after the wall clock was set back: the later clock is the corrected one.
    this.#insert = db.prepare(
      `INSERT OR REPLACE INTO telemetry (second, ${COLUMNS.join(", ")}) VALUES (?${", ?".repeat(COLUMNS.length)})`,
    );
    this.#has = db.prepare("SELECT 1 FROM telemetry WHERE second = ?");
    this.#between = db.prepare("SELECT * FROM telemetry WHERE second >= ? AND second < ? ORDER BY second LIMIT ?");
    this.#prune = db.prepare(
      "DELETE FROM telemetry WHERE second IN (SELECT second FROM telemetry WHERE second < ? ORDER BY second LIMIT ?)",
    );
    this.#count = Number(db.prepare("SELECT count(*) AS n FROM telemetry").get()?.["n"] ?? 0);
  }

  /** Counted once and then kept up: counting reads the whole table. */
  get count(): number {
    return this.#count;
  }

  /** To be called within a transaction. A row without a usable time is left out. */
  insert(rows: readonly TelemetryRow[]): void {
    let added = 0;
    for (const row of rows) {
      const second = Math.floor(row.atMs / 1_000);
      if (!Number.isSafeInteger(second)) continue;
      if (this.#has.get(second) === undefined) added += 1;
      this.#insert.run(second, ...FIGURES.map((figure) => stored(row[figure], TELEMETRY_COLUMNS[figure].unit)));
    }
    this.#count += added;
  }

  /** Rows of [fromMs, toMs), oldest first. */
  read(span: { readonly fromMs: number; readonly toMs: number; readonly limit: number }): readonly TelemetryRow[] {
    return this.#between.all(Math.ceil(span.fromMs / 1_000), Math.ceil(span.toMs / 1_000), span.limit).map(
      decodeTelemetry,
    );
  }

  /** Deletes rows older than `beforeMs`, at most `limit` of them; answers how many. */
  prune(beforeMs: number, limit: number): number {
    const deleted = Number(this.#prune.run(Math.floor(beforeMs / 1_000), limit).changes);
    this.#count -= deleted;
    return deleted;
  }
}

function stored(value: number | null, unit: number): number | null {
  return value === null || !Number.isFinite(value) ? null : Math.round(value / unit);
}

/** A row of the table in the units of the model. */
export function decodeTelemetry(row: Readonly<Record<string, unknown>>): TelemetryRow {
  const figures = FIGURES.map((figure) => {
    const { column, unit } = TELEMETRY_COLUMNS[figure];
    const value = row[column];
    // Division keeps tenths exact where a product wouldn't (3201 * 0.1 = 320.10000000000002).
    return [figure, typeof value !== "number" ? null : unit < 1 ? value / Math.round(1 / unit) : value * unit] as const;
  });
  // fromEntries forgets which keys there are: exactly the figures, each once.
  return { atMs: Number(row["second"]) * 1_000, ...Object.fromEntries(figures) as Record<Figure, number | null> };
}
