import { ComfyMessages } from "./comfy_messages.ts";
import type { ComfyMemory } from "./comfy_memory.ts";
import type { ComfyQuirks } from "./comfy_quirks.ts";
import type { ComfyQueue, QueueItem } from "./comfy_queue.ts";
import { ComfyRun, type NodeCache, type RunParts, WorkerDied } from "./comfy_run.ts";
import { draw } from "./timing.ts";

/** Python's collector, with ComfyUI's objects: the whole process is silent for that long. */
const GC_MS = 250;
const BEFORE_GC_MS = 0.3;
/** Emptying the CUDA cache after it: the process answers again, the worker still doesn't listen. */
const FLUSH_MS = 12;
const GC_EVERY_MS = 10_000;
const IDLE_WAIT_MS = 1_000_000;
/** A `/free` sooner than this after a prompt takes long: full runs leave more to move. */
const AFTER_RUN_MS = 4_000;

export interface ComfyWorkerOptions extends Omit<RunParts, "isInterrupted"> {
  readonly queue: ComfyQueue;
  readonly memory: ComfyMemory;
  readonly quirks: ComfyQuirks;
}

/**
 * The one thread that runs prompts: takes a prompt or is woken, then reads the flags of `/free`, then collects garbage if
 * the last time was 10 s ago. Whoever wakes it while it does that isn't heard, and the flags lie there until next time.
 */
export class ComfyWorker {
  readonly #options: ComfyWorkerOptions;
  #run: ComfyRun | null = null;
  #client: string | null = null;
  #isInterrupted = false;
  #wake: (() => void) | null = null;
  #silence: PromiseWithResolvers<void> | null = null;
  #cache: NodeCache = new Map();
  #usedModels = new Set<string>();
  #needsGc = false;
  #lastGcMs = -Infinity;
  #lastEndMs = -Infinity;
  #isDead = false;
  /** A wake-up that came while nobody waited, kept only without the quirk that forgets it. */
  #isKept = false;

  constructor(options: ComfyWorkerOptions) {
    this.#options = options;
  }

  /** True once a node has ended the thread: the server lives on, nothing is run any more. */
  get isDead(): boolean {
    return this.#isDead;
  }

  /** While garbage is collected nothing in the process answers. */
  async free(): Promise<void> {
    while (this.#silence !== null) await this.#silence.promise;
  }

  /** The node that this client's prompt is at, for a client that comes back. */
  runningNodeOf(client: string): string | null {
    return this.#client === client ? this.#run?.node ?? null : null;
  }

  /** Heard only while the worker waits; Python's `notify` has no memory. */
  notify(): void {
    if (this.#wake !== null) this.#wake();
    else if (!this.#options.quirks.losesWakeUps) this.#isKept = true;
  }

  /** Noticed at the next node or tick. Sent while nothing runs, it is forgotten. */
  interrupt(): void {
    if (this.#run !== null) this.#isInterrupted = true;
  }

  /** Runs until the process ends. */
  async work(): Promise<void> {
    const { clock } = this.#options.ground;
    for (;;) {
      const waitMs = this.#needsGc ? Math.max(0, GC_EVERY_MS - (clock.monotonicMs() - this.#lastGcMs)) : IDLE_WAIT_MS;
      const item = await this.#next(waitMs);
      if (item !== null && !(await this.#runItem(item))) return;
      await this.#obeyFlags();
      if (this.#isGcDue()) await this.#collect();
    }
  }

  async #next(waitMs: number): Promise<QueueItem | null> {
    const { ground, queue, life } = this.#options;
    if (queue.pending.length === 0 && !this.#isKept) {
      const woken = Promise.withResolvers<void>();
      this.#wake = woken.resolve;
      const wake = () => woken.resolve();
      const timer = ground.clock.after(waitMs, wake);
      life.addEventListener("abort", wake, { once: true });
      await woken.promise;
      life.removeEventListener("abort", wake);
      timer.stop();
      this.#wake = null;
    }
    this.#isKept = false;
    life.throwIfAborted();
    if (queue.pending.length === 0) return null;
    // From the broadcast to the worker's start: 4 ms at most.
    await ground.clock.sleep(ground.random.between(0.5, 4), life);
    return queue.take();
  }

  /** False when the thread has died of it. */
  async #runItem(item: QueueItem): Promise<boolean> {
    const { ground, queue, send } = this.#options;
    const isInterrupted = () => this.#isInterrupted;
    const run = new ComfyRun({ ...this.#options, isInterrupted }, item);
    const messages = new ComfyMessages(item, { send, nowMs: () => ground.clock.wallMs() });
    this.#isInterrupted = false;
    this.#run = run;
    this.#client = messages.client;
    this.#needsGc = true;
    try {
      const { entry, cache } = await run.run(this.#cache);
      this.#cache = cache;
      this.#usedModels = modelsOf(item);
      this.#run = null;
      this.#lastEndMs = ground.clock.monotonicMs();
      if (this.#options.quirks.endsUnheard && this.#isGcDue()) this.#fallSilent();
      queue.done(entry);
      messages.ended();
      return true;
    } catch (error) {
      if (!(error instanceof WorkerDied)) throw error;
      this.#isDead = true;
      return false;
    }
  }

  async #obeyFlags(): Promise<void> {
    const { ground, queue, memory, life } = this.#options;
    const { clock, timing, random } = ground;
    const { unloadModels, freeMemory } = queue.takeFlags();
    if (!unloadModels && !freeMemory) return;
    const isQuiet = clock.monotonicMs() - this.#lastEndMs > AFTER_RUN_MS;
    const untilFallMs = draw(isQuiet ? timing.freeQuietMs : timing.freeAfterRunMs, random);
    // Weights are moved to RAM first; the card sees it all at once, when the cache is emptied.
    if (memory.modelNames.length > 0) await clock.sleep(untilFallMs - GC_MS - FLUSH_MS, life);
    this.#usedModels.clear();
    if (freeMemory) this.#cache = new Map();
    this.#needsGc = true;
    this.#lastGcMs = -Infinity;
  }

  #isGcDue(): boolean {
    return this.#needsGc && this.#options.ground.clock.monotonicMs() - this.#lastGcMs >= GC_EVERY_MS;
  }

  #fallSilent(): void {
    this.#silence ??= Promise.withResolvers<void>();
  }

  async #collect(): Promise<void> {
    const { ground, memory, life } = this.#options;
    // The prompt's last frames just get out; whoever answers them at once comes too late to be heard.
    await ground.clock.sleep(BEFORE_GC_MS, life);
    this.#fallSilent();
    try {
      await ground.clock.sleep(GC_MS, life);
    } finally {
      this.#silence?.resolve();
      this.#silence = null;
    }
    await ground.clock.sleep(FLUSH_MS, life);
    memory.unload((model) => !this.#usedModels.has(model.name));
    memory.emptyCache();
    this.#lastGcMs = ground.clock.monotonicMs();
    this.#needsGc = false;
  }
}

/** The files that a prompt names: the cache keeps what the last prompt used, and so does the card. */
function modelsOf([, , graph]: QueueItem): Set<string> {
  const names = Object.values(graph).flatMap((node) => Object.values(node.inputs ?? {}));
  return new Set(names.filter((name): name is string => typeof name === "string"));
}
