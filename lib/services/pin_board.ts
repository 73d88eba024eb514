/** Files whose pages are locked in memory: within a budget that only the owner sets, and told for what they cost. */
import type { CachePolicy, PinResult } from "../model/cache.ts";
import type { ModelFile } from "../model/catalogue.ts";
import { Failure } from "../model/failure.ts";
import type { PageCache, PinnedFile, PinOutcome } from "../model/page_cache.ts";
import type { HostMemory } from "../model/sample.ts";
import type { CallOptions } from "../model/services.ts";
import type { Bytes } from "../model/units.ts";

export interface PinBoardParts {
  readonly pageCache: PageCache;
  readonly memory: () => HostMemory | null;
  readonly policy: CachePolicy;
}

export class PinBoard {
  readonly #parts: PinBoardParts;

  constructor(parts: PinBoardParts) {
    this.#parts = parts;
  }

  /** A caller's own budget can only lower the owner's: locked memory is taken from every other program. */
  async pin(
    { files, roots, budgetBytes }: {
      readonly files: readonly ModelFile[];
      readonly roots: readonly string[];
      readonly budgetBytes: Bytes | null;
    },
    call: CallOptions,
  ): Promise<PinResult> {
    const { pageCache, policy } = this.#parts;
    if (policy.pinBudgetBytes === 0) {
      throw new Failure("forbidden", "Cannot pin: pinning is off", {
        hint: "Set pin.budget_gb in the configuration to what may be locked at most",
      });
    }
    const budget = Math.min(policy.pinBudgetBytes, budgetBytes ?? policy.pinBudgetBytes);
    this.#leaveRoom(files);
    const before = this.#available;
    const changed: PinOutcome[] = [];
    for (const { path, sizeBytes } of files) {
      changed.push(
        await pageCache.pin(path, {
          roots,
          budgetBytes: budget,
          signal: call.signal,
          onProgress: ({ doneBytes }) =>
            call.progress({
              phase: `locking ${path}`,
              done: sizeBytes === 0 ? null : doneBytes / sizeBytes,
              etaMs: null,
            }),
        }),
      );
    }
    const after = changed.at(-1)?.availableAfterBytes ?? null;
    return this.#result(changed, { budget, before, after, verb: "Locked" });
  }

  async unpin(files: readonly ModelFile[]): Promise<PinResult> {
    const { pageCache, policy } = this.#parts;
    const before = this.#available;
    const pinned = new Map(pageCache.pinned().map((file) => [file.path, file]));
    const changed: PinnedFile[] = [];
    for (const { path } of files) {
      const file = pinned.get(path);
      if (file !== undefined && await pageCache.unpin(path)) changed.push(file);
    }
    return this.#result(changed, { budget: policy.pinBudgetBytes, before, after: null, verb: "Unlocked" });
  }

  /** Locked pages no longer count as available, and Ollama reads without mmap where too little is. */
  #leaveRoom(files: readonly ModelFile[]): void {
    const { pageCache, policy } = this.#parts;
    const pinned = new Set(pageCache.pinned().map(({ path }) => path));
    const needed = files.filter(({ path }) => !pinned.has(path)).reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    const available = this.#available;
    if (available === null || available - needed >= policy.reserveBytes) return;
    throw new Failure("wont_fit", `Cannot pin ${gb(needed)} GB: only ${gb(available)} GB are available to programs`, {
      hint: `${gb(policy.reserveBytes)} GB must stay (warm.reserve_gb)`,
      details: { needed_gb: needed / 1e9, available_gb: available / 1e9, reserve_gb: policy.reserveBytes / 1e9 },
    });
  }

  get #available(): Bytes | null {
    return this.#parts.memory()?.availableBytes ?? null;
  }

  #result(
    changed: readonly PinnedFile[],
    { budget, before, after, verb }: {
      readonly budget: Bytes;
      readonly before: Bytes | null;
      readonly after: Bytes | null;
      readonly verb: string;
    },
  ): PinResult {
    const pinned = this.#parts.pageCache.pinned();
    const lockedBytes = pinned.reduce((sum, file) => sum + file.lockedBytes, 0);
    const moved = changed.reduce((sum, file) => sum + file.lockedBytes, 0);
    const cost = lockedBytes === 0 ? "" : `; ${gb(lockedBytes)} GB are out of reach for every other program`;
    return {
      pinned,
      changed,
      lockedBytes,
      budgetBytes: budget,
      availableBeforeBytes: before,
      availableAfterBytes: after,
      message: changed.length === 0 ? "Nothing was pinned" : `${verb} ${gb(moved)} GB${cost}`,
    };
  }
}

function gb(bytes: Bytes): string {
  return (bytes / 1e9).toFixed(1);
}
