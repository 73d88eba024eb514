import assert from "node:assert/strict";
import { DEFAULT_RETENTION } from "../../lib/record/retention.ts";
import { StoreFile } from "../../lib/record/store_file.ts";
import { busySecond } from "./busy_second.ts";
import { AT_MS } from "./store_contract.ts";
import { tempFolder } from "./temp_folder.ts";

const BATCH = 4;

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
