/** The page cache of this machine, seen from the main thread: measuring and warming happen in Workers. */
import { Failure } from "../model/failure.ts";
import type {
  CacheCall,
  PageCache,
  PinCall,
  PinnedFile,
  PinOutcome,
  Residency,
  WarmCall,
  WarmOutcome,
  WarmProgress,
} from "../model/page_cache.ts";
import type { Clock } from "../model/ports.ts";
import { type Bytes, gbText } from "../model/units.ts";
import { MeasureClient } from "./measure_client.ts";
import { WarmLine } from "./warm_line.ts";
import { WarmTicket } from "./warm_ticket.ts";

export interface ConnectPageCacheOptions {
  readonly clock: Clock;
  /** Where the kernel's folders are; plain folders in tests. */
  readonly procRoot?: string;
  readonly sysRoot?: string;
}

/** Connects to the page cache. No Worker starts before the first call; to be closed, since they hold the process. */
export function connectPageCache(options: ConnectPageCacheOptions): PageCache {
  return new PageCacheClient(options);
}

interface Pinned extends PinnedFile {
  readonly address: bigint;
}

class PageCacheClient implements PageCache {
  readonly #measure: MeasureClient;
  readonly #line: WarmLine;
  readonly #pinned = new Map<string, Pinned>();

  constructor({ clock, procRoot = "/proc", sysRoot = "/sys" }: ConnectPageCacheOptions) {
    this.#measure = new MeasureClient(clock);
    this.#line = new WarmLine({ clock, measure: this.#measure, roots: { procRoot, sysRoot } });
  }

  measure(paths: readonly string[], call: CacheCall): Promise<readonly Residency[]> {
    return this.#measure.measure(paths, { ...call, purpose: "figure" });
  }

  probe(paths: readonly string[], call: CacheCall): Promise<readonly Residency[]> {
    return this.#measure.measure(paths, { ...call, purpose: "probe" });
  }

  async warm(path: string, call: WarmCall): Promise<WarmOutcome> {
    const ticket = new WarmTicket(path);
    const report = () => call.onProgress?.(this.#line.progressOf(ticket));
    const { bytesPerS, reserveBytes } = call;
    const ended = await this.#line.take({ ticket, call, report, order: { bytesPerS, reserveBytes, isLocking: false } });
    const { locked: _locked, availableBeforeBytes: _before, availableAfterBytes: _after, ...result } = ended.result;
    return { path, ...result, before: ended.before, after: ended.after };
  }

  queue(): readonly WarmProgress[] {
    return this.#line.queue();
  }

  async pin(path: string, call: PinCall): Promise<PinOutcome> {
    const already = this.#pinned.get(path);
    if (already !== undefined) return { ...pinnedFile(already), availableBeforeBytes: null, availableAfterBytes: null };
    const ticket = new WarmTicket(path);
    const report = () =>
      call.onProgress?.({ doneBytes: ticket.doneBytes, sizeBytes: ticket.sizeBytes ?? ticket.doneBytes });
    const order = { bytesPerS: "auto", reserveBytes: 0, isLocking: true } as const;
    const check = (before: Residency) => this.#checkBudget(path, before.sizeBytes ?? 0, call.budgetBytes);
    const { result, after } = await this.#line.take({ ticket, call, report, order, check });
    if (result.end === "cancelled") {
      throw call.signal?.reason ?? new Failure("cancelled", `Pinning ${path} was cancelled`);
    }
    if (result.end !== "done") throw new Failure("unavailable", `Cannot pin ${path}: ${result.reason}`);
    const { locked, availableBeforeBytes, availableAfterBytes } = result;
    // An empty file has no pages to lock.
    const pinned: Pinned = {
      path,
      lockedBytes: locked?.lengthBytes ?? 0,
      address: locked?.address ?? 0n,
      sinceMs: after.atMs,
    };
    this.#pinned.set(path, pinned);
    return { ...pinnedFile(pinned), availableBeforeBytes, availableAfterBytes };
  }

  async unpin(path: string): Promise<boolean> {
    const pinned = this.#pinned.get(path);
    if (pinned === undefined) return false;
    this.#pinned.delete(path);
    if (pinned.lockedBytes > 0) {
      await this.#measure.unlock({ address: pinned.address, lengthBytes: pinned.lockedBytes });
    }
    return true;
  }

  pinned(): readonly PinnedFile[] {
    return [...this.#pinned.values()].map(pinnedFile);
  }

  async close(): Promise<void> {
    this.#line.close();
    try {
      for (const path of [...this.#pinned.keys()]) await this.unpin(path);
    } finally {
      this.#measure.close();
    }
  }

  /** Judged when its turn has come: others may have been pinned meanwhile. */
  #checkBudget(path: string, sizeBytes: Bytes, budgetBytes: Bytes): void {
    if (this.#pinned.has(path)) throw new Failure("busy", `Cannot pin ${path}: it was pinned in the meantime`);
    const lockedBytes = [...this.#pinned.values()].reduce((sum, pinned) => sum + pinned.lockedBytes, 0);
    if (lockedBytes + sizeBytes <= budgetBytes) return;
    throw new Failure(
      "wont_fit",
      `Cannot pin ${path}: its ${gbText(sizeBytes)} GB beside the ${gbText(lockedBytes)} GB locked exceed ` +
        `the budget of ${gbText(budgetBytes)} GB`,
      { hint: "Unpin something, or raise the budget; locked memory is out of reach for every other program" },
    );
  }
}

function pinnedFile({ path, lockedBytes, sinceMs }: Pinned): PinnedFile {
  return { path, lockedBytes, sinceMs };
}
