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
