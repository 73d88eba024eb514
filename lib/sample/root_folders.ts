/**
 * A short way to many files of the same folders. The careful way (open_inside.ts) takes 50 µs a file, most of it to find
 * out where a file really lies; below a folder that is open already the kernel can be told not to leave it.
 */
import type { FileSystem } from "../../ffi/file_system.ts";
import type { Libc } from "../../ffi/libc.ts";
import type { PageCalls } from "../../ffi/page_calls.ts";
import type { OpenedFile } from "./open_inside.ts";
import { unlessGone } from "./vanishing.ts";

/** The roots of one question, held open while it is answered. */
export class RootFolders implements Disposable {
  readonly #libc: Libc;
  readonly #pages: Pick<PageCalls, "openBeneath">;
  readonly #folders: readonly { readonly prefix: string; readonly fd: number }[];
  /** What was learned of devices the careful way: a FUSE file mustn't be opened to find out that it is one. */
  readonly #fileSystems = new Map<string, FileSystem>();

  constructor(libc: Libc, pages: Pick<PageCalls, "openBeneath">, roots: readonly string[]) {
    this.#libc = libc;
    this.#pages = pages;
    this.#folders = roots.flatMap((root) => {
      const prefix = root.endsWith("/") ? root : `${root}/`;
      const fd = openFolder(libc, root);
      return fd === null ? [] : [{ prefix, fd }];
    });
  }

  learn(device: string, fileSystem: FileSystem): void {
    this.#fileSystems.set(device, fileSystem);
  }

  /** The file, or null where only the careful way can tell what it is. */
  open(path: string): OpenedFile & { readonly fileSystem: FileSystem } | null {
    const folder = this.#folders.find(({ prefix }) => prefix !== "/" && path.startsWith(prefix));
    if (folder === undefined || path.includes("\0")) return null;
    const before = unlessGone(() => this.#libc.stat(path, { isLinkFollowed: false }));
    const fileSystem = before?.kind === "file" ? this.#fileSystems.get(before.device) : undefined;
    if (fileSystem === undefined || fileSystem === "fuse") return null;
    const fd = this.#pages.openBeneath(folder.fd, path.slice(folder.prefix.length));
    if (fd === null) return null;
    const stat = this.#libc.fstat(fd);
    if (stat.kind === "file") {
      return { fd, realPath: path, stat, fileSystem, [Symbol.dispose]: () => this.#libc.close(fd) };
    }
    this.#libc.close(fd);
    return null;
  }

  [Symbol.dispose](): void {
    for (const { fd } of this.#folders) this.#libc.close(fd);
  }
}

/** One that can't be opened, for whatever reason, has no short way: the careful one says of each file what is wrong. */
function openFolder(libc: Libc, root: string): number | null {
  try {
    return libc.open(root, { flags: ["pathOnly", "directory"] });
  } catch (error) {
    // Told by its name: this folder may import only the types of ffi.
    if (error instanceof Error && error.name === "ErrnoError") return null;
    throw error;
  }
}
