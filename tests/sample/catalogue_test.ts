import assert from "node:assert/strict";
import type { Catalogue } from "../../lib/model/catalogue.ts";
import { digestOf, hexOf, layer, type ModelTree, modelTree } from "./model_tree.ts";

const LIBRARY = "registry.ollama.ai/library";
const CONFIG = { mediaType: "application/json", digest: `sha256:${hexOf("c")}`, size: 40 };

/** A store with everything that is found in real ones, the broken things included. */
function fillStore(tree: ModelTree): void {
  const { write, manifest } = tree;
  const blob = (digit: string, size: number) => write(`store/blobs/sha256-${hexOf(digit)}`, size);
  write(`store/blobs/sha256-${hexOf("c")}`, '{"model_format":"gguf"}');
  write(`store/blobs/sha256-${hexOf("d")}`, '{"remote_host":"https://ollama.com","remote_model":"huge"}');
  blob("1", 5_000);
  blob("2", 700);
  blob("3", 900);
  write(`store/blobs/sha256-${hexOf("4")}-partial`, 4_000);
  manifest(`${LIBRARY}/plain/latest`, {
    schemaVersion: 2,
    config: CONFIG,
    layers: [layer("model", hexOf("1"), 5_000), layer("license", hexOf("f"), 11)],
  });
  manifest(`${LIBRARY}/seeing/v1`, {
    config: CONFIG,
    layers: [
      layer("model", hexOf("9"), 1),
      layer("model", hexOf("1"), 5_000),
      layer("projector", hexOf("2"), 700),
      layer("adapter", hexOf("3"), 900),
    ],
  });
  manifest("hf.co/someone/tensors/q4", {
    config: CONFIG,
    layers: [layer("tensor", hexOf("2"), 700), layer("tensor", hexOf("3"), 900), layer("json", hexOf("e"), 9)],
  });
  const cloud = { mediaType: "application/json", digest: `sha256:${hexOf("d")}`, size: 60 };
  manifest(`${LIBRARY}/huge/cloud`, { config: cloud, layers: [layer("license", hexOf("f"), 11)] });
  manifest(`${LIBRARY}/half/latest`, { config: CONFIG, layers: [layer("model", hexOf("4"), 9_999)] });
  manifest(`${LIBRARY}/short/latest`, { config: CONFIG, layers: [layer("model", hexOf("1"), 5_001)] });
  manifest(`${LIBRARY}/evil/latest`, {
    config: CONFIG,
    layers: [{ mediaType: "application/vnd.ollama.image.model", digest: "sha256:../../../etc/passwd", size: 1 }],
  });
  write(`store/manifests/${LIBRARY}/junk/latest`, "{not json");
  write(`store/manifests/${LIBRARY}/too-shallow`, "{}");
}

const find = (catalogue: Catalogue, name: string) => catalogue.entries.find((entry) => entry.name === name);

Deno.test("a store: weights of every kind, shared blobs once, stubs and partial ones out, broken ones reported", async () => {
  await using tree = await modelTree();
  fillStore(tree);
  const catalogue = await tree.catalogue();
  const path = (digit: string) => `${tree.root}/store/blobs/sha256-${hexOf(digit)}`;
  assert.deepEqual(find(catalogue, "plain:latest")?.files, [path("1")]);
  assert.equal(find(catalogue, "plain:latest")?.sizeBytes, 5_051, "all layers and the config");
  assert.deepEqual(find(catalogue, "seeing:v1")?.files, [path("1"), path("2"), path("3")], "the last model counts");
  assert.deepEqual(find(catalogue, "hf.co/someone/tensors:q4")?.files, [path("2"), path("3")]);
  assert.equal(find(catalogue, "huge:cloud"), undefined, "it runs elsewhere");
  assert.deepEqual(catalogue.files.map((file) => [file.path, file.sizeBytes]).toSorted(), [
    [path("1"), 5_000],
    [path("2"), 700],
    [path("3"), 900],
  ]);
  assert.match(find(catalogue, "half:latest")?.problem ?? "", /weights sha256-4{12}… are missing/);
  assert.match(find(catalogue, "short:latest")?.problem ?? "", /5000 bytes, and the manifest says 5001/);
  const problems = catalogue.problems.map(({ problem }) => problem).join("\n");
  assert.match(problems, /a layer's digest is not a SHA-256/);
  assert.match(problems, /body is not JSON: \{not json/);
  const plain = find(catalogue, "plain:latest")?.digest ?? "";
  const text = Deno.readTextFileSync(`${tree.root}/store/manifests/${LIBRARY}/plain/latest`);
  assert.equal(plain, digestOf(text), "as /api/tags gives it");
  assert.deepEqual(catalogue.blobsByDigest[plain], [`sha256-${hexOf("1")}`]);
  assert.deepEqual(catalogue.blobsByDigest[find(catalogue, "hf.co/someone/tensors:q4")?.digest ?? ""], []);
});

Deno.test("of two stores the first has the name; the same folder twice is one", async () => {
  await using tree = await modelTree();
  fillStore(tree);
  Deno.symlinkSync(`${tree.root}/store`, `${tree.root}/again`);
  tree.write(`other/blobs/sha256-${hexOf("7")}`, 30);
  tree.write(`other/blobs/sha256-${hexOf("c")}`, "{}");
  const manifest = { config: CONFIG, layers: [layer("model", hexOf("7"), 30)] };
  tree.write(`other/manifests/${LIBRARY}/plain/latest`, JSON.stringify(manifest));
  const stores = ["store", "again", "other"].map((name) => `${tree.root}/${name}`);
  const catalogue = await tree.catalogue({ ollamaStores: stores });
  assert.equal(catalogue.places.filter(({ source }) => source === "ollama").length, 2);
  assert.deepEqual(
    catalogue.entries.filter(({ name }) => name === "plain:latest").map(({ isShadowed, sizeBytes }) => [
      isShadowed,
      sizeBytes,
    ]),
    [[false, 5_051], [true, 70]],
  );
});

Deno.test("ComfyUI's folders: case, links, aliases, the first of two, and what lies outside", async () => {
  await using tree = await modelTree();
  const { root, write } = tree;
  write("comfy/models/checkpoints/sub/A.SAFETENSORS", 100);
  write("comfy/models/checkpoints/.git/x.ckpt", 1);
  write("comfy/models/checkpoints/readme.txt", "no weights");
  write("comfy/models/checkpoints/empty.ckpt", 0);
  write("comfy/models/unet/old.sft", 20);
  write("comfy/models/diffusion_models/old.sft", 21);
  write("comfy/models/clip/c.pt", 22);
  write("comfy/output/checkpoints/saved.safetensors", 23);
  write("outside/o.safetensors", 24);
  write("comfy/models/configs/v1.yaml", "a: b");
  const folder = `${root}/comfy/models/checkpoints`;
  Deno.symlinkSync(`${root}/outside/o.safetensors`, `${folder}/out.safetensors`);
  Deno.symlinkSync("/nowhere", `${folder}/dangling.safetensors`);
  Deno.symlinkSync("..", `${folder}/sub/circle`);
  Deno.symlinkSync("../unet", `${folder}/linked`);
  const catalogue = await tree.catalogue();
  const names = (kind: string) => catalogue.entries.filter((entry) => entry.folder === kind).map(({ name }) => name);
  assert.deepEqual(names("checkpoints").toSorted(), [
    "dangling.safetensors",
    "empty.ckpt",
    "linked/old.sft",
    "out.safetensors",
    "saved.safetensors",
    "sub/A.SAFETENSORS",
  ]);
  assert.deepEqual([names("diffusion_models"), names("text_encoders"), names("configs")], [["old.sft"], ["c.pt"], []]);
  const first = catalogue.entries.find(({ folder }) => folder === "diffusion_models");
  assert.deepEqual(first?.files, [`${root}/comfy/models/unet/old.sft`]);
  assert.deepEqual(find(catalogue, "linked/old.sft")?.files, first?.files, "one file under two names");
  assert.match(find(catalogue, "out.safetensors")?.problem ?? "", /outside of every model folder.*warm\.roots/);
  assert.deepEqual(find(catalogue, "out.safetensors")?.files, []);
  assert.match(find(catalogue, "dangling.safetensors")?.problem ?? "", /a link to nothing/);
  const allowed = await tree.catalogue({ linkTargets: [`${root}/outside`, "/etc"] });
  assert.deepEqual(find(allowed, "out.safetensors")?.files, [`${root}/outside/o.safetensors`]);
  assert.ok(!allowed.roots.includes("/etc"));
});

Deno.test("nothing is taken from the kernel's folders, the machine's settings or everywhere", async () => {
  await using tree = await modelTree();
  tree.write("extra.yaml", "bad:\n  loras: /etc\n  vae: /proc\n  checkpoints: /\n  controlnet: /dev/shm\n");
  const catalogue = await tree.catalogue({ comfyExtraFiles: [`${tree.root}/extra.yaml`], ollamaStores: ["/etc"] });
  assert.deepEqual([catalogue.entries, catalogue.roots], [[], []]);
  assert.equal(catalogue.problems.filter(({ problem }) => /Cannot take .* for a model folder/.test(problem)).length, 4);
});

Deno.test("a pulled, deleted or overwritten model shows within 10 s, and a quiet round lists and reads nothing", async () => {
  await using tree = await modelTree();
  fillStore(tree);
  tree.write("comfy/models/loras/a/b/x.safetensors", 10);
  await tree.catalogue();
  // Files and folders made a moment ago may still change within the same tick of the disk's clock.
  tree.clock.jumpWall(600_000);
  await tree.next();
  tree.calls.clear();
  const quiet = await tree.next();
  assert.equal(tree.calls.get("list"), undefined);
  assert.equal(tree.calls.get("readText") ?? 0, 1, "extra_model_paths.yaml is asked for, and isn't there");
  assert.equal(find(quiet, "new:latest"), undefined);
  const later = { config: CONFIG, layers: [layer("model", hexOf("3"), 900)] };
  tree.manifest(`${LIBRARY}/new/latest`, later);
  tree.manifest(`${LIBRARY}/plain/latest`, { ...later, schemaVersion: 3 });
  Deno.removeSync(`${tree.root}/comfy/models/loras/a/b/x.safetensors`);
  tree.write("comfy/models/loras/a/y.safetensors", 12);
  const changed = await tree.next();
  assert.equal(find(changed, "new:latest")?.sizeBytes, 940);
  assert.equal(find(changed, "plain:latest")?.sizeBytes, 940, "written over in place: no folder shows that");
  assert.deepEqual(changed.entries.filter(({ folder }) => folder === "loras").map(({ name }) => name), [
    "a/y.safetensors",
  ]);
  Deno.removeSync(`${tree.root}/store/manifests/${LIBRARY}/new`, { recursive: true });
  assert.equal(find(await tree.next(), "new:latest"), undefined);
});

Deno.test("what lies behind a link shows and goes within 10 s too, though no folder tells of it", async () => {
  await using tree = await modelTree();
  const { root, write } = tree;
  fillStore(tree);
  write("comfy/models/vae/far.safetensors", 10);
  Deno.mkdirSync(`${root}/comfy/models/loras`);
  Deno.symlinkSync("../vae/far.safetensors", `${root}/comfy/models/loras/near.safetensors`);
  Deno.symlinkSync(`${root}/comfy/models/vae/later.safetensors`, `${root}/comfy/models/loras/later.safetensors`);
  Deno.renameSync(`${root}/store/blobs/sha256-${hexOf("3")}`, `${root}/comfy/models/vae/blob.bin`);
  Deno.symlinkSync(`${root}/comfy/models/vae/blob.bin`, `${root}/store/blobs/sha256-${hexOf("3")}`);
  await tree.catalogue();
  tree.clock.jumpWall(600_000);
  const before = await tree.next();
  assert.equal(find(before, "near.safetensors")?.files.length, 1);
  assert.equal(find(before, "hf.co/someone/tensors:q4")?.problem, null);
  assert.match(find(before, "later.safetensors")?.problem ?? "", /a link to nothing/);
  for (const name of ["far.safetensors", "blob.bin"]) Deno.removeSync(`${root}/comfy/models/vae/${name}`);
  write("comfy/models/vae/later.safetensors", 30);
  const after = await tree.next();
  assert.match(find(after, "near.safetensors")?.problem ?? "", /a link to nothing/);
  assert.match(find(after, "hf.co/someone/tensors:q4")?.problem ?? "", /weights sha256-3{12}… are missing/);
  const later = after.entries.find(({ folder, name }) => folder === "loras" && name === "later.safetensors");
  assert.deepEqual([later?.problem, later?.sizeBytes], [null, 30]);
});

Deno.test("a file with two names of its own counts once, under one of them", async () => {
  await using tree = await modelTree();
  const { root, write } = tree;
  write("comfy/models/checkpoints/a.safetensors", 500);
  write("comfy/models/checkpoints/same-size.safetensors", 500);
  Deno.mkdirSync(`${root}/comfy/models/loras`);
  Deno.linkSync(`${root}/comfy/models/checkpoints/a.safetensors`, `${root}/comfy/models/loras/b.safetensors`);
  const catalogue = await tree.catalogue();
  assert.equal(catalogue.files.length, 2);
  assert.deepEqual(find(catalogue, "b.safetensors")?.files, find(catalogue, "a.safetensors")?.files);
  Deno.removeSync(`${root}/comfy/models/checkpoints/a.safetensors`);
  const later = await tree.next();
  assert.deepEqual(find(later, "b.safetensors")?.files, [`${root}/comfy/models/loras/b.safetensors`]);
  assert.equal(later.files.length, 2);
});
