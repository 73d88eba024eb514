import assert from "node:assert/strict";
import { type ArbiterState, initialArbiter } from "../../lib/decide/arbiter_state.ts";
import { hideOwnPrompt } from "../../lib/decide/own_prompts.ts";
import type { ArbiterEvent } from "../../lib/model/events.ts";
import { DEFAULT_POLICY } from "../../lib/model/policy.ts";

/** Events in turn, 10 ms apart; what the arbiter is let see of each count. */
function play(...events: readonly (number | "open" | "over" | "later")[]): readonly number[] {
  let state: ArbiterState = initialArbiter(DEFAULT_POLICY);
  let atMs = 1_000;
  const seen: number[] = [];
  for (const what of events) {
    atMs += what === "later" ? 3_000 : 10;
    if (what === "later") continue;
    const event: ArbiterEvent = typeof what === "number"
      ? { type: "comfyActivity", atMs, queueRemaining: what }
      : { type: "ownPrompt", atMs, isOpen: what === "open" };
    const heard = hideOwnPrompt(state, event);
    state = heard.state;
    if (heard.event.type === "comfyActivity") seen.push(heard.event.queueRemaining);
  }
  return seen;
}

Deno.test("our own prompt is counted out from before it is posted until it has left", () => {
  assert.deepEqual(play("open", 0, 1, 1, 0, "over", 1), [0, 0, 0, 0, 1]);
  assert.deepEqual(play("open", 1, "over", 0, 1), [0, 0, 1]);
});

Deno.test("others' prompts beside it count, and go on counting when ours leaves first", () => {
  assert.deepEqual(play("open", 1, 2, 3, 2, "over", 1, 0), [0, 1, 2, 2, 1, 0]);
});

Deno.test("a frame that comes after its end still counts it; one that never came doesn't hide others for ever", () => {
  assert.deepEqual(play("open", 1, "over", 1), [0, 0]);
  assert.deepEqual(play("open", "over", "later", 1), [1]);
});

Deno.test("without a prompt of ours nothing is hidden", () => {
  assert.deepEqual(play(1, 2, "over", 1, 0), [1, 2, 1, 0]);
});
