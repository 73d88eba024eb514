import type { ArbiterState } from "../decide/arbiter_state.ts";
import type { TuningState } from "../decide/card_state.ts";
import type { AutotuneState } from "../decide/autotune_state.ts";
import { describeSweep } from "../decide/autotune_view.ts";
import { describeTuning } from "../decide/card_view.ts";
import { describeEffect, describeEvent, describeState } from "../decide/describe.ts";
import type { GateState } from "../decide/gate_state.ts";
import { describeGate } from "../decide/gate_view.ts";
import type { Decision } from "../model/arbitration.ts";
import { isSweepEffect, isSweepEvent, type SweepEffect, type SweepEvent } from "../model/autotune.ts";
import type { ArbiterEffect, ArbiterEvent } from "../model/events.ts";
import { type GateEffect, type GateEvent, isGateEffect, isGateEvent } from "../model/gate.ts";
import type { Log } from "../model/ports.ts";
import { isTuneEffect, isTuneEvent, type TuneEffect, type TuneEvent } from "../model/tuning.ts";
import type { WallMs } from "../model/units.ts";

/** Decisions kept for `why`. */
const KEPT = 500;

/** What the log sees of a transition. */
export interface ArbiterTransition {
  readonly event: ArbiterEvent;
  readonly before: ArbiterState;
  readonly state: ArbiterState;
  readonly effects: readonly ArbiterEffect[];
}

/** What the log sees of the whole house. */
export interface HouseTransition {
  readonly event: ArbiterEvent | TuneEvent | GateEvent | SweepEvent;
  readonly before: HouseBooks;
  readonly state: HouseBooks;
  readonly effects: readonly (ArbiterEffect | TuneEffect | GateEffect | SweepEffect)[];
}

interface HouseBooks {
  readonly arbiter: ArbiterState;
  readonly card: TuningState;
  readonly gate: GateState;
  readonly autotune: AutotuneState;
}

/**
 * The why-log: every transition that did something to somebody, or answered somebody, with its reason. Readings and
 * samples that changed nothing leave no trace.
 */
export class DecisionLog {
  readonly #decisions: Decision[] = [];
  #nextId = 1;
  readonly #log: Log;

  constructor(log: Log) {
    this.#log = log;
  }

  /** Newest last. */
  all(): readonly Decision[] {
    return this.#decisions;
  }

  note(transition: ArbiterTransition, atMs: WallMs): void {
    const told = transition.effects.flatMap((effect) => {
      const words = describeEffect(effect);
      return words === null ? [] : [{ words, reason: effect.reason }];
    });
    if (told.length === 0) return;
    this.add({
      atMs,
      event: describeEvent(transition.event),
      before: describeState(transition.before),
      after: describeState(transition.state),
      effects: told.map((effect) => effect.words),
      reason: [...new Set(told.map((effect) => effect.reason))].join("; "),
    });
  }

  /** A transition of the whole house: the arbiter's part, and what became of the card's settings. */
  noteAll({ event, before, state, effects }: HouseTransition, atMs: WallMs): void {
    if (!isTuneEvent(event) && !isSweepEvent(event)) {
      if (!isGateEvent(event)) {
        const own = effects.flatMap((effect) =>
          isTuneEffect(effect) || isGateEffect(effect) || isSweepEffect(effect) ? [] : [effect]
        );
        this.note({ event, before: before.arbiter, state: state.arbiter, effects: own }, atMs);
      }
      const gate = { before: before.gate, after: state.gate, effects: effects.filter(isGateEffect) };
      const words = gate.before === gate.after && gate.effects.length === 0 ? null : describeGate(event, gate);
      if (words !== null) this.add({ atMs, ...words });
    }
    for (const effect of effects) {
      if (isSweepEffect(effect)) this.#noteSweep(effect, { before, state, atMs });
      if (!isTuneEffect(effect) || effect.kind !== "recordTuning") continue;
      const stands = { before: describeTuning(before.card), after: describeTuning(state.card) };
      this.add({ atMs, event: effect.event, ...stands, effects: wordsFor(effect), reason: effect.reason });
    }
  }

  #noteSweep(
    effect: SweepEffect,
    { before, state, atMs }: Pick<HouseTransition, "before" | "state"> & { readonly atMs: WallMs },
  ): void {
    if (effect.kind !== "recordSweep") return;
    const stands = { before: describeSweep(before.autotune), after: describeSweep(state.autotune) };
    this.add({ atMs, event: effect.event, ...stands, effects: ["record a step of the sweep"], reason: effect.reason });
  }

  /** A decision that some other reducer took, in its words. */
  add(words: Omit<Decision, "id">): void {
    const decision: Decision = { id: this.#nextId++, ...words };
    this.#decisions.push(decision);
    if (this.#decisions.length > KEPT) this.#decisions.shift();
    const effects = decision.effects.length === 0 ? "" : `: ${decision.effects.join(", ")}`;
    this.#log.info(`${decision.event}${effects}`, {
      decision: decision.id,
      reason: decision.reason,
    });
  }
}

/** What became of each lever, in words. */
function wordsFor({ item: { fields } }: Extract<TuneEffect, { kind: "recordTuning" }>): readonly string[] {
  const levers = fields["levers"];
  if (!Array.isArray(levers)) return [];
  return levers.map(({ lever, wanted, verdict }) => `${lever} ${wanted} (${verdict})`);
}
