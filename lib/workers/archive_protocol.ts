import type {
  EventsPage,
  ProfileReport,
  RankedModel,
  Series,
  SeriesQuery,
  SwapReport,
  TelemetryPage,
} from "../model/analytics.ts";
import type { HistoryKind } from "../model/history.ts";
import type { WallMs } from "../model/units.ts";

interface Span {
  readonly fromMs: WallMs;
  readonly toMs: WallMs;
}

/** What an archive Worker can be asked, and what it answers: Archive's calls as data. */
export interface ArchiveCalls {
  readonly series: { readonly ask: SeriesQuery; readonly answer: Series };
  readonly profiles: { readonly ask: { readonly sinceMs: WallMs }; readonly answer: ProfileReport };
  readonly swaps: { readonly ask: { readonly sinceMs: WallMs }; readonly answer: SwapReport };
  readonly models: {
    readonly ask: { readonly sinceMs: WallMs; readonly nowMs: WallMs };
    readonly answer: readonly RankedModel[];
  };
  readonly events: {
    readonly ask: Span & { readonly after: number; readonly kind: HistoryKind | null };
    readonly answer: EventsPage;
  };
  readonly telemetry: { readonly ask: Span; readonly answer: TelemetryPage };
}

export type ArchiveCallName = keyof ArchiveCalls;

/** One call; `seq` pairs it with its reply. */
export type ArchiveRequest = {
  readonly [Name in ArchiveCallName]: {
    readonly seq: number;
    readonly path: string;
    readonly call: Name;
    readonly ask: ArchiveCalls[Name]["ask"];
  };
}[ArchiveCallName];

export type ArchiveReply =
  | { readonly seq: number; readonly ok: true; readonly value: ArchiveCalls[ArchiveCallName]["answer"] }
  | { readonly seq: number; readonly ok: false; readonly message: string };
