import assert from "node:assert/strict";
import { Watchers } from "../../lib/workers/nvml_watchers.ts";
import { ManualClock } from "./manual_clock.ts";

const READING = { atMs: 1, tookMs: 0, usedBytes: 0, freeBytes: 0, processes: [], smPctByPid: null };

Deno.test("a watcher stopped by another hears nothing more, not even the reading under way", () => {
  const watchers = new Watchers(new ManualClock());
  let heard = 0;
  const second = { onReading: () => void heard++, onLost: () => void heard++ };
  watchers.add({ onReading: () => void watchers.remove(second), onLost: () => {} });
  watchers.add(second);
  watchers.begin(7);
  watchers.deliver(7, READING);
  assert.equal(heard, 0);
});

Deno.test("a reading of an earlier stream is nobody's", () => {
  const watchers = new Watchers(new ManualClock());
  let heard = 0;
  watchers.add({ onReading: () => void heard++, onLost: () => {} });
  watchers.begin(8);
  watchers.deliver(7, READING);
  assert.equal(heard, 0);
  watchers.deliver(8, READING);
  assert.equal(heard, 1);
});
