import assert from "node:assert/strict";
import type { GpuReading } from "../../lib/model/sample.ts";
import { IdleRelease } from "../../lib/workers/idle_release.ts";
import { GPU } from "../operations/fake_values.ts";

const S = 1_000;

function reading(given: Partial<GpuReading> = {}): GpuReading {
  if (!GPU.available) throw new TypeError("The fake card is there");
  return { ...GPU.reading, processes: [], gpuUtilPct: 0, ...given };
}

const yes = () => true;
const BUSY = { processes: [{ pid: 7, usedBytes: 1, kinds: ["compute"] }] } as const;

/** The second in which it is let go, at most `untilS`. */
function dueAt(release: IdleRelease, { fromS, untilS }: { fromS: number; untilS: number }): number | null {
  for (let at = fromS; at <= untilS; at++) {
    if (release.isDue(reading(), { atMs: at * S, mayRelease: yes })) return at;
  }
  return null;
}

Deno.test("a card that nobody has used for 30 s is let go, and each use starts the time anew", () => {
  const release = new IdleRelease(30 * S);
  assert.equal(dueAt(release, { fromS: 0, untilS: 20 }), null);
  assert.equal(release.isDue(reading(BUSY), { atMs: 21 * S, mayRelease: yes }), false);
  assert.equal(dueAt(release, { fromS: 22, untilS: 100 }), 52);
});

Deno.test("work without a process, and a process list that can't be read, are no idleness", () => {
  for (const given of [{ gpuUtilPct: 3 }, { processes: null }]) {
    const release = new IdleRelease(5 * S);
    for (let at = 0; at < 60; at++) {
      assert.equal(release.isDue(reading(given), { atMs: at * S, mayRelease: yes }), false);
    }
  }
});

Deno.test("where it may not sleep it is never let go", () => {
  const release = new IdleRelease(5 * S);
  for (let at = 0; at < 60; at++) {
    assert.equal(release.isDue(reading(), { atMs: at * S, mayRelease: () => false }), false);
  }
  assert.equal(release.isResting({ atMs: 60 * S, isAsleep: false }), false);
});

Deno.test("let go, it is asked of the kernel alone; awake again after its sleep, somebody uses it", () => {
  const release = new IdleRelease(30 * S);
  assert.equal(dueAt(release, { fromS: 0, untilS: 30 }), 30);
  assert.equal(release.isResting({ atMs: 31 * S, isAsleep: false }), true, "the kernel takes its time");
  assert.equal(release.isResting({ atMs: 37 * S, isAsleep: true }), true);
  assert.equal(release.isResting({ atMs: 500 * S, isAsleep: true }), true);
  assert.equal(release.isResting({ atMs: 501 * S, isAsleep: false }), false);
});

Deno.test("a card that doesn't fall asleep is looked at again, and let go half as often", () => {
  const release = new IdleRelease(30 * S);
  assert.equal(dueAt(release, { fromS: 0, untilS: 30 }), 30);
  assert.equal(release.isResting({ atMs: 49 * S, isAsleep: false }), true);
  assert.equal(release.isResting({ atMs: 50 * S, isAsleep: false }), false);
  assert.equal(dueAt(release, { fromS: 51, untilS: 500 }), 51 + 60);
  assert.equal(release.isResting({ atMs: 131 * S, isAsleep: false }), false);
  assert.equal(dueAt(release, { fromS: 132, untilS: 500 }), 132 + 120);
});

Deno.test("whoever asks for it has it at once", () => {
  const release = new IdleRelease(30 * S);
  dueAt(release, { fromS: 0, untilS: 30 });
  release.end();
  assert.equal(release.isResting({ atMs: 31 * S, isAsleep: false }), false);
});
