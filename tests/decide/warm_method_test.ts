/** Which way of reading is quicker, found out by reading. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { type FastMethod, FIRST_METHOD, type MethodState, reduceMethod } from "../../lib/decide/warm_method.ts";
import { type Bytes, GIB, MIB } from "../../lib/model/units.ts";

const CHUNK = 8 * MIB;

/** GB/s of each while a chunk is read. */
type Speeds = (atBytes: Bytes) => Readonly<Record<FastMethod, number>>;

/** Reads that much from where the state stands, and how much of it in which method. */
function read(state: MethodState, bytes: Bytes, speeds: Speeds) {
  const done = { splice: 0, fault: 0 };
  let ms = 0;
  for (let at = 0; at < bytes; at += CHUNK) {
    const { method } = state;
    const chunkMs = CHUNK / speeds(at)[method] / 1e6;
    done[method] += CHUNK;
    ms += chunkMs;
    state = reduceMethod(state, { method, bytes: CHUNK, diskBytes: CHUNK, ms: chunkMs });
  }
  return { state, done, ms };
}

const steady = (splice: number, fault: number): Speeds => () => ({ splice, fault });

Deno.test("each is tried twice, and the quicker one reads on", () => {
  const trial = read(FIRST_METHOD, 352 * MIB, steady(1, 2));
  assert.deepEqual(trial.done, { splice: 160 * MIB, fault: 192 * MIB });
  assert.equal(trial.state.method, "fault");
  assert.deepEqual(read(trial.state, GIB, steady(1, 2)).done, { splice: 0, fault: GIB });
  const other = read(FIRST_METHOD, 352 * MIB, steady(2, 1));
  assert.deepEqual(read(other.state, GIB, steady(2, 1)).done, { splice: GIB, fault: 0 });
});

Deno.test("the pipe must be quicker by more than it costs", () => {
  const { state } = read(FIRST_METHOD, GIB, steady(1.14, 1));
  assert.equal(state.method, "fault");
  assert.equal(read(FIRST_METHOD, GIB, steady(1.16, 1)).state.method, "splice");
});

Deno.test("what a chunk finds read ahead by the other method isn't held to its own credit", () => {
  // The first 32 MiB after each change take no time at all.
  let [state, last, since]: [MethodState, FastMethod, Bytes] = [FIRST_METHOD, "fault", 0];
  for (let at = 0; at < GIB; at += CHUNK) {
    const { method } = state;
    if (method !== last) [last, since] = [method, 0];
    const isGift = method === "fault" && since < 32 * MIB;
    since += CHUNK;
    const ms = isGift ? 0.1 : method === "fault" ? 16 : 8;
    state = reduceMethod(state, { method, bytes: CHUNK, diskBytes: CHUNK, ms });
  }
  assert.equal(state.method, "splice");
});

Deno.test("one stretch that somebody else slowed down decides nothing", () => {
  // Only the first stretch of the faults, from 96 to 192 MiB.
  const speeds: Speeds = (at) => ({ splice: 1, fault: at >= 96 * MIB && at < 192 * MIB ? 0.1 : 1.5 });
  assert.equal(read(FIRST_METHOD, GIB, speeds).state.method, "fault");
});

Deno.test("the other one is tried again after 4 GiB, and taken where it has become the quicker", () => {
  const first = read(FIRST_METHOD, GIB, steady(1, 2));
  const again = read(first.state, 8 * GIB, steady(1, 2));
  assert.ok(again.done.splice >= 96 * MIB && again.done.splice <= 2 * 96 * MIB, `${again.done.splice / MIB} MiB`);
  const turned = read(again.state, 8 * GIB, steady(2, 1));
  assert.equal(turned.state.method, "splice");
});

Deno.test("resident pages, and chunks of another method, say nothing", () => {
  let state = FIRST_METHOD;
  for (let at = 0; at < GIB; at += CHUNK) {
    state = reduceMethod(state, { method: "fault", bytes: CHUNK, diskBytes: 0, ms: 0.01 });
    state = reduceMethod(state, { method: "read", bytes: CHUNK, diskBytes: CHUNK, ms: 100 });
  }
  assert.deepEqual([state.method, state.speeds], ["fault", { splice: [], fault: [] }]);
});

Deno.test("whatever the two do, a file of 64 GiB takes little longer than by the better one alone", () => {
  fc.assert(fc.property(fc.double({ min: 0.2, max: 5, noNaN: true }), fc.boolean(), (ratio, isSplice) => {
    const [splice, fault] = isSplice ? [1, ratio] : [ratio, 1];
    const bytes = 64 * GIB;
    const bestMs = bytes / Math.max(splice, fault) / 1e6;
    const worst = 1 / Math.min(splice, fault) * Math.max(splice, fault);
    // A fortieth of the way by the other one, and what the pipe must be better by.
    const { ms } = read(FIRST_METHOD, bytes, steady(splice, fault));
    assert.ok(ms <= bestMs * (1.15 + worst / 40), `${ms / bestMs} × at ${worst} ×`);
  }));
});
