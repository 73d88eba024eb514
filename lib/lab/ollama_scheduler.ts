import type { Timer } from "../model/ports.ts";
import type { WallMs } from "../model/units.ts";
import type { Ground } from "./ground.ts";
import type { KeepAlive } from "./keep_alive.ts";
import type { LabModel } from "./ollama_models.ts";
import type { OllamaQuirks } from "./ollama_quirks.ts";
import { OllamaRunner } from "./ollama_runner.ts";
import type { LoadOptions, RunnerGenerationName } from "./runner_args.ts";
import { draw } from "./timing.ts";
import { Turns } from "./turns.ts";

/** Go's longest duration: "for ever" ends about 292 years ahead. */
export const FOREVER_MS = 9_223_372_036_854;
/** The server looks at its child every 250 ms; load times come in these steps. */
const POLL_MS = 250;
/** Share of the free memory that a newcomer may be predicted to need while others are loaded. */
const EVICTION_SHARE = 0.8;

/** A refusal in the server's words. Status 499 is what nobody sees: the client had hung up. */
export class OllamaRefusal extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

/** A model that is listed: loaded, or being unloaded. */
export interface Loaded {
  readonly model: LabModel;
  readonly options: LoadOptions;
  readonly runner: OllamaRunner;
  readonly turns: Turns;
  users: number;
  keepAliveMs: number;
  /** Null until it was idle for the first time. */
  expiresAtMs: WallMs | null;
  timer: Timer | null;
  /** Resolved when the loader may count on its room. */
  readonly unloaded: PromiseWithResolvers<void>;
  /** While its process is being ended; `/api/ps` of 0.33 waits for it. */
  ending: Promise<void> | null;
}

export interface LoadAsk {
  readonly model: LabModel;
  readonly options: LoadOptions;
  readonly keepAlive: KeepAlive;
  /** The client; aborts when it hangs up. */
  readonly signal: AbortSignal;
}

interface Pending extends LoadAsk {
  readonly granted: PromiseWithResolvers<Loaded>;
}

export interface SchedulerOptions {
  readonly ground: Ground;
  readonly generation: RunnerGenerationName;
  readonly serverPid: number;
  readonly maxLoaded: number;
  readonly maxQueue: number;
  readonly parallel: number;
  readonly defaultKeepAliveMs: number;
  readonly quirks: OllamaQuirks;
  /** Aborts with the server's process. */
  readonly life: AbortSignal;
}

/**
 * Who is loaded, who waits, who is evicted: one loader, one unloader, a bounded queue. Requests for a loaded model pass
 * by the queue; nobody who works is ever ended.
 */
export class OllamaScheduler {
  readonly #options: SchedulerOptions;
  readonly #loaded = new Map<string, Loaded>();
  readonly #pending: Pending[] = [];
  readonly #runners = new Set<OllamaRunner>();
  #isLoading = false;
  /** The MLX load under way: listings and unloads of it wait for its end. */
  #mlxLoad: { readonly model: LabModel; readonly ended: PromiseWithResolvers<void> } | null = null;
  #lastUnload: Promise<void> = Promise.resolve();

  constructor(options: SchedulerOptions) {
    this.#options = options;
    options.life.addEventListener("abort", () => {
      for (const loaded of this.#loaded.values()) loaded.timer?.stop();
    }, { once: true });
  }

  get loaded(): readonly Loaded[] {
    return [...this.#loaded.values()];
  }

  /** Every child there is, the one that loads included. */
  get runners(): readonly OllamaRunner[] {
    return [...this.#runners].filter((runner) => runner.state !== "gone");
  }

  /** While an MLX model loads its lock is held: whoever wants to list or to unload it waits. */
  async awaitMlx(model: LabModel | null = null): Promise<void> {
    const load = this.#mlxLoad;
    if (load !== null && (model === null || model.blob === load.model.blob)) await load.ended.promise;
  }

  find(model: LabModel): Loaded | null {
    return this.#loaded.get(model.blob) ?? null;
  }

  /** Waits for the model to be loaded and counts one user in; `release` counts it out. */
  acquire(ask: LoadAsk): Promise<Loaded> {
    const loaded = this.find(ask.model);
    if (loaded !== null && this.#isUsable(loaded, ask)) return Promise.resolve(this.#use(loaded, ask));
    if (this.#pending.length >= this.#options.maxQueue) {
      const error = "server busy, please try again.  maximum pending requests exceeded";
      return Promise.reject(new OllamaRefusal(503, error));
    }
    const pending = { ...ask, granted: Promise.withResolvers<Loaded>() };
    this.#pending.push(pending);
    this.#pump();
    return pending.granted.promise;
  }

  release(loaded: Loaded): void {
    loaded.users -= 1;
    if (loaded.users > 0 || this.#options.life.aborted) return;
    this.#becomeIdle(loaded);
  }

  /** An unload by request: at once when idle, after the last user when busy, nothing when it isn't loaded. */
  unload(model: LabModel): void {
    const loaded = this.find(model);
    if (loaded !== null) this.#expire(loaded);
  }

  #isUsable(loaded: Loaded, ask: LoadAsk): boolean {
    return loaded.ending === null && loaded.runner.state === "ready" && isCompatible(loaded.options, ask.options);
  }

  #use(loaded: Loaded, ask: LoadAsk): Loaded {
    loaded.users += 1;
    loaded.timer?.stop();
    loaded.timer = null;
    if (ask.keepAlive.kind === "given") loaded.keepAliveMs = ask.keepAlive.ms;
    return loaded;
  }

  #becomeIdle(loaded: Loaded): void {
    if (loaded.keepAliveMs <= 0) return this.#end(loaded);
    const { clock } = this.#options.ground;
    const keepMs = Math.min(loaded.keepAliveMs, FOREVER_MS);
    loaded.expiresAtMs = clock.wallMs() + keepMs;
    loaded.timer?.stop();
    loaded.timer = loaded.keepAliveMs === Infinity ? null : clock.after(keepMs, () => this.#end(loaded));
  }

  #expire(loaded: Loaded): void {
    loaded.expiresAtMs = this.#options.ground.clock.wallMs();
    loaded.keepAliveMs = 0;
    loaded.timer?.stop();
    loaded.timer = null;
    if (loaded.users === 0) this.#end(loaded);
  }

  /** Unloads one after another: kill, reap, drop the row, then wait for the room to be seen. */
  #end(loaded: Loaded): void {
    if (loaded.ending !== null) return;
    const { ground, quirks, life } = this.#options;
    loaded.timer?.stop();
    const start = this.#lastUnload;
    const ended = Promise.withResolvers<void>();
    loaded.ending = ended.promise;
    this.#lastUnload = (async () => {
      await start;
      if (life.aborted) return;
      const releaseMs = quirks.releaseMs ?? draw(ground.timing.releaseMs, ground.random);
      const isMlx = loaded.runner.spec.generation === "mlx";
      // A runner that died before holds nothing: only the row has to go.
      const isAlive = loaded.runner.state === "ready";
      if (isMlx && isAlive) await loaded.runner.interrupt(quirks.mlxExitMs, releaseMs);
      else await loaded.runner.kill(isAlive ? releaseMs : 0);
      this.#loaded.delete(loaded.model.blob);
      ended.resolve();
      // Whether the room was seen is looked at for GGUF runners alone.
      if (loaded.runner.offload > 0 && !isMlx) await ground.clock.sleep(POLL_MS, life);
    })().catch(() => {
      // The server ended meanwhile; its runners are no longer its business.
    }).finally(() => {
      ended.resolve();
      loaded.unloaded.resolve();
    });
  }

  #pump(): void {
    if (this.#isLoading) return;
    const next = this.#pending.shift();
    if (next === undefined) return;
    this.#isLoading = true;
    this.#grant(next)
      .then(next.granted.resolve, next.granted.reject)
      .finally(() => {
        this.#isLoading = false;
        // Whoever asked for the load is counted in by now: an unload that waited takes effect once it is served.
        this.#mlxLoad?.ended.resolve();
        this.#mlxLoad = null;
        this.#pump();
      });
  }

  /** Makes room for one request and loads; whatever eviction it asked for happens even if its client leaves. */
  async #grant(pending: Pending): Promise<Loaded> {
    let hasRetried = false;
    for (;;) {
      if (pending.signal.aborted || this.#options.life.aborted) throw new OllamaRefusal(499, "request canceled");
      const loaded = this.find(pending.model);
      if (loaded !== null && this.#isUsable(loaded, pending)) return this.#use(loaded, pending);
      const victim = loaded ?? this.#victim(pending);
      if (victim !== null) {
        await this.#evict(victim, pending.signal);
        continue;
      }
      try {
        return this.#use(await this.#load(pending), pending);
      } catch (error) {
        const others = this.loaded;
        const isRetried = error instanceof OllamaRefusal && error.status === 500 && others.length > 0 && !hasRetried;
        if (!isRetried) throw error;
        // Out of room beside others: it clears the card and tries once more.
        hasRetried = true;
        for (const other of others) await this.#evict(other, pending.signal);
      }
    }
  }

  async #evict(victim: Loaded, signal: AbortSignal): Promise<void> {
    this.#expire(victim);
    const left = Promise.withResolvers<void>();
    signal.addEventListener("abort", () => left.resolve(), { once: true });
    await Promise.race([victim.unloaded.promise, left.promise]);
  }

  /** Whom a newcomer displaces: the shortest keep_alive, an idle one if there is any; null when there is room. */
  #victim(pending: Pending): Loaded | null {
    const others = this.loaded;
    if (others.length === 0) return null;
    const { model } = pending;
    const needBytes = model.blobBytes + model.kvBytesPerToken * 4_096 * this.#options.parallel + model.bufferBytes;
    const fits = needBytes <= this.#options.ground.vram.freeBytes * EVICTION_SHARE;
    if (others.length < this.#options.maxLoaded && fits) return null;
    const idle = others.filter((loaded) => loaded.users === 0);
    const candidates = idle.length > 0 ? idle : others;
    return candidates.reduce((least, loaded) => loaded.keepAliveMs < least.keepAliveMs ? loaded : least);
  }

  async #load(pending: Pending): Promise<Loaded> {
    const { ground, generation, serverPid, parallel, quirks, life, defaultKeepAliveMs } = this.#options;
    const { clock, random } = ground;
    await clock.sleep(generation === "llama-server" ? random.between(4, 13) : random.between(18, 30), life);
    const isMlx = pending.model.format === "safetensors";
    const runner = new OllamaRunner(ground, {
      model: pending.model,
      options: pending.options,
      generation: isMlx ? "mlx" : generation,
      serverPid,
      parallel: pending.model.isEmbedding ? 1 : parallel,
      diesAtStart: quirks.diesAtStart,
      refusesWhenShort: quirks.refusesWhenShort,
    });
    this.#runners.add(runner);
    if (isMlx) this.#mlxLoad = { model: pending.model, ended: Promise.withResolvers() };
    try {
      await this.#awaitReady(runner, pending.signal);
    } finally {
      if (runner.state === "gone") this.#runners.delete(runner);
    }
    await clock.sleep(generation === "llama-server" ? random.between(4, 7) : random.between(31, 44), life);
    const loaded: Loaded = {
      model: pending.model,
      options: pending.options,
      runner,
      turns: new Turns(runner.spec.parallel),
      users: 0,
      keepAliveMs: defaultKeepAliveMs,
      expiresAtMs: null,
      timer: null,
      unloaded: Promise.withResolvers<void>(),
      ending: null,
    };
    this.#loaded.set(pending.model.blob, loaded);
    return loaded;
  }

  /** Looks at the child every 250 ms: that is when it notices readiness, a failure, or that the client is gone. */
  async #awaitReady(runner: OllamaRunner, signal: AbortSignal): Promise<void> {
    const { ground, life } = this.#options;
    while (runner.state !== "ready") {
      await ground.clock.sleep(POLL_MS, life);
      if (signal.aborted) {
        await runner.kill(draw(ground.timing.releaseMs, ground.random));
        throw new OllamaRefusal(499, "request canceled");
      }
      if (runner.failure !== null) throw new OllamaRefusal(500, runner.failure);
    }
  }
}

/** Whether a loaded model serves a request with such options: what the request doesn't name doesn't matter, except that
 * a context size that was named once is given up by a request that names none. */
function isCompatible(loaded: LoadOptions, asked: LoadOptions): boolean {
  return loaded.numCtx === asked.numCtx && (asked.numGpu === null || loaded.numGpu === asked.numGpu) &&
    (asked.numBatch === null || loaded.numBatch === asked.numBatch) &&
    (asked.useMmap === null || loaded.useMmap === asked.useMmap);
}
