/** What a sweep tries next, what it believes, and what it says of it: the pure parts. tests/services plays whole ones. */
import assert from "node:assert/strict";
import { degeneration, disbelief } from "../../lib/decide/autotune_judge.ts";
import { conclude } from "../../lib/decide/autotune_result.ts";
import type { Sweep } from "../../lib/decide/autotune_state.ts";
import { nextTask } from "../../lib/decide/autotune_tasks.ts";
import type { BenchSample, Knob, StepRole, StepVerdict, SweepPlan, SweepStep } from "../../lib/model/autotune.ts";
import type { LeverValue } from "../../lib/model/card.ts";

function sample(perSecond: number, change: Partial<BenchSample> = {}): BenchSample {
  return { perSecond, count: 19, durationMs: 2_900, seed: 1, degenerate: null, outputBytes: 20_000, ...change };
}

function step(
  role: StepRole,
  value: LeverValue,
  { speeds = [], verdict = "stable" }: { readonly speeds?: readonly number[]; readonly verdict?: StepVerdict } = {},
): SweepStep {
  return {
    role,
    value,
    samples: speeds.map((speed) => sample(speed)),
    rejected: [],
    verdict,
    reason: null,
    medianPerSecond: speeds.toSorted((a, b) => a - b)[Math.floor(speeds.length / 2)] ?? null,
    temperatureMaxC: 60,
    powerW: 300,
    graphicsMhz: 2_700,
    memoryMhz: 11_251,
    durationMs: 9_000,
  };
}

function plan(knob: Knob, candidates: readonly LeverValue[], control: LeverValue = "stock"): SweepPlan {
  return {
    id: "s",
    request: {
      knob,
      workload: "comfy",
      profile: "balanced",
      start: null,
      stop: null,
      step: null,
      repeats: 3,
      applyBest: false,
      model: null,
    },
    control,
    candidates,
    farthest: candidates[0] ?? "stock",
  };
}

function sweepOf(steps: readonly SweepStep[], change: Partial<Sweep> = {}): Sweep {
  return {
    plan: plan("power_limit_w", [300, 370]),
    startedMs: 0,
    phase: { name: "queueing" },
    generation: 1,
    model: "sdxl",
    current: null,
    steps,
    isCancelling: false,
    stoppedBy: null,
    mayGoOn: true,
    pauses: 0,
    ...change,
  };
}

/** Plays a sweep whose values run at the speeds given, and returns what was measured in order. */
function play(sweep: Sweep, speedAt: (value: LeverValue) => number): readonly string[] {
  const told: string[] = [];
  let steps = sweep.steps;
  for (let next = nextTask({ ...sweep, steps }); next !== null; next = nextTask({ ...sweep, steps })) {
    const { role, value, repeats } = next;
    told.push(`${role} ${value} ${repeats}`);
    steps = [
      ...steps,
      step(role, value, { speeds: Array.from({ length: repeats }, (_, at) => speedAt(value) + at / 1e3) }),
    ];
    assert.ok(told.length < 50);
  }
  return told;
}

Deno.test("a sweep: preflight, warm-up, control, every value, and the fastest against the current one in turn", () => {
  assert.deepEqual(play(sweepOf([]), (value) => value === 370 ? 6.7 : 6.5), [
    "preflight 300 0",
    "warm_up stock 1",
    "control stock 3",
    "candidate 300 3",
    "candidate 370 3",
    ...["control stock", "best 370", "best 370", "control stock"].map((name) => `confirm_${name} 1`),
    ...["control stock", "best 370", "best 370", "control stock"].map((name) => `confirm_${name} 1`),
    "confirm_control stock 1",
    "confirm_best 370 1",
  ]);
});

Deno.test("where nothing came out faster nothing is confirmed; after an unstable value nothing higher is tried", () => {
  assert.deepEqual(play(sweepOf([]), (value) => value === "stock" ? 6.7 : 6.5).at(-1), "candidate 370 3");
  const stopped = play(sweepOf([], { stoppedBy: "300 W is unstable" }), () => 6.5);
  assert.ok(!stopped.some((task) => task.startsWith("candidate")));
  assert.equal(nextTask(sweepOf([], { mayGoOn: false })), null);
});

Deno.test("a lock is judged under load, and one that stands is compared with unlocked as well", () => {
  const locked = sweepOf([], { plan: plan("lock_core_mhz", [1_800], 2_400) });
  const told = play(locked, () => 6.5);
  assert.deepEqual(told.slice(0, 4), ["preflight 1800 1", "warm_up 2400 1", "control 2400 3", "unlocked stock 3"]);
});

Deno.test("what is cut short is measured again", () => {
  const steps = [step("preflight", 300), step("warm_up", "stock", { speeds: [6.5] })];
  const cut = step("control", "stock", { speeds: [6.5], verdict: "cut_short" });
  assert.equal(nextTask(sweepOf([...steps, cut]))?.role, "control");
});

Deno.test("twice the current speed is a cache's answer; a bench that says so itself is believed in that", () => {
  const known = [step("warm_up", "stock", { speeds: [6.5] })];
  assert.equal(disbelief({ ok: true, sample: sample(6.9) }, known), null);
  assert.match(disbelief({ ok: true, sample: sample(1_000) }, known) ?? "", /answered from a cache/);
  assert.equal(disbelief({ ok: false, isRejected: true, message: "cached" }, known), "cached");
  assert.equal(disbelief({ ok: false, isRejected: false, message: "died" }, known), null);
  // The first run of all has nothing to be compared with.
  assert.equal(disbelief({ ok: true, sample: sample(1_000) }, []), null);
});

Deno.test("an output counts as broken only where the current setting's was whole", () => {
  const known = [step("control", "stock", { speeds: [6.5, 6.5, 6.5] })];
  assert.equal(degeneration(sample(6.5), known), null);
  assert.match(degeneration(sample(6.5, { outputBytes: 700 }), known) ?? "", /all but empty/);
  assert.equal(degeneration(sample(6.5, { degenerate: "repeats" }), known), "repeats");
  const odd = [{ ...step("control", "stock"), samples: [sample(6.5, { degenerate: "repeats", outputBytes: null })] }];
  assert.equal(degeneration(sample(6.5, { degenerate: "repeats" }), odd), null);
});

const MEASURED = [
  step("control", "stock", { speeds: [6.5, 6.51, 6.52] }),
  step("candidate", 300, { speeds: [3.2, 3.21, 3.22] }),
];
const FIVE = [0, 1, 2, 3, 4];

function confirmed(control: number, best: number): readonly SweepStep[] {
  return [
    ...MEASURED,
    step("candidate", 370, { speeds: [best, best + 0.001, best + 0.002] }),
    ...FIVE.map((at) => step("confirm_control", "stock", { speeds: [control + at / 100] })),
    ...FIVE.map((at) => step("confirm_best", 370, { speeds: [best + at / 100 + 0.001] })),
  ];
}

Deno.test("the gain is of the confirming runs alone; the spread of the values is told apart from it", () => {
  const result = conclude(sweepOf(confirmed(6.5, 6.7)), null);
  assert.equal(result.end, "improved");
  assert.ok(Math.abs((result.gainPct ?? 0) - 3.1) < 0.1);
  assert.ok((result.spreadPct ?? 0) > 50, "a value at half the speed makes no +102 % of anything");
  assert.equal(result.comparison?.test, "Mann–Whitney U, two-sided, exact");
  assert.match(result.message, /\+3\.1 % over stock.*stands out from noise \(Mann–Whitney U.*n=5\+5/);
});

Deno.test("a card that gains nothing is flat, whatever its values' spread", () => {
  const result = conclude(sweepOf(confirmed(6.52, 6.53)), null);
  assert.equal(result.end, "flat");
  assert.match(result.message, /^Flat: 370 W .* doesn't stand out from noise/);
});

Deno.test("an unstable value is never the best one", () => {
  const steps = [...MEASURED, step("candidate", 370, { speeds: [9, 9, 9], verdict: "unstable" })];
  const result = conclude(sweepOf(steps, { stoppedBy: "370 W is unstable" }), null);
  assert.deepEqual([result.end, result.bestValue], ["stopped_early", 300]);
});
