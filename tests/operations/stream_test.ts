import assert from "node:assert/strict";
import fc from "fast-check";
import { applyFrame } from "../../lib/operations/frames.ts";
import type { Frame } from "../../lib/operations/frames.ts";
import { StatsWire, viewStats } from "../../lib/operations/stats.ts";
import { FrameWire, stream } from "../../lib/operations/stream.ts";
import type { HistoryItem } from "../../lib/model/history.ts";
import type { Sample } from "../../lib/model/sample.ts";
import type { Snapshot } from "../../lib/model/services.ts";
import { fakeBox } from "./fake_box.ts";
import { ARBITRATION, GPU, HISTORY, sample } from "./fake_values.ts";

const bytes = fc.integer({ min: 0, max: 2 ** 34 });

/** Seconds of a box where anything may move: the card may go, processes come and leave, events arrive. */
const samples: fc.Arbitrary<Sample> = fc.record({
  used: bytes,
  util: fc.option(fc.integer({ min: 0, max: 100 })),
  powerW: fc.option(fc.double({ min: 0, max: 400, noNaN: true })),
  processes: fc.array(
    fc.record({
      pid: fc.integer({ min: 1, max: 5 }),
      usedBytes: fc.option(bytes),
      smPct: fc.option(fc.integer({ min: 0, max: 100 })),
    }),
    { maxLength: 3 },
  ),
  isGone: fc.boolean(),
  isOnline: fc.boolean(),
  queueRemaining: fc.option(fc.integer({ min: 0, max: 4 })),
  hasMemory: fc.boolean(),
}).map((given) => {
  const base = sample();
  if (!GPU.available) throw new Error("the fake card is there");
  const processes = given.processes.map((process) => ({
    ...process,
    startTime: 1,
    name: `p${process.pid}`,
    command: null,
    bucket: "unmanaged" as const,
    evidence: "",
  }));
  const gpu = given.isGone
    ? {
      available: false as const,
      kind: "lost" as const,
      reason: "it fell off the bus",
      remedy: "restart",
      facts: GPU.facts,
    }
    : {
      ...GPU,
      reading: {
        ...GPU.reading,
        gpuUtilPct: given.util,
        powerW: given.powerW,
        memory: { totalBytes: 2 ** 34, usedBytes: given.used, freeBytes: 2 ** 34 - given.used, reservedBytes: null },
      },
      breakdown: { ...GPU.breakdown, processes },
    };
  return {
    ...base,
    gpu,
    memory: given.hasMemory ? base.memory : null,
    ollama: given.isOnline ? base.ollama : { ...base.ollama, online: false, reason: "no answer", resident: [] },
    comfy: { ...base.comfy, queueRemaining: given.queueRemaining },
  };
});

Deno.test("replaying the stream gives /api/stats, field for field, at every frame", () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(samples, fc.integer({ min: 0, max: 3 })), { minLength: 1, maxLength: 12 }),
      (seconds) => {
        const box = fakeBox();
        let seen: object | null = null;
        const source = stream.follow(box.services, {}, {
          emit(frame) {
            seen = applyFrame(seen, JSON.parse(JSON.stringify(FrameWire.parse(frame))) as Frame);
          },
          end() {},
        });
        let history: readonly HistoryItem[] = HISTORY;
        let id = 2;
        seconds.forEach(([sampled, events], at) => {
          const fresh = Array.from(
            { length: events },
            () => ({ id: ++id, atMs: at, kind: "yield" as const, fields: { outcome: "released" } }),
          );
          history = [...fresh.reverse(), ...history].slice(0, 50);
          const change: Partial<Snapshot> = {
            sample: { ...sampled, atMs: 1_767_268_800_000 + at * 1000 },
            history,
            arbitration: { ...ARBITRATION, handOffs: events },
          };
          box.show(change);
          const stats = StatsWire.parse(viewStats(box.services.live.snapshot()));
          assert.deepEqual(seen, JSON.parse(JSON.stringify(stats)));
        });
        source.stop();
        assert.equal(box.subscribers, 0);
      },
    ),
    { numRuns: 100 },
  );
});

Deno.test("a steady second costs less than 1.2 KB, and the catalogue is sent once", () => {
  const box = fakeBox();
  const frames: string[] = [];
  const source = stream.follow(box.services, {}, {
    emit: (frame) => void frames.push(JSON.stringify(frame)),
    end() {},
  });
  if (!GPU.available) throw new Error("the fake card is there");
  const { reading } = GPU;
  // Everything that moves on a busy card moves at once.
  const busy = sample({
    atMs: sample().atMs + 1001,
    gpu: {
      ...GPU,
      reading: {
        ...reading,
        gpuUtilPct: 97,
        memoryUtilPct: 55,
        temperatureC: 63,
        powerW: 301.7,
        clocks: { graphicsMhz: 2790, smMhz: 2790, memoryMhz: 11251, videoMhz: 2085 },
        memory: { totalBytes: 2 ** 34, usedBytes: 13.123e9, freeBytes: 2 ** 34 - 13.123e9, reservedBytes: null },
        fans: [{ pct: 52, targetPct: 52, rpm: 1600, policy: "auto" }],
      },
      breakdown: {
        ...GPU.breakdown,
        ollamaBytes: 11.7e9,
        comfyBytes: 0.9e9,
        unaccountedBytes: 0.3e9,
        processes: GPU.breakdown.processes.map((process, at) => ({ ...process, usedBytes: 1e9 + at, smPct: 90 + at })),
      },
    },
    memory: {
      totalBytes: 64 * 2 ** 30,
      freeBytes: 9.9e9,
      availableBytes: 49e9,
      cachedBytes: 43e9,
      applicationsBytes: 12.5e9,
      swapTotalBytes: 8 * 2 ** 30,
      swapFreeBytes: 8 * 2 ** 30,
    },
  });
  box.show({ sample: busy });
  source.stop();
  assert.equal(frames.length, 2);
  const [first = "", second = ""] = frames;
  assert.ok(first.includes("installed_models") && !second.includes("installed_models"));
  assert.ok(second.length < 1200, `a steady frame takes ${second.length} bytes`);
});

Deno.test("before the first sample the stream waits for it", () => {
  const box = fakeBox({ isBlank: true });
  const events: string[] = [];
  const source = stream.follow(box.services, {}, { emit: ({ event }) => void events.push(event), end() {} });
  assert.deepEqual(events, []);
  box.show({});
  box.show({});
  assert.deepEqual(events, ["snapshot", "patch"]);
  source.stop();
});
