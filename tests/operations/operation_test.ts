import assert from "node:assert/strict";
import * as z from "zod";
import { Failure } from "../../lib/model/failure.ts";
import { define } from "../../lib/operations/operation.ts";
import type { Call } from "../../lib/operations/operation.ts";
import { operationNamed } from "../../lib/operations/registry.ts";
import { fakeBox } from "./fake_box.ts";
import type { FakeBox } from "./fake_box.ts";
import { switchResult } from "./fake_values.ts";

function callOf(box: FakeBox, signal: AbortSignal = new AbortController().signal): Call {
  return { signal, progress: () => {}, report: box.report };
}

function ask(name: string, raw: unknown, box = fakeBox()) {
  return operationNamed(name).invoke(box.services, raw, callOf(box));
}

Deno.test("wrong input is refused with what was wrong and what would be right", async () => {
  const cases: [string, unknown, RegExp, RegExp][] = [
    ["request-vram", {}, /^Parameter needed_gb is missing$/, /number above 0/],
    ["request-vram", { needed_gb: -1 }, /must be a number above 0 and at most 1000000, not -1/, /needed_gb/],
    ["request-vram", { needed_gb: "4" }, /must be a number above 0 and at most 1000000, not "4"/, /needed_gb/],
    ["request-vram", { need_gb: 4 }, /Unknown parameter "need_gb"; did you mean "needed_gb"\?/, /takes needed_gb/],
    ["request-vram", { needed_gb: Number.NaN }, /must be a number/, /needed_gb/],
    ["request-vram", [], /must be an object, not a list/, /^$/],
    ["request-vram", null, /must be an object, not null/, /^$/],
    ["history", { limit: 0 }, /a whole number from 1 to 1000, not 0/, /20 when left out/],
    ["history", { limit: 1.5 }, /a whole number from 1 to 1000, not 1.5/, /limit/],
    ["history", { kind: "yeild" }, /did you mean "yield"\?/, /one of swap/],
    ["stats", { verbose: true }, /Unknown parameter "verbose"/, /takes no parameters/],
    ["set-arbitration", { mode: "off" }, /one of auto, observe, paused, not "off"/, /mode/],
    ["set-arbitration", { keep: "a" }, /Parameter keep must be a list of names, not "a"/, /keep/],
    ["set-arbitration", { keep: ["a", 3] }, /Parameter keep must be a non-empty text, not 3/, /keep/],
  ];
  for (const [name, raw, message, hint] of cases) {
    const outcome = await ask(name, raw);
    assert.ok(!outcome.ok, `${name} ${JSON.stringify(raw)} was accepted`);
    assert.equal(outcome.code, "invalid_input");
    assert.match(outcome.message, message);
    assert.match(outcome.hint ?? "", hint);
  }
});

Deno.test("null counts as absent, and an alias as its parameter", async () => {
  const box = fakeBox();
  await ask("free-vram", { model_name: null, confirm: null }, box);
  await ask("free-vram", { model: "a", confirm: false }, box);
  await ask("free-vram", { model: "a", model_name: "a" }, box);
  assert.deepEqual(box.asked.map((line) => JSON.parse(line.slice("yieldVram ".length))), [
    { models: null, confirm: true, operation: "free-vram" },
    { models: ["a"], confirm: false, operation: "free-vram" },
    { models: ["a"], confirm: true, operation: "free-vram" },
  ]);
  const twice = await ask("free-vram", { model: "a", model_name: "b" }, box);
  assert.ok(!twice.ok && /given twice/.test(twice.message));
  assert.equal(box.asked.length, 3, "a contradiction reached the service");
});

Deno.test("an expected refusal keeps its code, hint and details; a bug becomes internal, reported once", async () => {
  const box = fakeBox();
  const refusedCall = await ask("request-vram", { needed_gb: 20 }, box);
  assert.deepEqual(refusedCall, {
    ok: false,
    code: "wont_fit",
    message: "Cannot make room for 20 GiB: the card has 16 GiB",
    hint: "unmanaged holds 0.5 GiB: pid 4003 whisper",
    details: { unmanaged_gb: 0.5 },
  });
  assert.deepEqual(box.defects, []);
  const bug = new TypeError("undefined is not a function");
  box.answers.purge = () => Promise.reject(bug);
  const broken = await ask("comfy-free", {}, box);
  assert.ok(!broken.ok);
  assert.equal(broken.code, "internal");
  assert.match(broken.message, /^Internal error in comfy-free \(id e1\)$/);
  assert.ok(!broken.message.includes("undefined"), "an internal message left through the door");
  assert.deepEqual(box.defects, [bug]);
});

Deno.test("output is held to its schema: extra fields stay inside, missing ones are a defect", async () => {
  const of = (value: unknown) =>
    define({
      name: "probe",
      summary: "",
      access: "read",
      input: z.object({}),
      output: z.object({ a: z.number() }),
      fails: [],
      http: { method: "GET", path: "/probe" },
      cli: false,
      tool: false,
      // The point of the test: a handler that answers something else than its type says.
      handle: () => value as { a: number },
    });
  const box = fakeBox();
  assert.deepEqual(await of({ a: 1, secret: 2 }).invoke(box.services, {}, callOf(box)), {
    ok: true,
    value: { a: 1 },
    accepted: false,
  });
  const broken = await of({ b: 1 }).invoke(box.services, {}, callOf(box));
  assert.ok(!broken.ok && broken.code === "internal");
  assert.equal(box.defects.length, 1);
});

Deno.test("long work: wait gives its answer, wait = false its run, and both are runs", async () => {
  const box = fakeBox();
  const waited = await ask("switch-model", { model: "qwen3:14b" }, box);
  assert.ok(waited.ok && !waited.accepted);
  assert.equal(waited.value["target_model"], "qwen3:14b");
  assert.equal(waited.value["tokens_per_sec"], 73.13);
  const started = await ask("switch-model", { model_name: "qwen3:14b", wait: false }, box);
  assert.ok(started.ok && started.accepted);
  assert.equal(started.value["operation"], "switch-model");
  const ended = await box.runs.ended(String(started.value["id"]));
  assert.deepEqual(ended.result, waited.value);
  assert.equal(box.runs.list().length, 2);
});

Deno.test("aborting the caller's signal cancels the run it waits for", async () => {
  const box = fakeBox();
  const phases: string[] = [];
  box.answers.switchModel = ({ signal, progress }) => {
    progress({ phase: "unloading", done: 0.1, etaMs: null });
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  };
  const abort = new AbortController();
  const call = { ...callOf(box, abort.signal), progress: ({ phase }: { phase: string }) => void phases.push(phase) };
  const waiting = operationNamed("switch-model").invoke(box.services, { model: "qwen3:14b" }, call);
  abort.abort();
  const outcome = await waiting;
  assert.ok(!outcome.ok && outcome.code === "cancelled");
  assert.deepEqual(phases, ["unloading"]);
  assert.equal(box.runs.list()[0]?.state, "cancelled");
  const late = await operationNamed("switch-model").invoke(box.services, { model: "qwen3:14b" }, call);
  assert.ok(!late.ok && late.code === "cancelled");
  assert.equal(box.runs.list().length, 1, "work was started for a caller that had cancelled");
});

Deno.test("more memory than can be counted is refused as input, whoever takes an amount", async () => {
  const asked: readonly [string, object][] = [
    ["plan", { needed_gb: 1e308 }],
    ["request-vram", { needed_gb: 1e308 }],
    ["warm-plan", { budget_gb: 1e308 }],
    ["warm-all", { budget_gb: 1e308 }],
    ["pin", { model_name: "qwen3:14b", budget_gb: 1e308 }],
  ];
  for (const [name, input] of asked) {
    const outcome = await ask(name, input);
    assert.ok(!outcome.ok && outcome.code === "invalid_input", `${name}: ${JSON.stringify(outcome)}`);
  }
});

Deno.test("a failed run tells the same as a failed call", async () => {
  const box = fakeBox();
  box.answers.switchModel = () =>
    Promise.reject(new Failure("busy", "Cannot load it: ComfyUI executes", { hint: "Wait", details: { queue: 2 } }));
  const waited = await ask("switch-model", { model: "qwen3:14b" }, box);
  assert.deepEqual(waited, {
    ok: false,
    code: "busy",
    message: "Cannot load it: ComfyUI executes",
    hint: "Wait",
    details: { queue: 2 },
  });
  box.answers.switchModel = () => Promise.resolve(switchResult({ totalMs: Number.NaN }));
  const broken = await ask("switch-model", { model: "qwen3:14b" }, box);
  assert.ok(!broken.ok && broken.code === "internal");
  assert.equal(box.defects.length, 1, "one defect, reported once");
});

Deno.test("arbitration set: a span or a time to come, and only with a mode that ends", async () => {
  const box = fakeBox();
  const set = (raw: unknown) => ask("set-arbitration", raw, box);
  const spans = await set({ mode: "paused", until: "45m" });
  assert.ok(spans.ok);
  assert.equal(spans.value["until"], "2026-01-01T12:45:00.000Z");
  const kept = await set({ keep: ["a"] });
  assert.ok(kept.ok && kept.value["mode"] === "paused" && kept.value["until"] === "2026-01-01T12:45:00.000Z");
  const auto = await set({ mode: "auto" });
  assert.ok(auto.ok && auto.value["until"] === null);
  for (
    const raw of [{}, { mode: "auto", until: "1h" }, { mode: "paused", until: "soon" }, {
      mode: "paused",
      until: "2025-01-01T00:00:00Z",
    }]
  ) {
    const outcome = await set(raw);
    assert.ok(!outcome.ok && outcome.code === "invalid_input", JSON.stringify(raw));
  }
});
