/** When a file is skipped, how it is read, how fast, and when to stop: pinned to what was measured. */
import assert from "node:assert/strict";
import { nextChunk } from "../../lib/decide/warm_chunk.ts";
import {
  initialPace,
  isDisturbing,
  isSuspicious,
  nextReadMs,
  type PaceState,
  readsAhead,
  reducePace,
  type Silence,
} from "../../lib/decide/warm_pace.ts";
import { objectionToWarm, type Room, stopOfWarm } from "../../lib/decide/warm_room.ts";
import { isConfidentlyResident } from "../../lib/decide/warm_skip.ts";
import type { MeasuredResidency } from "../../lib/model/page_cache.ts";
import { GIB, KIB, MIB } from "../../lib/model/units.ts";

function residency(given: Partial<MeasuredResidency>): MeasuredResidency {
  return {
    kind: "measured",
    method: "nowait",
    sizeBytes: GIB,
    residentBytes: GIB,
    share: 1,
    low: 0.9,
    high: 1,
    isExact: false,
    samples: 64,
    disturbance: { readBytes: 0, droppedBytes: 0 },
    recentlyEvictedBytes: null,
    atMs: 0,
    ...given,
  };
}

Deno.test("twelve resident windows skip nothing: they once called a mostly cold file of 12.87 GB warm", () => {
  assert.equal(isConfidentlyResident(residency({ samples: 12 })), false);
  assert.equal(isConfidentlyResident(residency({ samples: 31 })), false);
  assert.equal(isConfidentlyResident(residency({ samples: 32 })), true);
});

Deno.test("one absent sample is enough to read a file again, however many were resident", () => {
  assert.equal(isConfidentlyResident(residency({ samples: 1_024, share: 1_023 / 1_024 })), false);
});

Deno.test("an exact count skips from 99.5 % on, whatever its samples", () => {
  const exact = { method: "cachestat", isExact: true, samples: null } as const;
  assert.equal(isConfidentlyResident(residency({ ...exact, share: 0.9949 })), false);
  assert.equal(isConfidentlyResident(residency({ ...exact, share: 0.995 })), true);
  assert.equal(isConfidentlyResident(residency({ isExact: true, samples: 20, share: 1 })), true, "a file of 20 pages");
});

Deno.test("what couldn't be measured is never skipped", () => {
  const unknown = { kind: "unmeasurable", sizeBytes: 1, cause: "sparse", reason: "It has holes", atMs: 0 } as const;
  assert.equal(isConfidentlyResident(unknown), false);
});

Deno.test("a chunk is what the disk or the pace does in 25 ms, between 256 KiB and 32 MiB, in steps of 64 KiB", () => {
  assert.equal(nextChunk({ bytes: MIB, ms: 25 }, null), MIB);
  assert.equal(nextChunk({ bytes: MIB, ms: 10 }, null) % (64 * KIB), 0);
  assert.equal(nextChunk({ bytes: MIB, ms: 0 }, null), 32 * MIB, "a resident chunk takes no time");
  assert.equal(nextChunk({ bytes: MIB, ms: 4_000 }, null), 256 * KIB);
  assert.equal(
    nextChunk({ bytes: 8 * MIB, ms: 2 }, 50e6),
    Math.floor(1.25e6 / 65_536) * 65_536,
    "no gulps at a fixed pace",
  );
  assert.ok(nextChunk({ bytes: 8 * MIB, ms: 2 }, 300e6) < 8 * MIB, "12 MB took a fifth of others' reads");
});

Deno.test("beside others nothing is read ahead: those bursts came after the call, and passed for somebody else's", () => {
  assert.equal(readsAhead(initialPace("auto", 0)), true);
  assert.equal(readsAhead(after(initialPace("auto", 0), [reader(4)])), false);
  assert.equal(readsAhead(initialPace(50e6, 0)), false, "nor at a slow pace of the owner's");
  assert.equal(readsAhead(initialPace(2e9, 0)), true);
});

function heard(atMs: number, given: Partial<Silence> = {}): Silence {
  return { atMs, spanMs: 4, reads: 0, readBytes: 0, writtenBytes: 0, ...given };
}

/** A reader at 13,000 IOPS of 4 KiB, as it is heard in so many milliseconds. */
function reader(atMs: number, spanMs = 4): Silence {
  return heard(atMs, { spanMs, reads: spanMs * 13, readBytes: spanMs * 13 * 4_096 });
}

function after(state: PaceState, silences: readonly Silence[], fullBytesPerS: number | null = 4.5e9): PaceState {
  return silences.reduce(
    (now, silence) => reducePace(now, { silence, costMs: 4, fullBytesPerS, between: null }),
    state,
  );
}

Deno.test("a warm listens before it reads, then runs at full speed and listens 2 % of the time", () => {
  const start = initialPace("auto", 1_000);
  assert.deepEqual([start.pace, start.bytesPerS, start.listenAtMs], ["full", null, 1_000]);
  const quiet = after(start, [heard(1_004)]);
  assert.deepEqual([quiet.pace, quiet.listenAtMs], ["full", 1_254]);
  const costly = reducePace(start, { silence: heard(1_050), costMs: 20, fullBytesPerS: null, between: null });
  assert.equal(costly.listenAtMs, 2_050);
  const slow = reducePace(start, { silence: heard(1_050), costMs: 500, fullBytesPerS: null, between: null });
  assert.equal(slow.listenAtMs, 2_050, "at least once a second, or nobody is noticed");
});

Deno.test("somebody on the disk makes it polite at once: 300 MB/s, at which a reader kept 88 %", () => {
  const polite = after(initialPace("auto", 0), [heard(4), reader(260)]);
  assert.deepEqual([polite.pace, polite.bytesPerS, polite.listenAtMs], ["polite", 300e6, null]);
});

Deno.test("a slow disk is left most of its speed", () => {
  const polite = (fullBytesPerS: number | null) => after(initialPace("auto", 0), [reader(4)], fullBytesPerS).bytesPerS;
  assert.equal(polite(500e6), 75e6);
  assert.equal(polite(20e6), 10e6);
  assert.equal(polite(null), 300e6);
});

/** A second beside a reader of 13,000 IOPS in our silences, which are 18 of 28 ms, and of which it keeps so much between. */
function second(state: PaceState, keptBetween: number): PaceState {
  let now = state;
  for (let cycle = 1; cycle <= 36; cycle++) {
    const between = { ms: 10, reads: 130 * keptBetween };
    const silence = reader((state.politeSinceMs ?? 0) + cycle * 28, 18);
    now = reducePace(now, { silence, costMs: 0, fullBytesPerS: 4.5e9, between });
  }
  return now;
}

Deno.test("a reader that loses too much beside it makes it slower still, and one that loses nothing lets it grow", () => {
  const polite = after(initialPace("auto", 0), [reader(4)]);
  assert.equal(second(polite, 0.9).bytesPerS, 300e6, "96 % kept: as fast as it may be");
  const slower = second(polite, 0.2);
  assert.ok((slower.bytesPerS ?? 0) < 100e6, "71 % kept");
  assert.equal(second(polite, 0.7).bytesPerS, 300e6, "89 % kept: left as it is");
  const again = second(slower, 1);
  assert.ok((again.bytesPerS ?? 0) > (slower.bytesPerS ?? 0) && again.pace === "polite");
  let least = polite;
  for (let turn = 0; turn < 10; turn++) least = second(least, 0);
  assert.equal(least.bytesPerS, 10e6, "it never stands still");
});

Deno.test("it is back at full speed after a second of silence, within the 2 s that were promised", () => {
  let state = after(initialPace("auto", 0), [reader(4)]);
  for (let atMs = 32; atMs <= 5_000; atMs += 28) state = after(state, [reader(atMs, 18)]);
  assert.equal(state.pace, "polite", "as long as it lasts");
  let backAtMs: number | null = null;
  for (let atMs = 5_028; backAtMs === null && atMs < 8_000; atMs += 28) {
    state = after(state, [heard(atMs, { spanMs: 18 })]);
    if (state.pace === "full") backAtMs = atMs;
  }
  assert.ok(backAtMs !== null && backAtMs - 5_000 > 900 && backAtMs - 5_000 <= 1_300, String(backAtMs));
  assert.deepEqual([state.bytesPerS, state.heard.length], [null, 0]);
});

Deno.test("a burst in the silence starts the second anew", () => {
  let state = after(initialPace("auto", 0), [reader(4)]);
  for (let atMs = 32; atMs <= 1_500; atMs += 28) {
    state = after(state, [atMs > 780 && atMs < 840 ? reader(atMs, 18) : heard(atMs, { spanMs: 18 })]);
  }
  assert.equal(state.pace, "polite");
});

Deno.test("a journal's commit is nobody; a download that writes, and a stream, are somebody", () => {
  assert.equal(isDisturbing(heard(0, { reads: 1, readBytes: MIB })), false, "our own last read-ahead");
  assert.equal(isDisturbing(heard(0, { spanMs: 50, writtenBytes: 64 * KIB })), false);
  assert.equal(isDisturbing(heard(0, { spanMs: 50, writtenBytes: 5 * MIB })), true);
  assert.equal(isDisturbing(heard(0, { spanMs: 50, reads: 8, readBytes: MIB })), true);
  assert.equal(isDisturbing(heard(0, { spanMs: 1_000, reads: 15, readBytes: 15 * 4_096 })), false);
  assert.equal(isDisturbing(heard(0, { spanMs: 0, reads: 15 })), false);
});

Deno.test("more reads than ours alone would make are a reason to listen at once", () => {
  // 100 reads of 1 MiB are ours.
  const leastReadsPerByte = 1 / MIB;
  const noise = (reads: number) => isSuspicious({ reads, ownBytes: 100 * MIB, leastReadsPerByte });
  assert.deepEqual([noise(100), noise(190), noise(201)], [false, false, true]);
  assert.equal(isSuspicious({ reads: 9, ownBytes: MIB, leastReadsPerByte }), false, "a few reads are nobody");
  assert.equal(
    isSuspicious({ reads: 1_000, ownBytes: MIB, leastReadsPerByte: null }),
    false,
    "nothing to compare with",
  );
});

Deno.test("beside others a read of t ms is followed by a pause of 5 t, and never caught up on", () => {
  const polite = after(initialPace("auto", 0), [reader(4)]);
  const at = (ms: number, bytes: number, dueMs = 1_000) =>
    nextReadMs(polite, { bytes, fromMs: 1_000, toMs: 1_000 + ms, dueMs });
  assert.equal(at(2, 3e6), 1_012, "2 ms of reading, 10 of silence: 300 MB/s would allow it after 10 already");
  assert.equal(at(1, 6e6), 1_020, "300 MB/s");
  assert.equal(at(1, 6e6, 500), 1_020, "half a second late is half a second lost");
  assert.equal(at(900, 3e6), 2_900, "a second of silence at most");
  const full = initialPace("auto", 0);
  assert.equal(nextReadMs(full, { bytes: MIB, fromMs: 0, toMs: 7, dueMs: 0 }), 7);
  const fixed = initialPace(1e6, 0);
  assert.equal(
    nextReadMs(fixed, { bytes: 1e5, fromMs: 0, toMs: 50, dueMs: 0 }),
    100,
    "a fixed pace is the owner's word",
  );
});

Deno.test("a fixed pace stays fixed and doesn't listen", () => {
  const fixed = initialPace(50e6, 0);
  assert.deepEqual([fixed.pace, fixed.bytesPerS, fixed.listenAtMs], ["fixed", 50e6, null]);
  assert.equal(after(fixed, [reader(4)]), fixed);
});

const ROOM: Room = { availableBytes: 20 * GIB, cgroup: null };
const CGROUP = { limitBytes: 3 * GIB, usedBytes: 2.5 * GIB, cacheBytes: 2 * GIB };

Deno.test("a warm must fit into what is available, with the reserve left", () => {
  assert.equal(objectionToWarm(ROOM, { neededBytes: 16 * GIB, reserveBytes: 4 * GIB }), null);
  const objection = objectionToWarm(ROOM, { neededBytes: 16 * GIB + 1, reserveBytes: 4 * GIB });
  assert.deepEqual([objection?.roomBytes, objection?.neededBytes], [16 * GIB, 16 * GIB + 1]);
  assert.match(objection?.reason ?? "", /needs 16 GiB and 20 GiB are available, of which 4 GiB stay free/);
  assert.equal(objectionToWarm(ROOM, { neededBytes: 0, reserveBytes: 30 * GIB }), null, "nothing always fits");
});

Deno.test("a cgroup's limit counts without the page cache that it can give up", () => {
  const room = { ...ROOM, cgroup: CGROUP };
  assert.equal(objectionToWarm(room, { neededBytes: 2.5 * GIB, reserveBytes: 0 }), null);
  const objection = objectionToWarm(room, { neededBytes: 2.5 * GIB + 1, reserveBytes: 0 });
  assert.match(objection?.reason ?? "", /the service's cgroup has room for 2.5 GiB of its 3 GiB/);
});

Deno.test("a warm stops when 2 % of what it read is pushed out again", () => {
  const at = (evictedBytes: number, doneBytes = 4 * GIB, room = ROOM) =>
    stopOfWarm({ doneBytes, fate: { kind: "counted", evictedBytes }, room, reserveBytes: GIB })?.end ?? null;
  assert.equal(at(0.02 * 4 * GIB), null);
  assert.equal(at(0.021 * 4 * GIB), "evicting");
  assert.equal(at(7 * MIB, 100 * MIB), null, "single pages come and go");
  // In a group of 3 GiB, 1,010 MiB of 4 GiB were pushed out while MemAvailable stayed as it was.
  const full = { ...ROOM, cgroup: { ...CGROUP, usedBytes: 2.99 * GIB } };
  assert.equal(at(1_010 * MIB, 4 * GIB, full), "cgroup_limit");
  assert.equal(at(0, 4 * GIB, full), null, "a full group alone gives up other cache first");
});

Deno.test("where the kernel doesn't count for us, pages that were read are looked at", () => {
  const at = (absent: number) =>
    stopOfWarm({ doneBytes: GIB, fate: { kind: "sampled", absent }, room: ROOM, reserveBytes: 0 })?.end ?? null;
  assert.deepEqual([at(0), at(3), at(4)], [null, null, "evicting"]);
});

Deno.test("memory that others take meanwhile ends it", () => {
  const stop = stopOfWarm({
    doneBytes: GIB,
    fate: { kind: "counted", evictedBytes: 0 },
    room: { availableBytes: GIB, cgroup: null },
    reserveBytes: 2 * GIB,
  });
  assert.equal(stop?.end, "memory_floor");
  assert.equal(stop?.reason, "Available memory fell to 1 GiB, below the 2 GiB that stay free");
});
