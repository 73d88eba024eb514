import type { Bytes } from "../model/units.ts";
import { type Ground, stirOf } from "./ground.ts";
import { OllamaRoutes } from "./ollama_api.ts";
import { isNewGeneration, type OllamaVersion } from "./ollama_bodies.ts";
import { answerOllama } from "./ollama_http.ts";
import { type LabModel, MODELS_DIR } from "./ollama_models.ts";
import { noQuirks, type OllamaQuirks } from "./ollama_quirks.ts";
import type { OllamaRunner } from "./ollama_runner.ts";
import { OllamaScheduler } from "./ollama_scheduler.ts";
import { WireServer } from "./wire_server.ts";

/** The unix user that the install script makes. */
const OLLAMA_UID = 998;

export interface OllamaServerOptions {
  readonly ground: Ground;
  readonly version: OllamaVersion;
  readonly models: readonly LabModel[];
  readonly port?: number;
  readonly maxLoaded?: number;
  readonly maxQueue?: number;
  readonly parallel?: number;
  readonly keepAliveMs?: number;
}

/** A runner as it really is, whatever the server lists. */
export interface RunnerTruth {
  readonly pid: number;
  /** The name that loaded it. */
  readonly model: string;
  readonly state: "loading" | "idle" | "busy" | "stopping" | "orphan";
  readonly heldBytes: Bytes;
  readonly port: number;
}

/** What exists only while the server's process does. */
interface Life {
  readonly pid: number;
  readonly wire: WireServer;
  readonly scheduler: OllamaScheduler;
  readonly end: AbortController;
}

/** A simulated Ollama on a real loopback port: the process, its children, its store. */
export class OllamaServer implements AsyncDisposable {
  readonly quirks: OllamaQuirks = noQuirks();
  /** The store; change it as `ollama pull` and `rm` would. */
  readonly installed: LabModel[];
  readonly port: number;
  readonly #options: OllamaServerOptions;
  readonly #orphans = new Set<OllamaRunner>();
  #life: Life | null;

  constructor(options: OllamaServerOptions) {
    this.#options = options;
    this.installed = [...options.models];
    this.#life = this.#begin(options.port ?? 0);
    this.port = this.#life.wire.port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get pid(): number | null {
    return this.#life?.pid ?? null;
  }

  get runners(): readonly RunnerTruth[] {
    const scheduler = this.#life?.scheduler;
    const mine = scheduler?.runners.map((runner) => this.#truth(runner, stateOf(runner, scheduler))) ?? [];
    const orphans = [...this.#orphans].filter((runner) => runner.state !== "gone")
      .map((runner) => this.#truth(runner, "orphan"));
    return [...mine, ...orphans];
  }

  /** Ends the server. SIGTERM takes the runners along (28–41 ms); SIGKILL leaves them behind, holding what they hold. */
  async kill(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    const life = this.#life;
    if (life === null) return;
    this.#life = null;
    const { ground } = this.#options;
    const runners = life.scheduler.runners;
    life.end.abort(new DOMException("The server ended", "AbortError"));
    await life.wire.close();
    if (signal === "SIGTERM") {
      await Promise.all(runners.map((runner) => runner.kill(ground.random.between(28, 41))));
    } else {
      for (const runner of runners) this.#orphans.add(runner);
      ground.processes.orphanChildren(life.pid);
    }
    ground.processes.exit(life.pid);
  }

  /** Starts it again on the same port, with nothing loaded. */
  start(): Promise<void> {
    this.#life ??= this.#begin(this.port);
    return Promise.resolve();
  }

  /** Kills a runner from outside: its row stays in `/api/ps`. */
  crashRunner(model: string): void {
    this.#runnerOf(model).crash();
  }

  /** As SIGSTOP and SIGCONT to a runner. */
  stopRunner(model: string, isStopped: boolean): void {
    this.#runnerOf(model).stop(isStopped);
  }

  /** As SIGKILL to any runner of this box, orphans included; false when there is none with that pid. */
  endRunner(pid: number): boolean {
    const runner = [...this.#life?.scheduler.runners ?? [], ...this.#orphans].find((each) => each.pid === pid);
    runner?.crash();
    return runner !== undefined;
  }

  /** Makes that share of a model's weights resident in the page cache. */
  warm(model: string, share: number): void {
    const found = this.#modelOf(model);
    const file = `${MODELS_DIR}/blobs/${found.blob}`;
    this.#options.ground.pageCache.set(file, { sizeBytes: found.blobBytes, share });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const runners = [...this.#life?.scheduler.runners ?? [], ...this.#orphans];
    const life = this.#life;
    this.#life = null;
    life?.end.abort(new DOMException("The box closed", "AbortError"));
    await life?.wire.close();
    await Promise.all(runners.map((runner) => runner.dispose()));
  }

  #begin(port: number): Life {
    const { ground, version, maxLoaded = 3, maxQueue = 512, parallel = 1, keepAliveMs = 300_000 } = this.#options;
    const exe = "/usr/local/bin/ollama";
    const { pid } = ground.processes.spawn({
      parentPid: 1,
      name: "ollama",
      args: [exe, "serve"],
      exe,
      cwd: "/usr/share/ollama",
      cgroup: "/system.slice/ollama.service",
      uid: OLLAMA_UID,
    });
    const end = new AbortController();
    const scheduler = new OllamaScheduler({
      ground,
      generation: isNewGeneration(version) ? "llama-server" : "ollama-runner",
      serverPid: pid,
      maxLoaded,
      maxQueue,
      parallel,
      defaultKeepAliveMs: keepAliveMs,
      quirks: this.quirks,
      life: end.signal,
    });
    const routes = new OllamaRoutes({
      ground,
      version,
      scheduler,
      quirks: this.quirks,
      installed: this.installed,
      life: end.signal,
    });
    const { table } = routes;
    const wire = new WireServer({
      port,
      keepsHungUp: true,
      onStir: stirOf(ground.clock),
      onError: (error) => end.signal.aborted || ground.onError(error),
      handle: (exchange) => answerOllama(exchange, table),
    });
    ground.processes.listen(pid, wire.port);
    return { pid, wire, scheduler, end };
  }

  #modelOf(name: string): LabModel {
    const found = this.installed.find((model) => model.name === name || model.name === `${name}:latest`);
    if (found === undefined) throw new RangeError(`Cannot find ${name} in the simulated store`);
    return found;
  }

  #runnerOf(name: string): OllamaRunner {
    const runner = this.#life?.scheduler.runners.find(({ spec }) =>
      spec.model.name === name || spec.model.name === `${name}:latest`
    );
    if (runner === undefined) throw new RangeError(`Cannot find a runner of ${name}`);
    return runner;
  }

  #truth(runner: OllamaRunner, state: RunnerTruth["state"]): RunnerTruth {
    const { pid, port, heldBytes, spec } = runner;
    return { pid, port, heldBytes, state, model: spec.model.name };
  }
}

function stateOf(runner: OllamaRunner, scheduler: OllamaScheduler): RunnerTruth["state"] {
  if (runner.state === "loading") return "loading";
  if (runner.state === "dying") return "stopping";
  return (scheduler.find(runner.spec.model)?.users ?? 0) > 0 ? "busy" : "idle";
}
