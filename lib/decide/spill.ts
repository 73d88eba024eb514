/**
 * Models that lie partly outside VRAM (SPEC 2.3). Ollama loads them without an error and they run ten times slower, so
 * each is told of; room is made from an idle ComfyUI, and it is reloaded once, when its runner does nothing.
 */
import { type ArbiterEffect, type ArbiterEvent, GENERATIONS_PER_JOB } from "../model/events.ts";
import { canonical, isSameModel } from "../model/model_names.ts";
import type { GpuState, Sample } from "../model/sample.ts";
import { isSameProcess, type OllamaState, type ResidentModel, type Runner } from "../model/tenants.ts";
import { type Bytes, type MonotonicMs, toGib } from "../model/units.ts";
import type { ArbiterState, ArbiterStep, Waiting } from "./arbiter_state.ts";
import { describeHolders, fits, freeOf, holdersOf } from "./need.ts";
import { comfyHoldings, holdsModels } from "./purge_job.ts";
import { isRowTaken, matchRows } from "./yield_targets.ts";

/** Below this share of what Ollama says, the driver's bytes contradict it. */
const LEAST_SHARE = 0.8;
/** Samples in a row at which a runner did nothing before it counts as idle. */
const IDLE_SAMPLES = 3;
/** Ticks of CPU time a second that an idle runner may use; Linux counts 100 to the second. */
const IDLE_TICKS = 5;
const IDLE_SM_PCT = 5;
/** A model is reloaded once. If it spills again though ComfyUI has had no work since, not before this … */
const AGAIN_MS = 600_000;
/** … and not more often than this within an hour: its client may want it on the CPU. */
const MOST_RELOADS = 3;
const HOUR_MS = 3_600_000;
/** `keep_alive: -1` is shown as an end some 292 years ahead. */
const FOR_EVER_MS = 100 * 365 * 86_400_000;
const LEAST_KEEP_S = 60;

/** A model that was seen to lie partly outside VRAM. */
export interface Spilled {
  readonly runner: Runner;
  readonly model: string;
  readonly idleSamples: number;
  readonly isTried: boolean;
}

export interface SpillBook {
  readonly seen: readonly Spilled[];
  readonly reloads: readonly { readonly model: string; readonly atMs: MonotonicMs }[];
}

export const NO_SPILLS: SpillBook = { seen: [], reloads: [] };

export interface SpillFacts {
  /** What lies outside VRAM. */
  readonly missingBytes: Bytes;
  /** By whose word, in words. */
  readonly evidence: string;
}

/**
 * What of a model lies outside VRAM; null: nothing, or it can't be told. Where Ollama couldn't read its runner's log,
 * both of its figures are the size of the weights' file, and only the driver knows. Without a card its word means
 * nothing: on a CPU with AMX `size_vram` was seen above 0.
 */
export function spillOf(row: ResidentModel, runner: Runner, { gpu, ollama }: Pick<Sample, "gpu" | "ollama">) {
  if (!gpu.available) return null;
  const { sizeBytes, sizeVramBytes } = row;
  if (sizeVramBytes < sizeBytes) {
    const evidence = `Ollama has ${toGib(sizeVramBytes)} of ${toGib(sizeBytes)} GB in VRAM`;
    return { missingBytes: sizeBytes - sizeVramBytes, evidence } satisfies SpillFacts;
  }
  const driverBytes = gpu.breakdown.processes.find(({ pid }) => pid === runner.pid)?.usedBytes ?? null;
  const isUnread = isFileSize(row, ollama);
  if (!isUnread || driverBytes === null || driverBytes >= sizeBytes * LEAST_SHARE) return null;
  const evidence = `the driver counts ${toGib(driverBytes)} GB for its process, its weights are ${toGib(sizeBytes)} GB`;
  return { missingBytes: sizeBytes - driverBytes, evidence } satisfies SpillFacts;
}

/** A loaded model takes more than its file: a size that isn't more was never read from the runner. */
function isFileSize(row: ResidentModel, { installed }: OllamaState): boolean {
  const file = installed.find(({ name }) => isSameModel(name, row.name))?.sizeBytes ?? null;
  return file !== null && row.sizeBytes === row.sizeVramBytes && row.sizeBytes <= file;
}

/** On each sample: who lies partly outside, what can be done for whom, and when. */
export function mendSpills(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  if (event.type !== "sampled" || state.mode === "paused") return { state, effects: [] };
  const { sample, atMs } = event;
  // What can't be seen for a second is no news, neither good nor bad.
  if (!sample.gpu.available || !sample.sources.processes.ok) return { state, effects: [] };
  const { spills } = state;
  const found = findSpilled(sample);
  if (found.length === 0 && spills.seen.length === 0) return { state, effects: [] };
  const before = (runner: Runner) => spills.seen.find((entry) => isSameProcess(entry.runner, runner));
  const isFound = (entry: Spilled) => found.some(({ runner }) => isSameProcess(runner, entry.runner));
  const isAlive = (entry: Spilled) => sample.ollama.runners.some((runner) => isSameProcess(runner, entry.runner));
  const seen = [
    ...spills.seen.filter((entry) => isAlive(entry) && !isFound(entry)).map((entry) => ({ ...entry, idleSamples: 0 })),
    ...found.map(({ row, runner }) => followed(before(runner), { row, runner }, sample.gpu)),
  ];
  const effects = found.filter(({ runner }) => before(runner) === undefined)
    .map((entry) => tell(state, entry, sample));
  const reloads = spills.reloads.filter((entry) => atMs - entry.atMs < HOUR_MS);
  const next: ArbiterState = { ...state, spills: { seen, reloads } };
  return { state: reloadOne(next, { found, sample, atMs }), effects };
}

interface Found extends SpillFacts {
  readonly row: ResidentModel;
  readonly runner: Runner;
}

function findSpilled(sample: Sample): readonly Found[] {
  const { ollama } = sample;
  if (!ollama.online || ollama.isRemote) return [];
  const rows = matchRows(ollama.runners, ollama.resident, ollama);
  return ollama.runners.flatMap((runner) => {
    const row = rows.get(runner.pid);
    const facts = row === undefined ? null : spillOf(row, runner, sample);
    return row === undefined || facts === null ? [] : [{ ...facts, row, runner }];
  });
}

function followed(
  before: Spilled | undefined,
  { row, runner }: Pick<Found, "row" | "runner">,
  gpu: GpuState,
): Spilled {
  if (before === undefined) return { runner, model: row.name, idleSamples: 0, isTried: false };
  const smPct = gpu.available ? gpu.breakdown.processes.find(({ pid }) => pid === runner.pid)?.smPct ?? 0 : 0;
  const ticks = runner.cpuTicks === null || before.runner.cpuTicks === null
    ? null
    : runner.cpuTicks - before.runner.cpuTicks;
  const isIdle = smPct < IDLE_SM_PCT && ticks !== null && ticks <= IDLE_TICKS;
  return { ...before, runner, idleSamples: isIdle ? before.idleSamples + 1 : 0 };
}

function tell(state: ArbiterState, { row, runner, missingBytes, evidence }: Found, sample: Sample): ArbiterEffect {
  const { pid, startTime } = runner;
  const what = `${row.name} (pid ${pid}) lies partly outside VRAM, where it runs many times slower: ${evidence}`;
  const message = `${what}. ${whatHelps(state, row, missingBytes, sample)}`;
  const fields = {
    decision: "spilled",
    cause: "spilled",
    models: [row.name],
    pid,
    size_gb: toGib(row.sizeBytes),
    size_vram_gb: toGib(row.sizeVramBytes),
    missing_gb: toGib(missingBytes),
    message,
  };
  return { kind: "record", key: `spilled-${pid}-${startTime}`, item: { kind: "arbitration", fields }, reason: message };
}

function whatHelps(state: ArbiterState, ...[row, missingBytes, sample]: [ResidentModel, Bytes, Sample]): string {
  if (!isRowTaken(row, { models: null, keep: state.keep }, sample.ollama)) {
    return "It is kept, so it isn't touched: unload it by hand for a whole load";
  }
  const isWithin = fits(missingBytes, freeOf(sample.gpu), state.policy);
  const isHelped = isWithin || fits(missingBytes, reachableBytes(state, sample), state.policy);
  if (!isHelped) return `No room can be made for the rest: it is held by ${describeHolders(holdersOf(sample.gpu))}`;
  const would = state.mode === "observe" ? "would be" : "is";
  const first = isWithin ? "" : "an idle ComfyUI gives its memory back, and ";
  return `Once its runner does nothing, ${first}it ${would} reloaded, once`;
}

/** Free, and what ComfyUI holds beside its bare context. */
function reachableBytes({ comfy, policy }: ArbiterState, sample: Sample): Bytes | null {
  const freeBytes = freeOf(sample.gpu);
  const { bytes } = comfyHoldings(sample);
  const comfyContextBytes = comfy.context?.bytes ?? null;
  const isHolding = holdsModels({ sample, policy, comfyContextBytes }) === true;
  if (freeBytes === null || bytes === null || !isHolding || sample.comfy.isRemote) return freeBytes;
  return freeBytes + bytes - (comfyContextBytes ?? 0);
}

/** The first that can be reloaded now gets the lane, when nobody else wants it. */
function reloadOne(
  state: ArbiterState,
  { found, sample, atMs }: { readonly found: readonly Found[]; readonly sample: Sample; readonly atMs: MonotonicMs },
): ArbiterState {
  const { holder, waiting, margin, mode, comfy, spills } = state;
  const isQuiet = holder === null && waiting.length === 0 && margin === null && (comfy.queueRemaining ?? 0) === 0;
  if (!isQuiet || mode !== "auto" || atMs < state.loserOutUntilMs || sample.comfy.executing === true) return state;
  const chosen = found.find(({ row, runner, missingBytes }) => {
    const entry = spills.seen.find((other) => isSameProcess(other.runner, runner));
    const isDue = entry !== undefined && !entry.isTried && entry.idleSamples >= IDLE_SAMPLES;
    return isDue && mayReload(state, row.name, atMs) &&
      isRowTaken(row, { models: null, keep: state.keep }, sample.ollama) &&
      fits(missingBytes, reachableBytes(state, sample), state.policy);
  });
  if (chosen === undefined) return state;
  const { row, runner, missingBytes } = chosen;
  const entry: Waiting = {
    kind: "auto",
    job: "reload",
    cause: { kind: "spilled" },
    sinceMs: atMs,
    generation: state.nextGeneration,
    order: {
      request: { model: row.name, keepAlive: keepAliveOf(row, sample, state.policy.load.keepAlive), prompt: null },
      runner,
      missingBytes,
      neededBytes: row.sizeBytes,
    },
  };
  return { ...state, waiting: [entry], nextGeneration: state.nextGeneration + GENERATIONS_PER_JOB };
}

function mayReload({ spills, comfy }: ArbiterState, model: string, atMs: MonotonicMs): boolean {
  const workEndedMs = comfy.idleSinceMs ?? -Infinity;
  const mine = spills.reloads.filter((entry) =>
    canonical(entry.model) === canonical(model) && entry.atMs > workEndedMs
  );
  return mine.length < MOST_RELOADS && mine.every((entry) => atMs - entry.atMs >= AGAIN_MS);
}

/** What was left of its client's keep_alive. */
function keepAliveOf({ expiresAtMs }: ResidentModel, { atMs }: Sample, otherwise: string): string {
  if (expiresAtMs === null) return otherwise;
  const leftMs = expiresAtMs - atMs;
  return leftMs > FOR_EVER_MS ? "-1" : `${Math.max(LEAST_KEEP_S, Math.round(leftMs / 1_000))}s`;
}

/** A reload has unloaded its model: that was its one time, whatever comes of it. */
export function noteReload(book: SpillBook, model: string, atMs: MonotonicMs): SpillBook {
  return { ...book, reloads: [...book.reloads, { model, atMs }] };
}

/** A reload that ended before it touched anything may be tried again at the next idle moment. */
export function noteTried(book: SpillBook, runner: Runner, isOver: boolean): SpillBook {
  const seen = book.seen.map((entry) =>
    isSameProcess(entry.runner, runner) ? { ...entry, idleSamples: 0, isTried: isOver } : entry
  );
  return { ...book, seen };
}
