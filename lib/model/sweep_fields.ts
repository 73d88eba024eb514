/** A sweep's result in wire form: history keeps what its caller is told, name for name. */
import type { SweepResult } from "./autotune.ts";
import { round } from "./units.ts";

// What it answers is named by the schema in operations/autotune.ts: spelled out there, and checked where it is used.
export function sweepResultFields(result: SweepResult) {
  const { comparison } = result;
  return {
    end: result.end,
    message: result.message,
    control_value: result.controlValue,
    control_per_second: round(result.controlMedian, 3),
    best_value: result.bestValue,
    best_per_second: round(result.bestMedian, 3),
    gain_pct: round(result.gainPct, 2),
    stands_out: comparison?.standsOut ?? null,
    test: comparison?.test ?? null,
    p_value: comparison?.pValue ?? null,
    n: comparison === null ? null : [comparison.aN, comparison.bN],
    spread_pct: round(result.spreadPct, 2),
    stopped_by: result.stoppedBy,
    pauses: result.pauses,
    applied: result.applied,
  };
}
