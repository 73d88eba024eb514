/** The whole house over the lab, on a clock that only its owner advances: what the doors are compared on. */
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { memoryStore } from "../../lib/record/memory_store.ts";
import { openGpuReader } from "../../lib/sample/gpu_reader.ts";
import { portOf } from "../../lib/upstream/locality.ts";
import { openLabHouse } from "../hand_offs/lab_house.ts";
import type { DriftBox } from "./drift_doors.ts";

/** More than any operation takes in lab time. */
const LIMIT_MS = 120_000;

/** Questions are asked at multiples of this, and a little after whatever happens each second. */
const STEP_MS = 1_000;
const PHASE_MS = 130;

/** A box with a model loaded, ComfyUI idle and a run that has ended: the same each time. */
export async function openLabBox(): Promise<DriftBox> {
  const clock = new LabClock();
  const startMs = clock.monotonicMs() - PHASE_MS;
  let travelling = 0;
  const unwatch = clock.watchBusy(() => travelling);
  const about = { version: "0.1.0", pid: 77, startedAtMs: clock.wallMs(), simulation: "a lab" };
  const lab = await openLabHouse({
    clock,
    store: memoryStore(),
    settle: (promise) => clock.until(promise, { limitMs: LIMIT_MS }),
    machine: { profile: "desktop" },
    gpu: (box) => box.gpu((nvml) => openGpuReader(nvml, { clock, choice: { uuid: null, index: 0 } })),
    policy: { needs: {} },
    furnish: () => ({ about }),
  });
  const ports = new RegExp([lab.box.ollama.url, lab.box.comfy.url].map(portOf).join("|"), "g");
  const defects: unknown[] = [];
  await clock.advance(3_000);
  return {
    services: lab.house.services,
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
      await lab[Symbol.asyncDispose]();
      if (defects.length > 0) throw new AggregateError(defects, "Defects in the box");
    },
  };
}
