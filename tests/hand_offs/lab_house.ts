/** The whole house over a simulated box, on whichever clock and card the caller brings. */
import { openLibc } from "../../ffi/libc.ts";
import { type House, openHouse } from "../../lib/house.ts";
import { type Box, type BoxOptions, openBox } from "../../lib/lab/box.ts";
import { DEFAULT_POLICY, type Policy } from "../../lib/model/policy.ts";
import type { Clock, Gpu, Log, Store } from "../../lib/model/ports.ts";
import { openProc } from "../../lib/sample/proc.ts";
import { tenantProcesses } from "../../lib/sample/tenant_processes.ts";
import { GIB } from "../../lib/model/units.ts";
import { connectComfy } from "../../lib/upstream/comfy.ts";
import { portOf } from "../../lib/upstream/locality.ts";
import { connectOllama } from "../../lib/upstream/ollama.ts";

export interface LabHouse extends AsyncDisposable {
  readonly box: Box;
  readonly house: House;
}

export interface LabHouseOptions {
  readonly clock: Clock;
  readonly store: Store;
  readonly seed: number;
  /** The card as the house reads it. */
  readonly gpu: (box: Box) => Gpu;
  readonly policy?: Partial<Policy>;
  /** What the box is to be beside an H200's pace; the driver never holds calls back unless that is asked for. */
  readonly machine?: Pick<BoxOptions, "profile" | "ollamaVersion" | "ollamaModels" | "driverHolds" | "card">;
  /** Waits for a promise while the box's clock moves on. */
  readonly settle: <T>(promise: Promise<T>) => Promise<T>;
}

const silent: Log = { debug() {}, info() {}, warn() {}, error: (message, fields) => console.error(message, fields) };

export async function openLabHouse(options: LabHouseOptions): Promise<LabHouse> {
  const { clock, store, settle } = options;
  const dir = await Deno.makeTempDir({ prefix: "hyperswap-lab-" });
  const box = await openBox({
    profile: "h200",
    driverHolds: false,
    ...options.machine,
    clock,
    dir,
    seed: options.seed,
  });
  const libc = openLibc();
  const proc = openProc(libc, box.procRoot);
  const gpu = options.gpu(box);
  const house = await openHouse({
    clock,
    log: silent,
    gpu,
    proc,
    tenants: tenantProcesses({
      proc,
      clock,
      ollamaPort: portOf(box.ollama.url),
      comfyPort: portOf(box.comfy.url),
    }),
    ollama: connectOllama({ url: box.ollama.url, clock }),
    comfy: connectComfy({ url: box.comfy.url, clock }),
    store,
    desktop: [],
    record: () => {},
    // ComfyUI is said to need the whole card, so that it never learns that both would fit.
    policy: { ...DEFAULT_POLICY, needs: { comfyui: 16 * GIB }, ...options.policy },
    about: { version: "0.0.0", pid: 1, startedAtMs: clock.wallMs(), simulation: "a lab" },
    ticked: () => {},
  });
  await settle(house.ready);
  return {
    box,
    house,
    async [Symbol.asyncDispose]() {
      await settle(house.close());
      await gpu.close();
      await box[Symbol.asyncDispose]();
      libc[Symbol.dispose]();
      await Deno.remove(dir, { recursive: true });
      if (box.errors.length > 0) throw new AggregateError(box.errors, "The lab's own code failed");
    },
  };
}
