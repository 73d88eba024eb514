/** What a hand-off's end means for those who waited for it. */
import type { PassReason } from "../model/admission.ts";
import type { GateEffect, GateEvent } from "../model/gate.ts";
import type { Tenant } from "../model/tenants.ts";
import type { MonotonicMs } from "../model/units.ts";
import { round } from "../model/units.ts";
import { classOf, lineOf } from "./gate_line.ts";
import { admit, answerRetry } from "./gate_pass.ts";
import type { GateHandOff, GateState, GateStep, Obstacle, Waiter } from "./gate_state.ts";
import { endOf } from "./hand_off.ts";

/** How long a tenant's side stands open after its memory couldn't be had: asking again takes seconds of everybody's. */
const OPEN_MS = 30_000;
/** The same where asking again costs next to nothing. */
const OPEN_BRIEFLY_MS = 5_000;

const OTHER: Readonly<Record<Tenant, string>> = { comfyui: "Ollama", ollama: "ComfyUI" };

export function hearAnswer(
  state: GateState,
  { requestId, reply, atMs }: Extract<GateEvent, { type: "gateAnswered" }>,
): GateStep {
  const { handOff } = state;
  // Called off meanwhile: nobody waits for it.
  if (handOff === null || handOff.requestId !== requestId) return { state, effects: [] };
  const over: GateState = { ...state, handOff: null };
  const { to } = handOff;
  const end = endOf(reply);
  switch (end.kind) {
    case "back":
      return grant(over, { handOff, reason: "released", atMs, why: `the driver has ${OTHER[to]}'s memory back` });
    case "nobody":
      return grant(over, { handOff, reason: "free", atMs, why: `${OTHER[to]} holds nothing that had to go` });
    case "busy":
      return { state: withObstacle(over, to, end), effects: [] };
    case "blind":
      return { state: withObstacle(over, to, { ...end, untilMs: atMs + OPEN_MS }), effects: [] };
    case "fault": {
      const { kind, message, isQuick } = end;
      const untilMs = atMs + (isQuick ? OPEN_BRIEFLY_MS : OPEN_MS);
      return { state: withObstacle(over, to, { kind, message, untilMs }), effects: [] };
    }
  }
}

function withObstacle(state: GateState, to: Tenant, obstacle: Obstacle): GateState {
  return { ...state, obstacles: { ...state.obstacles, [to]: obstacle } };
}

interface Grant {
  readonly handOff: GateHandOff;
  readonly reason: PassReason;
  readonly why: string;
  readonly atMs: MonotonicMs;
}

/** All of that tenant's that wait go together, so that the card changes hands no more often than it must. */
function grant(state: GateState, { handOff, reason, why, atMs }: Grant): GateStep {
  const { to, key, forId } = handOff;
  const line = lineOf(state, atMs);
  const classAt = (entry: Waiter) => classOf(entry, state.policy, atMs);
  const best = Math.min(...line.filter((entry) => entry.request.tenant !== to).map(classAt));
  // Nobody goes before somebody more urgent of the other tenant's, but whom it was done for.
  const served = line.filter((entry) => entry.request.tenant === to && (classAt(entry) <= best || entry.id === forId));
  const isBack = reason === "released";
  let next: GateState = to === "ollama" && isBack ? { ...state, comfyBareMs: atMs } : state;
  const effects: GateEffect[] = [];
  for (const entry of served) {
    const step = entry.for === "retry"
      ? answerRetry(next, entry, { isOn: isBack, why, atMs })
      : admit(next, entry, { reason, why, atMs });
    next = step.state;
    effects.push(...step.effects);
  }
  if (key !== null && isBack && served.length > 0) {
    const heldMs = Math.max(...served.map((entry) => atMs - entry.sinceMs));
    const fields = { held_requests: served.length, held_ms: round(heldMs) };
    effects.push({ kind: "gateAmend", key, fields, reason: "requests were held until then" });
  }
  return { state: next, effects };
}
