/** A stage with a clock, a card and two servers, on which a story moves things by hand. */
import assert from "node:assert/strict";
import { reduceArbiter } from "../../lib/decide/arbiter.ts";
import { peakOf } from "../../lib/decide/footprint.ts";
import { type ArbiterState, initialArbiter } from "../../lib/decide/arbiter_state.ts";
import type {
  ArbiterReply,
  ArbiterRequest,
  EndRunnerResult,
  PurgeResult,
  RequestVramResult,
  SwitchResult,
  YieldResult,
} from "../../lib/model/arbitration.ts";
import type { ArbiterEffect, ArbiterEvent, FreeReply, LoadOutcome, RunnerProbe } from "../../lib/model/events.ts";
import type { Mode, Policy } from "../../lib/model/policy.ts";
import type { GpuState, Sample } from "../../lib/model/sample.ts";
import type { Bucket, ComfyState, OllamaState, ResidentModel } from "../../lib/model/tenants.ts";
import {
  blobOf,
  card,
  comfy,
  gib,
  type Held,
  ollama,
  policy,
  reading,
  RESIDUAL_BYTES,
  row,
  runner,
  START_MS,
  WALL_OFFSET_MS,
} from "./stories.ts";

type Kind = ArbiterEffect["kind"];
export type EffectOf<K extends Kind> = Extract<ArbiterEffect, { kind: K }>;
type Unstamped<E = ArbiterEvent> = E extends ArbiterEvent ? Omit<E, "atMs"> : never;
type Asked<R = ArbiterRequest> = R extends ArbiterRequest ? Omit<R, "id"> : never;

/** The values of the answers that aren't refusals. */
interface Values {
  readonly yield: YieldResult;
  readonly purge: PurgeResult;
  readonly requestVram: RequestVramResult;
  readonly switch: SwitchResult;
  readonly endRunner: EndRunnerResult;
}

/** How the servers and runners of a scene answer. */
export interface Answers {
  /** Null: Ollama takes the unload; else its words. */
  readonly unload?: string | null | ((model: string) => string | null);
  /** What unloads are refused for is a name that Ollama doesn't know. */
  readonly isUnknown?: boolean;
  /** Unloads get no answer for now. */
  readonly isUnloadHeld?: boolean;
  readonly isPsSilent?: boolean;
  readonly isProbeSilent?: boolean;
  /** The driver's stream stands still. */
  readonly isBarrierSilent?: boolean;
  readonly probe?: Readonly<Record<number, Partial<RunnerProbe>>>;
  readonly reading?: Parameters<typeof reading>[2];
}

/** One stage with a clock, a card and two servers, all moved by hand. */
export class Scene {
  atMs = START_MS;
  state: ArbiterState;
  held: readonly Held[] = [];
  ollama: OllamaState = ollama();
  comfy: ComfyState = comfy();
  /** What the whole card looks like instead of `held`, when a story says so. */
  gpu: GpuState | null = null;
  isProcOk = true;
  residualBytes = RESIDUAL_BYTES;
  readonly effects: ArbiterEffect[] = [];
  #answered = 0;
  readonly #heldUnloads: EffectOf<"unload">[] = [];
  #nextSampleMs = START_MS + 1_000;
  #wakes: readonly EffectOf<"wakeAt">[] = [];
  #ids = 0;

  constructor(given: Policy = policy(), footprints: Record<string, number[]> = {}) {
    this.state = initialArbiter(given, {
      footprints: Object.fromEntries(Object.entries(footprints).map(([key, sizes]) => [key, sizes.map(peakOf)])),
    });
  }

  /** Puts a model on the stage: listed, its runner alive and on the card. */
  load(model: string, pid: number, bytes: number | null = gib(10), more: Partial<ResidentModel> = {}): this {
    this.ollama = {
      ...this.ollama,
      resident: [...this.ollama.resident, row(model, more)],
      runners: [...this.ollama.runners, runner(pid, model)],
    };
    this.held = [...this.held, { pid, bucket: "ollama", bytes, name: "ollama" }];
    return this;
  }

  /** Takes a process off the card and the list of children, and its model off `/api/ps`. */
  end(pid: number): this {
    const gone = this.ollama.runners.find((entry) => entry.pid === pid);
    this.held = this.held.filter((entry) => entry.pid !== pid);
    this.ollama = {
      ...this.ollama,
      runners: this.ollama.runners.filter((entry) => entry.pid !== pid),
      resident: this.ollama.resident.filter((entry) => blobOf(entry.name) !== gone?.blob),
    };
    return this;
  }

  holds(pid: number, bucket: Bucket, bytes: number | null, name?: string): this {
    const others = this.held.filter((entry) => entry.pid !== pid);
    this.held = [...others, { pid, bucket, bytes, ...(name === undefined ? {} : { name }) }];
    return this;
  }

  send(event: Unstamped): readonly ArbiterEffect[] {
    // The omitted time is put back here, so the union's member is whole again.
    const { state, effects } = reduceArbiter(this.state, { ...event, atMs: this.atMs } as ArbiterEvent);
    this.state = state;
    this.effects.push(...effects);
    for (const effect of effects) {
      if (effect.kind === "wakeAt") this.#wakes = [...this.#wakes, effect];
      // /proc answers at once.
      if (effect.kind !== "listRunners") continue;
      this.send({ type: "runnersListed", generation: effect.generation, runners: this.ollama.runners });
    }
    return effects;
  }

  wait(ms: number): this {
    this.atMs += ms;
    return this;
  }

  sampleNow(): Sample {
    const ok = { ok: true, durationMs: 1, lastOkAtMs: null, lastError: null };
    const wallMs = this.atMs + WALL_OFFSET_MS;
    return {
      seq: 1,
      atMs: wallMs,
      monotonicMs: this.atMs,
      simulated: true,
      gpu: this.gpu ?? card(this.held, this.residualBytes),
      memory: null,
      ollama: this.ollama,
      comfy: this.comfy,
      sources: { nvml: ok, meminfo: ok, processes: { ...ok, ok: this.isProcOk }, ollama: ok, comfyui: ok },
    };
  }

  sample(): readonly ArbiterEffect[] {
    return this.send({ type: "sampled", sample: this.sampleNow() });
  }

  read(more: Parameters<typeof reading>[2] = {}): readonly ArbiterEffect[] {
    const given = { residualBytes: this.residualBytes, ...more };
    return this.send({ type: "reading", reading: reading(this.atMs, this.held, given) });
  }

  /** Readings of the card as it is, a millisecond apart, until something ends or `ms` are over. */
  readFor(ms: number, more: Parameters<typeof reading>[2] = {}): this {
    for (let spent = 0; spent < ms; spent++) {
      this.wait(1);
      this.read(more);
    }
    return this;
  }

  enqueue(count = 1): readonly ArbiterEffect[] {
    this.comfy = { ...this.comfy, queueRemaining: count, executing: count > 0 };
    return this.send({ type: "comfyActivity", queueRemaining: count });
  }

  ask(request: Asked, operation = request.kind): string {
    const id = `request-${++this.#ids}`;
    // The id completes the request; the union's members are otherwise unchanged.
    this.send({ type: "requested", request: { ...request, id } as ArbiterRequest, operation });
    return id;
  }

  cancel(requestId: string): readonly ArbiterEffect[] {
    return this.send({ type: "cancelled", requestId });
  }

  setMode(mode: Mode, keep: readonly string[] | null = null, untilMs: number | null = null): readonly ArbiterEffect[] {
    return this.send({ type: "modeSet", change: { mode, untilMs, keep } });
  }

  /** The effects of a kind so far. */
  all<K extends Kind>(kind: K): readonly EffectOf<K>[] {
    // Filtered by kind, which TypeScript doesn't narrow by a generic.
    return this.effects.filter((effect) => effect.kind === kind) as EffectOf<K>[];
  }

  last<K extends Kind>(kind: K): EffectOf<K> {
    const found = this.all(kind).at(-1);
    assert.ok(found !== undefined, `no ${kind} was asked for; there were: ${this.effects.map((e) => e.kind)}`);
    return found;
  }

  /** Answers what was asked of the servers and of /proc and isn't answered yet, as things are now. */
  respond(how: Answers = {}): this {
    const { unload = null, isUnknown = false, isUnloadHeld = false, isPsSilent = false, isProbeSilent = false } = how;
    const { probe = {} } = how;
    const held = isUnloadHeld ? [] : this.#heldUnloads.splice(0);
    for (const effect of held) this.#replyUnload(effect, { unload, isUnknown });
    for (let effect = this.effects[this.#answered]; effect !== undefined; effect = this.effects[this.#answered]) {
      this.#answered += 1;
      if (effect.kind === "listResident") {
        const resident = isPsSilent ? null : this.ollama.resident;
        this.send({ type: "residentListed", generation: effect.generation, resident });
      } else if (effect.kind === "unload") {
        if (isUnloadHeld) this.#heldUnloads.push(effect);
        else this.#replyUnload(effect, { unload, isUnknown });
      } else if (effect.kind === "probeRunners" && !isProbeSilent) {
        const { generation } = effect;
        const probes = effect.runners.map(({ pid, startTime }) => ({
          pid,
          startTime,
          cpuSeconds: 1,
          activity: null,
          tokensLeft: null,
          ...probe[pid],
        }));
        this.send({ type: "runnersProbed", generation, probes });
      }
    }
    return this;
  }

  #replyUnload(
    { generation, model }: EffectOf<"unload">,
    { unload, isUnknown = false }: Pick<Answers, "unload" | "isUnknown">,
  ): void {
    const error = typeof unload === "function" ? unload(model) : unload ?? null;
    this.send({ type: "unloadReplied", generation, model, error, isUnknown: isUnknown && error !== null });
  }

  /** Lets time pass: readings while the barrier is open, answers, wake-ups that are due, a sample each second. */
  run(ms: number, how: Answers & { readonly stepMs?: number } = {}): this {
    const { stepMs = 10 } = how;
    for (const endMs = this.atMs + ms; this.atMs < endMs;) {
      this.wait(Math.min(stepMs, endMs - this.atMs));
      this.#wake();
      if (this.atMs >= this.#nextSampleMs) {
        this.#nextSampleMs = this.atMs + 1_000;
        this.sample();
      }
      if (this.state.isBarrierOpen && how.isBarrierSilent !== true) this.read(how.reading ?? {});
      this.respond(how);
    }
    return this;
  }

  #wake(): void {
    const due = this.#wakes.filter((effect) => effect.atMs <= this.atMs);
    this.#wakes = this.#wakes.filter((effect) => effect.atMs > this.atMs);
    for (const { generation } of due) this.send({ type: "woke", generation });
  }

  freed(reply: FreeReply): readonly ArbiterEffect[] {
    return this.send({ type: "freeReplied", generation: this.last("freeComfy").generation, reply });
  }

  loaded(outcome: LoadOutcome): readonly ArbiterEffect[] {
    return this.send({ type: "loadEnded", generation: this.last("load").generation, outcome });
  }

  /** The answer to a request, which must have come exactly once. */
  answer(requestId: string): ArbiterReply {
    const found = this.all("resolve").filter((effect) => effect.requestId === requestId);
    assert.equal(found.length, 1, `request ${requestId} was answered ${found.length} times`);
    const [only] = found;
    assert.ok(only);
    return only.reply;
  }

  isAnswered(requestId: string): boolean {
    return this.all("resolve").some((effect) => effect.requestId === requestId);
  }

  /** The answer's value; fails the story when it is a refusal or of another kind. */
  value<K extends keyof Values>(requestId: string, kind: K): Values[K] {
    const reply = this.answer(requestId);
    assert.ok(reply.kind !== "refused" && reply.kind === kind, JSON.stringify(reply));
    // Compared just now; TypeScript doesn't narrow by a generic.
    return reply.value as Values[K];
  }

  refusal(requestId: string): Extract<ArbiterReply, { kind: "refused" }>["refusal"] {
    const reply = this.answer(requestId);
    assert.ok(reply.kind === "refused", JSON.stringify(reply));
    return reply.refusal;
  }

  /** What the last record of a kind says. */
  recorded(kind: EffectOf<"record">["item"]["kind"]): Readonly<Record<string, unknown>> {
    const found = this.all("record").findLast((effect) => effect.item.kind === kind);
    assert.ok(found !== undefined, `nothing of kind ${kind} was recorded`);
    return found.item.fields;
  }
}
