/** What the record adds up to, as tables: speeds by profile, times of hand-offs, one figure over time, models by use. */
import type { Operations } from "../operations/registry.ts";
import { clock } from "./cli_events.ts";
import { labelled, quantity, type Style, table } from "./cli_output.ts";

type Answer<N extends keyof Operations> = Operations[N]["output"];
type Spread = Answer<"analytics-swaps">["swap_ms"];

export function renderProfiles(report: Answer<"analytics-profiles">, style: Style): string {
  const rows = report.profiles.map((one) => [
    one.profile,
    one.model ?? one.workload,
    `${quantity(one.per_second.p50, one.workload === "ollama" ? "tokens/s" : "it/s", 2)}`,
    `${one.per_second.p25}–${one.per_second.p75}`,
    String(one.per_second.n),
    quantity(one.temperature_c, "°C"),
    quantity(one.power_w, "W"),
    quantity(one.throttled_pct, "%"),
  ]);
  return table(["PROFILE", "WORK", "MEDIAN", "QUARTILES", "N", "TEMPERATURE", "POWER", "THROTTLED"], rows, {
    style,
    empty: "Nothing was measured in this time",
  }) + report.comparisons.map((one) => `${one.verdict}\n`).join("") + cut(report, style);
}

export function renderSwaps(report: Answer<"analytics-swaps">, style: Style): string {
  const row = (name: string, spread: Spread) => [
    name,
    ...(["p50", "p95", "p99", "max"] as const).map((key) => quantity(spread?.[key] ?? null, "ms", 0)),
    String(spread?.n ?? 0),
  ];
  const models = report.models.map((one) => [
    one.model,
    String(one.swaps),
    quantity(one.load_ms?.p50 ?? null, "ms", 0),
    quantity(one.gb_per_s?.p50 ?? null, "GB/s", 2),
    quantity(one.tokens_per_sec?.p50 ?? null, "tokens/s", 1),
    countsText(one.classes),
  ]);
  const { limits } = report;
  return table(["", "MEDIAN", "P95", "P99", "MOST", "N"], [
    row("swap", report.swap_ms),
    row("yield", report.yield_ms),
    row("purge", report.purge_ms),
    row("margin", report.margin_ms),
  ], { style, empty: "" }) + "\n" + labelled([
    ["late hand-offs", String(report.late_hand_offs)],
    ["yields", countsText(report.yield_outcomes)],
    ["purges", countsText(report.purge_outcomes)],
    ["loads", countsText(report.classes)],
    [
      "classed by",
      `hit from ${limits.hit_gb_per_s} GB/s, partial from ${limits.partial_gb_per_s} GB/s (${limits.basis})`,
    ],
    ...(report.ram_against_disk === null ? [] : [["RAM and disk", report.ram_against_disk.verdict] as const]),
  ], style) + "\n" +
    table(["MODEL", "SWAPS", "LOAD", "RATE", "SPEED", "CLASSES"], models, { style, empty: "No model was loaded" }) +
    cut(report, style);
}

export function renderSeries({ at, bucket_s: bucketS, series }: Answer<"analytics-timeseries">, style: Style): string {
  const names = Object.keys(series);
  const rows = at.map((second, index) => [
    clock(new Date(second * 1_000).toISOString()),
    ...names.map((name) => {
      const line = series[name];
      const [low, mean, high] = [line?.min[index], line?.avg[index], line?.max[index]];
      return typeof mean === "number" ? `${mean} (${low}–${high})` : "–";
    }),
  ]);
  const headings = names.map((name) => `${name.toUpperCase()}${series[name]?.unit ? `, ${series[name].unit}` : ""}`);
  return `${style.dim(`Average (least–most) of each ${bucketS} s`)}\n` +
    table(["AT", ...headings], rows, { style, empty: "Nothing was recorded in this time" });
}

export function renderRanking({ models }: Answer<"analytics-models">, style: Style): string {
  return table(
    ["RANK", "MODEL", "SOURCE", "SCORE", "USES", "LAST USED"],
    models.map((one) => [
      String(one.rank),
      one.model,
      one.source,
      quantity(one.score, "", 2),
      String(one.uses),
      one.last_used_at === null ? "–" : clock(one.last_used_at),
    ]),
    { style, empty: "No model was used in this time" },
  );
}

export function renderStore(store: Answer<"db">, style: Style): string {
  return labelled([
    ["file", store.path ?? "nothing is kept on disk"],
    ["size", store.size_bytes === null ? "–" : `${(store.size_bytes / 1e6).toFixed(2)} MB`],
    ["holds", quantity(store.hours_held, "hours", 1)],
    ["written", store.last_flush_at === null ? "not yet" : `${clock(store.last_flush_at)} UTC`],
    ["rows", countsText(store.rows)],
    ...(store.error === null ? [] : [["problem", style.bad(store.error)] as const]),
  ], style);
}

/** Long work, ended or not. */
export function renderRun(run: Answer<"run">, style: Style): string {
  const isBad = run.state === "failed" || run.state === "cancelled";
  return labelled([
    ["run", `${style.bold(run.operation)} ${style.dim(run.id)}`],
    ["state", (isBad ? style.warn : style.good)(run.state)],
    ["progress", [quantity(run.done_pct, "%"), run.phase ?? ""].filter((part) => part !== "").join("  ")],
    ["started", `${clock(run.started_at)} UTC`],
    ["ended", run.ended_at === null ? "–" : `${clock(run.ended_at)} UTC`],
    ...(run.error === null ? [] : [["error", style.bad(run.error.message)] as const]),
    ...(run.error?.hint === undefined ? [] : [["hint", run.error.hint] as const]),
  ], style);
}

export function renderPin(pin: Answer<"pin">, style: Style): string {
  return `${pin.message}\n` + labelled([
    ["locked", `${quantity(pin.locked_gb, "GB", 3)} of ${quantity(pin.budget_gb, "GB", 3)} allowed`],
    ["available", `${quantity(pin.available_before_gb, "", 2)} → ${quantity(pin.available_after_gb, "GiB", 2)}`],
  ], style) + pin.pinned.map(({ path, locked_gb: gb }) => `  ${quantity(gb, "GB", 3)}  ${path}\n`).join("");
}

function countsText(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts).map(([name, n]) => `${name} ${n}`).join(", ") || "none";
}

function cut({ read, truncated }: { readonly read: number; readonly truncated: boolean }, style: Style): string {
  return style.dim(`From ${read} records${truncated ? ", the newest of more" : ""}`) + "\n";
}
