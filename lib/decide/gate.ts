/**
 * The gate (SPEC 2.9): who may go now, and for whom the card has to be handed over first. A pure reducer beside the
 * arbiter, whose lane it asks like everybody else; it sees every event after the arbiter has. Each request is
 * `offered → taken | lapsed`, and each offer is answered exactly once. Read `settle` (gate_settle.ts) next.
 */
import type { GateOutcome } from "../model/admission.ts";
import type { ArbiterEvent } from "../model/events.ts";
import { type GateEffect, type GateEvent, isGateEvent, isOpenReason } from "../model/gate.ts";
import type { MonotonicMs } from "../model/units.ts";
import type { ArbiterState } from "./arbiter_state.ts";
import { hearAnswer } from "./gate_answer.ts";
import { priorityOf } from "./gate_line.ts";
import { withoutFlyer, withoutWaiter } from "./gate_pass.ts";
import type { Flyer, GateState, GateStep, Waiter } from "./gate_state.ts";
import { settle } from "./gate_settle.ts";
import { isComfyBusy } from "./lane.ts";
import { recordKey } from "./lane_results.ts";

/** A proxy takes what it is offered within the same turn; one that hasn't by now never will. */
const OFFER_MS = 5_000;
/** Sent, answered well, and yet not in ComfyUI's queue after so long: it ran from its cache, or was refused. */
const UNSEEN_MS = 2_000;

/** `arbiter`: its state after the same event. */
export function reduceGate(state: GateState, event: GateEvent | ArbiterEvent, arbiter: ArbiterState): GateStep {
  if (state.isStopped && !isGateEvent(event)) return { state, effects: [] };
  const heard = isGateEvent(event)
    ? hearGate(state, event, arbiter)
    : { state: hearArbiter(state, event, arbiter), effects: [] };
  if (!isGateEvent(event) && !movesLine(event)) return heard;
  const settled = settle({ gate: heard.state, arbiter, atMs: event.atMs });
  return { state: settled.state, effects: [...heard.effects, ...settled.effects] };
}

/** What of the arbiter's news may let somebody go. Readings come every millisecond and aren't among it. */
function movesLine({ type }: ArbiterEvent): boolean {
  return type === "sampled" || type === "comfyActivity" || type === "modeSet" || type === "woke" || type === "stopped";
}

function hearArbiter(state: GateState, event: ArbiterEvent, arbiter: ArbiterState): GateState {
  switch (event.type) {
    case "sampled":
      return hearSample(state, event, arbiter);
    case "comfyActivity":
      return event.queueRemaining > 0 && (state.promptSentMs !== null || state.comfyBareMs !== null)
        ? { ...state, promptSentMs: null, comfyBareMs: null }
        : state;
    case "requested":
      return nameHandOff(state, arbiter);
    case "configured":
      return { ...state, policy: event.policy.gate };
    case "stopped":
      return { ...state, isStopped: true };
    default:
      // Its job may begin with any event that ends the one before it.
      return state.handOff?.key === null ? nameHandOff(state, arbiter) : state;
  }
}

function hearSample(
  state: GateState,
  { sample, atMs }: Extract<ArbiterEvent, { type: "sampled" }>,
  arbiter: ArbiterState,
): GateState {
  const named = nameHandOff(state, arbiter);
  const { ollama, comfyui } = named.obstacles;
  const isGone = arbiter.watched.length === 0;
  const obstacles = {
    // ComfyUI's work, or a measurement, was in the way: it is looked at again each second.
    ollama: ollama?.kind === "busy" ? null : fresh(ollama, atMs),
    comfyui: comfyui?.kind === "busy" && isGone ? null : fresh(comfyui, atMs),
  };
  const isSame = obstacles.ollama === ollama && obstacles.comfyui === comfyui;
  const { promptSentMs } = named;
  const isUnseen = promptSentMs !== null && sample.monotonicMs - promptSentMs >= UNSEEN_MS;
  const next = isSame ? named : { ...named, obstacles };
  return dropOffers(isUnseen ? { ...next, promptSentMs: null } : next, atMs);
}

function fresh<O extends { readonly kind: string; readonly untilMs?: MonotonicMs }>(
  obstacle: O | null,
  atMs: MonotonicMs,
): O | null {
  return obstacle?.untilMs !== undefined && obstacle.untilMs <= atMs ? null : obstacle;
}

/** Offers that nobody took have lapsed: they hold nobody up. */
function dropOffers(state: GateState, atMs: MonotonicMs): GateState {
  const isDead = ({ stage, atMs: offeredMs }: Flyer) => stage === "offered" && atMs - offeredMs >= OFFER_MS;
  const inFlight = state.inFlight.filter((entry) => !isDead(entry));
  const dead = state.inFlight.length - inFlight.length;
  if (dead === 0) return state;
  return { ...state, inFlight, counts: { ...state.counts, lapsed: state.counts.lapsed + dead } };
}

/** The job that serves the gate has the lane now: its record is known by its generation. */
function nameHandOff(state: GateState, { holder }: ArbiterState): GateState {
  const { handOff } = state;
  if (handOff === null || handOff.key !== null || holder === null) return state;
  if (!holder.requestIds.includes(handOff.requestId)) return state;
  const kind = handOff.to === "comfyui" ? "yield" : "purge";
  return { ...state, handOff: { ...handOff, key: recordKey(holder.job.generation, kind) } };
}

function hearGate(state: GateState, event: GateEvent, arbiter: ArbiterState): GateStep {
  switch (event.type) {
    case "gateOffered":
      return { state: receive(state, event), effects: [] };
    case "gateTaken":
      return { state: take(state, event), effects: [] };
    case "gateLeft":
      return leave(state, event.id);
    case "gateEnded":
      return { state: end(state, event, arbiter), effects: [] };
    case "gateRefused":
      return hearRefusal(state, event);
    case "gateAnswered":
      return hearAnswer(state, event);
    case "gateTicked":
      return { state: dropOffers(state, event.atMs), effects: [] };
    case "gateStopped":
      return { state: { ...state, isStopped: true }, effects: [] };
  }
}

function receive(state: GateState, { id, request, atMs }: Extract<GateEvent, { type: "gateOffered" }>): GateState {
  const priority = priorityOf(request, state.policy);
  const entry: Waiter = { id, request, priority, wasRetried: false, for: "verdict", sinceMs: atMs, note: null };
  return { ...state, waiting: [...state.waiting, entry] };
}

function take(state: GateState, { id, atMs }: Extract<GateEvent, { type: "gateTaken" }>): GateState {
  const entry = flyerOf(state, id);
  if (entry === null || entry.stage === "taken") return state;
  const { counts } = state;
  const { passedAs, wasHeld } = entry;
  const open = isOpenReason(passedAs) ? { ...counts.open, [passedAs]: (counts.open[passedAs] ?? 0) + 1 } : counts.open;
  const isPrompt = entry.request.tenant === "comfyui";
  return {
    ...state,
    inFlight: state.inFlight.map((other) => other === entry ? { ...entry, stage: "taken" as const, atMs } : other),
    counts: { ...counts, passed: counts.passed + 1, held: counts.held + (wasHeld ? 1 : 0), open },
    promptSentMs: isPrompt ? atMs : state.promptSentMs,
    comfyBareMs: isPrompt ? null : state.comfyBareMs,
  };
}

function flyerOf({ inFlight }: GateState, id: string): Flyer | null {
  return inFlight.find((entry) => entry.id === id) ?? null;
}

/** A held one is never sent; what was asked for it is called off when nobody else wants it (gate_settle.ts). */
function leave(state: GateState, id: string): GateStep {
  const reason = "its client left";
  const { counts } = state;
  const lapsed = { ...counts, lapsed: counts.lapsed + 1 };
  const waiter = state.waiting.find((entry) => entry.id === id);
  if (waiter?.for === "verdict") {
    const effect: GateEffect = { kind: "gateVerdict", id, verdict: { kind: "lapsed" }, reason };
    return { state: { ...withoutWaiter(state, id), counts: lapsed }, effects: [effect] };
  }
  // It was counted when it passed.
  if (waiter !== undefined) {
    return { state: withoutWaiter(state, id), effects: [{ kind: "gateRetry", id, heldMs: 0, isOn: false, reason }] };
  }
  // Once it is taken, its proxy says how it ends.
  if (flyerOf(state, id)?.stage !== "offered") return { state, effects: [] };
  return { state: { ...withoutFlyer(state, id), counts: lapsed }, effects: [] };
}

function end(
  state: GateState,
  { id, outcome, atMs }: Extract<GateEvent, { type: "gateEnded" }>,
  arbiter: ArbiterState,
): GateState {
  const entry = flyerOf(state, id);
  if (entry === null) return state;
  const next = withoutFlyer(state, id);
  if (entry.request.tenant === "ollama") {
    const { comfyui } = next.obstacles;
    // Whoever the hand-off had to wait for may be this one.
    return comfyui?.kind === "busy" ? { ...next, obstacles: { ...next.obstacles, comfyui: null } } : next;
  }
  const isOver = next.promptSentMs === null || isComfyBusy(arbiter) || !hasBegun(outcome);
  return { ...next, promptSentMs: isOver ? null : atMs };
}

/** What ComfyUI refused, or never got, brings no work; whose client left may well run. */
function hasBegun(outcome: GateOutcome): boolean {
  return outcome.kind === "client_left" || outcome.kind === "answered" && outcome.status < 400;
}

function hearRefusal(
  state: GateState,
  { id, atMs }: Extract<GateEvent, { type: "gateRefused" }>,
): GateStep {
  const entry = flyerOf(state, id);
  if (entry?.stage !== "taken" || entry.wasRetried) {
    const reason = entry?.wasRetried === true ? "it was retried once already" : "it isn't under way";
    return { state, effects: [{ kind: "gateRetry", id, heldMs: 0, isOn: false, reason }] };
  }
  const { request, priority } = entry;
  const waiter: Waiter = { id, request, priority, wasRetried: true, for: "retry", sinceMs: atMs, note: null };
  return { state: { ...withoutFlyer(state, id), waiting: [waiter, ...state.waiting] }, effects: [] };
}
