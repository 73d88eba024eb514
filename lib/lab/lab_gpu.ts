import type { Nvml } from "../../ffi/nvml.ts";
import { type Clock, type Gpu, GpuUnavailable, type Timer } from "../model/ports.ts";
import type { BarrierReading, GpuFacts, GpuReading } from "../model/sample.ts";
import type { GpuTable } from "./gpu_table.ts";
import { LabClock } from "./lab_clock.ts";

/** What turns a library into readings; lib/sample's reader fits. */
export interface CardReader {
  facts(): GpuFacts;
  read(): GpuReading;
  readBarrier(): BarrierReading;
}

export interface LabGpuOptions {
  readonly table: GpuTable;
  readonly clock: Clock;
  /** Makes the reader over the table; called again after each failure, as a client re-initialises its library. */
  readonly reader: (nvml: Nvml) => CardReader;
  /** How long a held call is waited for. */
  readonly deadlineMs?: number;
}

/**
 * The card without a Worker: everything happens on the given clock, so a test owns each millisecond. A call that the
 * table holds back is waited for; one that stays out is `wedged`, as behind a real Worker.
 */
export function labGpu(options: LabGpuOptions): Gpu {
  return new InProcessGpu(options);
}

class InProcessGpu implements Gpu {
  readonly #options: LabGpuOptions;
  #open: { readonly nvml: Nvml; readonly reader: CardReader } | null = null;
  #watch: Timer | null = null;
  #isClosed = false;

  constructor(options: LabGpuOptions) {
    this.#options = options;
  }

  async facts(signal?: AbortSignal): Promise<GpuFacts> {
    await this.#reachable(signal);
    return this.#ask((reader) => reader.facts());
  }

  async read(signal?: AbortSignal): Promise<GpuReading> {
    await this.#reachable(signal);
    return this.#ask((reader) => reader.read());
  }

  watch(onReading: (reading: BarrierReading) => void, onLost: (cause: GpuUnavailable) => void): Timer {
    const { clock, table } = this.#options;
    this.#watch?.stop();
    const tick = () => {
      if (table.isWedged || table.isHeld) return;
      let reading: BarrierReading;
      try {
        reading = this.#ask((reader) => reader.readBarrier());
      } catch (cause) {
        timer.stop();
        onLost(unavailable(cause));
        return;
      }
      onReading(reading);
    };
    const timer = clock instanceof LabClock ? clock.everyQuietly(1, tick) : clock.every(1, tick);
    this.#watch = timer;
    return timer;
  }

  close(): Promise<void> {
    this.#isClosed = true;
    this.#watch?.stop();
    this.#drop();
    return Promise.resolve();
  }

  #ask<T>(question: (reader: CardReader) => T): T {
    if (this.#isClosed) throw new GpuUnavailable("absent", "Cannot read a card that was closed", "Open it again");
    try {
      this.#open ??= this.#start();
      return question(this.#open.reader);
    } catch (cause) {
      this.#drop();
      throw unavailable(cause);
    }
  }

  #start(): { readonly nvml: Nvml; readonly reader: CardReader } {
    const nvml = this.#options.table.open();
    return { nvml, reader: this.#options.reader(nvml) };
  }

  #drop(): void {
    this.#open?.nvml.close();
    this.#open = null;
  }

  async #reachable(signal?: AbortSignal): Promise<void> {
    const { clock, table, deadlineMs = 1_000 } = this.#options;
    for (let waitedMs = 0; table.isWedged || table.isHeld; waitedMs += 1) {
      if (waitedMs >= deadlineMs) {
        throw new GpuUnavailable(
          "wedged",
          `Cannot read the simulated GPU: a driver call has not returned for ${deadlineMs} ms`,
          "Wait for the driver, or restart the box",
        );
      }
      await clock.sleep(1, signal);
    }
  }
}

function unavailable(cause: unknown): GpuUnavailable {
  if (cause instanceof GpuUnavailable) return cause;
  const message = cause instanceof Error ? cause.message : String(cause);
  return new GpuUnavailable("lost", message, "Wait for the driver to come back", { cause });
}
