/** A simulated Ollama with the demo's models and two tiny ones, for its tests. */
import assert from "node:assert/strict";
import { demoModels, labModel } from "../../lib/lab/ollama_models.ts";
import { OllamaServer, type OllamaServerOptions } from "../../lib/lab/ollama_server.ts";
import { type Answer, answered, type Ask, ask, openScene } from "./scene.ts";

export const TINY = labModel({ name: "tiny", blobBytes: 22e6, bufferBytes: 20e6, kvBytesPerToken: 0 });
const MODELS = [
  ...demoModels(),
  TINY,
  labModel({ name: "tinyb", blobBytes: 26e6, bufferBytes: 20e6, kvBytesPerToken: 0 }),
];

type Options = Partial<OllamaServerOptions> & Parameters<typeof openScene>[0];

export function openOllama(options: Options = {}) {
  const scene = openScene(options);
  const { ground, clock } = scene;
  const server = new OllamaServer({ ground, version: "0.33.0", models: MODELS, ...options });
  for (const model of server.installed) server.warm(model.name, 1);
  const call = (path: string, init: Ask & { limitMs?: number } = {}) => answered(clock, server.url + path, init);
  return {
    ...scene,
    server,
    vram: ground.vram,
    processes: ground.processes,
    call,
    /** Starts a request and lets nothing pass yet. */
    begin: (path: string, init: Ask = {}) => ask(clock, server.url + path, init),
    load: (model: string, more: Record<string, unknown> = {}) => call("/api/generate", { body: { model, ...more } }),
    unload: (model: string) => call("/api/generate", { body: { model, keep_alive: 0 } }),
    listed: async () => {
      const { models } = JSON.parse((await call("/api/ps")).text) as { models: { name: string }[] };
      return models.map((row) => row.name);
    },
    rows: async () => (JSON.parse((await call("/api/ps")).text) as { models: Record<string, unknown>[] }).models,
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      scene[Symbol.dispose]();
      assert.deepEqual(scene.errors, [], "the lab's own code failed");
    },
  };
}

export const between = (value: number, low: number, high: number) =>
  assert.ok(value >= low && value <= high, `${value}`);
export const errorOf = (answer: Answer) => (JSON.parse(answer.text) as { error: string }).error;
