/** The gate's word as its proxies get it: exactly once, whatever becomes of the reducer. */
import assert from "node:assert/strict";
import { initialArbiter } from "../../lib/decide/arbiter_state.ts";
import { reduceGate } from "../../lib/decide/gate.ts";
import { type GateState, initialGate } from "../../lib/decide/gate_state.ts";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import type { AdmissionRequest, HeldNote, Verdict } from "../../lib/model/admission.ts";
import type { ArbiterEvent } from "../../lib/model/events.ts";
import { DEFAULT_GATE_POLICY, type GateEffect, type GateEvent, isGateEvent } from "../../lib/model/gate.ts";
import { AdmissionService } from "../../lib/services/admission.ts";
import { Scene } from "../decide/scene.ts";
import { gib } from "../decide/stories.ts";

const DEADLINE_MS = 20_000;

interface Stage {
  readonly clock: LabClock;
  readonly admission: AdmissionService;
  readonly state: () => GateState;
  /** What the arbiter was asked for. */
  readonly asked: ArbiterEvent[];
}

/** `isDead`: the reducer has a defect and answers nothing. */
function stageWith({ isDead = false, holds = true } = {}): Stage {
  const clock = new LabClock();
  const scene = new Scene().load("qwen3:14b", 301, gib(10));
  scene.sample();
  const asked: ArbiterEvent[] = [];
  let gate = initialGate({ ...DEFAULT_GATE_POLICY, deadlineMs: DEADLINE_MS });
  const startMs = clock.monotonicMs();
  const arbiter = () => {
    const fresh = holds ? scene.state : initialArbiter(scene.state.policy);
    if (fresh.sample === null) return fresh;
    return { ...fresh, sample: { ...fresh.sample, monotonicMs: clock.monotonicMs() - startMs } };
  };
  const send = (event: GateEvent | ArbiterEvent) => {
    if (!isGateEvent(event)) return void asked.push(event);
    if (isDead) return;
    const step = reduceGate(gate, { ...event, atMs: clock.monotonicMs() - startMs }, arbiter());
    gate = step.state;
    for (const effect of step.effects) perform(effect);
    admission.report();
  };
  const perform = (effect: GateEffect) => admission.perform(effect);
  const admission = new AdmissionService({ clock, state: () => gate, arbiter, send, amend: () => {} });
  return { clock, admission, state: () => gate, asked };
}

function prompt(clock: LabClock): AdmissionRequest {
  const common = { model: null, contextLength: null, files: [], priority: null };
  return { tenant: "comfyui", path: "/prompt", ...common, arrivedAtMs: clock.monotonicMs() };
}

/** A verdict that has come already; null while it hasn't. */
async function now(offer: Promise<Verdict>): Promise<Verdict | null> {
  return await Promise.race([offer, Promise.resolve(null)].map(async (entry) => await entry));
}

Deno.test("a held request is told behind what it waits, and goes when the hand-off has ended", async () => {
  const { clock, admission, state, asked } = stageWith();
  const notes: HeldNote[] = [];
  const { signal } = new AbortController();
  const offer = admission.offer(prompt(clock), { signal, held: (note) => notes.push(note) });
  assert.equal(await now(offer), null);
  assert.match(notes[0]?.reason ?? "", /Ollama's memory/);
  const [request] = asked;
  assert.ok(request?.type === "requested" && request.request.kind === "handOff" && request.request.to === "comfyui");
  assert.equal(admission.view().held.length, 1);
  const reply = {
    kind: "refused" as const,
    refusal: { code: "internal" as const, message: "no", hint: null, details: null },
  };
  assert.equal(admission.resolve("somebody else's", reply), false);
  assert.equal(admission.resolve(request.request.id, reply), true);
  const verdict = await offer;
  assert.ok(verdict.kind === "pass" && verdict.isOpen && verdict.reason === "fault");
  assert.equal(verdict.ticket.take(), true);
  verdict.ticket.ended({ kind: "answered", status: 200 });
  assert.deepEqual([state().inFlight, state().counts.passed], [[], 1]);
  admission.close();
});

Deno.test("a client that leaves between the word and the sending is never sent", async () => {
  const { clock, admission, state } = stageWith({ holds: false });
  const client = new AbortController();
  const verdict = await admission.offer(prompt(clock), { signal: client.signal });
  assert.ok(verdict.kind === "pass" && verdict.reason === "blind");
  client.abort();
  assert.equal(verdict.ticket.take(), false);
  assert.deepEqual([state().counts.lapsed, state().counts.passed], [1, 0]);
  const late = await admission.offer(prompt(clock), { signal: client.signal });
  assert.equal(late.kind, "lapsed");
});

Deno.test("a defect in the decision holds nobody: the request passes, marked and counted", async () => {
  const { clock, admission } = stageWith({ isDead: true });
  const { signal } = new AbortController();
  const verdict = await admission.offer(prompt(clock), { signal });
  assert.ok(verdict.kind === "pass" && verdict.reason === "stuck" && verdict.isOpen);
  assert.equal(verdict.ticket.take(), true);
  assert.equal((await verdict.ticket.outOfMemory("cudaMalloc failed")).kind, "give_up");
  assert.deepEqual(admission.view().counts.open, { stuck: 1 });
  admission.close();
});

Deno.test("at the end nobody is held any more", async () => {
  const { clock, admission } = stageWith();
  const { signal } = new AbortController();
  const offer = admission.offer(prompt(clock), { signal });
  assert.equal(await now(offer), null);
  admission.end();
  const verdict = await offer;
  assert.ok(verdict.kind === "pass" && verdict.reason === "stopping" && verdict.isOpen);
  admission.close();
});
