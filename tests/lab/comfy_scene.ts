/** A simulated ComfyUI for its tests, with clients that write down what they hear. */
import assert from "node:assert/strict";
import { demoComfyModels } from "../../lib/lab/comfy_models.ts";
import { ComfyServer } from "../../lib/lab/comfy_server.ts";
import { type Answer, answered, type Ask, ask, openScene } from "./scene.ts";

export interface Frame {
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
  /** Lab time. */
  readonly atMs: number;
}

export interface Client {
  readonly socket: WebSocket;
  readonly frames: Frame[];
  /** Types, with the count of a status and the node of an executing. */
  words(): string[];
}

export function openComfy(options: Parameters<typeof openScene>[0] = {}) {
  const scene = openScene(options);
  const { clock, ground } = scene;
  const server = new ComfyServer({ ground, models: demoComfyModels() });
  for (const model of server.models) server.warm(model.name, 1);
  const clients: WebSocket[] = [];
  const call = (path: string, init: Ask & { limitMs?: number } = {}) => answered(clock, server.url + path, init);
  return {
    ...scene,
    server,
    vram: ground.vram,
    call,
    begin: (path: string, init: Ask = {}) => ask(clock, server.url + path, init),
    post: (graph: unknown, more: Record<string, unknown> = {}) => call("/prompt", { body: { prompt: graph, ...more } }),
    queue: async () => {
      const body = JSON.parse((await call("/queue")).text) as {
        queue_running: unknown[][];
        queue_pending: unknown[][];
      };
      return { running: body.queue_running.map((item) => item[1]), pending: body.queue_pending.map((item) => item[1]) };
    },
    async listen(clientId: string | null): Promise<Client> {
      const query = clientId === null ? "" : `?clientId=${clientId}`;
      const socket = new WebSocket(`${server.url.replace("http", "ws")}/ws${query}`);
      clients.push(socket);
      const frames: Frame[] = [];
      socket.onmessage = ({ data }) =>
        frames.push({ ...JSON.parse(data) as Omit<Frame, "atMs">, atMs: clock.monotonicMs() });
      await clock.runUntil(() => frames.length > 0, { limitMs: 1_000 });
      return { socket, frames, words: () => frames.map(word) };
    },
    /** Lets time pass until nothing runs or waits. */
    idle: (limitMs = 120_000) => clock.runUntil(() => server.queueRemaining === 0, { limitMs, what: "an empty queue" }),
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      // The clients notice that; their sockets are gone before the test is.
      const isOver = () => clients.every((socket) => socket.readyState === WebSocket.CLOSED);
      for (let turn = 0; !isOver() && turn < 100; turn += 1) {
        for (const socket of clients) if (socket.readyState === WebSocket.OPEN) socket.close();
        await clock.settle();
      }
      scene[Symbol.dispose]();
      assert.deepEqual(scene.errors, [], "the lab's own code failed");
    },
  };
}

function word({ type, data }: Frame): string {
  if (type === "status") {
    const { exec_info } = data["status"] as { exec_info: { queue_remaining: number } };
    return `status ${exec_info.queue_remaining}`;
  }
  return type === "executing" || type === "executed" ? `${type} ${data["node"]}` : type;
}

/** So many steps of so many milliseconds. */
export function work(steps: number, stepMs: number, more: Record<string, unknown> = {}) {
  return { "1": { class_type: "LabWork", inputs: { steps, step_ms: stepMs, ...more } } };
}

let seeds = 0;

/** A whole SDXL graph; every call has a new seed unless one is given, so that nothing comes from the cache. */
export function sdxl(
  { steps = 4, seed = ++seeds, checkpoint = "sd_xl_base_1.0.safetensors" }: {
    steps?: number;
    seed?: number;
    checkpoint?: string;
  } = {},
) {
  const node = (class_type: string, inputs: Record<string, unknown>) => ({ class_type, inputs });
  return {
    "1": node("CheckpointLoaderSimple", { ckpt_name: checkpoint }),
    "2": node("CLIPTextEncode", { clip: ["1", 1], text: "a lighthouse at dawn" }),
    "3": node("CLIPTextEncode", { clip: ["1", 1], text: "" }),
    "4": node("EmptyLatentImage", { width: 1024, height: 1024, batch_size: 1 }),
    "5": node("KSampler", {
      ...{ model: ["1", 0], positive: ["2", 0], negative: ["3", 0], latent_image: ["4", 0] },
      ...{ seed, steps, cfg: 7, sampler_name: "euler", scheduler: "normal", denoise: 1 },
    }),
    "6": node("VAEDecode", { samples: ["5", 0], vae: ["1", 2] }),
    "7": node("PreviewImage", { images: ["6", 0] }),
  };
}

export function bodyOf(answer: Answer): Record<string, unknown> {
  return JSON.parse(answer.text) as Record<string, unknown>;
}
