/** A folder of model files that a test changes, and a catalogue over it on a clock of the test's own. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import type { Catalogue, Files } from "../../lib/model/catalogue.ts";
import { type CatalogueSettings, type CatalogueWatch, watchCatalogue } from "../../lib/sample/catalogue.ts";
import { openFiles } from "../../lib/system/files.ts";
import { FakeProc } from "./fake_proc.ts";

export interface ModelTree extends AsyncDisposable {
  readonly root: string;
  readonly clock: LabClock;
  /** Calls by kind since it was last cleared. */
  readonly calls: Map<string, number>;
  write(path: string, content: string | number): void;
  manifest(path: string, manifest: unknown): void;
  catalogue(settings?: Partial<CatalogueSettings>): Promise<Catalogue>;
  /** Lets the next round pass. */
  next(): Promise<Catalogue>;
}

export const digestOf = (text: string) => createHash("sha256").update(text).digest("hex");
export const layer = (type: string, hex: string, size: number) => ({
  mediaType: `application/vnd.ollama.image.${type}`,
  digest: `sha256:${hex}`,
  size,
});
export const hexOf = (digit: string) => digit.repeat(64);

export async function modelTree(): Promise<ModelTree> {
  const root = await Deno.realPath(await Deno.makeTempDir({ prefix: "hyperswap-models-" }));
  const clock = new LabClock({ startMs: Date.now() + 3_600_000 });
  const calls = new Map<string, number>();
  const files = counted(openFiles(), calls);
  clock.watchBusy(() => files.busy);
  let watch: CatalogueWatch | null = null;
  const latest = () => {
    assert.equal(watch?.crash, null);
    const found = watch?.latest();
    assert.ok(found);
    return found;
  };
  const write = (path: string, content: string | number) => {
    Deno.mkdirSync(`${root}/${path}`.replace(/\/[^/]*$/, ""), { recursive: true });
    Deno.writeTextFileSync(`${root}/${path}`, typeof content === "string" ? content : "");
    if (typeof content === "number") Deno.truncateSync(`${root}/${path}`, content);
  };
  return {
    root,
    clock,
    calls,
    write,
    manifest: (path, manifest) => write(`store/manifests/${path}`, JSON.stringify(manifest)),
    async catalogue(settings = {}) {
      watch?.stop();
      watch = watchCatalogue({
        clock,
        files,
        proc: new FakeProc(),
        settings: {
          ollamaStores: [`${root}/store`],
          comfyFolders: [`${root}/comfy`],
          comfyExtraFiles: [],
          linkTargets: [],
          home: null,
          ...settings,
        },
        hints: () => ({ ollamaServer: null, runners: [], comfyServer: null, isComfyOnline: false }),
        askFolders: () => Promise.resolve([]),
      });
      await clock.settle();
      return latest();
    },
    async next() {
      await clock.advance(5_100);
      return latest();
    },
    async [Symbol.asyncDispose]() {
      watch?.stop();
      await Deno.remove(root, { recursive: true });
    },
  };
}

function counted(files: Files, calls: Map<string, number>): Files {
  const count = (name: string) => calls.set(name, (calls.get(name) ?? 0) + 1);
  return {
    get busy() {
      return files.busy;
    },
    list: (path) => (count("list"), files.list(path)),
    stat: (path) => (count("stat"), files.stat(path)),
    find: (path) => (count("find"), files.find(path)),
    realPath: (path) => (count("realPath"), files.realPath(path)),
    readText: (path, maxBytes) => (count("readText"), files.readText(path, maxBytes)),
  };
}
