/** Model files and a plan as the dashboard's fake tells them, one of each kind of row, and what their names may hold. */
import assert from "node:assert/strict";
import type { Operations } from "../../lib/operations/registry.ts";
import type { Play } from "./dashboard_scenes.ts";

type File = Operations["cache-report"]["output"]["files"][number];

const counted = {
  state: "measured",
  method: "cachestat",
  exact: true,
  samples: null,
  probe_read_mb: 0,
  probe_dropped_mb: 0,
  reason: null,
  age_s: 3,
  pinned: false,
} as const;

const FILES: readonly File[] = [
  {
    ...counted,
    path: "/opt/ComfyUI/models/checkpoints/flux1-dev-fp8.safetensors",
    source: "comfyui",
    models: ["checkpoints/flux1-dev-fp8.safetensors"],
    size_gb: 17.247,
    residency_pct: 4.2,
    resident_gb: 0.724,
    low_pct: 4.2,
    high_pct: 4.2,
  },
  {
    ...counted,
    path: "/usr/share/ollama/.ollama/models/blobs/sha256-aa",
    source: "ollama",
    models: ["qwen3:14b", "mine:latest"],
    size_gb: 9.276,
    residency_pct: 100,
    resident_gb: 9.276,
    low_pct: 100,
    high_pct: 100,
    pinned: true,
  },
  {
    ...counted,
    path: "/usr/share/ollama/.ollama/models/blobs/sha256-bb",
    source: "ollama",
    models: ["tiny:latest"],
    size_gb: 0.021,
    state: "unmeasurable",
    residency_pct: null,
    resident_gb: null,
    method: null,
    exact: null,
    low_pct: null,
    high_pct: null,
    reason: "it has holes, which a sample would take for resident pages",
  },
];

export const CACHE_REPORT: Operations["cache-report"]["output"] = {
  files_total: 3,
  files_measured: 2,
  files_unmeasurable: 1,
  size_gb: 26.544,
  resident_gb: 10,
  residency_pct: 37.7,
  pinned_gb: 9.276,
  measured_at: "2026-01-01T11:59:57.000Z",
  files: [...FILES],
  warming: [],
  places: [],
  problems: [],
};

export const WARM_PLAN: Operations["warm-plan"]["output"] = {
  budget_gb: 20,
  budget_basis: "80 % of free memory and page cache",
  kept_gb: 9.276,
  read_gb: 16.523,
  steps: [{
    path: FILES[0]?.path ?? "",
    models: [...FILES[0]?.models ?? []],
    size_gb: 17.247,
    read_gb: 16.523,
    saves_s: 37.2,
    score: 2.25,
    why: "used 3 times, last 2 h ago",
    residency_pct: 4.2,
  }],
  skipped: [],
  probe_read_mb: 0,
  probe_dropped_mb: 0,
};

/** A name of any length and any signs stays in its place, and says what it is. */
export const cacheNamesScene: Play = async (fake, open) => {
  const [file] = FILES;
  assert.ok(file);
  const of = (name: string, size_gb: number): File => ({ ...file, path: `/m/${name}`, models: [name], size_gb });
  const files = [of(`loras/${"n".repeat(240)}`, 0.02), of("loras/\u202esrosnetefas.ltr", 0.003), of("loras/x", 0)];
  fake.replies.set("GET /api/cache/report", { status: 200, body: { ...CACHE_REPORT, files } });
  const { page, complaints } = await open(fake.url, { viewport: { width: 390, height: 900 } });
  const rows = page.locator(".cache-file");
  const name = rows.nth(0).getByText(/nnn/);
  const shown = await name.evaluate((element) => ({
    isCut: element.scrollWidth > element.clientWidth,
    isDotted: getComputedStyle(element).textOverflow === "ellipsis" && getComputedStyle(element).display !== "flex",
    share: element.clientWidth / (element.closest("li")?.clientWidth ?? 1),
  }));
  assert.deepEqual({ ...shown, share: shown.share > 0.8 }, { isCut: true, isDotted: true, share: true });
  await rows.nth(1).getByText("loras/\ufffdsrosnetefas.ltr").waitFor();
  assert.deepEqual(await rows.locator(".cache-size").allTextContents(), ["20 MB", "3 MB", "< 1 MB"]);
  assert.deepEqual(complaints, []);
};

/** Whoever pressed a button is told how it went, though the work is a run that goes on without the page. */
export const warmEndsScene: Play = async (fake, open) => {
  const base = fake.stats;
  const common = { operation: "warm-model", phase: null, done_pct: null, eta_ms: null, ended_at: null };
  const { page, complaints } = await open(fake.url);
  const panel = page.getByRole("region", { name: "Models in RAM" });
  const warm = panel.getByRole("button", { name: "Warm checkpoints/flux1-dev-fp8.safetensors" });
  const endsAs = async (state: "done" | "failed" | "cancelled", more: object) => {
    // A run of its own each time: the page may still know the last one.
    const run = { ...common, id: state, started_at: "2026-01-01T12:00:00.000Z", state: "running" as const };
    const whole = { ...run, version: 1, result: null, error: null };
    fake.replies.set("POST /api/warm-model", { status: 200, body: whole });
    fake.replies.set(`GET /api/runs/${state}`, { status: 200, body: { ...whole, state, ...more } });
    await warm.click();
    fake.push({ ...base, runs: [run] });
    await panel.getByRole("progressbar").waitFor();
    assert.equal(await panel.locator(".note").isVisible(), false, "the bar tells it");
    fake.push({ ...base, runs: [{ ...run, state }] });
  };

  const gone = { code: "not_found", message: "It is no model file of the catalogue", hint: "A new one shows in 10 s" };
  await endsAs("failed", { error: gone });
  await panel.locator(".note-bad").getByText(gone.message).waitFor();
  await panel.getByText(gone.hint).waitFor();

  await endsAs("cancelled", { error: { code: "cancelled", message: "Cancelled warm-model on request", hint: null } });
  await panel.locator(".note-info").getByText("Cancelled warm-model on request").waitFor();

  const files = [{ end: "changed", reason: "The file became shorter while it was read" }];
  await endsAs("done", { result: { message: "Read 0.15 GB", stopped_by: null, files } });
  await panel.locator(".note-warn").getByText("Read 0.15 GB").waitFor();
  await panel.getByText("became shorter").waitFor();
  assert.deepEqual(complaints, []);
};
