import { GIB } from "../model/units.ts";
import { executionOrder, type Graph, linkOf, signatureOf } from "./comfy_graph.ts";
import { type ComfyMemory, OutOfMemory } from "./comfy_memory.ts";
import type { ComfyModel } from "./comfy_models.ts";
import type { ComfyQuirks } from "./comfy_quirks.ts";
import { NODE_CLASSES } from "./comfy_nodes.ts";
import type { HistoryEntry, QueueItem } from "./comfy_queue.ts";
import { ComfyMessages } from "./comfy_messages.ts";
import type { Ground } from "./ground.ts";
import { draw } from "./timing.ts";

/** What has passed since the status frame when the first weights are asked for: the worker's start and the loader. */
const BEFORE_WEIGHTS_MS = 6;

/** A card that is driven too far gives way once it is well at work. */
const BROKEN_STEP = 3;

/** Raised by a node; the prompt ends with it, the next one runs. */
export class NodeFailure extends Error {
  constructor(readonly type: string, message: string) {
    super(message);
  }
}

/** The prompt was interrupted. */
export class Interrupted extends Error {}

/** What isn't caught where nodes are run: the worker's thread ends, its server lives on. */
export class WorkerDied extends Error {}

export interface RunParts {
  readonly ground: Ground;
  readonly pid: number;
  readonly memory: ComfyMemory;
  readonly models: readonly ComfyModel[];
  readonly send: (type: string, to: string | null, data: Readonly<Record<string, unknown>>) => void;
  readonly isInterrupted: () => boolean;
  readonly quirks: Pick<ComfyQuirks, "firstGrowthMs">;
  /** Aborts with the process. */
  readonly life: AbortSignal;
}

/** What one run leaves for the next: results by signature. The classic cache keeps those of the last prompt alone. */
export type NodeCache = ReadonlyMap<string, Readonly<Record<string, unknown>> | null>;

/** Runs one prompt, node by node, telling whoever is to be told. */
export class ComfyRun {
  readonly #parts: RunParts;
  readonly #item: QueueItem;
  readonly #graph: Graph;
  readonly #messages: ComfyMessages;
  readonly #executed: string[] = [];
  readonly #results = new Map<string, Readonly<Record<string, unknown>> | null>();
  readonly #outputs: Record<string, unknown> = {};
  readonly #meta: Record<string, unknown> = {};
  /** Not-a-numbers in the latent decode to nothing. */
  #isBlack = false;
  /** The node that runs; null between nodes. */
  node: string | null = null;

  constructor(parts: RunParts, item: QueueItem) {
    this.#parts = parts;
    this.#item = item;
    this.#graph = item[2];
    this.#messages = new ComfyMessages(item, { send: parts.send, nowMs: () => parts.ground.clock.wallMs() });
  }

  /** Ends with what goes to the history, and the results to keep; throws only WorkerDied or with the process. */
  async run(cache: NodeCache): Promise<{ readonly entry: HistoryEntry; readonly cache: NodeCache }> {
    const order = executionOrder(this.#graph, this.#item[4]);
    this.#messages.started();
    const cached = order.filter((id) => cache.has(signatureOf(this.#graph, id)));
    this.#messages.cached(cached);
    try {
      for (const id of order) {
        const signature = signatureOf(this.#graph, id);
        const output = cache.has(signature) ? cache.get(signature) ?? null : await this.#execute(id);
        this.#results.set(signature, output);
        if (output !== null) this.#show(id, output);
        if (!cache.has(signature)) this.#messages.finished(id);
      }
      this.#messages.succeeded();
      return this.#end("success");
    } catch (error) {
      this.#explain(error);
      return this.#end("error");
    } finally {
      this.node = null;
      this.#parts.ground.vram.work(this.#parts.pid, 0);
    }
  }

  #end(status: "success" | "error"): { readonly entry: HistoryEntry; readonly cache: NodeCache } {
    const messages = this.#messages.kept;
    const entry: HistoryEntry = {
      prompt: this.#item,
      outputs: this.#outputs,
      status: { status_str: status, completed: status === "success", messages },
      meta: this.#meta,
    };
    return { entry, cache: this.#results };
  }

  #explain(error: unknown): void {
    const id = this.node ?? "";
    const node = { id, type: this.#graph[id]?.class_type ?? "", inputs: this.#inputs(id), executed: this.#executed };
    if (error instanceof Interrupted) return this.#messages.interrupted(node);
    if (error instanceof OutOfMemory) {
      // The server itself unloads everything when a node runs out of memory.
      this.#parts.memory.unload(() => true);
      const message = `${error.message}\nThis error means you ran out of memory on your GPU.\n\n` +
        "TIPS: If the workflow worked before you might have accidentally set the batch_size to a large number.";
      return this.#messages.failed(node, { type: "torch.OutOfMemoryError", message });
    }
    if (error instanceof NodeFailure) return this.#messages.failed(node, { type: error.type, message: error.message });
    throw error;
  }

  #show(id: string, output: Readonly<Record<string, unknown>>): void {
    this.#outputs[id] = output;
    this.#meta[id] = { node_id: id, display_node: id, parent_node: null, real_node_id: id };
    this.#messages.executed(id, output);
  }

  #inputs(id: string): Readonly<Record<string, unknown>> {
    return this.#graph[id]?.inputs ?? {};
  }

  async #execute(id: string): Promise<Readonly<Record<string, unknown>> | null> {
    if (this.#parts.isInterrupted()) throw new Interrupted();
    this.node = id;
    this.#messages.executing(id);
    const inputs = this.#inputs(id);
    const output = await this.#perform(id, inputs);
    this.#executed.push(id);
    return output;
  }

  async #perform(
    id: string,
    inputs: Readonly<Record<string, unknown>>,
  ): Promise<Readonly<Record<string, unknown>> | null> {
    const nodeClass = NODE_CLASSES[this.#graph[id]?.class_type ?? ""];
    switch (nodeClass?.does) {
      case "load":
        await this.#pause(3);
        return null;
      case "encode":
        await this.#toCard(this.#modelBehind(id));
        await this.#pause(25);
        return null;
      case "sample":
        await this.#sample(id, inputs);
        return null;
      case "decode":
        await this.#pause(140);
        return null;
      case "image":
        await this.#pause(2);
        return null;
      case "preview":
        await this.#pause(4);
        return {
          images: [{
            filename: `ComfyUI_temp_lab_${this.#item[0]}_${this.#isBlack ? "black" : ""}.png`,
            subfolder: "",
            type: "temp",
          }],
        };
      case "work":
        await this.#work(id, inputs);
        return { text: ["worked"] };
      case "fail":
        return fail(String(inputs["kind"]));
      default:
        return null;
    }
  }

  /** Brings the weights to the card; the first piece comes a moment after the frame, or once the disk has spoken. */
  async #toCard(model: ComfyModel | null): Promise<void> {
    const { ground, memory, life, pid } = this.#parts;
    if (model === null || memory.share(model) > 0) return;
    const isWarm = memory.isFileWarm(model);
    const usual = isWarm ? ground.timing.comfyWarmMs : ground.timing.comfyColdMs;
    const firstMs = this.#parts.quirks.firstGrowthMs ?? draw(usual, ground.random);
    await this.#pause(firstMs - BEFORE_WEIGHTS_MS);
    ground.vram.work(pid, 30);
    memory.warmUp();
    const gbPerS = isWarm ? ground.timing.comfyUploadGbPerS : ground.timing.comfyDiskGbPerS;
    await memory.load(model, { gbPerS, signal: life });
    memory.readFile(model);
  }

  async #sample(id: string, inputs: Readonly<Record<string, unknown>>): Promise<void> {
    const { ground, memory, pid } = this.#parts;
    const model = this.#modelBehind(id);
    await this.#toCard(model);
    if (memory.cacheBytes === 0) await this.#pause(draw(ground.timing.comfyWarmMs, ground.random));
    const latent = this.#linked(inputs["latent_image"]);
    const pixels = Number(latent["width"] ?? 1_024) * Number(latent["height"] ?? 1_024) / 1_024 ** 2;
    const had = model === null ? 1 : memory.takeWork(model.workBytes * pixels);
    // Half a model on the card made four steps take twice as long; what is missing of the work space costs as well.
    const share = model === null ? 1 : Math.min(1, memory.share(model) + 0.001);
    const slowdown = 1 + (1 - share) * 2.4 + (1 - had) * 0.6;
    const stepMs = ground.timing.stepMs * (model?.stepFactor ?? 1) * pixels * slowdown;
    const stray = ground.pace.stray();
    ground.vram.work(pid, 99);
    const steps = Number(inputs["steps"]);
    for (let step = 1; step <= steps; step += 1) {
      await this.#pause(stepMs / (ground.pace.diffusion() * stray));
      if (step === BROKEN_STEP) this.#breakDown();
      this.#tick(id, { step, steps });
    }
  }

  #breakDown(): void {
    const { pace, table } = this.#parts.ground;
    const breakdown = pace.breakdown();
    if (breakdown === "xid") table.xid(13);
    if (breakdown === "crash") throw new NodeFailure("RuntimeError", "CUDA error: an illegal memory access\n");
    this.#isBlack = breakdown === "degenerate";
  }

  async #work(id: string, inputs: Readonly<Record<string, unknown>>): Promise<void> {
    const { ground, memory, pid } = this.#parts;
    const bytes = Math.round(Number(inputs["vram_gb"] ?? 0) * GIB);
    if (bytes > 0) {
      await this.#pause(draw(ground.timing.comfyWarmMs, ground.random));
      memory.takeWork(bytes);
    }
    ground.vram.work(pid, 90);
    const steps = Number(inputs["steps"]);
    for (let step = 1; step <= steps; step += 1) {
      await this.#pause(Number(inputs["step_ms"]));
      this.#tick(id, { step, steps });
    }
  }

  #tick(id: string, { step, steps }: { readonly step: number; readonly steps: number }): void {
    if (this.#parts.isInterrupted()) throw new Interrupted();
    this.#messages.progress(id, { value: step, max: steps });
  }

  #pause(ms: number): Promise<void> {
    return this.#parts.ground.clock.sleep(ms, this.#parts.life);
  }

  #linked(value: unknown): Readonly<Record<string, unknown>> {
    const from = linkOf(value);
    return from === null ? {} : this.#inputs(from.node);
  }

  /** The checkpoint that feeds a node, found along its links. */
  #modelBehind(id: string): ComfyModel | null {
    for (const ancestor of executionOrder(this.#graph, [id])) {
      const name = this.#inputs(ancestor)["ckpt_name"];
      const model = this.#parts.models.find((each) => each.name === name);
      if (model !== undefined) return model;
    }
    return null;
  }
}

function fail(kind: string): never {
  if (kind === "system_exit") throw new WorkerDied("SystemExit");
  if (kind === "oom") throw new OutOfMemory("CUDA out of memory. Tried to allocate 2.00 GiB (deliberate)");
  throw new NodeFailure("ValueError", "deliberate failure\n");
}
