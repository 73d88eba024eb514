/**
 * The same operation gives the same value and the same error through every door. The seam is `open`: a box of fakes
 * here, the lab on a clock that only the test advances beside it.
 */
import { fakeBox } from "./operations/fake_box.ts";
import { checkDrift, checkStory } from "./show/drift_suite.ts";
import { openLabBox } from "./show/lab_box.ts";
import type { DriftBox } from "./show/drift_doors.ts";

/** The id of the run that every fake box holds: its clock counts ids up. */
const RUN_ID = "00000000-0000-4000-8000-000000000001";

async function openFakes(): Promise<DriftBox> {
  const box = fakeBox();
  const { id } = box.runs.start("switch-model", () => Promise.resolve({ target_model: "qwen3:14b" }));
  await box.runs.ended(id);
  return {
    services: box.services,
    clock: box.clock,
    report: box.report,
    settle: (promise) => promise,
    close: () => box.runs.close(),
  };
}

checkDrift("fakes", {
  open: openFakes,
  inputs: {
    models: [{}, { source: "ollama" }],
    why: [{}, { id: 1 }, { id: 9 }, { limit: 3 }],
    plan: [{ model: "qwen3:14b" }, { model: "nope" }, { workflow: "w", needed_gb: 4 }, { needed_gb: -1 }, {}],
    history: [{}, { limit: 1, kind: "yield", durable: false }, { before: 2 }],
    "analytics-profiles": [{}, { days: 1 }],
    "analytics-timeseries": [
      { metric: ["power_w"] },
      { metric: ["power_w", "temperature_c", "power_w"], from: "24h", to: "30m", points: 2 },
      { metric: ["power_w"], from: "2026-01-01T00:00:00Z", to: "2025-01-01" },
      { metric: ["power_w"], from: "yesterday" },
    ],
    "set-fan": [{ mode: "manual", percent: 60 }, { mode: "manual" }, { mode: "auto" }, { mode: "auto", percent: 40 }],
    "apply-profile": [{ profile: "comfy" }, { profile: "nope" }, { profile: "auto", confirm_within_s: 5 }],
    "save-profile": [
      { name: "quiet", power_limit_w: 250, fan: "default" },
      { name: "ollama", fan: 50 },
      { name: "x", lock_core_max: "max", confirm_within_s: 5 },
      { name: "x", fan: "fast" },
    ],
    "delete-profile": [{ name: "comfy" }, { name: "nope" }],
    "set-lever": [
      { lever: "power_limit_w", value: 300 },
      { lever: "power_limit_w", value: "400" },
      { lever: "lock_core_max", value: "default", confirm_within_s: 0 },
    ],
    restore: [{}, { scope: "journal" }],
    "set-governor": [{ enabled: false }, { clear: true }, {}],
    autotune: [{}, { limit: 3 }],
    "autotune-sweep": [
      { knob: "power_limit_w", wait: true },
      { knob: "lock_core_max", workload: "comfy", profile: "comfy", start: 900, stop: 2_400, step: 300, wait: true },
      { knob: "fan" },
    ],
    "autotune-cancel": [{}, { id: RUN_ID }],
    run: [{ id: RUN_ID }, { id: "nothing" }, { id: "a/b?c" }],
    "cancel-run": [{ id: RUN_ID }, { id: "nothing" }],
    "switch-model": [{ model: "qwen3:14b" }, { model: "nope" }, {
      model: "qwen3:14b",
      keep_alive: "1h",
      prompt: "hello",
    }, { model_name: "qwen3:14b" }],
    "free-vram": [{}, { model_name: "qwen3:14b", confirm: false }, { model: "a" }, { model: "a", model_name: "b" }],
    "comfy-free": [{}, { confirm: false }],
    "end-runner": [{ pid: 4001, starttime: 991 }, { pid: 4001 }, { pid: 0, starttime: 1 }],
    "request-vram": [{ needed_gb: 2 }, { needed_gb: 99 }, { needed_gb: 0 }],
    "cache-report": [{}, { include_files: false }],
    "warm-plan": [{}, { budget_gb: 12.5 }, { budget_gb: 0 }],
    "warm-all": [{}, { wait: true }, { budget_gb: 5, force: true, wait: true }],
    "warm-model": [
      { model_name: "qwen3:14b" },
      { filepath: "/a/b" },
      { model_name: "nope" },
      {},
      { model: "a", filepath: "/b" },
      { model_name: "qwen3:14b", force: true, blob_only: false, wait: false },
    ],
    "warm-cancel": [{}, { id: RUN_ID }],
    pin: [{ model_name: "qwen3:14b" }, { filepath: "/a/b", budget_gb: 2 }, {}],
    unpin: [{ model_name: "qwen3:14b" }, {}],
    "set-pinned": [{ pinned: true, model_name: "qwen3:14b" }, { pinned: false, filepath: "/a" }],
    benchmark: [{}, { iterations: 3, models: ["qwen3:14b", "llama3.1:8b"] }, { models: ["nope"] }, { wait: false }],
    "set-arbitration": [
      { mode: "observe" },
      { mode: "paused", until: "2h", keep: ["a", "b"] },
      { mode: "auto", until: "2h" },
      { until: "never" },
      {},
    ],
  },
});

checkStory("lab", {
  open: openLabBox,
  story: [
    ["version", {}],
    ["health", {}],
    ["stats", {}],
    ["models", {}],
    ["memory", {}],
    ["switch-model", { model: "no such model" }],
    ["switch-model", { model: "qwen3:14b" }],
    ["stats", {}],
    ["gpu", {}],
    ["request-vram", { needed_gb: 99 }],
    ["request-vram", { needed_gb: 1 }],
    ["switch-model", { model: "llama3.1:8b", keep_alive: "1h" }],
    ["arbitration", {}],
    ["free-vram", {}],
    ["free-vram", {}],
    ["comfy-free", {}],
    ["end-runner", { pid: 4001, starttime: 991 }],
    ["set-arbitration", { mode: "paused", until: "2h", keep: ["qwen3:14b"] }],
    ["set-arbitration", { mode: "auto" }],
    ["switch-model", { model: "qwen3:14b", wait: false }],
    ["runs", {}],
    ["why", { limit: 5 }],
    ["plan", { model: "qwen3:14b" }],
    ["plan", { workflow: "portrait" }],
    ["plan", { needed_gb: 14 }],
    ["footprints", {}],
    ["history", {}],
    ["stats", {}],
  ],
});
