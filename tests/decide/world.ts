/**
 * A small machine that reacts to the arbiter's effects: releases come late, sometimes never; a process may leave the
 * driver's list before its memory is back; NVML gets lost; a third party allocates and frees. It knows the truth, so
 * that a history can be held against it. Seeded: the same choices give the same history.
 */
import { reduceArbiter } from "../../lib/decide/arbiter.ts";
import { type ArbiterState, initialArbiter } from "../../lib/decide/arbiter_state.ts";
import { Random } from "../../lib/lab/random.ts";
import type { ArbiterEffect, ArbiterEvent, FreeReply, LoadOutcome } from "../../lib/model/events.ts";
import type { Policy } from "../../lib/model/policy.ts";
import type { GpuState, Sample } from "../../lib/model/sample.ts";
import type { Bucket, ResidentModel, Runner } from "../../lib/model/tenants.ts";
import {
  absent,
  card,
  comfy,
  COMFY_SERVER,
  gib,
  ollama,
  RESIDUAL_BYTES,
  row,
  runner,
  START_MS,
  WALL_OFFSET_MS,
} from "./stories.ts";
import { WorldCard } from "./world_card.ts";
import { canonicalOf, loaded, sizeOf } from "./world_models.ts";

interface Child {
  readonly runner: Runner;
  readonly model: string;
  isListed: boolean;
  isStuck: boolean;
  busyUntilMs: number;
}

interface Load {
  readonly generation: number | null;
  readonly pid: number;
  isOver: boolean;
}

interface Free {
  readonly generation: number;
  isOver: boolean;
}

/** What happened, for the one who judges. */
export interface Judge {
  /** Before anything comes of it. */
  onStep(
    step: { before: ArbiterState; after: ArbiterState; event: ArbiterEvent; effects: readonly ArbiterEffect[] },
  ): void;
}

type Unstamped<E = ArbiterEvent> = E extends ArbiterEvent ? Omit<E, "atMs"> : never;

export class World {
  nowMs = START_MS;
  state: ArbiterState;
  readonly random: Random;
  readonly card = new WorldCard(START_MS);
  readonly children = new Map<number, Child>();
  /** Models that Ollama lists though their runner crashed. */
  readonly ghosts = new Set<string>();
  /** Runners whose model lies half outside VRAM. */
  readonly spilled = new Set<number>();
  queue = 0;
  /** What ComfyUI held when each purge's first /free went out, by the driver's book or its last word before, by generation. */
  readonly heldWhenSent = new Map<number, number>();
  #lastReadBytes = 0;
  gpuKind: "there" | "wedged" = "there";
  isOwnOpen = false;
  isProcOk = true;
  isPsSilent = false;
  /** Nothing new goes wrong any more. */
  isCalm = false;
  readonly #judge: Judge;
  readonly #loads: Load[] = [];
  readonly #frees: Free[] = [];
  #timers: { readonly atMs: number; readonly run: () => void }[] = [];
  #mailbox: ArbiterEvent[] = [];
  #isDraining = false;
  #nextSampleMs = START_MS;
  #nextReadingMs = Infinity;
  #nextLookMs = START_MS + 130;
  #lastLook = "";

  constructor({ seed, policy, judge }: { readonly seed: number; readonly policy: Policy; readonly judge: Judge }) {
    this.random = new Random(seed);
    this.state = initialArbiter(policy);
    this.#judge = judge;
    this.advance(1);
  }

  #rows(): readonly ResidentModel[] {
    const listed = [...this.children.values()].filter((child) => child.isListed).map((child) => child.model);
    return [...new Set([...listed, ...this.ghosts])].map((name) => this.#row(name));
  }

  /** A ghost's figures are what they were; a model that spilled shows less in VRAM than it is. */
  #row(name: string): ResidentModel {
    const pid = [...this.children].find(([, child]) => child.model === name)?.[0];
    const isSpilled = pid !== undefined && this.spilled.has(pid);
    return row(name, { sizeBytes: sizeOf(name), sizeVramBytes: isSpilled ? sizeOf(name) / 2 : sizeOf(name) });
  }

  #runners(): readonly Runner[] {
    return this.isProcOk ? [...this.children.values()].map((child) => child.runner) : [];
  }

  #gpu(): GpuState {
    if (this.gpuKind !== "there") return absent(this.gpuKind);
    return card(this.card.held(), RESIDUAL_BYTES + this.card.hiddenBytes());
  }

  #sample(): Sample {
    const ok = { ok: true, durationMs: 1, lastOkAtMs: null, lastError: null };
    const resident = this.#rows();
    return {
      seq: 1,
      atMs: this.nowMs + WALL_OFFSET_MS,
      monotonicMs: this.nowMs,
      simulated: true,
      gpu: this.#gpu(),
      memory: null,
      ollama: ollama({ resident, runners: this.#runners() }),
      comfy: comfy({ queueRemaining: this.queue, executing: this.queue > 0 }),
      sources: { nvml: ok, meminfo: ok, processes: { ...ok, ok: this.isProcOk }, ollama: ok, comfyui: ok },
    };
  }

  spawn(bucket: Bucket, isBlind = false): number {
    return this.card.spawn(bucket, { isBlind, nowMs: this.nowMs });
  }

  /** A process ends: at once, or with its memory coming back after it has left the driver's list. */
  exit(pid: number): void {
    const process = this.card.processes.get(pid);
    if (process === undefined) return;
    const child = this.children.get(pid);
    this.children.delete(pid);
    if (child !== undefined) this.ghosts.delete(child.model);
    // Only who was seen by a sample may leave like that: nothing on earth could tell what was never looked at.
    const isSeen = process.sinceMs < this.#nextSampleMs - 1_000;
    const isLingering = isSeen && !process.isBlind && this.random.next() < 0.5;
    this.card.remove(pid, isLingering);
    if (isLingering) this.#after(this.random.whole(1, 170), () => this.card.settle(pid));
  }

  /** Ollama begins to load a model: its child, its memory, its row. */
  load(model: string, generation: number | null): void {
    const hasIt = [...this.children.values()].some((child) => child.model === model);
    const reply = (outcome: LoadOutcome) => {
      if (generation !== null) this.send({ type: "loadEnded", generation, outcome });
    };
    if (hasIt) return this.#after(5, () => reply(loaded(4)));
    const pid = this.spawn("ollama");
    const load: Load = { generation, pid, isOver: false };
    this.#loads.push(load);
    const child: Child = { runner: runner(pid, model), model, isListed: false, isStuck: false, busyUntilMs: 0 };
    this.children.set(pid, child);
    const takesMs = this.random.whole(260, 2_500);
    const fate = this.random.next();
    this.#after(this.random.whole(5, 200), () => {
      const isWhole = fate < 0.8 && this.card.allocate(pid, sizeOf(model));
      const isThere = isWhole || this.card.allocate(pid, sizeOf(model) / 2);
      if (isThere && !isWhole) this.spilled.add(pid);
      if (isThere && fate > 0.1 || load.isOver) return;
      if (fate < 0.03) return;
      load.isOver = true;
      this.exit(pid);
      reply({ ok: false, message: "cudaMalloc failed: out of memory", isOutOfMemory: true, isUnknownModel: false });
    });
    this.#after(takesMs, () => {
      if (load.isOver || !this.children.has(pid) || fate < 0.03) return;
      load.isOver = true;
      child.isListed = true;
      this.ghosts.delete(model);
      reply(loaded(takesMs));
    });
  }

  setQueue(count: number): void {
    this.queue = count;
    this.send({ type: "comfyActivity", queueRemaining: count });
    if (count > 0) {
      this.#after(
        this.random.whole(47, 900),
        () => this.card.allocate(COMFY_SERVER.pid, gib(this.random.pick([0.5, 2, 5]))),
      );
    }
  }

  /** A prompt of our own, posted to an empty queue: told of before it is, and again when it has ended. */
  runOwnPrompt(ms: number): void {
    if (this.isOwnOpen || this.queue > 0) return;
    this.isOwnOpen = true;
    this.send({ type: "ownPrompt", isOpen: true });
    this.setQueue(this.queue + 1);
    this.#after(ms, () => {
      this.isOwnOpen = false;
      this.send({ type: "ownPrompt", isOpen: false });
      this.setQueue(Math.max(0, this.queue - 1));
    });
  }

  loseGpu(): void {
    this.gpuKind = "wedged";
    if (this.state.isBarrierOpen) this.send({ type: "barrierLost", reason: "a driver call is overdue" });
  }

  advance(ms: number): void {
    const endMs = this.nowMs + ms;
    while (true) {
      const timer = this.#timers.reduce((least, entry) => Math.min(least, entry.atMs), Infinity);
      const nextMs = Math.min(timer, this.#nextSampleMs, this.#nextLookMs, this.#nextReadingMs, endMs);
      this.nowMs = Math.max(this.nowMs, nextMs);
      const due = this.#timers.filter((entry) => entry.atMs <= this.nowMs);
      this.#timers = this.#timers.filter((entry) => entry.atMs > this.nowMs);
      for (const entry of due) entry.run();
      if (this.#nextLookMs <= this.nowMs) this.#lookAtRunners();
      if (this.#nextSampleMs <= this.nowMs) {
        this.#nextSampleMs += 1_000;
        this.send({ type: "sampled", sample: this.#sample() });
      }
      if (this.#nextReadingMs <= this.nowMs) this.#read();
      if (nextMs >= endMs) return;
    }
  }

  /** Four times a second, and told only when somebody came or went. */
  #lookAtRunners(): void {
    this.#nextLookMs += 250;
    if (!this.isProcOk) return;
    const runners = this.#runners();
    const look = runners.map(({ pid }) => pid).join();
    if (look === this.#lastLook) return;
    this.#lastLook = look;
    this.send({ type: "runnersChanged", runners });
  }

  #read(): void {
    this.#nextReadingMs = this.nowMs + this.random.pick([1, 1, 2, 5, 30, 105]);
    if (this.gpuKind !== "there" || !this.state.isBarrierOpen) return;
    const smPctByPid = this.random.next() < 0.1 ? this.#work() : null;
    this.#lastReadBytes = this.card.comfyBytes;
    this.send({ type: "reading", reading: this.card.read(this.nowMs, this.random, smPctByPid) });
  }

  #work(): Record<number, number> {
    const busy = [...this.children].filter(([, child]) => child.busyUntilMs > this.nowMs);
    return Object.fromEntries(busy.map(([pid]) => [pid, 95]));
  }

  #at(atMs: number, run: () => void): void {
    this.#timers.push({ atMs, run });
  }

  #after(ms: number, run: () => void): void {
    this.#at(this.nowMs + ms, run);
  }

  send(event: Unstamped): void {
    // The omitted time is put back here, so the union's member is whole again.
    this.#mailbox.push({ ...event, atMs: this.nowMs } as ArbiterEvent);
    if (this.#isDraining) return;
    this.#isDraining = true;
    for (let next = this.#mailbox.shift(); next !== undefined; next = this.#mailbox.shift()) {
      const before = this.state;
      const { state, effects } = reduceArbiter(before, next);
      this.state = state;
      this.#judge.onStep({ before, after: state, event: next, effects });
      for (const effect of effects) this.#perform(effect);
    }
    this.#isDraining = false;
  }

  #perform(effect: ArbiterEffect): void {
    switch (effect.kind) {
      case "openBarrier":
        this.#nextReadingMs = this.nowMs + this.random.pick([1, 1, 2, 40]);
        this.card.remember();
        if (this.gpuKind !== "there") this.send({ type: "barrierLost", reason: "the card is wedged" });
        return;
      case "closeBarrier":
        this.#nextReadingMs = Infinity;
        return;
      case "wakeAt":
        return this.#at(effect.atMs, () => this.send({ type: "woke", generation: effect.generation }));
      case "listRunners":
        return this.send({ type: "runnersListed", generation: effect.generation, runners: this.#runners() });
      case "listResident":
        return this.#listResident(effect.generation);
      case "probeRunners":
        return this.#probe(effect);
      case "unload":
        return this.#unload(effect);
      case "freeComfy":
        return this.#free(effect.generation);
      case "load":
        return this.load(canonicalOf(effect.request.model), effect.generation);
      case "endRunner":
        return this.#end(effect);
      case "abort":
        return this.#abort(effect.generation);
      case "record":
      case "amend":
      case "resolve":
        return;
    }
  }

  #listResident(generation: number): void {
    const isSilent = this.isPsSilent;
    this.#after(isSilent ? 500 : this.random.whole(0, 5), () => {
      this.send({ type: "residentListed", generation, resident: isSilent ? null : this.#rows() });
    });
  }

  #probe({ generation, runners }: Extract<ArbiterEffect, { kind: "probeRunners" }>): void {
    this.#after(this.random.whole(1, 10), () => {
      const probes = runners.map(({ pid, startTime }) => {
        const child = this.children.get(pid);
        const isBusy = child !== undefined && child.busyUntilMs > this.nowMs;
        const activity = child === undefined ? null : isBusy ? "busy" as const : "idle" as const;
        return { pid, startTime, cpuSeconds: child === undefined ? null : 1, activity, tokensLeft: null };
      });
      this.send({ type: "runnersProbed", generation, probes });
    });
  }

  /** Taken with a receipt. What follows comes later, or never; a model that is loading isn't touched. */
  #unload({ generation, model }: Extract<ArbiterEffect, { kind: "unload" }>): void {
    const isRefused = !this.isCalm && this.random.next() < 0.05;
    const error = isRefused ? "connection reset" : null;
    const reply = { type: "unloadReplied" as const, generation, model, error, isUnknown: false };
    this.#after(this.random.whole(1, 8), () => this.send(reply));
    if (isRefused) return;
    this.ghosts.delete(model);
    const [pid, child] = [...this.children].find(([, entry]) => entry.model === model) ?? [];
    if (pid === undefined || child === undefined || !child.isListed) return;
    if (!this.isCalm && this.random.next() < 0.1) child.isStuck = true;
    this.#after(Math.max(0, child.busyUntilMs - this.nowMs) + this.random.whole(5, 400), () => {
      if (!child.isStuck) this.exit(pid);
    });
  }

  #end({ generation, process: { pid } }: Extract<ArbiterEffect, { kind: "endRunner" }>): void {
    const kind = this.children.has(pid) ? "signalled" : "gone";
    this.#after(1, () => this.exit(pid));
    this.#after(2, () => this.send({ type: "runnerEnded", generation, reply: { kind } }));
  }

  #free(generation: number): void {
    const free: Free = { generation, isOver: false };
    this.#frees.push(free);
    this.#after(this.random.whole(101, 140), () => {
      if (free.isOver) return;
      free.isOver = true;
      const reply = this.#freeReply();
      const isFirst = reply.kind === "sent" && !this.heldWhenSent.has(generation);
      // What it gave back between that reading and /free nobody can tell from what /free gave back.
      if (isFirst) this.heldWhenSent.set(generation, Math.max(this.card.comfyBytes, this.#lastReadBytes));
      this.send({ type: "freeReplied", generation, reply });
    });
  }

  #freeReply(): FreeReply {
    if (this.queue > 0) return { kind: "occupied", running: 1, pending: this.queue - 1 };
    const fate = this.random.next();
    if (fate < 0.1) return { kind: "slow", slowestMs: 270 };
    if (fate < 0.15) return { kind: "failed", message: "connection reset" };
    // One in four gets lost.
    if (fate > 0.4) this.#after(this.random.whole(1_000, 4_400), () => this.#shrinkComfy());
    return { kind: "sent", requestMs: 1, sentAtMs: this.nowMs };
  }

  #shrinkComfy(): void {
    const process = this.card.processes.get(COMFY_SERVER.pid);
    if (process !== undefined) process.bytes = Math.min(process.bytes, gib(0.8));
  }

  #abort(generation: number): void {
    const isOwn = (other: number | null) => other !== null && other >= generation && other < generation + 16;
    for (const load of this.#loads.filter((entry) => !entry.isOver && isOwn(entry.generation))) {
      load.isOver = true;
      // Hanging up cancels the load at Ollama's next step.
      this.#after(this.random.whole(1, 250), () => this.exit(load.pid));
    }
    for (const free of this.#frees.filter((entry) => !entry.isOver && isOwn(entry.generation))) {
      free.isOver = true;
      this.send({ type: "freeReplied", generation: free.generation, reply: { kind: "failed", message: "aborted" } });
    }
  }
}
