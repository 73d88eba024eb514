/** After each event that may matter: who of those who wait may go, who can't wait any longer, and what is asked for the first. */
import type { GateEffect } from "../model/gate.ts";
import type { Tenant } from "../model/tenants.ts";
import type { MonotonicMs } from "../model/units.ts";
import { judge, reasonToOpen, type Scene, type Word } from "./gate_judge.ts";
import { lineOf, retryAfterS } from "./gate_line.ts";
import { admit, answerRetry, refuse } from "./gate_pass.ts";
import type { GateState, GateStep, Waiter } from "./gate_state.ts";

export function settle(scene: Scene): GateStep {
  const { gate, atMs } = scene;
  if (gate.waiting.length === 0) return callOff(gate, null);
  const open = reasonToOpen(scene);
  if (open !== null) return openUp(gate, scene, open);
  const expired = expire(gate, atMs);
  const walked = walk({ ...scene, gate: expired.state });
  const asked = askFor(walked.state, walked.first);
  return { state: asked.state, effects: [...expired.effects, ...walked.effects, ...asked.effects] };
}

/** Nobody decides, so nobody is held. A retry would have to be decided, too. */
function openUp(
  gate: GateState,
  { atMs }: Scene,
  [reason, why]: NonNullable<ReturnType<typeof reasonToOpen>>,
): GateStep {
  let next = gate;
  const effects: GateEffect[] = [];
  for (const entry of lineOf(gate, atMs)) {
    const step = entry.for === "retry"
      ? answerRetry(next, entry, { isOn: false, why, atMs })
      : admit(next, entry, { reason, why, atMs });
    next = step.state;
    effects.push(...step.effects);
  }
  const off = callOff(next, null);
  return { state: off.state, effects: [...effects, ...off.effects] };
}

function expire(gate: GateState, atMs: number): GateStep {
  const { deadlineMs } = gate.policy;
  let next = gate;
  const effects: GateEffect[] = [];
  for (const entry of gate.waiting) {
    if (atMs - entry.sinceMs < deadlineMs) continue;
    const why = `It was held for ${Math.round(deadlineMs / 1_000)} s, which is as long as is configured: ` +
      (entry.note?.reason ?? "nothing let it go");
    const step = entry.for === "retry"
      ? answerRetry(next, entry, { isOn: false, why, atMs })
      : refuse(next, entry, { status: 503, retryAfterS: retryAfterS(next), message: why });
    next = step.state;
    effects.push(...step.effects);
  }
  return { state: next, effects };
}

interface Walked extends GateStep {
  /** Who goes first of those who still wait, and what is in the way. */
  readonly first: { readonly entry: Waiter; readonly wants: Tenant | null } | null;
}

/** Along the line: whoever waits for the card keeps the other tenant's later requests behind it. */
function walk(scene: Scene): Walked {
  const { arbiter, atMs } = scene;
  let { gate } = scene;
  const effects: GateEffect[] = [];
  const held = new Map<string, { readonly entry: Waiter; readonly word: Wait }>();
  const ahead = { ollama: 0, comfyui: 0 };
  let room = gate.policy.mostHeld - gate.waiting.filter(({ note }) => note !== null).length;
  for (const entry of lineOf(gate, atMs)) {
    const word = behind(judge(entry, { gate, arbiter, atMs }), entry, ahead);
    const isNew = entry.note === null;
    if (word.kind === "wait" && (!isNew || room > 0)) {
      held.set(entry.id, { entry, word });
      ahead[entry.request.tenant] += 1;
      room -= isNew ? 1 : 0;
      continue;
    }
    const step = word.kind === "wait" ? turnAway(gate, entry, atMs) : letGo(gate, entry, { word, atMs });
    gate = step.state;
    effects.push(...step.effects);
  }
  const [first] = held.values();
  return {
    state: note(gate, [...held.values()]),
    effects,
    first: first === undefined ? null : { entry: first.entry, wants: first.word.wants },
  };
}

type Wait = Extract<Word, { kind: "wait" }>;

function letGo(
  gate: GateState,
  entry: Waiter,
  { word, atMs }: { readonly word: Exclude<Word, Wait>; readonly atMs: MonotonicMs },
): GateStep {
  return word.kind === "pass"
    ? admit(gate, entry, { reason: word.reason, why: word.why, atMs })
    : answerRetry(gate, entry, { isOn: false, why: word.why, atMs });
}

function turnAway(gate: GateState, entry: Waiter, atMs: MonotonicMs): GateStep {
  const message = `${gate.policy.mostHeld} requests are held already, which is as many as is configured`;
  if (entry.for === "retry") return answerRetry(gate, entry, { isOn: false, why: message, atMs });
  return refuse(gate, entry, { status: 429, retryAfterS: retryAfterS(gate), message });
}

/** The card is the other tenant's next, unless this one takes nothing of it. */
function behind(word: Word, { request }: Waiter, ahead: Readonly<Record<Tenant, number>>): Word {
  const isOllama = request.tenant === "ollama";
  const before = ahead[isOllama ? "comfyui" : "ollama"];
  if (before === 0 || word.kind === "give_up" || word.kind === "pass" && word.takesNothing) return word;
  const who = before === 1 ? "a request" : `${before} requests`;
  return { kind: "wait", why: `${who} for ${isOllama ? "ComfyUI" : "Ollama"} goes first`, wants: null };
}

/** Tells each what it waits for, where that has changed. `held`: in the order of the line. */
function note(gate: GateState, held: readonly { readonly entry: Waiter; readonly word: Wait }[]): GateState {
  const fresh = new Map<string, Waiter>();
  held.forEach(({ entry, word }, position) => {
    const isSame = entry.note?.reason === word.why && entry.note.position === position;
    if (!isSame) fresh.set(entry.id, { ...entry, note: { reason: word.why, position } });
  });
  if (fresh.size === 0) return gate;
  return { ...gate, waiting: gate.waiting.map((entry) => fresh.get(entry.id) ?? entry) };
}

/** One hand-off at a time, for whoever is first; it is called off when nobody of its tenant waits any more. */
function askFor(gate: GateState, first: Walked["first"]): GateStep {
  const off = callOff(gate, first === null ? null : first.entry);
  const { state } = off;
  if (first === null || first.wants === null || state.handOff !== null) return off;
  const requestId = `gate-${state.nextHandOff}`;
  const { entry, wants: to } = first;
  const handOff = { requestId, to, forId: entry.id, key: null };
  return {
    state: { ...state, handOff, nextHandOff: state.nextHandOff + 1 },
    effects: [...off.effects, {
      kind: "gateHandOff",
      requestId,
      to,
      reason: to === "comfyui" ? "a prompt is held for Ollama's memory" : "a request is held for ComfyUI's memory",
    }],
  };
}

function callOff(gate: GateState, first: Waiter | null): GateStep {
  const { handOff } = gate;
  if (handOff === null) return { state: gate, effects: [] };
  const isWanted = first !== null && gate.waiting.some((entry) => entry.request.tenant === handOff.to);
  if (isWanted) return { state: gate, effects: [] };
  return {
    state: { ...gate, handOff: null },
    effects: [{ kind: "gateCallOff", requestId: handOff.requestId, reason: "nobody waits for it any more" }],
  };
}
