import type { Bytes } from "../model/units.ts";
import { ComfyApi } from "./comfy_api.ts";
import { answerComfy } from "./comfy_http.ts";
import { ComfyMemory } from "./comfy_memory.ts";
import { COMFY_DIR, type ComfyModel, modelPath } from "./comfy_models.ts";
import { ComfyQueue } from "./comfy_queue.ts";
import { type ComfyQuirks, usualComfy } from "./comfy_quirks.ts";
import { ComfySockets } from "./comfy_sockets.ts";
import { ComfyWorker } from "./comfy_worker.ts";
import { type Ground, stirOf } from "./ground.ts";
import { WireServer } from "./wire_server.ts";

const USER_UID = 1_000;
/** From the start of the process to its port: 6 s, at best. */
const START_MS = 6_100;

export interface ComfyServerOptions {
  readonly ground: Ground;
  readonly models: readonly ComfyModel[];
  readonly port?: number;
  readonly hostBytes?: Bytes;
}

interface Life {
  readonly pid: number;
  readonly wire: WireServer;
  readonly queue: ComfyQueue;
  readonly worker: ComfyWorker;
  readonly sockets: ComfySockets;
  readonly memory: ComfyMemory;
  readonly end: AbortController;
  readonly worked: Promise<void>;
}

/** A simulated ComfyUI 0.3.64 on a real loopback port. */
export class ComfyServer implements AsyncDisposable {
  readonly quirks: ComfyQuirks = usualComfy();
  readonly models: readonly ComfyModel[];
  readonly port: number;
  readonly #options: ComfyServerOptions;
  #life: Life | null;

  constructor(options: ComfyServerOptions) {
    this.#options = options;
    this.models = options.models;
    this.#life = this.#begin(options.port ?? 0);
    this.port = this.#life.wire.port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get pid(): number | null {
    return this.#life?.pid ?? null;
  }

  get heldBytes(): Bytes {
    return this.#life?.memory.heldBytes ?? 0;
  }

  /** Running and pending prompts. */
  get queueRemaining(): number {
    return this.#life?.queue.remaining ?? 0;
  }

  /** How much of a model's weights lies on the card, 0–1: what a silent partial load left. */
  share(model: string): number {
    const found = this.models.find((each) => each.name === model);
    return found === undefined || this.#life === null ? 0 : this.#life.memory.share(found);
  }

  /** True when a node has ended the worker's thread. */
  get isWorkerDead(): boolean {
    return this.#life?.worker.isDead ?? false;
  }

  /** Ends it at once, whatever the signal; everything it held and knew is gone, sockets close without a frame. */
  async kill(_signal: "SIGTERM" | "SIGKILL" = "SIGKILL"): Promise<void> {
    const life = this.#life;
    if (life === null) return;
    this.#life = null;
    const { ground } = this.#options;
    await this.#end(life);
    ground.processes.makeDying(life.pid);
    await ground.clock.sleep(45);
    ground.vram.exit(life.pid);
    ground.processes.exit(life.pid);
  }

  /** Starts it again; the port opens some six seconds later. */
  async start(): Promise<void> {
    if (this.#life !== null) return;
    await this.#options.ground.clock.sleep(START_MS);
    this.#life ??= this.#begin(this.port);
  }

  /** As SIGSTOP and SIGCONT: connections are accepted, nothing is answered, and later everything is. */
  freeze(isFrozen: boolean): void {
    if (isFrozen) this.#life?.wire.freeze();
    else this.#life?.wire.thaw();
  }

  /** Makes that share of a model's file resident in the page cache. */
  warm(model: string, share: number): void {
    const found = this.models.find((each) => each.name === model);
    if (found === undefined) throw new RangeError(`Cannot find ${model} among the simulated models`);
    this.#options.ground.pageCache.set(modelPath(found), { sizeBytes: found.fileBytes, share });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const life = this.#life;
    this.#life = null;
    if (life !== null) await this.#end(life);
  }

  async #end(life: Life): Promise<void> {
    life.end.abort(new DOMException("The process ended", "AbortError"));
    life.sockets.drop();
    await life.wire.close();
    await life.worked;
    this.#options.ground.vram.work(life.pid, 0);
  }

  #begin(port: number): Life {
    const { ground, models, hostBytes = 64e9 } = this.#options;
    const end = new AbortController();
    const python = `${COMFY_DIR}/venv/bin/python3.11`;
    const argv = ["main.py", "--listen", "127.0.0.1"];
    const { pid } = ground.processes.spawn({
      parentPid: 1,
      // PyTorch names the main thread.
      name: "pt_main_thread",
      args: [python, ...argv],
      exe: python,
      cwd: COMFY_DIR,
      cgroup: "/user.slice/user-1000.slice/user@1000.service/app.slice/comfyui.service",
      uid: USER_UID,
    });
    const memory = new ComfyMemory(ground, pid);
    const status = () => ({ status: { exec_info: { queue_remaining: queue.remaining } } });
    const queue = new ComfyQueue(() => sockets.send("status", { data: status(), to: null }));
    const sockets: ComfySockets = new ComfySockets({
      queueRemaining: () => queue.remaining,
      runningNodeOf: (sid) => worker.runningNodeOf(sid),
      free: () => worker.free(),
      newSid: () => ground.clock.uuid().replaceAll("-", ""),
      onError: ground.onError,
    });
    const worker: ComfyWorker = new ComfyWorker({
      ground,
      pid,
      memory,
      models,
      queue,
      quirks: this.quirks,
      life: end.signal,
      send: (type, to, data) => sockets.send(type, { data, to }),
    });
    const crash = () => void ground.clock.after(60, () => void this.kill().catch(ground.onError));
    const api = new ComfyApi({ ground, queue, worker, sockets, memory, models, argv, hostBytes, crash });
    const { routes } = api;
    const wire = new WireServer({
      port,
      maxBodyBytes: 104_857_600,
      onStir: stirOf(ground.clock),
      onError: (error) => end.signal.aborted || ground.onError(error),
      handle: async (exchange) => {
        await worker.free();
        await answerComfy(exchange, routes);
      },
    });
    ground.processes.listen(pid, wire.port);
    // The port stands last, where a person would put it.
    argv.push("--port", String(wire.port));
    ground.processes.change(pid, { args: [python, ...argv], rssBytes: 1.2e9 });
    const worked = worker.work().catch((error) => {
      if (!end.signal.aborted) ground.onError(error);
    });
    return { pid, wire, queue, worker, sockets, memory, end, worked };
  }
}
