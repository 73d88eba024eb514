import { type LoadBook, NO_LOADS, noteLoad, noteWarm } from "../decide/calibration.ts";
import { type Footprints, remember } from "../decide/footprint.ts";
import type { HistoryItem } from "../model/history.ts";
import { canonical } from "../model/model_names.ts";
import { GIB } from "../model/units.ts";

/** Bandwidths that calibrate, from the swaps and warms that an earlier service kept, newest first as the store gives them. */
export function seedLoads(swaps: readonly HistoryItem[], warms: readonly HistoryItem[]): LoadBook {
  let book = [...warms].reverse().reduce((known, { fields }) => noteWarm(known, fields), NO_LOADS);
  for (const { fields } of [...swaps].reverse()) {
    const { gb_per_s: gbPerS, size_gb: sizeGb, residency_before_pct: pct } = fields;
    if (typeof gbPerS !== "number" || typeof sizeGb !== "number" || typeof pct !== "number") continue;
    book = noteLoad(book, {
      bytes: sizeGb * 1e9,
      bytesPerSecond: gbPerS * 1e9,
      residencyPct: pct,
      isResidencyExact: fields["residency_exact"] === true,
      isPlain: fields["time_is_plain"] === true,
    });
  }
  return book;
}

/** Footprints from the swaps that an earlier service kept, newest first as the store gives them. Spilled loads don't count. */
export function seedFootprints(swaps: readonly HistoryItem[]): Footprints {
  let footprints: Footprints = {};
  for (const { fields } of [...swaps].reverse()) {
    const { model, vram_gb: vramGb, spilled } = fields;
    if (typeof model !== "string" || typeof vramGb !== "number" || vramGb <= 0 || spilled === true) continue;
    const bytes = Math.round(vramGb * GIB);
    const shape = { contextLength: countOf(fields["context_length"]), parallel: countOf(fields["parallel"]) };
    const measured = { peakBytes: bytes, steadyBytes: bytes, ...shape, process: null };
    footprints = remember(footprints, { key: canonical(model), measured });
  }
  return footprints;
}

function countOf(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}
