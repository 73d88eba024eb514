/** The PageCache port over the box's simulated page cache: it reads at a disk's speed in the box's time, and no disk. */
import { Failure } from "../model/failure.ts";
import type {
  CacheCall,
  PageCache as PageCachePort,
  PinCall,
  PinnedFile,
  PinOutcome,
  Residency,
  WarmCall,
  WarmEnd,
  WarmOutcome,
  WarmProgress,
} from "../model/page_cache.ts";
import type { Clock } from "../model/ports.ts";
import type { Bytes } from "../model/units.ts";
import type { PageCache } from "./page_cache.ts";

/** A good NVMe, read in order. */
const DISK_BYTES_PER_S = 3.2e9;
const STEP_MS = 100;
const NOTHING = { readBytes: 0, droppedBytes: 0 };

export interface SimulatedPageCacheOptions {
  readonly clock: Clock;
  readonly cache: PageCache;
  /** By path, as the files lie on the box. */
  readonly sizes: ReadonlyMap<string, Bytes>;
}

export function simulatePageCache(options: SimulatedPageCacheOptions): PageCachePort {
  return new SimulatedPageCache(options);
}

interface Ticket {
  progress: WarmProgress;
  readonly report: (progress: WarmProgress) => void;
}

class SimulatedPageCache implements PageCachePort {
  readonly #clock: Clock;
  readonly #cache: PageCache;
  readonly #sizes: ReadonlyMap<string, Bytes>;
  readonly #pinned = new Map<string, PinnedFile>();
  #line: readonly Ticket[] = [];
  #last: Promise<void> = Promise.resolve();

  constructor({ clock, cache, sizes }: SimulatedPageCacheOptions) {
    this.#clock = clock;
    this.#cache = cache;
    this.#sizes = sizes;
  }

  measure(paths: readonly string[], call: CacheCall): Promise<readonly Residency[]> {
    call.signal?.throwIfAborted();
    return Promise.resolve(paths.map((path) => this.#look(path)));
  }

  probe(paths: readonly string[], call: CacheCall): Promise<readonly Residency[]> {
    return this.measure(paths, call);
  }

  async warm(path: string, call: WarmCall): Promise<WarmOutcome> {
    const sizeBytes = this.#sizes.get(path);
    if (sizeBytes === undefined) throw new Failure("not_found", `There is no ${path}`);
    const ticket: Ticket = {
      progress: {
        path,
        state: "queued",
        ahead: this.#line.length,
        doneBytes: 0,
        sizeBytes,
        bytesPerS: null,
        etaMs: null,
        pace: null,
      },
      report: call.onProgress ?? (() => {}),
    };
    this.#line = [...this.#line, ticket];
    const before = this.#last;
    const turn = Promise.withResolvers<void>();
    this.#last = before.then(() => turn.promise);
    try {
      await before;
      return await this.#read(path, { sizeBytes, call, ticket });
    } finally {
      this.#line = this.#line.filter((other) => other !== ticket);
      turn.resolve();
    }
  }

  queue(): readonly WarmProgress[] {
    return this.#line.map(({ progress }) => progress);
  }

  pin(path: string, { budgetBytes }: PinCall): Promise<PinOutcome> {
    const lockedBytes = this.#sizes.get(path) ?? 0;
    const locked = [...this.#pinned.values()].reduce((sum, file) => sum + file.lockedBytes, 0);
    if (locked + lockedBytes > budgetBytes) {
      return Promise.reject(new Failure("wont_fit", `Cannot pin ${path}: it exceeds the budget`));
    }
    this.#cache.read(path, lockedBytes);
    const pinned = { path, lockedBytes, sinceMs: this.#clock.monotonicMs() };
    this.#pinned.set(path, pinned);
    return Promise.resolve({ ...pinned, availableBeforeBytes: null, availableAfterBytes: null });
  }

  unpin(path: string): Promise<boolean> {
    return Promise.resolve(this.#pinned.delete(path));
  }

  pinned(): readonly PinnedFile[] {
    return [...this.#pinned.values()];
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  async #read(
    path: string,
    { sizeBytes, call, ticket }: { readonly sizeBytes: Bytes; readonly call: WarmCall; readonly ticket: Ticket },
  ): Promise<WarmOutcome> {
    const startedMs = this.#clock.monotonicMs();
    const before = this.#look(path);
    const residentBytes = this.#cache.residentBytes(path);
    const bytesPerS = call.bytesPerS === "auto" ? DISK_BYTES_PER_S : Math.min(call.bytesPerS, DISK_BYTES_PER_S);
    let doneBytes = 0;
    let end: WarmEnd = "done";
    while (doneBytes < sizeBytes) {
      if (call.signal?.aborted === true) {
        end = "cancelled";
        break;
      }
      ticket.progress = {
        ...ticket.progress,
        state: "warming",
        ahead: 0,
        doneBytes,
        bytesPerS,
        etaMs: ((sizeBytes - doneBytes) / bytesPerS) * 1_000,
        pace: call.bytesPerS === "auto" ? "full" : "fixed",
      };
      ticket.report(ticket.progress);
      // A cancel ends the pause; what was read until then stays.
      await this.#clock.sleep(STEP_MS, call.signal).catch(() => {});
      doneBytes = Math.min(sizeBytes, doneBytes + (bytesPerS * STEP_MS) / 1_000);
      this.#cache.set(path, { sizeBytes, share: Math.max(residentBytes, doneBytes) / sizeBytes });
    }
    if (end === "done") this.#cache.read(path, sizeBytes);
    return {
      path,
      end,
      reason: end === "done" ? null : "it was cancelled",
      method: "splice",
      sizeBytes,
      doneBytes,
      diskBytes: Math.max(0, doneBytes - residentBytes),
      durationMs: this.#clock.monotonicMs() - startedMs,
      heldBackMs: 0,
      before,
      after: this.#look(path),
    };
  }

  #look(path: string): Residency {
    const atMs = this.#clock.monotonicMs();
    const sizeBytes = this.#sizes.get(path);
    if (sizeBytes === undefined) {
      return { kind: "unmeasurable", sizeBytes: null, cause: "gone", reason: `There is no ${path}`, atMs };
    }
    const share = this.#pinned.has(path) ? 1 : this.#cache.residency(path);
    return {
      kind: "measured",
      method: "cachestat",
      sizeBytes,
      residentBytes: Math.round(share * sizeBytes),
      share,
      low: share,
      high: share,
      isExact: true,
      samples: null,
      disturbance: NOTHING,
      recentlyEvictedBytes: 0,
      atMs,
    };
  }
}
