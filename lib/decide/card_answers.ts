/** What the card answered: reports of what was set, and read-backs that show whether it stayed so. */
import type { Lever, LeverReport, LeverValue } from "../model/card.ts";
import type { TuneEvent } from "../model/tuning.ts";
import type { Drift } from "../model/tuning_view.ts";
import type { MonotonicMs } from "../model/units.ts";
import { isNear } from "./card_settle.ts";
import type { Asked, TuningState, TuningStep } from "./card_state.ts";

/** First pause before levers that failed are tried again; doubled up to the last. */
const RETRY_MS = 5_000;
const RETRY_MAX_MS = 60_000;
/** A lever that had to be set again so often within the span is somebody else's too: we back off. */
const WAR_WRITES = 3;
const WAR_SPAN_MS = 600_000;

type Answer = Extract<TuneEvent, { type: "cardApplied" | "cardRestored" }>;

/** The writer has answered: verdicts are kept, levers that failed are tried again later. */
export function takeReports(state: TuningState, answer: Answer): TuningStep {
  const { reports: fresh, error, atMs } = answer;
  if (error !== null) return giveUp(state, { error, atMs, isRestore: answer.type === "cardRestored" });
  const reports = { ...state.reports };
  const asked: Partial<Record<Lever, Asked>> = { ...state.asked };
  const values: Partial<Record<Lever, LeverValue | null>> = {};
  for (const report of fresh) {
    reports[report.lever] = report;
    if (report.readBack !== null) values[report.lever] = report.readBack;
    if (answer.type === "cardRestored") {
      asked[report.lever] = { value: "stock", by: "restore", text: "Restored by hand", atMs, isVoid: false };
    }
  }
  const hasFailed = fresh.some(({ verdict }) => verdict === "failed");
  const tries = hasFailed ? (state.retry?.tries ?? 0) + 1 : 0;
  const card = state.card === null ? null : { ...state.card, values: { ...state.card.values, ...values } };
  return {
    state: {
      ...state,
      card,
      reports,
      asked,
      inFlight: null,
      retry: hasFailed ? { atMs: atMs + pauseMs(tries), tries } : null,
    },
    effects: [],
  };
}

/** The card couldn't be reached at all: nobody waits for it any longer, and it is opened anew. */
function giveUp(
  state: TuningState,
  { error, atMs, isRestore }: { readonly error: string; readonly atMs: MonotonicMs; readonly isRestore: boolean },
): TuningStep {
  return {
    state: {
      ...state,
      card: null,
      reason: error,
      openAtMs: atMs + RETRY_MS,
      inFlight: null,
      waiting: [],
    },
    effects: state.waiting.map(({ requestId }) => ({
      kind: "answerTuning",
      requestId,
      reply: {
        kind: "refused",
        code: "unavailable",
        message: `Cannot ${isRestore ? "restore" : "set"} the card: ${error}`,
        hint: "hyperswap health says what helps",
      },
    })),
  };
}

function pauseMs(tries: number): number {
  return Math.min(RETRY_MAX_MS, RETRY_MS * 2 ** (tries - 1));
}

/** Levers that failed are written again once their pause is over. */
export function retryDue(state: TuningState, atMs: MonotonicMs): TuningState {
  if (state.retry === null || atMs < state.retry.atMs || state.inFlight !== null) return state;
  const asked: Partial<Record<Lever, Asked>> = { ...state.asked };
  for (const { lever, verdict } of Object.values(state.reports)) {
    const before = asked[lever];
    if (verdict === "failed" && before !== undefined) asked[lever] = { ...before, isVoid: true };
  }
  return { ...state, asked, retry: { ...state.retry, atMs: Infinity } };
}

/** What is set, against what should be. A read that was begun before the last write says nothing. */
export function noteRead(state: TuningState, event: Extract<TuneEvent, { type: "cardRead" }>): TuningState {
  if (state.card === null || state.inFlight !== null) return state;
  const { values, xidSource } = event.state;
  const reports = freshest(state.reports, event.state.reports);
  let next: TuningState = { ...state, card: { ...state.card, values, xidSource }, reports, drift: [] };
  for (const report of Object.values(state.reports)) {
    const asked = state.asked[report.lever];
    if (asked === undefined || report.verdict !== "honoured" || asked.atMs > event.atMs) continue;
    next = noteLever(next, { lever: report.lever, asked, event, before: state.drift });
  }
  return next;
}

/** A lock is verified only under load, so the writer's later word replaces its first. */
function freshest(
  known: TuningState["reports"],
  read: TuningState["reports"],
): TuningState["reports"] {
  const merged: Partial<Record<Lever, LeverReport>> = { ...known };
  for (const report of Object.values(read)) {
    const before = merged[report.lever];
    if (before === undefined || report.atMs >= before.atMs) merged[report.lever] = report;
  }
  return merged;
}

function noteLever(
  state: TuningState,
  { lever, asked, event, before }: {
    readonly lever: Lever;
    readonly asked: Asked;
    readonly event: Extract<TuneEvent, { type: "cardRead" }>;
    readonly before: readonly Drift[];
  },
): TuningState {
  const found = event.state.values[lever];
  const wanted = standsFor(lever, asked.value, state);
  if (found === null || wanted === null || isNear(lever, [found, wanted])) return state;
  const known = before.find((drift) => drift.lever === lever);
  const writes = (state.reapplied[lever] ?? []).filter((atMs) => event.atMs - atMs < WAR_SPAN_MS);
  const isConflict = writes.length >= WAR_WRITES;
  const suspects = event.suspects.length > 0 ? event.suspects : known?.suspects ?? [];
  const drift: Drift = { lever, wanted: asked.value, found, isConflict, suspects };
  const told = { ...state, drift: [...state.drift, drift] };
  // What we put there for safety, or put back, is set again without being told to.
  const isOurs = state.policy.reapply || asked.by === "governor";
  if (!isOurs || isConflict) return told;
  return {
    ...told,
    asked: { ...state.asked, [lever]: { ...asked, isVoid: true } },
    reapplied: { ...state.reapplied, [lever]: [...writes, event.atMs] },
  };
}

/** The number that can be read back for a value; null: it can't be compared. */
function standsFor(lever: Lever, value: LeverValue, state: TuningState): LeverValue | null {
  if (value !== "stock" || lever === "fan") return value;
  const limits = state.card?.limits.levers[lever];
  return limits?.adjustable === true ? limits.stock : null;
}
