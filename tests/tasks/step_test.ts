import assert from "node:assert/strict";
import { NOTHING } from "./junit.ts";
import { judge, runStep, type Step } from "./step.ts";
import { wholePlan } from "./test_run.ts";

const PASSING = { passed: 3, failed: 0, skipped: [] };

Deno.test("a check counts as one, by its exit status", () => {
  assert.deepEqual(judge({ kind: "check" }, 0, NOTHING), { ...NOTHING, passed: 1 });
  assert.deepEqual(judge({ kind: "check" }, 1, NOTHING), { ...NOTHING, failed: 1 });
});

Deno.test("a step that finds no tests has failed", () => {
  assert.deepEqual(judge({ kind: "tests" }, 0, NOTHING), { ...NOTHING, failed: 1 });
});

Deno.test("tests that all passed in a run that failed (a type error, a leak) are a failure", () => {
  assert.deepEqual(judge({ kind: "tests" }, 0, PASSING), PASSING);
  assert.deepEqual(judge({ kind: "tests" }, 1, PASSING), { ...PASSING, failed: 1 });
  assert.deepEqual(judge({ kind: "tests" }, 1, { ...PASSING, failed: 2 }), { ...PASSING, failed: 2 });
});

function evaluating(code: string, more: Partial<Step> = {}): Step {
  return {
    name: "a step",
    kind: "check",
    command: { program: Deno.execPath(), args: ["eval", code] },
    limitMs: 60_000,
    ...more,
  };
}

async function told(
  step: Step,
): Promise<{ readonly lines: string[]; readonly failed: number; readonly skipped: readonly string[] }> {
  const lines: string[] = [];
  const { failed, skipped } = await runStep(step, (line) => lines.push(line));
  return { lines, failed, skipped };
}

Deno.test("a step that passed is one line, one that failed shows what it said", async () => {
  const passed = await told(evaluating("console.log('fine')"));
  assert.equal(passed.lines.length, 1);
  assert.match(passed.lines[0] ?? "", /^ok {4}a step +\d+\.\d s {3}1 passed, 0 failed$/);
  const failed = await told(evaluating("console.log('x ... ok (1ms)'); console.error('broken'); Deno.exit(3)"));
  assert.equal(failed.failed, 1);
  assert.match(failed.lines[0] ?? "", /^FAIL {2}a step/);
  assert.equal(failed.lines[1]?.trim(), "broken");
});

Deno.test("a step that can't run says why and counts as skipped", async () => {
  const { lines, failed, skipped } = await told(evaluating("Deno.exit(1)", { skip: "no gcc on PATH" }));
  assert.deepEqual([failed, skipped], [0, ["a step"]]);
  assert.match(lines[0] ?? "", /^skip {2}a step +no gcc on PATH$/);
});

Deno.test("a step past its limit is ended and has failed", async () => {
  const { lines, failed } = await told(evaluating("setTimeout(() => {}, 1e6)", { limitMs: 1 }));
  assert.equal(failed, 1);
  assert.match(lines[1] ?? "", /Ended after 0.001 s/);
});

Deno.test("without the shipped Deno its steps are skipped with the reason, without denort the binary's", () => {
  const deno = "/deno";
  const skips = (tools: Parameters<typeof wholePlan>[0]) =>
    wholePlan(tools).lanes.flat().map(({ skip }) => skip ?? null).filter((reason) => reason !== null);
  assert.deepEqual(skips({ deno, shipped: { path: "/deno-2.4.2" }, denort: { path: "/denort" } }), []);
  assert.deepEqual(skips({ deno, shipped: { reason: "no npx" }, denort: { path: "/denort" } }), ["no npx", "no npx"]);
  assert.deepEqual(skips({ deno, shipped: { path: "/deno-2.4.2" }, denort: { reason: "no denort" } }), ["no denort"]);
});
