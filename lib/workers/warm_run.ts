/** One file read into the page cache, call by call. Blocks its thread; told to stop through the shared block. */
import { ErrnoError } from "../../ffi/errno.ts";
import type { FileDrain } from "../../ffi/file_drain.ts";
import type { Libc } from "../../ffi/libc.ts";
import type { Mapping, PageCalls } from "../../ffi/page_calls.ts";
import { FIRST_CHUNK, nextChunk } from "../decide/warm_chunk.ts";
import { type Fate, objectionToWarm, stopOfWarm } from "../decide/warm_room.ts";
import { Failure } from "../model/failure.ts";
import type { WarmEnd } from "../model/page_cache.ts";
import type { Clock } from "../model/ports.ts";
import { type Bytes, MIB } from "../model/units.ts";
import { disksOf } from "../sample/disks.ts";
import { hugePageBytes } from "../sample/huge_pages.ts";
import { type MemoryRoom, readMemoryRoom } from "../sample/memory_room.ts";
import { type OpenedFile, openInside } from "../sample/open_inside.ts";
import { countByCachestat } from "../sample/residency_counted.ts";
import { PROBE_SAMPLES } from "../sample/residency_interval.ts";
import { lookAtPages } from "../sample/residency_sampled.ts";
import { WarmPacer } from "./warm_pacer.ts";
import { SharedProgress, type WarmOrder, type WarmResult } from "./warm_protocol.ts";
import { type DiskMethods, WarmReader } from "./warm_reader.ts";

export interface WarmTools {
  readonly libc: Libc;
  readonly pages: PageCalls;
  readonly drain: FileDrain;
  readonly methods: DiskMethods;
  readonly clock: Clock;
}

/** Between two looks at memory. A look costs more the more was read, so the pause grows with what the last one took. */
const LOOK_EVERY_MS = 200;
const LOOKING_SHARE = 0.02;
const LOCK_STEP: Bytes = 16 * MIB;
/** What the kernel has read ahead of us at most: the window we are in and the next, each twice the largest read-ahead seen. */
const AHEAD: Bytes = 32 * MIB;
/** Elsewhere they are of 32 or 512 MiB, more than is to be read at a time. */
const HUGE_PAGE: Bytes = 2 * MIB;

interface End {
  readonly end: WarmEnd;
  readonly reason: string | null;
}

const DONE: End = { end: "done", reason: null };
/** Most of them do: what was read is gone once a program opens the file, unless the mount says kernel_cache. */
const DONE_ON_FUSE: End = {
  end: "done",
  reason: "It lies on FUSE, which may drop it from memory when a program opens it",
};
const REPLACED: End = { end: "changed", reason: "The file was deleted or replaced while it was read" };
const CANCELLED: End = { end: "cancelled", reason: "It was cancelled" };

/** Reads the file of an order, and locks it if it says so. Throws a Failure for one that mustn't be read or has no room. */
export function warmFile(tools: WarmTools, order: WarmOrder): WarmResult {
  using file = openInside(tools.libc, order.path, { roots: order.roots });
  const room = readMemoryRoom(tools.libc, order);
  const neededBytes = Math.max(0, file.stat.sizeBytes - order.residentBytes);
  const objection = objectionToWarm(room, { neededBytes, reserveBytes: order.reserveBytes });
  if (objection !== null) {
    const { reason, hint, roomBytes } = objection;
    throw new Failure("wont_fit", `Cannot warm ${order.path}: ${reason}`, {
      hint,
      details: { neededBytes, roomBytes },
    });
  }
  const result = new WarmRun(tools, order, file).run();
  const availableAfterBytes = readMemoryRoom(tools.libc, order).availableBytes;
  return { ...result, availableBeforeBytes: room.availableBytes, availableAfterBytes };
}

class WarmRun {
  readonly #tools: WarmTools;
  readonly #order: WarmOrder;
  readonly #file: OpenedFile;
  readonly #shared: SharedProgress;
  readonly #pacer: WarmPacer;
  readonly #reader: WarmReader;
  #doneBytes = 0;
  #advised: WarmPacer["advice"] | null = null;
  /** The kernel reads ahead although it was told not to. */
  #isReadAhead = false;
  #lookAtMs: number;

  constructor(tools: WarmTools, order: WarmOrder, file: OpenedFile) {
    this.#tools = tools;
    this.#order = order;
    this.#file = file;
    this.#shared = new SharedProgress(order.shared);
    const disks = disksOf(tools.libc, file.stat.device, order);
    this.#pacer = new WarmPacer({ clock: tools.clock, disks, shared: this.#shared, bytesPerS: order.bytesPerS });
    this.#reader = new WarmReader({
      ...tools,
      file: { fd: file.fd, device: file.stat.device },
      canFault: hugePageBytes(tools.libc, order) === HUGE_PAGE,
    });
    this.#lookAtMs = tools.clock.monotonicMs() + LOOK_EVERY_MS;
    this.#shared.set("sizeBytes", file.stat.sizeBytes);
  }

  run(): Omit<WarmResult, "availableBeforeBytes" | "availableAfterBytes"> {
    const { clock, pages } = this.#tools;
    const { sizeBytes } = this.#file.stat;
    const startedAtMs = clock.monotonicMs();
    const readBefore = pages.usage("thread").readBytes;
    // Before the reading: what may not be locked is refused at once.
    const mapping = this.#order.isLocking && sizeBytes > 0 ? this.#reserveLock() : null;
    let ended: End;
    try {
      ended = this.#readAll();
      if (mapping !== null && ended.end === "done") ended = this.#fillLock(mapping);
      if (ended.end !== "done") mapping?.unmap();
    } catch (error) {
      mapping?.unmap();
      throw error;
    } finally {
      this.#reader.release();
    }
    return {
      ...ended,
      method: this.#reader.method,
      sizeBytes,
      doneBytes: this.#doneBytes,
      diskBytes: this.#accounted(pages.usage("thread").readBytes - readBefore),
      durationMs: clock.monotonicMs() - startedAtMs,
      heldBackMs: this.#pacer.heldBackMs,
      locked: mapping === null || ended.end !== "done"
        ? null
        : { address: mapping.address, lengthBytes: mapping.lengthBytes },
    };
  }

  #readAll(): End {
    const { pages, clock } = this.#tools;
    const { stat } = this.#file;
    let chunkBytes: Bytes = FIRST_CHUNK;
    while (this.#doneBytes < stat.sizeBytes) {
      this.#pacer.await();
      if (this.#shared.isCancelled) return CANCELLED;
      this.#advise();
      const fromMs = clock.monotonicMs();
      const readBefore = pages.usage("thread").readBytes;
      const bytes = this.#readChunk(Math.min(chunkBytes, stat.sizeBytes - this.#doneBytes));
      if (bytes === 0) return { end: "changed", reason: "The file became shorter while it was read" };
      const ms = clock.monotonicMs() - fromMs;
      const diskBytes = pages.usage("thread").readBytes - readBefore;
      this.#isReadAhead = diskBytes > bytes;
      const { method } = this.#reader;
      if (this.#advised === "sequential") this.#reader.learn({ bytes, diskBytes, ms });
      this.#pacer.moved({ bytes, diskBytes, ms, method });
      this.#shared.set("heldBackMs", this.#pacer.heldBackMs);
      chunkBytes = nextChunk({ bytes, ms }, this.#pacer.bytesPerS);
      const stop = this.#look();
      if (stop !== null) return stop;
    }
    if (this.#isReplaced()) return REPLACED;
    return pages.fileSystem(this.#file.fd) === "fuse" ? DONE_ON_FUSE : DONE;
  }

  /** Only what goes through the block layer is counted for a thread; elsewhere nothing is, which would look like a hit. */
  #accounted(readBytes: Bytes): Bytes | null {
    const isCounting = !["fuse", "zfs", "other"].includes(this.#tools.pages.fileSystem(this.#file.fd));
    return isCounting || readBytes > 0 ? readBytes : null;
  }

  /**
   * Sequential means twice the read-ahead of the default, random none. But the first page of what was read ahead bears a
   * mark that sets off the next window, whatever is advised then: what lies ahead is dropped, and read again without one.
   */
  #advise(): void {
    const { pages } = this.#tools;
    const { fd } = this.#file;
    const { advice } = this.#pacer;
    const isSlowingDown = advice === "random" && this.#advised === "sequential";
    if (advice !== this.#advised) pages.advise(fd, advice);
    this.#advised = advice;
    if (advice === "random") this.#reader.release();
    if (isSlowingDown || (advice === "random" && this.#isReadAhead)) {
      pages.advise(fd, "dontNeed", { offset: this.#doneBytes, length: AHEAD });
    }
  }

  /** A chunk takes several calls, and a cancel isn't kept waiting for more than one of them. */
  #readChunk(bytes: Bytes): Bytes {
    const isExact = this.#advised === "random";
    let read = 0;
    while (read < bytes && !(read > 0 && this.#shared.isCancelled)) {
      const got = this.#reader.read({ offset: this.#doneBytes, length: bytes - read }, { isExact });
      if (got === 0) break;
      read += got;
      this.#doneBytes += got;
      this.#shared.set("doneBytes", this.#doneBytes);
    }
    this.#shared.method = this.#reader.method;
    return read;
  }

  /** At memory and at the file, now and then: why to read no further, or null. */
  #look(): End | null {
    const { libc, clock } = this.#tools;
    const fromMs = clock.monotonicMs();
    if (fromMs < this.#lookAtMs) return null;
    if (this.#isReplaced()) return REPLACED;
    const room: MemoryRoom = readMemoryRoom(libc, this.#order);
    const stop = stopOfWarm({
      doneBytes: this.#doneBytes,
      fate: this.#fate(),
      room,
      reserveBytes: this.#order.reserveBytes,
    });
    const toMs = clock.monotonicMs();
    this.#lookAtMs = toMs + Math.max(LOOK_EVERY_MS, (toMs - fromMs) / LOOKING_SHARE);
    return stop;
  }

  /** Whether the path leads to another file by now, or to none: nobody would find in memory what is read from this one. */
  #isReplaced(): boolean {
    const { device, inode } = this.#file.stat;
    try {
      const now = this.#tools.libc.stat(this.#order.path);
      return now.device !== device || now.inode !== inode;
    } catch (error) {
      if (!(error instanceof ErrnoError)) throw error;
      return ["ENOENT", "ENOTDIR"].includes(error.code);
    }
  }

  /** How what was read fares. Pages that were pushed out leave a mark that only those may see who may count. */
  #fate(): Fate {
    const { pages } = this.#tools;
    const { fd } = this.#file;
    if (pages.hasCachestat) {
      try {
        const { recentlyEvictedPages } = countByCachestat(pages, fd, this.#doneBytes);
        return { kind: "counted", evictedBytes: recentlyEvictedPages * pages.pageSizeBytes };
      } catch (error) {
        if (!(error instanceof ErrnoError) || error.code !== "EPERM") throw error;
      }
    }
    const fileSystem = pages.fileSystem(fd);
    const method = fileSystem === "fuse" || fileSystem === "other" ? "majflt" : "nowait";
    const sizeBytes = Math.min(this.#doneBytes, this.#file.stat.sizeBytes);
    const look = lookAtPages(this.#tools, fd, { method, sizeBytes, count: PROBE_SAMPLES, stopsAtAbsent: false });
    // Looking has advised the kernel otherwise.
    this.#advised = null;
    return { kind: "sampled", absent: look.samples - look.hits };
  }

  #reserveLock(): Mapping {
    const whole = { offset: 0, length: this.#file.stat.sizeBytes };
    const mapping = this.#tools.pages.map(this.#file.fd, { ...whole, faults: "single" });
    try {
      mapping.lockOnFault();
      return mapping;
    } catch (error) {
      mapping.unmap();
      const isRefused = error instanceof ErrnoError && ["ENOMEM", "EPERM", "EAGAIN"].includes(error.code);
      if (!isRefused) throw error;
      throw new Failure("forbidden", `Cannot pin ${this.#order.path}: the limit of locked memory is below its size`, {
        hint: "Set LimitMEMLOCK=infinity in the unit, or give the service CAP_IPC_LOCK",
        cause: error,
      });
    }
  }

  /** A lock on fault holds only what was faulted in since, cached before or not. */
  #fillLock(mapping: Mapping): End {
    for (let offset = 0; offset < mapping.lengthBytes; offset += LOCK_STEP) {
      if (this.#shared.isCancelled) return CANCELLED;
      mapping.populate({ offset, length: Math.min(LOCK_STEP, mapping.lengthBytes - offset) });
    }
    return DONE;
  }
}
