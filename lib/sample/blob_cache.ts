import type { Clock, OllamaApi } from "../model/ports.ts";
import type { MonotonicMs } from "../model/units.ts";
import { UpstreamError } from "../upstream/upstream_error.ts";

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
  #byDigest: Readonly<Record<string, readonly string[]>> = {};

  constructor(api: OllamaApi, clock: Clock) {
    this.#api = api;
    this.#clock = clock;
  }

  /** A new object whenever something was learned. */
  get byDigest(): Readonly<Record<string, readonly string[]>> {
    return this.#byDigest;
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
    return models.filter(({ digest }) => digest !== "" && this.#byDigest[digest] === undefined);
  }

  /** Asks for one model, the first that is due. */
  async askNext(signal: AbortSignal): Promise<void> {
    const nowMs = this.#clock.monotonicMs();
    const due = [...this.#wanted].find(([digest]) => (this.#retryAtMs.get(digest) ?? nowMs) <= nowMs);
    if (due === undefined) return;
    const [digest, name] = due;
    try {
      const blobs = await this.#api.weightBlobs(name, signal);
      this.#byDigest = { ...this.#byDigest, [digest]: blobs };
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
