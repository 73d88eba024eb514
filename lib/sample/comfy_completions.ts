import type { Clock, ComfyCompletion, ComfyQueue, Timer } from "../model/ports.ts";
import type { ComfyClient } from "../upstream/comfy.ts";
import type { HistoryEntry } from "../upstream/comfy_parse.ts";
import { UpstreamError } from "../upstream/upstream_error.ts";
import { type Poller, startPoller } from "./poller.ts";

/** How often an id that left the queue is looked up before it counts as deleted. */
const MAX_TRIES = 3;
/** Longest list that is asked for prompts that came and went unseen; older entries aren't told apart from new ones. */
const RECENT_LIMIT = 16;
const SEEN_LIMIT = 256;

/** While something is still to be found out; else nothing is asked until there is. */
const RETRY_MS = 1_000;
const IDLE_MS = 60_000;

export interface ComfyCompletionsOptions {
  readonly api: ComfyClient;
  readonly clock: Clock;
  readonly onCompleted: (completion: ComfyCompletion) => void;
}

/**
 * Finds out how prompts ended. Nobody but the submitter is told, so ids are taken from `/queue` while they are there
 * and looked up in `/history` once they have left it. A prompt too short for that is found in the list of the newest.
 * It asks in its own time: a history that hangs must not hold up the reading of the queue.
 */
export class ComfyCompletions implements Timer {
  readonly #api: ComfyClient;
  readonly #onCompleted: (completion: ComfyCompletion) => void;
  readonly #poller: Poller;
  /** Ids seen in the queue, and how often each was looked up since it left (0 = still queued). */
  readonly #tries = new Map<string, number>();
  readonly #seen = new Set<string>();
  /** Ends that the count told of and no entry has been found for. */
  #ends = 0;
  /** Whether there is a server to ask. */
  #isPresent = false;
  /** False until what was finished before we came is known: such entries are not news. */
  #hasBaseline = false;
  #error: UpstreamError | null = null;

  constructor({ api, clock, onCompleted }: ComfyCompletionsOptions) {
    this.#api = api;
    this.#onCompleted = onCompleted;
    this.#poller = startPoller({
      clock,
      work: (signal) => this.#round(signal),
      periodMs: () => this.#isIdle() ? IDLE_MS : RETRY_MS,
      minGapMs: 50,
    });
  }

  /** Why ends can't be found out at present, or null. */
  get lastError(): string | null {
    return this.#poller.crash ?? this.#error?.message ?? null;
  }

  stop(): void {
    this.#poller.stop();
  }

  /** The server went away: its queue and history are lost. */
  reset(): void {
    this.#tries.clear();
    this.#ends = 0;
    this.#isPresent = false;
    this.#hasBaseline = false;
    this.#error = null;
  }

  /** What a read of the queue shows; ids that are gone from it will be looked up. */
  noteQueue(queue: ComfyQueue): void {
    const present = new Set([...queue.running, ...queue.pending]);
    for (const [id, tries] of this.#tries) if (!present.has(id) && tries === 0) this.#tries.set(id, 1);
    // A known id that is queued again is a new run of it.
    for (const id of present) this.#tries.set(id, 0);
    this.#isPresent = true;
    if (!this.#isIdle()) this.#poller.poke();
  }

  /** The count fell by `ends`, to `count`: that many prompts ended or were deleted. */
  noteEnds(ends: number, count: number): void {
    this.#ends += ends;
    if (count > 0) return;
    // Empty: every id that was seen in it has left. Otherwise the next read of the queue tells which.
    for (const [id, tries] of this.#tries) if (tries === 0) this.#tries.set(id, 1);
    this.#poller.poke();
  }

  #isIdle(): boolean {
    return this.#hasBaseline && this.#ends === 0 && [...this.#tries.values()].every((tries) => tries === 0);
  }

  async #round(signal: AbortSignal): Promise<void> {
    if (!this.#isPresent || this.#isIdle()) return;
    try {
      await this.#collect(signal);
      this.#error = null;
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof UpstreamError)) throw error;
      this.#error = error;
    }
  }

  async #collect(signal: AbortSignal): Promise<void> {
    if (!this.#hasBaseline) await this.#takeBaseline(signal);
    const ends = this.#ends;
    const found = await this.#lookUp(signal);
    if (found < ends) {
      // One more than ended, since the newest may be one that was found by its id.
      for (const entry of await this.#api.recent(Math.min(RECENT_LIMIT, ends + 1), signal)) this.#announce(entry);
    }
    this.#ends -= ends;
  }

  async #lookUp(signal: AbortSignal): Promise<number> {
    let found = 0;
    for (const [id, tries] of [...this.#tries]) {
      if (tries === 0) continue;
      const entry = await this.#api.completion(id, signal);
      // Queued again while we asked.
      if (this.#tries.get(id) !== tries) continue;
      if (entry !== null || tries >= MAX_TRIES) this.#tries.delete(id);
      else this.#tries.set(id, tries + 1);
      if (entry !== null && this.#announce(entry)) found += 1;
    }
    return found;
  }

  async #takeBaseline(signal: AbortSignal): Promise<void> {
    for (const entry of await this.#api.recent(RECENT_LIMIT, signal)) {
      // One that we saw in the queue ended under our eyes, before we could ask.
      if (!this.#tries.has(entry.promptId)) this.#remember(entry);
    }
    this.#hasBaseline = true;
  }

  #announce(entry: HistoryEntry): boolean {
    if (!this.#remember(entry)) return false;
    const { number: _number, ...completion } = entry;
    this.#onCompleted(completion);
    return true;
  }

  /** False when it was known. Ids can be used again by whoever posts, so the run's number and end count too. */
  #remember({ promptId, number, endedAtMs }: HistoryEntry): boolean {
    const key = `${promptId} ${number} ${endedAtMs}`;
    if (this.#seen.has(key)) return false;
    this.#seen.add(key);
    for (const oldest of this.#seen) {
      if (this.#seen.size <= SEEN_LIMIT) break;
      this.#seen.delete(oldest);
    }
    return true;
  }
}
