/** The card as doors show it each second. The rarely changing rest is in gpu.ts. */
import * as z from "zod";
import type { AttributedProcess, Breakdown, GpuFacts, GpuReading, GpuState } from "../model/sample.ts";
import { round, toGib } from "../model/units.ts";
import { gib } from "./quantities.ts";

/** The driver's throttle bits, lowest first (facts: nvmlClocksThrottleReasons). */
const THROTTLE_BITS = [
  "gpu_idle",
  "applications_clocks_setting",
  "sw_power_cap",
  "hw_slowdown",
  "sync_boost",
  "sw_thermal_slowdown",
  "hw_thermal_slowdown",
  "hw_power_brake_slowdown",
  "display_clock_setting",
] as const;

export const GpuProcessWire = z.object({
  pid: z.int(),
  name: z.string(),
  bucket: z.enum(["ollama", "comfy", "desktop", "unmanaged"]).describe("who its VRAM is counted for"),
  vram_gb: gib("what it holds on the card; null where the driver doesn't say", null),
  sm_pct: z.number().nullable().describe("its own SM utilisation over the last second, %"),
  evidence: z.string().describe("why it is in that bucket"),
});

export const BreakdownWire = z.object({
  ollama_gb: gib("Ollama's runners", null),
  comfyui_gb: gib("ComfyUI", null),
  desktop_gb: gib("display servers and compositors", null),
  unmanaged_gb: gib("every other process: the arbiter can never give this back", null),
  unaccounted_gb: gib("used, less all processes", null),
  free_gb: gib("free by the driver", null),
  processes: z.array(GpuProcessWire),
});

export const GpuStatsWire = z.object({
  available: z.boolean(),
  state: z.enum(["ok", "absent", "wedged", "lost", "refused", "asleep"]),
  reason: z.string().nullable().describe("why the card can't be read"),
  remedy: z.string().nullable(),
  device_name: z.string().nullable(),
  uuid: z.string().nullable(),
  driver_version: z.string().nullable(),
  vram_total_gb: gib("all the card has", null),
  vram_used_gb: gib("used by the driver's count, without its own reserve", null),
  vram_free_gb: gib("free", null),
  vram_used_pct: z.number().nullable(),
  gpu_util_pct: z.number().nullable(),
  memory_util_pct: z.number().nullable(),
  temperature_c: z.number().nullable(),
  memory_temperature_c: z.number().nullable(),
  slowdown_c: z.number().nullable().describe("where the card slows itself down, °C"),
  power_w: z.number().nullable(),
  power_limit_w: z.number().nullable(),
  fan_pct: z.number().nullable().describe("the fastest fan; null where the card has none or doesn't say"),
  pstate: z.string().nullable().describe("P0 (fastest) to P15"),
  throttle_reasons: z.array(z.string()).nullable(),
  throttled_ms: z.object({
    sw_power_cap: z.number().nullable(),
    sw_thermal_slowdown: z.number().nullable(),
    hw_thermal_slowdown: z.number().nullable(),
    hw_power_brake_slowdown: z.number().nullable(),
  }).describe("time held back since the driver was loaded, ms: what throttles between two samples shows here"),
  clocks: z.object({
    graphics_mhz: z.number().nullable(),
    sm_mhz: z.number().nullable(),
    memory_mhz: z.number().nullable(),
    video_mhz: z.number().nullable(),
  }),
  pcie: z.object({
    gen: z.number().nullable(),
    width: z.number().nullable(),
    max_gen: z.number().nullable(),
    max_width: z.number().nullable(),
  }),
  breakdown: BreakdownWire,
});
export type GpuStats = z.output<typeof GpuStatsWire>;

/** The card's share of `/api/stats`. An unreadable card keeps its facts and says why. */
export function viewGpuStats(gpu: GpuState): GpuStats {
  const reading = gpu.available ? gpu.reading : null;
  return {
    available: gpu.available,
    state: gpu.available ? "ok" : gpu.kind,
    reason: gpu.available ? null : gpu.reason,
    remedy: gpu.available ? null : gpu.remedy,
    ...viewFacts(gpu.facts),
    ...viewMemoryOf(reading, gpu.facts),
    ...viewSensors(reading),
    clocks: {
      graphics_mhz: reading?.clocks.graphicsMhz ?? null,
      sm_mhz: reading?.clocks.smMhz ?? null,
      memory_mhz: reading?.clocks.memoryMhz ?? null,
      video_mhz: reading?.clocks.videoMhz ?? null,
    },
    pcie: {
      gen: reading?.pcie.gen ?? null,
      width: reading?.pcie.width ?? null,
      max_gen: gpu.facts?.pcieMaxGen ?? null,
      max_width: gpu.facts?.pcieMaxWidth ?? null,
    },
    breakdown: viewBreakdown(gpu.available ? gpu.breakdown : null, reading?.memory?.freeBytes ?? null),
  };
}

function viewFacts(facts: GpuFacts | null) {
  return {
    device_name: facts?.name ?? null,
    uuid: facts?.uuid ?? null,
    driver_version: facts?.driverVersion ?? null,
    slowdown_c: facts?.thresholds.slowdownC ?? null,
  };
}

function viewMemoryOf(reading: GpuReading | null, facts: GpuFacts | null) {
  const memory = reading?.memory ?? null;
  return {
    vram_total_gb: toGib(memory?.totalBytes ?? facts?.memoryTotalBytes ?? null),
    vram_used_gb: toGib(memory?.usedBytes ?? null),
    vram_free_gb: toGib(memory?.freeBytes ?? null),
    vram_used_pct: memory === null || memory.totalBytes === 0
      ? null
      : round((memory.usedBytes / memory.totalBytes) * 100),
  };
}

function viewSensors(reading: GpuReading | null) {
  return {
    gpu_util_pct: round(reading?.gpuUtilPct ?? null, 0),
    memory_util_pct: round(reading?.memoryUtilPct ?? null, 0),
    temperature_c: round(reading?.temperatureC ?? null, 0),
    memory_temperature_c: round(reading?.memoryTemperatureC ?? null, 0),
    power_w: round(reading?.powerW ?? null, 1),
    power_limit_w: round(reading?.powerLimitW ?? null, 1),
    fan_pct: fastestFanPct(reading),
    pstate: reading === null || reading.pstate === null ? null : `P${reading.pstate}`,
    throttle_reasons: throttleNames(reading?.throttleReasons ?? null),
    throttled_ms: {
      sw_power_cap: round(reading?.throttledMs?.power ?? null, 0),
      sw_thermal_slowdown: round(reading?.throttledMs?.softwareThermal ?? null, 0),
      hw_thermal_slowdown: round(reading?.throttledMs?.hardwareThermal ?? null, 0),
      hw_power_brake_slowdown: round(reading?.throttledMs?.powerBrake ?? null, 0),
    },
  };
}

function fastestFanPct(reading: GpuReading | null): number | null {
  const known = (reading?.fans ?? []).flatMap((fan) => (fan.pct === null ? [] : [fan.pct]));
  return known.length === 0 ? null : Math.max(...known);
}

/** Names of the set bits; bits that no driver has documented keep their value. */
export function throttleNames(mask: number | null): string[] | null {
  if (mask === null) return null;
  const names: string[] = THROTTLE_BITS.filter((_, bit) => (mask & (1 << bit)) !== 0);
  // The driver's mask is 64 bits wide: arithmetic instead of `>>`, which would cut it to 32.
  const unknown = mask - (mask % 2 ** THROTTLE_BITS.length);
  return unknown === 0 ? names : [...names, `0x${unknown.toString(16)}`];
}

function viewBreakdown(breakdown: Breakdown | null, freeBytes: number | null): z.output<typeof BreakdownWire> {
  return {
    ollama_gb: toGib(breakdown?.ollamaBytes ?? null),
    comfyui_gb: toGib(breakdown?.comfyBytes ?? null),
    desktop_gb: toGib(breakdown?.desktopBytes ?? null),
    unmanaged_gb: toGib(breakdown?.unmanagedBytes ?? null),
    unaccounted_gb: toGib(breakdown?.unaccountedBytes ?? null),
    free_gb: toGib(freeBytes),
    processes: (breakdown?.processes ?? []).map(viewProcess),
  };
}

function viewProcess(process: AttributedProcess): z.output<typeof GpuProcessWire> {
  return {
    pid: process.pid,
    name: process.name,
    bucket: process.bucket,
    vram_gb: toGib(process.usedBytes),
    sm_pct: round(process.smPct, 0),
    evidence: process.evidence,
  };
}
