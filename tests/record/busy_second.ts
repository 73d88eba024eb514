import type { TelemetryRow } from "../../lib/model/history.ts";
import { AT_MS, row } from "./store_contract.ts";

const MIB = 2 ** 20;

/** A busy 16 GB card: every figure known and moving, none of them small enough to cost nothing. */
export function busySecond(second: number): TelemetryRow {
  const swing = Math.sin(second / 37) / 2 + 0.5;
  return {
    ...row(AT_MS + second * 1_000),
    vramUsedBytes: (12_000 + Math.round(4_000 * swing)) * MIB,
    ollamaBytes: Math.round(11_000 * swing) * MIB,
    comfyBytes: (800 + Math.round(9_000 * (1 - swing))) * MIB,
    unaccountedBytes: (180 + second % 90) * MIB,
    memoryTemperatureC: 70 + second % 9,
    powerW: 150 + 170 * swing,
    pcieRxKbps: Math.round(12_000_000 * swing),
    pcieTxKbps: 40_000 + second % 90_000,
  };
}
