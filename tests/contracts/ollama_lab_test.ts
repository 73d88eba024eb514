import assert from "node:assert/strict";
import { openLibc } from "../../ffi/libc.ts";
import { labModel } from "../../lib/lab/ollama_models.ts";
import { OllamaServer } from "../../lib/lab/ollama_server.ts";
import { openProc } from "../../lib/sample/proc.ts";
import { openScene } from "../lab/scene.ts";
import { ollamaContract, type OllamaSubject } from "./ollama_contract.ts";

const MODELS = [
  labModel({ name: "tiny", blobBytes: 22e6, bufferBytes: 20e6, kvBytesPerToken: 0 }),
  labModel({ name: "qwen3:14b", blobBytes: 9.3e9 }),
  labModel({ name: "embedder", blobBytes: 1.2e6, family: "bert", isEmbedding: true }),
];

function openLab(version: "0.24.0" | "0.33.0"): Promise<OllamaSubject> {
  const scene = openScene();
  const { clock, ground } = scene;
  const server = new OllamaServer({ ground, version, models: MODELS });
  const libc = openLibc();
  return Promise.resolve({
    url: server.url,
    port: server.port,
    clock,
    proc: openProc(libc, ground.processes.root),
    until: (promise) => clock.until(promise, { limitMs: 600_000 }),
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      libc[Symbol.dispose]();
      scene[Symbol.dispose]();
      assert.deepEqual(scene.errors, [], "the lab's own code failed");
    },
  });
}

for (const version of ["0.24.0", "0.33.0"] as const) {
  ollamaContract({ against: `the lab's Ollama ${version}`, missing: null, open: () => openLab(version) });
}
