/** 30 days of record, made fast: seconds by SQL, then summed up as the service does it. */
import { DatabaseSync } from "node:sqlite";
import type { Throughput } from "../../lib/model/history.ts";
import { DEFAULT_RETENTION } from "../../lib/record/retention.ts";
import { StoreFile } from "../../lib/record/store_file.ts";
import { TELEMETRY_COLUMNS } from "../../lib/record/telemetry_table.ts";

export const MONTH_S = 30 * 86_400;
const EVENTS = 6_000;
const SPEEDS = 3_000;

/** Writes it to `path`; `endMs` is its last moment. */
export function makeMonth(path: string, endMs: number): { readonly rollUpMs: readonly number[] } {
  const retention = { ...DEFAULT_RETENTION, telemetryMs: 60 * 86_400_000 };
  const file = new StoreFile(path, { clock: { wallMs: () => endMs }, retention, onNote: console.error });
  file.status();
  fillSeconds(path, Math.floor(endMs / 1_000) - MONTH_S);
  file.close();
  const rollUpMs: number[] = [];
  for (let made = 1; made > 0;) {
    const startedMs = performance.now();
    made = file.rollUp();
    if (made > 0) rollUpMs.push(performance.now() - startedMs);
  }
  const atMs = (share: number) => Math.round(endMs - share * MONTH_S * 1_000);
  file.writeEvents(Array.from({ length: EVENTS }, (_, n) => event(n, atMs(1 - n / EVENTS))));
  file.writeThroughput(Array.from({ length: SPEEDS }, (_, n) => speed(n, atMs(1 - n / SPEEDS))));
  file.close();
  return { rollUpMs };
}

/** Figures that move as a card's do, without a random function: a walk of remainders. */
function fillSeconds(path: string, startS: number): void {
  const columns = Object.values(TELEMETRY_COLUMNS).map(({ column }) => column);
  const values = columns.map((_, at) => `(n * ${7 + at * 2} / ${50 + at * 13}) % ${at < 6 ? 12_000 : 90 + at * 40}`);
  const db = new DatabaseSync(path);
  db.exec(`
    WITH RECURSIVE seconds (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM seconds WHERE n + 1 < ${MONTH_S})
    INSERT INTO telemetry (second, ${columns.join(", ")})
    SELECT ${startS} + n, ${values.join(", ")} FROM seconds`);
  db.close();
}

function event(n: number, atMs: number) {
  const kind = (["swap", "yield", "purge"] as const)[n % 3] ?? "swap";
  const fields = {
    model: `model-${n % 12}`,
    models: [`model-${n % 12}`],
    load_ms: 800 + (n * 37) % 9_000,
    class: n % 2 === 0 ? "ram_hit" : "cold",
    gb_per_s: 0.4 + (n % 20) / 10,
    tokens_per_sec: 70 + (n % 50) / 10,
    outcome: "released",
    confirm_ms: 300 + (n * 13) % 700,
    margin_ms: (n * 7) % 900,
    message: "The driver has 11.2 GB back; every runner is gone from the process list",
  };
  return { kind: "append", isRepeat: false, event: { atMs, kind, fields: JSON.stringify(fields) } } as const;
}

function speed(n: number, atMs: number): Throughput {
  return {
    atMs,
    workload: n % 2 === 0 ? "ollama" : "comfy",
    model: `model-${n % 6}`,
    profile: ["ollama", "comfy", "balanced"][n % 3] ?? null,
    basis: "generation",
    perSecond: 70 + (n * 31 % 100) / 50,
    durationMs: 3_000,
    temperatureC: 60 + n % 9,
    powerW: 220,
    graphicsMhz: 2_800,
    memoryMhz: 11_251,
    fanPct: 40,
    throttledPct: 0,
  };
}
