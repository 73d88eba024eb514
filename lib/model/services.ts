/**
 * What operations may ask for. lib/services makes these real over hardware or over the lab; no door and no operation
 * knows which. Methods throw Failure for expected refusals.
 */
import type {
  ArbitrationView,
  ClassLimits,
  Decision,
  EndRunnerResult,
  ModeChange,
  PurgeResult,
  RequestVramResult,
  SwitchResult,
  YieldResult,
} from "./arbitration.ts";
import type { Autotune } from "./autotune.ts";
import type { Metric, ProfileReport, RankedModel, Series, SwapReport } from "./analytics.ts";
import type { BenchmarkRequest, BenchmarkResult } from "./benchmark.ts";
import type { CacheReport, CacheTotals, FileChoice, PinResult, WarmPlan, WarmResult } from "./cache.ts";
import type { Catalogue } from "./catalogue.ts";
import type { FootprintRow, PlanRequest, WorkloadPlan } from "./footprints.ts";
import type { HistoryItem, HistoryKind, HistoryQuery, StoreStatus, TelemetryRow } from "./history.ts";
import type { FailureCode } from "./failure.ts";
import type { Sample } from "./sample.ts";
import type { Residency } from "./page_cache.ts";
import type { ProcessId } from "./tenants.ts";
import type { Timer } from "./ports.ts";
import type { TuneRequest } from "./tuning.ts";
import type { GovernorView, TuneResult, TuningView } from "./tuning_view.ts";
import type { Bytes, WallMs } from "./units.ts";

/** Where a long call stands: a phase in words, and a share done where one is known. */
export interface Progress {
  readonly phase: string;
  /** 0–1, or null. */
  readonly done: number | null;
  readonly etaMs: number | null;
}

export interface CallOptions {
  readonly signal: AbortSignal;
  readonly progress: (progress: Progress) => void;
  /** By which the run can be asked for, where the call is one. */
  readonly runId?: string;
}

export interface Arbitration {
  view(): ArbitrationView;
  set(change: ModeChange): ArbitrationView;
  /** `models` null = every resident model. */
  yieldVram(
    request: { models: readonly string[] | null; confirm: boolean; operation: string },
    call: CallOptions,
  ): Promise<YieldResult>;
  purge(request: { confirm: boolean; operation: string }, call: CallOptions): Promise<PurgeResult>;
  requestVram(request: { neededBytes: Bytes; operation: string }, call: CallOptions): Promise<RequestVramResult>;
  switchModel(
    request: { model: string; keepAlive: string; prompt: string | null; operation: string },
    call: CallOptions,
  ): Promise<SwitchResult>;
  /** Failure forbidden unless it is configured, not_found unless that very runner was reported as stuck. */
  endRunner(request: { process: ProcessId; operation: string }, call: CallOptions): Promise<EndRunnerResult>;
  /** Newest first. With `id`, that one alone (or Failure not_found). */
  why(query: { id: number | null; limit: number }): readonly Decision[];
}

/** Everything live, as one immutable value: made anew each second, and when something moved that can't wait for it. */
export interface Snapshot {
  /** Counts them: there is one snapshot for each number, whoever asks. */
  readonly revision: number;
  readonly sample: Sample;
  readonly arbitration: ArbitrationView;
  /** Newest first, at most 50. */
  readonly history: readonly HistoryItem[];
  readonly runs: readonly RunView[];
  /** What a simulated box is called on every door; null on a real one. */
  readonly simulation: string | null;
  /** Model files in the page cache; absent or null before they were measured. */
  readonly cache?: CacheTotals | null;
  /** What is set on the card; absent where nothing can be set. */
  readonly tuning?: { readonly card: TuningView; readonly governor: GovernorView };
}

export interface Live {
  /** The newest snapshot; Failure unavailable before the first sample. */
  snapshot(): Snapshot;
  /** Called with each new snapshot: one a second, and one more whenever arbitration moves. */
  subscribe(onSnapshot: (snapshot: Snapshot) => void): Timer;
}

export interface History {
  list(query: HistoryQuery): Promise<readonly HistoryItem[]>;
  status(): Promise<StoreStatus>;
}

/** A time, or how long before now. */
export type Moment = { readonly atMs: WallMs } | { readonly agoMs: number };

/** Null = from the beginning, to the end. */
export interface SpanRequest {
  readonly from: Moment | null;
  readonly to: Moment | null;
  readonly kind?: HistoryKind | null;
}

export interface SeriesRequest extends SpanRequest {
  readonly metrics: readonly Metric[];
  readonly points: number;
}

/** The record looked at as a whole. Failure unavailable where nothing is kept. */
export interface Analytics {
  series(request: SeriesRequest, signal: AbortSignal): Promise<Series>;
  profiles(request: { days: number }, signal: AbortSignal): Promise<ProfileReport>;
  swaps(request: { days: number }, signal: AbortSignal): Promise<SwapReport>;
  models(request: { days: number }, signal: AbortSignal): Promise<readonly RankedModel[]>;
  /** Page by page, oldest first. */
  events(span: SpanRequest, signal: AbortSignal): AsyncIterable<readonly HistoryItem[]>;
  telemetry(span: SpanRequest, signal: AbortSignal): AsyncIterable<readonly TelemetryRow[]>;
}

/** Transitions between models, measured. Gives way to ComfyUI; refuses while it executes. */
export interface Benchmark {
  run(request: BenchmarkRequest, call: CallOptions): Promise<BenchmarkResult>;
}

export type RunState = "running" | "done" | "failed" | "cancelled";

/** Long work by id. A door that hangs up never cancels one. */
export interface RunView {
  readonly id: string;
  /** The operation's name. */
  readonly operation: string;
  readonly state: RunState;
  readonly progress: Progress | null;
  readonly startedAtMs: WallMs;
  readonly endedAtMs: WallMs | null;
  /** The operation's answer in wire form, once done. */
  readonly result: unknown;
  readonly error: {
    readonly code: FailureCode;
    readonly message: string;
    readonly hint: string | null;
    readonly details: Readonly<Record<string, unknown>> | null;
  } | null;
  /** Goes up with every change. */
  readonly version: number;
}

export interface Runs {
  /** Starts work and returns at once. The work's signal aborts only by `cancel` or shutdown. */
  start(operation: string, work: (call: CallOptions) => Promise<unknown>): RunView;
  list(): readonly RunView[];
  /** Failure not_found when there is no such run (kept for an hour after their end, at most 100). */
  get(id: string): RunView;
  /** Asks for the end; resolves with the run's last state. Cancelling an ended run changes nothing. */
  cancel(id: string): Promise<RunView>;
  /** Called at once with the present state and then with each change, until the run ends. */
  follow(id: string, onChange: (run: RunView) => void): Timer;
  /** Resolves with the run when it has ended. */
  ended(id: string): Promise<RunView>;
}

export type CheckState = "ok" | "degraded" | "broken" | "not_applicable";

export interface HealthCheck {
  readonly name: string;
  readonly state: CheckState;
  /** What was found. */
  readonly finding: string;
  /** What that breaks; null when ok. */
  readonly breaks: string | null;
  /** How to fix it; null when ok. */
  readonly remedy: string | null;
}

export interface HealthReport {
  readonly state: "ok" | "degraded" | "broken";
  readonly checks: readonly HealthCheck[];
}

export interface Health {
  report(): HealthReport;
}

/** Model names as far as the servers themselves tell. */
export interface Models {
  list(signal: AbortSignal): Promise<readonly ModelEntry[]>;
}

export interface ModelEntry {
  readonly source: "ollama" | "comfyui";
  readonly name: string;
  /** ComfyUI's folder key; null for Ollama. */
  readonly folder: string | null;
  readonly sizeBytes: Bytes | null;
  readonly family: string | null;
  readonly parameterSize: string | null;
  readonly quantization: string | null;
  readonly resident: boolean | null;
  /** Its weight files, where the catalogue found them. */
  readonly paths?: readonly string[];
  /** Of those files, each as last measured; null where one wasn't. */
  readonly residency?: readonly (Residency | null)[];
  /** Why it can't be loaded or warmed; null when all is well. */
  readonly problem?: string | null;
}

/** The page cache: what of the models is in it, and getting more of them in. */
export interface Cache {
  /** Failure unavailable before the first look. */
  catalogue(): Catalogue;
  /** Sums of the figures at hand; null before the first. */
  totals(): CacheTotals | null;
  /** Measures what is older than a few seconds, then reports. */
  report(signal: AbortSignal): Promise<CacheReport>;
  /** Reads nothing: what its probes pulled in is dropped again and reported. */
  plan(request: { budgetBytes: Bytes | null; force: boolean }, signal: AbortSignal): Promise<WarmPlan>;
  warmAll(
    request: { budgetBytes: Bytes | null; force: boolean; operation: string },
    call: CallOptions,
  ): Promise<WarmResult>;
  /** `isWeightsOnly` false: loads the model as well. */
  warmModel(
    request: FileChoice & { force: boolean; isWeightsOnly: boolean; operation: string },
    call: CallOptions,
  ): Promise<WarmResult>;
  /** `budgetBytes` null: what is configured. */
  pin(request: FileChoice & { budgetBytes: Bytes | null }, call: CallOptions): Promise<PinResult>;
  unpin(request: FileChoice): Promise<PinResult>;
}

/** What was learned of needs, and what would happen. Asks nothing of anybody. */
export interface Planner {
  /** Failure not_found for a model that nobody knows. */
  plan(request: PlanRequest): WorkloadPlan;
  footprints(): Promise<readonly FootprintRow[]>;
  /** From which bandwidths on loads are called hits, by what this box has shown. */
  limits(): ClassLimits;
}

/** Who this service is. */
export interface About {
  readonly version: string;
  readonly pid: number;
  readonly startedAtMs: WallMs;
  readonly simulation: string | null;
}

/** The card's settings: what is set and why, and asking for another. */
export interface Card {
  tuning(): TuningView;
  governor(): GovernorView;
  /** Resolves once the card has answered, with what became of each lever. Throws Failure when it is refused. */
  tune(request: TuneRequest, signal: AbortSignal): Promise<TuneResult>;
}

/** What a caller may do: see, move VRAM, set the card, administer. */
export const SCOPES = ["read", "operate", "tune", "admin"] as const;
export type Scope = typeof SCOPES[number];

export interface LoginLink {
  /** Works once. */
  readonly code: string;
  /** Where the service listens; null as long as that isn't known. */
  readonly baseUrl: string | null;
  readonly untilMs: WallMs;
}

export interface Login {
  /** What the browser's cookie carries. */
  readonly secret: string;
  readonly scopes: readonly Scope[];
  readonly untilMs: WallMs;
}

/** The dashboard's logins. */
export interface Logins {
  /** Says where the service listens, for the links from then on. */
  servedAt(baseUrl: string): void;
  link(scopes: readonly Scope[]): LoginLink;
  /** Failure unauthorized for a code that was used, is too old or never was. */
  redeem(code: string): Login;
  /** Null for what is no session, or no longer one. */
  scopesOf(secret: string): readonly Scope[] | null;
  end(secret: string): void;
}

export interface Services {
  readonly about: About;
  readonly logins: Logins;
  readonly arbitration: Arbitration;
  readonly planner: Planner;
  readonly live: Live;
  readonly history: History;
  readonly analytics: Analytics;
  readonly benchmark: Benchmark;
  readonly autotune: Autotune;
  readonly runs: Runs;
  readonly health: Health;
  readonly models: Models;
  readonly cache: Cache;
  readonly card: Card;
}
