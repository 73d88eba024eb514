/** What a house stands on: a card, a /proc and two servers; this machine's, or a simulated box's. */
import type { Libc } from "../ffi/libc.ts";
import { endProcess } from "./act/end_process.ts";
import type { Config } from "./config/schema.ts";
import type { GateUrls } from "./model/admission.ts";
import type { CardControl } from "./model/card.ts";
import { messageOf } from "./model/failure.ts";
import type { Policy } from "./model/policy.ts";
import type { PageCache } from "./model/page_cache.ts";
import type { Clock, EndRunner, Gpu, Log, Proc } from "./model/ports.ts";
import { openProc } from "./sample/proc.ts";
import { type TenantProcesses, tenantProcesses } from "./sample/tenant_processes.ts";
import { isRemoteUrl, portOf } from "./upstream/locality.ts";
import { connectGpu, type GpuConnection } from "./workers/nvml_client.ts";
import type { LeverAccess } from "./workers/nvml_protocol.ts";
import { connectPageCache } from "./workers/page_cache_client.ts";

export interface Ground {
  readonly gpu: Gpu;
  /** The card's levers; refuses every change unless this process owns the card. */
  readonly card: CardControl;
  readonly proc: Proc;
  readonly tenants: TenantProcesses;
  readonly ollamaUrl: string;
  readonly comfyUrl: string;
  /** What a simulated box is called; null for the real one. */
  readonly simulation: string | null;
  readonly pageCache: PageCache;
  /** The folder that stands for "/" where models are looked for; null = the machine's own. */
  readonly fileRoot: string | null;
  readonly endRunner: EndRunner;
  /** What of the policy this ground sets itself. */
  readonly policy: Partial<Policy>;
  /** What of the gate it does. */
  readonly gate?: Partial<Config["gate"]>;
  /** Where the gate listens: part of a simulated box's traffic goes through it from then on. */
  readonly through?: (urls: GateUrls) => void;
  /** Ends that traffic, so that an ordered end needn't wait for it. */
  readonly hush?: () => void;
  close(): Promise<void>;
}

export interface GroundParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly libc: Libc;
  /** Where the card's journal lies. */
  readonly places: { readonly stateDir: string };
  /** True: this process owns the card and may set it. Left out, it only reads. */
  readonly isOwner?: boolean;
}

/** This machine. Nothing has to be there: the card and both servers are noticed when they come. */
export function openHardware(config: Config, parts: GroundParts): Ground {
  const { clock, log, libc } = parts;
  const { uuid, index, nvml, release_idle_s: releaseIdleS } = config.gpu;
  const gpu = connectGpu({
    source: { kind: "library", paths: nvml === "" ? null : [nvml] },
    choice: uuid === "" ? { uuid: null, index } : { uuid, index: null },
    clock,
    log,
    sysRoot: config.proc.sys_root,
    levers: leversOf(parts),
    releaseIdleMs: releaseIdleS === 0 ? null : releaseIdleS * 1_000,
  });
  const proc = openProc(libc, config.proc.root);
  const pageCache = connectPageCache({ clock, procRoot: config.proc.root, sysRoot: config.proc.sys_root });
  return {
    pageCache,
    fileRoot: null,
    gpu,
    card: gpu.card,
    proc,
    tenants: tenantsOf({ proc, clock, ollamaUrl: config.ollama.url, comfyUrl: config.comfyui.url }),
    ollamaUrl: config.ollama.url,
    comfyUrl: config.comfyui.url,
    simulation: null,
    endRunner: (process) => endProcess({ libc, proc }, process),
    policy: {},
    close: async () => {
      await Promise.all([closeCard(gpu, parts), pageCache.close()]);
    },
  };
}

function leversOf({ places, isOwner = false }: GroundParts): LeverAccess {
  return { stateDir: places.stateDir, mayChange: isOwner, marksUncleanEnd: true };
}

/**
 * Whatever the house decided or failed to: what the journal says was changed is put back before the library goes. Where
 * nothing is changed that asks the card for nothing.
 */
async function closeCard(gpu: GpuConnection, { log, isOwner = false }: GroundParts): Promise<void> {
  try {
    if (isOwner) await gpu.card.restore("journal");
  } catch (error) {
    // ExecStopPost and the next start find it in the journal.
    log.error("Cannot put the card back to stock", { error: messageOf(error) });
  }
  await gpu.close();
}

/** Idle seconds before the demo purges ComfyUI: the real 30 would leave little to see in a minute. */
const DEMO_IDLE_MS = 8_000;

/** A simulated box with traffic that comes and goes. `dir`: an empty folder for its /proc. */
export async function openSimulation(parts: GroundParts & { readonly dir: string }): Promise<Ground> {
  const { clock, log, libc, dir } = parts;
  const [{ openBox }, { labEndRunner }, { startTraffic }, { layOutModels }, { simulatePageCache }] = await Promise.all([
    import("./lab/box.ts"),
    import("./lab/end_runner.ts"),
    import("./lab/traffic.ts"),
    import("./lab/model_files.ts"),
    import("./lab/simulated_page_cache.ts"),
  ]);
  await Deno.mkdir(dir, { recursive: true });
  const box = await openBox({ clock, dir });
  const gpu = connectGpu({
    source: { kind: "simulated", table: box.table.buffer },
    choice: { uuid: null, index: 0 },
    clock,
    log,
    levers: leversOf(parts),
  });
  const proc = openProc(libc, box.procRoot);
  const traffic = startTraffic(box);
  const fileRoot = `${dir}/root`;
  const sizes = layOutModels({ root: fileRoot, ollama: box.ollama.installed, comfy: box.comfy.models });
  const { DEFAULT_POLICY } = await import("./model/policy.ts");
  return {
    gpu,
    card: gpu.card,
    proc,
    tenants: tenantsOf({ proc, clock, ollamaUrl: box.ollama.url, comfyUrl: box.comfy.url }),
    ollamaUrl: box.ollama.url,
    comfyUrl: box.comfy.url,
    pageCache: simulatePageCache({ clock, cache: box.pageCache, sizes }),
    fileRoot,
    simulation: "a simulated RTX 4080 SUPER with a simulated Ollama and ComfyUI",
    endRunner: labEndRunner(box),
    policy: { purge: { ...DEFAULT_POLICY.purge, idleMs: DEMO_IDLE_MS } },
    // On free ports, so that it never is in anybody's way.
    gate: { enabled: true, ollama: "127.0.0.1:0", comfyui: "127.0.0.1:0" },
    through: (urls) => traffic.through(urls),
    hush: () => traffic.stop(),
    close: async () => {
      traffic.stop();
      await closeCard(gpu, parts);
      await box[Symbol.asyncDispose]();
    },
  };
}

function tenantsOf(
  { proc, clock, ollamaUrl, comfyUrl }: {
    readonly proc: Proc;
    readonly clock: Clock;
    readonly ollamaUrl: string;
    readonly comfyUrl: string;
  },
): TenantProcesses {
  const localPort = (url: string) => isRemoteUrl(url) ? null : portOf(url);
  return tenantProcesses({ proc, clock, ollamaPort: localPort(ollamaUrl), comfyPort: localPort(comfyUrl) });
}
