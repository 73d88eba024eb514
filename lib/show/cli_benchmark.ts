/** A benchmark for people: one line a transition, and what they add up to. */
import type { Operations } from "../operations/registry.ts";
import { quantity, table } from "./cli_output.ts";
import type { Style } from "./cli_output.ts";

type Answer = Operations["benchmark"]["output"];
type Spread = Answer["transition_ms"];

export function renderBenchmark({ legs, summaries, transition_ms, message, given_way }: Answer, style: Style): string {
  const rows = legs.map((leg) => [
    String(leg.iteration),
    leg.to,
    quantity(leg.transition_ms, "ms", 0),
    quantity(leg.unload_ms, "ms", 0),
    quantity(leg.load_ms, "ms", 0),
    quantity(leg.tokens_per_sec, "", 1),
    quantity(leg.residency_before_pct, "%"),
    leg.class,
  ]);
  const all = [
    ...summaries.map(({ to, ...of }) => ({ name: to, ...of })),
    ...(summaries.length > 1 ? [{ name: "all together", transition_ms, load_ms: null, tokens_per_sec: null }] : []),
  ];
  return `${given_way ? style.warn(message) : style.good(message)}\n` +
    table(["ROUND", "TO", "TRANSITION", "UNLOAD", "LOAD", "TOK/S", "IN RAM", "CLASS"], rows, {
      style,
      empty: "No transition was completed",
    }) +
    table(
      ["", "N", "MEAN", "MEDIAN", "P95", "LOAD MEDIAN", "TOK/S MEDIAN"],
      all.map((of) => [
        of.name,
        String(of.transition_ms?.n ?? 0),
        figure(of.transition_ms, "mean"),
        figure(of.transition_ms, "p50"),
        figure(of.transition_ms, "p95"),
        figure(of.load_ms, "p50"),
        quantity(of.tokens_per_sec?.p50 ?? null, "", 1),
      ]),
      { style, empty: "" },
    ) +
    (transition_ms?.p95 === null ? style.dim("A p95 takes 20 transitions\n") : "");
}

function figure(of: Spread, name: "mean" | "p50" | "p95"): string {
  return quantity(of?.[name] ?? null, "ms", 0);
}
