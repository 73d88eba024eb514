/**
 * The card's one decision: wishes of the governor, a sweep, an operator and the workload become ONE setting per lever
 * with its reason (SPEC 4.6). Pure: time, samples and what the card answered arrive as events.
 */
import type { CardEvent } from "../model/card.ts";
import type { ArbiterEvent } from "../model/events.ts";
import type { Mode } from "../model/policy.ts";
import type { TuneEffect, TuneEvent } from "../model/tuning.ts";
import type { MonotonicMs } from "../model/units.ts";
import { noteRead, retryDue, takeReports } from "./card_answers.ts";
import { takeRequest } from "./card_requests.ts";
import { settle } from "./card_settle.ts";
import { bookOf, NO_HAND, type TuningState, type TuningStep } from "./card_state.ts";
import { tellGovernor, tellReturn } from "./card_tell.ts";
import { activeProfile } from "./card_wishes.ts";
import { setGovernor, watchHeat } from "./governor.ts";
import { awaitReturn, watchReturn } from "./ollama_return.ts";
import { BUILT_IN } from "./profiles.ts";
import { watchWorkload } from "./workload.ts";

/** How long after a card couldn't be opened it is tried again. */
const REOPEN_MS = 5_000;

/** What of the house's events the card hears. */
export type CardHears = TuneEvent | Extract<ArbiterEvent, { type: "sampled" | "stopped" }>;

/** `mode`: the arbiter's. In `observe` and `paused` nothing is set by itself. */
export function reduceCard(state: TuningState, event: CardHears, { mode }: { readonly mode: Mode }): TuningStep {
  const isWithheld = mode !== "auto";
  const heard = state.isWithheld === isWithheld ? state : { ...state, isWithheld };
  const first = hear(heard, event);
  const second = settle(first.state, event.atMs);
  return { state: second.state, effects: [...first.effects, ...second.effects] };
}

function hear(state: TuningState, event: CardHears): TuningStep {
  if (state.isStopped) return answerLate(state, event);
  switch (event.type) {
    case "sampled":
      return hearSample(state, event);
    case "stopped":
      return stop(state);
    case "tuneAsked":
      return takeRequest(state, event.request, event);
    case "cardOpened":
      return hearOpened(state, event);
    case "cardClosed":
      return {
        state: {
          ...state,
          card: null,
          reason: event.reason,
          isOpening: false,
          openAtMs: event.atMs + REOPEN_MS,
        },
        effects: [],
      };
    case "cardRead":
      return { state: noteRead(state, event), effects: [] };
    case "cardApplied":
    case "cardRestored":
      return event.generation === state.inFlight?.generation ? takeReports(state, event) : { state, effects: [] };
    case "cardNews":
      return hearNews(state, event.news, event.atMs);
    case "tuningConfigured":
      return { state: configured(state, event), effects: [] };
    case "sweepHolds":
      return {
        state: { ...state, sweep: event.setting === null ? null : { setting: event.setting, text: event.text } },
        effects: [],
      };
  }
}

/** What was switched by hand stays so unless the configuration itself has changed there. */
function configured(
  state: TuningState,
  { policy, atMs }: Extract<CardHears, { type: "tuningConfigured" }>,
): TuningState {
  const before = state.policy;
  const isSwitched = policy.governor.enabled !== before.governor.enabled;
  return {
    ...state,
    policy,
    governor: isSwitched
      ? setGovernor(state.governor, { enabled: policy.governor.enabled, reset: false, atMs })
      : state.governor,
    hand: policy.isAutomatic === before.isAutomatic ? state.hand : { ...state.hand, isAutomatic: policy.isAutomatic },
  };
}

function hearSample(state: TuningState, event: Extract<CardHears, { type: "sampled" }>): TuningStep {
  const { sample, atMs } = event;
  const { policy } = state;
  const effects: TuneEffect[] = [];
  const governor = watchHeat(state.governor, { gpu: sample.gpu, atMs, policy: policy.governor });
  if (governor.changedAtMs !== state.governor.changedAtMs) effects.push(tellGovernor(state, governor));
  // What a sweep makes the tenants do is nobody's workload.
  const workload = state.sweep === null ? watchWorkload(state.workload, { sample, atMs, policy }) : state.workload;
  let next: TuningState = { ...state, governor, workload };
  if (governor.isBlind && next.hand.levers.fan !== undefined) next = dropFan(next);
  if (next.trial !== null && atMs >= next.trial.untilMs) {
    const reverted = revert(next);
    next = reverted.state;
    effects.push(...reverted.effects);
  }
  if (next.fansRestUntilMs !== null && atMs >= next.fansRestUntilMs) next = { ...next, fansRestUntilMs: null };
  const ollama = watchReturn(next.ollama, { sample, atMs });
  if (ollama.finding !== null && ollama.finding !== next.ollama.finding) effects.push(tellReturn(ollama.finding));
  next = retryDue({ ...next, ollama }, atMs);
  if (next.card === null && !next.isOpening && sample.gpu.available && atMs >= next.openAtMs) {
    return { state: { ...next, isOpening: true }, effects: [...effects, { kind: "openCard" }] };
  }
  const isReadDue = next.card !== null && next.inFlight === null && sample.gpu.available &&
    (next.readAtMs === null || atMs - next.readAtMs >= policy.verifyMs);
  return isReadDue
    ? { state: { ...next, readAtMs: atMs }, effects: [...effects, { kind: "readCard" }] }
    : { state: next, effects };
}

/** A fan that was set by hand must not stand where nobody sees the heat (SPEC 4.3); it doesn't come back by itself. */
function dropFan(state: TuningState): TuningState {
  const { fan: _dropped, ...levers } = state.hand.levers;
  return { ...state, hand: { ...state.hand, levers } };
}

function revert(state: TuningState): TuningStep {
  const { trial } = state;
  if (trial === null) return { state, effects: [] };
  const { hand, profiles } = trial.before;
  const next = { ...state, hand, profiles, trial: null, isReverting: true };
  const reason = `Not confirmed in time: ${trial.what}`;
  const fields = { profile: activeProfile(next)?.profile.name ?? null, cause: "confirm_revert", levers: [], reason };
  const told: TuneEffect = { kind: "recordTuning", event: reason, reason, item: { kind: "profile", fields } };
  if (profiles === state.profiles) return { state: next, effects: [told] };
  return { state: next, effects: [{ kind: "keepBook", book: bookOf(next), forgetsUncleanEnd: false }, told] };
}

function hearOpened(state: TuningState, event: Extract<CardHears, { type: "cardOpened" }>): TuningStep {
  const { limits, state: { values, xidSource }, uncleanEnd, atMs } = event;
  const opened: TuningState = {
    ...state,
    card: { limits, values, xidSource },
    reason: null,
    isOpening: false,
    readAtMs: atMs,
    fansRestUntilMs: null,
    // A driver that came back has forgotten what was set; what is wanted is written anew. The writer takes one thing
    // after the other, so what is still under way comes after this.
    asked: askedInFlight(state),
    retry: null,
  };
  if (uncleanEnd === null) return { state: opened, effects: [] };
  const reason = "It was active when the service ended without its restore";
  if (uncleanEnd.profile !== null) {
    return quarantine(opened, { profile: uncleanEnd.profile, reason, forgetsUncleanEnd: true });
  }
  const found = "What was set by hand, by heat or by a sweep was left, and is put back";
  const fields = { profile: null, cause: "unclean_end", levers: [], reason: found };
  return {
    state: opened,
    effects: [
      { kind: "keepBook", book: bookOf(opened), forgetsUncleanEnd: true },
      {
        kind: "recordTuning",
        event: "The service before this one ended without its restore",
        reason: found,
        item: { kind: "profile", fields },
      },
    ],
  };
}

function askedInFlight({ asked, inFlight }: TuningState): TuningState["asked"] {
  if (inFlight?.kind !== "apply") return {};
  const levers = new Set(inFlight.writes.flatMap(({ setting }) => Object.keys(setting)));
  return Object.fromEntries(Object.entries(asked).filter(([lever]) => levers.has(lever)));
}

function hearNews(state: TuningState, news: CardEvent, atMs: MonotonicMs): TuningStep {
  switch (news.kind) {
    case "xid":
      return hearXid(state, news.code);
    case "reopened":
      return {
        state: { ...state, card: null, isOpening: true, openAtMs: atMs, ollama: awaitReturn(state.ollama) },
        effects: [{ kind: "openCard" }],
      };
    case "retried":
      return { state: { ...state, reports: { ...state.reports, [news.report.lever]: news.report } }, effects: [] };
    case "fans_released": {
      const dropped = dropFan(state);
      const asked = { ...state.asked };
      delete asked.fan;
      const reports = { ...state.reports, fan: news.report };
      const fields = { profile: null, cause: "sensor", levers: [], reason: news.reason };
      return {
        state: { ...dropped, asked, reports },
        effects: [{
          kind: "recordTuning",
          event: "The fans are automatic again",
          reason: news.reason,
          item: { kind: "governor", fields },
        }],
      };
    }
  }
}

/** What was set is suspected only where something was: a card at stock can't be at fault for what it runs. */
function hearXid(state: TuningState, code: number): TuningStep {
  const isSet = Object.values(state.asked).some((asked) => asked.value !== "stock");
  const active = activeProfile(state)?.profile.name ?? null;
  const reason = `Xid ${code} while it was active`;
  const told: TuneEffect = {
    kind: "recordTuning",
    event: `The driver reported Xid ${code}`,
    reason: isSet ? "What was set is taken back" : "The card was at stock",
    item: { kind: "fault", fields: { xid: code, profile: active, message: `The driver reported Xid ${code}` } },
  };
  if (!isSet) return { state, effects: [told] };
  const hand = { ...state.hand, profile: null, levers: {} };
  const cleared = { ...state, hand, trial: null };
  if (active === null) return { state: cleared, effects: [told] };
  const step = quarantine(cleared, { profile: active, reason, forgetsUncleanEnd: false });
  return { state: step.state, effects: [told, ...step.effects] };
}

function quarantine(
  state: TuningState,
  { profile, reason, forgetsUncleanEnd }: {
    readonly profile: string;
    readonly reason: string;
    readonly forgetsUncleanEnd: boolean;
  },
): TuningStep {
  // A name that no profile has (deleted meanwhile) needs no guarding.
  const isKnown = [...BUILT_IN, ...state.profiles].some(({ name }) => name === profile);
  const others = state.quarantine.filter((entry) => entry.profile !== profile);
  const next = { ...state, quarantine: isKnown ? [...others, { profile, reason }] : others };
  const fields = { profile, cause: "quarantine", levers: [], reason };
  return {
    state: next,
    effects: [
      { kind: "keepBook", book: bookOf(next), forgetsUncleanEnd },
      {
        kind: "recordTuning",
        event: `Profile ${profile} is quarantined`,
        reason,
        item: { kind: "profile", fields },
      },
    ],
  };
}

/** The end: nothing more is set, what was set is put back, and who still waits is told. */
function stop(state: TuningState): TuningStep {
  const generation = state.generation + 1;
  const restore: TuneEffect[] = state.card === null ? [] : [{ kind: "restoreCard", generation, scope: "journal" }];
  return {
    state: {
      ...state,
      isStopped: true,
      hand: NO_HAND,
      trial: null,
      sweep: null,
      asked: {},
      waiting: [],
      generation,
      inFlight: restore.length > 0 ? { kind: "restore", generation } : null,
    },
    effects: [
      ...state.waiting.map(({ requestId }): TuneEffect => ({ kind: "answerTuning", requestId, reply: STOPPED })),
      ...restore,
    ],
  };
}

const STOPPED = {
  kind: "refused",
  code: "unavailable",
  message: "Cannot set the card: the service is stopping",
  hint: "Start it again",
} as const;

function answerLate(state: TuningState, event: CardHears): TuningStep {
  const effects: TuneEffect[] = event.type === "tuneAsked"
    ? [{ kind: "answerTuning", requestId: event.requestId, reply: STOPPED }]
    : [];
  return { state, effects };
}
