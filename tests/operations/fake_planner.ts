/** A planner of plain values. */
import { Failure } from "../../lib/model/failure.ts";
import type { Planner } from "../../lib/model/services.ts";
import { GIB } from "../../lib/model/units.ts";

export function fakePlanner(note: (name: string, what: unknown) => void): Planner {
  return {
    plan(request) {
      note("plan", request);
      if (request.model === "nope") throw new Failure("not_found", 'Cannot find the model "nope"');
      return {
        need: { bytes: 11 * GIB, basis: "measured", n: 4 },
        freeBytes: 3.5 * GIB,
        headroomBytes: GIB / 2,
        verdict: "makes_room",
        steps: [
          { action: "purge", names: ["ComfyUI"], freesBytes: 8 * GIB, reason: "it doesn't fit" },
          { action: "load", names: ["qwen3:14b"], freesBytes: null, reason: "it fits then" },
        ],
        refusal: null,
        holders: [{ bucket: "unmanaged", bytes: 0.5 * GIB, who: ["pid 4003 whisper 0.5 GB"] }],
        message: "ComfyUI would be asked for 8 GB; after that it would be loaded",
      };
    },
    limits: () => ({
      hitBytesPerSecond: 2.4e9,
      partialBytesPerSecond: 0.9e9,
      basis: "calibrated",
      warmN: 12,
      coldN: 6,
    }),
    footprints: () =>
      Promise.resolve([{
        name: "qwen3:14b",
        source: "ollama",
        contextLength: 4_096,
        parallel: 1,
        n: 4,
        isUsed: true,
        peakBytes: 11 * GIB,
        medianBytes: 10.9 * GIB,
        leastBytes: 10.8 * GIB,
        latestBytes: 11 * GIB,
        steadyBytes: 10.8 * GIB,
        misses: 1,
        warm: { n: 3, medianMs: 2_400 },
        cold: { n: 0, medianMs: null },
      }]),
  };
}
