import { Counter, type Registry } from "prom-client";
import type { Snapshot } from "../model/services.ts";
import { gauge } from "./metrics_gauge.ts";

/** Who is held at the gate, and what became of its requests; absent where there is no gate. */
export function gateFigures(registry: Registry) {
  const held = gauge(registry, "gate_held_requests", "Requests held at the gate", ["tenant"]);
  const counter = <L extends string>(name: string, help: string, labelNames: L[]) =>
    new Counter({ name: `hyperswap_gate_${name}_total`, help, labelNames, registers: [registry] });
  const requests = counter("requests", "Requests at the gate that are over or under way, by what became of them", [
    "result",
  ]);
  const open = counter("open", "Requests that passed because nobody could decide, by why", ["reason"]);
  return (snapshot: Snapshot | null) => {
    held.clear();
    const gate = snapshot?.arbitration.gate;
    if (gate === undefined || gate.urls.ollama === null && gate.urls.comfyui === null) return;
    for (const tenant of ["ollama", "comfyui"] as const) {
      held.set(gate.held.filter((entry) => entry.tenant === tenant).length, { tenant });
    }
    // The gate counts for itself: what it says is the whole sum.
    requests.reset();
    open.reset();
    const { passed, held: heldFirst, refused, lapsed, retried } = gate.counts;
    const results = { passed_at_once: passed - heldFirst, passed_after_hold: heldFirst, refused, lapsed, retried };
    for (const [result, count] of Object.entries(results)) requests.inc({ result }, count);
    for (const [reason, count] of Object.entries(gate.counts.open)) open.inc({ reason }, count);
  };
}
