/** The house over a simulated box with model files and a page cache, on a clock that only the test advances. */
import type { House } from "../../lib/house.ts";
import type { Box } from "../../lib/lab/box.ts";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { layOutModels } from "../../lib/lab/model_files.ts";
import { demoModels, type LabModel } from "../../lib/lab/ollama_models.ts";
import { simulatePageCache } from "../../lib/lab/simulated_page_cache.ts";
import { type CachePolicy, DEFAULT_CACHE_POLICY } from "../../lib/model/cache.ts";
import { memoryStore } from "../../lib/record/memory_store.ts";
import { openGpuReader } from "../../lib/sample/gpu_reader.ts";
import type { CachePorts } from "../../lib/services/cache_keeper.ts";
import { openFiles } from "../../lib/system/files.ts";
import { openLabHouse } from "../hand_offs/lab_house.ts";

export interface WarmScene extends AsyncDisposable {
  readonly clock: LabClock;
  readonly box: Box;
  readonly house: House;
  readonly services: House["services"];
  /** The box's "/". */
  readonly root: string;
  /** Lets the box's time pass until the promise has settled. */
  until<T>(promise: Promise<T>): Promise<T>;
  /** Has nothing of a model's file in memory. */
  evict(path: string, sizeBytes: number): void;
}

export const IDLE_CALL = { signal: new AbortController().signal, progress: () => {} };
const LIMIT_MS = 300_000;

export async function openWarmScene(
  options: { readonly policy?: Partial<CachePolicy>; readonly ollamaModels?: readonly LabModel[] } = {},
): Promise<WarmScene> {
  const clock = new LabClock();
  const until = <T>(promise: Promise<T>) => clock.until(promise, { limitMs: LIMIT_MS });
  const { ollamaModels = demoModels() } = options;
  const lab = await openLabHouse({
    clock,
    store: memoryStore(),
    settle: until,
    machine: { profile: "desktop", ollamaModels },
    gpu: (box) => box.gpu((nvml) => openGpuReader(nvml, { clock, choice: { uuid: null, index: 0 } })),
    policy: { needs: {} },
    furnish: (box, dir) => ({ cache: cacheOf(box, { root: rootIn(dir), clock, policy: options.policy ?? {} }) }),
  });
  const { box, house, dir } = lab;
  return {
    clock,
    box,
    house,
    services: house.services,
    root: rootIn(dir),
    until,
    evict: (path, sizeBytes) => box.pageCache.set(path, { sizeBytes, share: 0 }),
    [Symbol.asyncDispose]: () => lab[Symbol.asyncDispose](),
  };
}

function rootIn(dir: string): string {
  return `${dir}/root`;
}

/** Model files under the box's "/", and its page cache. */
function cacheOf(
  box: Box,
  { root, clock, policy }: {
    readonly root: string;
    readonly clock: LabClock;
    readonly policy: Partial<CachePolicy>;
  },
): CachePorts {
  const sizes = layOutModels({ root, ollama: box.ollama.installed, comfy: box.comfy.models });
  const files = openFiles({ root });
  clock.watchBusy(() => files.busy);
  return {
    pageCache: simulatePageCache({ clock, cache: box.pageCache, sizes }),
    files,
    settings: { ollamaStores: [], comfyFolders: [], comfyExtraFiles: [], linkTargets: [], home: null },
    policy: { ...DEFAULT_CACHE_POLICY, ...policy },
  };
}
