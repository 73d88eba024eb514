/** Warms files one after the other, tells how far it is, and keeps what came of it. */
import type { CachePolicy, PlanSkip, WarmedFile, WarmResult } from "../model/cache.ts";
import { Failure, messageOf } from "../model/failure.ts";
import type { NewHistoryItem } from "../model/history.ts";
import type { PageCache, Residency, WarmEnd, WarmProgress } from "../model/page_cache.ts";
import type { Clock } from "../model/ports.ts";
import type { CallOptions } from "../model/services.ts";
import { type Bytes, round } from "../model/units.ts";
import type { ResidencyBook } from "./residency_book.ts";

export interface WarmWorkParts {
  readonly clock: Clock;
  readonly pageCache: PageCache;
  readonly book: ResidencyBook;
  readonly policy: CachePolicy;
  readonly record: (item: Omit<NewHistoryItem, "atMs">) => void;
}

export interface WarmTask {
  readonly path: string;
  readonly names: readonly string[];
  readonly sizeBytes: Bytes;
  /** Set where it needn't be read: why. */
  readonly skip: { readonly reason: string; readonly residency: Residency } | null;
}

export interface WarmOrder {
  readonly operation: string;
  readonly tasks: readonly WarmTask[];
  /** What the plan left out. */
  readonly skipped: readonly PlanSkip[];
  readonly roots: readonly string[];
}

/** Ends that make the next file pointless too. */
const STOPS: ReadonlySet<string> = new Set(["evicting", "cgroup_limit", "memory_floor"] satisfies WarmEnd[]);

/** Reads the tasks in order. Cancelled by the call's signal: what was done until then is recorded all the same. */
export async function warmFiles(order: WarmOrder, call: CallOptions, parts: WarmWorkParts): Promise<WarmResult> {
  const { clock, record } = parts;
  const startedMs = clock.monotonicMs();
  const files: WarmedFile[] = [];
  let stoppedBy: string | null = null;
  for (const [index, task] of order.tasks.entries()) {
    const doneBytes = files.reduce((sum, file) => sum + file.sizeBytes, 0);
    const file = await warmFile(task, {
      roots: order.roots,
      signal: call.signal,
      tell: (progress) => call.progress(progressOf(progress, { order, index, doneBytes })),
    }, parts);
    files.push(file);
    if (STOPS.has(file.end)) stoppedBy = file.reason ?? file.end;
    if (stoppedBy !== null || call.signal.aborted) break;
  }
  const result = resultOf(order, { files, stoppedBy, durationMs: clock.monotonicMs() - startedMs });
  const end = call.signal.aborted ? "cancelled" : stoppedBy === null ? "done" : files.at(-1)?.end ?? "done";
  // Where all was in memory already nothing has happened.
  const hasRead = files.some((file) => file.end !== "skipped");
  if (hasRead || end === "cancelled") record({ kind: "warm", fields: warmFields(order.operation, result, end) });
  call.signal.throwIfAborted();
  return result;
}

async function warmFile(
  { path, names, sizeBytes, skip }: WarmTask,
  how: {
    readonly roots: readonly string[];
    readonly signal: AbortSignal;
    readonly tell: (progress: WarmProgress) => void;
  },
  { clock, pageCache, book, policy }: WarmWorkParts,
): Promise<WarmedFile> {
  const about = { path, names, sizeBytes };
  if (skip !== null) {
    const { reason, residency } = skip;
    return { ...about, readBytes: 0, durationMs: 0, end: "skipped", reason, before: residency, after: residency };
  }
  const startedMs = clock.monotonicMs();
  try {
    const outcome = await pageCache.warm(path, {
      roots: how.roots,
      signal: how.signal,
      bytesPerS: policy.bytesPerS ?? "auto",
      reserveBytes: policy.reserveBytes,
      onProgress: how.tell,
    });
    book.note(path, outcome.after);
    const { end, reason, diskBytes: readBytes, durationMs, before, after } = outcome;
    return { ...about, readBytes, durationMs, end, reason, before, after };
  } catch (error) {
    if (how.signal.aborted || !(error instanceof Failure)) throw error;
    const durationMs = clock.monotonicMs() - startedMs;
    const reason = messageOf(error);
    return { ...about, readBytes: 0, durationMs, end: "refused", reason, before: null, after: null };
  }
}

function progressOf(
  { state, ahead, doneBytes, bytesPerS, pace }: WarmProgress,
  at: { readonly order: WarmOrder; readonly index: number; readonly doneBytes: Bytes },
): Parameters<CallOptions["progress"]>[0] {
  const { tasks } = at.order;
  const totalBytes = tasks.reduce((sum, task) => sum + task.sizeBytes, 0);
  const done = at.doneBytes + doneBytes;
  const name = tasks[at.index]?.names[0] ?? tasks[at.index]?.path ?? "";
  const which = tasks.length === 1 ? name : `${name} (${at.index + 1} of ${tasks.length})`;
  const rate = bytesPerS === null ? "" : ` at ${(bytesPerS / 1e9).toFixed(2)} GB/s`;
  const held = pace === "polite" ? ", held back: somebody else uses the disk" : "";
  const phase = state === "queued" ? `${which} waits: ${ahead} before it` : `warming ${which}${rate}${held}`;
  const etaMs = bytesPerS === null || bytesPerS === 0 ? null : ((totalBytes - done) / bytesPerS) * 1_000;
  return { phase, done: totalBytes === 0 ? null : done / totalBytes, etaMs };
}

function resultOf(
  order: WarmOrder,
  { files, stoppedBy, durationMs }: {
    readonly files: readonly WarmedFile[];
    readonly stoppedBy: string | null;
    readonly durationMs: number;
  },
): WarmResult {
  const isKnown = files.every((file) => file.readBytes !== null);
  const readBytes = isKnown ? files.reduce((sum, file) => sum + (file.readBytes ?? 0), 0) : null;
  // Of a refused one it is mostly the wait for its turn.
  const readingMs = files.reduce((sum, file) => sum + (file.end === "refused" ? 0 : file.durationMs), 0);
  return {
    files,
    skipped: order.skipped,
    readBytes,
    durationMs,
    readingMs,
    shareBefore: shareOf(files.map(({ before }) => before)),
    shareAfter: shareOf(files.map(({ after }) => after)),
    stoppedBy,
    message: messageFor(files, { readBytes, readingMs, stoppedBy }),
  };
}

function shareOf(figures: readonly (Residency | null)[]): number | null {
  const measured = figures.flatMap((figure) => figure?.kind === "measured" ? [figure] : []);
  const bytes = measured.reduce((sum, figure) => sum + figure.sizeBytes, 0);
  return bytes === 0 ? null : measured.reduce((sum, figure) => sum + figure.residentBytes, 0) / bytes;
}

function messageFor(
  files: readonly WarmedFile[],
  { readBytes, readingMs, stoppedBy }: Pick<WarmResult, "readBytes" | "readingMs" | "stoppedBy">,
): string {
  if (files.length === 0) return "Nothing to warm: what the budget allows is in memory already";
  const skipped = files.filter(({ end }) => end === "skipped");
  const refused = files.filter(({ end }) => end === "refused");
  if (skipped.length === files.length) return `Nothing read: ${skipped[0]?.reason ?? "it is in memory already"}`;
  const done = files.length - skipped.length - refused.length;
  const seconds = readingMs / 1_000;
  const rate = seconds > 0 && readBytes !== null ? `, ${(readBytes / 1e9 / seconds).toFixed(2)} GB/s` : "";
  const amount = readBytes === null ? "" : ` ${(readBytes / 1e9).toFixed(2)} GB from disk`;
  const read = `Read${amount} in ${seconds.toFixed(1)} s${rate}`;
  const failed = refused.length === 0 ? "" : `; ${refused.length} could not be read: ${refused[0]?.reason}`;
  const stopped = stoppedBy === null ? "" : `; stopped: ${stoppedBy}`;
  return `${read}, ${done} ${done === 1 ? "file" : "files"}${failed}${stopped}`;
}

/** How a warm stands in history. */
export function warmFields(operation: string, result: WarmResult, end: string): NewHistoryItem["fields"] {
  const { files, readBytes, durationMs, readingMs } = result;
  return {
    operation,
    end,
    models: [...new Set(files.flatMap(({ names }) => names.slice(0, 1)))].slice(0, 20),
    files: files.length,
    read_gb: readBytes === null ? null : round(readBytes / 1e9, 3),
    duration_ms: round(durationMs),
    gb_per_s: readBytes === null || readingMs <= 0 ? null : round(readBytes / 1e6 / readingMs, 2),
    residency_before_pct: pctOf(result.shareBefore),
    residency_after_pct: pctOf(result.shareAfter),
    message: result.message,
  };
}

function pctOf(share: number | null): number | null {
  return share === null ? null : round(share * 100);
}
