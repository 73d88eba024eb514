import assert from "node:assert/strict";
import { joinSignals } from "../../lib/model/join_signals.ts";

/** How many listen to a signal. */
function counted(signal: AbortSignal): () => number {
  let listeners = 0;
  const [add, remove] = [signal.addEventListener.bind(signal), signal.removeEventListener.bind(signal)];
  signal.addEventListener = (...given: Parameters<typeof add>) => (listeners += 1, add(...given));
  signal.removeEventListener = (...given: Parameters<typeof remove>) => (listeners -= 1, remove(...given));
  return () => listeners;
}

Deno.test("it aborts with the first of its sources, by that one's reason, and lets go of all", () => {
  const [one, other] = [new AbortController(), new AbortController()];
  const listeners = [counted(one.signal), counted(other.signal)];
  const joined = joinSignals(one.signal, other.signal);
  assert.equal(joined.signal.aborted, false);
  const reason = new Error("enough");
  other.abort(reason);
  one.abort(new Error("too late"));
  assert.equal(joined.signal.reason, reason);
  assert.deepEqual(listeners.map((count) => count()), [0, 0]);
});

Deno.test("a source that has aborted already aborts it at once", () => {
  const reason = new Error("before");
  assert.equal(joinSignals(new AbortController().signal, AbortSignal.abort(reason)).signal.reason, reason);
});

Deno.test("a source that outlives many of them keeps none that was disposed of", () => {
  const long = new AbortController();
  const listeners = counted(long.signal);
  for (let n = 0; n < 100; n++) {
    using joined = joinSignals(long.signal, new AbortController().signal);
    assert.equal(joined.signal.aborted, false);
  }
  assert.equal(listeners(), 0);
});
