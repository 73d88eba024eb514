/** The disks below a file, and how much they are used, by whomever. */
import type { Libc } from "../../ffi/libc.ts";
import type { Bytes } from "../model/units.ts";
import { unlessGone } from "./vanishing.ts";

/** What a set of disks has done since it was attached. */
export interface DiskUse {
  readonly reads: number;
  readonly readBytes: Bytes;
  readonly writtenBytes: Bytes;
}

export interface Disks {
  /** Names as /proc/diskstats has them; what the file system lies on, or all disks where that can't be told. */
  readonly names: readonly string[];
  /** Null where the kernel keeps no statistics for them. */
  use(): DiskUse | null;
}

export interface DiskRoots {
  readonly procRoot: string;
  readonly sysRoot: string;
}

/** Loops, RAM disks and network blocks stand on something else or on nothing; stacked devices are counted below. */
const VIRTUAL = /^(?:loop|ram|zram|nbd|dm-|md|sr|fd)\d/;

/** Finds the disks below a device ("major:minor", as a file's stat names it). */
export function disksOf(libc: Libc, device: string, roots: DiskRoots): Disks {
  const read = (path: string) => unlessGone(() => libc.readText(path).trim());
  const real = blockDeviceOf(read, device, roots);
  const found = real === null ? [] : leavesOf(libc, read, `${roots.sysRoot}/dev/block/${real}`);
  const names = found.length > 0 ? found : allDisks(libc, read, roots);
  return {
    names,
    use: () => {
      const text = read(`${roots.procRoot}/diskstats`);
      return text === null ? null : parseDiskstats(text, names);
    },
  };
}

/**
 * Sums the lines of /proc/diskstats for these disks; null where none is there. Its sectors are 512 bytes, whatever the
 * disk's own are (https://docs.kernel.org/admin-guide/iostats.html).
 */
export function parseDiskstats(text: string, names: readonly string[]): DiskUse | null {
  let [found, reads, readBytes, writtenBytes] = [0, 0, 0, 0];
  for (const line of text.split("\n")) {
    const [, , name = "", readCount, , readSectors, , , , writtenSectors] = line.trim().split(/\s+/);
    if (!names.includes(name)) continue;
    found++;
    reads += Number(readCount);
    readBytes += Number(readSectors) * 512;
    writtenBytes += Number(writtenSectors) * 512;
  }
  return found === 0 ? null : { reads, readBytes, writtenBytes };
}

/** A file system of several devices (btrfs) has a number of its own, which no disk has: its mount names one of them. */
function blockDeviceOf(
  read: (path: string) => string | null,
  device: string,
  { procRoot, sysRoot }: DiskRoots,
): string | null {
  if (read(`${sysRoot}/dev/block/${device}/dev`) !== null) return device;
  const source = mountSource(read(`${procRoot}/self/mountinfo`) ?? "", device);
  return source === null ? null : read(`${sysRoot}/class/block/${source}/dev`);
}

/** The block device's name that a mount of this number comes from; null where it comes from none. */
export function mountSource(mountinfo: string, device: string): string | null {
  for (const line of mountinfo.split("\n")) {
    const [mount = "", rest = ""] = line.split(" - ");
    if (mount.split(" ")[2] !== device) continue;
    const source = rest.split(" ")[1] ?? "";
    return source.startsWith("/dev/") ? source.slice("/dev/".length).replaceAll("/", "!") : null;
  }
  return null;
}

/** The whole disks at the bottom: a partition's disk, what a volume or an array is made of. */
function leavesOf(libc: Libc, read: (path: string) => string | null, folder: string): readonly string[] {
  const isPartition = read(`${folder}/partition`) !== null;
  if (isPartition) return leavesOf(libc, read, `${folder}/..`);
  const parts = unlessGone(() => libc.list(`${folder}/slaves`)) ?? [];
  if (parts.length > 0) return [...new Set(parts.flatMap((part) => leavesOf(libc, read, `${folder}/slaves/${part}`)))];
  const name = /^DEVNAME=(.+)$/m.exec(read(`${folder}/uevent`) ?? "")?.[1];
  return name === undefined ? [] : [name];
}

function allDisks(libc: Libc, read: (path: string) => string | null, { sysRoot }: DiskRoots): readonly string[] {
  const names = unlessGone(() => libc.list(`${sysRoot}/block`)) ?? [];
  return names.filter((name) => !VIRTUAL.test(name) && read(`${sysRoot}/block/${name}/size`) !== "0");
}
