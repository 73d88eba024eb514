import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import type { Clock, Log } from "../../lib/model/ports.ts";
import { DEFAULT_RETENTION } from "../../lib/record/retention.ts";
import { systemClock } from "../../lib/system/clock.ts";
import { connectStore, type StoreConnection } from "../../lib/workers/store_client.ts";
import { event, row, storeContract } from "../record/store_contract.ts";
import { tempFolder } from "../record/temp_folder.ts";
import { writeAndKill } from "./killed_writer.ts";

const ALL = { limit: 1_000, kind: null, before: null, durable: true } as const;

function connect(path: string, options: Partial<StoreConnection> = {}) {
  const warnings: string[] = [];
  const log: Log = {
    debug: () => {},
    info: () => {},
    warn: (message) => warnings.push(message),
    error: (message) => warnings.push(message),
  };
  const store = connectStore({ path, retention: DEFAULT_RETENTION, clock: patientClock(), log, ...options });
  return { store, warnings };
}

/** A clock whose deadlines never pass: how long a Worker takes to start is no matter of these tests. */
function patientClock(): Clock {
  return { ...systemClock(), after: () => ({ stop: () => {} }) };
}

storeContract("worker", () => {
  const folder = tempFolder();
  return { store: connect(`${folder.path}/h.sqlite`).store, end: () => folder[Symbol.dispose]() };
});

Deno.test("a restart finds what was kept, telemetry included", async () => {
  using folder = tempFolder();
  const path = `${folder.path}/state/h.sqlite`;
  const first = connect(path).store;
  const kept = await first.append(event(1));
  first.telemetry(row(kept.atMs));
  await first.close();
  const second = connect(path).store;
  assert.deepEqual(await second.history(ALL), [kept]);
  const status = await second.status();
  assert.deepEqual([status.path, status.rows["events"], status.rows["telemetry"]], [path, 1, 1]);
  await second.close();
});

Deno.test("a file that can't be used costs history, not the caller", async () => {
  const { store, warnings } = connect("/proc/hyperswap/h.sqlite");
  const kept = await store.append(event(1));
  assert.equal(kept.id, -1);
  assert.deepEqual(await store.history(ALL), [kept]);
  assert.match((await store.status()).error ?? "", /\/proc\/hyperswap\/h\.sqlite/);
  assert.deepEqual(warnings, ["History is not being kept"]);
  await store.close();
});

Deno.test("a damaged file is said in the log and in the history", async () => {
  using folder = tempFolder();
  const path = `${folder.path}/h.sqlite`;
  Deno.writeTextFileSync(path, "no database ".repeat(1_000));
  const { store, warnings } = connect(path);
  await store.append(event(1));
  const [newest, told] = await store.history(ALL);
  assert.equal(newest?.fields["n"], 1);
  assert.equal(told?.fields["what"], "history set aside");
  assert.match(warnings[0] ?? "", /was kept as .*corrupt-/);
  await store.close();
});

Deno.test("a Worker that dies is started again, and what it was asked is asked again", async () => {
  using folder = tempFolder();
  const clock = new LabClock();
  let started = 0;
  const startWorker = () => {
    started += 1;
    // Dies of its second message: the first call.
    const script = "let n = 0; self.onmessage = () => { if (++n === 2) throw new Error('boom'); };";
    const url = started === 1
      ? `data:application/javascript,${encodeURIComponent(script)}`
      : new URL("../../lib/workers/store.ts", import.meta.url);
    return new Worker(url, { type: "module" });
  };
  const { store, warnings } = connect(`${folder.path}/h.sqlite`, { clock, startWorker });
  const temporary = await store.append(event(1));
  assert.equal(temporary.id, -1);
  assert.match((await store.status()).error ?? "", /its Worker ended: .*boom/);
  await clock.advance(4_000);
  // Written once the new Worker is up; an amendment waits for that.
  while ((await store.status()).error !== null) await clock.settle();
  const amended = await store.amend(-1, { a: 1 });
  assert.deepEqual(amended?.fields, { n: 1, a: 1 });
  assert.deepEqual((await store.history(ALL)).map(({ id, fields }) => [id, fields["n"]]), [[1, 1]]);
  assert.equal(started, 2);
  assert.deepEqual(warnings, ["History is not being kept"]);
  await store.close();
});

// `task bench` kills it 50 times.
Deno.test("kill -9 in the middle of writing, five times: the file is whole and no event is lost", async () => {
  using folder = tempFolder();
  const path = `${folder.path}/h.sqlite`;
  const told: number[] = [];
  for (let round = 0; round < 5; round++) {
    told.push(...await writeAndKill(path, round * 100_000, 1 + round * 12));
    const db = new DatabaseSync(path);
    assert.deepEqual({ ...db.prepare("PRAGMA integrity_check").get() }, { integrity_check: "ok" });
    const kept = new Set(db.prepare("SELECT at_ms FROM events").all().map((row) => row["at_ms"]));
    assert.deepEqual(told.filter((n) => !kept.has(n)), []);
    db.close();
  }
  assert.ok(told.length >= 5 + 12 * 10);
  assert.deepEqual([...Deno.readDirSync(folder.path)].filter(({ name }) => name.includes("corrupt")), []);
});
