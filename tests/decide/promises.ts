/** What is promised of every history, and what may happen in one. */
import assert from "node:assert/strict";
import type { ArbiterState, Holder, LaneJob } from "../../lib/decide/arbiter_state.ts";
import { isAutomatic } from "../../lib/decide/lane.ts";
import { type ArbiterEffect, type ArbiterEvent, GENERATIONS_PER_JOB, NO_JOB } from "../../lib/model/events.ts";
import { COMFY_SERVER, gib, policy } from "./stories.ts";
import { type Judge, World } from "./world.ts";
import { MODELS } from "./world_models.ts";

const SLACK = policy().yield.slackBytes;

export interface Choice {
  readonly what: number;
  readonly which: number;
  readonly ms: number;
}

/** Holds a history against the promises of DESIGN 2 and SPEC 2. */
export class Promises implements Judge {
  world: World | null = null;
  readonly asked = new Set<string>();
  readonly answers = new Map<string, number>();
  readonly #loadsOf = new Map<number, number>();
  readonly #records = new Set<string>();
  readonly #blinded = new Set<string>();
  #isOpen = false;
  #isStopped = false;

  onStep({ before, after, event, effects }: Parameters<Judge["onStep"]>[0]): void {
    if (this.#isStopped) assert.deepEqual(effects, [], "an effect after stopped");
    if (event.type === "stopped") this.#isStopped = true;
    this.#noteBlindness(before, event);
    for (const effect of effects) this.#judge(effect, { before, after });
    this.#judgeSize(after);
  }

  #noteBlindness({ holder }: ArbiterState, event: ArbiterEvent): void {
    const isBlind = event.type === "barrierLost" || event.type === "sampled" && !event.sample.gpu.available;
    if (isBlind && holder !== null && isMeasuring(holder.job)) this.#blinded.add(partOf(holder));
  }

  #judge(effect: ArbiterEffect, step: { readonly before: ArbiterState; readonly after: ArbiterState }): void {
    switch (effect.kind) {
      case "openBarrier":
      case "closeBarrier":
        assert.equal(this.#isOpen, effect.kind === "closeBarrier", `${effect.kind} twice in a row`);
        this.#isOpen = !this.#isOpen;
        return;
      case "freeComfy":
        assert.ok((step.after.comfy.queueRemaining ?? 0) === 0, "/free while the queue is known to have work");
        return this.#judgeCause(effect, step);
      case "load": {
        const job = Math.floor(effect.generation / GENERATIONS_PER_JOB);
        const loads = (this.#loadsOf.get(job) ?? 0) + 1;
        this.#loadsOf.set(job, loads);
        assert.ok(loads <= 2, "more than one retry");
        return this.#judgeCause(effect, step);
      }
      case "unload":
        return this.#judgeCause(effect, step);
      case "record":
        assert.ok(!this.#records.has(effect.key) || effect.key.startsWith("note-") || effect.key.startsWith("mode-"));
        this.#records.add(effect.key);
        return this.#judgeRecord(effect, step.before);
      case "amend":
        assert.ok(this.#records.has(effect.key), `${effect.key} is completed, but was never recorded`);
        return;
      case "resolve":
        this.answers.set(effect.requestId, (this.answers.get(effect.requestId) ?? 0) + 1);
        assert.equal(this.answers.get(effect.requestId), 1, "a request was answered twice");
        return;
      default:
        return;
    }
  }

  /** Nothing is released before it is: by the driver's own book, not by what anybody said. */
  #judgeRecord({ item }: Extract<ArbiterEffect, { kind: "record" }>, { holder }: ArbiterState): void {
    if (item.fields["outcome"] !== "released" || this.world === null) return;
    assert.ok(holder === null || !this.#blinded.has(partOf(holder)), "released, though the driver was lost meanwhile");
    if (item.kind === "purge") {
      const held = this.world.heldWhenSent.get(holder === null ? -1 : generationOf(holder.job)) ?? 0;
      return assert.ok(this.world.card.comfyBytes < held, "ComfyUI's memory hasn't fallen since /free went out");
    }
    // The record's own field, written by arbiter_records.
    for (const pid of item.fields["pids"] as readonly number[]) {
      const bytes = this.world.card.unfreedBytes(pid);
      assert.ok(bytes <= SLACK, `released, but ${bytes} bytes of pid ${pid} are still used`);
    }
  }

  /** What nobody asked for moves memory in mode auto only. */
  #judgeCause(
    effect: Extract<ArbiterEffect, { kind: "unload" | "freeComfy" | "load" }>,
    { before, after }: { readonly before: ArbiterState; readonly after: ArbiterState },
  ): void {
    if (after.mode === "auto") return;
    if (effect.generation === NO_JOB) {
      const isFromAuto = before.watched.some((entry) => entry.isAutomatic && entry.needsUnload);
      const isFromAsked = before.watched.some((entry) => !entry.isAutomatic && entry.needsUnload);
      return assert.ok(isFromAsked || !isFromAuto, `${effect.kind} by itself in mode ${after.mode}`);
    }
    const owns = (holder: Holder | null) =>
      holder !== null && effect.generation >= holder.job.generation &&
      effect.generation < holder.job.generation + GENERATIONS_PER_JOB;
    const owner = [after.holder, before.holder].find(owns) ?? null;
    assert.ok(owner !== null, `nobody's ${effect.kind}`);
    assert.ok(!isAutomatic(owner), `${effect.kind} by itself in mode ${after.mode}`);
  }

  #judgeSize(state: ArbiterState): void {
    assert.ok(state.watched.length <= 32 && state.waiting.length <= this.asked.size + 1);
    const { holder } = state;
    if (holder?.job.kind !== "yield") return;
    assert.ok(holder.job.views.length <= 2 && holder.job.unloads.length <= MODELS.length);
  }
}

/** A purge measures from the moment it asks; before that a loss costs it nothing. */
function isMeasuring(job: LaneJob): boolean {
  if (job.kind === "switch") {
    return (job.step.name === "yield" || job.step.name === "purge") && isMeasuring(job.step.job);
  }
  if (job.kind === "reload") return "job" in job.step && isMeasuring(job.step.job);
  if (job.kind === "requestVram") return job.purge !== null && isMeasuring(job.purge);
  if (job.kind === "endRunner" || job.kind === "hold") return true;
  return job.kind === "yield" || job.phase !== "quiet";
}

/** Of the purge under way, wherever it runs. */
function generationOf(job: LaneJob): number {
  if (job.kind === "reload") return "job" in job.step ? generationOf(job.step.job) : job.generation;
  return job.kind === "switch" ? job.generation + job.substep : job.generation;
}

/** Names the part of a job that is under way: a switch yields, purges and loads one after the other. */
function partOf({ job }: Holder): string {
  if (job.kind === "reload") return `${job.generation}-${generationOf(job)}`;
  return `${job.generation}-${job.kind === "switch" ? job.substep : 0}`;
}

/** What may happen next, by number. Frequent things stand more than once. */
export const CHOICES: readonly ((world: World, choice: Choice, promises: Promises) => void)[] = [
  (world, { ms }) => world.advance(ms),
  (world, { ms }) => world.advance(ms),
  (world, { ms }) => world.advance(ms * 5),
  // Long enough for what is stuck to be called a fault.
  (world, { ms }) => world.advance(ms * 20),
  (world) => world.setQueue(1),
  (world) => world.setQueue(0),
  (world) => world.setQueue(world.queue + 1),
  (world, { ms }) => world.runOwnPrompt(ms * 10),
  (world, { which }) => world.load(MODELS[which % MODELS.length]?.[0] ?? "", null),
  (world, { which }) => world.load(MODELS[which % MODELS.length]?.[0] ?? "", null),
  (world, { which }) => endSomebody(world, "ollama", which),
  // A runner crashes and stays listed.
  (world, { which }) => {
    const pid = pick(world, "ollama", which);
    const model = pid === null ? undefined : world.children.get(pid)?.model;
    if (pid !== null) world.exit(pid);
    if (model !== undefined) world.ghosts.add(model);
  },
  // A request keeps a runner busy.
  (world, { which, ms }) => {
    const child = world.children.get(pick(world, "ollama", which) ?? -1);
    if (child !== undefined) child.busyUntilMs = world.nowMs + ms * 10;
  },
  (world) => {
    for (const child of world.children.values()) child.isStuck = false;
  },
  (world, { ms }) => world.card.allocate(world.spawn("unmanaged"), ms * 2 ** 22),
  (world, { which, ms }) => world.card.allocate(pick(world, "unmanaged", which) ?? -1, ms * 2 ** 22),
  (world, { which }) => shrink(world, which),
  (world, { which }) => endSomebody(world, "unmanaged", which),
  (world) => {
    const blind = [...world.card.processes.values()].filter((process) => process.isBlind);
    if (blind.length < 2) world.card.allocate(world.spawn("desktop", true), gib(0.2));
  },
  (world, { which }) => endSomebody(world, "desktop", which),
  (world, _choice, promises) => ask(world, { kind: "yield", models: null, confirm: true }, promises),
  (world, { which }, promises) => {
    const name = MODELS[which % MODELS.length]?.[0] ?? "";
    ask(world, { kind: "yield", models: [name], confirm: which % 2 === 0 }, promises);
  },
  (world, { which }, promises) => ask(world, { kind: "purge", confirm: which % 3 > 0 }, promises),
  (world, { which }, promises) => ask(world, { kind: "requestVram", neededBytes: gib(which + 1) }, promises),
  (world, { which }, promises) => askSwitch(world, which, promises),
  (world, { which }, promises) => askSwitch(world, which, promises),
  (world, { which }, promises) => {
    const id = [...promises.asked].at(-1 - which);
    if (id !== undefined) world.send({ type: "cancelled", requestId: id });
  },
  (world, { which }) => {
    const mode = (["auto", "auto", "observe", "paused"] as const)[which % 4] ?? "auto";
    world.send({ type: "modeSet", change: { mode, untilMs: null, keep: which > 5 ? ["gamma"] : [] } });
  },
  // Its owner ends what was reported as stuck, or a process that never was.
  (world, { which }, promises) => {
    const [first] = world.state.stuck;
    const process = which > 8 || first === undefined ? { pid: 101, startTime: 1 } : first.process;
    ask(world, { kind: "endRunner", process, model: first?.model ?? null }, promises);
  },
  (world) => world.loseGpu(),
  (world) => void (world.gpuKind = "there"),
  (world) => void (world.gpuKind = "there"),
  (world, { which }) => void (world.isProcOk = which > 1),
  (world, { which }) => void (world.isPsSilent = which < 2),
];

type Asked<R = Extract<ArbiterEvent, { type: "requested" }>["request"]> = R extends unknown ? Omit<R, "id"> : never;

function ask(world: World, request: Asked, promises: Promises): void {
  // A longer queue tells nothing more, and takes minutes to serve.
  if (world.state.waiting.length >= 4) return;
  const id = `request-${promises.asked.size}`;
  promises.asked.add(id);
  // The id completes the request; the union's members are otherwise unchanged.
  const whole = { ...request, id } as Extract<ArbiterEvent, { type: "requested" }>["request"];
  world.send({ type: "requested", operation: request.kind, request: whole });
}

function askSwitch(world: World, which: number, promises: Promises): void {
  const model = MODELS[which % MODELS.length]?.[0] ?? "";
  ask(world, { kind: "switch", model, keepAlive: "30m", prompt: null }, promises);
}

function pick(world: World, bucket: string, which: number): number | null {
  const pids = [...world.card.processes].filter(([, process]) => process.bucket === bucket).map(([pid]) => pid);
  return pids[which % Math.max(1, pids.length)] ?? null;
}

function endSomebody(world: World, bucket: string, which: number): void {
  const pid = pick(world, bucket, which);
  if (pid !== null) world.exit(pid);
}

function shrink(world: World, which: number): void {
  const process = world.card.processes.get(pick(world, "unmanaged", which) ?? -1);
  if (process !== undefined) process.bytes = Math.floor(process.bytes / 2);
}

/** Everything that was in the way goes, so that whatever is still open has to come to its end. */
function calm(world: World): void {
  world.isCalm = true;
  world.gpuKind = "there";
  world.isProcOk = true;
  world.isPsSilent = false;
  for (const child of world.children.values()) {
    child.isStuck = false;
    child.busyUntilMs = 0;
  }
  world.setQueue(0);
  for (let seconds = 0; seconds < 600 && world.state.holder !== null; seconds++) world.advance(1_000);
}

/** `alsoTo` hears every step, too. */
export function live(seed: number, choices: readonly Choice[], alsoTo: Judge | null = null): void {
  const promises = new Promises();
  const judge: Judge = {
    onStep(step) {
      promises.onStep(step);
      alsoTo?.onStep(step);
    },
  };
  const base = policy({ mayEndRunners: true, load: { ...policy().load, deadlineMs: 4_000 } });
  const world = new World({ seed, policy: { ...base, purge: { ...base.purge, idleMs: 3_000 } }, judge });
  promises.world = world;
  for (const choice of choices) CHOICES[choice.what % CHOICES.length]?.(world, choice, promises);
  calm(world);
  for (const id of promises.asked) assert.equal(promises.answers.get(id), 1, `${id} was never answered`);
  assert.deepEqual([world.state.holder, world.state.waiting], [null, []]);
  world.send({ type: "stopped" });
  for (const what of CHOICES.keys()) CHOICES[what]?.(world, { what, which: 1, ms: 50 }, new Promises());
  assert.ok(world.card.comfyBytes <= gib(16) && world.card.processes.has(COMFY_SERVER.pid));
}
