import assert from "node:assert/strict";
import { Failure } from "../../lib/model/failure.ts";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { DEFAULT_RETENTION } from "../../lib/record/retention.ts";
import { StoreFile } from "../../lib/record/store_file.ts";
import { connectArchive } from "../../lib/workers/archive_client.ts";
import { AT_MS, row } from "../record/store_contract.ts";
import { tempFolder } from "../record/temp_folder.ts";

const NEVER = new AbortController().signal;

function isUnavailable(pattern: RegExp) {
  return (error: unknown) => error instanceof Failure && error.code === "unavailable" && pattern.test(error.message);
}

Deno.test("the archive reads while the store writes, through its own Worker", async () => {
  using folder = tempFolder();
  const path = `${folder.path}/h.sqlite`;
  const file = new StoreFile(path, {
    clock: { wallMs: () => AT_MS },
    retention: DEFAULT_RETENTION,
    onNote: assert.fail,
  });
  file.writeTelemetry([row(AT_MS)]);
  file.writeEvents([{
    kind: "append",
    isRepeat: false,
    event: { atMs: AT_MS, kind: "swap", fields: '{"model":"a"}' },
  }]);
  const archive = connectArchive({ path, clock: new LabClock() });
  const query = { metrics: ["power_w"], fromMs: AT_MS, toMs: AT_MS + 2_000, points: 2 } as const;
  const { lines } = await archive.series(query, NEVER);
  assert.deepEqual(lines.power_w?.avg, [224.3, null]);
  file.writeTelemetry([row(AT_MS + 1_000)]);
  assert.deepEqual((await archive.series(query, NEVER)).lines.power_w?.avg, [224.3, 224.3]);
  const [ranked] = await archive.models({ sinceMs: 0, nowMs: AT_MS + 3 * 86_400_000 }, NEVER);
  assert.deepEqual([ranked?.source, ranked?.uses, ranked?.score], ["ollama", 1, 0.5]);
  archive.close();
  await assert.rejects(archive.swaps({ sinceMs: 0 }, NEVER), isUnavailable(/stopping/));
  file.close();
});

Deno.test("no file, a Worker that hangs and a caller that goes are told apart", async () => {
  using folder = tempFolder();
  const path = `${folder.path}/none.sqlite`;
  const clock = new LabClock();
  const missing = connectArchive({ path, clock });
  await assert.rejects(missing.swaps({ sinceMs: 0 }, NEVER), isUnavailable(/unable to open/));
  missing.close();
  const mute = "data:application/javascript,self.onmessage = () => {};";
  const archive = connectArchive({ path, clock, startWorker: () => new Worker(mute, { type: "module" }) });
  const gone = new AbortController();
  const abandoned = archive.swaps({ sinceMs: 0 }, gone.signal);
  gone.abort(new Error("hung up"));
  await assert.rejects(abandoned, /hung up/);
  const late = archive.swaps({ sinceMs: 0 }, NEVER);
  const refused = assert.rejects(late, isUnavailable(/no answer within 10000 ms/));
  await clock.advance(10_000);
  await refused;
  archive.close();
});
