/**
 * Files that stay open between two looks. A FUSE file system may drop a file's pages whenever somebody opens it: opening
 * it to measure would be the end of what was to be measured. Opened once, it is measured through that descriptor.
 */
import type { Libc } from "../../ffi/libc.ts";
import type { PageCalls } from "../../ffi/page_calls.ts";

/** More are closed again, the longest unused first: each keeps its file system from being unmounted. */
const KEPT_COUNT = 64;

export class KeptFiles implements Disposable {
  readonly #libc: Pick<Libc, "close">;
  readonly #pages: Pick<PageCalls, "fileSystem">;
  /** Least recently used first. */
  readonly #descriptors = new Map<string, number>();

  constructor(libc: Pick<Libc, "close">, pages: Pick<PageCalls, "fileSystem">) {
    this.#libc = libc;
    this.#pages = pages;
  }

  /** Judged on a descriptor that only names the file. */
  isToBeKept(named: number): boolean {
    return this.#pages.fileSystem(named) === "fuse";
  }

  /** The descriptor of that file, opened now if it isn't yet. */
  descriptor(key: string, open: () => number): number {
    const fd = this.#descriptors.get(key) ?? open();
    this.#descriptors.delete(key);
    this.#descriptors.set(key, fd);
    for (const [oldest, descriptor] of this.#descriptors) {
      if (this.#descriptors.size <= KEPT_COUNT) break;
      this.#descriptors.delete(oldest);
      this.#libc.close(descriptor);
    }
    return fd;
  }

  [Symbol.dispose](): void {
    for (const fd of this.#descriptors.values()) this.#libc.close(fd);
    this.#descriptors.clear();
  }
}
