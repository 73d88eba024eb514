/** What would happen, and what was learned of needs, as text. */
import type { Operations } from "../operations/registry.ts";
import { labelled, quantity, table } from "./cli_output.ts";
import type { Style } from "./cli_output.ts";

export function renderWorkloadPlan(plan: Operations["plan"]["output"], style: Style): string {
  const isFine = plan.verdict === "stays" || plan.verdict === "makes_room";
  const basis = plan.need_basis === "measured" ? `measured, n = ${plan.need_n}` : plan.need_basis;
  const steps = plan.steps.map(({ action, names, frees_gb, reason }, at) =>
    `  ${at + 1}. ${action} ${names.join(", ")}${frees_gb === null ? "" : ` (${frees_gb.toFixed(2)} GiB)`}: ${reason}\n`
  );
  const hint = plan.refusal?.hint ?? null;
  return `${isFine ? style.good(plan.message) : style.bad(plan.message)}\n` +
    (hint === null ? "" : `${hint}\n`) +
    labelled([
      ["needed", `${quantity(plan.needed_gb, "GiB", 2)} (${basis})`],
      ["free", quantity(plan.free_gb, "GiB", 2)],
      ["left free", quantity(plan.headroom_gb, "GiB", 2)],
    ], style) + steps.join("");
}

export function renderFootprints({ footprints }: Operations["footprints"]["output"], style: Style): string {
  const time = (medianMs: number | null, n: number) =>
    medianMs === null ? "–" : `${(medianMs / 1_000).toFixed(1)} s (n = ${n})`;
  const rows = footprints.map((row) => [
    row.name,
    row.context_length === null ? "–" : `${row.context_length}${(row.parallel ?? 1) > 1 ? ` ×${row.parallel}` : ""}`,
    quantity(row.peak_gb, "GiB", 2),
    quantity(row.steady_gb, "GiB", 2),
    `${row.least_gb.toFixed(2)}–${row.peak_gb.toFixed(2)}`,
    `${row.n}`,
    row.used ? "yes" : row.n < 3 ? "not below 3" : "no",
    row.misses === 0 ? "0" : style.warn(`${row.misses}`),
    time(row.warm_ms, row.warm_n),
    time(row.cold_ms, row.cold_n),
  ]);
  return table(
    ["NAME", "CONTEXT", "PEAK", "STEADY", "SPREAD", "N", "USED", "MISSES", "LOAD, WARM", "LOAD, COLD"],
    rows,
    {
      style,
      empty: "Nothing was measured yet: footprints come from switches, and from ComfyUI's work",
    },
  );
}
