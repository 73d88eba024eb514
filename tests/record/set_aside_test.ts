import assert from "node:assert/strict";
import { setAside } from "../../lib/record/set_aside.ts";
import { AT_MS } from "./store_contract.ts";
import { tempFolder } from "./temp_folder.ts";

Deno.test("a database goes aside with its journal, and never over one that was kept before", () => {
  using folder = tempFolder();
  const path = `${folder.path}/h.sqlite`;
  for (const round of ["first", "second"]) {
    for (const part of ["", "-wal", "-shm"]) Deno.writeTextFileSync(path + part, round + part);
    const kept = setAside(path, { why: "corrupt", atMs: AT_MS + 123 });
    assert.equal(kept, `${path}.corrupt-20261201T100000Z${round === "first" ? "" : "-2"}`);
    for (const part of ["", "-wal", "-shm"]) assert.equal(Deno.readTextFileSync(kept + part), round + part);
  }
  assert.equal([...Deno.readDirSync(folder.path)].length, 6);
});

Deno.test("a database without a journal goes alone", () => {
  using folder = tempFolder();
  const path = `${folder.path}/h.sqlite`;
  Deno.writeTextFileSync(path, "x");
  setAside(path, { why: "newer-v9", atMs: AT_MS });
  assert.deepEqual([...Deno.readDirSync(folder.path)].map(({ name }) => name), ["h.sqlite.newer-v9-20261201T100000Z"]);
});
