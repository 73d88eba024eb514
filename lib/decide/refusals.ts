/**
 * Other clients' refused loads (SPEC 2.3). Nobody tells us of them: what is seen is a runner that appears and dies without
 * ever being listed. If its model didn't fit beside what is there, an idle ComfyUI gives its memory back, so that the
 * next try fits. The server's children are read four times a second; what lived shorter stays unseen.
 */
import { type ArbiterEffect, type ArbiterEvent, GENERATIONS_PER_JOB } from "../model/events.ts";
import { isSameModel } from "../model/model_names.ts";
import type { Sample } from "../model/sample.ts";
import { isSameProcess, type ProcessId, type Runner } from "../model/tenants.ts";
import type { Bytes, MonotonicMs } from "../model/units.ts";
import { toGib } from "../model/units.ts";
import type { ArbiterState, ArbiterStep, Waiting } from "./arbiter_state.ts";
import { describeHolders, fits, freeOf, holdersIn, needOf } from "./need.ts";
import { holdsModels } from "./purge_job.ts";
import { matchRows, openRows } from "./yield_targets.ts";

/** A client that tries again and again is told of, and reclaimed for, at most this often. */
const QUIET_MS = 30_000;
/** Runners remembered: a box has a handful. */
const MOST_CHILDREN = 32;

/** A child of Ollama's server, from its birth on. */
interface Child {
  readonly runner: Runner;
  readonly server: ProcessId | null;
  readonly bornMs: MonotonicMs;
  /** It was loaded: its death is no refusal. */
  readonly wasListed: boolean;
  /** Loaded, unloaded or hung up on by us. */
  readonly isOurs: boolean;
}

export interface ChildBook {
  readonly alive: readonly Child[];
  /** Died unlisted; judged at the next sample, which shows whether its server lives and whether it came back. */
  readonly dead: readonly (Child & { readonly diedMs: MonotonicMs })[];
  /** By weights: when a refusal of them was last told of. */
  readonly toldMs: Readonly<Record<string, MonotonicMs>>;
}

export const NO_CHILDREN: ChildBook = { alive: [], dead: [], toldMs: {} };

export function hearRefusals(state: ArbiterState, event: ArbiterEvent): ArbiterStep {
  switch (event.type) {
    case "runnersChanged":
      return { state: follow(state, event.runners, event.atMs), effects: [] };
    case "sampled":
      return judge(state, event.sample, event.atMs);
    default:
      return { state, effects: [] };
  }
}

function follow(state: ArbiterState, runners: readonly Runner[], atMs: MonotonicMs): ArbiterState {
  const { children, sample } = state;
  const server = sample?.ollama.server ?? null;
  const isThere = ({ runner }: Child) => runners.some((other) => isSameProcess(other, runner));
  const alive = children.alive.filter(isThere).map((child) => markOurs(child, state));
  const died = children.alive.filter((child) => !isThere(child)).map((child) => markOurs(child, state));
  const unexplained = died.filter((child) => !child.wasListed && !child.isOurs);
  const born = runners.filter((runner) => !children.alive.some((child) => isSameProcess(child.runner, runner)))
    .map((runner): Child => markOurs({ runner, server, bornMs: atMs, wasListed: false, isOurs: false }, state));
  return {
    ...state,
    children: {
      ...children,
      alive: [...alive, ...born].slice(-MOST_CHILDREN),
      dead: [...children.dead, ...unexplained.map((child) => ({ ...child, diedMs: atMs }))].slice(-MOST_CHILDREN),
    },
  };
}

/** What the lane loads, asks to go or watches is no other client's refusal. */
function markOurs(child: Child, { holder, watched }: ArbiterState): Child {
  if (child.isOurs || child.wasListed) return child;
  const job = holder?.job ?? null;
  const isMoved = job?.kind === "switch" || job?.kind === "reload" || job?.kind === "yield" || job?.kind === "hold";
  const isWatched = watched.some((entry) => isSameProcess(entry.process, child.runner));
  return isMoved || isWatched ? { ...child, isOurs: true } : child;
}

function judge(state: ArbiterState, sample: Sample, atMs: MonotonicMs): ArbiterStep {
  const { children } = state;
  if (children.alive.length === 0 && children.dead.length === 0) return { state, effects: [] };
  const { runners, resident } = sample.ollama;
  const rows = matchRows(runners, resident, sample.ollama);
  // A row whose weights aren't known may be anybody's.
  const isOpen = openRows(resident, rows, sample.ollama).length > 0;
  const alive = children.alive.map((child) =>
    isOpen || rows.has(child.runner.pid) ? { ...child, wasListed: true } : child
  );
  let next: ArbiterState = { ...state, children: { ...children, alive, dead: [] } };
  const effects: ArbiterEffect[] = [];
  for (const child of children.dead) {
    if (hasOtherCause(child, sample)) continue;
    const step = answer(next, child, { sample, atMs });
    next = step.state;
    effects.push(...step.effects);
  }
  return { state: next, effects };
}

/** Its server went, or the model is there after all: Ollama tries again by itself after evicting others. */
function hasOtherCause({ runner, server }: Child, { ollama }: Sample): boolean {
  const isSameServer = ollama.online && server !== null && ollama.server !== null &&
    isSameProcess(server, ollama.server);
  const isBack = ollama.runners.some(({ blob, modelName }) => blob === runner.blob && modelName === runner.modelName);
  return !isSameServer || ollama.isRemote || isBack ||
    modelOf(runner, ollama, ollama.resident.map(({ name }) => name)) !== null;
}

/** What its weights are installed as, among those names. */
function modelOf(runner: Runner, names: Sample["ollama"], among: readonly string[] | null = null): string | null {
  const isIn = (name: string) => among === null || among.some((other) => isSameModel(other, name));
  if (runner.modelName !== null) return isIn(runner.modelName) ? runner.modelName : null;
  const { blob } = runner;
  const found = names.installed.find(({ digest, name }) =>
    blob !== null && (names.blobsByDigest[digest] ?? []).includes(blob) && isIn(name)
  );
  return found?.name ?? null;
}

function answer(
  state: ArbiterState,
  child: Child & { readonly diedMs: MonotonicMs },
  { sample, atMs }: { readonly sample: Sample; readonly atMs: MonotonicMs },
): ArbiterStep {
  // Where the card can't be read, nobody can say that it was full.
  if (freeOf(sample.gpu) === null) return { state, effects: [] };
  const { runner } = child;
  const model = modelOf(runner, sample.ollama);
  const needBytes = needed(state, model, sample);
  // There was room for it: whatever it died of, memory of the card isn't it.
  if (fits(needBytes, freeOf(sample.gpu), state.policy)) return { state, effects: [] };
  const key = runner.blob ?? runner.modelName ?? "unknown";
  const toldMs = state.children.toldMs[key];
  const isQuiet = toldMs !== undefined && atMs - toldMs < QUIET_MS;
  if (isQuiet || state.mode === "paused") return { state, effects: [] };
  const choice = choose(state, sample);
  const lived = Math.round(child.diedMs - child.bornMs);
  const size = needBytes === null ? "" : `, which needs about ${toGib(needBytes)} GB,`;
  const message = `A load of ${model ?? "an unknown model"}${size} by another client seems to have been refused: its ` +
    `runner (pid ${runner.pid}) died unlisted. ${choice.message}`;
  const fields = {
    decision: "refused_elsewhere",
    cause: "refused_elsewhere",
    models: model === null ? [] : [model],
    pid: runner.pid,
    lived_ms: lived,
    needed_gb: toGib(needBytes),
    free_gb: toGib(freeOf(sample.gpu)),
    message,
  };
  const next: ArbiterState = {
    ...state,
    children: { ...state.children, toldMs: { ...recent(state.children.toldMs, atMs), [key]: atMs } },
  };
  return {
    state: choice.isPurge ? enqueuePurge(next, atMs) : next,
    effects: [{
      kind: "record",
      key: `refused-${runner.pid}-${runner.startTime}`,
      item: { kind: "arbitration", fields },
      reason: message,
    }],
  };
}

function recent(toldMs: ChildBook["toldMs"], atMs: MonotonicMs): ChildBook["toldMs"] {
  return Object.fromEntries(Object.entries(toldMs).filter(([, ms]) => atMs - ms < QUIET_MS));
}

/** Measured or configured; else its files, which is less than it takes. Null: not known. */
function needed({ policy, footprints }: ArbiterState, model: string | null, { ollama }: Sample): Bytes | null {
  if (model === null) return null;
  const installed = ollama.installed.find(({ name }) => isSameModel(name, model));
  return needOf(model, policy, footprints) ?? installed?.sizeBytes ?? null;
}

function choose(state: ArbiterState, sample: Sample): { readonly isPurge: boolean; readonly message: string } {
  const { comfy, policy, mode } = state;
  const stays = (message: string) => ({ isPurge: false, message });
  if ((comfy.queueRemaining ?? 0) > 0 || sample.comfy.executing === true) {
    return stays("ComfyUI is executing and isn't touched");
  }
  const isHolding = holdsModels({ sample, policy, comfyContextBytes: comfy.context?.bytes ?? null });
  const isReachable = sample.comfy.online && !sample.comfy.isRemote;
  if (!isReachable || isHolding !== true) {
    return stays(`ComfyUI has nothing to give; the card is held by ${describeHolders(holdersIn(sample))}`);
  }
  if (mode !== "auto") return stays("ComfyUI is idle and would be purged (mode observe)");
  return { isPurge: true, message: "ComfyUI is idle and gives its memory back, so that the next try fits" };
}

/** Once: a purge that waits or runs already serves this load, too. */
function enqueuePurge(state: ArbiterState, atMs: MonotonicMs): ArbiterState {
  const isComing = state.holder?.job.kind === "purge" ||
    state.waiting.some((entry) => entry.kind === "auto" && entry.job === "purge");
  if (isComing) return state;
  const { comfy, nextGeneration: generation } = state;
  const entry: Waiting = {
    kind: "auto",
    job: "purge",
    cause: { kind: "refused_elsewhere" },
    sinceMs: atMs,
    generation,
  };
  return {
    ...state,
    comfy: { ...comfy, purgeTriedForMs: comfy.idleSinceMs },
    waiting: [...state.waiting, entry],
    nextGeneration: generation + GENERATIONS_PER_JOB,
  };
}
