import assert from "node:assert/strict";
import type { TelemetryRow } from "../../lib/model/history.ts";
import { DEFAULT_RETENTION } from "../../lib/record/retention.ts";
import { StoreFile } from "../../lib/record/store_file.ts";
import { AT_MS, row } from "./store_contract.ts";
import { tempFolder } from "./temp_folder.ts";

const MIB = 2 ** 20;
const BATCH = 4;

/** A busy 16 GB card: every figure known and moving, none of them small enough to cost nothing. */
function busySecond(second: number): TelemetryRow {
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

function bytesAfter(path: string, seconds: number): number {
  const file = new StoreFile(path, {
    clock: { wallMs: () => AT_MS },
    retention: DEFAULT_RETENTION,
    onNote: assert.fail,
  });
  for (let second = 0; second < seconds; second += BATCH) {
    file.writeTelemetry(Array.from({ length: BATCH }, (_, n) => busySecond(second + n)));
  }
  // Closing is what checkpoints.
  file.close();
  return Deno.statSync(path).size;
}

Deno.test("an hour of a busy card takes at most 0.27 MB", () => {
  using folder = tempFolder();
  const hour = bytesAfter(`${folder.path}/1.sqlite`, 3_600);
  const three = bytesAfter(`${folder.path}/3.sqlite`, 3 * 3_600);
  const perHour = (three - hour) / 2;
  assert.ok(perHour <= 270_000, `${perHour} bytes an hour`);
});
