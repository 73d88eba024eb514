import type { HistoryItem, HistoryKind, HistoryQuery, TelemetryRow, Throughput } from "../model/history.ts";
import type { WallMs } from "../model/units.ts";

/** An event on its way to the file. Its fields are JSON text already: nothing can fail to serialise later. */
export interface EventText {
  readonly atMs: WallMs;
  readonly kind: HistoryKind;
  readonly fields: string;
}

export type EventWrite =
  | {
    readonly kind: "append";
    readonly event: EventText;
    /** It was sent before and nobody knows whether it was written. */
    readonly isRepeat: boolean;
  }
  | { readonly kind: "amend"; readonly id: number; readonly fields: string };

/** What the file says of itself. */
export interface FileStatus {
  readonly path: string;
  readonly sizeBytes: number;
  readonly rows: Readonly<Record<"events" | "telemetry" | "minutes" | "hours" | "throughput", number>>;
  readonly schemaVersion: number;
  readonly lastFlushAtMs: WallMs | null;
}

/**
 * The way to the one file of the record, whichever thread holds it. Calls reject when the file can't be used right now
 * and may hang as long as the disk does; SteadyStore deals with both.
 */
export interface StoreLink {
  readonly path: string;
  /** All or none, on the disk before it resolves; one result each, null for an amendment of nothing. */
  writeEvents(writes: readonly EventWrite[]): Promise<readonly (HistoryItem | null)[]>;
  /** All or none; safe from the program's end, and from a power cut once the next event is written. */
  writeTelemetry(rows: readonly TelemetryRow[]): Promise<void>;
  writeThroughput(measured: readonly Throughput[]): Promise<void>;
  /** Sums up what is over, a bounded part a call; resolves with how many rows were made. */
  rollUp(): Promise<number>;
  history(query: Omit<HistoryQuery, "durable">): Promise<readonly HistoryItem[]>;
  status(): Promise<FileStatus>;
  /** Deletes what is older than is to be kept, a bounded part a call; resolves with what was deleted. */
  prune(nowMs: WallMs): Promise<number>;
  /** Once the signal aborts, the file is let go of without waiting for it. */
  close(signal: AbortSignal): Promise<void>;
}
