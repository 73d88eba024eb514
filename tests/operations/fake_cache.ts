/** A page cache of plain values for the fake box: what operations ask of it is noted, and answered at once. */
import type { PinResult, WarmResult } from "../../lib/model/cache.ts";
import { Failure } from "../../lib/model/failure.ts";
import type { Residency } from "../../lib/model/page_cache.ts";
import type { Cache } from "../../lib/model/services.ts";

const PATH = "/usr/share/ollama/.ollama/models/blobs/sha256-aa";
const SIZE = 9_276_186_624;

const figure = (share: number): Residency => ({
  kind: "measured",
  method: "nowait",
  sizeBytes: SIZE,
  residentBytes: Math.round(SIZE * share),
  share,
  low: Math.max(0, share - 0.03),
  high: Math.min(1, share + 0.03),
  isExact: false,
  samples: 1024,
  disturbance: { readBytes: 4_096_000, droppedBytes: 4_000_000 },
  recentlyEvictedBytes: null,
  atMs: 0,
});

const WARMED: WarmResult = {
  files: [{
    path: PATH,
    names: ["qwen3:14b"],
    sizeBytes: SIZE,
    readBytes: 6.2e9,
    durationMs: 2_000,
    end: "done",
    reason: null,
    before: figure(0.33),
    after: figure(1),
  }],
  skipped: [{ path: "/b", names: ["b"], sizeBytes: 3e9, cause: "budget", why: "it doesn't fit" }],
  readBytes: 6.2e9,
  durationMs: 2_000,
  readingMs: 2_000,
  shareBefore: 0.33,
  shareAfter: 1,
  stoppedBy: null,
  message: "Read 6.20 GB from disk in 2.0 s, 3.10 GB/s, 1 file",
};

const PINNED: PinResult = {
  pinned: [{ path: PATH, lockedBytes: SIZE, sinceMs: 0, heldFor: ["qwen3:14b"] }],
  changed: [{ path: PATH, lockedBytes: SIZE, sinceMs: 0 }],
  lockedBytes: SIZE,
  budgetBytes: 10e9,
  availableBeforeBytes: 40e9,
  availableAfterBytes: 31e9,
  message: "Locked 9.3 GB",
};

/** `note` is told what was asked. */
export function fakeCache(note: (name: string, what: unknown) => void): Cache {
  const known = <T>({ model, path }: { model: string | null; path: string | null }, value: T): Promise<T> =>
    (model === null) === (path === null)
      ? Promise.reject(new Failure("invalid_input", "Give either model_name or filepath"))
      : model === "nope"
      ? Promise.reject(new Failure("not_found", "There is no model 'nope' in the catalogue", { hint: "Look again" }))
      : Promise.resolve(value);
  return {
    catalogue() {
      throw new Failure("unavailable", "The model folders haven't been read yet");
    },
    totals: () => null,
    report: () =>
      Promise.resolve({
        totals: {
          files: 2,
          measured: 1,
          unmeasurable: 1,
          bytes: SIZE + 3e9,
          measuredBytes: SIZE,
          residentBytes: Math.round(SIZE * 0.33),
          pinnedBytes: 0,
          measuredAtMs: Date.UTC(2026, 0, 1, 11),
        },
        files: [
          {
            path: PATH,
            source: "ollama",
            names: ["qwen3:14b", "alias:latest"],
            sizeBytes: SIZE,
            residency: figure(0.33),
            ageMs: 4_200,
            isPinned: false,
          },
          {
            path: "/opt/ComfyUI/models/loras/x.safetensors",
            source: "comfyui",
            names: ["loras/x.safetensors"],
            sizeBytes: 3e9,
            residency: { kind: "unmeasurable", sizeBytes: 3e9, cause: "sparse", reason: "it has holes", atMs: 0 },
            ageMs: 100,
            isPinned: false,
          },
        ],
        warming: [{
          path: PATH,
          state: "warming",
          ahead: 0,
          doneBytes: 3e9,
          sizeBytes: SIZE,
          bytesPerS: 2.9e9,
          etaMs: 2_100,
          pace: "full",
        }],
        places: [{
          source: "ollama",
          path: "/usr/share/ollama/.ollama/models",
          origin: "configuration",
          problem: null,
        }],
        problems: [{ path: "/m/broken", problem: "Cannot read this manifest: body is not JSON" }],
      }),
    plan(request) {
      note("plan", request);
      return Promise.resolve({
        budgetBytes: request.budgetBytes ?? 20e9,
        budgetBasis: request.budgetBytes === null ? "80 % of free memory and page cache" : "as asked for",
        steps: [{
          path: PATH,
          names: ["qwen3:14b"],
          sizeBytes: SIZE,
          readBytes: 6.2e9,
          savedS: 14,
          score: 2.25,
          why: "used 3 times, last 2 h ago",
          residency: figure(0.33),
        }],
        skipped: WARMED.skipped,
        readBytes: 6.2e9,
        keptBytes: 0,
        probed: { readBytes: 4_096_000, droppedBytes: 4_000_000 },
      });
    },
    warmAll(request) {
      note("warmAll", request);
      return Promise.resolve(WARMED);
    },
    warmModel(request) {
      note("warmModel", request);
      return known(request, WARMED);
    },
    pin(request) {
      note("pin", request);
      return known(request, PINNED);
    },
    unpin(request) {
      note("unpin", request);
      return known(request, { ...PINNED, pinned: [], message: "Unlocked 9.3 GB" });
    },
  };
}
