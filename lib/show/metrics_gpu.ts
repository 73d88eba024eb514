/** The card and who holds it, as Prometheus gauges in base units: bytes, watts, hertz, ratios. */
import type { Registry } from "prom-client";
import type { Snapshot } from "../model/services.ts";
import { gauge } from "./metrics_gauge.ts";

const MHZ = 1e6;

/** Throttle reasons worth an alert, by the driver's bit (nvml.h, nvmlClocksEventReasons). */
const THROTTLES = { software_thermal: 0x20, hardware_thermal: 0x40, power_brake: 0x80, power_cap: 0x4 } as const;

const NOT_COUNTED = { power: null, softwareThermal: null, hardwareThermal: null, powerBrake: null };

/** Makes the gauges; the answer sets them. */
export function gpuGauges(registry: Registry): (snapshot: Snapshot | null) => void {
  const card = ["uuid", "name"];
  const up = gauge(registry, "gpu_up", "1 while the card can be read", []);
  const memory = gauge(registry, "gpu_memory_bytes", "VRAM by state: used, free, total", ["state", ...card]);
  const buckets = gauge(registry, "vram_bytes", "VRAM by who holds it", ["bucket"]);
  const util = gauge(registry, "gpu_utilization_ratio", "Share of the time that the card worked", ["unit", ...card]);
  const temperature = gauge(registry, "gpu_temperature_celsius", "Temperature", ["sensor", ...card]);
  const power = gauge(registry, "gpu_power_watts", "Power drawn", card);
  const limit = gauge(registry, "gpu_power_limit_watts", "Power limit in force", card);
  const fan = gauge(registry, "gpu_fan_ratio", "Speed of each fan", ["fan", ...card]);
  const clock = gauge(registry, "gpu_clock_hertz", "Clock", ["clock", ...card]);
  const throttled = gauge(registry, "gpu_throttled", "1 while the driver throttles for that reason", [
    "reason",
    ...card,
  ]);
  const held = gauge(registry, "gpu_throttled_seconds", "Time throttled since the driver was loaded, by reason", [
    "reason",
    ...card,
  ]);
  const pcie = gauge(registry, "gpu_pcie_bytes_per_second", "PCIe traffic, over 20 ms", ["direction", ...card]);
  const all = [memory, buckets, util, temperature, power, limit, fan, clock, throttled, held, pcie];
  return (snapshot) => {
    for (const { clear } of all) clear();
    const gpu = snapshot?.sample.gpu;
    up.set(Number(gpu?.available ?? false));
    if (gpu?.available !== true) return;
    const { reading, breakdown, facts } = gpu;
    const of = { uuid: facts.uuid, name: facts.name };
    memory.set(reading.memory?.usedBytes, { state: "used", ...of });
    memory.set(reading.memory?.freeBytes, { state: "free", ...of });
    memory.set(reading.memory?.totalBytes, { state: "total", ...of });
    buckets.set(breakdown.ollamaBytes, { bucket: "ollama" });
    buckets.set(breakdown.comfyBytes, { bucket: "comfyui" });
    buckets.set(breakdown.desktopBytes, { bucket: "desktop" });
    buckets.set(breakdown.unmanagedBytes, { bucket: "unmanaged" });
    buckets.set(breakdown.unaccountedBytes, { bucket: "unaccounted" });
    util.set(ratio(reading.gpuUtilPct), { unit: "sm", ...of });
    util.set(ratio(reading.memoryUtilPct), { unit: "memory", ...of });
    temperature.set(reading.temperatureC, { sensor: "core", ...of });
    temperature.set(reading.memoryTemperatureC, { sensor: "memory", ...of });
    power.set(reading.powerW, of);
    limit.set(reading.powerLimitW, of);
    reading.fans.forEach(({ pct }, index) => fan.set(ratio(pct), { fan: String(index), ...of }));
    clock.set(hertz(reading.clocks.graphicsMhz), { clock: "graphics", ...of });
    clock.set(hertz(reading.clocks.memoryMhz), { clock: "memory", ...of });
    const { throttleReasons: bits } = reading;
    for (const [reason, bit] of Object.entries(THROTTLES)) {
      throttled.set(bits === null ? null : Number((bits & bit) !== 0), { reason, ...of });
    }
    const { power: cappedMs, softwareThermal, hardwareThermal, powerBrake } = reading.throttledMs ?? NOT_COUNTED;
    held.set(seconds(cappedMs), { reason: "power_cap", ...of });
    held.set(seconds(softwareThermal), { reason: "software_thermal", ...of });
    held.set(seconds(hardwareThermal), { reason: "hardware_thermal", ...of });
    held.set(seconds(powerBrake), { reason: "power_brake", ...of });
    pcie.set(bytes(reading.pcie.rxKbps), { direction: "rx", ...of });
    pcie.set(bytes(reading.pcie.txKbps), { direction: "tx", ...of });
  };
}

function ratio(pct: number | null): number | null {
  return pct === null ? null : pct / 100;
}

function hertz(mhz: number | null): number | null {
  return mhz === null ? null : mhz * MHZ;
}

function seconds(ms: number | null): number | null {
  return ms === null ? null : ms / 1000;
}

/** NVML counts PCIe in KB/s of 1,024 bytes. */
function bytes(kbps: number | null): number | null {
  return kbps === null ? null : kbps * 1_024;
}
