/** Opening a file that somebody named: only a regular one, and only where it may lie. */
import type { ErrnoFailure } from "../../ffi/errno.ts";
import type { Libc } from "../../ffi/libc.ts";
import type { FileStat } from "../../ffi/libc_structs.ts";
import { Failure } from "../model/failure.ts";
import type { KeptFiles } from "./kept_files.ts";

/** A readable file below one of the roots. */
export interface OpenedFile extends Disposable {
  readonly fd: number;
  /** Where it really lies, without links. */
  readonly realPath: string;
  readonly stat: FileStat;
}

/** The kernel's own /proc: the lab's folder has no descriptors of ours. */
const DESCRIPTORS = "/proc/self/fd";

const HINT = "Only files of the catalogue can be read: see `hyperswap models`";

/**
 * Opens a file below one of the roots (absolute real paths), or throws a Failure: invalid_input for a path that is no
 * plain absolute one, not_found, forbidden for a path that leads out or to anything but a regular file.
 *
 * It is named first (O_PATH: opening a device or a FIFO could do something), judged by what the kernel says of that very
 * file, and then opened through its descriptor. So nothing can be put in its place between the judgement and the opening.
 * With `kept`, files that mustn't be opened each time stay open in there.
 */
export function openInside(
  libc: Libc,
  path: string,
  { roots, kept }: { readonly roots: readonly string[]; readonly kept?: KeptFiles },
): OpenedFile {
  if (!path.startsWith("/") || path.includes("\0") || path.split("/").includes("..")) {
    throw new Failure("invalid_input", `Cannot read ${path}: the path must be absolute, without ..`, { hint: HINT });
  }
  const named = refusable(path, () => libc.open(path, { flags: ["pathOnly"] }));
  try {
    const { kind, device, inode } = libc.fstat(named);
    const realPath = libc.readLink(`${DESCRIPTORS}/${named}`);
    if (!roots.some((root) => isBelow(realPath, root))) {
      const led = realPath === path ? "" : ` (it leads to ${realPath})`;
      throw new Failure("forbidden", `Cannot read ${path}${led}: it lies outside the model folders`, { hint: HINT });
    }
    if (kind !== "file") {
      throw new Failure("forbidden", `Cannot read ${path}: it is no regular file but a ${kind}`, { hint: HINT });
    }
    const open = () => refusable(path, () => libc.open(`${DESCRIPTORS}/${named}`, { flags: ["read", "nonblocking"] }));
    if (kept?.isToBeKept(named)) {
      const fd = kept.descriptor(`${device}/${inode}`, open);
      return { fd, realPath, stat: libc.fstat(fd), [Symbol.dispose]: () => {} };
    }
    const fd = open();
    return { fd, realPath, stat: libc.fstat(fd), [Symbol.dispose]: () => libc.close(fd) };
  } finally {
    libc.close(named);
  }
}

/** "/" as a root would allow everything, so it allows nothing. */
function isBelow(path: string, root: string): boolean {
  const folder = root.endsWith("/") ? root : `${root}/`;
  return folder !== "/" && path.startsWith(folder);
}

const MISSING: readonly string[] = ["ENOENT", "ENOTDIR"];

function refusable(path: string, open: () => number): number {
  try {
    return open();
  } catch (error) {
    if (!isErrno(error)) throw error;
    if (MISSING.includes(error.code)) {
      throw new Failure("not_found", `Cannot read ${path}: there is no such file`, { hint: HINT, cause: error });
    }
    const hint = error.code === "EACCES"
      ? "Let the service's user read it: its group, or an ACL (setfacl -m u:hyperswap:r)"
      : HINT;
    throw new Failure("forbidden", `Cannot read ${path}: ${error.code}`, { hint, cause: error });
  }
}

/** By name, since only types of ffi may be imported here. */
function isErrno(error: unknown): error is ErrnoFailure {
  return error instanceof Error && error.name === "ErrnoError";
}
