import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { DEFAULT_RETENTION } from "../../lib/record/retention.ts";
import { SCHEMA_VERSION } from "../../lib/record/migrations.ts";
import { StoreFile, type StoreFileOptions } from "../../lib/record/store_file.ts";
import type { EventWrite } from "../../lib/record/store_link.ts";
import { AT_MS, row } from "./store_contract.ts";
import { tempFolder } from "./temp_folder.ts";

const ALL = { limit: 100, kind: null, before: null } as const;

function openFile(path: string, options: Partial<StoreFileOptions> = {}) {
  const notes: string[] = [];
  const file = new StoreFile(path, {
    clock: { wallMs: () => AT_MS },
    retention: DEFAULT_RETENTION,
    busyMs: 0,
    onNote: (note) => notes.push(note),
    ...options,
  });
  return { file, notes };
}

function append(n: number, isRepeat = false): EventWrite {
  return { kind: "append", event: { atMs: AT_MS + n, kind: "swap", fields: `{"n":${n}}` }, isRepeat };
}

function names(folder: string): string[] {
  return [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
}

Deno.test("telemetry comes back to within its units, unknown as null", () => {
  using folder = tempFolder();
  const { file } = openFile(`${folder.path}/h.sqlite`);
  const unknown = Object.fromEntries(Object.keys(row(0)).map((name) => [name, null]));
  file.writeTelemetry([
    row(AT_MS),
    // Nothing known but the time.
    { ...row(0), ...unknown, atMs: AT_MS + 1_000 },
    { ...row(AT_MS + 2_999), vramUsedBytes: 1.4 * 2 ** 20, powerW: 99.96, pcieTxKbps: Number.NaN },
  ]);
  const [first, second, third] = file.telemetry({ fromMs: AT_MS, toMs: AT_MS + 10_000, limit: 10 });
  assert.deepEqual(first, row(AT_MS));
  assert.deepEqual(second, { ...unknown, atMs: AT_MS + 1_000 });
  assert.deepEqual(third, {
    ...row(AT_MS + 2_000),
    vramUsedBytes: 2 ** 20,
    powerW: 100,
    pcieTxKbps: null,
  });
  assert.equal(file.telemetry({ fromMs: AT_MS, toMs: AT_MS + 1_000, limit: 10 }).length, 1);
  file.close();
});

Deno.test("a wall clock set back replaces the seconds it records again, and loses no event", () => {
  using folder = tempFolder();
  const { file } = openFile(`${folder.path}/h.sqlite`);
  file.writeTelemetry([row(AT_MS), row(AT_MS + 1_000), row(AT_MS + 2_000)]);
  file.writeEvents([append(5_000)]);
  file.writeTelemetry([{ ...row(AT_MS + 1_000), temperatureC: 99 }, row(AT_MS - 3_600_000)]);
  file.writeEvents([append(-3_600_000)]);
  const rows = file.telemetry({ fromMs: 0, toMs: AT_MS * 2, limit: 10 });
  assert.deepEqual(rows.map(({ temperatureC }) => temperatureC), [63, 63, 99, 63]);
  assert.equal(file.status().rows.telemetry, 4);
  assert.deepEqual(file.history(ALL).map(({ fields }) => fields["n"]), [-3_600_000, 5_000]);
  file.close();
});

Deno.test("what is older than is to be kept goes, a part at a time, and the count stays true", () => {
  using folder = tempFolder();
  const { file } = openFile(`${folder.path}/h.sqlite`, {
    retention: { telemetryMs: 120_000, minutesMs: 240_000, hoursMs: 7_200_000, eventsMs: 20_000 },
  });
  const rows = () => {
    const { events, telemetry, minutes } = file.status().rows;
    return [events, telemetry, minutes];
  };
  file.writeTelemetry([0, 1, 2, 60, 61, 120].map((s) => row(AT_MS + s * 1_000)));
  file.writeEvents([append(0), append(200_000)]);
  assert.equal(file.prune(AT_MS + 181_000), 1, "seconds stay until their minute was made");
  assert.deepEqual(rows(), [1, 6, 0]);
  file.rollUp();
  assert.equal(file.prune(AT_MS + 181_000), 4);
  assert.deepEqual(rows(), [1, 2, 2]);
  assert.equal(file.prune(AT_MS + 241_000), 3);
  assert.deepEqual(rows(), [0, 1, 1]);
  assert.equal(file.prune(AT_MS + 241_000), 0);
  file.close();
});

Deno.test("a repeated write finds what was written before, and only that", () => {
  using folder = tempFolder();
  const { file } = openFile(`${folder.path}/h.sqlite`);
  file.writeEvents([append(1), append(2)]);
  file.writeEvents([append(1, true), append(2, true), append(3, true)]);
  file.writeEvents([append(3)]);
  assert.deepEqual(file.history(ALL).map(({ fields }) => fields["n"]), [3, 3, 2, 1]);
  file.close();
});

Deno.test("the layout is this version's, and the file is opened again as it was left", () => {
  using folder = tempFolder();
  const path = `${folder.path}/new/state/h.sqlite`;
  const first = openFile(path).file;
  first.writeEvents([append(1)]);
  first.close();
  assert.deepEqual(names(`${folder.path}/new/state`), ["h.sqlite"]);
  const second = openFile(path).file;
  second.writeEvents([append(2)]);
  assert.deepEqual(second.history(ALL).map(({ id }) => id), [2, 1]);
  assert.equal(second.status().schemaVersion, SCHEMA_VERSION);
  second.close();
});

Deno.test("a file that is no database is kept under another name, and a new one says so", () => {
  using folder = tempFolder();
  const path = `${folder.path}/h.sqlite`;
  Deno.writeTextFileSync(path, "this was never a database ".repeat(400));
  const { file, notes } = openFile(path);
  assert.deepEqual(file.writeEvents([append(1)]).map((item) => item?.fields), [{ n: 1 }]);
  const kept = `${path}.corrupt-20261201T100000Z`;
  assert.match(Deno.readTextFileSync(kept), /^this was never/);
  assert.equal(notes.length, 1);
  assert.match(notes[0] ?? "", /kept as .*corrupt-20261201T100000Z$/);
  const told = file.history(ALL)[1];
  assert.equal(told?.kind, "fault");
  assert.equal(told?.fields["kept_as"], kept);
  file.close();
});

Deno.test("a file that turns out damaged while it is open is replaced at once, and ids go on", () => {
  using folder = tempFolder();
  const path = `${folder.path}/h.sqlite`;
  const earlier = openFile(path).file;
  const text = JSON.stringify({ text: "x".repeat(500) });
  for (let n = 0; n < 200; n++) {
    earlier.writeEvents([{ kind: "append", event: { atMs: AT_MS, kind: "swap", fields: text }, isRepeat: false }]);
  }
  earlier.close();
  const { file, notes } = openFile(path);
  assert.equal(file.writeEvents([append(1)])[0]?.id, 201);
  const size = Deno.statSync(path).size;
  using handle = Deno.openSync(path, { write: true });
  // Every page but the first few, which hold the layout and are in SQLite's cache.
  handle.seekSync(5 * 4_096, Deno.SeekMode.Start);
  handle.writeSync(new Uint8Array(size - 5 * 4_096).fill(0xa5));
  const told = file.history({ ...ALL, limit: 1_000 });
  assert.deepEqual(told.map(({ id, kind }) => [id, kind]), [[202, "fault"]]);
  assert.equal(notes.length, 1);
  assert.equal(file.writeEvents([append(2)])[0]?.id, 203);
  assert.equal(Deno.statSync(`${path}.corrupt-20261201T100000Z`).size, size);
  file.close();
});

Deno.test("a file of a later version is kept as it is, and a new one begun", () => {
  using folder = tempFolder();
  const path = `${folder.path}/h.sqlite`;
  const later = new DatabaseSync(path);
  later.exec("CREATE TABLE of_the_future (a); INSERT INTO of_the_future VALUES (1); PRAGMA user_version = 99");
  later.close();
  const { file, notes } = openFile(path);
  file.writeEvents([append(1)]);
  file.close();
  assert.equal(notes.length, 1);
  const kept = new DatabaseSync(`${path}.newer-v99-20261201T100000Z`);
  assert.deepEqual({ ...kept.prepare("SELECT a FROM of_the_future").get() }, { a: 1 });
  kept.close();
});

Deno.test("a locked file refuses with the remedy, and works once it is free", () => {
  using folder = tempFolder();
  const path = `${folder.path}/h.sqlite`;
  const { file } = openFile(path);
  file.writeEvents([append(1)]);
  const other = new DatabaseSync(path);
  other.exec("BEGIN IMMEDIATE");
  assert.throws(() => file.writeEvents([append(2)]), /database is locked.*close it/);
  other.exec("ROLLBACK");
  other.close();
  file.writeEvents([append(2)]);
  assert.equal(file.status().rows.events, 2);
  file.close();
});

Deno.test("a file that is locked as it is opened is left alone", () => {
  using folder = tempFolder();
  const path = `${folder.path}/h.sqlite`;
  const other = new DatabaseSync(path);
  other.exec("BEGIN EXCLUSIVE");
  const { file, notes } = openFile(path);
  assert.throws(() => file.writeEvents([append(1)]), /database is locked/);
  other.close();
  assert.equal(file.writeEvents([append(1)]).length, 1);
  assert.deepEqual(notes, []);
  file.close();
});

Deno.test("a full disk loses the write, not the file, and goes on once there is room", () => {
  using folder = tempFolder();
  const path = `${folder.path}/h.sqlite`;
  const { file } = openFile(path, { maxPages: 24 });
  const large: EventWrite = {
    kind: "append",
    event: { atMs: AT_MS, kind: "swap", fields: JSON.stringify({ text: "x".repeat(90_000) }) },
    isRepeat: false,
  };
  file.writeEvents([append(1)]);
  assert.throws(() => file.writeEvents([append(2), large]), /disk is full.*Make room/);
  file.writeEvents([append(3)]);
  assert.deepEqual(file.history(ALL).map(({ fields }) => fields["n"]), [3, 1]);
  file.close();
});

Deno.test("a batch is written whole or not at all, and the next one is not held up by it", () => {
  using folder = tempFolder();
  const { file } = openFile(`${folder.path}/h.sqlite`);
  const timeless: EventWrite = {
    kind: "append",
    event: { atMs: Number.NaN, kind: "swap", fields: "{}" },
    isRepeat: false,
  };
  assert.throws(() => file.writeEvents([append(1), timeless]), /NOT NULL/);
  file.writeEvents([append(2)]);
  assert.deepEqual(file.history(ALL).map(({ fields }) => fields["n"]), [2]);
  file.close();
});

Deno.test("a folder that can't be written refuses with the remedy", () => {
  const { file } = openFile("/proc/hyperswap/h.sqlite");
  assert.throws(() => file.history(ALL), /Cannot keep history in \/proc\/hyperswap\/h.sqlite: /);
});

Deno.test("a file that is deleted meanwhile is begun anew, and ids go on", () => {
  using folder = tempFolder();
  const path = `${folder.path}/h.sqlite`;
  const { file } = openFile(path);
  file.writeEvents([append(1), append(2)]);
  for (const name of names(folder.path)) Deno.removeSync(`${folder.path}/${name}`);
  assert.deepEqual(file.writeEvents([append(3)]).map((item) => item?.id), [3]);
  assert.deepEqual(file.history(ALL).map(({ id }) => id), [3]);
  file.close();
});
