/** What a pin or an unpin has come to. */
import type { HeldFile, PinResult } from "../model/cache.ts";
import type { PinnedFile } from "../model/page_cache.ts";
import { type Bytes, gbText } from "../model/units.ts";

export function pinResult(
  changed: readonly PinnedFile[],
  { pinned, budget, before, after, what }: {
    readonly pinned: readonly HeldFile[];
    readonly budget: Bytes;
    readonly before: Bytes | null;
    readonly after: Bytes | null;
    /** What was done, as a sentence begins. */
    readonly what: string;
  },
): PinResult {
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

export function tellPinned(changed: readonly PinnedFile[]): string {
  return changed.length === 0 ? "Nothing to lock: all of it was locked before" : `Locked ${sumText(changed)}`;
}

export function tellUnpinned(
  changed: readonly PinnedFile[],
  { kept, isCalledOff }: {
    /** Of what was to be let go, what others hold. */
    readonly kept: readonly HeldFile[];
    /** A pin was under way. */
    readonly isCalledOff: boolean;
  },
): string {
  const names = [...new Set(kept.flatMap(({ heldFor }) => heldFor))].join(", ");
  const left = kept.length === 0 ? "" : `; ${sumText(kept)} stay locked for ${names}`;
  if (changed.length > 0) return `Unlocked ${sumText(changed)}${left}`;
  if (isCalledOff) return `Called off the pin that was under way${left}`;
  return kept.length === 0 ? "Nothing was pinned" : `Nothing unlocked${left}`;
}

export function sumOf(files: readonly PinnedFile[]): Bytes {
  return files.reduce((sum, { lockedBytes }) => sum + lockedBytes, 0);
}

function sumText(files: readonly PinnedFile[]): string {
  return `${gbText(sumOf(files))} GB`;
}
