import { type Footprints, remember } from "../decide/footprint.ts";
import { canonical } from "../decide/yield_targets.ts";
import type { HistoryItem } from "../model/history.ts";
import { GIB } from "../model/units.ts";

/** Footprints from the swaps that an earlier service kept, newest first as the store gives them. Spilled loads don't count. */
export function seedFootprints(swaps: readonly HistoryItem[]): Footprints {
  let footprints: Footprints = {};
  for (const { fields } of [...swaps].reverse()) {
    const { model, vram_gb: vramGb, spilled } = fields;
    if (typeof model !== "string" || typeof vramGb !== "number" || vramGb <= 0 || spilled === true) continue;
    footprints = remember(footprints, canonical(model), Math.round(vramGb * GIB));
  }
  return footprints;
}
