/** Residency by the kernel's own count. */
import type { CacheCounts, PageCalls } from "../../ffi/page_calls.ts";
import { type Bytes, GIB } from "../model/units.ts";

/**
 * Bytes a single call may cover: its time goes with the number of folios, 4–7 ms for 2 GiB of single pages, and nothing
 * else of the thread runs meanwhile.
 */
const SLICE_BYTES = 4 * GIB;

/** Counts all of a file, or its first `lengthBytes`, slice by slice. */
export function countByCachestat(
  pages: PageCalls,
  fd: number,
  lengthBytes: Bytes,
): Pick<CacheCounts, "cachedPages" | "recentlyEvictedPages"> {
  let [cachedPages, recentlyEvictedPages] = [0, 0];
  for (let offset = 0; offset < lengthBytes; offset += SLICE_BYTES) {
    const counts = pages.cachestat(fd, { offset, length: Math.min(SLICE_BYTES, lengthBytes - offset) });
    cachedPages += counts.cachedPages;
    recentlyEvictedPages += counts.recentlyEvictedPages;
  }
  return { cachedPages, recentlyEvictedPages };
}
