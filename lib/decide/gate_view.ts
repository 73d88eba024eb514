/** The gate's state as operations show it, and its transitions in words. */
import type { HeldView } from "../model/admission.ts";
import type { Decision } from "../model/arbitration.ts";
import type { ArbiterEvent } from "../model/events.ts";
import { type GateEffect, type GateEvent, isGateEvent } from "../model/gate.ts";
import type { MonotonicMs, WallMs } from "../model/units.ts";
import { describeEvent } from "./describe.ts";
import { lineOf } from "./gate_line.ts";
import type { GateState } from "./gate_state.ts";

/** Those who wait, in the order in which they go. */
export function viewHeld(
  state: GateState,
  { atMs, toWall }: { readonly atMs: MonotonicMs; readonly toWall: (ms: MonotonicMs) => WallMs },
): readonly HeldView[] {
  return lineOf(state, atMs).flatMap(({ id, request, priority, note, sinceMs }) => {
    if (note === null) return [];
    const { tenant, path, model, files } = request;
    const what = model ?? (files.length === 0 ? null : files.join(", "));
    return [{ id, tenant, path, what, priority, ...note, sinceMs: toWall(sinceMs) }];
  });
}

/** What the why-log says of a transition; null for what was merely let through, or let alone. */
export function describeGate(
  event: GateEvent | ArbiterEvent,
  { before, after, effects }: {
    readonly before: GateState;
    readonly after: GateState;
    readonly effects: readonly GateEffect[];
  },
): Omit<Decision, "id" | "atMs"> | null {
  const told = effects.filter((effect) => isWorthTelling(effect, before));
  const held = after.waiting.filter(({ id, note }) =>
    note !== null && before.waiting.every((entry) => entry.id !== id || entry.note === null)
  );
  if (told.length === 0 && held.length === 0) return null;
  return {
    event: isGateEvent(event) ? describeGateEvent(event) : describeEvent(event),
    before: describeLine(before),
    after: describeLine(after),
    effects: [...held.map(({ request }) => `hold a request for ${nameOf(request.tenant)}`), ...told.map(wordsFor)],
    reason: [...new Set([...held.map(({ note }) => note?.reason ?? ""), ...told.map((effect) => effect.reason)])]
      .join("; "),
  };
}

/** A verdict is told of where somebody was held for it, or refused. */
function isWorthTelling(effect: GateEffect, before: GateState): boolean {
  if (effect.kind === "gateAmend") return false;
  if (effect.kind !== "gateVerdict" || effect.verdict.kind !== "pass") return true;
  return before.waiting.some(({ id, note }) => id === effect.id && note !== null);
}

function describeLine({ waiting, inFlight }: GateState): string {
  return `gate: ${waiting.filter(({ note }) => note !== null).length} held, ${inFlight.length} under way`;
}

function describeGateEvent(event: GateEvent): string {
  switch (event.type) {
    case "gateOffered":
      return `a request for ${nameOf(event.request.tenant)} came to the gate`;
    case "gateTaken":
      return "a request was sent";
    case "gateLeft":
      return "a client left";
    case "gateEnded":
      return "a request ended";
    case "gateRefused":
      return `a request was refused for want of memory: ${event.message}`;
    case "gateAnswered":
      return `the hand-off was answered: ${
        event.reply.kind === "refused" ? event.reply.refusal.message : event.reply.kind
      }`;
    case "gateTicked":
      return "a second passed";
    case "gateStopped":
      return "the gate closes";
  }
}

function wordsFor(effect: GateEffect): string {
  switch (effect.kind) {
    case "gateVerdict":
      return {
        pass: "let a held request go",
        refused: "refuse a request",
        lapsed: "drop a request that was never sent",
      }[effect.verdict.kind];
    case "gateRetry":
      return effect.isOn ? "have a refused request sent once more" : "pass the refusal on";
    case "gateHandOff":
      return `ask for the card for ${nameOf(effect.to)}`;
    case "gateCallOff":
      return "call the hand-off off";
    case "gateAmend":
      return "complete a record";
  }
}

function nameOf(tenant: "ollama" | "comfyui"): string {
  return tenant === "ollama" ? "Ollama" : "ComfyUI";
}
