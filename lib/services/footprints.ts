import { type LoadBook, NO_LOADS, noteLoad, noteWarm } from "../decide/calibration.ts";
import { type Footprints, type Measurement, remember } from "../decide/footprint.ts";
import { type PartialBook, withRun } from "../decide/partial_load.ts";
import type { HistoryItem } from "../model/history.ts";
import { canonical } from "../model/model_names.ts";
import { type Bytes, GIB, round, toGib } from "../model/units.ts";

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

/** What an earlier service kept of footprints and workflows; both lists newest first, as the store gives them. */
export function seedLearned(
  kept: readonly HistoryItem[],
  swaps: readonly HistoryItem[],
): { readonly footprints: Footprints; readonly workflows: PartialBook["runs"] } {
  // Until footprints were kept by themselves, swaps were all there was of them; from then on they hold the same loads.
  const sinceMs = kept.at(-1)?.atMs ?? Infinity;
  let footprints = seedFootprints(swaps.filter(({ atMs }) => atMs < sinceMs));
  let workflows: PartialBook["runs"] = {};
  for (const { fields } of [...kept].reverse()) {
    for (const row of rowsIn(fields["measured"])) {
      const measured = measurementFrom(row);
      if (typeof row["name"] !== "string" || measured === null) continue;
      footprints = remember(footprints, { key: row["name"], measured });
    }
    for (const { workflow, peak_gb: peakGb, step_ms: stepMs } of rowsIn(fields["runs"])) {
      if (typeof workflow !== "string") continue;
      workflows = withRun(workflows, workflow, { peakBytes: bytesFrom(peakGb), stepMs: numberFrom(stepMs) });
    }
  }
  return { footprints, workflows };
}

/** The same in wire form. */
export function fieldsOfLearned(
  footprints: Footprints,
  workflows: PartialBook["runs"],
): Readonly<Record<string, unknown>> {
  const measured = Object.entries(footprints).flatMap(([name, list]) =>
    list.map(({ peakBytes, steadyBytes, contextLength, parallel, process }) => ({
      name,
      peak_gb: toGib(peakBytes),
      steady_gb: toGib(steadyBytes),
      context_length: contextLength,
      parallel,
      pid: process?.pid ?? null,
      start_time: process?.startTime ?? null,
    }))
  );
  const runs = Object.entries(workflows).flatMap(([workflow, list]) =>
    list.map(({ peakBytes, stepMs }) => ({ workflow, peak_gb: toGib(peakBytes), step_ms: round(stepMs) }))
  );
  const names = [...new Set([...Object.keys(footprints), ...Object.keys(workflows)])];
  return { measured, runs, message: `Measured what was taken by ${names.join("; ")}` };
}

function rowsIn(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  if (!Array.isArray(value)) return [];
  return value.filter((row) => typeof row === "object" && row !== null);
}

function measurementFrom(row: Readonly<Record<string, unknown>>): Measurement | null {
  const peakBytes = bytesFrom(row["peak_gb"]);
  const [pid, startTime] = [numberFrom(row["pid"]), numberFrom(row["start_time"])];
  if (peakBytes === null) return null;
  return {
    peakBytes,
    steadyBytes: bytesFrom(row["steady_gb"]),
    contextLength: numberFrom(row["context_length"]),
    parallel: numberFrom(row["parallel"]),
    // A runner that outlives our restart is known again, and isn't counted twice.
    process: pid === null || startTime === null ? null : { pid, startTime },
  };
}

/** Footprints from swaps, newest first. Spilled loads don't count. */
function seedFootprints(swaps: readonly HistoryItem[]): Footprints {
  let footprints: Footprints = {};
  for (const { fields } of [...swaps].reverse()) {
    const { model, vram_gb: vramGb, spilled } = fields;
    const bytes = bytesFrom(vramGb);
    if (typeof model !== "string" || bytes === null || bytes <= 0 || spilled === true) continue;
    const shape = { contextLength: numberFrom(fields["context_length"]), parallel: numberFrom(fields["parallel"]) };
    const measured = { peakBytes: bytes, steadyBytes: bytes, ...shape, process: null };
    footprints = remember(footprints, { key: canonical(model), measured });
  }
  return footprints;
}

function bytesFrom(gib: unknown): Bytes | null {
  return typeof gib === "number" ? Math.round(gib * GIB) : null;
}

function numberFrom(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}
