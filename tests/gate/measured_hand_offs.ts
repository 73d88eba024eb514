/**
 * The hand-offs that were measured on a real card, played in the lab over real sockets: a model holds most of 16 GB, a
 * prompt comes whose weights are on disk (in time, every run) or in RAM (late 4 of 4, by 160–197 ms). With the gate and
 * without, in the same box.
 */
import { type GateDoors } from "../../lib/model/admission.ts";
import { openGate } from "../../lib/gate/gate.ts";
import type { Box } from "../../lib/lab/box.ts";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import type { HistoryItem } from "../../lib/model/history.ts";
import type { Log } from "../../lib/model/ports.ts";
import { GIB } from "../../lib/model/units.ts";
import { memoryStore } from "../../lib/record/memory_store.ts";
import { openGpuReader } from "../../lib/sample/gpu_reader.ts";
import { type LabHouse, openLabHouse } from "../hand_offs/lab_house.ts";

const CHECKPOINT = "sd_xl_base_1.0.safetensors";
/** Weights, room for the work, context: the measured peak is 9.9 GiB, and torch keeps what it took. */
const WHOLE_BYTES = 9.5 * GIB;
const MODEL = "qwen3:14b";
const LIMIT_MS = 120_000;

export interface HandOff {
  readonly weights: "disk" | "ram";
  readonly outcome: unknown;
  readonly marginMs: number | null;
  readonly isGated: unknown;
  readonly confirmMs: number | null;
  /** What the gate said in its header; null without one. */
  readonly heldMs: number | null;
  /** By what ComfyUI held once its work was done: less means that it loaded a part of its weights. */
  readonly isWhole: boolean;
}

const silent: Log = { debug() {}, info() {}, warn() {}, error: (message, fields) => console.error(message, fields) };

export class GatedBox implements AsyncDisposable {
  readonly clock: LabClock;
  readonly lab: LabHouse;
  readonly doors: GateDoors;
  readonly history: () => Promise<readonly HistoryItem[]>;
  #seed = 1;

  private constructor(parts: Pick<GatedBox, "clock" | "lab" | "doors" | "history">) {
    this.clock = parts.clock;
    this.lab = parts.lab;
    this.doors = parts.doors;
    this.history = parts.history;
  }

  static async open(seed: number): Promise<GatedBox> {
    const clock = new LabClock({ seed });
    const store = memoryStore();
    const settle = <T>(promise: Promise<T>) => clock.until(promise, { limitMs: LIMIT_MS });
    const lab = await openLabHouse({
      clock,
      store,
      settle,
      seed,
      gpu: (box) => box.gpu((nvml) => openGpuReader(nvml, { clock, choice: { uuid: null, index: 0 } })),
    });
    const doors = await openGate({
      ollama: { listen: "127.0.0.1:0", url: lab.box.ollama.url },
      comfyui: { listen: "127.0.0.1:0", url: lab.box.comfy.url },
      admission: lab.house.admission,
      clock,
      log: silent,
    });
    const history = () => store.history({ limit: 1_000, kind: null, before: null, durable: true });
    return new GatedBox({ clock, lab, doors, history });
  }

  get box(): Box {
    return this.lab.box;
  }

  settle<T>(promise: Promise<T>): Promise<T> {
    return this.clock.until(promise, { limitMs: LIMIT_MS });
  }

  /** One hand-off from Ollama to ComfyUI, through the gate or from the side. */
  async handOff(weights: HandOff["weights"], { isGated }: { readonly isGated: boolean }): Promise<HandOff> {
    const { box, clock } = this;
    await this.#forget();
    await this.call(box.ollama.url);
    box.comfy.warm(CHECKPOINT, weights === "ram" ? 1 : 0);
    await clock.advance(700);
    const before = (await this.history())[0]?.id ?? 0;
    const response = await this.prompt(isGated ? this.doors.urls.comfyui ?? "" : box.comfy.url);
    while (box.comfy.queueRemaining > 0) await clock.advance(50);
    const isWhole = box.vram.heldBytes(box.comfy.pid ?? 0) >= WHOLE_BYTES;
    await clock.advance(100);
    const item = (await this.history()).find(({ id, kind }) => kind === "yield" && id > before);
    return {
      weights,
      outcome: item?.fields["outcome"],
      marginMs: numberOf(item?.fields["margin_ms"]),
      isGated: item?.fields["gated"],
      confirmMs: numberOf(item?.fields["confirm_ms"]),
      heldMs: numberOf(response.headers.get("x-hyperswap-held-ms")),
      isWhole,
    };
  }

  /** ComfyUI gives everything back, so that the next prompt has to load again. */
  async #forget(): Promise<void> {
    const { box, clock } = this;
    const body = JSON.stringify({ unload_models: true, free_memory: true });
    await clock.advance(1_500);
    await this.#post(`${box.comfy.url}/free`, body);
    await clock.advance(6_000);
  }

  async prompt(url: string, priority?: string): Promise<Response> {
    this.#seed += 1;
    return await this.#post(`${url}/prompt`, JSON.stringify({ prompt: picture(this.#seed) }), priority);
  }

  /** A chat of a few tokens; resolves with its response, read to the end. */
  async call(url: string, model: string = MODEL): Promise<Response> {
    return await this.#post(
      `${url}/api/generate`,
      JSON.stringify({ model, prompt: "Name a lighthouse", stream: false, options: { num_predict: 4 } }),
    );
  }

  async #post(url: string, body: string, priority?: string): Promise<Response> {
    const headers = priority === undefined ? {} : { "x-hyperswap-priority": priority };
    const asked = fetch(url, { method: "POST", body, headers }).then(async (response) => {
      const text = await response.text();
      if (!response.ok) throw new Error(`${url} answered ${response.status}: ${text}`);
      return response;
    });
    return await this.settle(asked);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.lab.house.admission.end();
    await this.settle(this.doors.close(AbortSignal.abort()));
    await this.lab[Symbol.asyncDispose]();
  }
}

function numberOf(value: unknown): number | null {
  const number = typeof value === "string" ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) ? number : null;
}

function picture(seed: number): Record<string, unknown> {
  const node = (class_type: string, inputs: Record<string, unknown>) => ({ class_type, inputs });
  return {
    "1": node("CheckpointLoaderSimple", { ckpt_name: CHECKPOINT }),
    "2": node("CLIPTextEncode", { clip: ["1", 1], text: `a lighthouse ${seed}` }),
    "3": node("EmptyLatentImage", { width: 1_024, height: 1_024, batch_size: 1 }),
    "4": node("KSampler", {
      model: ["1", 0],
      seed,
      steps: 4,
      cfg: 7,
      sampler_name: "euler",
      scheduler: "normal",
      positive: ["2", 0],
      negative: ["2", 0],
      latent_image: ["3", 0],
      denoise: 1,
    }),
    "5": node("VAEDecode", { samples: ["4", 0], vae: ["1", 2] }),
    "6": node("PreviewImage", { images: ["5", 0] }),
  };
}
