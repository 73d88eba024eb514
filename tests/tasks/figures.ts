/** Figures that issues name, measured on wall time, each beside the bar it must meet. */

export interface Figure {
  readonly name: string;
  /** Null: could not be measured here; `note` says why. */
  readonly value: number | null;
  readonly unit: string;
  /** What it must be at most or at least; null = shown for information. */
  readonly bar: { readonly atMost: number } | { readonly atLeast: number } | null;
  /** Samples behind it. */
  readonly n: number;
  readonly note?: string;
}

/** One file of tests/bench exports one, as `bench`. */
export interface Bench {
  readonly name: string;
  /** One sentence: what is measured, against which control. */
  readonly about: string;
  measure(): Promise<readonly Figure[]>;
}

/** Null where there is no bar or no figure. */
export function isMet({ value, bar }: Pick<Figure, "value" | "bar">): boolean | null {
  if (value === null || bar === null) return null;
  return "atMost" in bar ? value <= bar.atMost : value >= bar.atLeast;
}

/** The value below which a share of the samples lies (nearest rank); null without samples. */
export function quantile(samples: readonly number[], share: number): number | null {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? null;
}

export function median(samples: readonly number[]): number | null {
  return quantile(samples, 0.5);
}

/** Plain text, columns aligned. */
export function tableOf(figures: readonly Figure[]): string {
  const rows = figures.map((figure) => [
    { true: "ok", false: "MISS", null: "" }[`${isMet(figure)}`],
    figure.name,
    figure.value === null ? "not measured" : `${digits(figure.value)} ${figure.unit}`,
    barOf(figure),
    `n=${figure.n}`,
    figure.note ?? "",
  ]);
  const widths = [0, 1, 2, 3, 4].map((column) => Math.max(0, ...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) => "  " + row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ").trimEnd())
    .join("\n");
}

function barOf({ bar, unit }: Figure): string {
  if (bar === null) return "";
  return "atMost" in bar ? `≤ ${digits(bar.atMost)} ${unit}` : `≥ ${digits(bar.atLeast)} ${unit}`;
}

/** Three digits that count. */
function digits(value: number): string {
  return Math.abs(value) >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toPrecision(3);
}
