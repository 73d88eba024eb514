/** A configuration that was read again: it counts at once, and leaves alone what was set by hand meanwhile. */
import assert from "node:assert/strict";
import { reduceArbiter } from "../../lib/decide/arbiter.ts";
import { initialArbiter } from "../../lib/decide/arbiter_state.ts";
import { reduceCard } from "../../lib/decide/card.ts";
import { initialTuning } from "../../lib/decide/card_state.ts";
import { initialGate } from "../../lib/decide/gate_state.ts";
import { reduceGate } from "../../lib/decide/gate.ts";
import { DEFAULT_POLICY, type Policy } from "../../lib/model/policy.ts";
import { DEFAULT_TUNING, type TuningPolicy } from "../../lib/model/tuning.ts";

const atMs = 1_000;

function arbiterAfter(policy: Policy, byHand: "auto" | "paused") {
  const start = initialArbiter(DEFAULT_POLICY, {});
  const change = { mode: byHand, untilMs: null, keep: byHand === "auto" ? null : ["mine"] };
  const set = byHand === "auto" ? start : reduceArbiter(start, { type: "modeSet", atMs, change }).state;
  return reduceArbiter(set, { type: "configured", atMs, policy });
}

Deno.test("a new policy counts at once; mode and kept models only where the configuration has changed there", () => {
  const roomier: Policy = { ...DEFAULT_POLICY, yield: { ...DEFAULT_POLICY.yield, headroomBytes: 7 } };
  const { state, effects } = arbiterAfter(roomier, "paused");
  assert.equal(state.policy.yield.headroomBytes, 7);
  assert.deepEqual([state.mode, state.keep, effects], ["paused", ["mine"], []]);

  const stricter: Policy = { ...roomier, mode: "observe", yield: { ...roomier.yield, keep: ["theirs"] } };
  const told = arbiterAfter(stricter, "paused");
  assert.deepEqual([told.state.mode, told.state.keep], ["observe", ["theirs"]]);
  assert.ok(told.effects.some(({ kind }) => kind === "record"));
});

Deno.test("the gate goes by the new bounds", () => {
  const policy: Policy = { ...DEFAULT_POLICY, gate: { ...DEFAULT_POLICY.gate, mostHeld: 3 } };
  const { state: arbiter } = arbiterAfter(policy, "auto");
  const { state } = reduceGate(initialGate(DEFAULT_POLICY.gate), { type: "configured", atMs, policy }, arbiter);
  assert.equal(state.policy.mostHeld, 3);
});

Deno.test("governor and automatic profiles follow the configuration where it has changed, and nothing else", () => {
  const after = (policy: TuningPolicy) => {
    const start = initialTuning(DEFAULT_TUNING, { profiles: [], quarantine: [] }, { hasWriter: true });
    const byHand = {
      ...start,
      hand: { ...start.hand, isAutomatic: false },
      governor: { ...start.governor, enabled: false },
    };
    return reduceCard(byHand, { type: "tuningConfigured", atMs, policy }, { mode: "auto" }).state;
  };
  const same = after({ ...DEFAULT_TUNING, verifyMs: 9 });
  assert.deepEqual([same.policy.verifyMs, same.hand.isAutomatic, same.governor.enabled], [9, false, false]);
  const off = after({ ...DEFAULT_TUNING, governor: { ...DEFAULT_TUNING.governor, enabled: false, fanPct: 70 } });
  assert.deepEqual([off.policy.governor.fanPct, off.governor.enabled, off.hand.isAutomatic], [70, false, false]);
});
