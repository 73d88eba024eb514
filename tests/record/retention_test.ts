import assert from "node:assert/strict";
import { PruneSchedule } from "../../lib/record/retention.ts";

const MINUTE_MS = 60_000;

/** Minutes at which pruning was due, asked every minute; `jumpMs` is what the wall clock is off by at a minute. */
function dueMinutes(minutes: number, jumpMs: (minute: number) => number): number[] {
  const schedule = new PruneSchedule();
  const due: number[] = [];
  for (let minute = 0; minute <= minutes; minute++) {
    const monotonicMs = 1_000 + minute * MINUTE_MS;
    if (schedule.isDue({ monotonicMs, wallMs: monotonicMs + jumpMs(minute) })) due.push(minute);
  }
  return due;
}

Deno.test("old rows go after ten even minutes, then hourly", () => {
  assert.deepEqual(dueMinutes(140, () => 5e11), [10, 70, 130]);
});

Deno.test("a clock that is slowly set right by seconds doesn't hold it up", () => {
  assert.deepEqual(dueMinutes(20, (minute) => 5e11 + minute * 500), [10]);
});

Deno.test("a clock that jumps is not believed for ten minutes", () => {
  const year = 365 * 24 * 60 * MINUTE_MS;
  assert.deepEqual(dueMinutes(25, (minute) => minute < 9 ? 5e11 + 14 * year : 5e11), [19]);
});
