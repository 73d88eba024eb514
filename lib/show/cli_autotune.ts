/** Sweeps for people: what was tried, how fast it was, and what came of it. */
import type { Operations } from "../operations/registry.ts";
import { labelled, quantity, type Style, table } from "./cli_output.ts";

type Status = Operations["autotune"]["output"];
type Result = Operations["autotune-sweep"]["output"];
type Step = Status["steps"][number];

export function renderAutotune({ running, last_result: last, steps }: Status, style: Style): string {
  const now = running === null ? "No sweep is under way\n" : labelled([
    ["sweep", `${running.knob} with ${running.workload} (${running.model ?? "no model yet"})`],
    ["stands at", running.phase],
    ["measured", `${running.measured} of at most ${running.planned}`],
    ["left", running.eta_ms === null ? "not known yet" : `${Math.ceil(running.eta_ms / 1_000)} s`],
  ], style);
  const ended = last === null ? "" : `Last result: ${textOf(last["message"])}\n`;
  const rows = steps.map((step) => [
    textOf(step["knob"]),
    textOf(step["value"]),
    textOf(step["role"]),
    quantity(numberOf(step["per_second"]), step["workload"] === "comfy" ? "it/s" : "tok/s", 2),
    String(samplesOf(step)),
    quantity(numberOf(step["temperature_max_c"]), "°C"),
    textOf(step["verdict"]),
  ]);
  const head = ["KNOB", "VALUE", "ROLE", "MEDIAN", "RUNS", "HOTTEST", "VERDICT"];
  return now + ended + table(head, rows, { style, empty: "Nothing was swept yet: hyperswap autotune sweep --help" });
}

export function renderSweepResult(result: Result, style: Style): string {
  const said = result.end === "improved" ? style.good(result.message) : result.message;
  return `${said}\n` + labelled([
    ["current", `${result.control_value} (${quantity(result.control_per_second, "a second", 2)})`],
    ["fastest stable", `${result.best_value ?? "–"} (${quantity(result.best_per_second, "a second", 2)})`],
    ["gain", quantity(result.gain_pct, "%", 1)],
    ["stands out", result.stands_out === null ? "not compared" : result.stands_out ? "yes" : "no"],
    ["spread of values", quantity(result.spread_pct, "%", 1)],
    ["applied", result.applied ?? "no"],
  ], style);
}

function samplesOf({ samples }: Step): number {
  return Array.isArray(samples) ? samples.length : 0;
}

function textOf(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "–";
}

function numberOf(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}
