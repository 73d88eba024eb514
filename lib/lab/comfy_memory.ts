import { type Bytes, GIB } from "../model/units.ts";
import { type ComfyModel, modelPath } from "./comfy_models.ts";
import type { Ground } from "./ground.ts";

/** The CUDA context when the server has just started, and once kernels were loaded; the latter is never given back. */
const FIRST_CONTEXT_BYTES = Math.round(0.45 * GIB);
const CONTEXT_BYTES = Math.round(0.8 * GIB);
/** What ComfyUI leaves free when it decides how much of a model to load. */
const MARGIN_BYTES = Math.round(0.4 * GIB);
const LEAST_BYTES = Math.round(0.25 * GIB);
const GROWTH_STEP_MS = 50;

/** The driver had no room at all. */
export class OutOfMemory extends Error {
  override readonly name = "OutOfMemoryError";
}

interface OnCard {
  readonly model: ComfyModel;
  bytes: Bytes;
}

/** What the simulated ComfyUI holds on the card: a context that stays, models that stay until they are unloaded, and work. */
export class ComfyMemory {
  readonly #ground: Ground;
  readonly #pid: number;
  readonly #onCard = new Map<string, OnCard>();
  #contextBytes: Bytes;
  /** What torch took for work and keeps until its cache is emptied. */
  #cacheBytes: Bytes = 0;

  constructor(ground: Ground, pid: number) {
    this.#ground = ground;
    this.#pid = pid;
    ground.vram.enter(pid);
    this.#contextBytes = ground.vram.allocate(pid, FIRST_CONTEXT_BYTES) ? FIRST_CONTEXT_BYTES : 0;
  }

  get heldBytes(): Bytes {
    return this.#ground.vram.heldBytes(this.#pid);
  }

  get cacheBytes(): Bytes {
    return this.#cacheBytes;
  }

  get modelNames(): readonly string[] {
    return [...this.#onCard.keys()];
  }

  /** The share of a model's weights that lies on the card, 0–1. */
  share(model: ComfyModel): number {
    return (this.#onCard.get(model.name)?.bytes ?? 0) / model.weightBytes;
  }

  /** The first kernels make the context grow; it never shrinks again. */
  warmUp(): void {
    const more = CONTEXT_BYTES - this.#contextBytes;
    if (more > 0 && this.#ground.vram.allocate(this.#pid, more)) this.#contextBytes = CONTEXT_BYTES;
  }

  /**
   * Brings a model to the card, as much of it as finds room: other models of its own make way, anybody else's memory
   * doesn't. A part is loaded without a word, and stays a part until it is unloaded.
   */
  async load(
    model: ComfyModel,
    { gbPerS, signal }: { readonly gbPerS: number; readonly signal: AbortSignal },
  ): Promise<void> {
    const { vram, clock } = this.#ground;
    if (this.#onCard.has(model.name)) return;
    const wanted = model.weightBytes + model.workBytes + MARGIN_BYTES;
    if (vram.freeBytes < wanted) this.emptyCache();
    if (vram.freeBytes < wanted) this.unload((other) => other !== model);
    // Short of room for all of it, it fills what there is: 3.3 GB of weights in some 3.6 GB, as measured.
    const room = vram.freeBytes - (vram.freeBytes < wanted ? MARGIN_BYTES : 0);
    const target = Math.min(model.weightBytes, Math.max(LEAST_BYTES, room));
    const entry: OnCard = { model, bytes: 0 };
    this.#onCard.set(model.name, entry);
    const durationMs = target / gbPerS / 1e6;
    const steps = Math.max(1, Math.ceil(durationMs / GROWTH_STEP_MS));
    for (let step = 1; step <= steps; step += 1) {
      // The first piece comes at once: that is the growth an observer waits for.
      if (step > 1) await clock.sleep(durationMs / steps, signal);
      const piece = Math.round(target * step / steps) - entry.bytes;
      if (!vram.allocate(this.#pid, piece)) break;
      entry.bytes += piece;
    }
    if (entry.bytes > 0) return;
    this.unload(() => true);
    throw new OutOfMemory("CUDA out of memory.");
  }

  /** Takes room for work; whatever can't be had is done without, more slowly. Gives the share that was had. */
  takeWork(bytes: Bytes): number {
    const { vram } = this.#ground;
    const missing = bytes - this.#cacheBytes;
    if (bytes <= 0 || missing <= 0) return 1;
    const had = Math.max(0, Math.min(missing, vram.freeBytes - LEAST_BYTES / 4));
    if (had > 0 && vram.allocate(this.#pid, had)) this.#cacheBytes += had;
    return Math.min(1, this.#cacheBytes / bytes);
  }

  /** Drops models to RAM or for good; the card doesn't see it before the cache is emptied. */
  unload(which: (model: ComfyModel) => boolean): void {
    for (const [name, entry] of this.#onCard) {
      if (!which(entry.model)) continue;
      this.#onCard.delete(name);
      this.#ground.vram.free(this.#pid, entry.bytes);
    }
  }

  /** Gives back what torch kept. */
  emptyCache(): void {
    this.#ground.vram.free(this.#pid, this.#cacheBytes);
    this.#cacheBytes = 0;
  }

  /** Whether a model's file is in memory, near enough that it needn't be waited for. */
  isFileWarm(model: ComfyModel): boolean {
    return this.#ground.pageCache.residency(modelPath(model)) >= 0.9;
  }

  readFile(model: ComfyModel): void {
    this.#ground.pageCache.read(modelPath(model), model.fileBytes);
  }
}
