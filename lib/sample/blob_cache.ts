import type { Clock, OllamaApi } from "../model/ports.ts";
import type { MonotonicMs } from "../model/units.ts";
import { UpstreamError } from "../upstream/upstream_error.ts";

/** Manifest digest → blobs. */
type Blobs = Readonly<Record<string, readonly string[]>>;

/** What is known of a model that may be asked for. */
interface Named {
  readonly name: string;
  readonly digest: string;
}

const RETRY_MS = 30_000;

/**
 * Which weight blobs a manifest stands for. A digest is the manifest's own hash, so its answer never changes: each is
 * asked for once, one at a time, ahead of the moment when a yield has to tell a runner's model.
 */
export class BlobCache {
  readonly #api: OllamaApi;
  readonly #clock: Clock;
  /** Digest → a name to ask by, in the order of asking. */
  #wanted = new Map<string, string>();
  readonly #retryAtMs = new Map<string, MonotonicMs>();
  readonly #storeBlobs: () => Blobs;
  #asked: Blobs = {};
  #joined: { readonly store: Blobs; readonly asked: Blobs; readonly all: Blobs } | null = null;

  constructor(api: OllamaApi, options: { readonly clock: Clock; readonly storeBlobs: () => Blobs }) {
    this.#api = api;
    this.#clock = options.clock;
    this.#storeBlobs = options.storeBlobs;
  }

  /** A new object whenever something was learned. */
  get byDigest(): Blobs {
    const [store, asked] = [this.#storeBlobs(), this.#asked];
    if (this.#joined?.store !== store || this.#joined.asked !== asked) {
      // A model that is deleted while it is loaded is still to be told by its runner.
      this.#joined = { store, asked, all: { ...this.#joined?.all, ...asked, ...store } };
    }
    return this.#joined.all;
  }

  /** Notes models whose blobs will be needed. */
  want(models: readonly Named[]): void {
    for (const { name, digest } of this.#unknown(models)) {
      if (!this.#wanted.has(digest)) this.#wanted.set(digest, name);
    }
  }

  /** Notes models that are resident: they are asked for before all others. True when there was one to ask for. */
  wantFirst(models: readonly Named[]): boolean {
    const unknown = this.#unknown(models);
    const first = unknown.map(({ name, digest }) => [digest, name] as const);
    this.#wanted = new Map([...first, ...this.#wanted]);
    return unknown.length > 0;
  }

  #unknown(models: readonly Named[]): readonly Named[] {
    const known = this.byDigest;
    return models.filter(({ digest }) => digest !== "" && known[digest] === undefined);
  }

  /** Asks for one model, the first that is due. */
  async askNext(signal: AbortSignal): Promise<void> {
    const nowMs = this.#clock.monotonicMs();
    const known = this.byDigest;
    const isDue = (digest: string) => known[digest] === undefined && (this.#retryAtMs.get(digest) ?? nowMs) <= nowMs;
    const due = [...this.#wanted].find(([digest]) => isDue(digest));
    if (due === undefined) return;
    const [digest, name] = due;
    try {
      const blobs = await this.#api.weightBlobs(name, signal);
      this.#asked = { ...this.#asked, [digest]: blobs };
      this.#wanted.delete(digest);
      this.#retryAtMs.delete(digest);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof UpstreamError)) throw error;
      this.#retryAtMs.set(digest, this.#clock.monotonicMs() + RETRY_MS);
      // Deleted meanwhile: nothing to learn, unless it is listed again.
      if (error.status === 404) this.#wanted.delete(digest);
    }
  }
}
