/** Host memory, from /proc/meminfo. */
import type { Proc } from "../model/ports.ts";
import type { HostMemory } from "../model/sample.ts";
import { KIB } from "../model/units.ts";

/** Reads host memory now. Throws when /proc/meminfo can't be read or isn't one. */
export function readHostMemory(proc: Proc): HostMemory {
  return parseMeminfo(proc.read("meminfo"));
}

/**
 * Parses /proc/meminfo, whose "kB" are 1024 bytes. Page cache is what could be dropped: Shmem (tmpfs) stands in Cached
 * but can't be, so it counts as applications, which is what is neither free nor page cache.
 */
export function parseMeminfo(text: string): HostMemory {
  const figures = new Map<string, number>();
  for (const line of text.split("\n")) {
    const [, name, kib] = /^([^:]+):\s+(\d+)/.exec(line) ?? [];
    if (name !== undefined) figures.set(name, Number(kib) * KIB);
  }
  const need = (name: string): number => {
    const bytes = figures.get(name);
    if (bytes === undefined) throw new Error(`Cannot read host memory: /proc/meminfo has no ${name}`);
    return bytes;
  };
  const totalBytes = need("MemTotal");
  const freeBytes = need("MemFree");
  const reclaimable = need("Cached") + (figures.get("Buffers") ?? 0) + (figures.get("SReclaimable") ?? 0);
  const cachedBytes = Math.max(0, reclaimable - (figures.get("Shmem") ?? 0));
  return {
    totalBytes,
    freeBytes,
    availableBytes: need("MemAvailable"),
    cachedBytes,
    applicationsBytes: Math.max(0, totalBytes - freeBytes - cachedBytes),
    swapTotalBytes: figures.get("SwapTotal") ?? 0,
    swapFreeBytes: figures.get("SwapFree") ?? 0,
  };
}
