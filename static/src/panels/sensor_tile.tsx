import { useDashboard } from "../live/dashboard.ts";
import type { Column } from "../live/series.ts";
import { Sparkline } from "../parts/sparkline.tsx";
import { Value } from "../parts/value.tsx";

export interface SensorTileProps {
  readonly column: Column;
  readonly label: string;
  readonly of: number | null;
  readonly unit: string;
  readonly min?: number;
  readonly max: number;
  readonly why: string;
  readonly sub?: string | null;
}

const SPARK_S = 120;

/** Every second point, chosen by its time so that the line shifts instead of flickering. */
function everySecond(t: readonly number[], cells: readonly (number | null)[]): readonly (number | null)[] {
  const from = Math.max(0, t.length - SPARK_S);
  return cells.slice(from).filter((_, index) => Math.round(t[from + index] ?? 0) % 2 === 0);
}

/** One sensor: the figure, its limit in words, and two minutes of where it came from. */
export function SensorTile({ column, label, of, unit, min = 0, max, why, sub = null }: SensorTileProps) {
  const { series } = useDashboard();
  // Read for its subscription: the arrays are changed in place.
  void series.revision.value;
  return (
    <div class="tile">
      <p class="tile-label">{label}</p>
      <p class="tile-figure">
        <Value of={of} unit={unit} why={why} />
      </p>
      <p class="tile-sub" title={sub ?? undefined}>{sub}</p>
      <Sparkline points={everySecond(series.t, series.cells[column])} min={min} max={max} tone={column} />
    </div>
  );
}
