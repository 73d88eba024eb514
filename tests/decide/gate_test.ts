/** The gate's decisions one by one: who passes at once, who is held behind what, and who is turned away. */
import assert from "node:assert/strict";
import type { GateEffect, GatePolicy } from "../../lib/model/gate.ts";
import { peakOf } from "../../lib/decide/footprint.ts";
import { COMFY_SERVER, gib, runner } from "./stories.ts";
import { type Client, GATE, GateWorld } from "./gate_world.ts";

const ALPHA = "alpha:latest";
const BETA = "beta:latest";
const GAMMA = "gamma:latest";
const manual = { isManual: true } as const;

function stageWith(more: Partial<GatePolicy> = {}, seed = 1): GateWorld {
  const stage = new GateWorld({ seed, gate: { ...GATE, ...more } });
  // Nothing goes wrong here but what a story says.
  stage.world.isCalm = true;
  return stage;
}

/** A model on the card, listed, as if it had long been there. */
function place({ world }: GateWorld, model: string, bytes: number): void {
  const pid = world.spawn("ollama");
  world.card.allocate(pid, bytes);
  world.children.set(pid, {
    runner: runner(pid, model),
    model,
    isListed: true,
    isStuck: false,
    busyUntilMs: 0,
  });
}

function verdictOf({ effects }: GateWorld, client: Client) {
  const found = effects.flatMap((effect) => effect.kind === "gateVerdict" && effect.id === client.id ? [effect] : []);
  return found[0]?.verdict ?? null;
}

function asked({ effects }: GateWorld): readonly Extract<GateEffect, { kind: "gateHandOff" }>[] {
  return effects.flatMap((effect) => effect.kind === "gateHandOff" ? [effect] : []);
}

/** A client's whole visit to the upstream. */
function visit(stage: GateWorld, client: Client, ms = 10): void {
  stage.take(client);
  stage.advance(ms);
  stage.end(client, { kind: "answered", status: 200 });
}

Deno.test("a prompt waits until the driver has Ollama's memory back, and not a moment longer", () => {
  const stage = stageWith();
  place(stage, ALPHA, gib(10));
  stage.advance(1_100);
  const prompt = stage.offer("comfyui", manual);
  assert.equal(verdictOf(stage, prompt), null);
  assert.match(stage.gate.waiting[0]?.note?.reason ?? "", /Ollama's memory/);
  stage.advance(1_500);
  const verdict = verdictOf(stage, prompt);
  assert.ok(verdict?.kind === "pass" && verdict.reason === "released" && !verdict.isOpen && verdict.heldMs > 0);
  const amend = stage.effects.find((effect) => effect.kind === "gateAmend");
  assert.ok(amend?.kind === "gateAmend" && amend.fields["held_requests"] === 1);
});

Deno.test("what is resident passes at once; with more context than it was loaded with it is another load", () => {
  const stage = stageWith();
  place(stage, ALPHA, gib(10));
  stage.world.card.allocate(COMFY_SERVER.pid, gib(3));
  stage.advance(1_100);
  const chat = stage.offer("ollama", { ...manual, model: "Alpha" });
  const verdict = verdictOf(stage, chat);
  assert.ok(verdict?.kind === "pass" && verdict.reason === "resident" && verdict.heldMs === 0);
  const larger = stage.offer("ollama", { ...manual, model: ALPHA, contextLength: 8_192 });
  assert.equal(verdictOf(stage, larger), null);
  assert.equal(asked(stage)[0]?.to, "ollama");
});

Deno.test("a prompt waits for the calls that Ollama answers, and those that come later wait for the prompt", () => {
  const stage = stageWith();
  place(stage, ALPHA, gib(10));
  stage.advance(1_100);
  const chat = stage.offer("ollama", { ...manual, model: ALPHA });
  stage.take(chat);
  const prompt = stage.offer("comfyui", manual);
  const later = stage.offer("ollama", { ...manual, model: ALPHA });
  stage.advance(2_000);
  assert.deepEqual([verdictOf(stage, prompt), verdictOf(stage, later)], [null, null]);
  assert.equal(asked(stage).length, 0, "a yield under a call would only be busy");
  stage.end(chat, { kind: "answered", status: 200 });
  stage.advance(1_500);
  assert.equal(prompt.reason, "released");
  assert.equal(later.reason, null);
});

Deno.test("a kept model's calls pass whoever waits", () => {
  const stage = stageWith();
  stage.world.send({ type: "modeSet", change: { mode: "auto", untilMs: null, keep: ["gamma"] } });
  place(stage, GAMMA, gib(1));
  place(stage, ALPHA, gib(10));
  stage.advance(1_100);
  const chat = stage.offer("ollama", { ...manual, model: ALPHA });
  stage.take(chat);
  stage.offer("comfyui", manual);
  const kept = stage.offer("ollama", { ...manual, model: GAMMA });
  assert.equal(kept.reason, "resident");
});

Deno.test("a call waits for ComfyUI's last prompt and its memory; the prompts that come meanwhile wait behind it", () => {
  const stage = stageWith();
  const first = stage.offer("comfyui", manual);
  stage.advance(50);
  stage.take(first);
  stage.world.setQueue(1);
  stage.end(first, { kind: "answered", status: 200 });
  stage.world.card.allocate(COMFY_SERVER.pid, gib(6));
  stage.advance(1_100);
  const chat = stage.offer("ollama", { ...manual, model: BETA });
  const second = stage.offer("comfyui", manual);
  stage.advance(3_000);
  assert.deepEqual([chat.reason, second.reason, asked(stage).length], [null, null, 1]);
  stage.world.setQueue(0);
  assert.ok(passes(stage, chat));
  assert.equal(chat.reason, "released");
  stage.take(chat);
  stage.advance(2_000);
  assert.equal(second.reason, null, "the memory is Ollama's now");
});

Deno.test("batch goes behind interactive, and isn't starved by it", () => {
  const stage = stageWith({ ageMs: 5_000 });
  place(stage, ALPHA, gib(10));
  stage.advance(1_100);
  const chat = stage.offer("ollama", { ...manual, model: ALPHA });
  stage.take(chat);
  const batch = stage.offer("comfyui", { ...manual, priority: "batch" });
  const interactive = stage.offer("comfyui", manual);
  assert.deepEqual(stage.gate.waiting.map(({ id, note }) => [id, note?.position]), [
    [batch.id, 1],
    [interactive.id, 0],
  ]);
  stage.leave(interactive);
  // A chat that never ends for good: one request follows the other.
  let open = chat;
  for (let turns = 0; turns < 20 && batch.reason === null; turns++) {
    const next = stage.offer("ollama", { ...manual, model: ALPHA });
    stage.end(open, { kind: "answered", status: 200 });
    stage.advance(700);
    if (next.reason === null) continue;
    stage.take(next);
    open = next;
  }
  stage.end(open, { kind: "answered", status: 200 });
  stage.advance(2_000);
  assert.equal(batch.reason, "released");
});

Deno.test("paths and models count as batch where that is configured, and the header goes first", () => {
  const stage = stageWith({ batch: ["/api/embed", "gamma"] });
  const chat = stage.offer("ollama", { ...manual, model: ALPHA });
  stage.take(chat);
  place(stage, ALPHA, gib(10));
  stage.advance(1_100);
  stage.offer("comfyui", manual);
  for (
    const said of [
      { path: "/api/embed" },
      { model: GAMMA },
      { path: "/api/embed", priority: " Interactive " },
      { model: BETA, priority: "urgent" },
    ]
  ) stage.offer("ollama", { ...manual, ...said });
  assert.deepEqual(stage.gate.waiting.slice(1).map(({ priority }) => priority), [
    "batch",
    "batch",
    "interactive",
    "interactive",
  ]);
});

Deno.test("one more than may be held is told when to come back, and one that is held too long is refused", () => {
  const stage = stageWith({ mostHeld: 2, deadlineMs: 8_000 });
  place(stage, ALPHA, gib(10));
  stage.advance(1_100);
  stage.take(stage.offer("ollama", { ...manual, model: ALPHA }));
  const [first, second, third] = [1, 2, 3].map(() => stage.offer("comfyui", manual));
  assert.ok(first !== undefined && second !== undefined && third !== undefined);
  const turned = verdictOf(stage, third);
  assert.ok(turned?.kind === "refused" && turned.status === 429 && (turned.retryAfterS ?? 0) >= 1);
  // Whoever passes at once isn't held, so the bound doesn't matter.
  stage.advance(9_000);
  const refused = verdictOf(stage, first);
  assert.ok(refused?.kind === "refused" && refused.status === 503, JSON.stringify(refused));
  assert.match(refused.message, /8 s.*Ollama answers a request/);
  assert.deepEqual([stage.gate.counts.refused, stage.gate.waiting.length], [3, 0]);
});

Deno.test("a client that leaves takes its hand-off with it, and its prompt is never sent", () => {
  const stage = stageWith();
  place(stage, ALPHA, gib(10));
  stage.advance(1_100);
  const prompt = stage.offer("comfyui", manual);
  stage.leave(prompt);
  assert.equal(verdictOf(stage, prompt)?.kind, "lapsed");
  assert.equal(stage.effects.filter(({ kind }) => kind === "gateCallOff").length, 1);
  stage.take(prompt);
  assert.equal(prompt.wasSent, false);
  assert.deepEqual([stage.gate.counts.lapsed, stage.gate.counts.passed, stage.gate.handOff], [1, 0, null]);
});

Deno.test("an offer that nobody takes holds nobody up", () => {
  const stage = stageWith();
  const prompt = stage.offer("comfyui", manual);
  stage.advance(100);
  assert.equal(prompt.reason, "free");
  stage.advance(7_000);
  stage.take(prompt);
  assert.deepEqual([prompt.wasSent, stage.gate.inFlight, stage.gate.counts.lapsed], [false, [], 1]);
});

Deno.test("a refusal for want of memory is tried once more after a reclaim, and not a second time", () => {
  // A seed by which ComfyUI takes the /free.
  const stage = stageWith({}, 3);
  const chat = stage.offer("ollama", manual);
  assert.equal(chat.reason, "free");
  stage.take(chat);
  // What it was let go for has been taken by ComfyUI meanwhile.
  stage.world.card.allocate(COMFY_SERVER.pid, gib(5));
  stage.advance(1_100);
  stage.refuse(chat);
  assert.deepEqual(retries(stage), []);
  for (let waited = 0; waited < 30 && retries(stage).length === 0; waited++) stage.advance(500);
  stage.refuse(chat);
  assert.deepEqual(retries(stage).map(({ isOn }) => isOn), [true, false]);
  assert.equal(stage.gate.counts.retried, 1);
});

/** Whether it is let go within half a minute; an offer has to be taken within seconds. */
function passes(stage: GateWorld, client: Client): boolean {
  for (let waited = 0; waited < 60 && client.reason === null; waited++) stage.advance(500);
  return client.reason !== null;
}

function retries({ effects }: GateWorld): readonly Extract<GateEffect, { kind: "gateRetry" }>[] {
  return effects.flatMap((effect) => effect.kind === "gateRetry" ? [effect] : []);
}

Deno.test("with nothing to reclaim the refusal is passed on", () => {
  const stage = stageWith();
  const chat = stage.offer("ollama", manual);
  stage.take(chat);
  stage.refuse(chat);
  assert.deepEqual(retries(stage).map(({ isOn }) => isOn), [false]);
});

Deno.test("a runner that never goes costs one wait: then that side stands open, marked, and is tried again later", () => {
  const stage = stageWith();
  place(stage, ALPHA, gib(10));
  for (const child of stage.world.children.values()) child.isStuck = true;
  stage.advance(1_100);
  const prompt = stage.offer("comfyui", manual);
  stage.advance(12_000);
  const verdict = verdictOf(stage, prompt);
  assert.ok(verdict?.kind === "pass" && verdict.isOpen && verdict.reason === "fault", JSON.stringify(verdict));
  stage.leave(prompt);
  const next = stage.offer("comfyui", manual);
  assert.equal(next.reason, "fault");
  stage.leave(next);
  stage.advance(31_000);
  for (const child of stage.world.children.values()) child.isStuck = false;
  const healed = stage.offer("comfyui", manual);
  stage.advance(2_000);
  assert.equal(healed.reason, "released");
});

Deno.test("who mustn't decide lets everybody go, marked and counted", () => {
  const stage = stageWith();
  place(stage, ALPHA, gib(10));
  stage.advance(1_100);
  stage.take(stage.offer("ollama", { ...manual, model: ALPHA }));
  const held = stage.offer("comfyui", manual);
  assert.equal(held.reason, null);
  stage.world.send({ type: "modeSet", change: { mode: "paused", untilMs: null, keep: null } });
  assert.equal(held.reason, "paused");
  visit(stage, held);
  stage.world.send({ type: "modeSet", change: { mode: "auto", untilMs: null, keep: null } });
  stage.world.loseGpu();
  stage.advance(1_100);
  visit(stage, stage.offer("comfyui", manual));
  assert.deepEqual(stage.gate.counts.open, { paused: 1, blind: 1 });
});

Deno.test("a prompt that was just answered counts as work before ComfyUI's queue shows it, but not for ever", () => {
  const stage = stageWith();
  stage.world.card.allocate(COMFY_SERVER.pid, gib(3));
  const prompt = stage.offer("comfyui", manual);
  stage.advance(50);
  stage.take(prompt);
  stage.end(prompt, { kind: "answered", status: 200 });
  const chat = stage.offer("ollama", { ...manual, model: BETA });
  assert.equal(stage.gate.waiting[0]?.note?.reason, "ComfyUI is at work");
  assert.equal(asked(stage).filter(({ to }) => to === "ollama").length, 0);
  // It ran from its cache, between two looks at the queue.
  stage.advance(4_000);
  assert.equal(asked(stage).filter(({ to }) => to === "ollama").length, 1);
  stage.leave(chat);
  // One that ComfyUI refused brings no work.
  const refused = stage.offer("comfyui", manual);
  stage.advance(500);
  stage.take(refused);
  stage.end(refused, { kind: "answered", status: 400 });
  assert.equal(stage.gate.promptSentMs, null);
});

Deno.test("what was measured to fit passes at once, with no more context than it was measured with", () => {
  const stage = stageWith();
  stage.world.card.allocate(COMFY_SERVER.pid, gib(5));
  stage.advance(1_100);
  const measured = { ...peakOf(gib(5)), contextLength: 4_096, parallel: 1 };
  stage.world.state = { ...stage.world.state, footprints: { [BETA]: [measured, measured, measured] } };
  const chat = stage.offer("ollama", { ...manual, model: BETA, contextLength: 4_096 });
  assert.equal(chat.reason, "fits");
  stage.leave(chat);
  const larger = stage.offer("ollama", { ...manual, model: BETA, contextLength: 32_768 });
  assert.equal(larger.reason, null);
  stage.leave(larger);
  // Who asks for the same model comes along; a model that was never measured counts as the whole card.
  stage.world.card.allocate(stage.world.spawn("unmanaged"), gib(2));
  stage.advance(1_100);
  const [first, second] = [1, 2].map(() => stage.offer("ollama", { ...manual, model: BETA }));
  assert.deepEqual([first?.reason, second?.reason], ["fits", "resident"]);
  const unknown = stage.offer("ollama", { ...manual, model: GAMMA });
  assert.equal(unknown.reason, null);
});
