import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import type { TelemetryRow } from "../../lib/model/history.ts";
import { migrate, SCHEMA_VERSION } from "../../lib/record/migrations.ts";
import { DEFAULT_RETENTION } from "../../lib/record/retention.ts";
import { ROLLED_UP, RollUps } from "../../lib/record/roll_ups.ts";
import { StoreFile } from "../../lib/record/store_file.ts";
import { TelemetryTable } from "../../lib/record/telemetry_table.ts";
import { AT_MS, row } from "./store_contract.ts";
import { tempFolder } from "./temp_folder.ts";

const AT_S = AT_MS / 1_000;

function open() {
  const db = new DatabaseSync(":memory:");
  migrate(db);
  const rollUps = new RollUps(db);
  const telemetry = new TelemetryTable(db);
  const write = (second: number, change: Partial<TelemetryRow> = {}) => {
    telemetry.insert([{ ...row(AT_MS + second * 1_000), ...change }]);
    rollUps.note(AT_S + second);
  };
  const read = (table: string, column: string) =>
    db.prepare(`SELECT second, n, ${column}_min AS low, ${column}_avg10 AS avg10, ${column}_max AS high FROM ${table}`)
      .all().map(({ second, n, low, avg10, high }) => [Number(second) - AT_S, n, low, avg10, high]);
  return { db, rollUps, write, read };
}

Deno.test("a minute that is over is summed up once; the one under way isn't", () => {
  const { db, rollUps, write, read } = open();
  write(0, { temperatureC: 50 });
  write(1, { temperatureC: 60 });
  write(59, { temperatureC: null });
  write(60, { temperatureC: 70 });
  assert.equal(rollUps.advance(10), 1);
  assert.deepEqual(read("telemetry_minute", "temperature_c"), [[0, 3, 50, 550, 60]]);
  assert.equal(rollUps.advance(10), 0);
  write(120);
  assert.equal(rollUps.advance(10), 1);
  assert.deepEqual(read("telemetry_minute", "temperature_c")[1], [60, 1, 70, 700, 70]);
  db.close();
});

Deno.test("what nobody knew all minute long stays unknown in minutes and hours", () => {
  const { db, rollUps, write, read } = open();
  write(0, { fanPct: null });
  write(3_600, { fanPct: 40 });
  write(7_200);
  rollUps.advance(10);
  assert.deepEqual(read("telemetry_minute", "fan_pct"), [[0, 1, null, null, null], [3_600, 1, 40, 400, 40]]);
  assert.deepEqual(read("telemetry_hour", "fan_pct"), [[0, 1, null, null, null], [3_600, 1, 40, 400, 40]]);
  db.close();
});

Deno.test("an hour weighs its minutes by the seconds they are of", () => {
  const { db, rollUps, write, read } = open();
  for (let second = 0; second < 30; second++) write(second, { powerW: 100 });
  for (let second = 60; second < 70; second++) write(second, { powerW: 300 });
  write(3_600);
  rollUps.advance(10);
  assert.deepEqual(read("telemetry_hour", "power_dw"), [[0, 40, 1_000, 15_000, 3_000]]);
  db.close();
});

Deno.test("a clock that was set back corrects the minutes and hours it records again", () => {
  const { db, rollUps, write, read } = open();
  write(0, { temperatureC: 50 });
  write(3_660);
  rollUps.advance(10);
  write(1, { temperatureC: 90 });
  assert.equal(rollUps.advance(10), 0, "that minute is under way again");
  write(60);
  rollUps.advance(10);
  assert.deepEqual(read("telemetry_minute", "temperature_c")[0], [0, 2, 50, 700, 90]);
  assert.deepEqual(read("telemetry_hour", "temperature_c")[0]?.slice(2), [50, 700, 90]);
  db.close();
});

Deno.test("a backlog is made in bounded parts, and gaps cost nothing", () => {
  const { db, rollUps, write, read } = open();
  for (let minute = 0; minute < 5; minute++) write(minute * 60);
  // A year later.
  write(365 * 86_400);
  assert.equal(rollUps.advance(3), 3);
  assert.equal(read("telemetry_minute", "power_dw").length, 3);
  while (rollUps.advance(3) > 0);
  assert.equal(read("telemetry_minute", "power_dw").length, 5);
  assert.equal(read("telemetry_hour", "power_dw").length, 1);
  assert.equal(rollUps.done.minute, AT_S + 365 * 86_400);
  db.close();
});

Deno.test("every column but the bits is summed up", () => {
  const db = new DatabaseSync(":memory:");
  migrate(db);
  const names = db.prepare("SELECT name FROM pragma_table_info('telemetry_hour')").all().map(({ name }) => name);
  const wanted = ROLLED_UP.flatMap((column) => [`${column}_min`, `${column}_avg10`, `${column}_max`]);
  assert.deepEqual(names, ["second", "n", ...wanted]);
  assert.equal(wanted.length, 63);
  db.close();
});

Deno.test("a file of layout 1 opens with all it held, and its past is summed up", () => {
  using folder = tempFolder();
  const path = `${folder.path}/h.db`;
  Deno.copyFileSync(new URL("../fixtures/record/layout_1.db", import.meta.url), path);
  const file = new StoreFile(path, {
    clock: { wallMs: () => AT_MS },
    retention: DEFAULT_RETENTION,
    onNote: assert.fail,
  });
  assert.deepEqual(file.history({ limit: 9, kind: null, before: null }).map(({ kind }) => kind), [
    "purge",
    "yield",
    "swap",
  ]);
  while (file.rollUp() > 0);
  const { rows, schemaVersion } = file.status();
  assert.deepEqual([schemaVersion, rows.telemetry, rows.minutes, rows.hours], [SCHEMA_VERSION, 150, 2, 0]);
  file.close();
  const db = new DatabaseSync(path);
  const powers = db.prepare("SELECT power_dw_min AS low, power_dw_avg10 AS avg10 FROM telemetry_minute").all();
  assert.deepEqual(powers.map(({ low, avg10 }) => [low, avg10]), [[2_000, 20_000], [3_000, 30_000]]);
  db.close();
});
