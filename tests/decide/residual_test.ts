import assert from "node:assert/strict";
import { isReleased, isResidualVoid } from "../../lib/decide/release.ts";
import { followResidual, isSteady, NO_HISTORY, residualOf, settleResidual } from "../../lib/decide/residual.ts";
import type { Bucket } from "../../lib/model/tenants.ts";
import { absent, card, gib, reading } from "./stories.ts";

const SLACK = 64 * 2 ** 20;

function view(held: Record<number, number | null>, residualGib = 0.5) {
  const processes = Object.entries(held).map(([pid, bytes]) => ({
    pid: Number(pid),
    bucket: "unmanaged" as Bucket,
    bytes: bytes === null ? null : gib(bytes),
  }));
  return reading(0, processes, { residualBytes: gib(residualGib) });
}

function cardOf(held: Record<number, number>, residualGib = 0.5) {
  const processes = Object.entries(held).map(([pid, bytes]) => ({
    pid: Number(pid),
    bucket: "unmanaged" as Bucket,
    bytes: gib(bytes),
  }));
  return card(processes, gib(residualGib));
}

Deno.test("the residual is what no process accounts for, never below 0; a process without bytes stays in it", () => {
  assert.equal(residualOf(view({ 1: 3, 2: 4 })), gib(0.5));
  assert.equal(residualOf(view({ 1: 3, 2: null }, 5)), gib(5));
  assert.equal(residualOf({ usedBytes: gib(1), processes: view({ 1: 3 }).processes }), 0);
});

Deno.test("two looks that agree give it, the smaller one of them", () => {
  const looks = [view({ 1: 3 }, 0.5), view({ 1: 3 }, 0.52)];
  assert.equal(isSteady(looks, SLACK), true);
  assert.deepEqual(settleResidual(looks, NO_HISTORY), { bytes: gib(0.5), blindPids: [] });
  assert.equal(isSteady([view({ 1: 3 }, 0.5), view({ 1: 3 }, 0.9)], SLACK), false);
  const apart = (bytes: number) => [{ usedBytes: 0, processes: [] }, { usedBytes: bytes, processes: [] }];
  assert.deepEqual([isSteady(apart(SLACK), SLACK), isSteady(apart(SLACK + 1), SLACK)], [true, false]);
  assert.equal(isSteady([view({ 1: 3 })], SLACK), false);
  assert.equal(settleResidual([], NO_HISTORY), null);
});

Deno.test("a process that is blind in one of the looks counts as blind in both", () => {
  const looks = [view({ 1: 3, 2: null }, 4), view({ 1: 3, 2: 3.5 }, 0.5)];
  assert.equal(isSteady(looks, SLACK), true);
  assert.deepEqual(settleResidual(looks, NO_HISTORY), { bytes: gib(4), blindPids: [2] });
});

Deno.test("memory on its way back isn't residual: the last quiet sample caps it", () => {
  const quiet = followResidual(NO_HISTORY, cardOf({ 1: 3, 2: 6 }));
  assert.equal(quiet.quietBytes, gib(0.5));
  // pid 2 has left the list; its 6 GiB are still used.
  const looks = [view({ 1: 3 }, 6.5), view({ 1: 3 }, 6.5)];
  assert.equal(settleResidual(looks, quiet)?.bytes, gib(0.5));
  const leaving = followResidual(quiet, cardOf({ 1: 3 }, 6.5));
  assert.deepEqual([leaving.hasDeparture, leaving.quietBytes], [true, gib(0.5)]);
  assert.equal(settleResidual(looks, leaving)?.bytes, gib(0.5));
});

Deno.test("what is unaccounted for and stays so is residual, once nothing leaves any more", () => {
  const before = followResidual(NO_HISTORY, cardOf({ 1: 3, 2: 6 }));
  const leaving = followResidual(before, cardOf({ 1: 3 }, 1.5));
  const after = followResidual(leaving, cardOf({ 1: 3 }, 1.5));
  assert.deepEqual([after.hasDeparture, after.quietBytes], [false, gib(1.5)]);
});

Deno.test("however little the last sample showed of who has left: it may have taken more since", () => {
  const before = followResidual(NO_HISTORY, cardOf({ 1: 3, 2: 0.03 }));
  const looks = [view({ 1: 3 }, 5.5), view({ 1: 3 }, 5.5)];
  assert.equal(settleResidual(looks, before)?.bytes, gib(0.5));
});

Deno.test("a card that can't be read ends the history: nothing is known of what went on meanwhile", () => {
  const before = followResidual(NO_HISTORY, cardOf({ 1: 3 }));
  assert.deepEqual(followResidual(before, absent()), NO_HISTORY);
});

Deno.test("the predicate: targets gone or holding nothing, and used less all others down to the residual", async (test) => {
  const residual = { bytes: gib(0.5), blindPids: [] };
  const cases: readonly [string, Parameters<typeof view>, boolean][] = [
    ["gone", [{ 2: 4 }], true],
    ["there with 0 bytes", [{ 1: 0, 2: 4 }], true],
    ["there with bytes", [{ 1: 3, 2: 4 }], false],
    ["there without bytes", [{ 1: null, 2: 4 }], false],
    ["gone, its memory still used", [{ 2: 4 }, 3.5], false],
    ["within the slack of 64 MiB", [{ 2: 4 }, 0.56], true],
    ["beyond the slack", [{ 2: 4 }, 0.57], false],
    ["the third process grew", [{ 2: 9 }], true],
    ["the third process left", [{}], true],
  ];
  for (const [name, given, expected] of cases) {
    await test.step(name, () => {
      assert.equal(isReleased(view(...given), { targets: [1], residual, slackBytes: SLACK }), expected);
    });
  }
});

Deno.test("once a blind process has left, the residual means nothing any more", () => {
  const residual = { bytes: gib(5), blindPids: [2] };
  assert.equal(isResidualVoid(view({ 2: null }), residual), false);
  assert.equal(isResidualVoid(view({ 1: 3 }), residual), true);
  assert.equal(isResidualVoid(view({ 1: 3 }), { bytes: gib(5), blindPids: [] }), false);
});
