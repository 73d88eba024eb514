import assert from "node:assert/strict";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import type { HistoryItem } from "../../lib/model/history.ts";
import type { Log } from "../../lib/model/ports.ts";
import { fileLink } from "../../lib/record/file_link.ts";
import { DEFAULT_RETENTION } from "../../lib/record/retention.ts";
import { SteadyStore } from "../../lib/record/steady_store.ts";
import { StoreFile } from "../../lib/record/store_file.ts";
import type { StoreLink } from "../../lib/record/store_link.ts";
import { AT_MS, event, row, storeContract } from "./store_contract.ts";
import { tempFolder } from "./temp_folder.ts";

const ALL = { limit: 2_000, kind: null, before: null, durable: true } as const;

function open(path: string, clock = new LabClock()) {
  const file = new StoreFile(path, { clock, retention: DEFAULT_RETENTION, busyMs: 0, onNote: () => {} });
  const link = faulty(fileLink(path, file));
  const lines: string[] = [];
  const log: Log = {
    debug: () => {},
    info: (message) => lines.push(message),
    warn: (message) => lines.push(message),
    error: (message) => lines.push(message),
  };
  return { store: new SteadyStore({ link, clock, log }), link, clock, file, lines };
}

/** A link whose writes can be made to fail, before or after they reached the file, or to hang. */
function faulty(link: StoreLink): StoreLink & { mode: "ok" | "refuse" | "write, then refuse" | "hang"; go(): void } {
  let gate = Promise.withResolvers<void>();
  const through = async <T>(call: () => Promise<T>): Promise<T> => {
    if (self.mode === "refuse") throw new Error("database is locked");
    if (self.mode === "hang") await gate.promise;
    const value = await call();
    if (self.mode === "write, then refuse") throw new Error("the answer was lost");
    return value;
  };
  const self: ReturnType<typeof faulty> = {
    ...link,
    mode: "ok",
    go: () => {
      self.mode = "ok";
      gate.resolve();
      gate = Promise.withResolvers();
    },
    writeEvents: (writes) => through(() => link.writeEvents(writes)),
    writeTelemetry: (rows) => through(() => link.writeTelemetry(rows)),
    status: () => through(() => link.status()),
  };
  return self;
}

const ids = (items: readonly HistoryItem[]) => items.map(({ id }) => id);
const numbers = (items: readonly HistoryItem[]) => items.map(({ fields }) => fields["n"]);

storeContract("file", () => {
  const folder = tempFolder();
  return { store: open(`${folder.path}/h.sqlite`).store, end: () => folder[Symbol.dispose]() };
});

Deno.test("telemetry is on the disk within 5 s, and counted in hours", async () => {
  using folder = tempFolder();
  const { store, clock, file } = open(`${folder.path}/h.sqlite`);
  for (let second = 0; second < 9; second++) {
    store.telemetry(row(clock.wallMs()));
    await clock.advance(1_000);
  }
  assert.ok(file.telemetry({ fromMs: 0, toMs: AT_MS * 2, limit: 10 }).length >= 5);
  await store.close();
  const again = open(`${folder.path}/h.sqlite`);
  const status = await again.store.status();
  assert.equal(status.rows["telemetry"], 9);
  assert.equal(status.hoursHeld, 9 / 3_600);
  assert.equal(status.lastFlushAtMs, null);
  await again.store.close();
});

Deno.test("a restart finds every event; what was seen since the start is told apart", async () => {
  using folder = tempFolder();
  const first = open(`${folder.path}/h.sqlite`).store;
  await first.append(event(1));
  await first.close();
  const second = open(`${folder.path}/h.sqlite`).store;
  await second.append(event(2));
  assert.deepEqual(numbers(await second.history(ALL)), [2, 1]);
  assert.deepEqual(numbers(await second.history({ ...ALL, durable: false })), [2]);
  await second.close();
});

Deno.test("while the file refuses, events get temporary ids that go on meaning them once they are written", async () => {
  using folder = tempFolder();
  const { store, link, clock, lines } = open(`${folder.path}/h.sqlite`);
  const before = await store.append(event(1));
  link.mode = "refuse";
  const [second, third] = [await store.append(event(2)), await store.append(event(3))];
  assert.deepEqual(ids([second, third]), [-1, -2]);
  assert.match((await store.status()).error ?? "", /locked/);
  assert.equal((await store.status()).rows["waiting_events"], 2);
  assert.deepEqual(ids(await store.history(ALL)), [-2, -1, before.id]);
  assert.deepEqual(ids(await store.history({ ...ALL, before: -2 })), [-1, before.id]);
  assert.deepEqual(ids(await store.history({ ...ALL, before: before.id })), []);
  assert.deepEqual((await store.amend(-1, { margin_ms: 5 }))?.fields, { n: 2, margin_ms: 5 });

  link.go();
  await clock.advance(4_000);
  assert.equal((await store.status()).error, null);
  assert.deepEqual((await store.amend(-2, { margin_ms: 6 }))?.fields, { n: 3, margin_ms: 6 });
  const kept = await store.history(ALL);
  assert.deepEqual(ids(kept), [3, 2, 1]);
  assert.deepEqual(kept.map(({ fields }) => fields), [{ n: 3, margin_ms: 6 }, { n: 2, margin_ms: 5 }, { n: 1 }]);
  assert.deepEqual(ids(await store.history({ ...ALL, before: -2 })), [2, 1]);
  assert.deepEqual(await store.history({ ...ALL, durable: false }), kept);
  assert.deepEqual(lines, ["History is not being kept", "History is being kept again"]);
  await store.close();
});

Deno.test("an answer that was lost on the way makes no event twice", async () => {
  using folder = tempFolder();
  const { store, link, clock } = open(`${folder.path}/h.sqlite`);
  await store.append(event(1));
  link.mode = "write, then refuse";
  const temporary = await store.append(event(2));
  assert.equal(temporary.id, -1);
  await store.amend(-1, { margin_ms: 5 });
  link.go();
  await clock.advance(8_000);
  const kept = await store.history(ALL);
  assert.deepEqual(kept.map(({ fields }) => fields), [{ n: 2, margin_ms: 5 }, { n: 1 }]);
  await store.close();
});

Deno.test("a disk that hangs holds nobody longer than 3 s, and its late answer still counts", async () => {
  using folder = tempFolder();
  const { store, link, clock } = open(`${folder.path}/h.sqlite`);
  await store.status();
  link.mode = "hang";
  const [first, second] = [store.append(event(1)), store.append(event(2))];
  assert.deepEqual(ids(await clock.until(Promise.all([first, second]), { limitMs: 3_000 })), [-1, -2]);
  const third = await store.append(event(3));
  assert.deepEqual(ids(await store.history(ALL)), [-3, -2, -1]);
  assert.match((await store.status()).error ?? "", /has not answered/);
  link.go();
  await clock.advance(0);
  assert.deepEqual(numbers(await store.history(ALL)), [3, 2, 1]);
  assert.equal((await store.status()).error, null);
  assert.equal((await store.amend(third.id, { a: 1 }))?.id, 3);
  await store.close();
});

Deno.test("telemetry that the file refused is written once it takes it again", async () => {
  using folder = tempFolder();
  const { store, link, clock, file } = open(`${folder.path}/h.sqlite`);
  link.mode = "refuse";
  store.telemetry(row(AT_MS));
  await clock.advance(4_000);
  assert.match((await store.status()).error ?? "", /locked/);
  store.telemetry(row(AT_MS + 1_000));
  link.go();
  await clock.advance(4_000);
  const kept = file.telemetry({ fromMs: AT_MS, toMs: AT_MS + 5_000, limit: 10 });
  assert.deepEqual(kept.map(({ atMs }) => atMs - AT_MS), [0, 1_000]);
  await store.close();
});

Deno.test("a file that takes long to open is waited for, up to 15 s", async () => {
  using folder = tempFolder();
  const { store, link, clock } = open(`${folder.path}/h.sqlite`);
  link.mode = "hang";
  const pending = store.append(event(1));
  await clock.advance(14_900);
  link.go();
  assert.equal((await pending).id, 1);
  await store.close();
  const again = open(`${folder.path}/h.sqlite`);
  again.link.mode = "hang";
  const temporary = again.store.append(event(2));
  await again.clock.advance(15_000);
  assert.equal((await temporary).id, -1);
  again.link.go();
  await again.store.close();
});

Deno.test("what waits is bounded: the oldest go first", async () => {
  using folder = tempFolder();
  const { store, link, clock, file } = open(`${folder.path}/h.sqlite`);
  link.mode = "refuse";
  for (let n = 0; n < 1_005; n++) await store.append(event(n));
  for (let second = 0; second < 3_700; second++) store.telemetry(row(AT_MS + second * 1_000));
  assert.equal(await store.amend(-2, { a: 1 }), null);
  assert.equal((await store.status()).rows["waiting_telemetry"], 3_600);
  link.go();
  await clock.advance(4_000);
  const kept = numbers(await store.history(ALL));
  assert.equal(kept.length, 1_000);
  assert.deepEqual([kept[0], kept.at(-1)], [1_004, 5]);
  const [oldest] = file.telemetry({ fromMs: 0, toMs: AT_MS * 2, limit: 1 });
  assert.equal(oldest?.atMs, AT_MS + 100_000);
  await store.close();
});

Deno.test("closing writes what waits, and gives up on a disk that hangs", async () => {
  using folder = tempFolder();
  const { store, link } = open(`${folder.path}/h.sqlite`);
  link.mode = "refuse";
  await store.append(event(1));
  store.telemetry(row(AT_MS));
  link.go();
  await store.close();
  const again = open(`${folder.path}/h.sqlite`);
  assert.deepEqual(numbers(await again.store.history(ALL)), [1]);
  assert.equal((await again.store.status()).rows["telemetry"], 1);
  again.link.mode = "hang";
  const pending = again.store.append(event(2));
  await again.clock.until(again.store.close(), { limitMs: 4_000 });
  assert.equal((await pending).id, -1);
  assert.ok(again.lines.some((line) => line.startsWith("History was lost at the end")));
});

Deno.test("old history is deleted in the course of time", async () => {
  using folder = tempFolder();
  const { store, clock, file } = open(`${folder.path}/h.sqlite`);
  const dayMs = 86_400_000;
  store.telemetry(row(clock.wallMs() - 15 * dayMs));
  store.telemetry(row(clock.wallMs() - 13 * dayMs));
  await clock.advance(590_000);
  assert.equal(file.status().rows.telemetry, 2);
  await clock.advance(20_000);
  assert.equal(file.status().rows.telemetry, 1);
  await store.close();
});
