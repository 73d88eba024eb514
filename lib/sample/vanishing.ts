/** Reading what may go away, or be closed to us, at any moment. */

/**
 * No such file or process any more (ENOENT, ESRCH), or not ours to see (EACCES, EPERM). In /proc each of these happens in
 * the ordinary course of things.
 */
const ORDINARY: ReadonlySet<unknown> = new Set(["ENOENT", "ESRCH", "ENOTDIR", "EACCES", "EPERM"]);

/** The value, or null where it went away or may not be seen; any other error goes on. */
export function unlessGone<T>(read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    // Told by its name: this folder may import only the types of ffi.
    if (error instanceof Error && error.name === "ErrnoError" && "code" in error && ORDINARY.has(error.code)) {
      return null;
    }
    throw error;
  }
}
