/**
 * Memory that stays. A virtual machine may give free memory back to its host, and whoever touches it next waits while it
 * is fetched: 7 µs a page of 4 KiB were measured, more than reading takes, so that a figure told mostly whose pages
 * happened to be there. Kept, the same method's speed differed by 2 % from run to run instead of by half.
 */
import { ran } from "./page_cache_file.ts";
import { messageOf } from "../../lib/model/failure.ts";
import { GIB } from "../../lib/model/units.ts";

/** Linux gives back free blocks of 2 to this many pages and larger. */
const REPORTING_ORDER = "/sys/module/page_reporting/parameters/page_reporting_order";
/** One more than the largest block's. */
const NONE = "11";
/** Left free while the rest is touched. */
const SPARE = 2 * GIB;

/** Runs with all free memory fetched and none given back; where that can't be had, it says so. */
export async function withMemoryKept<T>(run: () => Promise<T>): Promise<T> {
  const order = await Deno.readTextFile(REPORTING_ORDER).catch(() => null);
  // A kernel that gives nothing back.
  if (order === null) return await run();
  try {
    await Deno.writeTextFile(REPORTING_ORDER, NONE);
  } catch (error) {
    console.log(`memory may be given back meanwhile, and speeds vary: ${messageOf(error)}`);
    return await run();
  }
  try {
    await touchFreeMemory();
    return await run();
  } finally {
    await Deno.writeTextFile(REPORTING_ORDER, order);
  }
}

/** Huge pages are touched in place of small ones, which would split them. */
async function touchFreeMemory(): Promise<void> {
  const bytes = Deno.systemMemoryInfo().free - SPARE;
  if (bytes <= 0) return;
  const touch = `dd if=/dev/zero of=/dev/null iflag=fullblock bs=${bytes} count=1 status=none`;
  await ran(`GLIBC_TUNABLES=glibc.malloc.hugetlb=1 ${touch}`);
}
