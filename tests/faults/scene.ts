/**
 * One box with the whole house over it, for situations that go wrong on purpose. Situations of one box share it: each
 * ends with `rest`, which brings both servers back to where nothing is loaded and nothing runs.
 */
import assert from "node:assert/strict";
import type { Box } from "../../lib/lab/box.ts";
import type { House } from "../../lib/house.ts";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { noQuirks } from "../../lib/lab/ollama_quirks.ts";
import type { PurgeResult, SwitchResult, YieldResult } from "../../lib/model/arbitration.ts";
import { Failure } from "../../lib/model/failure.ts";
import type { HistoryItem } from "../../lib/model/history.ts";
import type { CallOptions } from "../../lib/model/services.ts";
import type { OllamaState } from "../../lib/model/tenants.ts";
import { GIB } from "../../lib/model/units.ts";
import { openGpuReader } from "../../lib/sample/gpu_reader.ts";
import { type Said, watchedStore } from "../hand_offs/hand_offs.ts";
import { type LabHouseOptions, openLabHouse } from "../hand_offs/lab_house.ts";

/** More than any situation takes. */
const LIMIT_MS = 60_000;
/** The predicate must hold on two readings in a row, and the lab's clock gives one a millisecond. */
const MOST_LAG_MS = 3;

export const BIG = "qwen3:14b";
export const MIDDLE = "llama3.1:8b";
export const SMALL = "nomic-embed-text:latest";

export type Stage = Scene & AsyncDisposable;

/** Opens the box, and lets the house see what is installed. */
export async function openScene(
  options: Pick<LabHouseOptions, "policy" | "machine"> & { readonly seed?: number } = {},
): Promise<Stage> {
  const { seed = 5, ...more } = options;
  const clock = new LabClock({ seed });
  const said: Said[] = [];
  const store = watchedStore(clock, (event) => said.push(event));
  const settle = <T>(promise: Promise<T>) => clock.until(promise, { limitMs: LIMIT_MS });
  const lab = await openLabHouse({
    ...more,
    clock,
    store,
    settle,
    seed,
    gpu: (box) => box.gpu((nvml) => openGpuReader(nvml, { clock, choice: { uuid: null, index: 0 } })),
  });
  const scene = new Scene({ box: lab.box, house: lab.house, clock, said });
  // The blobs of each installed model are asked for, one a second.
  await clock.advance((lab.box.ollama.installed.length + 1) * 1_000);
  return Object.assign(scene, { [Symbol.asyncDispose]: () => lab[Symbol.asyncDispose]() });
}

export interface Busy {
  /** Resolves when the answer has ended, however. */
  readonly ended: Promise<void>;
  readonly hangUp: () => void;
}

export class Scene {
  readonly box: Box;
  readonly house: House;
  readonly clock: LabClock;
  readonly #said: readonly Said[];
  readonly #busy = new Set<Busy>();

  constructor(parts: { box: Box; house: House; clock: LabClock; said: readonly Said[] }) {
    this.box = parts.box;
    this.house = parts.house;
    this.clock = parts.clock;
    this.#said = parts.said;
  }

  pass(ms: number): Promise<void> {
    return this.clock.advance(ms);
  }

  settle<T>(promise: Promise<T>): Promise<T> {
    return this.clock.until(promise, { limitMs: LIMIT_MS });
  }

  /** As any other client loads a model; resolves when it is loaded and the house has seen it. */
  async load(model: string, more: Record<string, unknown> = {}): Promise<void> {
    await this.settle(this.beginLoad(model, more));
    if (this.box.ollama.quirks.psStallMs > 0) return this.pass(1_100);
    await this.#seen("the loaded model", ({ resident }) => resident.some((row) => row.name === model));
  }

  /** Until the newest sample shows it. */
  async #seen(what: string, shows: (ollama: OllamaState) => boolean): Promise<void> {
    const isShown = () => shows(this.house.services.live.snapshot().sample.ollama);
    await this.clock.runUntil(isShown, { limitMs: LIMIT_MS, what: `a sample with ${what}` });
  }

  beginLoad(model: string, more: Record<string, unknown> = {}): Promise<void> {
    const isEmbedding = model.includes("embed");
    const body = isEmbedding ? { model, input: "", ...more } : { model, stream: false, ...more };
    return post(`${this.box.ollama.url}/api/${isEmbedding ? "embed" : "generate"}`, body);
  }

  /** A client that keeps a model busy for so many tokens. */
  ask(model: string, tokens: number): Busy {
    const controller = new AbortController();
    const body = { model, prompt: "tell me", options: { num_predict: tokens } };
    const ended = fetch(`${this.box.ollama.url}/api/generate`, {
      method: "POST",
      body: JSON.stringify(body),
      signal: controller.signal,
    }).then((response) => response.text()).then(() => {}, () => {
      // It was hung up on, or its runner died: both end it.
    });
    const busy = { ended, hangUp: () => controller.abort() };
    this.#busy.add(busy);
    return busy;
  }

  /** A prompt of ComfyUI's: the lab's own work, or a checkpoint's. */
  async prompt(
    work: { readonly ms?: number; readonly gib?: number; readonly checkpoint?: string; readonly steps?: number } = {},
  ): Promise<void> {
    const { ms = 300, gib = 0, checkpoint, steps } = work;
    const seed = Math.floor(this.clock.random() * 1e9);
    const graph = checkpoint === undefined
      ? { "1": { class_type: "LabWork", inputs: { steps: 1, step_ms: ms, vram_gb: gib, seed } } }
      : image(checkpoint, { seed, steps });
    await this.settle(post(`${this.box.comfy.url}/prompt`, { prompt: graph }));
  }

  /** A prompt that raises. */
  async fail(kind: "value" | "oom" | "system_exit"): Promise<void> {
    const graph = { "1": { class_type: "LabFail", inputs: { kind, seed: Math.floor(this.clock.random() * 1e9) } } };
    await this.settle(post(`${this.box.comfy.url}/prompt`, { prompt: graph }));
  }

  /** Until ComfyUI's queue is empty. */
  async idle(): Promise<void> {
    await this.clock.runUntil(() => this.box.comfy.queueRemaining === 0, { limitMs: LIMIT_MS, what: "an empty queue" });
  }

  /** An explicit yield. Whatever its outcome, `released` is held against what the lab's driver really did. */
  async yieldVram(models: readonly string[] | null = null, confirm = true): Promise<YieldResult> {
    const request = { models, confirm, operation: "free-vram" };
    const result = await this.settle(this.house.services.arbitration.yieldVram(request, call()));
    if (result.outcome === "released") this.expectReleased(result.pids, this.clock.monotonicMs());
    return result;
  }

  purge(): Promise<PurgeResult> {
    return this.settle(this.house.services.arbitration.purge({ confirm: true, operation: "comfy-free" }, call()));
  }

  switchTo(model: string, signal: AbortSignal = new AbortController().signal): Promise<SwitchResult> {
    const request = { model, keepAlive: "30m", prompt: null, operation: "switch-model" };
    return this.settle(this.house.services.arbitration.switchModel(request, { ...call(), signal }));
  }

  /** What a call was refused with. */
  async refusal(work: Promise<unknown>): Promise<Failure> {
    const cause = await work.then(() => null, (error: unknown) => error);
    assert.ok(cause instanceof Failure, `it was not refused: ${cause}`);
    return cause;
  }

  /** The first event from now on (or from `sinceMs`) that fits, once it is said. */
  async said(
    fits: (item: HistoryItem) => boolean,
    { sinceMs = this.clock.monotonicMs(), limitMs = 20_000 } = {},
  ): Promise<{ readonly item: HistoryItem; readonly atMs: number }> {
    const find = () => this.#said.find(({ item, atMs }) => atMs >= sinceMs && fits(item));
    await this.clock.runUntil(() => find() !== undefined, { limitMs, what: "that event" });
    const found = find();
    assert.ok(found);
    return found;
  }

  /** Events said since then. */
  since(ms: number): readonly HistoryItem[] {
    return this.#said.filter(({ atMs }) => atMs >= ms).map(({ item }) => item);
  }

  /** An event with what was added to it later. */
  async kept(id: number): Promise<HistoryItem> {
    const items = await this.settle(
      this.house.services.history.list({ limit: 200, kind: null, before: null, durable: true }),
    );
    const found = items.find((item) => item.id === id);
    assert.ok(found, `event ${id} isn't kept`);
    return found;
  }

  /** The automatic yield that ComfyUI's work causes, held against the driver's truth where it says `released`. */
  async handOff(sinceMs: number): Promise<HistoryItem> {
    const { item, atMs } = await this.said(
      ({ kind, fields }) => (kind === "yield" || kind === "fault") && fields["cause"] === "comfy_enqueued",
      { sinceMs },
    );
    if (item.fields["outcome"] === "released") this.expectReleased(pidsOf(item), atMs);
    return item;
  }

  /** Never before the driver had freed the last byte, and at once after that. */
  expectReleased(pids: readonly number[], saidAtMs: number): void {
    for (const pid of pids) {
      assert.equal(this.box.vram.heldBytes(pid), 0, `pid ${pid} still holds memory though it was called released`);
    }
    const freed = pids.map((pid) => this.box.vram.releasedAtMs(pid) ?? -Infinity);
    const lagMs = saidAtMs - Math.max(...freed);
    assert.ok(
      lagMs >= 0 && (freed.length === 0 || lagMs <= MOST_LAG_MS),
      `said ${lagMs} ms after the driver's release`,
    );
  }

  runnerOf(model: string) {
    const found = this.box.ollama.runners.find((runner) => runner.model === model);
    assert.ok(found, `no runner of ${model}`);
    return found;
  }

  /** Everything unloaded, idle, and seen by the house. */
  async rest(): Promise<void> {
    const { box, house } = this;
    for (const busy of this.#busy) busy.hangUp();
    this.#busy.clear();
    Object.assign(box.ollama.quirks, noQuirks());
    box.table.failAll(null);
    box.table.wedge(false);
    box.table.hideBytes("all", false);
    box.vram.skewMs = 0;
    house.services.arbitration.set({ mode: "auto", untilMs: null, keep: [] });
    await this.idle();
    const isAlive = box.ollama.pid !== null;
    for (const runner of box.ollama.runners) {
      if (!isAlive || runner.state === "orphan") box.ollama.endRunner(runner.pid);
      else await this.settle(post(`${box.ollama.url}/api/generate`, { model: runner.model, keep_alive: 0 }));
    }
    await this.clock.runUntil(() => box.ollama.runners.length === 0, { limitMs: LIMIT_MS, what: "no runner" });
    await this.clock.runUntil(() => house.state().arbiter.holder === null, { limitMs: LIMIT_MS, what: "a free lane" });
    await this.#seen("an empty Ollama", ({ resident, runners }) => resident.length + runners.length === 0);
    assert.deepEqual(house.state().arbiter.waiting, [], "somebody still waits for the lane");
  }
}

export function call(): CallOptions {
  return { signal: new AbortController().signal, progress: () => {} };
}

export function pidsOf(item: HistoryItem): readonly number[] {
  const pids = item.fields["pids"];
  return Array.isArray(pids) ? pids.filter((pid) => typeof pid === "number") : [];
}

export const gib = (bytes: number | null) => bytes === null ? null : bytes / GIB;

async function post(url: string, body: unknown): Promise<void> {
  const response = await fetch(url, { method: "POST", body: JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${text}`);
}

/** The smallest graph that loads a checkpoint and samples with it; with `steps`, a picture of full size. */
function image(
  checkpoint: string,
  { seed, steps }: { readonly seed: number; readonly steps: number | undefined },
): Record<string, unknown> {
  const side = steps === undefined ? 512 : 1024;
  const text = (words: string) => ({ class_type: "CLIPTextEncode", inputs: { text: words, clip: ["1", 1] } });
  return {
    "1": { class_type: "CheckpointLoaderSimple", inputs: { ckpt_name: checkpoint } },
    "2": text("a card"),
    "3": text("blurred"),
    "4": { class_type: "EmptyLatentImage", inputs: { width: side, height: side, batch_size: 1 } },
    "5": {
      class_type: "KSampler",
      inputs: {
        model: ["1", 0],
        positive: ["2", 0],
        negative: ["3", 0],
        latent_image: ["4", 0],
        seed,
        steps: steps ?? 4,
        cfg: 7,
        sampler_name: "euler",
        scheduler: "normal",
        denoise: 1,
      },
    },
    "6": { class_type: "VAEDecode", inputs: { samples: ["5", 0], vae: ["1", 2] } },
    "7": { class_type: "PreviewImage", inputs: { images: ["6", 0] } },
  };
}
