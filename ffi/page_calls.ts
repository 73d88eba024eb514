/**
 * The C library's calls about the pages of files: which are in memory, reading them in, dropping and locking them.
 *
 * All block, for microseconds or for as long as the disk takes: they belong in a Worker. errno, the I/O class and what
 * the kernel counts for a thread belong to the thread that opened them.
 */
import { ERRNO, ErrnoError } from "./errno.ts";
import { type FileSystem, fileSystemOf } from "./file_system.ts";
import { PAGE_SYMBOLS, PAGE_SYS } from "./page_symbols.ts";

const ADVICE = { normal: 0, random: 1, sequential: 2, willNeed: 3, dontNeed: 4 } as const;
const SC_PAGESIZE = 30;
const MFD_CLOEXEC = 1;
/** struct open_how: O_NONBLOCK | O_CLOEXEC, no mode, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS. */
const OPEN_HOW = new BigUint64Array([0o2004000n, 0n, 0x08n | 0x04n | 0x02n]);
const RWF_NOWAIT = 8;
const SEEK_HOLE = 4;
const PROT_READ = 1;
const PROT_WRITE = 2;
const MAP_SHARED = 1;
const MAP_PRIVATE_ANONYMOUS = 0x22;
/** MADV_RANDOM, MADV_HUGEPAGE. */
const FAULTS = { single: 1, huge: 14 } as const;
const MADV_POPULATE_READ = 22;
const MLOCK_ONFAULT = 1;
const RUSAGE = { process: 0, thread: 1 } as const;
const AT_FDCWD = -100;
const AT_EACCESS = 0x200;
const W_OK = 2;
/** IOPRIO_WHO_PROCESS with class idle (3) in the upper three bits. */
const IOPRIO = { whoProcess: 1n, idle: 3n << 13n } as const;
/** struct rusage: two timevals, then fourteen longs. */
const RUSAGE_LONGS = 18;
const RU = { userS: 0, userUs: 1, systemS: 2, systemUs: 3, majflt: 9, inblock: 11 } as const;
/** Windows of mincore's answer, one byte a page. */
const MINCORE_PAGES = 1 << 18;

/** A range of a file; length 0 = to its end. */
export interface FileRange {
  readonly offset: number;
  readonly length: number;
}

/** struct cachestat, in pages. */
export interface CacheCounts {
  readonly cachedPages: number;
  readonly dirtyPages: number;
  /** Pushed out and not come back. */
  readonly evictedPages: number;
  /** Of those, so lately that it hurts. */
  readonly recentlyEvictedPages: number;
}

/** What the kernel has counted since the thread (or process) began. */
export interface Usage {
  /** Read from block devices on its behalf, read-ahead included; 0 on network and FUSE file systems. */
  readonly readBytes: number;
  readonly majorFaults: number;
  readonly cpuMs: number;
}

/** Part of a file in this process's address space. Of the process, not of the thread: any thread may end it. */
export interface Mapping {
  /** For `unmap` on another thread. */
  readonly address: bigint;
  readonly lengthBytes: number;
  /** Loads a range; throws where the file no longer reaches that far, rather than raising SIGBUS. */
  populate(range: FileRange): void;
  /** Pages stay in memory once they were populated; before that nothing is held, cached or not. */
  lockOnFault(): void;
  unmap(): void;
}

/** What may be asked about pages. Every refusal is an ErrnoError. */
export interface PageCalls extends Disposable {
  readonly pageSizeBytes: number;
  /**
   * Opens a file for reading by its path below an open folder, or answers null where that leads over any link or out of
   * the folder, doesn't exist, or the kernel has no such call.
   */
  openBeneath(folder: number, path: string): number | null;
  /** False before Linux 6.5, or where a filter forbids the call. */
  readonly hasCachestat: boolean;
  /** Throws EPERM for a file that is neither ours nor writable for us (Linux 6.6.75, 6.12.12, 6.13.1). */
  cachestat(fd: number, range?: FileRange): CacheCounts;
  /** Counts resident pages by mincore, which says "all" of a file that is neither ours nor writable for us. */
  countByMincore(fd: number, sizeBytes: number): number;
  /** One byte: `data`, `absent` (RWF_NOWAIT would have had to wait), `unsupported` by the file system, or past its `end`. */
  readByte(fd: number, at: { readonly offset: number; readonly isWaiting: boolean }):
    | "data"
    | "absent"
    | "unsupported"
    | "end";
  advise(fd: number, advice: keyof typeof ADVICE, range?: FileRange): void;
  /**
   * Maps part of a file, readable and shared, without loading anything. A fault brings in a page, or 4 MiB in huge pages
   * and then 4 MiB ahead, however small the disk's read-ahead is: EINVAL where the kernel has no huge pages.
   */
  map(fd: number, range: FileRange & { readonly faults: keyof typeof FAULTS }): Mapping;
  /** Ends a mapping that another thread made. */
  unmap(mapping: Pick<Mapping, "address" | "lengthBytes">): void;
  usage(who: keyof typeof RUSAGE): Usage;
  /** Puts this thread into the idle I/O class. */
  setIdleIo(): void;
  fileSystem(fd: number): FileSystem;
  /** Whether this process may write the file, by its effective ids: the kernel's own condition for mincore's truth. */
  mayWrite(path: string): boolean;
  /** Where the first hole begins; the size where there is none. */
  firstHole(fd: number): number;
}

/** Opens the calls for this thread. */
export function openPageCalls(): PageCalls {
  return new LoadedPageCalls();
}

const C = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(`${text}\0`);

class LoadedPageCalls implements PageCalls {
  readonly #library = Deno.dlopen("libc.so.6", PAGE_SYMBOLS);
  #isOpen = true;
  // Looked up on the thread that opens it; glibc always has a location.
  readonly #errno = new Deno.UnsafePointerView(this.#c.__errno_location()!);
  readonly pageSizeBytes = Number(this.#c.sysconf(SC_PAGESIZE));
  /**
   * An iovec and the byte it points at. Memory of the C side: an address inside a buffer doesn't keep a JavaScript buffer
   * alive, and the kernel would write into what was collected.
   */
  readonly #arena = this.#mapped(
    this.#c.mmap(null, BigInt(this.pageSizeBytes), PROT_READ | PROT_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0n),
  );
  readonly #range = new BigUint64Array(2);
  readonly #counts = new BigUint64Array(5);
  readonly #rusage = new BigInt64Array(RUSAGE_LONGS);
  readonly #statfs = new DataView(new ArrayBuffer(256));
  readonly hasCachestat: boolean;

  constructor() {
    const iovec = new BigUint64Array(Deno.UnsafePointerView.getArrayBuffer(this.#arena, 16));
    iovec[0] = Deno.UnsafePointer.value(this.#arena) + 64n;
    iovec[1] = 1n;
    this.hasCachestat = this.#tryCachestat();
  }

  /** On a file of our own, where only the kernel or a filter can refuse it. */
  #tryCachestat(): boolean {
    const fd = this.#checked("memfd_create", this.#c.memfd_create(C("hyperswap"), MFD_CLOEXEC));
    try {
      this.cachestat(fd);
      return true;
    } catch (error) {
      if (error instanceof ErrnoError) return false;
      throw error;
    } finally {
      this.#c.close(fd);
    }
  }

  openBeneath(folder: number, path: string): number | null {
    const fd = this.#c.openat2(PAGE_SYS.openat2, BigInt(folder), C(path), OPEN_HOW, BigInt(OPEN_HOW.byteLength));
    return fd < 0n ? null : Number(fd);
  }

  cachestat(fd: number, range: FileRange = { offset: 0, length: 0 }): CacheCounts {
    this.#range[0] = BigInt(range.offset);
    this.#range[1] = BigInt(range.length);
    this.#checked("cachestat", this.#c.cachestat(PAGE_SYS.cachestat, BigInt(fd), this.#range, this.#counts, 0n));
    const [cached = 0n, dirty = 0n, , evicted = 0n, recently = 0n] = this.#counts;
    return {
      cachedPages: Number(cached),
      dirtyPages: Number(dirty),
      evictedPages: Number(evicted),
      recentlyEvictedPages: Number(recently),
    };
  }

  countByMincore(fd: number, sizeBytes: number): number {
    const windowBytes = MINCORE_PAGES * this.pageSizeBytes;
    const bits = new Uint8Array(MINCORE_PAGES);
    let count = 0;
    for (let offset = 0; offset < sizeBytes; offset += windowBytes) {
      const length = Math.min(windowBytes, sizeBytes - offset);
      const at = this.#mapFile(fd, { offset, length });
      try {
        this.#checked("mincore", this.#c.mincore(at, BigInt(length), bits));
      } finally {
        this.#c.munmap(at, BigInt(length));
      }
      const pages = Math.ceil(length / this.pageSizeBytes);
      // Only the lowest bit means anything.
      for (let page = 0; page < pages; page++) count += bits[page]! & 1;
    }
    return count;
  }

  readByte(fd: number, at: { readonly offset: number; readonly isWaiting: boolean }) {
    const flags = at.isWaiting ? 0 : RWF_NOWAIT;
    const got = this.#c.preadv2(fd, this.#arena, 1, BigInt(at.offset), flags);
    if (got > 0n) return "data";
    if (got === 0n) return "end";
    const errno = this.#errno.getInt32();
    if (errno === ERRNO.EAGAIN) return "absent";
    if (errno === ERRNO.EOPNOTSUPP) return "unsupported";
    throw new ErrnoError("preadv2", errno);
  }

  advise(fd: number, advice: keyof typeof ADVICE, range: FileRange = { offset: 0, length: 0 }): void {
    const errno = this.#c.posix_fadvise(fd, BigInt(range.offset), BigInt(range.length), ADVICE[advice]);
    if (errno !== 0) throw new ErrnoError("posix_fadvise", errno);
  }

  map(fd: number, { faults, ...range }: FileRange & { readonly faults: keyof typeof FAULTS }): Mapping {
    const pointer = this.#mapFile(fd, range);
    const address = Deno.UnsafePointer.value(pointer);
    const lengthBytes = range.length;
    if (this.#c.madvise(pointer, BigInt(lengthBytes), FAULTS[faults]) !== 0) {
      const error = new ErrnoError("madvise", this.#errno.getInt32());
      this.unmap({ address, lengthBytes });
      throw error;
    }
    return {
      address,
      lengthBytes,
      populate: ({ offset, length }) => {
        const at = Deno.UnsafePointer.create(address + BigInt(offset));
        this.#checked("populate", this.#c.madvise(at, BigInt(length), MADV_POPULATE_READ));
      },
      lockOnFault: () => {
        this.#checked("mlock2", this.#c.mlock2(pointer, BigInt(lengthBytes), MLOCK_ONFAULT));
      },
      unmap: () => this.unmap({ address, lengthBytes }),
    };
  }

  unmap({ address, lengthBytes }: Pick<Mapping, "address" | "lengthBytes">): void {
    this.#checked("munmap", this.#c.munmap(Deno.UnsafePointer.create(address), BigInt(lengthBytes)));
  }

  usage(who: keyof typeof RUSAGE): Usage {
    this.#checked("getrusage", this.#c.getrusage(RUSAGE[who], this.#rusage));
    const at = (index: number): number => Number(this.#rusage[index]);
    return {
      // The kernel counts in 512-byte blocks here, whatever the disk's own are.
      readBytes: at(RU.inblock) * 512,
      majorFaults: at(RU.majflt),
      cpuMs: (at(RU.userS) + at(RU.systemS)) * 1000 + (at(RU.userUs) + at(RU.systemUs)) / 1000,
    };
  }

  setIdleIo(): void {
    const number = PAGE_SYS.ioprio_set[Deno.build.arch];
    this.#checked("ioprio_set", this.#c.ioprio_set(number, IOPRIO.whoProcess, 0n, IOPRIO.idle));
  }

  fileSystem(fd: number): FileSystem {
    this.#checked("fstatfs", this.#c.fstatfs(fd, this.#statfs));
    return fileSystemOf(this.#statfs.getUint32(0, true));
  }

  mayWrite(path: string): boolean {
    return this.#c.faccessat(AT_FDCWD, C(path), W_OK, AT_EACCESS) === 0;
  }

  firstHole(fd: number): number {
    return this.#checked("lseek", this.#c.lseek(fd, 0n, SEEK_HOLE));
  }

  [Symbol.dispose](): void {
    if (!this.#isOpen) return;
    this.#c.munmap(this.#arena, BigInt(this.pageSizeBytes));
    this.#isOpen = false;
    this.#library.close();
  }

  #mapFile(fd: number, { offset, length }: FileRange): Deno.PointerObject {
    return this.#mapped(this.#c.mmap(null, BigInt(length), PROT_READ, MAP_SHARED, fd, BigInt(offset)));
  }

  /** A mapping's address; MAP_FAILED, which is −1, becomes the error. */
  #mapped(pointer: Deno.PointerValue): Deno.PointerObject {
    if (pointer !== null && Deno.UnsafePointer.value(pointer) !== 2n ** 64n - 1n) return pointer;
    throw new ErrnoError("mmap", this.#errno.getInt32());
  }

  /** The functions, as long as the library is open: calling one afterwards is a segmentation fault. */
  get #c(): Deno.DynamicLibrary<typeof PAGE_SYMBOLS>["symbols"] {
    if (!this.#isOpen) throw new Error("Cannot call the C library: it is closed");
    return this.#library.symbols;
  }

  /** A result as a number; a negative one becomes the error, whose errno must be read before anything else is called. */
  #checked(call: string, result: number | bigint): number {
    if (result >= 0) return Number(result);
    throw new ErrnoError(call, this.#errno.getInt32());
  }
}
