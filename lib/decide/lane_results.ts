/** What is kept of a yield, a purge and a swap when they end: their records, and what was learned from them. */
import {
  type ArbiterReply,
  causeWord,
  type PurgeResult,
  type SwitchResult,
  type YieldResult,
} from "../model/arbitration.ts";
import type { ArbiterEffect, Generation } from "../model/events.ts";
import { canonical } from "../model/model_names.ts";
import type { MonotonicMs } from "../model/units.ts";
import { endRecord, purgeRecord, swapRecord, yieldRecord } from "./arbiter_records.ts";
import type { ArbiterState, ArbiterStep, LaneJob } from "./arbiter_state.ts";
import { noteLoad } from "./calibration.ts";
import { openWindow } from "./creep_back.ts";
import { learn } from "./footprint_watch.ts";
import type { Moved } from "./lane.ts";
import type { PurgeJob } from "./purge_job.ts";
import type { ReloadJob } from "./reload_job.ts";
import { noteReload, noteTried } from "./spill.ts";
import { noteStuck } from "./stuck.ts";
import { mergeWatched, watchHeld } from "./watched.ts";

interface Ending {
  /** Somebody waits for the job's answer. */
  readonly isAsked: boolean;
  readonly atMs: MonotonicMs;
}

/** Names a job's record, so that what becomes known later can be added to it. */
export function recordKey(generation: Generation, kind: "yield" | "purge" | "swap" | "end"): string {
  return `job-${generation}-${kind}`;
}

export function keepResults(state: ArbiterState, moved: Moved, { isAsked, atMs }: Ending): ArbiterStep {
  const { job, reply, yielded, purged } = moved;
  const effects: ArbiterEffect[] = [];
  let next = state;
  if (yielded !== null) {
    const key = recordKey(job.generation, "yield");
    // That nobody was there is an event only for who asked for a yield.
    const isLook = !isAsked || job.kind !== "yield" || yielded.cause.kind === "gate";
    if (yielded.outcome !== "nothing_loaded" || !isLook) {
      effects.push({ kind: "record", key, item: yieldRecord(yielded), reason: yielded.message });
    }
    next = afterYield(withoutReleased(next, yielded), yielded, { key, job, atMs });
  }
  if (purged !== null) {
    const key = recordKey(job.generation, "purge");
    effects.push({ kind: "record", key, item: purgeRecord(purged), reason: purged.message });
    next = afterPurge(next, purged, { key, job });
  }
  if (reply?.kind === "switch") {
    const key = recordKey(job.generation, "swap");
    const { kind, fields } = swapRecord(reply.value);
    const item = { kind, fields: { ...fields, cause: causeWord(job.cause) } };
    effects.push({ kind: "record", key, item, reason: reply.value.verdict });
    const swapped = afterSwap(next, reply.value);
    next = swapped.state;
    effects.push(...swapped.effects);
  }
  if (reply?.kind === "endRunner") {
    const key = recordKey(job.generation, "end");
    effects.push({ kind: "record", key, item: endRecord(reply.value), reason: reply.value.message });
  }
  if (reply !== null && job.kind === "reload") {
    const reloaded = afterReload(next, job, { reply, atMs });
    next = reloaded.state;
    effects.push(...reloaded.effects);
  }
  return { state: next, effects };
}

/** What has just been released is no longer resident, whatever the last sample shows: the next job decides by that. */
function withoutReleased(state: ArbiterState, { outcome, models, pids }: YieldResult): ArbiterState {
  const { sample } = state;
  if (sample === null || outcome !== "released") return state;
  const { resident, runners } = sample.ollama;
  const ollama = {
    ...sample.ollama,
    resident: resident.filter((row) => !models.includes(row.name)),
    runners: runners.filter((runner) => !pids.includes(runner.pid)),
  };
  return { ...state, sample: { ...sample, ollama } };
}

function afterYield(
  state: ArbiterState,
  result: YieldResult,
  { key, job, atMs }: { readonly key: string; readonly job: LaneJob; readonly atMs: MonotonicMs },
): ArbiterState {
  const watched = mergeWatched(state.watched, watchHeld(job, { result, key, atMs }));
  const creep = openWindow(state, job, { result, key });
  const stuck = noteStuck(state.stuck, job, { result, atMs });
  const { margin } = state;
  if (margin?.key !== key) return { ...state, watched, stuck, creep };
  // There was nothing to hand over, so there was no race either.
  if (result.outcome === "nothing_loaded" || result.outcome === "remote") {
    return { ...state, watched, stuck, creep, margin: null };
  }
  const confirmedMs = result.confirmMs === null ? null : job.startedMs + result.confirmMs;
  return {
    ...state,
    watched,
    stuck,
    creep,
    margin: { ...margin, concludedMs: atMs, confirmedMs },
    partials: { ...state.partials, handOffKey: key },
    loserOutUntilMs: atMs + state.policy.margin.loserOutMs,
  };
}

function afterPurge(
  state: ArbiterState,
  result: PurgeResult,
  { key, job }: { readonly key: string; readonly job: LaneJob },
): ArbiterState {
  const purge = purgeIn(job);
  const isOpen = purge?.phase === "asking" && result.outcome === "busy";
  const lateFree = purge !== null && isOpen ? { generation: purge.generation, key } : state.lateFree;
  const server = state.sample?.comfy.server ?? null;
  if (result.outcome !== "released" || result.remainingBytes === null || server === null) return { ...state, lateFree };
  const context = { process: server, bytes: result.remainingBytes };
  // Whatever it had loaded, the next run loads it whole.
  const partials = { ...state.partials, suspect: null };
  return { ...state, lateFree, partials, comfy: { ...state.comfy, context } };
}

function purgeIn(job: LaneJob): PurgeJob | null {
  switch (job.kind) {
    case "purge":
      return job;
    case "requestVram":
      return job.purge;
    case "switch":
      return job.step.name === "purge" ? job.step.job : null;
    case "reload":
      if (job.step.name === "switch") return purgeIn(job.step.job);
      return job.step.name === "purge" ? job.step.job : null;
    case "yield":
    case "endRunner":
    case "hold":
      return null;
  }
}

/** A reload that ended early left its model as it was, or unloaded: either way it is said. */
function afterReload(
  state: ArbiterState,
  job: ReloadJob,
  { reply, atMs }: { readonly reply: ArbiterReply; readonly atMs: MonotonicMs },
): ArbiterStep {
  const { model } = job.request;
  const isUnloaded = job.yielded !== null;
  const isRefused = reply.kind === "refused";
  const hasFreed = job.purged === null || job.purged.outcome === "released" || job.purged.outcome === "nothing_loaded";
  const isOver = isUnloaded || isRefused && (reply.refusal.code === "wont_fit" || !hasFreed);
  const tried = noteTried(state.spills, job.runner, isOver);
  const spills = isUnloaded ? noteReload(tried, model, atMs) : tried;
  const next: ArbiterState = { ...state, spills };
  if (!isRefused) return { state: next, effects: [] };
  const message = `${model} was not reloaded: ${reply.refusal.message}`;
  const fields = { decision: "not_reloaded", cause: causeWord(job.cause), models: [model], message };
  const key = `note-reload-${job.generation}`;
  return { state: next, effects: [{ kind: "record", key, item: { kind: "arbitration", fields }, reason: message }] };
}

function afterSwap(before: ArbiterState, result: SwitchResult): ArbiterStep {
  const { vramBytes, spilled, targetModel, bytesPerSecond, residencyBeforePct, figures } = result;
  const { sizeBytes, isPlain, contextLength, parallel, process } = figures;
  const isResidencyExact = figures.isResidencyExact === true;
  const load = { bytes: sizeBytes, bytesPerSecond, residencyPct: residencyBeforePct, isResidencyExact, isPlain };
  const state = { ...before, loads: noteLoad(before.loads, load) };
  if (vramBytes === null || vramBytes <= 0 || spilled === true) return { state, effects: [] };
  const measured = { peakBytes: vramBytes, steadyBytes: vramBytes, contextLength, parallel, process };
  return learn(state, { key: canonical(targetModel), measured });
}
