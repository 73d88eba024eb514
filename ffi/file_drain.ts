/**
 * Reading a file to nowhere: its pages come into the page cache and none of them is copied.
 *
 * Spliced through a pipe of our own into /dev/null. How much a call asks for is what decides: the kernel reads as much of
 * it in one go as the disk takes, however small its read-ahead is set. sendfile has a pipe of 64 KiB inside and is held to
 * the read-ahead: at 128 KiB, a pipe of 1 MiB was 1.5 times as fast on a quarter of the CPU that WILLNEED takes.
 */
import { ERRNO, ErrnoError } from "./errno.ts";
import { DRAIN_SYMBOLS } from "./page_symbols.ts";
import type { FileRange } from "./page_calls.ts";

const O_WRONLY = 1;
const O_CLOEXEC = 0o2000000;
const F_SETPIPE_SZ = 1031;
/** /proc/sys/fs/pipe-max-size, beyond which only root may go. */
const PIPE_BYTES = 2 ** 20;
/** What every pipe holds from the start. */
const PLAIN_PIPE_BYTES = 2 ** 16;

export interface FileDrain extends Disposable {
  /** `splice`, or `read` for a file system that can't splice. */
  readonly method: "splice" | "read";
  /** Reads the beginning of a range, at most `capacityBytes`; 0 at the end of the file. Blocks as long as the disk takes. */
  read(fd: number, range: FileRange): number;
  readonly capacityBytes: number;
}

/** Opens a drain for this thread. */
export function openFileDrain(): FileDrain {
  return new PipeDrain();
}

class PipeDrain implements FileDrain {
  readonly #library = Deno.dlopen("libc.so.6", DRAIN_SYMBOLS);
  #isOpen = true;
  // Looked up on the thread that opens it; glibc always has a location.
  readonly #errno = new Deno.UnsafePointerView(this.#c.__errno_location()!);
  readonly #sink = this.#checked(
    "open",
    this.#c.open(new TextEncoder().encode("/dev/null\0"), O_WRONLY | O_CLOEXEC, 0),
  );
  readonly #pipe = this.#openPipe();
  readonly #offset = new BigInt64Array(1);
  readonly capacityBytes: number;
  /** Only where splicing is refused. */
  #buffer: Uint8Array<ArrayBuffer> | null = null;

  constructor() {
    // Refused where this user's pipes together hold too much: a plain one works too, only slower.
    const answer = this.#c.fcntl(this.#pipe.into, F_SETPIPE_SZ, BigInt(PIPE_BYTES));
    this.capacityBytes = answer < 0 ? PLAIN_PIPE_BYTES : PIPE_BYTES;
  }

  get method(): "splice" | "read" {
    return this.#buffer === null ? "splice" : "read";
  }

  read(fd: number, { offset, length }: FileRange): number {
    const bytes = Math.min(length, this.capacityBytes);
    if (this.#buffer !== null) return this.#copy(fd, { offset, length: bytes });
    this.#offset[0] = BigInt(offset);
    const moved = this.#uninterrupted(
      "splice",
      () => this.#c.splice(fd, this.#offset, this.#pipe.into, null, BigInt(bytes), 0),
    );
    if (moved === null) {
      this.#buffer = new Uint8Array(this.capacityBytes);
      return this.#copy(fd, { offset, length: bytes });
    }
    for (let left = moved; left > 0;) {
      const gone = this.#uninterrupted(
        "splice",
        () => this.#c.splice(this.#pipe.from, null, this.#sink, null, BigInt(left), 0),
      );
      left -= gone ?? left;
    }
    return moved;
  }

  #copy(fd: number, { offset, length }: FileRange): number {
    const buffer = this.#buffer ?? new Uint8Array(length);
    return this.#uninterrupted("pread", () => this.#c.pread(fd, buffer, BigInt(length), BigInt(offset))) ?? 0;
  }

  /** Null: this file system doesn't have that call (EINVAL). */
  #uninterrupted(call: string, run: () => bigint): number | null {
    for (;;) {
      const result = run();
      if (result >= 0n) return Number(result);
      const errno = this.#errno.getInt32();
      if (errno === ERRNO.EINVAL && call === "splice") return null;
      if (errno !== ERRNO.EINTR) throw new ErrnoError(call, errno);
    }
  }

  #openPipe(): { readonly from: number; readonly into: number } {
    const ends = new Int32Array(2);
    this.#checked("pipe2", this.#c.pipe2(ends, O_CLOEXEC));
    const [from = -1, into = -1] = ends;
    return { from, into };
  }

  [Symbol.dispose](): void {
    if (!this.#isOpen) return;
    for (const fd of [this.#sink, this.#pipe.from, this.#pipe.into]) this.#c.close(fd);
    this.#isOpen = false;
    this.#library.close();
  }

  /** The functions, as long as the library is open: calling one afterwards is a segmentation fault. */
  get #c(): Deno.DynamicLibrary<typeof DRAIN_SYMBOLS>["symbols"] {
    if (!this.#isOpen) throw new Error("Cannot call the C library: it is closed");
    return this.#library.symbols;
  }

  #checked(call: string, result: number): number {
    if (result >= 0) return result;
    throw new ErrnoError(call, this.#errno.getInt32());
  }
}
