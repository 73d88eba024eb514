/**
 * The C library, for what Deno's own calls can't do: reading /proc, /sys and /dev (Deno guards those even under -A),
 * file locks, pidfds and datagrams to an abstract address.
 *
 * Every call blocks and takes microseconds. errno belongs to the thread, so each thread opens its own.
 */
import { ERRNO, ErrnoError } from "./errno.ts";
import { LIBC_SYMBOLS, SYS } from "./libc_symbols.ts";
import {
  decodeDirectory,
  decodeStatx,
  encodeUnixAddress,
  type FileStat,
  STATX_MASK,
  STATX_SIZE,
} from "./libc_structs.ts";

const O_CLOEXEC = 0o2000000;
const OPEN_FLAGS = {
  read: 0,
  write: 1,
  /** Makes the file if it isn't there. */
  readWrite: 2 | 0o100,
  directory: 0o200000,
  /** Opening a FIFO or a device doesn't wait for its other end. */
  nonblocking: 0o4000,
  /** Names a file without opening it: nothing happens to a device, and only its stat can be asked. */
  pathOnly: 0o10000000,
} as const;

const AT_FDCWD = -100;
const AT_EMPTY_PATH = 0x1000;
const AT_SYMLINK_NOFOLLOW = 0x100;
const SOCK_DGRAM = 2;
const AF_UNIX = 1;
const MSG_NOSIGNAL = 0x4000;
const MSG_DONTWAIT = 0x40;
const LOCK = { exclusive: 2 | 4, unlock: 8 } as const;

/** What the rest of the program may ask of the C library. Every refusal is an ErrnoError. */
export interface Libc extends Disposable {
  /** All of a file as text; for pseudo files, whose size is unknown beforehand. Bytes that are no UTF-8 become U+FFFD. */
  readText(path: string): string;
  /** All of a file. */
  readBytes(path: string): Uint8Array<ArrayBuffer>;
  readLink(path: string): string;
  /** Names in a folder, in the kernel's order, without "." and "..". */
  list(path: string): readonly string[];
  /** Follows links unless told not to. */
  stat(path: string, options?: { readonly isLinkFollowed?: boolean }): FileStat;

  /** A descriptor, closed on exec; `mode` is for a file that is made. */
  open(path: string, options: { readonly flags: readonly (keyof typeof OPEN_FLAGS)[]; readonly mode?: number }): number;
  /** Bytes read; 0 at the end. */
  read(fd: number, into: Uint8Array<ArrayBuffer>): number;
  fstat(fd: number): FileStat;
  close(fd: number): void;

  /** Takes the file's exclusive lock, or answers false when another holder has it. Gone when the descriptor closes. */
  tryLock(fd: number): boolean;
  unlock(fd: number): void;
  chmod(path: string, mode: number): void;
  chown(path: string, owner: { readonly uid: number; readonly gid: number }): void;

  /** A descriptor of one process: it can't come to mean a later process with the same pid. */
  pidfdOpen(pid: number): number;
  pidfdSendSignal(pidfd: number, signal: number): void;

  /** Ends a connection in both directions; the descriptor stays its owner's to close. */
  shutdown(fd: number): void;

  /** One datagram to a unix socket, "/path" or "@abstract"; doesn't wait for room. */
  sendDatagram(address: string, data: Uint8Array): void;

  /** Gives free memory of the C heap, which is the runtime's own too, back to the system. */
  trimMemory(): void;

  readonly pageSizeBytes: number;
  readonly ticksPerSecond: number;
  readonly effectiveUid: number;
}

const SHUT_RDWR = 2;
const SC_CLK_TCK = 2;
const SC_PAGESIZE = 30;

/** Opens the C library for this thread. */
export function openLibc(): Libc {
  return new LoadedLibc();
}

const C = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(`${text}\0`);

class LoadedLibc implements Libc {
  readonly #library = Deno.dlopen("libc.so.6", LIBC_SYMBOLS);
  #isOpen = true;
  // Looked up on the thread that opens it; glibc always has a location.
  readonly #errno = new Deno.UnsafePointerView(this.#c.__errno_location()!);
  readonly #decoder = new TextDecoder();
  /** Kept between reads: a whole process list needs some hundred of them a second. */
  #buffer = new Uint8Array(64 * 1024);

  readonly pageSizeBytes = Number(this.#c.sysconf(SC_PAGESIZE));
  readonly ticksPerSecond = Number(this.#c.sysconf(SC_CLK_TCK));
  readonly effectiveUid = this.#c.geteuid();

  readText(path: string): string {
    return this.#decoder.decode(this.#readAll(path));
  }

  readBytes(path: string): Uint8Array<ArrayBuffer> {
    return this.#readAll(path).slice();
  }

  /** A view of the shared buffer, good until the next read. */
  #readAll(path: string): Uint8Array<ArrayBuffer> {
    const fd = this.open(path, { flags: ["read", "nonblocking"] });
    try {
      let end = 0;
      for (;;) {
        const got = this.#read(fd, { into: this.#buffer.subarray(end), path });
        if (got === 0) return this.#buffer.subarray(0, end);
        end += got;
        if (end === this.#buffer.length) this.#grow();
      }
    } finally {
      this.close(fd);
    }
  }

  #grow(): void {
    const larger = new Uint8Array(this.#buffer.length * 2);
    larger.set(this.#buffer);
    this.#buffer = larger;
  }

  readLink(path: string): string {
    const target = new Uint8Array(4096);
    const length = this.#checked("readlink", this.#c.readlink(C(path), target, BigInt(target.length)), path);
    return this.#decoder.decode(target.subarray(0, length));
  }

  list(path: string): readonly string[] {
    const fd = this.open(path, { flags: ["read", "directory"] });
    try {
      const names: string[] = [];
      for (;;) {
        const length = this.#checked(
          "getdents64",
          this.#c.getdents64(fd, this.#buffer, BigInt(this.#buffer.length)),
          path,
        );
        if (length === 0) return names;
        names.push(...decodeDirectory(this.#buffer.subarray(0, length)));
      }
    } finally {
      this.close(fd);
    }
  }

  stat(path: string, options: { readonly isLinkFollowed?: boolean } = {}): FileStat {
    const flags = options.isLinkFollowed === false ? AT_SYMLINK_NOFOLLOW : 0;
    return this.#statx({ fd: AT_FDCWD, path, flags });
  }

  fstat(fd: number): FileStat {
    return this.#statx({ fd, path: "", flags: AT_EMPTY_PATH });
  }

  #statx(what: { fd: number; path: string; flags: number }): FileStat {
    const view = new DataView(new ArrayBuffer(STATX_SIZE));
    const answer = this.#c.statx(what.fd, C(what.path), what.flags, STATX_MASK, view);
    this.#checked("stat", answer, what.path || undefined);
    return decodeStatx(view);
  }

  open(
    path: string,
    options: { readonly flags: readonly (keyof typeof OPEN_FLAGS)[]; readonly mode?: number },
  ): number {
    const flags = options.flags.reduce((sum, flag) => sum | OPEN_FLAGS[flag], O_CLOEXEC);
    return this.#checked("open", this.#c.open(C(path), flags, options.mode ?? 0), path);
  }

  read(fd: number, into: Uint8Array<ArrayBuffer>): number {
    return this.#read(fd, { into });
  }

  #read(fd: number, where: { into: Uint8Array<ArrayBuffer>; path?: string }): number {
    for (;;) {
      const got = Number(this.#c.read(fd, where.into, BigInt(where.into.length)));
      if (got >= 0) return got;
      const errno = this.#errno.getInt32();
      if (errno !== ERRNO.EINTR) throw this.#error("read", errno, where.path);
    }
  }

  close(fd: number): void {
    // Linux frees the descriptor whatever close answers: retrying could close somebody else's.
    this.#c.close(fd);
  }

  tryLock(fd: number): boolean {
    if (this.#c.flock(fd, LOCK.exclusive) === 0) return true;
    const errno = this.#errno.getInt32();
    if (errno === ERRNO.EAGAIN) return false;
    throw this.#error("flock", errno);
  }

  unlock(fd: number): void {
    this.#checked("flock", this.#c.flock(fd, LOCK.unlock));
  }

  chmod(path: string, mode: number): void {
    this.#checked("chmod", this.#c.chmod(C(path), mode), path);
  }

  chown(path: string, owner: { readonly uid: number; readonly gid: number }): void {
    this.#checked("chown", this.#c.chown(C(path), owner.uid, owner.gid), path);
  }

  trimMemory(): void {
    this.#c.malloc_trim(0n);
  }

  shutdown(fd: number): void {
    this.#checked("shutdown", this.#c.shutdown(fd, SHUT_RDWR));
  }

  pidfdOpen(pid: number): number {
    return this.#checked("pidfd_open", this.#c.pidfd_open(SYS.pidfd_open, BigInt(pid), 0n));
  }

  pidfdSendSignal(pidfd: number, signal: number): void {
    this.#checked(
      "pidfd_send_signal",
      this.#c.pidfd_send_signal(SYS.pidfd_send_signal, BigInt(pidfd), BigInt(signal), 0n, 0n),
    );
  }

  sendDatagram(address: string, data: Uint8Array): void {
    const to = encodeUnixAddress(address);
    if (to === null) throw this.#error("sendto", ERRNO.ENAMETOOLONG, address);
    const fd = this.#checked("socket", this.#c.socket(AF_UNIX, SOCK_DGRAM | O_CLOEXEC, 0));
    try {
      const flags = MSG_NOSIGNAL | MSG_DONTWAIT;
      // Copied, since C is handed no shared memory.
      const bytes = new Uint8Array(data);
      this.#checked("sendto", this.#c.sendto(fd, bytes, BigInt(data.length), flags, to, to.length), address);
    } finally {
      this.close(fd);
    }
  }

  [Symbol.dispose](): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#library.close();
  }

  /** The functions, as long as the library is open: calling one afterwards is a segmentation fault. */
  get #c(): Deno.DynamicLibrary<typeof LIBC_SYMBOLS>["symbols"] {
    if (!this.#isOpen) throw new Error("Cannot call the C library: it is closed");
    return this.#library.symbols;
  }

  /** A result as a number; a negative one becomes the error, whose errno must be read before anything else is called. */
  #checked(call: string, result: number | bigint, path?: string): number {
    if (result >= 0) return Number(result);
    throw this.#error(call, this.#errno.getInt32(), path);
  }

  #error(call: string, errno: number, path?: string): ErrnoError {
    return new ErrnoError(call, errno, path === undefined ? {} : { path });
  }
}
