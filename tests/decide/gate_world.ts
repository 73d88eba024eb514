/**
 * The small machine of world.ts with a gate before it: clients of both tenants come, are held, leave, are refused for
 * want of memory. It knows the truth, so that what the gate says can be held against it.
 */
import assert from "node:assert/strict";
import { reduceGate } from "../../lib/decide/gate.ts";
import { type GateState, initialGate } from "../../lib/decide/gate_state.ts";
import { Random } from "../../lib/lab/random.ts";
import type { AdmissionRequest, Priority } from "../../lib/model/admission.ts";
import type { ArbiterEvent } from "../../lib/model/events.ts";
import { type GateEffect, type GateEvent, type GatePolicy, isOpenReason } from "../../lib/model/gate.ts";
import type { Tenant } from "../../lib/model/tenants.ts";
import { gib, policy } from "./stories.ts";
import { type Judge, World } from "./world.ts";
import { MODELS } from "./world_models.ts";

const SLACK = policy().yield.slackBytes;

export const GATE: GatePolicy = { mostHeld: 6, deadlineMs: 40_000, ageMs: 10_000, batch: ["/api/embed"] };

/** One request, and everything that was said of it. */
export interface Client {
  readonly id: string;
  readonly request: AdmissionRequest;
  verdicts: number;
  wasSent: boolean;
  hasLeft: boolean;
  isOver: boolean;
  /** Why it passed; null while it hasn't. */
  reason: string | null;
  verdictMs: number | null;
  /** Retries that were asked for, and how many answers came. */
  retriesAsked: number;
  retriesTold: number;
  /** Takes no part in the traffic by itself: the story says when it is taken and when it ends. */
  readonly isManual: boolean;
}

type Unstamped<E = GateEvent> = E extends GateEvent ? Omit<E, "atMs"> : never;

export class GateWorld implements Judge {
  readonly world: World;
  readonly random: Random;
  gate: GateState;
  readonly clients = new Map<string, Client>();
  /** Everything the gate asked for, in order. */
  readonly effects: GateEffect[] = [];
  /** Pids of the yields that were called released for the gate, newest last. */
  readonly #releasedPids: (readonly number[])[] = [];
  #timers: { readonly atMs: number; readonly run: () => void }[] = [];
  #nextTickMs: number;
  #isStarted = false;

  constructor({ seed, gate = GATE }: { readonly seed: number; readonly gate?: GatePolicy }) {
    const base = policy({ load: { ...policy().load, deadlineMs: 4_000 } });
    this.random = new Random(seed + 1);
    this.gate = initialGate(gate);
    this.world = new World({ seed, policy: { ...base, purge: { ...base.purge, idleMs: null } }, judge: this });
    this.#isStarted = true;
    this.#nextTickMs = this.world.nowMs + 1_000;
    this.world.advance(1_000);
  }

  get nowMs(): number {
    return this.world.nowMs;
  }

  onStep({ after, event, effects }: Parameters<Judge["onStep"]>[0]): void {
    if (!this.#isStarted) return;
    for (const effect of effects) {
      if (effect.kind !== "record" || effect.item.fields["outcome"] !== "released") continue;
      if (effect.item.kind !== "yield") continue;
      // The record's own field, written by arbiter_records.
      const pids = effect.item.fields["pids"] as readonly number[];
      for (const pid of pids) {
        assert.ok(this.world.card.unfreedBytes(pid) <= SLACK, `released, but pid ${pid} holds on`);
      }
      this.#releasedPids.push(pids);
    }
    this.#hear(event, after);
    for (const effect of effects) {
      if (effect.kind !== "resolve" || !effect.requestId.startsWith("gate-")) continue;
      this.send({ type: "gateAnswered", requestId: effect.requestId, reply: effect.reply });
    }
  }

  send(event: Unstamped): void {
    // The omitted time is put back here, so the union's member is whole again.
    this.#hear({ ...event, atMs: this.nowMs } as GateEvent, this.world.state);
  }

  #hear(event: GateEvent | ArbiterEvent, arbiter: World["state"]): void {
    const step = reduceGate(this.gate, event, arbiter);
    this.gate = step.state;
    this.effects.push(...step.effects);
    this.#judge(event);
    for (const effect of step.effects) this.#perform(effect);
  }

  /** What holds after every event. */
  #judge({ atMs }: { readonly atMs: number }): void {
    const { waiting, policy: { mostHeld, deadlineMs } } = this.gate;
    assert.ok(waiting.filter((entry) => entry.for === "verdict").length <= mostHeld, "more are held than may be");
    for (const entry of waiting) {
      assert.ok(atMs - entry.sinceMs <= deadlineMs + 1_000, "held beyond the deadline");
      assert.notEqual(entry.note, null, "somebody waits and isn't told for what");
    }
  }

  #perform(effect: GateEffect): void {
    switch (effect.kind) {
      case "gateHandOff":
        this.world.send({
          type: "requested",
          operation: "gate",
          request: { kind: "handOff", id: effect.requestId, to: effect.to },
        });
        return;
      case "gateCallOff":
        return this.world.send({ type: "cancelled", requestId: effect.requestId });
      case "gateVerdict":
        return this.#answer(effect);
      case "gateRetry":
        return this.#retry(effect);
      case "gateAmend":
        return;
    }
  }

  #answer({ id, verdict }: Extract<GateEffect, { kind: "gateVerdict" }>): void {
    const client = this.clients.get(id);
    assert.ok(client !== undefined, "a verdict for nobody");
    client.verdicts += 1;
    client.verdictMs = this.nowMs;
    assert.equal(client.verdicts, 1, `${id} was answered twice`);
    if (verdict.kind !== "pass") {
      client.isOver = true;
      assert.equal(verdict.kind === "lapsed", client.hasLeft, "lapsed, and its client is there");
      return;
    }
    assert.ok(!client.hasLeft, "let go, though its client has left");
    client.reason = verdict.reason;
    assert.equal(verdict.isOpen, isOpenReason(verdict.reason));
    this.#judgePass(client, verdict.reason);
    if (client.isManual) return;
    const fate = this.random.next();
    // One in thirty is never taken, and one in thirty loses its client just then.
    if (fate < 0.03) return;
    this.after(fate < 0.06 ? 2 : this.random.whole(0, 1), () => fate < 0.06 ? this.leave(client) : this.take(client));
  }

  /** By the machine's own book, not by what anybody said. */
  #judgePass({ request }: Client, reason: string): void {
    if (reason !== "released") return;
    if (request.tenant === "comfyui") {
      const pids = this.#releasedPids.at(-1) ?? [];
      for (const pid of pids) assert.ok(this.world.card.unfreedBytes(pid) <= SLACK, "a prompt went before the memory");
      return;
    }
    assert.ok(this.world.card.comfyBytes <= gib(5), "a call went before ComfyUI's memory was back");
    assert.equal(this.world.queue, 0, "a call was let go for a ComfyUI that works");
  }

  #retry({ id, isOn }: Extract<GateEffect, { kind: "gateRetry" }>): void {
    const client = this.clients.get(id);
    assert.ok(client !== undefined);
    client.retriesTold += 1;
    assert.ok(client.retriesTold <= client.retriesAsked, "a retry that nobody asked for");
    if (client.hasLeft || client.isManual) return;
    if (isOn) this.#run(client);
    else this.end(client, { kind: "answered", status: 500 });
  }

  /** A request comes. */
  offer(tenant: Tenant, more: Partial<AdmissionRequest> & { readonly isManual?: boolean } = {}): Client {
    const { isManual = false, ...said } = more;
    const request: AdmissionRequest = {
      tenant,
      path: tenant === "ollama" ? "/api/chat" : "/prompt",
      model: tenant === "ollama" ? MODELS[0]?.[0] ?? "" : null,
      contextLength: null,
      files: [],
      priority: null,
      arrivedAtMs: this.nowMs,
      ...said,
    };
    const client: Client = {
      id: `client-${this.clients.size}`,
      request,
      verdicts: 0,
      wasSent: false,
      hasLeft: false,
      isOver: false,
      reason: null,
      verdictMs: null,
      retriesAsked: 0,
      retriesTold: 0,
      isManual,
    };
    this.clients.set(client.id, client);
    this.send({ type: "gateOffered", id: client.id, request });
    return client;
  }

  leave(client: Client): void {
    if (client.isOver || client.hasLeft) return;
    client.hasLeft = true;
    if (client.wasSent && this.gate.inFlight.some(({ id }) => id === client.id)) {
      return this.end(client, { kind: "client_left" });
    }
    this.send({ type: "gateLeft", id: client.id });
    client.isOver = true;
  }

  take(client: Client): void {
    this.send({ type: "gateTaken", id: client.id });
    const isTaken = this.gate.inFlight.some(({ id, stage }) => id === client.id && stage === "taken");
    if (!isTaken) {
      client.isOver = true;
      return;
    }
    assert.ok(!client.hasLeft, "taken after its client had left");
    client.wasSent = true;
    if (!client.isManual) this.#run(client);
  }

  end(client: Client, outcome: Extract<GateEvent, { type: "gateEnded" }>["outcome"]): void {
    if (client.isOver) return;
    client.isOver = true;
    this.send({ type: "gateEnded", id: client.id, outcome });
  }

  /** What the upstream makes of it. */
  #run(client: Client): void {
    const { world, random } = this;
    if (client.request.tenant === "comfyui") {
      this.after(random.whole(2, 4), () => world.setQueue(world.queue + 1));
      this.after(random.whole(1, 6), () => this.end(client, { kind: "answered", status: 200 }));
      this.after(random.whole(200, 6_000), () => world.setQueue(Math.max(0, world.queue - 1)));
      return;
    }
    const { model } = client.request;
    if (client.retriesAsked === 0 && random.next() < 0.15) {
      this.after(random.whole(20, 900), () => this.refuse(client));
      return;
    }
    if (model !== null) world.load(model, null);
    const takesMs = random.whole(300, 4_000);
    for (const child of world.children.values()) {
      if (child.model === model) child.busyUntilMs = world.nowMs + takesMs;
    }
    this.after(takesMs, () => this.end(client, { kind: "answered", status: 200 }));
  }

  /** For want of memory. */
  refuse(client: Client): void {
    if (client.isOver) return;
    client.retriesAsked += 1;
    this.send({ type: "gateRefused", id: client.id, message: "cudaMalloc failed: out of memory" });
  }

  after(ms: number, run: () => void): void {
    this.#timers.push({ atMs: this.nowMs + ms, run });
  }

  advance(ms: number): void {
    const endMs = this.nowMs + ms;
    while (this.nowMs < endMs) {
      const nextMs = this.#timers.reduce((least, { atMs }) => Math.min(least, atMs), Math.min(endMs, this.#nextTickMs));
      this.world.advance(Math.max(0, nextMs - this.nowMs));
      const due = this.#timers.filter(({ atMs }) => atMs <= this.nowMs);
      this.#timers = this.#timers.filter(({ atMs }) => atMs > this.nowMs);
      for (const { run } of due) run();
      if (this.#nextTickMs > this.nowMs) continue;
      this.#nextTickMs += 1_000;
      if (this.gate.waiting.length > 0) this.send({ type: "gateTicked" });
    }
  }
}

export const PRIORITY_HEADERS: readonly (Priority | "urgent" | null)[] = ["interactive", "batch", "urgent", null];
