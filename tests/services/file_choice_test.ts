import assert from "node:assert/strict";
import type { Catalogue, CatalogueEntry } from "../../lib/model/catalogue.ts";
import { Failure } from "../../lib/model/failure.ts";
import { chooseFiles } from "../../lib/services/file_choice.ts";
import { openFiles } from "../../lib/system/files.ts";

/** `folder/name` of ComfyUI, or a name of Ollama's; each has a file of its own unless one is given. */
function catalogueOf(labels: readonly (readonly [string, string] | string)[]): Catalogue {
  const entries = labels.map((label): CatalogueEntry => {
    const [folder, name] = typeof label === "string" ? [null, label] : label;
    return {
      source: folder === null ? "ollama" : "comfyui",
      name,
      folder,
      digest: null,
      files: [`/m/${folder ?? "ollama"}/${name}`],
      sizeBytes: 1,
      isShadowed: false,
      problem: null,
    };
  });
  return {
    entries,
    files: entries.flatMap(({ files }) => files).map((path) => ({ path, sizeBytes: 1, modifiedAtMs: null, id: path })),
    roots: ["/m"],
    places: [],
    problems: [],
    blobsByDigest: {},
    readAtMs: 0,
  };
}

async function chosen(model: string, catalogue: Catalogue): Promise<readonly string[] | Failure> {
  try {
    const { files } = await chooseFiles({ model, path: null }, { catalogue, files: openFiles() });
    return files.map(({ path }) => path);
  } catch (error) {
    assert.ok(error instanceof Failure, String(error));
    return error;
  }
}

Deno.test("the name that fits best is meant, whatever comes first in the catalogue", async () => {
  const catalogue = catalogueOf([
    ["checkpoints", "old/x.safetensors"],
    ["checkpoints", "x.safetensors"],
    ["loras", "checkpoints/x.safetensors"],
  ]);
  assert.deepEqual(await chosen("x.safetensors", catalogue), ["/m/checkpoints/x.safetensors"]);
  assert.deepEqual(await chosen("checkpoints/x.safetensors", catalogue), ["/m/checkpoints/x.safetensors"]);
  assert.deepEqual(await chosen("old/x.safetensors", catalogue), ["/m/checkpoints/old/x.safetensors"]);
});

Deno.test("a name that fits several files as well is refused, and the hint tells them apart", async () => {
  const catalogue = catalogueOf([["vae", "a/same.pt"], ["loras", "b/same.pt"], ["vae", "twice.pt"], [
    "loras",
    "twice.pt",
  ]]);
  for (const [name, label] of [["same.pt", "vae/a/same.pt"], ["twice.pt", "loras/twice.pt"]] as const) {
    const failure = await chosen(name, catalogue);
    assert.ok(failure instanceof Failure);
    assert.equal(failure.code, "invalid_input");
    assert.ok(failure.hint?.includes(label), failure.hint ?? "");
  }
  assert.deepEqual(await chosen("loras/twice.pt", catalogue), ["/m/loras/twice.pt"]);
});

Deno.test("several names of one file aren't several files", async () => {
  const catalogue = catalogueOf([["vae", "a/same.pt"], ["loras", "b/same.pt"]]);
  const [first, second] = catalogue.entries;
  assert.ok(first && second);
  const linked = { ...catalogue, entries: [first, { ...second, files: first.files }] };
  assert.deepEqual(await chosen("same.pt", linked), first.files);
});
