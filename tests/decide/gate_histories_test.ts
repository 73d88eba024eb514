/** Random histories of the gate over the arbiter: whatever happens, every request is answered once and none is forgotten. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { GATE, GateWorld, PRIORITY_HEADERS } from "./gate_world.ts";
import { MODELS } from "./world_models.ts";

const RUNS = 40;
const STEPS = 120;

interface Choice {
  readonly what: number;
  readonly which: number;
  readonly ms: number;
}

function modelOf(which: number): string {
  return MODELS[which % MODELS.length]?.[0] ?? "";
}

const CHOICES: readonly ((stage: GateWorld, choice: Choice) => void)[] = [
  (stage, { ms }) => stage.advance(ms),
  (stage, { ms }) => stage.advance(ms),
  (stage, { ms }) => stage.advance(ms * 5),
  (stage, { which }) => void stage.offer("comfyui", { priority: PRIORITY_HEADERS[which % 4] ?? null }),
  (stage, { which }) => void stage.offer("comfyui", { priority: PRIORITY_HEADERS[which % 4] ?? null }),
  (stage, { which }) => void stage.offer("ollama", { model: modelOf(which) }),
  (stage, { which }) => void stage.offer("ollama", { model: modelOf(which), path: "/api/embed" }),
  (stage, { which }) => void stage.offer("ollama", { model: which > 7 ? null : modelOf(which), contextLength: 8_192 }),
  (stage, { which }) => {
    const open = [...stage.clients.values()].filter((client) => !client.isOver);
    const client = open[which % Math.max(1, open.length)];
    if (client !== undefined) stage.leave(client);
  },
  // From the side.
  ({ world }, { which }) => world.setQueue(which < 5 ? world.queue + 1 : 0),
  ({ world }) => world.setQueue(0),
  ({ world }, { which }) => world.load(modelOf(which), null),
  ({ world }, { which, ms }) => {
    const child = [...world.children.values()][which % Math.max(1, world.children.size)];
    if (child !== undefined) child.busyUntilMs = world.nowMs + ms * 20;
  },
  ({ world }, { ms }) => world.card.allocate(world.spawn("unmanaged"), ms * 2 ** 22),
  ({ world }, { which }) => {
    const mode = which === 0 ? "observe" : which === 1 ? "paused" : "auto";
    world.send({ type: "modeSet", change: { mode, untilMs: null, keep: which > 5 ? ["gamma"] : [] } });
  },
  ({ world }, { which }) => {
    if (which < 2) world.loseGpu();
    else world.gpuKind = "there";
  },
  ({ world }, { which }) => void (world.isPsSilent = which < 2),
  ({ world }, { which }) =>
    world.send({
      type: "requested",
      operation: "free-vram",
      request: { kind: "yield", id: `asked-${world.nowMs}-${which}`, models: null, confirm: true },
    }),
];

/** What was in the way goes; whoever is held comes to an end. */
function calm(stage: GateWorld): void {
  const { world } = stage;
  world.isCalm = true;
  world.gpuKind = "there";
  world.isProcOk = true;
  world.isPsSilent = false;
  for (const child of world.children.values()) {
    child.isStuck = false;
    child.busyUntilMs = 0;
  }
  world.setQueue(0);
  for (let seconds = 0; seconds < 120 && stage.gate.waiting.length > 0; seconds++) stage.advance(1_000);
}

function live(seed: number, choices: readonly Choice[]): void {
  const stage = new GateWorld({ seed });
  for (const choice of choices) {
    CHOICES[choice.what % CHOICES.length]?.(stage, choice);
    judgeOpen(stage);
  }
  calm(stage);
  assert.deepEqual(stage.gate.waiting, [], "somebody is held for ever");
  // What was offered and never taken lapses, what was sent ends, and what is refused meanwhile is retried.
  const isOpen = () => stage.gate.inFlight.length + stage.gate.waiting.length > 0;
  for (let seconds = 0; seconds < 120 && isOpen(); seconds++) stage.advance(1_000);
  assert.deepEqual([stage.gate.inFlight, stage.gate.handOff], [[], null]);
  judgeBooks(stage);
  stage.world.send({ type: "stopped" });
  const late = stage.offer("comfyui", { isManual: true });
  assert.equal(late.reason, "stopping");
}

/** While nobody decides, nobody is held, and whoever comes goes marked. */
function judgeOpen(stage: GateWorld): void {
  const { mode, sample } = stage.world.state;
  if (mode === "auto" && sample?.gpu.available === true) return;
  assert.deepEqual(stage.gate.waiting, [], `held in mode ${mode}, the card ${sample?.gpu.available}`);
  const client = stage.offer("comfyui", { isManual: true });
  assert.equal(client.reason, mode === "auto" ? "blind" : mode);
  stage.leave(client);
}

/** The counts agree with what each client was told, and what lapsed was never sent. */
function judgeBooks({ clients, gate }: GateWorld): void {
  const { passed, refused, lapsed } = gate.counts;
  assert.equal(passed + refused + lapsed, clients.size);
  let sent = 0;
  for (const client of clients.values()) {
    assert.equal(client.verdicts, 1, `${client.id} was answered ${client.verdicts} times`);
    assert.equal(client.retriesTold, client.retriesAsked, `${client.id}: a retry was forgotten`);
    if (client.wasSent) sent += 1;
  }
  assert.equal(sent, passed);
  assert.ok(gate.policy === GATE);
}

Deno.test(`${RUNS} random histories of ${STEPS} events: each request at the gate is answered exactly once`, () => {
  const choice = fc.record({
    what: fc.nat(CHOICES.length - 1),
    which: fc.nat(9),
    ms: fc.integer({ min: 1, max: 400 }),
  });
  const history = fc.array(choice, { minLength: STEPS, maxLength: STEPS, size: "max" });
  fc.assert(fc.property(fc.nat(), history, live), { numRuns: RUNS, seed: 20_261_202, endOnFailure: false });
});
