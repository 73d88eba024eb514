import type { HistoryItem, HistoryQuery, TelemetryRow, Throughput } from "../model/history.ts";
import type { WallMs } from "../model/units.ts";
import type { Retention } from "../record/retention.ts";
import type { EventWrite, FileStatus } from "../record/store_link.ts";

/** The first message to a store Worker: which file it holds. */
export interface StoreOpening {
  readonly path: string;
  readonly retention: Retention;
}

/** What a store Worker can be asked, and what it answers: StoreLink's calls as data. */
export interface StoreCalls {
  readonly writeEvents: { readonly ask: readonly EventWrite[]; readonly answer: readonly (HistoryItem | null)[] };
  readonly writeTelemetry: { readonly ask: readonly TelemetryRow[]; readonly answer: null };
  readonly writeThroughput: { readonly ask: readonly Throughput[]; readonly answer: null };
  readonly rollUp: { readonly ask: null; readonly answer: number };
  readonly history: { readonly ask: Omit<HistoryQuery, "durable">; readonly answer: readonly HistoryItem[] };
  readonly status: { readonly ask: null; readonly answer: FileStatus };
  readonly prune: { readonly ask: WallMs; readonly answer: number };
  readonly close: { readonly ask: null; readonly answer: null };
}

export type StoreCallName = keyof StoreCalls;

/** One call; `seq` pairs it with its reply. */
export type StoreRequest = {
  readonly [Name in StoreCallName]: {
    readonly seq: number;
    readonly call: Name;
    readonly ask: StoreCalls[Name]["ask"];
  };
}[StoreCallName];

export type StoreReply =
  | { readonly kind: "answer"; readonly seq: number; readonly value: StoreCalls[StoreCallName]["answer"] }
  | { readonly kind: "refusal"; readonly seq: number; readonly message: string }
  /** Something that the log should say: a file was set aside. */
  | { readonly kind: "note"; readonly message: string };
