import assert from "node:assert/strict";
import type { Log } from "../../lib/model/ports.ts";
import type { TuningBook } from "../../lib/model/tuning.ts";
import { tuningFile } from "../../lib/record/tuning_file.ts";

const BOOK: TuningBook = {
  profiles: [{ name: "quiet", isBuiltIn: false, values: { power_limit_w: 250, fan: "default" }, measured: {} }],
  quarantine: [{ profile: "comfy", reason: "Xid 62 while it was active" }],
};

async function inFolder(run: (path: string, warnings: string[], log: Log) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "hyperswap-tuning-" });
  const warnings: string[] = [];
  const log: Log = { debug() {}, info() {}, warn: (text) => void warnings.push(text), error() {} };
  try {
    await run(`${dir}/tuning.json`, warnings, log);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("what was saved is loaded by the next service; without a file the book is empty", () =>
  inFolder(async (path, warnings, log) => {
    assert.deepEqual(await tuningFile(path, log).load(), { profiles: [], quarantine: [] });
    await tuningFile(path, log).save({ profiles: [], quarantine: [] });
    await tuningFile(path, log).save(BOOK);
    assert.deepEqual(await tuningFile(path, log).load(), BOOK);
    assert.deepEqual(warnings, []);
  }));

for (const text of ["", "{", "[]", '{"profiles":[{"name":1}],"quarantine":[]}', '{"profiles":[]}', "null"]) {
  Deno.test(`a file that holds ${JSON.stringify(text)} is set aside, said, and replaced by an empty book`, () =>
    inFolder(async (path, warnings, log) => {
      await Deno.writeTextFile(path, text);
      assert.deepEqual(await tuningFile(path, log).load(), { profiles: [], quarantine: [] });
      assert.equal(warnings.length, 1);
      assert.equal(await Deno.readTextFile(`${path}.unreadable`), text);
    }));
}
