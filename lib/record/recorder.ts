import type { TelemetryRow } from "../model/history.ts";
import type { FanReading, Sample } from "../model/sample.ts";

/** The numbers of a sample that are kept. What isn't known is null there too. */
export function telemetryRow(sample: Sample): TelemetryRow {
  const { gpu, memory } = sample;
  const reading = gpu.available ? gpu.reading : null;
  const breakdown = gpu.available ? gpu.breakdown : null;
  return {
    atMs: sample.atMs,
    vramUsedBytes: reading?.memory?.usedBytes ?? null,
    ollamaBytes: breakdown?.ollamaBytes ?? null,
    comfyBytes: breakdown?.comfyBytes ?? null,
    desktopBytes: breakdown?.desktopBytes ?? null,
    unmanagedBytes: breakdown?.unmanagedBytes ?? null,
    unaccountedBytes: breakdown?.unaccountedBytes ?? null,
    gpuUtilPct: reading?.gpuUtilPct ?? null,
    memoryUtilPct: reading?.memoryUtilPct ?? null,
    temperatureC: reading?.temperatureC ?? null,
    memoryTemperatureC: reading?.memoryTemperatureC ?? null,
    powerW: reading?.powerW ?? null,
    powerLimitW: reading?.powerLimitW ?? null,
    fanPct: fastestPct(reading?.fans ?? []),
    graphicsMhz: reading?.clocks.graphicsMhz ?? null,
    memoryMhz: reading?.clocks.memoryMhz ?? null,
    throttleReasons: reading?.throttleReasons ?? null,
    pcieRxKbps: reading?.pcie.rxKbps ?? null,
    pcieTxKbps: reading?.pcie.txKbps ?? null,
    ramUsedBytes: memory?.applicationsBytes ?? null,
    ramCachedBytes: memory?.cachedBytes ?? null,
    ramAvailableBytes: memory?.availableBytes ?? null,
    comfyQueue: sample.comfy.queueRemaining,
  };
}

/** The fan that works hardest; null where the card has none or doesn't say. */
function fastestPct(fans: readonly FanReading[]): number | null {
  const known = fans.flatMap((fan) => fan.pct ?? []);
  return known.length === 0 ? null : Math.max(...known);
}
