/** Whether this kernel reads files quickest by faults in huge pages. */
import type { Libc } from "../../ffi/libc.ts";
import { type Bytes, MIB } from "../model/units.ts";
import { unlessGone } from "./vanishing.ts";

/** Elsewhere a huge page is 32 or 512 MiB, more than is to be read at a time. */
const HUGE_PAGE: Bytes = 2 * MIB;
/**
 * Linux from which a window of huge pages is followed by one as large. Before, the next ones are the disk's read-ahead,
 * which a pipe of 1 MiB beats.
 */
const SINCE = { major: 6, minor: 14 } as const;

/**
 * On 6.18 they were 1.3 times as fast as a pipe of 1 MiB on a third of its CPU at a read-ahead of 8 MiB, and the same at
 * one of 128 KiB.
 */
export function hasHugeFaults(
  libc: Libc,
  { procRoot, sysRoot }: { readonly procRoot: string; readonly sysRoot: string },
): boolean {
  const read = (path: string) => unlessGone(() => libc.readText(path).trim()) ?? "";
  const release = read(`${procRoot}/sys/kernel/osrelease`);
  return isReadByHugeFaults(release, Number(read(`${sysRoot}/kernel/mm/transparent_hugepage/hpage_pmd_size`)));
}

/** By the kernel's release, as "6.18.4-generic", and the size of its huge pages; 0 where it has none. */
export function isReadByHugeFaults(release: string, hugePageBytes: Bytes): boolean {
  const [, major, minor] = /^(\d+)\.(\d+)/.exec(release) ?? [];
  if (hugePageBytes !== HUGE_PAGE || major === undefined || minor === undefined) return false;
  return Number(major) > SINCE.major || Number(major) === SINCE.major && Number(minor) >= SINCE.minor;
}
