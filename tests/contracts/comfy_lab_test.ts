import assert from "node:assert/strict";
import { openLibc } from "../../ffi/libc.ts";
import { ComfyServer } from "../../lib/lab/comfy_server.ts";
import { openProc } from "../../lib/sample/proc.ts";
import { openScene } from "../lab/scene.ts";
import { comfyContract, type ComfySubject } from "./comfy_contract.ts";

function openLab(): Promise<ComfySubject> {
  const scene = openScene();
  const { clock, ground } = scene;
  const server = new ComfyServer({ ground, models: [] });
  const libc = openLibc();
  return Promise.resolve({
    url: server.url,
    port: server.port,
    clock,
    proc: openProc(libc, ground.processes.root),
    until: (promise) => clock.until(promise, { limitMs: 600_000 }),
    slowGraph: (seed) => ({ "1": { class_type: "LabWork", inputs: { steps: 20, step_ms: 100, seed } } }),
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      libc[Symbol.dispose]();
      scene[Symbol.dispose]();
      assert.deepEqual(scene.errors, [], "the lab's own code failed");
    },
  });
}

comfyContract({ against: "the lab's ComfyUI", missing: null, open: openLab });
