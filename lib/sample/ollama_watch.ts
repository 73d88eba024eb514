import type { Clock, OllamaApi, Timer } from "../model/ports.ts";
import type { SourceReport } from "../model/sample.ts";
import type { InstalledModel, OllamaState, ResidentModel } from "../model/tenants.ts";
import type { MonotonicMs } from "../model/units.ts";
import { isUnreached, UpstreamError } from "../upstream/upstream_error.ts";
import { BlobCache } from "./blob_cache.ts";
import { CallReport } from "./call_report.ts";
import { type Poller, startPoller } from "./poller.ts";
import { awaitFirstAnswer, explainReach, type Reach } from "./reach.ts";

export interface OllamaWatchOptions {
  readonly api: OllamaApi;
  readonly clock: Clock;
  /** Manifest digest → model blobs, where the store is ours to read; the rest is asked for, one model a second. */
  readonly storeBlobs?: () => Readonly<Record<string, readonly string[]>>;
}

const NO_STORE: ReturnType<NonNullable<OllamaWatchOptions["storeBlobs"]>> = {};

/** Everything but what /proc tells: the server's process and its runners. */
export type OllamaWatchState = Omit<OllamaState, "server" | "runners">;

export interface OllamaWatch extends Timer {
  state(): OllamaWatchState;
  report(): SourceReport;
  /** What helps when it isn't online; null while it is. */
  remedy(): string | null;
  /** How old `resident` is, and why it isn't newer (a stalled `/api/ps`). Null while it is as fresh as it gets. */
  staleness(): { readonly ageMs: number; readonly reason: string } | null;
  /** Asks `/api/ps` now instead of at the next second. */
  refresh(): void;
}

const PS_MS = 1_000;
const TAGS_MS = 10_000;
/** Between two models that are asked for their blobs. */
const BLOBS_MS = 1_000;
/** `/api/ps` alone may wait that long for a runner's lock, and a healthy server still answers the rest. */
const DOWN_AFTER_MS = 5_000;

/** Watches one Ollama until stopped. Starts at once. */
export function watchOllama(options: OllamaWatchOptions): OllamaWatch {
  return new OllamaWatcher(options);
}

class OllamaWatcher implements OllamaWatch {
  readonly #api: OllamaApi;
  readonly #clock: Clock;
  readonly #calls: CallReport;
  readonly #blobs: BlobCache;
  readonly #psPoller: Poller;
  readonly #tagsPoller: Poller;
  readonly #blobsPoller: Poller;

  #resident: readonly ResidentModel[] = [];
  #residentAtMs: MonotonicMs | null = null;
  #installed: readonly InstalledModel[] = [];
  #version: string | null = null;

  #failure: UpstreamError | null = null;
  /** The last `/api/ps` that failed, while the server itself may be well. */
  #psFailure: UpstreamError | null = null;
  #heardAtMs: MonotonicMs | null = null;

  constructor({ api, clock, storeBlobs = () => NO_STORE }: OllamaWatchOptions) {
    this.#api = api;
    this.#clock = clock;
    this.#calls = new CallReport(clock);
    this.#blobs = new BlobCache(api, { clock, storeBlobs });
    this.#psPoller = startPoller({ clock, work: (signal) => this.#readPs(signal), periodMs: () => PS_MS });
    this.#tagsPoller = startPoller({ clock, work: (signal) => this.#readTags(signal), periodMs: () => TAGS_MS });
    this.#blobsPoller = startPoller({ clock, work: (signal) => this.#readBlobs(signal), periodMs: () => BLOBS_MS });
  }

  state(): OllamaWatchState {
    const reach = this.#reach();
    return {
      url: this.#api.url,
      online: reach === null,
      reason: reach?.reason ?? null,
      isRemote: this.#api.isRemote,
      version: reach === null ? this.#version : null,
      resident: this.#resident,
      installed: this.#installed,
      blobsByDigest: this.#blobs.byDigest,
    };
  }

  report(): SourceReport {
    return this.#calls.report(this.#psPoller.crash, this.#tagsPoller.crash, this.#blobsPoller.crash);
  }

  remedy(): string | null {
    return this.#reach()?.remedy ?? null;
  }

  staleness(): { readonly ageMs: number; readonly reason: string } | null {
    if (this.#psFailure === null || this.#residentAtMs === null || this.#failure !== null) return null;
    return { ageMs: this.#clock.monotonicMs() - this.#residentAtMs, reason: this.#psFailure.message };
  }

  refresh(): void {
    this.#psPoller.poke();
  }

  stop(): void {
    for (const poller of [this.#psPoller, this.#tagsPoller, this.#blobsPoller]) poller.stop();
  }

  #reach(): Reach | null {
    if (this.#failure !== null) return explainReach("ollama", this.#api.url, this.#failure);
    return this.#heardAtMs === null ? awaitFirstAnswer("ollama", this.#api.url) : null;
  }

  async #readPs(signal: AbortSignal): Promise<void> {
    const ended = this.#calls.begin();
    try {
      const resident = await this.#api.ps(signal);
      ended(null);
      this.#onPs(resident);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof UpstreamError)) throw error;
      ended(error.message);
      this.#psFailure = error;
      if (error.kind === "timeout") await this.#onStall(error, signal);
      else this.#onAbsent(error);
    }
  }

  #onPs(resident: readonly ResidentModel[]): void {
    const wasAbsent = this.#heardAtMs === null || this.#failure !== null;
    this.#heard();
    this.#psFailure = null;
    this.#resident = resident;
    this.#residentAtMs = this.#clock.monotonicMs();
    const installed = new Set(this.#installed.map(({ digest }) => digest));
    if (wasAbsent || resident.some(({ digest }) => !installed.has(digest))) this.#tagsPoller.poke();
    if (this.#blobs.wantFirst(resident)) this.#blobsPoller.poke();
  }

  /** The listing waits behind a load or an unload. The rows that are known stay, as long as the server lives. */
  async #onStall(stall: UpstreamError, signal: AbortSignal): Promise<void> {
    try {
      this.#version = await this.#api.version(signal);
      this.#heard();
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof UpstreamError)) throw error;
      const silentMs = this.#heardAtMs === null ? Infinity : this.#clock.monotonicMs() - this.#heardAtMs;
      if (isUnreached(error)) this.#onAbsent(error);
      else if (silentMs > DOWN_AFTER_MS) this.#onAbsent(stall);
    }
  }

  #onAbsent(error: UpstreamError): void {
    this.#failure = error;
    // What was resident went with the server; what is installed did not.
    this.#resident = [];
    this.#residentAtMs = null;
    this.#version = null;
  }

  #heard(): void {
    this.#heardAtMs = this.#clock.monotonicMs();
    this.#failure = null;
  }

  async #readTags(signal: AbortSignal): Promise<void> {
    try {
      // A server that was replaced between two looks has another version, too.
      this.#version = await this.#api.version(signal);
      this.#installed = await this.#api.tags(signal);
      this.#blobs.want(this.#installed.filter(({ isRemote }) => !isRemote));
    } catch (error) {
      // Whether it is there is for /api/ps to say; the list that is known stays.
      if (!(error instanceof UpstreamError) && !signal.aborted) throw error;
    }
  }

  async #readBlobs(signal: AbortSignal): Promise<void> {
    if (this.#failure === null && this.#heardAtMs !== null) await this.#blobs.askNext(signal);
  }
}
