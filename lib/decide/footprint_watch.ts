/**
 * Footprints are learned of whatever is loaded, not only of our own loads: each second shows what every runner holds. A
 * stay counts once it has come to rest, and what it takes later on corrects it. A need that was too small is a miss: it
 * is counted, and said.
 */
import type { ArbiterEffect, ArbiterEvent } from "../model/events.ts";
import { canonical } from "../model/model_names.ts";
import { isSameProcess, type ResidentModel, type Runner } from "../model/tenants.ts";
import { type Bytes, toGib } from "../model/units.ts";
import type { ArbiterState, ArbiterStep } from "./arbiter_state.ts";
import { counting, isAlike, knownNeed, type Measurement, remember } from "./footprint.ts";
import { spillOf } from "./spill.ts";
import { matchRows } from "./yield_targets.ts";

/** Within this much it holds what it held a second ago. */
const LEVEL_BYTES = 64 * 2 ** 20;

/** What each runner held a second ago, by pid and start time. */
export type SeenBytes = Readonly<Record<string, Bytes>>;

/** One second: what each listed model holds, once it holds still. */
export function watchFootprints(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  if (event.type !== "sampled" || !event.sample.gpu.available) return { state, effects: [] };
  const { gpu: { breakdown }, ollama } = event.sample;
  const seen: Record<string, Bytes> = {};
  const effects: ArbiterEffect[] = [];
  let next = state;
  for (const [pid, row] of matchRows(ollama.runners, ollama.resident, ollama)) {
    const runner = ollama.runners.find((entry) => entry.pid === pid);
    const bytes = breakdown.processes.find((process) => process.pid === pid)?.usedBytes ?? null;
    if (runner === undefined || bytes === null || bytes <= 0) continue;
    // Half a model's footprint says nothing of what the whole one needs.
    if (spillOf(row, runner, event.sample) !== null) continue;
    const key = `${pid} ${runner.startTime}`;
    seen[key] = bytes;
    const before = state.seenBytes[key];
    if (before === undefined || Math.abs(bytes - before) > LEVEL_BYTES) continue;
    const step = correct(next, { runner, row, bytes });
    next = step.state;
    effects.push(...step.effects);
  }
  return { state: { ...next, seenBytes: seen }, effects };
}

function correct(
  state: ArbiterState,
  { runner, row, bytes }: { readonly runner: Runner; readonly row: ResidentModel; readonly bytes: Bytes },
): ArbiterStep {
  const key = canonical(row.name);
  const { pid, startTime } = runner;
  const known = (state.footprints[key] ?? []).find(({ process }) => process !== null && isSameProcess(process, runner));
  const isKnown = known !== undefined && known.peakBytes >= bytes && known.steadyBytes !== null &&
    Math.abs(known.steadyBytes - bytes) <= LEVEL_BYTES;
  if (isKnown) return { state, effects: [] };
  const measured: Measurement = {
    peakBytes: Math.max(bytes, known?.peakBytes ?? 0),
    steadyBytes: bytes,
    contextLength: row.contextLength,
    parallel: runner.parallel ?? null,
    process: { pid, startTime },
  };
  return learn(state, { key, measured });
}

/** Keeps a measurement; one above what was reckoned with, and the headroom, is a miss. */
export function learn(
  state: ArbiterState,
  { key, measured }: { readonly key: string; readonly measured: Measurement },
): ArbiterStep {
  const { footprints, misses, policy } = state;
  const next: ArbiterState = { ...state, footprints: remember(footprints, { key, measured }) };
  const past = counting(footprints, key);
  const need = knownNeed(footprints, key);
  const last = past.at(-1);
  const { process } = measured;
  const isCounted = process !== null && past.some((one) => one.process !== null && isSameProcess(one.process, process));
  const isMiss = need !== null && last !== undefined && isAlike(last, measured) && !isCounted &&
    measured.peakBytes > need + policy.yield.headroomBytes;
  if (!isMiss) return { state: next, effects: [] };
  const message = `${key} took ${toGib(measured.peakBytes)} GB, where ${toGib(need)} GB were reckoned with ` +
    `(the most of ${past.length}): it is reckoned with from now on`;
  const fields = {
    decision: "footprint_missed",
    models: [key],
    needed_gb: toGib(measured.peakBytes),
    reckoned_gb: toGib(need),
    n: past.length,
    message,
  };
  const count = (misses[key] ?? 0) + 1;
  return {
    state: { ...next, misses: { ...misses, [key]: count } },
    effects: [{
      kind: "record",
      key: `note-miss-${key}-${count}`,
      item: { kind: "arbitration", fields },
      reason: message,
    }],
  };
}
