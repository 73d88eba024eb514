/** The whole house over the lab, on a clock that only its owner advances: what the doors are compared on. */
import { openLibc } from "../../ffi/libc.ts";
import { openHouse } from "../../lib/house.ts";
import { openBox } from "../../lib/lab/box.ts";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { DEFAULT_POLICY } from "../../lib/model/policy.ts";
import type { Log } from "../../lib/model/ports.ts";
import { memoryStore } from "../../lib/record/memory_store.ts";
import { openGpuReader } from "../../lib/sample/gpu_reader.ts";
import { openProc } from "../../lib/sample/proc.ts";
import { tenantProcesses } from "../../lib/sample/tenant_processes.ts";
import { connectComfy } from "../../lib/upstream/comfy.ts";
import { portOf } from "../../lib/upstream/locality.ts";
import { connectOllama } from "../../lib/upstream/ollama.ts";
import type { DriftBox } from "./drift_doors.ts";

/** More than any operation takes in lab time. */
const LIMIT_MS = 120_000;

/** Questions are asked at multiples of this, and a little after whatever happens each second. */
const STEP_MS = 1_000;
const PHASE_MS = 130;

const silent: Log = { debug() {}, info() {}, warn() {}, error() {} };

/** A box with a model loaded, ComfyUI idle and a run that has ended: the same each time. */
export async function openLabBox(): Promise<DriftBox> {
  const clock = new LabClock();
  const dir = await Deno.makeTempDir({ prefix: "hyperswap-drift-lab-" });
  const box = await openBox({ clock, dir, driverHolds: false });
  const libc = openLibc();
  const proc = openProc(libc, box.procRoot);
  const [ollamaUrl, comfyUrl] = [box.ollama.url, box.comfy.url];
  const ports = new RegExp([ollamaUrl, comfyUrl].map(portOf).join("|"), "g");
  const defects: unknown[] = [];
  const startMs = clock.monotonicMs() - PHASE_MS;
  let travelling = 0;
  const unwatch = clock.watchBusy(() => travelling);
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
    about: { version: "0.1.0", pid: 77, startedAtMs: clock.wallMs(), simulation: "a lab" },
    ticked: () => {},
  });
  await clock.until(house.ready, { limitMs: LIMIT_MS, what: "the first sample" });
  await clock.advance(3_000);
  return {
    services: house.services,
    clock,
    report: (error) => `e${defects.push(error)}`,
    settle: (promise) => clock.until(promise, { limitMs: LIMIT_MS }),
    // Between two samples and two polls, at a round time that leaves every door the same room.
    align: () => clock.advance(STEP_MS - ((clock.monotonicMs() - startMs) % STEP_MS)),
    busy(isBusy) {
      travelling = isBusy ? 1 : 0;
      clock.stir();
    },
    // Ports are whatever was free: everything else is the same in each box.
    steady: (text) => text.replaceAll(ports, "PORT").replaceAll(/--port \d+/g, "--port PORT"),
    async close() {
      unwatch();
      await clock.until(house.close(), { limitMs: LIMIT_MS, what: "the house's end" });
      await box[Symbol.asyncDispose]();
      libc[Symbol.dispose]();
      await Deno.remove(dir, { recursive: true });
      if (defects.length + box.errors.length > 0) {
        throw new AggregateError([...defects, ...box.errors], "Defects in the box");
      }
    },
  };
}
