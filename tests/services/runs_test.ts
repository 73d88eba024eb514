import assert from "node:assert/strict";
import { Failure } from "../../lib/model/failure.ts";
import type { CallOptions, RunView } from "../../lib/model/services.ts";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { createRuns } from "../../lib/services/runs.ts";

function keeper() {
  const clock = new LabClock();
  const defects: unknown[] = [];
  let lists = 0;
  const runs = createRuns({ clock, onDefect: (error) => defects.push(error), onList: () => lists += 1 });
  return { clock, defects, runs, lists: () => lists };
}

/** Work that ends when the test says so. */
function held() {
  const ending = Promise.withResolvers<unknown>();
  const calls: CallOptions[] = [];
  return {
    ...ending,
    calls,
    work: (call: CallOptions) => {
      calls.push(call);
      call.signal.addEventListener("abort", () => ending.reject(call.signal.reason), { once: true });
      return ending.promise;
    },
  };
}

Deno.test("a run tells where it stands, and its result when it is done", async () => {
  const { runs, clock, lists } = keeper();
  const work = held();
  const started = runs.start("switch-model", work.work);
  assert.equal(lists(), 1, "the list has one more");
  assert.deepEqual(started, {
    id: started.id,
    operation: "switch-model",
    state: "running",
    progress: null,
    startedAtMs: clock.wallMs(),
    endedAtMs: null,
    result: null,
    error: null,
    version: 1,
  });
  const seen: RunView[] = [];
  runs.follow(started.id, (run) => seen.push(run));
  work.calls[0]?.progress({ phase: "loading", done: 0.5, etaMs: 1000 });
  await clock.advance(5);
  work.resolve({ ok: 1 });
  const ended = await runs.ended(started.id);
  assert.equal(ended.endedAtMs, clock.wallMs());
  assert.deepEqual(seen.map(({ state, version, progress }) => [state, version, progress?.phase ?? null]), [
    ["running", 1, null],
    ["running", 2, "loading"],
    ["done", 3, "loading"],
  ]);
  assert.deepEqual(ended.progress, { phase: "loading", done: 1, etaMs: null });
  assert.deepEqual(ended.result, { ok: 1 });
  assert.deepEqual(runs.get(started.id), ended);
});

Deno.test("a run that was cancelled stays as far as it came, and awaits nothing", async () => {
  const { runs } = keeper();
  const work = held();
  const { id } = runs.start("warm-all", work.work);
  work.calls[0]?.progress({ phase: "warming", done: 0.4, etaMs: 9000 });
  assert.deepEqual((await runs.cancel(id)).progress, { phase: "warming", done: 0.4, etaMs: null });
});

Deno.test("cancel aborts the work and resolves with the last state; cancelling again changes nothing", async () => {
  const { runs, defects } = keeper();
  const { id } = runs.start("switch-model", held().work);
  const cancelled = await runs.cancel(id);
  assert.equal(cancelled.state, "cancelled");
  assert.equal(cancelled.error?.code, "cancelled");
  assert.deepEqual(await runs.cancel(id), cancelled);
  assert.deepEqual(defects, [], "a cancel was taken for a defect");
});

Deno.test("work that finishes although it was told to stop is done", async () => {
  const { runs } = keeper();
  const ending = Promise.withResolvers<string>();
  const { id } = runs.start("x", () => ending.promise);
  const cancelling = runs.cancel(id);
  ending.resolve("in time");
  assert.equal((await cancelling).state, "done");
});

Deno.test("a refusal and a defect both fail the run; only the defect is reported", async () => {
  const { runs, defects } = keeper();
  const busy = runs.start(
    "x",
    () => Promise.reject(new Failure("busy", "Cannot now", { hint: "later", details: { n: 1 } })),
  );
  assert.deepEqual((await runs.ended(busy.id)).error, {
    code: "busy",
    message: "Cannot now",
    hint: "later",
    details: { n: 1 },
  });
  assert.deepEqual(defects, []);
  const broken = runs.start("x", () => Promise.reject(new RangeError("oops")));
  const ended = await runs.ended(broken.id);
  assert.deepEqual([ended.state, ended.error?.code], ["failed", "internal"]);
  assert.equal(defects.length, 1);
});

Deno.test("a follower that throws or stops leaves the work and the others alone", async () => {
  const { runs, defects } = keeper();
  const work = held();
  const { id } = runs.start("x", work.work);
  const seen: number[] = [];
  runs.follow(id, () => {
    throw new Error("a door's defect");
  });
  const stopped = runs.follow(id, () => seen.push(-1));
  runs.follow(id, ({ version }) => seen.push(version));
  stopped.stop();
  stopped.stop();
  work.resolve(1);
  assert.equal((await runs.ended(id)).state, "done");
  assert.deepEqual(seen, [-1, 1, 2]);
  assert.equal(defects.length, 2);
});

Deno.test("progress after the end doesn't make a run look alive", async () => {
  const { runs } = keeper();
  const work = held();
  const { id } = runs.start("x", work.work);
  work.resolve(1);
  const ended = await runs.ended(id);
  work.calls[0]?.progress({ phase: "late", done: 1, etaMs: null });
  assert.deepEqual(runs.get(id), ended);
});

Deno.test("ended runs are kept for an hour, and the newest hundred", async () => {
  const { runs, clock } = keeper();
  const first = runs.start("x", () => Promise.resolve(1));
  await runs.ended(first.id);
  const going = runs.start("y", held().work);
  await clock.advance(3_599_999);
  assert.equal(runs.get(first.id).state, "done");
  await clock.advance(1);
  assert.throws(() => runs.get(first.id), (error) => error instanceof Failure && error.code === "not_found");
  for (let n = 0; n < 101; n++) await runs.ended(runs.start("z", () => Promise.resolve(n)).id);
  const list = runs.list();
  assert.equal(list.length, 101);
  assert.equal(list[0]?.result, 100, "newest first");
  assert.equal(list.at(-1)?.id, going.id, "a running one is never forgotten");
  await runs.close();
  assert.equal(runs.get(going.id).state, "cancelled");
});

Deno.test("more than 32 at once are refused", async () => {
  const { runs } = keeper();
  for (let n = 0; n < 32; n++) runs.start("x", held().work);
  assert.throws(() => runs.start("x", held().work), (error) => error instanceof Failure && error.code === "too_many");
  await runs.close();
  assert.equal(runs.start("x", () => Promise.resolve(1)).state, "running");
});
