export interface ErrorBarsProps {
  readonly of: {
    readonly min: number;
    readonly p25: number;
    readonly p50: number;
    readonly p75: number;
    readonly max: number;
  };
  /** Value at the right edge; the left edge is zero, so that lengths can be compared. */
  readonly most: number;
}

const WIDTH = 120;

/** Least to most as a line, the middle half as a box, the median as a stroke. The figures beside it are the values. */
export function ErrorBars({ of, most }: ErrorBarsProps) {
  const x = (value: number) => most <= 0 ? 0 : Math.max(0, Math.min(1, value / most)) * (WIDTH - 2) + 1;
  return (
    <svg class="error-bars" viewBox={`0 0 ${WIDTH} 14`} aria-hidden="true">
      <path d={`M${x(of.min)},7H${x(of.max)}M${x(of.min)},4v6M${x(of.max)},4v6`} />
      <rect x={x(of.p25)} y="3" width={Math.max(1, x(of.p75) - x(of.p25))} height="8" />
      <path class="error-bars-median" d={`M${x(of.p50)},1v12`} />
    </svg>
  );
}
