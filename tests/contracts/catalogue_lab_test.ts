import assert from "node:assert/strict";
import { openLibc } from "../../ffi/libc.ts";
import { demoComfyModels } from "../../lib/lab/comfy_models.ts";
import { ComfyServer } from "../../lib/lab/comfy_server.ts";
import { layOutModels } from "../../lib/lab/model_files.ts";
import { demoModels } from "../../lib/lab/ollama_models.ts";
import { OllamaServer } from "../../lib/lab/ollama_server.ts";
import { openProc } from "../../lib/sample/proc.ts";
import { openFiles } from "../../lib/system/files.ts";
import { openScene, type Scene } from "../lab/scene.ts";
import { type CatalogueSubject, foldersContract, storeContract } from "./catalogue_contract.ts";

function openLab(
  serve: (scene: Scene) => { readonly url: string; readonly port: number } & AsyncDisposable,
): Promise<CatalogueSubject> {
  const scene = openScene();
  const { clock, ground } = scene;
  const server = serve(scene);
  const root = Deno.makeTempDirSync({ prefix: "hyperswap-lab-files-" });
  layOutModels({ root, ollama: demoModels(), comfy: demoComfyModels() });
  const files = openFiles({ root });
  clock.watchBusy(() => files.busy);
  const libc = openLibc();
  return Promise.resolve({
    url: server.url,
    port: server.port,
    clock,
    files,
    proc: openProc(libc, ground.processes.root),
    until: (promise) => clock.until(promise, { limitMs: 600_000 }),
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      libc[Symbol.dispose]();
      scene[Symbol.dispose]();
      Deno.removeSync(root, { recursive: true });
      assert.deepEqual(scene.errors, [], "the lab's own code failed");
    },
  });
}

for (const version of ["0.24.0", "0.33.0"] as const) {
  storeContract({
    against: `the lab's Ollama ${version}`,
    missing: null,
    open: () => openLab(({ ground }) => new OllamaServer({ ground, version, models: demoModels() })),
  });
}

foldersContract({
  against: "the lab's ComfyUI",
  missing: null,
  open: () => openLab(({ ground }) => new ComfyServer({ ground, models: demoComfyModels() })),
});
