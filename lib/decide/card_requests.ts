/** What somebody asks of the card: checked against it, then made part of what is wanted. */
import { type Lever, LEVERS } from "../model/card.ts";
import type { Profile, TuneReply, TuneRequest } from "../model/tuning.ts";
import type { MonotonicMs } from "../model/units.ts";
import { type Asked, bookOf, NO_HAND, type Trial, type TuningState, type TuningStep } from "./card_state.ts";
import { setGovernor } from "./governor.ts";
import { allProfiles, AUTO, BUILT_IN, objectionTo, objectionToProfile } from "./profiles.ts";

/** How long a machine may take to fall asleep. */
const FANS_REST_MS = 120_000;

/** Profiles of one's own that are kept: each stands in the book, and in every answer that lists them. */
const MOST_PROFILES = 64;

type Of<K extends TuneRequest["kind"]> = Extract<TuneRequest, { kind: K }>;
type Refusal = Extract<TuneReply, { kind: "refused" }>;

interface Asking {
  readonly requestId: string;
  readonly atMs: MonotonicMs;
}

/** Takes a request in, or answers why not. Writing follows from the new state (decide/card_settle). */
export function takeRequest(state: TuningState, request: TuneRequest, asking: Asking): TuningStep {
  switch (request.kind) {
    case "profile":
      return takeProfile(state, request, asking);
    case "lever":
      return takeLever(state, request, asking);
    case "save":
      return takeSave(state, request, asking);
    case "delete":
      return takeDelete(state, request, asking);
    case "confirm":
      return takeConfirm(state, asking);
    case "governor":
      return takeGovernor(state, request, asking);
    case "restore":
      return request.scope === "fans" ? takeFansRest(state, asking) : takeRestore(state, request, asking);
  }
}

function takeProfile(state: TuningState, request: Of<"profile">, asking: Asking): TuningStep {
  const { name } = request;
  const profile = allProfiles(state.profiles).find((candidate) => candidate.name === name);
  if (name !== AUTO && profile === undefined) return refuse(state, asking, unknownProfile(state, name));
  if (state.card === null) return refuse(state, asking, notReady(state));
  const levers = profile === undefined ? [] : leversOf(profile);
  const quarantine = state.quarantine.filter((entry) => entry.profile !== name);
  const isFreed = quarantine.length < state.quarantine.length;
  const tried = onTrial(state, { ...request, what: `profile ${name}`, atMs: asking.atMs });
  const { isAutomatic } = state.hand;
  const hand = profile === undefined
    ? { profile: null, levers: {}, isAutomatic: true }
    : { profile: name, levers: {}, isAutomatic };
  const next = forced({ ...tried, hand, quarantine }, { levers, atMs: asking.atMs });
  const message = profile === undefined ? "The profile follows the workload" : `Profile ${name} is applied`;
  return {
    state: wait(next, { asking, levers, message, cause: "operator" }),
    effects: isFreed ? [{ kind: "keepBook", book: bookOf(next), forgetsUncleanEnd: false }] : [],
  };
}

function takeLever(state: TuningState, request: Of<"lever">, asking: Asking): TuningStep {
  const { lever, value } = request;
  if (state.card === null) return refuse(state, asking, notReady(state));
  const objection = objectionTo(lever, value, state.card.limits);
  if (objection !== null) {
    return refuse(state, asking, {
      code: "invalid_input",
      message: `Cannot set the card: ${objection}`,
      hint: "hyperswap overclock shows what this card allows",
    });
  }
  if (lever === "fan" && value !== "default" && state.governor.isBlind) {
    return refuse(state, asking, {
      code: "unavailable",
      message: "Cannot set the fans by hand while the card gives no temperature",
      hint: "They are automatic until the sensor answers again",
    });
  }
  const named = `${lever} ${value === "default" ? "at stock" : value}`;
  const tried = onTrial(state, { ...request, what: named, atMs: asking.atMs });
  const levers = { ...state.hand.levers, [lever]: value };
  const next = forced({ ...tried, hand: { ...state.hand, levers } }, { levers: [lever], atMs: asking.atMs });
  return {
    state: wait(next, { asking, levers: [lever], message: `Set ${named}`, cause: "operator" }),
    effects: [],
  };
}

function takeSave(state: TuningState, request: Of<"save">, asking: Asking): TuningStep {
  const { name, values, confirmMs } = request;
  if (state.card === null) return refuse(state, asking, notReady(state));
  const objection = objectionToProfile({ name, values }, state.card.limits);
  if (objection !== null) {
    return refuse(state, asking, {
      code: "invalid_input",
      message: `Cannot save the profile ${JSON.stringify(name)}: ${objection}`,
      hint: "hyperswap overclock shows the profiles there are and what this card allows",
    });
  }
  if (state.profiles.length >= MOST_PROFILES && !state.profiles.some((known) => known.name === name)) {
    return refuse(state, asking, {
      code: "busy",
      message: `Cannot save the profile ${JSON.stringify(name)}: ${MOST_PROFILES} are kept`,
      hint: "Delete one first: hyperswap overclock delete",
    });
  }
  const profile: Profile = { name, isBuiltIn: false, values, measured: {} };
  const profiles = [...state.profiles.filter((known) => known.name !== name), profile];
  // On trial it is applied at once, since only a profile in force can show whether the card bears it.
  const tried = onTrial(state, { confirmMs, what: `profile ${name}`, atMs: asking.atMs });
  const hand = confirmMs === null ? state.hand : { ...state.hand, profile: name, levers: {} };
  const isActive = hand.profile === name;
  const next = { ...tried, profiles, hand };
  const message = confirmMs === null ? `Profile ${name} is saved` : `Profile ${name} is saved and applied on trial`;
  return {
    state: wait(next, { asking, levers: isActive ? leversOf(profile) : [], message, cause: null }),
    effects: [{ kind: "keepBook", book: bookOf(next), forgetsUncleanEnd: false }],
  };
}

function takeDelete(state: TuningState, { name }: Of<"delete">, asking: Asking): TuningStep {
  if (BUILT_IN.some((profile) => profile.name === name)) {
    return refuse(state, asking, {
      code: "invalid_input",
      message: `Cannot delete ${name}: it is built in`,
      hint: "Only profiles that were saved can be deleted",
    });
  }
  if (!state.profiles.some((profile) => profile.name === name)) {
    return refuse(state, asking, unknownProfile(state, name));
  }
  const next = {
    ...state,
    profiles: state.profiles.filter((profile) => profile.name !== name),
    quarantine: state.quarantine.filter(({ profile }) => profile !== name),
    hand: state.hand.profile === name ? { ...state.hand, profile: null } : state.hand,
  };
  return {
    state: wait(next, { asking, levers: [], message: `Profile ${name} is deleted`, cause: null }),
    effects: [{ kind: "keepBook", book: bookOf(next), forgetsUncleanEnd: false }],
  };
}

function takeConfirm(state: TuningState, asking: Asking): TuningStep {
  if (state.trial === null) {
    return refuse(state, asking, {
      code: "not_found",
      message: "Cannot confirm: no change waits for it",
      hint: "A change waits when it was made with confirm_within_s, until that time is over",
    });
  }
  const message = `Confirmed ${state.trial.what}`;
  return { state: wait({ ...state, trial: null }, { asking, levers: [], message, cause: "confirm" }), effects: [] };
}

function takeGovernor(state: TuningState, { enabled, reset }: Of<"governor">, asking: Asking): TuningStep {
  const governor = setGovernor(state.governor, { enabled, reset, atMs: asking.atMs });
  const message = governor === state.governor ? "The governor is as it was" : governor.reason;
  return { state: wait({ ...state, governor }, { asking, levers: [], message, cause: null }), effects: [] };
}

/** Outranks everything: what was wanted is forgotten, and a write under way is not waited for. */
function takeRestore(state: TuningState, { scope }: Of<"restore">, asking: Asking): TuningStep {
  if (state.card === null) return refuse(state, asking, notReady(state));
  const generation = state.generation + 1;
  const governor = setGovernor(state.governor, { enabled: null, reset: true, atMs: asking.atMs });
  const next: TuningState = {
    ...state,
    governor,
    generation,
    hand: { ...NO_HAND, isAutomatic: false },
    trial: null,
    isReverting: false,
    sweep: null,
    drift: [],
    retry: null,
    asked: {},
    inFlight: { kind: "restore", generation },
  };
  const message = scope === "all" ? "Every lever is at stock" : "What was changed is at stock again";
  return {
    state: wait(next, { asking, levers: [...LEVERS], message, cause: "restore" }),
    effects: [{ kind: "restoreCard", generation, scope }],
  };
}

/**
 * Pinned fans must not stay pinned while nobody watches the heat. What is wanted of them stays wanted, and is set again
 * once the card was opened anew, or when the machine hasn't gone to sleep after all.
 */
function takeFansRest(state: TuningState, asking: Asking): TuningStep {
  if (state.card === null) return refuse(state, asking, notReady(state));
  const next = { ...state, fansRestUntilMs: asking.atMs + FANS_REST_MS };
  const message = "The fans are automatic until the machine is back from sleep";
  return { state: wait(next, { asking, levers: ["fan"], message, cause: null }), effects: [] };
}

/** Remembers what to go back to. A second change on trial goes back to where the first one began. */
function onTrial(
  state: TuningState,
  { confirmMs, what, atMs }: {
    readonly confirmMs: number | null;
    readonly what: string;
    readonly atMs: MonotonicMs;
  },
): TuningState {
  if (confirmMs === null) return state.trial === null ? state : { ...state, trial: null };
  const before: Trial["before"] = state.trial?.before ?? { hand: state.hand, profiles: state.profiles };
  return { ...state, trial: { untilMs: atMs + confirmMs, what, before } };
}

/** What was asked for by hand is written again, even where it was written before: who asks wants to see it happen. */
function forced(
  state: TuningState,
  { levers, atMs }: { readonly levers: readonly Lever[]; readonly atMs: MonotonicMs },
): TuningState {
  const asked: Partial<Record<Lever, Asked>> = { ...state.asked };
  const reapplied = { ...state.reapplied };
  for (const lever of levers) {
    const before = asked[lever] ??
      { value: "stock" as const, by: "operator" as const, text: "Asked for by hand", atMs };
    asked[lever] = { ...before, isVoid: true };
    delete reapplied[lever];
  }
  const drift = state.drift.filter(({ lever }) => !levers.includes(lever));
  return { ...state, asked, reapplied, drift, retry: null };
}

function wait(
  state: TuningState,
  { asking, levers, message, cause }: {
    readonly asking: Asking;
    readonly levers: readonly Lever[];
    readonly message: string;
    readonly cause: string | null;
  },
): TuningState {
  return { ...state, waiting: [...state.waiting, { requestId: asking.requestId, levers, message, cause }] };
}

function refuse(state: TuningState, { requestId }: Asking, refusal: Omit<Refusal, "kind">): TuningStep {
  return { state, effects: [{ kind: "answerTuning", requestId, reply: { kind: "refused", ...refusal } }] };
}

function notReady(state: TuningState): Omit<Refusal, "kind"> {
  return {
    code: "unavailable",
    message: `Cannot set the card: ${state.reason ?? "it isn't there"}`,
    hint: "hyperswap health says what helps",
  };
}

function unknownProfile(state: TuningState, name: string): Omit<Refusal, "kind"> {
  const names = allProfiles(state.profiles).map((profile) => profile.name);
  return {
    code: "not_found",
    message: `There is no profile ${JSON.stringify(name)}`,
    hint: `There are ${names.join(", ")}; ${AUTO} follows the workload`,
  };
}

function leversOf({ values }: Profile): readonly Lever[] {
  return LEVERS.filter((lever) => values[lever] !== undefined);
}
