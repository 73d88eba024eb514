import type { Timer } from "../model/ports.ts";
import type { Box } from "./box.ts";
import { Random } from "./random.ts";
import type { Span } from "./timing.ts";

export interface TrafficOptions {
  /** Default 7. */
  readonly seed?: number;
}

/** What was sent so far. */
export interface TrafficCounts {
  readonly chats: number;
  readonly prompts: number;
  /** What the servers refused, or nobody answered. */
  readonly failures: number;
}

export interface Traffic extends Timer {
  readonly counts: TrafficCounts;
  /** Every other turn takes these ways to the servers from now on. Null: that server's own. */
  through(ways: { readonly ollama: string | null; readonly comfyui: string | null }): void;
}

/**
 * Two users of one card: somebody chats, somebody makes pictures, in turns. A model is loaded, chatted with, displaced by
 * a burst of prompts, and comes back; now and then there is a pause long enough for ComfyUI to be purged. Everything goes
 * over the servers' own sockets. A server that is down is tried again.
 */
export function startTraffic(box: Box, options: TrafficOptions = {}): Traffic {
  const users = new Users(box, options.seed ?? 7);
  box.thirdParty.start();
  void users.live();
  return users;
}

const SDXL = "sd_xl_base_1.0.safetensors";
/** One turn of both users. */
interface Scene {
  readonly model: string;
  readonly chats: Span;
  readonly checkpoint: string;
  readonly prompts: Span;
  readonly steps: number;
  /** From the last picture to the next chat; 8 s and more let the demo purge ComfyUI in between. */
  readonly restMs: Span;
}

const BRIEF: Span = [1_500, 2_500];
const PURGED: Span = [8_800, 10_000];
const SCENES: readonly Scene[] = [
  { model: "qwen3:14b", chats: [1, 1], checkpoint: SDXL, prompts: [1, 1], steps: 20, restMs: BRIEF },
  { model: "llama3.1:8b", chats: [1, 2], checkpoint: SDXL, prompts: [1, 1], steps: 16, restMs: BRIEF },
  { model: "llama3.1:8b", chats: [1, 1], checkpoint: SDXL, prompts: [1, 2], steps: 18, restMs: PURGED },
  { model: "qwen3:14b", chats: [1, 2], checkpoint: SDXL, prompts: [1, 1], steps: 20, restMs: PURGED },
  {
    model: "gemma3:12b",
    chats: [1, 2],
    checkpoint: "dreamshaper_8.safetensors",
    prompts: [2, 3],
    steps: 25,
    restMs: PURGED,
  },
  {
    model: "gemma3:12b",
    chats: [1, 1],
    checkpoint: "flux1-dev-fp8.safetensors",
    prompts: [1, 1],
    steps: 8,
    restMs: PURGED,
  },
];

const QUESTIONS = [
  "Why does a model load faster the second time?",
  "Write a haiku about a full graphics card.",
  "Summarise what a page cache does, in two sentences.",
  "Name three lighthouses and the year each was built.",
] as const;
const PICTURES = [
  "a lighthouse at dawn",
  "a fox in fresh snow",
  "a harbour by night",
  "a library under the sea",
] as const;

class Users implements Traffic {
  readonly #box: Box;
  readonly #random: Random;
  readonly #end = new AbortController();
  #counts: TrafficCounts = { chats: 0, prompts: 0, failures: 0 };
  #seed = 1;
  #ways: Parameters<Traffic["through"]>[0] = { ollama: null, comfyui: null };
  #isDetour = false;

  constructor(box: Box, seed: number) {
    this.#box = box;
    this.#random = new Random(seed);
  }

  get counts(): TrafficCounts {
    return this.#counts;
  }

  through(ways: Parameters<Traffic["through"]>[0]): void {
    this.#ways = ways;
  }

  get #ollama(): string {
    return (this.#isDetour ? this.#ways.ollama : null) ?? this.#box.ollama.url;
  }

  get #comfy(): string {
    return (this.#isDetour ? this.#ways.comfyui : null) ?? this.#box.comfy.url;
  }

  stop(): void {
    this.#box.thirdParty.stop();
    this.#end.abort(new DOMException("The traffic was stopped", "AbortError"));
  }

  /** Goes on until it is stopped. */
  async live(): Promise<void> {
    try {
      await this.#rounds();
    } catch (error) {
      // Every wait ends with the stop; anything else is a mistake in here.
      if (!this.#end.signal.aborted) throw error;
    }
  }

  async #rounds(): Promise<void> {
    await this.#pause([600, 900]);
    for (let turn = 0;; turn += 1) {
      const scene = SCENES[turn % SCENES.length];
      if (scene === undefined) return;
      this.#isDetour = turn % 2 === 1;
      await this.#attempt(() => this.#chat(scene));
      await this.#pause([600, 1_400]);
      await this.#attempt(() => this.#paint(scene));
      if (scene.restMs[0] > 5_000) await this.#attempt(() => this.#embed());
      await this.#pause(scene.restMs);
    }
  }

  /** A server that is down or refuses costs this user a moment, as it would a person. */
  async #attempt(what: () => Promise<void>): Promise<void> {
    try {
      await what();
    } catch (error) {
      if (this.#end.signal.aborted) throw error;
      this.#counts = { ...this.#counts, failures: this.#counts.failures + 1 };
      await this.#pause([1_000, 2_000]);
    }
  }

  async #chat({ model, chats }: Scene): Promise<void> {
    for (let left = this.#random.whole(...chats); left > 0; left -= 1) {
      const messages = [{ role: "user", content: this.#random.pick(QUESTIONS) }];
      const options = { num_predict: this.#random.whole(40, 100) };
      await this.#send(`${this.#ollama}/api/chat`, { model, messages, options });
      this.#counts = { ...this.#counts, chats: this.#counts.chats + 1 };
      if (left > 1) await this.#pause([400, 1_400]);
    }
  }

  async #embed(): Promise<void> {
    await this.#pause([500, 1_500]);
    await this.#send(`${this.#ollama}/api/embed`, {
      model: "nomic-embed-text",
      input: "where was it",
      keep_alive: "20s",
    });
  }

  async #paint({ checkpoint, prompts, steps }: Scene): Promise<void> {
    for (let left = this.#random.whole(...prompts); left > 0; left -= 1) {
      this.#seed += 1;
      const text = this.#random.pick(PICTURES);
      await this.#send(`${this.#comfy}/prompt`, {
        prompt: picture({ checkpoint, steps, seed: this.#seed, text }),
      });
      this.#counts = { ...this.#counts, prompts: this.#counts.prompts + 1 };
      await this.#pause([300, 1_200]);
    }
    while (this.#box.comfy.queueRemaining > 0) await this.#pause([400, 400]);
  }

  /** Posts, and reads the answer to its end. */
  async #send(url: string, body: unknown): Promise<void> {
    const { signal } = this.#end;
    const response = await fetch(url, { method: "POST", body: JSON.stringify(body), signal });
    const text = await response.text();
    if (!response.ok) throw new Error(`${url} answered ${response.status}: ${text.slice(0, 200)}`);
  }

  #pause(span: Span): Promise<void> {
    return this.#box.clock.sleep(this.#random.between(...span), this.#end.signal);
  }
}

/** A text-to-image graph as the frontend posts it. */
function picture({ checkpoint, steps, seed, text }: {
  readonly checkpoint: string;
  readonly steps: number;
  readonly seed: number;
  readonly text: string;
}): Record<string, unknown> {
  const node = (class_type: string, inputs: Record<string, unknown>) => ({ class_type, inputs });
  return {
    "1": node("CheckpointLoaderSimple", { ckpt_name: checkpoint }),
    "2": node("CLIPTextEncode", { clip: ["1", 1], text }),
    "3": node("CLIPTextEncode", { clip: ["1", 1], text: "" }),
    "4": node("EmptyLatentImage", { width: 1_024, height: 1_024, batch_size: 1 }),
    "5": node("KSampler", {
      model: ["1", 0],
      seed,
      steps,
      cfg: 7,
      sampler_name: "euler",
      scheduler: "normal",
      positive: ["2", 0],
      negative: ["3", 0],
      latent_image: ["4", 0],
      denoise: 1,
    }),
    "6": node("VAEDecode", { samples: ["5", 0], vae: ["1", 2] }),
    "7": node("PreviewImage", { images: ["6", 0] }),
  };
}
