/**
 * Residency by looking at random pages, for files that we neither own nor may write: cachestat refuses those, and mincore
 * lies about them. A page was resident when touching it cost the thread no block read (or no major fault): the kernel's
 * own account, not a stop-watch.
 */
import type { PageCalls } from "../../ffi/page_calls.ts";
import type { Disturbance } from "../model/page_cache.ts";
import type { Clock } from "../model/ports.ts";
import type { Bytes } from "../model/units.ts";
import { stratifiedPages } from "./residency_interval.ts";

export type SamplingMethod = "nowait" | "inblock" | "majflt";

export interface LookOptions {
  /** Where it starts; a file system without RWF_NOWAIT is looked at by `inblock` instead. */
  readonly method: SamplingMethod;
  readonly sizeBytes: Bytes;
  readonly count: number;
  /** One absent page already answers a probe's question. */
  readonly stopsAtAbsent: boolean;
}

export interface Look {
  readonly method: SamplingMethod;
  readonly hits: number;
  readonly samples: number;
  readonly disturbance: Disturbance;
}

interface LookTools {
  readonly pages: PageCalls;
  readonly clock: Clock;
}

/** Looks at random pages, then drops what that loaded. */
export function lookAtPages({ pages, clock }: LookTools, fd: number, options: LookOptions): Look {
  const { pageSizeBytes } = pages;
  // Without this a miss loads a whole read-ahead window, and scattered files fill up by being looked at.
  pages.advise(fd, "random");
  const drawn = stratifiedPages(Math.ceil(options.sizeBytes / pageSizeBytes), {
    count: options.count,
    random: () => clock.random(),
  });
  // A probe that may stop early must not always begin at the head, which is resident most often.
  const order = options.stopsAtAbsent ? shuffled(drawn, () => clock.random()) : drawn;
  const before = pages.usage("thread").readBytes;
  using eye = openEye(pages, fd, options);
  const absent: number[] = [];
  let hits = 0;
  for (const page of order) {
    if (eye.isResident(page * pageSizeBytes)) hits++;
    else absent.push(page);
    if (options.stopsAtAbsent && absent.length > 0) break;
  }
  const samples = hits + absent.length;
  const { method } = options;
  // Where blocks aren't counted (FUSE), what was absent was read at least.
  const accountedBytes = pages.usage("thread").readBytes - before;
  const readBytes = method === "majflt" ? Math.max(accountedBytes, absent.length * pageSizeBytes) : accountedBytes;
  eye[Symbol.dispose]();
  for (const page of absent) {
    const offset = page * pageSizeBytes;
    // What is still on its way in can't be dropped, and on a busy disk that takes a while: wait for it.
    if (method !== "majflt") pages.readByte(fd, { offset, isWaiting: true });
    pages.advise(fd, "dontNeed", { offset, length: pageSizeBytes });
  }
  return {
    method: eye.method(),
    hits,
    samples,
    disturbance: { readBytes, droppedBytes: Math.min(readBytes, absent.length * pageSizeBytes) },
  };
}

interface Eye extends Disposable {
  method(): SamplingMethod;
  isResident(offset: number): boolean;
}

function openEye(pages: PageCalls, fd: number, options: LookOptions): Eye {
  return options.method === "majflt"
    ? faultingEye(pages, fd, options.sizeBytes)
    : readingEye(pages, fd, options.method);
}

function readingEye(pages: PageCalls, fd: number, preferred: "nowait" | "inblock"): Eye {
  let method = preferred;
  const isResident = (offset: number): boolean => {
    const before = pages.usage("thread").readBytes;
    const answer = pages.readByte(fd, { offset, isWaiting: method === "inblock" });
    if (answer === "unsupported") {
      method = "inblock";
      return isResident(offset);
    }
    // A fast device answers within the call, and the page that was absent comes back as data.
    return answer === "data" && pages.usage("thread").readBytes === before;
  };
  return { method: () => method, isResident, [Symbol.dispose]: () => {} };
}

function faultingEye(pages: PageCalls, fd: number, sizeBytes: Bytes): Eye {
  const mapping = pages.map(fd, { offset: 0, length: sizeBytes, faults: "single" });
  let isMapped = true;
  return {
    method: () => "majflt",
    isResident: (offset) => {
      const before = pages.usage("thread").majorFaults;
      mapping.populate({ offset, length: pages.pageSizeBytes });
      return pages.usage("thread").majorFaults === before;
    },
    [Symbol.dispose]: () => {
      // Mapped pages can't be dropped, so it ends before that.
      if (isMapped) mapping.unmap();
      isMapped = false;
    },
  };
}

/** Fisher–Yates. */
function shuffled<T>(items: readonly T[], random: () => number): readonly T[] {
  const mixed = [...items];
  for (let at = mixed.length - 1; at > 0; at--) {
    const other = Math.floor((at + 1) * random());
    // as: both indices lie inside.
    [mixed[at], mixed[other]] = [mixed[other] as T, mixed[at] as T];
  }
  return mixed;
}
