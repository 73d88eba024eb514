import type { Nvml } from "../../ffi/nvml.ts";
import type { Clock, Gpu } from "../model/ports.ts";
import { type CardSpec, RTX_4080_SUPER } from "./card_spec.ts";
import { type ComfyModel, demoComfyModels } from "./comfy_models.ts";
import { ComfyServer } from "./comfy_server.ts";
import { GpuTable } from "./gpu_table.ts";
import type { Ground } from "./ground.ts";
import { type CardReader, labGpu } from "./lab_gpu.ts";
import type { OllamaVersion } from "./ollama_bodies.ts";
import { demoModels, type LabModel } from "./ollama_models.ts";
import { OllamaServer } from "./ollama_server.ts";
import { MEASURED_SILICON, paceOf, type Silicon } from "./pace.ts";
import { PageCache } from "./page_cache.ts";
import { ProcTree } from "./proc_tree.ts";
import { Random } from "./random.ts";
import { SensorModel } from "./sensors.ts";
import { ThirdParty } from "./third_party.ts";
import { type Profile, TIMINGS } from "./timing.ts";
import { Vram } from "./vram.ts";

/** A box with 64 GB, of which programs take a part and the page cache what it can get. */
const HOST_BYTES = 66.9e9;
const APPLICATION_BYTES = 9.4e9;
/** Cached files that are nobody's weights. */
const OTHER_CACHED_BYTES = 5.6e9;
const WEIGHTS_BUDGET_BYTES = 43e9;
const COMPOSITOR_BYTES = 3.9e6;

export interface BoxOptions {
  /** A LabClock, which a test advances, or the system clock. */
  readonly clock: Clock;
  /** An empty folder, for the fixture /proc. Whoever made it removes it. */
  readonly dir: string;
  /** Default 1. The same seed gives the same box. */
  readonly seed?: number;
  /** Default desktop. */
  readonly profile?: Profile;
  /** Default 0.33.0. */
  readonly ollamaVersion?: OllamaVersion;
  readonly card?: CardSpec;
  /** How the card takes to its levers. Default: as measured, without noise. */
  readonly silicon?: Silicon;
  readonly ollamaModels?: readonly LabModel[];
  readonly comfyModels?: readonly ComfyModel[];
  /** Default 0: whatever is free. */
  readonly ollamaPort?: number;
  readonly comfyPort?: number;
  /**
   * Whether the driver holds calls back while it makes contexts and releases memory, as measured (15–106 ms each).
   * Default true; a scene about something else may do without.
   */
  readonly driverHolds?: boolean;
}

/** A simulated machine: a card, its processes, both servers on real loopback sockets, a third program. */
export interface Box extends AsyncDisposable {
  readonly clock: Clock;
  readonly table: GpuTable;
  /** Who holds what; its log is the truth that confirmations are measured against. */
  readonly vram: Vram;
  readonly processes: ProcTree;
  /** Root of the fixture /proc. */
  readonly procRoot: string;
  readonly pageCache: PageCache;
  readonly ollama: OllamaServer;
  readonly comfy: ComfyServer;
  readonly thirdParty: ThirdParty;
  /** What the lab's own code threw: a mistake in the simulation. Tests end by looking that there is nothing. */
  readonly errors: readonly unknown[];
  /** The card in this thread, on the box's clock; the Worker opens `table.buffer` instead. */
  gpu(reader: (nvml: Nvml) => CardReader): Gpu;
}

/** Opens a box. Its servers answer at once; nothing is loaded, the third program holds its part and sits still. */
export function openBox(options: BoxOptions): Promise<Box> {
  return Promise.resolve(new SimulatedBox(options));
}

class SimulatedBox implements Box {
  readonly clock: Clock;
  readonly table: GpuTable;
  readonly vram: Vram;
  readonly processes: ProcTree;
  readonly procRoot: string;
  readonly pageCache: PageCache;
  readonly ollama: OllamaServer;
  readonly comfy: ComfyServer;
  readonly thirdParty: ThirdParty;
  readonly errors: unknown[] = [];
  readonly #sensors: SensorModel;

  constructor(options: BoxOptions) {
    const { clock, dir, seed = 1, profile = "desktop", ollamaVersion = "0.33.0", card = RTX_4080_SUPER } = options;
    this.clock = clock;
    this.procRoot = `${dir}/proc`;
    this.table = new GpuTable(card);
    this.vram = new Vram({ table: this.table, clock });
    this.processes = new ProcTree({ root: this.procRoot, clock });
    this.pageCache = new PageCache({ budgetBytes: WEIGHTS_BUDGET_BYTES, onChange: (bytes) => this.#showHost(bytes) });
    const ground: Ground = {
      clock,
      random: new Random(seed),
      table: this.table,
      vram: this.vram,
      processes: this.processes,
      pageCache: this.pageCache,
      timing: TIMINGS[profile],
      pace: paceOf(card, options.silicon ?? MEASURED_SILICON, seed),
      driverHolds: options.driverHolds ?? true,
      onError: (error) => this.errors.push(error),
    };
    addCompositor(ground);
    this.thirdParty = new ThirdParty(ground);
    const models = options.ollamaModels ?? demoModels();
    this.ollama = new OllamaServer({ ground, version: ollamaVersion, models, port: options.ollamaPort ?? 0 });
    this.comfy = new ComfyServer({
      ground,
      models: options.comfyModels ?? demoComfyModels(),
      port: options.comfyPort ?? 0,
      hostBytes: HOST_BYTES,
    });
    this.#warmAll();
    this.#sensors = new SensorModel(ground, () => {
      const imagePct = this.vram.smPctOf(this.comfy.pid ?? 0);
      return { imagePct, otherPct: imagePct === this.vram.smPct ? 0 : this.vram.smPct };
    });
  }

  gpu(reader: (nvml: Nvml) => CardReader): Gpu {
    return labGpu({ table: this.table, clock: this.clock, reader });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#sensors.stop();
    this.thirdParty.stop();
    this.processes.close();
    await Promise.all([this.ollama[Symbol.asyncDispose](), this.comfy[Symbol.asyncDispose]()]);
  }

  /** A morning after: yesterday's language models are still in memory, the checkpoints aren't. */
  #warmAll(): void {
    this.#showHost(0);
    for (const model of this.comfy.models) this.comfy.warm(model.name, 0.1);
    for (const model of this.ollama.installed) this.ollama.warm(model.name, 1);
  }

  #showHost(weightsBytes: number): void {
    this.processes.setHost({
      totalBytes: HOST_BYTES,
      applicationBytes: APPLICATION_BYTES,
      cachedBytes: OTHER_CACHED_BYTES + weightsBytes,
    });
  }
}

/** The desktop: a compositor with next to nothing on the card. */
function addCompositor(ground: Ground): void {
  const exe = "/usr/bin/gnome-shell";
  const { pid } = ground.processes.spawn({
    parentPid: 1,
    name: "gnome-shell",
    args: [exe],
    exe,
    cwd: "/home/user",
    cgroup: "/user.slice/user-1000.slice/user@1000.service/session.slice/org.gnome.Shell@wayland.service",
    uid: 1_000,
  });
  ground.vram.enter(pid, "graphics");
  ground.vram.allocate(pid, COMPOSITOR_BYTES);
}
