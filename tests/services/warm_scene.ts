/** The house over a simulated box with model files and a page cache, on a clock that only the test advances. */
import { openLibc } from "../../ffi/libc.ts";
import { type House, openHouse } from "../../lib/house.ts";
import { type Box, openBox } from "../../lib/lab/box.ts";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { layOutModels } from "../../lib/lab/model_files.ts";
import { demoModels, type LabModel } from "../../lib/lab/ollama_models.ts";
import { simulatePageCache } from "../../lib/lab/simulated_page_cache.ts";
import { type CachePolicy, DEFAULT_CACHE_POLICY } from "../../lib/model/cache.ts";
import { DEFAULT_POLICY } from "../../lib/model/policy.ts";
import type { Log } from "../../lib/model/ports.ts";
import { memoryStore } from "../../lib/record/memory_store.ts";
import { openGpuReader } from "../../lib/sample/gpu_reader.ts";
import { openProc } from "../../lib/sample/proc.ts";
import { tenantProcesses } from "../../lib/sample/tenant_processes.ts";
import { openFiles } from "../../lib/system/files.ts";
import { connectComfy } from "../../lib/upstream/comfy.ts";
import { portOf } from "../../lib/upstream/locality.ts";
import { connectOllama } from "../../lib/upstream/ollama.ts";

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
const silent: Log = { debug() {}, info() {}, warn() {}, error() {} };

export async function openWarmScene(
  options: { readonly policy?: Partial<CachePolicy>; readonly ollamaModels?: readonly LabModel[] } = {},
): Promise<WarmScene> {
  const clock = new LabClock();
  const dir = await Deno.makeTempDir({ prefix: "hyperswap-warm-" });
  const { ollamaModels = demoModels() } = options;
  const box = await openBox({ clock, dir, driverHolds: false, ollamaModels });
  const root = `${dir}/root`;
  const sizes = layOutModels({ root, ollama: box.ollama.installed, comfy: box.comfy.models });
  const files = openFiles({ root });
  clock.watchBusy(() => files.busy);
  const libc = openLibc();
  const proc = openProc(libc, box.procRoot);
  const { url: ollamaUrl } = box.ollama;
  const { url: comfyUrl } = box.comfy;
  const house = await openHouse({
    clock,
    log: silent,
    gpu: box.gpu((nvml) => openGpuReader(nvml, { clock, choice: { uuid: null, index: 0 } })),
    proc,
    tenants: tenantProcesses({ proc, clock, ollamaPort: portOf(ollamaUrl), comfyPort: portOf(comfyUrl) }),
    ollama: connectOllama({ url: ollamaUrl, clock }),
    comfy: connectComfy({ url: comfyUrl, clock }),
    store: memoryStore(),
    desktop: [],
    record: () => {},
    policy: DEFAULT_POLICY,
    about: { version: "0", pid: 1, startedAtMs: clock.wallMs(), simulation: "a lab" },
    cache: {
      pageCache: simulatePageCache({ clock, cache: box.pageCache, sizes }),
      files,
      settings: { ollamaStores: [], comfyFolders: [], comfyExtraFiles: [], linkTargets: [], home: null },
      policy: { ...DEFAULT_CACHE_POLICY, ...options.policy },
    },
    ticked: () => {},
  });
  const until = <T>(promise: Promise<T>) => clock.until(promise, { limitMs: LIMIT_MS });
  await until(house.ready);
  return {
    clock,
    box,
    house,
    services: house.services,
    root,
    until,
    evict: (path, sizeBytes) => box.pageCache.set(path, { sizeBytes, share: 0 }),
    async [Symbol.asyncDispose]() {
      await until(house.close());
      await box[Symbol.asyncDispose]();
      libc[Symbol.dispose]();
      await Deno.remove(dir, { recursive: true });
      if (box.errors.length > 0) throw new AggregateError(box.errors, "The lab's own code failed");
    },
  };
}
