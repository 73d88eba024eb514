/** Answers for people: tables and sentences with units. `--json` has everything; here stands what one looks for. */
import type { Operations } from "../operations/registry.ts";
import { renderAutotune, renderSweepResult } from "./cli_autotune.ts";
import { renderBenchmark } from "./cli_benchmark.ts";
import { renderChange, renderFan, renderGovernor, renderOverclock } from "./cli_card.ts";
import { renderCache, renderPlan, renderWarm } from "./cli_cache.ts";
import { clip, labelled, NAME_COLUMNS, quantity, table } from "./cli_output.ts";
import type { Style } from "./cli_output.ts";
import { printable } from "./printable.ts";
import { clock, renderEvents } from "./cli_events.ts";
import { renderFootprints, renderWorkloadPlan } from "./cli_plan.ts";
import {
  renderPin,
  renderProfiles,
  renderRanking,
  renderRun,
  renderSeries,
  renderStore,
  renderSwaps,
} from "./cli_record.ts";
import { renderGpu, renderStats } from "./cli_status.ts";

type Answer<N extends keyof Operations> = Operations[N]["output"];
type Render<N extends keyof Operations> = (value: Answer<N>, style: Style) => string;

/** An answer as text. The value is what the operation of that name answered. */
export function render(name: string, value: Readonly<Record<string, unknown>>, style: Style): string {
  // A long operation asked not to wait answers with its run.
  const key = "operation" in value && "version" in value ? "run" : name;
  // Each renderer stands under the name of the operation whose answer it takes.
  const own = (RENDERERS as unknown as Record<string, Render<never> | undefined>)[key];
  const shown = printable(value);
  return own === undefined ? renderPlain(shown, style) : own(shown as never, style);
}

const RENDERERS: { readonly [N in keyof Operations]?: Render<N> } = {
  stats: renderStats,
  autotune: renderAutotune,
  "autotune-sweep": renderSweepResult,
  gpu: renderGpu,
  memory: renderMemory,
  models: ({ models }, style) =>
    table(["SOURCE", "MODEL", "SIZE", "FAMILY", "QUANTIZATION", "IN VRAM", "IN RAM"], models.map(modelRow), {
      style,
      empty: "No models: neither Ollama nor ComfyUI offers any",
    }),
  history: ({ events }, style) => renderEvents(events, style),
  why: ({ decisions }, style) => renderDecisions(decisions, style),
  arbitration: renderArbitration,
  "set-arbitration": renderArbitration,
  plan: renderWorkloadPlan,
  footprints: renderFootprints,
  health: renderHealth,
  runs: ({ runs }, style) =>
    table(
      ["ID", "OPERATION", "STATE", "DONE", "PHASE", "STARTED"],
      runs.map((
        run,
      ) => [run.id, run.operation, run.state, quantity(run.done_pct, "%"), run.phase ?? "–", clock(run.started_at)]),
      { style, empty: "No runs in the last hour" },
    ),
  "free-vram": (value, style) => renderRelease(value, style),
  "comfy-free": (value, style) => renderRelease(value, style),
  "request-vram": (value, style) =>
    `${value.fits === false ? style.bad(value.message) : style.good(value.message)}\n` +
    labelled([
      ["needed", quantity(value.needed_gb, "GiB", 2)],
      ["free", `${quantity(value.free_gb, "GiB", 2)} (had ${quantity(value.had_gb, "GiB", 2)})`],
      ["reclaimed", quantity(value.reclaimed_gb, "GiB", 2)],
    ], style) +
    value.holders.map(({ bucket, vram_gb, who }) => `  ${bucket} ${vram_gb.toFixed(2)} GiB: ${who.join(", ")}\n`).join(
      "",
    ),
  "switch-model": renderSwitch,
  "analytics-profiles": renderProfiles,
  "analytics-swaps": renderSwaps,
  "analytics-timeseries": renderSeries,
  "analytics-models": renderRanking,
  db: renderStore,
  run: renderRun,
  "cancel-run": renderRun,
  "warm-cancel": renderRun,
  pin: renderPin,
  unpin: renderPin,
  "cache-report": renderCache,
  "warm-plan": renderPlan,
  "warm-all": renderWarm,
  "warm-model": renderWarm,
  overclock: renderOverclock,
  "apply-profile": renderChange,
  "save-profile": renderChange,
  "delete-profile": renderChange,
  "set-lever": renderChange,
  "confirm-change": renderChange,
  restore: renderChange,
  fan: renderFan,
  "set-fan": renderChange,
  governor: renderGovernor,
  "set-governor": renderGovernor,
  benchmark: renderBenchmark,
  dashboard: ({ url, path, expires_at: until }, style) =>
    `${url ?? path}\n${style.dim(`Works once, until ${until}`)}\n`,
};

function renderMemory(ram: Answer<"memory">, style: Style): string {
  return labelled([
    ["total", quantity(ram.total_gb, "GiB", 2)],
    ["used", quantity(ram.used_gb, "GiB", 2)],
    ["page cache", `${quantity(ram.cached_gb, "GiB", 2)} (${ram.cache_ratio_pct} %)`],
    ["of it models", `${quantity(ram.model_files_gb, "GiB", 2)} (${quantity(ram.model_residency_pct, "%")} of all)`],
    ["free", quantity(ram.free_gb, "GiB", 2)],
    ["available", quantity(ram.available_gb, "GiB", 2)],
    ["swap", `${quantity(ram.swap_used_gb, "", 2)} of ${quantity(ram.swap_total_gb, "GiB", 2)} used`],
  ], style);
}

function modelRow(model: Answer<"models">["models"][number]): string[] {
  return [
    model.source,
    clip(model.folder === null ? model.name : `${model.folder}/${model.name}`, NAME_COLUMNS),
    quantity(model.size_gb, "GB", 2),
    [model.family, model.parameter_size].filter((part) => part !== null).join(" ") || "–",
    model.quantization ?? "–",
    model.resident === null ? "–" : model.resident ? "yes" : "no",
    quantity(model.residency_pct, "%"),
  ];
}

function renderDecisions(decisions: Answer<"why">["decisions"], style: Style): string {
  return decisions.length === 0
    ? `${style.dim("Nothing has been decided yet")}\n`
    : decisions.map((decision) =>
      `${style.dim(`#${decision.id} ${clock(decision.at)}`)}  ${style.bold(decision.event)}\n` +
      `    ${decision.before} → ${decision.after}: ${decision.reason}\n` +
      decision.effects.map((effect) => `    ${style.dim("·")} ${effect}\n`).join("")
    ).join("");
}

function renderArbitration(view: Answer<"arbitration">, style: Style): string {
  return labelled([
    ["mode", view.mode + (view.until === null ? "" : ` until ${view.until}`)],
    ["holder", view.holder ?? "nobody"],
    ["lane", view.lane === null ? "free" : `${view.lane.job} for ${view.lane.cause}: ${view.lane.phase}`],
    ["waiting", view.waiting.map(({ kind, reason }) => `${kind} (${reason})`).join(", ") || "nobody"],
    ["kept", view.keep.join(", ") || "no model"],
    ...gateRows(view),
    [
      "hand-offs",
      `${view.hand_offs}, ${view.late_hand_offs} of them late; last margin ${quantity(view.last_margin_ms, "ms", 0)}`,
    ],
  ], style) + "\n" + renderDecisions(view.decisions, style);
}

function gateRows({ gate, held, gate_counts: counts }: Answer<"arbitration">): readonly [string, string][] {
  const urls = [gate.ollama, gate.comfyui].filter((url) => url !== null);
  if (urls.length === 0) return [["gate", "off"]];
  const open = Object.entries(counts.open).map(([why, count]) => `, ${count} unheld (${why})`).join("");
  return [
    ["gate", `${urls.join(", ")}: ${counts.passed} passed, ${counts.held} held first${open}`],
    ...held.map(({ tenant, what, path, reason, since }): [string, string] => [
      "held",
      `${tenant} ${what ?? path} since ${clock(since)}: ${reason}`,
    ]),
  ];
}

const STATE_STYLE: Readonly<Record<string, "good" | "warn" | "bad" | "dim">> = {
  ok: "good",
  degraded: "warn",
  broken: "bad",
  not_applicable: "dim",
};

function renderHealth({ state, checks }: Answer<"health">, style: Style): string {
  const painted = (word: string) => style[STATE_STYLE[word] ?? "dim"](word);
  return `${painted(state)}\n` +
    checks.map((check) =>
      `${painted(check.state)}  ${style.bold(check.name)}: ${check.finding}\n` +
      (check.breaks === null ? "" : `    breaks: ${check.breaks}\n`) +
      (check.remedy === null ? "" : `    remedy: ${check.remedy}\n`)
    ).join("");
}

function renderRelease(value: Answer<"free-vram"> | Answer<"comfy-free">, style: Style): string {
  const isGood = value.outcome === "released" || value.outcome === "nothing_loaded";
  return `${(isGood ? style.good : style.warn)(value.outcome)}: ${value.message}\n` +
    labelled([
      ["freed", quantity(value.freed_gb, "GiB", 2)],
      ["request", quantity(value.request_ms, "ms")],
      ["confirmed", value.confirm_ms === null ? "–" : `${value.confirm_ms} ms, by ${value.confirmed_by ?? "–"}`],
    ], style) +
    ("held" in value
      ? value.held.map((held) =>
        `  still held: ${quantity(held.vram_gb, "GiB", 2)} by ${held.model ?? "?"} (pid ${
          quantity(held.pid)
        }), ${held.evidence}\n`
      ).join("")
      : "");
}

function renderSwitch(value: Answer<"switch-model">, style: Style): string {
  return `${style.good(value.target_model)}: ${value.verdict}\n` + labelled([
    ["before", value.prev_model ?? "nothing resident"],
    [
      "took",
      `${quantity(value.total_duration_ms, "ms", 0)}, of it loading ${quantity(value.load_duration_ms, "ms", 0)}`,
    ],
    ["phases", phasesLine(value.phases)],
    ["class", `${value.class} (${value.class_basis}), ${quantity(value.gb_per_s, "GB/s")}`],
    [
      "VRAM",
      `${quantity(value.vram_gb, "GiB", 2)}${value.spilled === true ? style.warn(", part of it outside VRAM") : ""}`,
    ],
    ["speed", quantity(value.tokens_per_sec, "tokens/s", 1)],
  ], style) + (value.response.trim() === "" ? "" : `\n${value.response.trim()}\n`);
}

/** Only the parts that there were. */
function phasesLine(phases: Answer<"switch-model">["phases"]): string {
  const named = [
    ["making room", phases.room_ms],
    ["waiting", phases.wait_ms],
    ["load", phases.load_ms],
    ["answer", phases.answer_ms],
    ["reading back", phases.read_back_ms],
  ] as const;
  return named.flatMap(([name, ms]) => ms === null ? [] : `${name} ${quantity(ms, "ms", 0)}`).join(", ") || "–";
}

/** Anything else: one labelled line a field. */
function renderPlain(value: Readonly<Record<string, unknown>>, style: Style): string {
  const text = (field: unknown) =>
    field === null || field === undefined ? "–" : typeof field === "object" ? JSON.stringify(field) : String(field);
  return labelled(Object.entries(value).map(([name, field]) => [name.replaceAll("_", " "), text(field)]), style);
}
