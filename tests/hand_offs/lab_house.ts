/** The whole house over a simulated box, on whichever clock and card the caller brings. */
import { openLibc } from "../../ffi/libc.ts";
import { type House, openHouse } from "../../lib/house.ts";
import type { HousePorts } from "../../lib/house_ports.ts";
import { type Box, type BoxOptions, openBox } from "../../lib/lab/box.ts";
import { labEndRunner } from "../../lib/lab/end_runner.ts";
import { DEFAULT_POLICY, type Policy } from "../../lib/model/policy.ts";
import type { Clock, EndRunner, Gpu, Log, Store } from "../../lib/model/ports.ts";
import { openProc } from "../../lib/sample/proc.ts";
import { tenantProcesses } from "../../lib/sample/tenant_processes.ts";
import { GIB } from "../../lib/model/units.ts";
import { connectComfy } from "../../lib/upstream/comfy.ts";
import { portOf } from "../../lib/upstream/locality.ts";
import { connectOllama } from "../../lib/upstream/ollama.ts";

/** Where a house finds a box: all it is told of the machine it runs on. */
export interface Site {
  readonly procRoot: string;
  readonly ollamaUrl: string;
  readonly comfyUrl: string;
}

export interface OpenHouse extends AsyncDisposable {
  readonly house: House;
}

export interface LabHouse extends OpenHouse {
  readonly box: Box;
  /** The box's folder: it goes with the house. */
  readonly dir: string;
}

/** What the house gets besides, or instead. */
export type Furniture = Partial<Pick<HousePorts, "about" | "cache" | "log" | "tuning">>;

export interface HouseOptions {
  readonly clock: Clock;
  readonly store: Store;
  readonly policy?: Partial<Policy>;
  readonly ports?: Furniture;
  /** Waits for a promise while the box's clock moves on. */
  readonly settle: <T>(promise: Promise<T>) => Promise<T>;
}

export interface LabHouseOptions extends Omit<HouseOptions, "ports"> {
  readonly seed?: number;
  /** Made for this box, before the house is opened. */
  readonly furnish?: (box: Box, dir: string) => Furniture;
  /** The card as the house reads it. */
  readonly gpu: (box: Box) => Gpu;
  /** What the box is to be beside an H200's pace; the driver never holds calls back unless that is asked for. */
  readonly machine?: Omit<BoxOptions, "clock" | "dir" | "seed">;
}

const silent: Log = { debug() {}, info() {}, warn() {}, error: (message, fields) => console.error(message, fields) };

export async function openLabHouse(options: LabHouseOptions): Promise<LabHouse> {
  const { clock, seed = 1, furnish } = options;
  const dir = await Deno.makeTempDir({ prefix: "hyperswap-lab-" });
  const box = await openBox({ profile: "h200", driverHolds: false, ...options.machine, clock, dir, seed });
  const open = await openHouseOn(siteOf(box), {
    ...options,
    ...(furnish === undefined ? {} : { ports: furnish(box, dir) }),
    gpu: options.gpu(box),
    endRunner: labEndRunner(box),
  });
  return {
    box,
    dir,
    house: open.house,
    async [Symbol.asyncDispose]() {
      await open[Symbol.asyncDispose]();
      await box[Symbol.asyncDispose]();
      await Deno.remove(dir, { recursive: true });
      if (box.errors.length > 0) throw new AggregateError(box.errors, "The lab's own code failed");
    },
  };
}

export function siteOf({ procRoot, ollama, comfy }: Box): Site {
  return { procRoot, ollamaUrl: ollama.url, comfyUrl: comfy.url };
}

/** The house on a box that is open already, in this thread or another; it closes the card it was given. */
export async function openHouseOn(
  { procRoot, ollamaUrl, comfyUrl }: Site,
  { clock, store, settle, gpu, policy, ports, endRunner }: HouseOptions & {
    readonly gpu: Gpu;
    readonly endRunner?: EndRunner;
  },
): Promise<OpenHouse> {
  const libc = openLibc();
  const proc = openProc(libc, procRoot);
  const house = await openHouse({
    clock,
    log: silent,
    gpu,
    proc,
    tenants: tenantProcesses({ proc, clock, ollamaPort: portOf(ollamaUrl), comfyPort: portOf(comfyUrl) }),
    ollama: connectOllama({ url: ollamaUrl, clock }),
    comfy: connectComfy({ url: comfyUrl, clock }),
    store,
    ...(endRunner === undefined ? {} : { endRunner }),
    desktop: [],
    record: () => {},
    // ComfyUI is said to need the whole card, so that it never learns that both would fit.
    policy: { ...DEFAULT_POLICY, needs: { comfyui: 16 * GIB }, ...policy },
    about: { version: "0.0.0", pid: 1, startedAtMs: clock.wallMs(), simulation: "a lab" },
    ticked: () => {},
    ...ports,
  });
  await settle(house.ready);
  return {
    house,
    async [Symbol.asyncDispose]() {
      await settle(house.close());
      await gpu.close();
      libc[Symbol.dispose]();
    },
  };
}
