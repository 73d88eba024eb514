/** How much of a file is in memory: measured the one way that is truthful for it, or not at all. */
import type { ErrnoFailure } from "../../ffi/errno.ts";
import type { FileSystem } from "../../ffi/file_system.ts";
import type { Libc } from "../../ffi/libc.ts";
import type { FileStat } from "../../ffi/libc_structs.ts";
import type { PageCalls } from "../../ffi/page_calls.ts";
import { Failure, messageOf } from "../model/failure.ts";
import type {
  Disturbance,
  Residency,
  ResidencyMethod,
  UnmeasurableCause,
  UnmeasurableResidency,
} from "../model/page_cache.ts";
import type { Clock } from "../model/ports.ts";
import type { Bytes } from "../model/units.ts";
import type { KeptFiles } from "./kept_files.ts";
import { type OpenedFile, openInside } from "./open_inside.ts";
import { countByCachestat } from "./residency_counted.ts";
import { PROBE_SAMPLES, shareInterval, SHOWN_SAMPLES } from "./residency_interval.ts";
import { residencyMethod } from "./residency_method.ts";
import type { RootFolders } from "./root_folders.ts";
import { lookAtPages } from "./residency_sampled.ts";

/** What measuring needs, all of one thread. */
export interface ResidencyTools {
  readonly libc: Libc;
  readonly pages: PageCalls;
  readonly clock: Clock;
  readonly kept: KeptFiles;
  /** The question's roots, held open where many files are asked about. */
  readonly folders?: RootFolders;
}

export interface ResidencyQuestion {
  readonly roots: readonly string[];
  /** `figure` is shown; `probe` only decides about skipping, and stops at the first absent page. */
  readonly purpose: "figure" | "probe";
}

/** Measures a named file. Blocks, for microseconds where the kernel counts, else for as long as some page reads take. */
export function measureResidency(tools: ResidencyTools, path: string, question: ResidencyQuestion): Residency {
  try {
    const { libc, kept, folders } = tools;
    const short = folders?.open(path) ?? null;
    using file = short ?? openInside(libc, path, { roots: question.roots, kept });
    const fileSystem = short?.fileSystem ?? tools.pages.fileSystem(file.fd);
    folders?.learn(file.stat.device, fileSystem);
    const found = measureOpened(tools, { ...file, fileSystem }, question.purpose);
    // Counting takes no time in which it could have changed.
    const isInstant = found.kind === "unmeasurable" || found.samples === null;
    return isInstant ? found : changedMeanwhile(tools, file) ?? found;
  } catch (error) {
    return unmeasurable(tools, causeOf(error), { reason: messageOf(error), sizeBytes: null });
  }
}

type Measurable = OpenedFile & { readonly fileSystem: FileSystem };

/** Throws what its calls throw. */
function measureOpened(tools: ResidencyTools, file: Measurable, purpose: ResidencyQuestion["purpose"]): Residency {
  const { sizeBytes } = file.stat;
  if (sizeBytes === 0) return counted(tools, { method: "empty", sizeBytes, pages: 0 });
  const count = tools.pages.hasCachestat ? countOf(tools, file) : null;
  const { fileSystem } = file;
  const cachestat = count === "denied" ? "denied" : count === null ? null : "allowed";
  // Asked only where it decides something.
  const isMincoreHonest = (cachestat === null || fileSystem === "overlay") &&
    tools.pages.mayWrite(`/proc/self/fd/${file.fd}`);
  const method = residencyMethod({ fileSystem, cachestat, isMincoreHonest });
  switch (method) {
    case null:
      return unmeasurable(tools, "file_system", {
        reason: `Cannot tell how much of ${file.realPath} is in memory: ${fileSystem} keeps its own cache`,
        sizeBytes,
      });
    case "memory":
      return counted(tools, { method, sizeBytes, pages: Math.ceil(sizeBytes / tools.pages.pageSizeBytes) });
    case "cachestat":
      if (count === null || count === "denied") throw new TypeError("cachestat is chosen only where it answered");
      return counted(tools, {
        method,
        sizeBytes,
        pages: count.cachedPages,
        evictedPages: count.recentlyEvictedPages,
      });
    case "mincore":
      return counted(tools, { method, sizeBytes, pages: tools.pages.countByMincore(file.fd, sizeBytes) });
    default:
      return sampled(tools, file, { method, purpose });
  }
}

function countOf({ pages }: ResidencyTools, { fd, stat }: OpenedFile): ReturnType<typeof countByCachestat> | "denied" {
  try {
    return countByCachestat(pages, fd, stat.sizeBytes);
  } catch (error) {
    if (codeOf(error) !== "EPERM") throw error;
    return "denied";
  }
}

interface Counted {
  readonly method: ResidencyMethod;
  readonly sizeBytes: Bytes;
  readonly pages: number;
  readonly evictedPages?: number;
}

const UNDISTURBED: Disturbance = { readBytes: 0, droppedBytes: 0 };

function counted({ pages: { pageSizeBytes }, clock }: ResidencyTools, found: Counted): Residency {
  const { method, sizeBytes, pages, evictedPages } = found;
  // The last page counts whole, and pages past the end stay after a truncation.
  const residentBytes = Math.min(sizeBytes, pages * pageSizeBytes);
  const share = sizeBytes === 0 ? 1 : residentBytes / sizeBytes;
  return {
    kind: "measured",
    method,
    sizeBytes,
    residentBytes,
    share,
    low: share,
    high: share,
    isExact: true,
    samples: null,
    disturbance: UNDISTURBED,
    recentlyEvictedBytes: evictedPages === undefined ? null : evictedPages * pageSizeBytes,
    atMs: clock.monotonicMs(),
  };
}

function sampled(
  tools: ResidencyTools,
  file: OpenedFile,
  how: { readonly method: "nowait" | "inblock" | "majflt"; readonly purpose: ResidencyQuestion["purpose"] },
): Residency {
  const { pages: calls, clock } = tools;
  const { sizeBytes } = file.stat;
  if (file.stat.blocks * 512 < sizeBytes || calls.firstHole(file.fd) < sizeBytes) {
    return unmeasurable(tools, "sparse", {
      reason: `Cannot tell how much of ${file.realPath} is in memory: it has holes, which read like resident pages`,
      sizeBytes,
    });
  }
  const pages = Math.ceil(sizeBytes / calls.pageSizeBytes);
  const isProbe = how.purpose === "probe";
  const look = lookAtPages(tools, file.fd, {
    method: how.method,
    sizeBytes,
    count: isProbe ? PROBE_SAMPLES : SHOWN_SAMPLES,
    stopsAtAbsent: isProbe,
  });
  const { hits, samples } = look;
  const share = hits / samples;
  return {
    kind: "measured",
    method: look.method,
    sizeBytes,
    residentBytes: Math.min(sizeBytes, Math.round(share * pages) * calls.pageSizeBytes),
    share,
    ...shareInterval({ hits, samples, pages }),
    isExact: samples >= pages,
    samples,
    disturbance: look.disturbance,
    recentlyEvictedBytes: null,
    atMs: clock.monotonicMs(),
  };
}

/** A figure of a file that isn't the same any more says nothing. */
function changedMeanwhile(tools: ResidencyTools, file: OpenedFile): Residency | null {
  const now: FileStat = tools.libc.stat(file.realPath);
  const { stat } = file;
  const isSame = now.inode === stat.inode && now.device === stat.device && now.sizeBytes === stat.sizeBytes;
  if (isSame) return null;
  return unmeasurable(tools, "changed", {
    reason: `Cannot tell how much of ${file.realPath} is in memory: it changed while it was measured`,
    sizeBytes: now.sizeBytes,
  });
}

/** Says that a file's residency isn't known, and why. */
export function unmeasurable(
  { clock }: Pick<ResidencyTools, "clock">,
  cause: UnmeasurableCause,
  { reason, sizeBytes }: { readonly reason: string; readonly sizeBytes: Bytes | null },
): UnmeasurableResidency {
  return { kind: "unmeasurable", sizeBytes, cause, reason, atMs: clock.monotonicMs() };
}

function causeOf(error: unknown): UnmeasurableCause {
  if (error instanceof Failure) return error.code === "not_found" ? "gone" : "refused";
  const code = codeOf(error);
  return code === "ENOENT" || code === "ENOTDIR" || code === "ESTALE" ? "gone" : "failed";
}

/** By name, since only types of ffi may be imported here. */
function codeOf(error: unknown): string | null {
  // as: what carries this name is an ErrnoError.
  return error instanceof Error && error.name === "ErrnoError" ? (error as ErrnoFailure).code : null;
}
