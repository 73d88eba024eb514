/** The page cache for people: files with their residency, the plan with its reasons, what a warm has done. */
import type { Operations } from "../operations/registry.ts";
import { clip, labelled, NAME_COLUMNS, quantity, table } from "./cli_output.ts";
import type { Style } from "./cli_output.ts";

type Answer<N extends keyof Operations> = Operations[N]["output"];
type File = Answer<"cache-report">["files"][number];

export function renderCache(report: Answer<"cache-report">, style: Style): string {
  const share = `${quantity(report.resident_gb, "GB", 2)} of ${quantity(report.size_gb, "GB", 2)}`;
  const unmeasurable = report.files_unmeasurable === 0 ? "" : `, ${report.files_unmeasurable} can't be measured`;
  return labelled([
    ["in memory", `${share} (${quantity(report.residency_pct, "%")})`],
    ["files", `${report.files_total}${unmeasurable}`],
    ...(report.pinned_gb === 0 ? [] : [["pinned", quantity(report.pinned_gb, "GB", 2)] as const]),
  ], style) +
    table(["IN MEMORY", "", "SIZE", "MODEL", "HOW", "AGE"], report.files.map((file) => fileRow(file, style)), {
      style,
      empty: "No model files were found: `ollama.models` and `comfyui.folders` in the configuration name places",
    }) +
    report.warming.map((warm) => `warming ${warm.path}: ${quantity(warm.done_pct, "%")}\n`).join("") +
    report.places.filter(({ problem }) => problem !== null)
      .map(({ path, origin, problem }) => style.warn(`${path} (${origin}): ${problem}\n`)).join("") +
    report.problems.map(({ path, problem }) => style.warn(`${path}: ${problem}\n`)).join("");
}

function fileRow(file: File, style: Style): string[] {
  const isSampled = file.exact === false;
  const interval = isSampled ? ` (${file.low_pct}–${file.high_pct} %)` : "";
  const how = file.state === "measured"
    ? `${file.method}${isSampled ? `, ${file.samples} pages` : ""}`
    : file.reason ?? "not measured yet";
  return [
    `${quantity(file.residency_pct, "%")}${interval}`,
    bar(file.residency_pct, style),
    quantity(file.size_gb, "GB", 2),
    nameOf(file) + (file.pinned ? " (pinned)" : ""),
    how,
    file.age_s === null ? "–" : `${Math.round(file.age_s)} s`,
  ];
}

/** The first of its models, and how many more there are. */
function nameOf({ models: [first, ...others], path }: { readonly models: readonly string[]; readonly path: string }) {
  return clip(first ?? path, NAME_COLUMNS) + (others.length === 0 ? "" : ` +${others.length}`);
}

const BAR_CELLS = 10;

function bar(pct: number | null, style: Style): string {
  if (pct === null) return style.dim("?".padEnd(BAR_CELLS));
  const full = Math.round((pct / 100) * BAR_CELLS);
  return "█".repeat(full) + style.dim("░".repeat(BAR_CELLS - full));
}

export function renderPlan(plan: Answer<"warm-plan">, style: Style): string {
  const head = labelled([
    ["budget", `${quantity(plan.budget_gb, "GB", 1)} (${plan.budget_basis})`],
    ["kept", `${quantity(plan.kept_gb, "GB", 2)} in memory already`],
    ["to read", quantity(plan.read_gb, "GB", 2)],
  ], style);
  const steps = plan.steps.map((step, index) => [
    String(index + 1),
    nameOf(step),
    quantity(step.read_gb, "GB", 2),
    quantity(step.residency_pct, "%"),
    `${step.saves_s} s`,
    step.why,
  ]);
  return head +
    table(["#", "MODEL", "TO READ", "IN MEMORY", "SAVES", "WHY"], steps, {
      style,
      empty: "Nothing to read",
    }) +
    plan.skipped.map(({ models, path, cause, why }) => style.dim(`– ${models[0] ?? path}: ${cause}, ${why}\n`)).join(
      "",
    );
}

export function renderWarm(warm: Answer<"warm-all">, style: Style): string {
  const rows = warm.files.map((file) => [
    nameOf(file),
    quantity(file.size_gb, "GB", 2),
    quantity(file.read_gb, "GB", 2),
    `${quantity(file.residency_before_pct, "%")} → ${quantity(file.residency_after_pct, "%")}`,
    file.end === "done" ? "done" : `${file.end}: ${file.reason ?? "no reason given"}`,
  ]);
  const message = warm.stopped_by === null ? style.good(warm.message) : style.warn(warm.message);
  return `${message}\n` +
    table(["MODEL", "SIZE", "READ", "IN MEMORY", "END"], rows, { style, empty: "No file was read" });
}
