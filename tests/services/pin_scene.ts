/** A pin board over a page cache and a disk of plain values. */
import type { PinResult } from "../../lib/model/cache.ts";
import { DEFAULT_CACHE_POLICY } from "../../lib/model/cache.ts";
import type { ModelFile, Presence } from "../../lib/model/catalogue.ts";
import type { PageCache, PinnedFile } from "../../lib/model/page_cache.ts";
import { NO_CACHE } from "../../lib/services/no_cache.ts";
import { PinBoard } from "../../lib/services/pin_board.ts";

export interface PinScene {
  readonly board: PinBoard;
  readonly records: Readonly<Record<string, unknown>>[];
  /** By path, the id of what lies on the disk, or what else the disk says. */
  readonly disk: Map<string, string | Presence>;
  /** Awaited when a file is about to be locked; a cancel ends the wait. */
  onPin: (path: string) => Promise<void> | void;
  /** Under the first file's path, when no name is given. */
  pin(files: readonly ModelFile[], how?: { readonly name?: string; readonly signal?: AbortSignal }): Promise<PinResult>;
  locked(): readonly string[];
}

export const modelFile = (path: string, sizeBytes: number, id = `1:${path}`): ModelFile => ({
  path,
  sizeBytes,
  id,
  modifiedAtMs: 0,
});

/** It locks whatever it is told to, and calls the disk as often as the real one does. */
export function pinScene({ budgetBytes = 1e9 } = {}): PinScene {
  const pinned = new Map<string, PinnedFile>();
  const sizes = new Map<string, number>();
  const disk: PinScene["disk"] = new Map();
  const records: PinScene["records"] = [];
  const pageCache: PageCache = {
    ...NO_CACHE.pageCache,
    async pin(path, { signal }) {
      signal?.throwIfAborted();
      await Promise.race([one.onPin(path), aborted(signal)]);
      const locked = { path, lockedBytes: sizes.get(path) ?? 0, sinceMs: 0 };
      pinned.set(path, locked);
      return { ...locked, availableBeforeBytes: null, availableAfterBytes: null };
    },
    unpin: (path) => Promise.resolve(pinned.delete(path)),
    pinned: () => [...pinned.values()],
  };
  const find = (path: string): Presence => {
    const there = disk.get(path) ?? { kind: "gone" };
    if (typeof there !== "string") return there;
    const facts = { kind: "file", sizeBytes: sizes.get(path) ?? 0, modifiedAtMs: 0, id: there } as const;
    return { kind: "there", facts };
  };
  const board = new PinBoard({
    pageCache,
    files: { find: (path) => Promise.resolve(find(path)) },
    memory: () => null,
    policy: { ...DEFAULT_CACHE_POLICY, pinBudgetBytes: budgetBytes },
    record: (item) => records.push(item),
  });
  const one: PinScene = {
    board,
    records,
    disk,
    onPin: () => {},
    pin(files, { name = files[0]?.path ?? "", signal = new AbortController().signal } = {}) {
      for (const { path, sizeBytes, id } of files) {
        sizes.set(path, sizeBytes);
        if (!disk.has(path)) disk.set(path, id);
      }
      return board.pin({ name, files, roots: ["/"], budgetBytes: null }, { signal, progress: () => {} });
    },
    locked: () => [...pinned.keys()].toSorted(),
  };
  return one;
}

function aborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason), { once: true }));
}
