/** Which way of measuring tells the truth, by file system and by what the kernel lets us ask. Pure. */
import type { FileSystem } from "../../ffi/file_system.ts";
import type { ResidencyMethod } from "../model/page_cache.ts";

export interface MeasuringGround {
  readonly fileSystem: FileSystem;
  /** Null: not available on this kernel, or forbidden altogether. */
  readonly cachestat: "allowed" | "denied" | null;
  /** Ours, or writable for us: the kernel's own condition for an honest mincore. */
  readonly isMincoreHonest: boolean;
}

/** Reads with RWF_NOWAIT say EAGAIN for an absent page, instead of not being supported. */
const WITH_NOWAIT: readonly FileSystem[] = ["ext4", "xfs", "btrfs", "f2fs"];
/** Blocks read for a page are counted for the thread that asked. Elsewhere (FUSE, NFS) they never are: all would be hits. */
const WITH_BLOCKS: readonly FileSystem[] = [...WITH_NOWAIT, "overlay", "squashfs", "erofs"];

/** The method, or null where a file's pages aren't kept in the page cache. */
export function residencyMethod(ground: MeasuringGround): Exclude<ResidencyMethod, "empty"> | null {
  const { fileSystem, cachestat, isMincoreHonest } = ground;
  if (fileSystem === "zfs") return null;
  if (fileSystem === "tmpfs" || fileSystem === "ramfs") return "memory";
  // An overlay's own inode has no pages: its data lies in the layer's, which mincore follows and cachestat doesn't.
  if (cachestat === "allowed" && fileSystem !== "overlay") return "cachestat";
  // EPERM is the kernel saying by cachestat what it hides in mincore.
  if (cachestat !== "denied" && isMincoreHonest) return "mincore";
  if (WITH_NOWAIT.includes(fileSystem)) return "nowait";
  return WITH_BLOCKS.includes(fileSystem) ? "inblock" : "majflt";
}
