/** `hyperswap top` as lines: who holds the card, what is on its way, what has just happened. Nothing here asks or waits. */
import type { Operations } from "../operations/registry.ts";
import { renderEvents } from "./cli_events.ts";
import { clip, type Hue, labelled, quantity, stackedBar, type Style, table } from "./cli_output.ts";
import { secondsLeft } from "./cli_progress.ts";
import { printable } from "./printable.ts";
import { arbiterLine, cardLine, comfyLine, ollamaLine } from "./cli_status.ts";

type Stats = Operations["stats"]["output"];

export interface TopView {
  readonly style: Style;
  readonly columns: number;
  /** Events fill what is left of so many rows. */
  readonly rows: number;
  /** Said in place of the keys: what is wrong with the connection. */
  readonly notice: string | null;
}

const BAR_LEAST = 10;
const BAR_MOST = 60;
/** Beside the bar: its label and its figures. */
const BESIDE_BAR = 44;
const EVENTS_LEAST = 3;
const PROCESSES_MOST = 8;
const RUNS_MOST = 3;

const BUCKETS = [
  ["ollama", "ollama_gb", "blue", "O"],
  ["comfyui", "comfyui_gb", "magenta", "C"],
  ["desktop", "desktop_gb", "cyan", "D"],
  ["unmanaged", "unmanaged_gb", "yellow", "U"],
  ["unaccounted", "unaccounted_gb", "yellow", "?"],
] as const satisfies readonly (readonly [string, string, Hue, string])[];

/** Never more lines than rows, nor wider than columns. */
export function topLines(told: Stats, view: TopView): string[] {
  const stats = printable(told);
  const { style, columns, rows } = view;
  const cells = Math.max(BAR_LEAST, Math.min(BAR_MOST, columns - BESIDE_BAR));
  const upper = [
    title(stats, view),
    "",
    ...vram(stats, cells, style),
    ...ram(stats, cells, style),
    ...lines(labelled(facts(stats, style), style)),
    ...section("RUNS", runs(stats, style), style),
    ...section("ON THE CARD", processes(stats, style), style),
  ];
  const footer = view.notice === null ? style.dim("q quits") : style.bad(view.notice);
  const left = rows - upper.length - 2;
  const events = left > EVENTS_LEAST
    ? ["", ...lines(renderEvents(stats.history.slice(0, left - 2), style, columns)).slice(0, left)]
    : [];
  const body = [...upper, ...events].slice(0, Math.max(1, rows - 1));
  return [...body, footer].slice(0, rows).map((line) => clip(line, columns));
}

function lines(text: string): string[] {
  return text.split("\n").slice(0, -1);
}

function section(heading: string, body: readonly string[], style: Style): string[] {
  return body.length === 0 ? [] : ["", style.bold(heading), ...body];
}

function title({ gpu, simulated, timestamp }: Stats, { style, columns }: TopView): string {
  const name = gpu.available ? gpu.device_name ?? "unnamed card" : `${gpu.state}: ${gpu.reason ?? ""}`;
  const left = `HyperSwap  ${name}${simulated ? "  SIMULATED" : ""}`;
  const at = `${new Date(timestamp * 1_000).toISOString().slice(11, 19)} UTC`;
  const gap = Math.max(2, columns - left.length - at.length);
  const painted = gpu.available ? style.bold(left) : style.bad(left);
  return `${simulated ? style.warn(left) : painted}${" ".repeat(gap)}${style.dim(at)}`;
}

function vram({ gpu }: Stats, cells: number, style: Style): string[] {
  if (!gpu.available) return gpu.remedy === null ? [] : [`hint: ${gpu.remedy}`, ""];
  const held = BUCKETS.map(([label, key, hue, letter]) => ({ label, value: gpu.breakdown[key], hue, letter }));
  const total = gpu.vram_total_gb ?? 0;
  const bar = stackedBar(held.map((part) => ({ ...part, value: part.value ?? 0 })), { total, cells, style });
  const figures = `${quantity(gpu.vram_used_gb, "", 2)} of ${quantity(total, "GiB", 2)}, ${
    quantity(gpu.vram_free_gb, "free", 2)
  }`;
  const legend = held.filter(({ value }) => value !== 0).map(({ label, value, hue, letter }) =>
    `${style.hasColour ? style.hue(hue, "■") : letter} ${label} ${quantity(value, "", 2)}`
  );
  return [`${style.dim("VRAM")}  ${bar}  ${figures}`, `      ${legend.join("   ") || style.dim("nobody holds any")}`];
}

function ram({ ram: memory }: Stats, cells: number, style: Style): string[] {
  if (memory === null) return [];
  const models = memory.model_files_gb;
  const other = Math.max(0, memory.cached_gb - (models ?? 0));
  const bar = stackedBar([
    { value: memory.used_gb, hue: "cyan", letter: "P" },
    { value: models ?? 0, hue: "green", letter: "M" },
    { value: other, hue: "yellow", letter: "o" },
  ], { total: memory.total_gb, cells, style });
  const mark = (hue: Hue, letter: string) => style.hasColour ? style.hue(hue, "■") : letter;
  return [
    `${style.dim("RAM ")}  ${bar}  ${quantity(memory.available_gb, "", 1)} of ${
      quantity(memory.total_gb, "GiB", 1)
    } available`,
    `      ${mark("cyan", "P")} programs ${quantity(memory.used_gb, "", 1)}   ${mark("green", "M")} model files ${
      quantity(models, "", 1)
    } of ${quantity(memory.model_files_total_gb, "", 1)} (${quantity(memory.model_residency_pct, "%", 0)})   ${
      mark("yellow", "o")
    } other cache ${quantity(other, "", 1)}`,
    "",
  ];
}

function facts(stats: Stats, style: Style): [string, string][] {
  const { gpu, tuning, arbitration } = stats;
  const waiting = arbitration.waiting.map(({ kind, reason }) => `${kind}: ${reason}`);
  return [
    ...(gpu.available ? [["Card", cardLine(gpu, style)] as [string, string]] : []),
    ...(tuning === null || !tuning.available ? [] : [["Profile", profileLine(tuning, style)] as [string, string]]),
    ["Ollama", ollamaLine(stats.ollama, style)],
    ["ComfyUI", comfyLine(stats.comfyui, style)],
    ["Arbiter", arbiterLine(arbitration, style)],
    ...waiting.map((text): [string, string] => ["waits", text]),
  ];
}

function profileLine(tuning: NonNullable<Stats["tuning"]>, style: Style): string {
  const { governor, drift, confirm } = tuning;
  return [
    `${tuning.active_profile ?? "none"} (${tuning.why})`,
    ...(governor.level > 0 ? [style.warn(`governor: ${governor.rung}, ${governor.reason}`)] : []),
    ...(drift.length > 0 ? [style.warn("the card has drifted from it")] : []),
    ...(confirm !== null ? [style.warn("a change waits to be confirmed")] : []),
  ].join("  ");
}

function runs(stats: Stats, style: Style): string[] {
  const under = stats.runs.filter(({ state }) => state === "running").slice(0, RUNS_MOST);
  return under.map((run) => {
    const done = run.done_pct === null
      ? ""
      : `${stackedBar([{ value: run.done_pct, hue: "green", letter: "#" }], { total: 100, cells: 20, style })} ${
        quantity(run.done_pct, "%", 0)
      }  `;
    const left = run.eta_ms === null ? "" : `  ${secondsLeft(run.eta_ms)}`;
    return `${run.operation}  ${done}${run.phase ?? ""}${left}`;
  });
}

function processes({ gpu }: Stats, style: Style): string[] {
  if (!gpu.available) return [];
  const rows = [...gpu.breakdown.processes].sort((a, b) => (b.vram_gb ?? 0) - (a.vram_gb ?? 0)).slice(
    0,
    PROCESSES_MOST,
  );
  return lines(table(
    ["PID", "BUCKET", "VRAM", "SM", "NAME"],
    rows.map((process) => [
      String(process.pid),
      process.bucket,
      quantity(process.vram_gb, "GiB", 2),
      quantity(process.sm_pct, "%"),
      process.name,
    ]),
    { style, empty: "No process on the card" },
  ));
}
