import assert from "node:assert/strict";
import { addFolders } from "../../lib/sample/comfy_layout.ts";
import { readExtraPaths } from "../../lib/sample/extra_paths.ts";

const context = { folder: "/srv/comfy", env: { HOME: "/home/u", DATA: "/data" } };
const read = (text: string) => readExtraPaths(text, context);
const paths = (text: string) => read(text).folders.map(({ kind, path }) => `${kind} ${path}`);

Deno.test("sections, block texts, comments, quotes and legacy keys are read as ComfyUI reads them", () => {
  const text = `
# a comment
a1111:   # the other program
    base_path: path/to/ui/

    checkpoints: models/Stable-diffusion   # no quotes
    loras: |
         models/Lora

         models/LyCORIS
    unet: 'it''s here'
    clip: "two words"
    own kind: x
empty:
`;
  assert.deepEqual(read(text).problems, []);
  assert.deepEqual(paths(text), [
    "checkpoints /srv/comfy/path/to/ui/models/Stable-diffusion",
    "loras /srv/comfy/path/to/ui/models/Lora",
    "loras /srv/comfy/path/to/ui/models/LyCORIS",
    "diffusion_models /srv/comfy/path/to/ui/it's here",
    "text_encoders /srv/comfy/path/to/ui/two words",
    "own kind /srv/comfy/path/to/ui/x",
  ]);
});

Deno.test("base_path takes ~ and variables; an absolute path stands for itself; without a base the file's folder counts", () => {
  assert.deepEqual(paths("a:\n  base_path: ~/m/$DATA/${DATA}/$NONE\n  vae: v\n  loras: /abs/../l\n"), [
    "vae /home/u/m/data/data/$NONE/v",
    "loras /l",
  ]);
  assert.deepEqual(paths("a:\n  vae: v\n"), ["vae /srv/comfy/v"]);
  const blind = readExtraPaths("a:\n  base_path: ~/m\n  vae: v\n", { ...context, env: null });
  assert.deepEqual([blind.folders, blind.problems.length], [[], 1]);
});

Deno.test("is_default goes first; of two lines the later one ends up before", () => {
  const { folders } = read("a:\n  is_default: true\n  vae: |\n    l1\n    l2\n");
  const kinds = addFolders([{ kind: "vae", folders: ["/own"] }], folders);
  assert.deepEqual(kinds, [{ kind: "vae", folders: ["/srv/comfy/l2", "/srv/comfy/l1", "/own"] }]);
  for (const [word, isFirst] of [["false", false], ['"false"', true], ["no", false], ["Yes", true]] as const) {
    assert.equal(read(`a:\n  is_default: ${word}\n  vae: v\n`).folders[0]?.isFirst, isFirst, word);
  }
});

Deno.test("what isn't understood is reported with its line, and the rest is read", () => {
  const { folders, problems } = read(
    "text: a string\na:\n  vae: [x, y]\n  loras: null\n  clip:\n\tbad: tab\n  unet: &anchor x\n    deeper: z\n  checkpoints: ok\n",
  );
  assert.deepEqual(folders.map(({ kind }) => kind), ["checkpoints"]);
  assert.deepEqual(problems.map((problem) => problem.replace(/:.*/, "")).toSorted(), [
    "line 1",
    "line 3",
    "line 4",
    "line 5",
    "line 6",
    "line 7",
    "line 8",
  ]);
});
