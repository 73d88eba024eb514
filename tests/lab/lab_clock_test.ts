import assert from "node:assert/strict";
import { LabClock } from "../../lib/lab/lab_clock.ts";

Deno.test("timers fire in order, and the clock stands at each one's time when it does", async () => {
  const clock = new LabClock();
  const startMs = clock.monotonicMs();
  const seen: string[] = [];
  const note = (name: string) => () => seen.push(`${name}@${clock.monotonicMs() - startMs}`);
  clock.after(30, note("c"));
  clock.after(10, note("a"));
  clock.after(10, note("b"));
  const ticks = clock.every(20, note("tick"));
  await clock.advance(45);
  ticks.stop();
  await clock.advance(100);
  assert.deepEqual(seen, ["a@10", "b@10", "tick@20", "c@30", "tick@40"]);
  assert.equal(clock.monotonicMs() - startMs, 145);
});

Deno.test("a timer armed or stopped by another counts at once", async () => {
  const clock = new LabClock();
  const seen: string[] = [];
  const doomed = clock.after(20, () => seen.push("doomed"));
  clock.after(10, () => {
    doomed.stop();
    clock.after(5, () => seen.push("child"));
  });
  await clock.advance(50);
  assert.deepEqual(seen, ["child"]);
});

Deno.test("sleep and deadline keep to the clock and to their signals", async () => {
  const clock = new LabClock();
  const cancel = new AbortController();
  const ends: string[] = [];
  const end = (name: string) => (reason?: unknown) =>
    ends.push(`${name} ${reason instanceof Error ? reason.name : "ok"}`);
  clock.sleep(50).then(end("sleep"), end("sleep"));
  clock.sleep(1_000, cancel.signal).then(end("aborted"), end("aborted"));
  const deadline = clock.deadline(100, cancel.signal);
  const ofAborted = clock.deadline(100, AbortSignal.abort(new RangeError("gone")));
  assert.equal(ofAborted.aborted, true);
  await clock.advance(50);
  assert.deepEqual(ends, ["sleep ok"]);
  cancel.abort(new RangeError("no longer"));
  await clock.settle();
  assert.deepEqual(ends, ["sleep ok", "aborted RangeError"]);
  assert.equal(deadline.aborted, true);
  const alone = clock.deadline(10);
  await clock.advance(10);
  assert.equal((alone.reason as DOMException).name, "TimeoutError");
});

Deno.test("sockets that stir the clock come to rest between two timers, however many hops they take", async () => {
  const clock = new LabClock();
  const seen: string[] = [];
  await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    const { pathname } = new URL(request.url);
    clock.stir();
    if (pathname === "/slow") await clock.sleep(7);
    return new Response(pathname);
  });
  const ask = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${server.addr.port}${path}`);
    seen.push(await response.text());
  };
  const startMs = clock.monotonicMs();
  clock.after(5, async () => {
    await ask("/one");
    await ask("/two");
    await ask("/slow");
    seen.push(`after ${clock.monotonicMs() - startMs}`);
  });
  clock.after(6, () => seen.push("timer"));
  await clock.advance(20);
  assert.deepEqual(seen, ["/one", "/two", "timer", "/slow", "after 12"]);
});

Deno.test("a watched call holds the clock until it has ended", async () => {
  const clock = new LabClock();
  let busy = 0;
  const release = clock.watchBusy(() => busy);
  const seen: string[] = [];
  const worker = new Worker(`data:text/javascript,${encodeURIComponent("onmessage = (e) => postMessage(e.data)")}`, {
    type: "module",
  });
  worker.onmessage = () => {
    busy -= 1;
    seen.push("worker");
  };
  clock.after(1, () => {
    busy += 1;
    worker.postMessage("hello");
  });
  clock.after(2, () => seen.push("timer"));
  await clock.advance(5);
  assert.deepEqual(seen, ["worker", "timer"]);
  release();
  worker.terminate();
});

Deno.test("runUntil stops at the timer that made it true, and says so when nothing did", async () => {
  const clock = new LabClock();
  let count = 0;
  const timer = clock.every(10, () => count++);
  assert.equal(await clock.runUntil(() => count === 3, { limitMs: 1_000 }), 30);
  timer.stop();
  await assert.rejects(clock.runUntil(() => count === 9, { limitMs: 40, what: "nine" }), /Cannot reach nine within 40/);
  assert.equal(await clock.until(clock.sleep(5).then(() => "slept"), { limitMs: 10 }), "slept");
});

Deno.test("quiet ticks leave sockets a turn each, and a proper timer finds them at rest", async () => {
  const clock = new LabClock();
  const seen: string[] = [];
  await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, () => new Response("x"));
  const ask = async () => {
    await (await fetch(`http://127.0.0.1:${server.addr.port}/`)).text();
    seen.push("answered");
  };
  let ticks = 0;
  const timer = clock.everyQuietly(1, () => {
    ticks += 1;
    if (ticks === 3) ask();
  });
  clock.after(3.5, () => seen.push("timer"));
  await clock.advance(500);
  timer.stop();
  assert.deepEqual([ticks, seen], [500, ["answered", "timer"]]);
});

Deno.test("a failing timer fails whoever advances the clock", async () => {
  const clock = new LabClock();
  clock.after(1, () => {
    throw new RangeError("broken");
  });
  await assert.rejects(clock.advance(5), /broken/);
  await clock.advance(5);
});

Deno.test("the same seed gives the same numbers; the wall clock jumps alone", () => {
  const one = new LabClock({ seed: 7 });
  const two = new LabClock({ seed: 7 });
  const numbers = Array.from({ length: 5 }, () => one.random());
  assert.deepEqual(Array.from({ length: 5 }, () => two.random()), numbers);
  assert.ok(numbers.every((number) => number >= 0 && number < 1) && new Set(numbers).size === 5);
  assert.equal(one.uuid(), "00000000-0000-4000-8000-000000000001");
  const before = one.monotonicMs();
  one.jumpWall(3_600_000);
  assert.equal(one.monotonicMs(), before);
  assert.equal(one.wallMs() - one.monotonicMs(), 3_600_000);
});
