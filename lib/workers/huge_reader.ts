/**
 * Reads a file into the page cache by faults in huge pages: windows of 4 MiB and more, of which the next is on its way
 * while one comes in, whatever the disk's read-ahead. Nothing touches the mapping but the kernel's own populating, which
 * answers with an error where reading by address would be killed.
 */
import { ErrnoError } from "../../ffi/errno.ts";
import type { FileRange, Mapping, PageCalls } from "../../ffi/page_calls.ts";
import { type Bytes, MIB } from "../model/units.ts";

/** What is mapped at a time: it counts as this process's memory. */
const WINDOW: Bytes = 32 * MIB;
/** Populated in one call: a cancel waits for it. */
const CALL: Bytes = 8 * MIB;

export class HugeReader {
  readonly #pages: PageCalls;
  readonly #fd: number;
  #window: { readonly mapping: Mapping; readonly offset: Bytes } | null = null;
  #isRefused = false;

  constructor(pages: PageCalls, fd: number) {
    this.#pages = pages;
    this.#fd = fd;
  }

  /** Reads the beginning of a range that the file has; null where it can't be read like this, or no longer. */
  read({ offset, length }: FileRange): Bytes | null {
    if (this.#isRefused) return null;
    try {
      const window = this.#windowAt(offset);
      const bytes = Math.min(length, CALL, window.offset + WINDOW - offset);
      window.mapping.populate({ offset: offset - window.offset, length: bytes });
      return bytes;
    } catch (error) {
      if (!(error instanceof ErrnoError)) throw error;
      // Whoever reads it in another way is told by the kernel what is wrong, if anything is.
      this.release();
      this.#isRefused = true;
      return null;
    }
  }

  /** Lets go of what is mapped: mapped pages can't be dropped. */
  release(): void {
    this.#window?.mapping.unmap();
    this.#window = null;
  }

  #windowAt(at: Bytes): { readonly mapping: Mapping; readonly offset: Bytes } {
    const offset = at - at % WINDOW;
    if (this.#window?.offset === offset) return this.#window;
    this.release();
    // It may reach beyond the file's end, where nothing is populated.
    this.#window = { offset, mapping: this.#pages.map(this.#fd, { offset, length: WINDOW, faults: "huge" }) };
    return this.#window;
  }
}
