/** The Worker's side of the card: an open library, or the reason why there is none. */
import { type Libc, openLibc } from "../../ffi/libc.ts";
import { type Nvml, openNvml } from "../../ffi/nvml.ts";
import { openGpuTable } from "../lab/gpu_table.ts";
import { type Clock, GpuUnavailable } from "../model/ports.ts";
import type { BarrierReading, GpuFacts, GpuReading } from "../model/sample.ts";
import { toGpuUnavailable } from "../sample/gpu_failure.ts";
import { type GpuReader, openGpuReader } from "../sample/gpu_reader.ts";
import { isGpuAsleep } from "../sample/gpu_sleep.ts";
import type { NvmlConfig } from "./nvml_protocol.ts";

interface OpenCard {
  readonly nvml: Nvml;
  readonly reader: GpuReader;
  readonly facts: GpuFacts;
}

/**
 * Opens the library when it is first needed, and anew after an error that means the card. Every call blocks, and throws
 * GpuUnavailable; how often to try again is the client's business.
 */
export class NvmlSession implements Disposable {
  readonly #config: NvmlConfig;
  readonly #clock: Clock;
  readonly #libc: Libc = openLibc();
  #card: OpenCard | null = null;

  constructor(config: NvmlConfig, clock: Clock) {
    this.#config = config;
    this.#clock = clock;
  }

  facts(): GpuFacts {
    this.#letSleep();
    return this.#with((card) => card.facts);
  }

  read(options: { readonly isQuick: boolean }): GpuReading {
    this.#letSleep();
    return this.#with((card) => card.reader.read(options));
  }

  readBarrier(): BarrierReading {
    return this.#with((card) => card.reader.readBarrier());
  }

  [Symbol.dispose](): void {
    this.#drop();
    this.#libc[Symbol.dispose]();
  }

  #with<T>(question: (card: OpenCard) => T): T {
    try {
      this.#card ??= this.#open();
      return question(this.#card);
    } catch (error) {
      this.#drop();
      throw toGpuUnavailable(error);
    }
  }

  #open(): OpenCard {
    const nvml = this.#openLibrary();
    try {
      const reader = openGpuReader(nvml, { clock: this.#clock, choice: this.#config.choice });
      return { nvml, reader, facts: reader.facts() };
    } catch (error) {
      nvml.close();
      throw error;
    }
  }

  #openLibrary(): Nvml {
    const { source } = this.#config;
    if (source.kind === "simulated") return openGpuTable(source.table);
    return openNvml({
      readText: (path) => this.#libc.readText(path),
      ...(source.paths === null ? {} : { paths: source.paths }),
    });
  }

  #drop(): void {
    this.#card?.nvml.close();
    this.#card = null;
  }

  /** A card the kernel has put to sleep isn't woken to be polled. What is open stays open: closing would wake it too. */
  #letSleep(): void {
    if (this.#config.source.kind === "simulated") return;
    const pciBusId = this.#card?.facts.pciBusId ?? null;
    if (!isGpuAsleep(this.#libc, { sysRoot: this.#config.sysRoot, pciBusId })) return;
    throw new GpuUnavailable(
      "asleep",
      "Cannot read the GPU without waking it: it is runtime-suspended",
      "Nothing to do: it is read again as soon as a program uses it",
    );
  }
}
