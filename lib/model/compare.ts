/** Whether two sets of measurements differ by more than noise. */
import type { Comparison } from "./analytics.ts";
import { quantile } from "./distribution.ts";

/** The chance of a false alarm over all comparisons that are made at once. */
const ALPHA = 0.01;
/** Up to so many values a side the ranks' exact distribution is counted out. */
const EXACT_N = 20;
/** Values a side from which the normal approximation of the ranks holds well enough. */
const LEAST_APPROXIMATE = 8;

export interface Named {
  readonly name: string;
  readonly values: readonly number[];
}

/**
 * Mann–Whitney U, two-sided: speeds are skewed by single slow runs, so ranks are compared and not means. Exact without
 * ties and up to 20 values a side, else the normal approximation with corrections for ties and continuity, from 8 values
 * a side. The allowed chance of a false alarm, 1 %, is shared out among `among` comparisons (Bonferroni).
 */
export function compare(a: Named, b: Named, { among }: { readonly among: number }): Comparison {
  const alpha = ALPHA / Math.max(1, among);
  const found = testOf(a.values, b.values, alpha);
  const standsOut = found.pValue === null ? null : found.pValue <= alpha;
  const [medianA, medianB] = [medianOf(a.values), medianOf(b.values)];
  const differencePct = medianA === null || medianB === null || medianA === 0 ? null : (medianB / medianA - 1) * 100;
  const base = { a: a.name, b: b.name, aN: a.values.length, bN: b.values.length, differencePct, alpha, standsOut };
  return { ...base, pValue: found.pValue, test: found.test, verdict: verdictOf(base, found) };
}

interface Tested {
  readonly pValue: number | null;
  readonly test: string;
  readonly tooFew: string | null;
}

function testOf(a: readonly number[], b: readonly number[], alpha: number): Tested {
  const { u, ties } = rank(a, b);
  const isExact = ties === 0 && a.length <= EXACT_N && b.length <= EXACT_N;
  if (isExact) {
    const test = "Mann–Whitney U, two-sided, exact";
    // The most extreme order there is: were even that no proof, no order could be.
    if (2 / choose(a.length + b.length, a.length) > alpha) {
      return { pValue: null, test, tooFew: `${a.length} and ${b.length} values can't prove anything at ${alpha}` };
    }
    return { pValue: exactP(u, a.length, b.length), test, tooFew: null };
  }
  const test = "Mann–Whitney U, two-sided, normal approximation with tie and continuity correction";
  if (Math.min(a.length, b.length) < LEAST_APPROXIMATE) {
    return { pValue: null, test, tooFew: `it takes ${LEAST_APPROXIMATE} values a side` };
  }
  return { pValue: approximateP({ u, ties, m: a.length, n: b.length }), test, tooFew: null };
}

function verdictOf(
  { a, b, aN, bN, differencePct, standsOut }: Pick<Comparison, "a" | "b" | "aN" | "bN" | "differencePct" | "standsOut">,
  { tooFew }: Tested,
): string {
  if (standsOut === null) return `Too few to tell ${a} (n=${aN}) from ${b} (n=${bN}): ${tooFew}`;
  const much = differencePct === null ? "differs" : `is ${Math.abs(differencePct).toFixed(1)} % ${sign(differencePct)}`;
  return standsOut
    ? `${b} (n=${bN}) ${much} than ${a} (n=${aN}), and that stands out from noise`
    : `No difference between ${a} (n=${aN}) and ${b} (n=${bN}) that stands out from noise`;
}

function sign(pct: number): string {
  return pct >= 0 ? "higher" : "lower";
}

function medianOf(values: readonly number[]): number | null {
  return values.length === 0 ? null : quantile(values.toSorted((x, y) => x - y), 0.5);
}

/** The smaller U, and Σ(t³ − t) over the groups of equal values. */
function rank(a: readonly number[], b: readonly number[]): { readonly u: number; readonly ties: number } {
  const all = [...a.map((value) => ({ value, isA: true })), ...b.map((value) => ({ value, isA: false }))]
    .sort((x, y) => x.value - y.value);
  let rankSum = 0;
  let ties = 0;
  for (let start = 0; start < all.length;) {
    let end = start;
    while (end < all.length && all[end]?.value === all[start]?.value) end += 1;
    const size = end - start;
    ties += size ** 3 - size;
    // Equal values share the mean of their ranks.
    rankSum += all.slice(start, end).filter(({ isA }) => isA).length * (start + 1 + end) / 2;
    start = end;
  }
  const uA = rankSum - a.length * (a.length + 1) / 2;
  return { u: Math.min(uA, a.length * b.length - uA), ties };
}

/** P(U ≤ u) doubled, by counting the orders that give each U. */
function exactP(u: number, m: number, n: number): number {
  const counts = ordersByU(m, n);
  const below = counts.slice(0, Math.floor(u) + 1).reduce((sum, count) => sum + count, 0);
  return Math.min(1, 2 * below / choose(m + n, m));
}

/** How many of the orders of m and n values give U = 0, 1, …: the Gaussian binomial's coefficients. */
function ordersByU(m: number, n: number): readonly number[] {
  let poly = [1];
  for (let i = 1; i <= m; i++) poly = divide(multiply(poly, n + i), i);
  return poly;
}

/** Times (1 − q^k). */
function multiply(poly: readonly number[], k: number): number[] {
  const next = [...poly, ...Array<number>(k).fill(0)];
  poly.forEach((value, at) => (next[at + k] = (next[at + k] ?? 0) - value));
  return next;
}

/** By (1 − q^k), which goes in evenly. */
function divide(poly: readonly number[], k: number): number[] {
  const next = [...poly];
  for (let at = k; at < next.length; at++) next[at] = (next[at] ?? 0) + (next[at - k] ?? 0);
  return next.slice(0, poly.length - k);
}

function choose(n: number, k: number): number {
  let value = 1;
  for (let i = 1; i <= k; i++) value = value * (n - k + i) / i;
  return Math.round(value);
}

function approximateP(
  { u, ties, m, n }: { readonly u: number; readonly ties: number; readonly m: number; readonly n: number },
): number {
  const total = m + n;
  const variance = m * n / 12 * (total + 1 - ties / (total * (total - 1)));
  // All values are equal: nothing can stand out.
  if (variance <= 0) return 1;
  const z = Math.max(0, m * n / 2 - u - 0.5) / Math.sqrt(variance);
  return Math.min(1, 2 * upperTail(z));
}

/** P(Z > z) of the normal distribution for z ≥ 0: Abramowitz and Stegun 7.1.26, to 1.5e-7. */
function upperTail(z: number): number {
  const x = z / Math.SQRT2;
  const t = 1 / (1 + 0.3275911 * x);
  const poly = t *
    (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return poly * Math.exp(-x * x) / 2;
}
