/** Files whose pages are locked in memory: within a budget that only the owner sets, and told for what they cost. */
import type { CachePolicy, PinResult } from "../model/cache.ts";
import type { Files, ModelFile } from "../model/catalogue.ts";
import { Failure } from "../model/failure.ts";
import type { NewHistoryItem } from "../model/history.ts";
import type { PageCache, PinnedFile, PinOutcome } from "../model/page_cache.ts";
import type { HostMemory } from "../model/sample.ts";
import type { CallOptions } from "../model/services.ts";
import { type Bytes, gbText, round } from "../model/units.ts";

export interface PinBoardParts {
  readonly pageCache: PageCache;
  readonly files: Pick<Files, "stat">;
  readonly memory: () => HostMemory | null;
  readonly policy: CachePolicy;
  readonly record: (item: Omit<NewHistoryItem, "atMs">) => void;
}

export class PinBoard {
  readonly #parts: PinBoardParts;
  /** By path, the id of the file that was locked. */
  readonly #ids = new Map<string, string>();

  constructor(parts: PinBoardParts) {
    this.#parts = parts;
  }

  /**
   * All of the files or none. A caller's own budget can only lower the owner's: locked memory is taken from every other
   * program.
   */
  async pin(
    { files, roots, budgetBytes }: {
      readonly files: readonly ModelFile[];
      readonly roots: readonly string[];
      readonly budgetBytes: Bytes | null;
    },
    call: CallOptions,
  ): Promise<PinResult> {
    const { policy } = this.#parts;
    if (policy.pinBudgetBytes === 0) {
      throw new Failure("forbidden", "Cannot pin: pinning is off", {
        hint: "Set pin.budget_gb in the configuration to what may be locked at most",
      });
    }
    const budget = Math.min(policy.pinBudgetBytes, budgetBytes ?? policy.pinBudgetBytes);
    const due = files.filter(({ path }) => !this.holds(path));
    this.#keepBudget(due, budget);
    this.#leaveRoom(due);
    const before = this.#available;
    const changed = await this.#lockAll(due, { roots, budgetBytes: budget }, call);
    const after = changed.at(-1)?.availableAfterBytes ?? null;
    const what = changed.length === 0 ? "Nothing to lock: all of it was locked before" : `Locked ${sumText(changed)}`;
    return this.#result(changed, { budget, before, after, what });
  }

  async unpin(files: readonly Pick<ModelFile, "path">[]): Promise<PinResult> {
    const { pageCache, policy } = this.#parts;
    const before = this.#available;
    const pinned = new Map(pageCache.pinned().map((file) => [file.path, file]));
    const changed: PinnedFile[] = [];
    for (const { path } of files) {
      const file = pinned.get(path);
      if (file !== undefined && await pageCache.unpin(path)) changed.push(file);
    }
    const what = changed.length === 0 ? "Nothing was pinned" : `Unlocked ${sumText(changed)}`;
    return this.#result(changed, { budget: policy.pinBudgetBytes, before, after: null, what });
  }

  holds(path: string): boolean {
    return this.#parts.pageCache.pinned().some((file) => file.path === path);
  }

  /** Locked files that the catalogue doesn't have (any more). */
  missingFrom(files: readonly ModelFile[]): readonly Pick<ModelFile, "path" | "sizeBytes">[] {
    const known = new Set(files.map(({ path }) => path));
    return this.#parts.pageCache.pinned().filter(({ path }) => !known.has(path))
      .map(({ path, lockedBytes }) => ({ path, sizeBytes: lockedBytes }));
  }

  /**
   * Lets go of files that were deleted or replaced: nobody opens them any more, and only their lock keeps them in memory.
   * `files`: those of the catalogue. One that only left it stays, since the store of a server that is away comes back.
   */
  async releaseGone(files: readonly ModelFile[]): Promise<void> {
    const { pageCache, files: disk, record } = this.#parts;
    const pinned = pageCache.pinned();
    if (pinned.length === 0) return;
    const ids = new Map(files.map(({ path, id }) => [path, id]));
    for (const { path, lockedBytes } of pinned) {
      const id = this.#ids.get(path);
      if (ids.get(path) === id) continue;
      const facts = await disk.stat(path);
      if (facts?.id === id || !await pageCache.unpin(path)) continue;
      const why = facts === null ? "it is gone" : "it was replaced";
      const message = `Unlocked ${gbText(lockedBytes)} GB of ${path}: ${why}`;
      record({ kind: "pin", fields: { path, released_gb: round(lockedBytes / 1e9, 3), message } });
    }
  }

  /** What was locked is let go again when a later one can't be: half a model in memory helps nobody. */
  async #lockAll(
    files: readonly ModelFile[],
    how: { readonly roots: readonly string[]; readonly budgetBytes: Bytes },
    call: CallOptions,
  ): Promise<readonly PinOutcome[]> {
    const { pageCache, files: disk } = this.#parts;
    const locked: PinOutcome[] = [];
    try {
      for (const { path, sizeBytes, id } of files) {
        // The catalogue may be a few seconds behind.
        this.#ids.set(path, (await disk.stat(path))?.id ?? id);
        const onProgress = ({ doneBytes }: { readonly doneBytes: Bytes }) =>
          call.progress({
            phase: `locking ${path}`,
            done: sizeBytes === 0 ? null : doneBytes / sizeBytes,
            etaMs: null,
          });
        locked.push(await pageCache.pin(path, { ...how, signal: call.signal, onProgress }));
      }
      return locked;
    } catch (error) {
      // How letting go fares mustn't hide why.
      await Promise.allSettled(locked.map(({ path }) => pageCache.unpin(path)));
      throw error;
    }
  }

  #keepBudget(files: readonly ModelFile[], budgetBytes: Bytes): void {
    const needed = files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    const locked = sumOf(this.#parts.pageCache.pinned());
    if (needed === 0 || locked + needed <= budgetBytes) return;
    const beside = `beside the ${gbText(locked)} GB locked exceed the budget of ${gbText(budgetBytes)} GB`;
    throw new Failure("wont_fit", `Cannot pin: its ${gbText(needed)} GB ${beside}`, {
      hint: "Unpin something, or raise the budget; locked memory is out of reach for every other program",
      details: { needed_gb: needed / 1e9, locked_gb: locked / 1e9, budget_gb: budgetBytes / 1e9 },
    });
  }

  /** Locked pages no longer count as available, and Ollama reads without mmap where too little is. */
  #leaveRoom(files: readonly ModelFile[]): void {
    const { policy } = this.#parts;
    const needed = files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    const available = this.#available;
    if (available === null || available - needed >= policy.reserveBytes) return;
    throw new Failure(
      "wont_fit",
      `Cannot pin ${gbText(needed)} GB: only ${gbText(available)} GB are available to programs`,
      {
        hint: `${gbText(policy.reserveBytes)} GB must stay (warm.reserve_gb)`,
        details: { needed_gb: needed / 1e9, available_gb: available / 1e9, reserve_gb: policy.reserveBytes / 1e9 },
      },
    );
  }

  get #available(): Bytes | null {
    return this.#parts.memory()?.availableBytes ?? null;
  }

  #result(
    changed: readonly PinnedFile[],
    { budget, before, after, what }: {
      readonly budget: Bytes;
      readonly before: Bytes | null;
      readonly after: Bytes | null;
      /** What was done, as a sentence begins. */
      readonly what: string;
    },
  ): PinResult {
    const pinned = this.#parts.pageCache.pinned();
    const lockedBytes = sumOf(pinned);
    const cost = lockedBytes === 0 ? "" : `; ${gbText(lockedBytes)} GB are out of reach for every other program`;
    return {
      pinned,
      changed,
      lockedBytes,
      budgetBytes: budget,
      availableBeforeBytes: before,
      availableAfterBytes: after,
      message: `${what}${cost}`,
    };
  }
}

function sumOf(files: readonly PinnedFile[]): Bytes {
  return files.reduce((sum, { lockedBytes }) => sum + lockedBytes, 0);
}

function sumText(files: readonly PinnedFile[]): string {
  return `${gbText(sumOf(files))} GB`;
}
