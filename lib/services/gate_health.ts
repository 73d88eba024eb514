/** Whether the gate can do what it was opened for. */
import { reasonToOpen } from "../decide/gate_judge.ts";
import type { ArbiterState } from "../decide/arbiter_state.ts";
import type { GateState } from "../decide/gate_state.ts";
import type { GateUrls } from "../model/admission.ts";
import type { HealthCheck } from "../model/services.ts";
import type { MonotonicMs } from "../model/units.ts";

export interface GateStanding {
  readonly urls: GateUrls;
  /** One line for each listener that isn't there. */
  readonly problems: readonly string[];
  readonly gate: GateState;
  readonly arbiter: ArbiterState;
  readonly atMs: MonotonicMs;
}

export function checkGate({ urls, problems, gate, arbiter, atMs }: GateStanding): HealthCheck {
  const where = [urls.ollama, urls.comfyui].filter((url) => url !== null).join(" and ");
  if (problems.length > 0) {
    return {
      name: "gate",
      state: "broken",
      finding: problems.join("; "),
      breaks: "Clients that are pointed there reach nobody",
      remedy: "Free that address or choose another under [gate], and restart the service",
    };
  }
  if (where === "") return fine("not_applicable", "The gate is off: nothing is held, and a hand-off can lose the race");
  const open = reasonToOpen({ gate, arbiter, atMs });
  if (open !== null) return standsOpen(open[1]);
  for (const obstacle of [gate.obstacles.comfyui, gate.obstacles.ollama]) {
    if (obstacle !== null && obstacle.kind !== "busy") return standsOpen(obstacle.message);
  }
  const held = gate.waiting.length;
  return fine("ok", `The gate listens at ${where}${held === 0 ? "" : `; ${held} held`}`);
}

function fine(state: "ok" | "not_applicable", finding: string): HealthCheck {
  return { name: "gate", state, finding, breaks: null, remedy: null };
}

function standsOpen(why: string): HealthCheck {
  return {
    name: "gate",
    state: "degraded",
    finding: `The gate stands open: ${why}`,
    breaks: "Requests pass unheld and marked, so a hand-off can lose the race as it can without a gate",
    remedy: "Mend what is named there, or set the mode to auto; nothing has to be done to the gate itself",
  };
}
