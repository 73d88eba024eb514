/** A connected card on a clock of its own, and what tests of it wait for. */
import assert from "node:assert/strict";
import { type Gpu, GpuUnavailable, type Log } from "../../lib/model/ports.ts";
import type { BarrierReading } from "../../lib/model/sample.ts";
import { connectGpu, type ConnectGpuOptions } from "../../lib/workers/nvml_client.ts";
import { type Stub, stubTest } from "../stub/compile_stub.ts";
import { ManualClock } from "./manual_clock.ts";

/** Waits for a condition that other threads bring about. */
export async function until(holds: () => boolean, what: string): Promise<void> {
  for (let look = 0; look < 10_000; look++) {
    if (holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  throw new assert.AssertionError({ message: `never came: ${what}` });
}

export async function refused(call: Promise<unknown>): Promise<GpuUnavailable> {
  try {
    await call;
  } catch (error) {
    assert.ok(error instanceof GpuUnavailable, String(error));
    return error;
  }
  throw new assert.AssertionError({ message: "nothing was refused" });
}

/** Waits until the card can be read again. */
export async function healed(gpu: Gpu, clock: ManualClock): Promise<void> {
  let isHealed = false;
  for (let look = 0; look < 10_000 && !isHealed; look++) {
    clock.advance(1_000);
    // The answer may be a while in coming; the clock that judges it stands still.
    isHealed = await gpu.read().then(() => true, () => false);
    if (!isHealed) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  assert.ok(isHealed);
}

export interface Given {
  readonly gpu: Gpu;
  readonly clock: ManualClock;
  readonly logged: string[];
}

/** A connected card on a clock of its own, closed afterwards. */
export async function withGpu(
  options: Pick<ConnectGpuOptions, "source"> & Partial<ConnectGpuOptions>,
  run: (given: Given) => Promise<void>,
): Promise<void> {
  const clock = new ManualClock();
  const logged: string[] = [];
  const note = (message: string) => void logged.push(message);
  const log: Log = { debug: note, info: note, warn: note, error: note };
  const gpu = connectGpu({ clock, log, choice: { uuid: null, index: null }, sysRoot: "/nonexistent", ...options });
  try {
    await run({ gpu, clock, logged });
  } finally {
    await gpu.close();
    assert.equal(clock.armed, 0, "no timer outlives the client");
  }
}

export function gpuTest(name: string, run: (given: Given & { readonly stub: Stub }) => Promise<void>): void {
  stubTest(
    name,
    (stub) => withGpu({ source: { kind: "library", paths: [stub.path] } }, (given) => run({ ...given, stub })),
  );
}

/** Watches, and keeps what comes. */
export function watch(gpu: Gpu) {
  const readings: BarrierReading[] = [];
  const lost: GpuUnavailable[] = [];
  const timer = gpu.watch((reading) => readings.push(reading), (cause) => lost.push(cause));
  return { readings, lost, stop: () => timer.stop() };
}
