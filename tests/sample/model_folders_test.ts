import assert from "node:assert/strict";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import type { Files, FolderName } from "../../lib/model/catalogue.ts";
import { ModelFolders } from "../../lib/sample/model_folders.ts";

Deno.test("a folder whose disk fails is told as a problem, and the others are read", async () => {
  const tree: Readonly<Record<string, readonly FolderName[] | null>> = {
    "/m/loras": [{ name: "a.safetensors", kind: "file" }, { name: "bad", kind: "folder" }],
    "/m/loras/bad": null,
    "/m/vae": null,
  };
  const isFolder = (path: string) => path in tree;
  const files: Files = {
    list: (path) => Promise.resolve(tree[path] ?? null),
    stat: (path) =>
      Promise.resolve({ kind: isFolder(path) ? "folder" : "file", sizeBytes: 9, modifiedAtMs: 0, id: path }),
    find: () => Promise.resolve({ kind: "gone" }),
    realPath: (path) => Promise.resolve(path),
    readText: () => Promise.resolve(null),
    busy: 0,
  };
  const folders = new ModelFolders({ files, clock: new LabClock() });
  const { models, problems } = await folders.read([
    { kind: "vae", folders: ["/m/vae"] },
    { kind: "loras", folders: ["/m/loras"] },
  ]);
  assert.deepEqual(models.map(({ name }) => name), ["a.safetensors"]);
  assert.deepEqual(problems.map(({ path }) => path), ["/m/vae", "/m/loras/bad"]);
  assert.match(problems[0]?.problem ?? "", /^Cannot list \/m\/vae: .*its disk fails$/);
});
