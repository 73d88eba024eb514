export interface SparklineProps {
  readonly points: readonly (number | null)[];
  readonly min: number;
  readonly max: number;
  readonly tone: string;
}

/** A point every two units: 60 points fill it. */
const STEP = 2;
const WIDTH = 120;
const HEIGHT = 28;

/** The last two minutes as a line with its area. Purely a glance: the figure beside it is the value. */
export function Sparkline({ points, min, max, tone }: SparklineProps) {
  const runs = runsOf(points, min, max);
  const line = runs.map((run) => `M${run.join("L")}`).join("");
  const area = runs.map((run) => `M${xOf(run[0])},${HEIGHT}L${run.join("L")}L${xOf(run.at(-1))},${HEIGHT}Z`).join("");
  return (
    <svg class={`spark spark-${tone}`} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      <path class="spark-area" d={area} />
      <path class="spark-line" d={line} vector-effect="non-scaling-stroke" />
    </svg>
  );
}

/** Unbroken stretches as "x,y" strings; the newest point is at the right edge. */
function runsOf(points: readonly (number | null)[], min: number, max: number): readonly (readonly string[])[] {
  const runs: string[][] = [];
  const span = max > min ? max - min : 1;
  let open: string[] | null = null;
  points.forEach((value, index) => {
    if (value === null) {
      open = null;
      return;
    }
    if (open === null) runs.push(open = []);
    const x = WIDTH - (points.length - 1 - index) * STEP;
    const y = HEIGHT - 1.5 - Math.min(1, Math.max(0, (value - min) / span)) * (HEIGHT - 3);
    open.push(`${x},${y.toFixed(1)}`);
  });
  return runs;
}

function xOf(point: string | undefined): string {
  return point?.split(",")[0] ?? "0";
}
