import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { migrate, NewerDatabase, SCHEMA_VERSION, schemaVersion } from "../../lib/record/migrations.ts";
import { TELEMETRY_COLUMNS } from "../../lib/record/telemetry_table.ts";

Deno.test("a new file gets every layout's step, and a second run changes nothing", () => {
  const db = new DatabaseSync(":memory:");
  assert.deepEqual(migrate(db), { from: 0, to: SCHEMA_VERSION });
  assert.deepEqual(migrate(db), { from: SCHEMA_VERSION, to: SCHEMA_VERSION });
  db.close();
});

Deno.test("the telemetry table has the columns that are written to it, all of them strict integers", () => {
  const db = new DatabaseSync(":memory:");
  migrate(db);
  const columns = db.prepare("SELECT name, type FROM pragma_table_info('telemetry')").all();
  const names = ["second", ...Object.values(TELEMETRY_COLUMNS).map(({ column }) => column)];
  assert.deepEqual(columns.map(({ name }) => name), names);
  assert.deepEqual([...new Set(columns.map(({ type }) => type))], ["INTEGER"]);
  assert.equal(columns.length, 23);
  assert.throws(() => db.exec("INSERT INTO telemetry (second, temperature_c) VALUES (1, 'warm')"));
  db.close();
});

Deno.test("a step that fails leaves the file as it was", () => {
  const db = new DatabaseSync(":memory:");
  db.exec("CREATE TABLE telemetry (mine TEXT)");
  assert.throws(() => migrate(db), /already exists/);
  assert.equal(schemaVersion(db), 0);
  const tables = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'").all();
  assert.deepEqual(tables.map(({ name }) => name), ["telemetry"]);
  db.close();
});

Deno.test("a layout of the future is refused untouched", () => {
  const db = new DatabaseSync(":memory:");
  db.exec(`PRAGMA user_version = ${SCHEMA_VERSION + 1}`);
  assert.throws(() => migrate(db), NewerDatabase);
  assert.equal(schemaVersion(db), SCHEMA_VERSION + 1);
  db.close();
});

Deno.test("a file of every earlier layout is kept, and is brought up to date", () => {
  for (let layout = 1; layout < SCHEMA_VERSION; layout += 1) {
    const path = Deno.makeTempFileSync({ suffix: ".db" });
    Deno.copyFileSync(new URL(`../fixtures/record/layout_${layout}.db`, import.meta.url), path);
    const db = new DatabaseSync(path);
    assert.deepEqual(migrate(db), { from: layout, to: SCHEMA_VERSION });
    assert.equal(db.prepare("PRAGMA integrity_check").get()?.["integrity_check"], "ok");
    db.close();
    Deno.removeSync(path);
  }
});
