import assert from "node:assert/strict";
import type { Snapshot } from "../../lib/model/services.ts";
import { LiveService } from "../../lib/services/live.ts";
import { ARBITRATION, HISTORY, sample } from "../operations/fake_values.ts";

/** A service whose watcher of ComfyUI knows something new each time it is asked. */
function open(): { readonly live: LiveService; readonly seen: Snapshot[] } {
  const seen: Snapshot[] = [];
  let asked = 0;
  const live = new LiveService({
    log: {
      debug() {},
      info() {},
      warn() {},
      error: (message, fields) => assert.fail(`${message} ${fields?.["error"]}`),
    },
    arbitration: () => ARBITRATION,
    runs: () => [],
    simulation: null,
    comfy: () => ({ ...sample().comfy, queueRemaining: asked++ }),
    cache: () => null,
  });
  return { live, seen };
}

Deno.test("whoever asks between two frames gets what the followers were shown", () => {
  const { live, seen } = open();
  live.publish(sample());
  const before = live.snapshot();
  assert.equal(live.snapshot(), before, "without a follower too: one revision has one content");
  live.subscribe((snapshot) => seen.push(snapshot));
  const moves = [
    () => live.publish(sample({ seq: 2 })),
    () => live.touch(),
    () => live.remember({ ...HISTORY[0]!, id: 99 }),
  ];
  for (const move of moves) {
    move();
    assert.equal(live.snapshot(), seen.at(-1));
    assert.equal(live.snapshot(), seen.at(-1));
  }
  const revisions = seen.map(({ revision }) => revision);
  assert.deepEqual(revisions, [1, 2, 3].map((n) => before.revision + n));
});

Deno.test("what moved while nobody followed is in the next answer, under a number of its own", () => {
  const { live } = open();
  live.publish(sample());
  const first = live.snapshot();
  live.touch();
  live.touch();
  const second = live.snapshot();
  assert.ok(second.revision > first.revision);
  assert.notEqual(second.sample.comfy.queueRemaining, first.sample.comfy.queueRemaining);
});
