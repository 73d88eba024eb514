import { fixed, UNKNOWN } from "../format.ts";

export interface ValueProps {
  readonly of: number | null | undefined;
  readonly unit?: string;
  readonly digits?: number;
  /** Why it isn't known, when it isn't. */
  readonly why?: string | null | undefined;
  readonly format?: (value: number) => string;
}

/** One figure with its unit. What isn't known is a dash whose title says why, never a zero. */
export function Value({ of, unit, digits = 0, why, format }: ValueProps) {
  if (of === null || of === undefined || !Number.isFinite(of)) return <Unknown why={why} />;
  return (
    <span class="value">
      {format ? format(of) : fixed(of, digits)}
      {unit ? <span class="unit">{unit === "%" || unit === "°C" ? unit : `\u2009${unit}`}</span> : null}
    </span>
  );
}

/** The dash for the unknown. */
export function Unknown({ why }: { readonly why?: string | null | undefined }) {
  const reason = why ?? "Not reported";
  return (
    <span class="unknown" title={reason}>
      <span aria-hidden="true">{UNKNOWN}</span>
      <span class="visually-hidden">unknown: {reason}</span>
    </span>
  );
}
