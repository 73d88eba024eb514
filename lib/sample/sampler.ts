/**
 * The sampler: reads the machine once a second, for everyone. A source that fails costs its own fields, never the
 * sample; each reports how long it took and when it last answered.
 */
import { messageOf } from "../model/failure.ts";
import { type Clock, type Gpu, GpuUnavailable, type Proc } from "../model/ports.ts";
import type { GpuFacts, GpuReading, GpuState, Sample, SourceName, SourceReport } from "../model/sample.ts";
import type { Runner } from "../model/tenants.ts";
import { attribute, type BucketMemory, NO_MEMORY } from "./attribution.ts";
import type { ComfyWatch } from "./comfy_watch.ts";
import { readHostMemory } from "./meminfo.ts";
import type { OllamaWatch } from "./ollama_watch.ts";
import type { TenantProcesses, TenantReading } from "./tenant_processes.ts";

export interface SamplerParts {
  readonly clock: Clock;
  readonly isSimulated: boolean;
  readonly gpu: Gpu;
  readonly proc: Proc;
  readonly tenants: TenantProcesses;
  /** Names of display servers and compositors. */
  readonly desktop: readonly string[];
  readonly ollama: Pick<OllamaWatch, "state" | "report">;
  readonly comfy: Pick<ComfyWatch, "state" | "report" | "argv">;
}

const NEVER: SourceReport = { ok: false, durationMs: 0, lastOkAtMs: null, lastError: "Not read yet" };

export class Sampler {
  readonly #parts: SamplerParts;
  readonly #reports = new Map<SourceName, SourceReport>();
  #facts: GpuFacts | null = null;
  #buckets: BucketMemory = NO_MEMORY;
  #seq = 0;

  constructor(parts: SamplerParts) {
    this.#parts = parts;
  }

  async sample(): Promise<Sample> {
    const { clock, isSimulated, ollama, comfy } = this.#parts;
    const reading = await this.#readGpu();
    const memory = this.#try("meminfo", () => readHostMemory(this.#parts.proc));
    const tenants = this.#try("processes", () => this.#readTenants());
    const gpu = "available" in reading ? reading : this.#attributed(reading, tenants);
    return {
      seq: this.#seq++,
      atMs: clock.wallMs(),
      monotonicMs: clock.monotonicMs(),
      simulated: isSimulated,
      gpu,
      memory,
      ollama: { ...ollama.state(), server: tenants?.ollamaServer ?? null, runners: tenants?.runners ?? [] },
      comfy: { ...comfy.state(), server: tenants?.comfyServer ?? null, serverCpuTicks: cpuTicksOf(tenants) },
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

  /** The server's runners as they are at this moment, between two samples. Throws when /proc can't be read. */
  runners(): readonly Runner[] {
    return this.#readTenants().runners;
  }

  #readTenants(): TenantReading {
    const { tenants, ollama, comfy } = this.#parts;
    return tenants.read({
      isOllamaOnline: ollama.state().online,
      isComfyOnline: comfy.state().online,
      comfyArgv: comfy.argv(),
    });
  }

  #attributed(
    { facts, reading }: { readonly facts: GpuFacts; readonly reading: GpuReading },
    tenants: TenantReading | null,
  ): GpuState {
    const { breakdown, memory } = attribute({
      usedBytes: reading.memory?.usedBytes ?? null,
      gpuProcesses: reading.processes,
      smPctByPid: reading.smPctByPid,
      processes: tenants?.processes ?? null,
      roles: tenants?.roles ?? new Map(),
      desktop: this.#parts.desktop,
      memory: this.#buckets,
    });
    this.#buckets = memory;
    return { available: true, facts, reading, breakdown };
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

function cpuTicksOf(tenants: TenantReading | null): number | null {
  const pid = tenants?.comfyServer?.pid;
  return pid === undefined ? null : tenants?.processes.get(pid)?.cpuTicks ?? null;
}
