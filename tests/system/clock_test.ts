import assert from "node:assert/strict";
import { systemClock } from "../../lib/system/clock.ts";

Deno.test("sleep rejects with the reason of a signal that aborts first, and leaves no timer", async () => {
  const clock = systemClock();
  const controller = new AbortController();
  const sleeping = clock.sleep(60_000, controller.signal);
  const reason = new Error("stop");
  controller.abort(reason);
  await assert.rejects(sleeping, (error) => error === reason);
  await assert.rejects(clock.sleep(60_000, controller.signal), (error) => error === reason);
});

Deno.test("sleep and after come in the order of their delays", async () => {
  const clock = systemClock();
  const order: string[] = [];
  clock.after(0, () => order.push("after"));
  clock.after(0, () => order.push("stopped")).stop();
  await clock.sleep(2);
  order.push("sleep");
  assert.deepEqual(order, ["after", "sleep"]);
});

Deno.test("a delay beyond the platform's longest does not fire at once", async () => {
  const clock = systemClock();
  let fired = false;
  const timer = clock.after(2 ** 33, () => fired = true);
  await clock.sleep(3);
  timer.stop();
  assert.equal(fired, false);
});

Deno.test("every repeats until it is stopped", async () => {
  const clock = systemClock();
  let ticks = 0;
  const hold = clock.after(60_000, () => {}); // `every` holds no process
  await new Promise<void>((resolve) => {
    const timer = clock.every(1, () => {
      if (++ticks < 3) return;
      timer.stop();
      resolve();
    });
  });
  hold.stop();
  const seen = ticks;
  await clock.sleep(4);
  assert.equal(seen, 3);
  assert.equal(ticks, seen);
});

Deno.test("deadline aborts by itself with a TimeoutError", async () => {
  const clock = systemClock();
  const signal = clock.deadline(1);
  const hold = clock.after(1_000, () => {});
  await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
  hold.stop();
  assert.equal(signal.reason.name, "TimeoutError");
});

Deno.test("deadline aborts with its parent's reason, also when the parent is gone already", () => {
  const clock = systemClock();
  const parent = new AbortController();
  const signal = clock.deadline(60_000, parent.signal);
  assert.equal(signal.aborted, false);
  parent.abort("left");
  assert.equal(signal.reason, "left");
  assert.equal(clock.deadline(60_000, parent.signal).reason, "left");
});

Deno.test("the monotonic clock lies near the wall clock, never goes back, and takes an offset", () => {
  const clock = systemClock();
  const first = clock.monotonicMs();
  assert.ok(clock.monotonicMs() >= first);
  const ahead = systemClock({ offsetMs: 3_600_000 }).monotonicMs() - clock.monotonicMs();
  assert.ok(ahead > 3_599_000 && ahead < 3_601_000);
});

Deno.test("random lies in [0, 1) and uuid differs each time", () => {
  const clock = systemClock();
  for (let i = 0; i < 100; i++) {
    const value = clock.random();
    assert.ok(value >= 0 && value < 1);
  }
  assert.notEqual(clock.uuid(), clock.uuid());
});

Deno.test("every and deadline let a process end, sleep and after hold it", async () => {
  const script = `
    import { systemClock } from ${JSON.stringify(new URL("../../lib/system/clock.ts", import.meta.url).href)};
    const clock = systemClock();
    clock.every(60_000, () => {});
    clock.deadline(60_000);
    clock.after(1, () => console.log("after"));
    await clock.sleep(5);
    console.log("slept");
  `;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-config", "--no-check", `data:application/typescript,${encodeURIComponent(script)}`],
    signal: AbortSignal.timeout(20_000),
  });
  const { stdout, success } = await child.output();
  assert.ok(success, "it was ended from outside");
  assert.equal(new TextDecoder().decode(stdout), "after\nslept\n");
});
