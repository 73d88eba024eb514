/** How much memory page cache may still take: the machine's, and what the service's own cgroup allows. */
import type { Libc } from "../../ffi/libc.ts";
import type { Bytes } from "../model/units.ts";
import { parseMeminfo } from "./meminfo.ts";
import { unlessGone } from "./vanishing.ts";

export interface MemoryRoom {
  /** Clean page cache counts as available, so warming doesn't lower it; locked pages do. */
  readonly availableBytes: Bytes;
  /** The tightest cgroup around us; null where none has a limit, or where cgroups can't be read. */
  readonly cgroup: CgroupMemory | null;
}

export interface CgroupMemory {
  readonly limitBytes: Bytes;
  readonly usedBytes: Bytes;
  /** Of that, page cache, which the kernel takes back when the limit is reached. */
  readonly cacheBytes: Bytes;
}

export interface RoomRoots {
  readonly procRoot: string;
  readonly sysRoot: string;
}

/** Limits from here on mean "none" (cgroup v1 writes a number near 2^63). */
const NO_LIMIT = 2 ** 60;

/** Reads both. Throws when /proc/meminfo can't be read. */
export function readMemoryRoom(libc: Libc, { procRoot, sysRoot }: RoomRoots): MemoryRoom {
  const read = (path: string) => unlessGone(() => libc.readText(path));
  const { availableBytes } = parseMeminfo(libc.readText(`${procRoot}/meminfo`));
  const folders = memoryFolders(read(`${procRoot}/self/cgroup`) ?? "", `${sysRoot}/fs/cgroup`);
  const limits = folders.flatMap((folder) => cgroupMemory(read, folder) ?? []);
  const free = ({ limitBytes, usedBytes, cacheBytes }: CgroupMemory) => limitBytes - usedBytes + cacheBytes;
  const tightest = limits.reduce<CgroupMemory | null>(
    (best, one) => best === null || free(one) < free(best) ? one : best,
    null,
  );
  return { availableBytes, cgroup: tightest };
}

/** Folders of our memory cgroup and of those around it, innermost first: v2 ("0::/path") and v1 ("4:memory:/path"). */
export function memoryFolders(selfCgroup: string, root: string): readonly string[] {
  return selfCgroup.split("\n").flatMap((line) => {
    const [, controllers = "", path = ""] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? [];
    const isMemory = controllers.split(",").includes("memory");
    if (path === "" || !(controllers === "" || isMemory)) return [];
    const base = isMemory ? `${root}/memory` : root;
    const parts = path.split("/").filter((part) => part !== "");
    return parts.map((_, at) => `${base}/${parts.slice(0, parts.length - at).join("/")}`);
  });
}

/** v2 has memory.max and memory.high, of which the lower one binds; v1 a single limit. */
function cgroupMemory(read: (path: string) => string | null, folder: string): CgroupMemory | null {
  const number = (name: string): number => {
    const text = read(`${folder}/${name}`)?.trim();
    return text === undefined || text === "max" || text === "" ? Infinity : Number(text);
  };
  const limitBytes = Math.min(number("memory.max"), number("memory.high"), number("memory.limit_in_bytes"));
  if (!(limitBytes < NO_LIMIT)) return null;
  const usedBytes = Math.min(number("memory.current"), number("memory.usage_in_bytes"));
  const stat = read(`${folder}/memory.stat`) ?? "";
  const cacheBytes = Number(/^(?:total_cache|file) (\d+)$/m.exec(stat)?.[1] ?? 0);
  return Number.isFinite(usedBytes) ? { limitBytes, usedBytes, cacheBytes } : null;
}
