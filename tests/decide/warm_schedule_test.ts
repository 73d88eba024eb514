import assert from "node:assert/strict";
import {
  endSchedule,
  INITIAL_SCHEDULE,
  type ScheduleFacts,
  type ScheduleState,
  stepSchedule,
} from "../../lib/decide/warm_schedule.ts";

const POLICY = { atStart: true, whenIdle: true, idleMs: 60_000 };
const quiet: Omit<ScheduleFacts, "atMs"> = { mode: "auto", isReady: true, isBusy: false, isWarming: false };

/** Plays seconds; gives the moves with the second they came in. */
function play(
  seconds: number,
  facts: (second: number) => Partial<ScheduleFacts>,
  options: { policy?: typeof POLICY; endAfter?: number } = {},
) {
  let state: ScheduleState = INITIAL_SCHEDULE;
  let startedAt = Infinity;
  const moves: string[] = [];
  for (let second = 0; second < seconds; second++) {
    const atMs = second * 1_000;
    const step = stepSchedule(state, { ...quiet, atMs, ...facts(second) }, options.policy ?? POLICY);
    state = step.state;
    if (step.move !== null) {
      moves.push(`${second} ${step.move.kind === "start" ? step.move.trigger : "stop"}`);
      startedAt = step.move.kind === "start" ? second : -Infinity;
    }
    if (state.running !== null && second >= startedAt + (options.endAfter ?? 5)) state = endSchedule(state, atMs);
  }
  return moves;
}

Deno.test("once after the start, then when idle, and not again for ten minutes", () => {
  assert.deepEqual(play(1_500, () => ({})), ["0 start", "605 idle", "1210 idle"]);
  assert.deepEqual(play(100, (second) => ({ isReady: second > 30 })), ["31 start"]);
  assert.deepEqual(play(1_500, () => ({}), { policy: { ...POLICY, atStart: false, whenIdle: false } }), []);
});

Deno.test("idle is a minute without any work", () => {
  const policy = { ...POLICY, atStart: false };
  assert.deepEqual(play(200, (second) => ({ isBusy: second === 40 }), { policy }), ["100 idle"]);
  assert.deepEqual(play(200, (second) => ({ isBusy: second % 50 === 0 }), { policy }), []);
});

Deno.test("an idle warm gives way to work at once; that of the start goes on, politely", () => {
  const policy = { ...POLICY, atStart: false };
  const busyFrom = (from: number) => (second: number) => ({ isBusy: second >= from });
  assert.deepEqual(play(70, busyFrom(62), { policy, endAfter: 1_000 }), ["60 idle", "62 stop"]);
  assert.deepEqual(play(20, busyFrom(5), { endAfter: 1_000 }), ["0 start"]);
});

Deno.test("observe and paused touch nothing, and somebody's own warm is not doubled", () => {
  for (const mode of ["observe", "paused"] as const) assert.deepEqual(play(300, () => ({ mode })), []);
  assert.deepEqual(play(300, () => ({ isWarming: true })), []);
  assert.deepEqual(play(10, (second) => ({ mode: second < 3 ? "auto" : "paused" }), { endAfter: 1_000 }), [
    "0 start",
    "3 stop",
  ]);
});
