/**
 * The sampler: reads the machine once a second, for everyone. A source that fails costs its own fields, never the
 * sample; each reports how long it took and when it last answered.
 */
import { messageOf } from "../model/failure.ts";
import { type Clock, type Gpu, GpuUnavailable } from "../model/ports.ts";
import type {
  Breakdown,
  GpuFacts,
  GpuReading,
  GpuState,
  HostMemory,
  Sample,
  SourceName,
  SourceReport,
} from "../model/sample.ts";
import type { ComfyState, OllamaState, ProcessId, Runner } from "../model/tenants.ts";

/** The tenants' processes, as /proc shows them now. */
export interface TenantView {
  readonly ollamaServer: ProcessId | null;
  readonly comfyServer: ProcessId | null;
  readonly runners: readonly Runner[];
}

export interface SamplerParts {
  readonly clock: Clock;
  readonly isSimulated: boolean;
  readonly gpu: Gpu;
  readonly readMemory: () => HostMemory;
  readonly readTenants: () => TenantView;
  /** Buckets for what is on the card. */
  readonly attribute: (reading: GpuReading, tenants: TenantView) => Breakdown;
  readonly ollama: { state(): Omit<OllamaState, "server" | "runners">; report(): SourceReport };
  readonly comfy: { state(): Omit<ComfyState, "server">; report(): SourceReport };
}

const NEVER: SourceReport = { ok: false, durationMs: 0, lastOkAtMs: null, lastError: "Not read yet" };
const NO_TENANTS: TenantView = { ollamaServer: null, comfyServer: null, runners: [] };

export class Sampler {
  readonly #parts: SamplerParts;
  readonly #reports = new Map<SourceName, SourceReport>();
  #facts: GpuFacts | null = null;
  #seq = 0;

  constructor(parts: SamplerParts) {
    this.#parts = parts;
  }

  async sample(): Promise<Sample> {
    const { clock, isSimulated, ollama, comfy } = this.#parts;
    const reading = await this.#readGpu();
    const memory = this.#try("meminfo", () => this.#parts.readMemory());
    const tenants = this.#try("processes", () => this.#parts.readTenants()) ?? NO_TENANTS;
    const gpu = "available" in reading ? reading : this.#attributed(reading, tenants);
    return {
      seq: this.#seq++,
      atMs: clock.wallMs(),
      monotonicMs: clock.monotonicMs(),
      simulated: isSimulated,
      gpu,
      memory,
      ollama: { ...ollama.state(), server: tenants.ollamaServer, runners: tenants.runners },
      comfy: { ...comfy.state(), server: tenants.comfyServer },
      sources: {
        nvml: this.#report("nvml"),
        meminfo: this.#report("meminfo"),
        processes: this.#report("processes"),
        ollama: ollama.report(),
        comfyui: comfy.report(),
      },
    };
  }

  async #readGpu(): Promise<GpuState | { readonly facts: GpuFacts; readonly reading: GpuReading }> {
    const { gpu, clock } = this.#parts;
    const startedMs = clock.monotonicMs();
    try {
      // Facts are asked for again after the card was away: it may be another one, or another driver.
      this.#facts ??= await gpu.facts();
      const reading = await gpu.read();
      this.#note("nvml", clock.monotonicMs() - startedMs, null);
      return { facts: this.#facts, reading };
    } catch (error) {
      this.#note("nvml", clock.monotonicMs() - startedMs, messageOf(error));
      const facts = this.#facts;
      if (!(error instanceof GpuUnavailable)) {
        return { available: false, kind: "refused", reason: messageOf(error), remedy: "See the service's log", facts };
      }
      if (error.kind !== "wedged" && error.kind !== "asleep") this.#facts = null;
      return { available: false, kind: error.kind, reason: error.message, remedy: error.remedy, facts };
    }
  }

  #attributed(
    { facts, reading }: { readonly facts: GpuFacts; readonly reading: GpuReading },
    tenants: TenantView,
  ): GpuState {
    return { available: true, facts, reading, breakdown: this.#parts.attribute(reading, tenants) };
  }

  #try<T>(source: SourceName, read: () => T): T | null {
    const { clock } = this.#parts;
    const startedMs = clock.monotonicMs();
    try {
      const value = read();
      this.#note(source, clock.monotonicMs() - startedMs, null);
      return value;
    } catch (error) {
      this.#note(source, clock.monotonicMs() - startedMs, messageOf(error));
      return null;
    }
  }

  #note(source: SourceName, durationMs: number, lastError: string | null): void {
    const lastOkAtMs = lastError === null ? this.#parts.clock.wallMs() : this.#report(source).lastOkAtMs;
    this.#reports.set(source, { ok: lastError === null, durationMs, lastOkAtMs, lastError });
  }

  #report(source: SourceName): SourceReport {
    return this.#reports.get(source) ?? NEVER;
  }
}
