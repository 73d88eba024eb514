/** The arbiter's part of the house: whoever asks for VRAM, what carries its decisions out, and the gate that waits on them. */
import { Performer, type PerformParts } from "../act/perform.ts";
import type { ArbiterState } from "../decide/arbiter_state.ts";
import type { GateState } from "../decide/gate_state.ts";
import type { Decision } from "../model/arbitration.ts";
import type { ArbiterEffect, ArbiterEvent } from "../model/events.ts";
import type { GateEvent } from "../model/gate.ts";
import type { HistoryItem } from "../model/history.ts";
import { AdmissionService } from "./admission.ts";
import { ArbitrationService } from "./arbitration.ts";
import { BenchmarkService } from "./benchmark.ts";
import { PlannerService } from "./planner.ts";

export interface ArbiterKeeperParts extends Omit<PerformParts, "policy" | "resolve"> {
  readonly state: () => { readonly arbiter: ArbiterState; readonly gate: GateState };
  readonly send: (event: ArbiterEvent | GateEvent) => void;
  readonly decisions: () => readonly Decision[];
  /** Called with what a benchmark kept: it is its own evidence, and no ordinary use. */
  readonly onBenched: (item: HistoryItem) => void;
}

export class ArbiterKeeper {
  readonly arbitration: ArbitrationService;
  /** What the gate's proxies ask. */
  readonly admission: AdmissionService;
  readonly benchmark: BenchmarkService;
  readonly planner: PlannerService;
  readonly #performer: Performer;

  constructor(parts: ArbiterKeeperParts) {
    const { clock, log, store, send, decisions, onBenched } = parts;
    const state = () => parts.state().arbiter;
    this.#performer = new Performer({
      ...parts,
      policy: () => state().policy,
      resolve: (requestId, reply) =>
        this.admission.resolve(requestId, reply) || this.arbitration.resolve(requestId, reply),
    });
    this.arbitration = new ArbitrationService({
      clock,
      state,
      send,
      decisions,
      gate: () => this.admission.view(),
    });
    this.admission = new AdmissionService({
      clock,
      state: () => parts.state().gate,
      arbiter: state,
      send,
      amend: (key, fields, reason) => this.#performer.perform({ kind: "amend", key, fields, reason }),
    });
    this.benchmark = new BenchmarkService({
      clock,
      log,
      store,
      arbitration: this.arbitration,
      state,
      onRecorded: onBenched,
    });
    this.planner = new PlannerService({ clock, store, state });
  }

  perform(effect: ArbiterEffect): void {
    this.#performer.perform(effect);
  }

  /** Resolves when everything that was started has ended. */
  async settled(): Promise<void> {
    await this.#performer.settled();
  }
}
