import { useDashboard } from "../live/dashboard.ts";
import type { Arbitration } from "../live/wire.ts";
import { duration } from "../format.ts";

/** Who is held at the gate, behind what and for how long; and what became of the rest. Shown only where it is open. */
export function GatePanel() {
  const { part } = useDashboard();
  const arbitration = part.arbitration.value;
  if (arbitration === null) return null;
  const { gate, held, gate_counts: counts } = arbitration;
  if (gate.ollama === null && gate.comfyui === null) return null;
  const open = Object.entries(counts.open);
  return (
    <section class="panel" aria-labelledby="gate-title">
      <div class="panel-head">
        <h2 id="gate-title">Gate</h2>
        <span class="end muted">{held.length === 0 ? "nobody held" : `${held.length} held`}</span>
      </div>
      <div class="panel-body">
        {held.length > 0 && <ul class="gate-held">{held.map((entry) => <HeldRow key={entry.id} entry={entry} />)}</ul>}
        <p class="muted">
          {counts.passed} passed, {counts.held} of them held first
          {counts.refused > 0 && `, ${counts.refused} refused`}
          {counts.lapsed > 0 && `, ${counts.lapsed} left before`}
          {counts.retried > 0 && `, ${counts.retried} retried`}
        </p>
        {open.length > 0 && (
          <p class="warn">
            Passed unheld, since nobody could decide: {open.map(([why, count]) => `${count} ${why}`).join(", ")}
          </p>
        )}
        <p class="faint gate-urls">
          {gate.ollama !== null && <span title="Point Ollama's clients here">Ollama {gate.ollama}</span>}
          {gate.comfyui !== null && <span title="Point ComfyUI's page and clients here">ComfyUI {gate.comfyui}</span>}
        </p>
      </div>
    </section>
  );
}

function HeldRow({ entry }: { readonly entry: Arbitration["held"][number] }) {
  const { nowMs } = useDashboard();
  const { tenant, path, what, priority, reason, position, since } = entry;
  return (
    <li class="gate-row">
      <span class={`kind kind-${tenant === "ollama" ? "ollama" : "comfy"}`}>
        {tenant === "ollama" ? "Ollama" : "ComfyUI"}
      </span>
      <span class="gate-what" title={path}>{what ?? path}</span>
      {priority === "batch" && <span class="chip">batch</span>}
      <span class="end num">{duration(Math.max(0, nowMs.value - Date.parse(since)))}</span>
      <span class="muted gate-why">{position === 0 ? reason : `${position} before it · ${reason}`}</span>
    </li>
  );
}
