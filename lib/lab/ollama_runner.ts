import { GIB } from "../model/units.ts";
import type { Bytes } from "../model/units.ts";
import { type Ground, holdCall, stirOf } from "./ground.ts";
import { type LabModel, MODELS_DIR } from "./ollama_models.ts";
import { type LoadOptions, outOfMemoryText, runnerArgs, type RunnerGenerationName } from "./runner_args.ts";
import { answerLlamaServer, answerMlxRunner, answerOllamaRunner } from "./runner_port.ts";
import { WireServer } from "./wire_server.ts";

/** The CUDA context, taken before the first weights. */
const CONTEXT_BYTES = Math.round(0.45 * GIB);
/** What the driver shows above `size_vram`: context and buffers that no log line tells (10.696 GB said, 11.39 taken). */
const OVERHEAD_BYTES = Math.round(0.65 * GIB);
const GROWTH_STEP_MS = 50;
/** Ollama asks an MLX runner to leave (SIGINT), and kills it when it hasn't by then. */
const MLX_PATIENCE_MS = 5_000;

const ANSWERS = { "llama-server": answerLlamaServer, "ollama-runner": answerOllamaRunner, mlx: answerMlxRunner };

export interface RunnerSpec {
  readonly model: LabModel;
  readonly options: LoadOptions;
  readonly generation: RunnerGenerationName;
  readonly serverPid: number;
  readonly parallel: number;
  /** Dies within milliseconds of its start and never says a word. */
  readonly diesAtStart: boolean;
  /** Refuses instead of spilling when the card hasn't the room. */
  readonly refusesWhenShort: boolean;
}

/**
 * A child of the simulated Ollama: a process with its own port that takes VRAM while it loads. It knows nothing of
 * requests; the scheduler and the generation tell it what it is doing.
 */
export class OllamaRunner {
  readonly spec: RunnerSpec;
  readonly pid: number;
  readonly contextSize: number;
  /** Why it ended by itself, in the server's words; null while it lives or was killed. */
  failure: string | null = null;
  state: "loading" | "ready" | "dying" | "gone" = "loading";
  /** As after SIGSTOP: alive, deaf. */
  isStopped = false;
  work: { promptTokens: number; decoded: number; remaining: number } | null = null;
  readonly #ground: Ground;
  readonly #port: WireServer;
  readonly #life = new AbortController();
  #progress = 0;
  #offload = 1;

  constructor(ground: Ground, spec: RunnerSpec) {
    this.#ground = ground;
    this.spec = spec;
    this.contextSize = Math.min(spec.options.numCtx ?? 4_096, spec.model.contextLength);
    const answer = ANSWERS[spec.generation];
    this.#port = new WireServer({
      handle: (exchange) => answer(exchange, this.#words()),
      onStir: stirOf(ground.clock),
      onError: ground.onError,
    });
    const { processes } = ground;
    const server = processes.get(spec.serverPid);
    const own = runnerArgs(spec, { port: this.#port.port, contextSize: this.contextSize });
    // For some ms after the fork the older generation's child still shows its server's command line.
    const isForked = spec.generation !== "llama-server" && server !== null;
    const entry = processes.spawn({
      parentPid: spec.serverPid,
      uid: server?.uid ?? 999,
      cgroup: server?.cgroup ?? "/system.slice/ollama.service",
      cwd: server?.cwd ?? "/",
      ...own,
      args: isForked ? server.args : own.args,
    });
    this.pid = entry.pid;
    processes.listen(this.pid, this.#port.port);
    if (isForked) ground.clock.after(3, () => processes.change(this.pid, { args: own.args }));
    if (spec.diesAtStart) ground.clock.after(2, () => this.#end());
    else this.#load().catch((error) => this.#life.signal.aborted || ground.onError(error));
  }

  get port(): number {
    return this.#port.port;
  }

  get heldBytes(): Bytes {
    return this.#ground.vram.heldBytes(this.pid);
  }

  /** The share of the layers that lies on the card. */
  get offload(): number {
    return this.#offload;
  }

  /** Weights, key/value cache and buffers, wherever they lie. */
  get sizeBytes(): Bytes {
    const { blobBytes, kvBytesPerToken, bufferBytes } = this.spec.model;
    return blobBytes + kvBytesPerToken * this.contextSize * this.spec.parallel + bufferBytes;
  }

  get sizeVramBytes(): Bytes {
    return Math.round(this.sizeBytes * this.#offload);
  }

  /**
   * Asks an MLX runner to leave, and kills it when it doesn't. Resolves when it is gone, or after the kill, which isn't
   * waited for.
   */
  async interrupt(exitMs: number, releaseMs: number): Promise<void> {
    await this.#ground.clock.sleep(Math.min(exitMs, MLX_PATIENCE_MS));
    const killed = this.kill(releaseMs);
    if (exitMs < MLX_PATIENCE_MS) await killed;
    else killed.catch(this.#ground.onError);
  }

  /** Kills it. Resolves when the process is reaped, which is when the driver has its memory back, `releaseMs` later. */
  async kill(releaseMs: number): Promise<void> {
    if (this.state === "gone" || this.state === "dying") return;
    this.state = "dying";
    this.#life.abort();
    this.work = null;
    const { clock, processes, vram } = this.#ground;
    vram.work(this.pid, 0);
    processes.makeDying(this.pid);
    // While the driver tears a process down, the memory call doesn't return for its last 22–50 ms.
    const quietMs = Math.max(0, releaseMs - 35);
    await clock.sleep(quietMs);
    if (this.#ground.driverHolds) this.#ground.table.hold("memory", true);
    await clock.sleep(releaseMs - quietMs);
    this.#end();
    if (this.#ground.driverHolds) this.#ground.table.hold("memory", false);
  }

  /** Killed from outside, or crashed: gone at once, and its server isn't told. */
  crash(): void {
    if (this.state === "gone") return;
    this.failure = this.spec.generation === "llama-server"
      ? "llama-server process has terminated: signal: killed"
      : "llama runner process has terminated with exit code -1";
    this.#end();
  }

  stop(isStopped: boolean): void {
    this.isStopped = isStopped;
    this.#ground.processes.change(this.pid, { state: isStopped ? "T" : "S" });
    if (isStopped) this.#port.freeze();
    else this.#port.thaw();
  }

  /** Closes the port with the box; the process simply isn't simulated any further. */
  async dispose(): Promise<void> {
    this.#life.abort();
    await this.#port.close();
  }

  #words() {
    return {
      isLoading: this.state === "loading",
      progress: this.#progress,
      contextSize: this.contextSize,
      work: this.work,
    };
  }

  async #load(): Promise<void> {
    const { clock, vram, pageCache, timing } = this.#ground;
    const { signal } = this.#life;
    const { blob, blobBytes } = this.spec.model;
    const file = `${MODELS_DIR}/blobs/${blob}`;
    await clock.sleep(timing.loadStartMs / 2, signal);
    vram.enter(this.pid);
    holdCall(this.#ground, "processes", 104);
    if (!vram.allocate(this.pid, CONTEXT_BYTES)) return this.#refuse();
    await clock.sleep(timing.loadStartMs / 2, signal);
    if (!this.#plan()) {
      await clock.sleep(300, signal);
      return this.#refuse();
    }
    const residentBytes = pageCache.residentBytes(file);
    const readMs = residentBytes / timing.warmGbPerS / 1e6 + (blobBytes - residentBytes) / timing.coldGbPerS / 1e6;
    const weights = Math.round(blobBytes * this.#offload);
    const steps = Math.max(1, Math.ceil(readMs / GROWTH_STEP_MS));
    for (let step = 1; step <= steps; step += 1) {
      await clock.sleep(readMs / steps, signal);
      this.#progress = step / steps;
      const target = CONTEXT_BYTES + Math.round(weights * this.#progress);
      if (!vram.allocate(this.pid, target - this.heldBytes)) return this.#refuse();
    }
    pageCache.read(file, blobBytes);
    if (!vram.allocate(this.pid, this.sizeVramBytes + OVERHEAD_BYTES - this.heldBytes)) return this.#refuse();
    this.#ground.processes.change(this.pid, { rssBytes: 700e6 + (blobBytes - weights) });
    this.state = "ready";
  }

  /** How many layers fit; false when that isn't enough for this request. */
  #plan(): boolean {
    const { layers } = this.spec.model;
    const room = this.#ground.vram.freeBytes + CONTEXT_BYTES - OVERHEAD_BYTES;
    const wanted = this.spec.options.numGpu ?? layers + 1;
    const fitting = room >= this.sizeBytes ? layers + 1 : Math.max(0, Math.floor(room / this.sizeBytes * layers));
    const isForced = this.spec.options.numGpu !== null || this.spec.refusesWhenShort || this.spec.generation === "mlx";
    if (isForced && Math.min(wanted, layers + 1) > fitting) return false;
    this.#offload = Math.min(1, Math.min(wanted, fitting) / (fitting > layers ? layers + 1 : layers));
    return true;
  }

  #refuse(): void {
    this.failure = outOfMemoryText(this.spec, {
      sizeBytes: this.sizeBytes,
      freeBytes: this.#ground.vram.freeBytes + this.heldBytes,
    });
    this.#end();
  }

  #end(): void {
    const { vram, processes } = this.#ground;
    this.state = "gone";
    this.work = null;
    this.#life.abort();
    vram.exit(this.pid);
    processes.exit(this.pid);
    this.#port.close().catch(this.#ground.onError);
  }
}
