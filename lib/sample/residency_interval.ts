/** What a sample of pages says of the whole file. Pure. */

/** Samples behind a figure that is shown: its 99 % interval is then at most ±4 points wide, the error mostly below 2. */
export const SHOWN_SAMPLES = 1_024;

/** Samples of a probe that only decides about skipping, which takes every one of them to be resident. */
export const PROBE_SAMPLES = 64;

/** Outside the interval on each side. */
const TAIL = 0.005;
/** Halvings of [0, 1]: far below one page of a terabyte. */
const HALVINGS = 48;

export interface Interval {
  readonly low: number;
  readonly high: number;
}

/**
 * Random pages to look at, one in each of `count` equal strata, in file order; every page where there are no more than
 * that. The draw must be random each time: a fixed page is in memory from the second look on, because of the first.
 */
export function stratifiedPages(
  pages: number,
  { count, random }: { readonly count: number; readonly random: () => number },
): readonly number[] {
  if (pages <= count) return Array.from({ length: pages }, (_, page) => page);
  return Array.from(
    { length: count },
    // Floors of both ends, so that a page belongs to one stratum.
    (_, stratum) => {
      const from = Math.floor(pages * stratum / count);
      const to = Math.floor(pages * (stratum + 1) / count);
      return from + Math.floor((to - from) * random());
    },
  );
}

/**
 * The 99 % interval (Clopper–Pearson, which never promises too much) of a share of which `hits` of `samples` were seen.
 * One sample in each stratum varies less than free ones would, so it holds for these too. Both ends meet where every page
 * was looked at.
 */
export function shareInterval(
  { hits, samples, pages }: { readonly hits: number; readonly samples: number; readonly pages: number },
): Interval {
  if (samples >= pages) return { low: pages === 0 ? 1 : hits / pages, high: pages === 0 ? 1 : hits / pages };
  return {
    low: hits === 0 ? 0 : halve((share) => 1 - atMost(hits - 1, samples, share) < TAIL),
    high: hits === samples ? 1 : halve((share) => atMost(hits, samples, share) > TAIL),
  };
}

/** Where a condition that holds for small shares stops holding. */
function halve(holds: (share: number) => boolean): number {
  let [low, high] = [0, 1];
  for (let step = 0; step < HALVINGS; step++) {
    const middle = (low + high) / 2;
    if (holds(middle)) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/** Probability of at most `hits` hits, summed in logarithms since single terms underflow. */
function atMost(hits: number, samples: number, share: number): number {
  const [hit, miss] = [Math.log(share), Math.log1p(-share)];
  let choose = 0;
  let sum = 0;
  for (let k = 0; k <= hits; k++) {
    sum += Math.exp(choose + k * hit + (samples - k) * miss);
    choose += Math.log((samples - k) / (k + 1));
  }
  return Math.min(1, sum);
}
