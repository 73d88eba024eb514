import type { SweepPicture, SweepPoint } from "../live/sweep.ts";
import { fixed } from "../format.ts";

const WIDTH = 640;
const HEIGHT = 200;
const LEFT = 48;
const BOTTOM = 26;
const TOP = 10;

/** Speed by value, with the spread of each value's runs, and the current setting as a line across. */
export function SweepCurve({ of }: { readonly of: SweepPicture }) {
  const control = of.points.find(({ isControl }) => isControl) ?? null;
  const tried = of.points.filter(({ isControl, samples }) => !isControl && samples.length > 0);
  const speeds = of.points.flatMap(({ samples }) => samples);
  if (tried.length === 0 || speeds.length === 0) return null;
  const [least, most] = [Math.min(...speeds), Math.max(...speeds)];
  // Half a per cent at least: the axis must not make mountains of noise.
  const pad = Math.max((most - least) * 0.15, most * 0.0025);
  const y = (speed: number) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - (speed - least + pad) / (most - least + 2 * pad));
  const x = (at: number) => LEFT + (WIDTH - LEFT - 12) * (tried.length === 1 ? 0.5 : (at + 0.5) / tried.length);
  const line = tried.map(({ median }, at) => `${x(at).toFixed(1)},${y(median ?? 0).toFixed(1)}`).join(" ");
  const unit = of.workload === "comfy" ? "it/s" : "tok/s";
  return (
    <svg class="sweep-curve" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`${unit} by ${of.knob}`}>
      {[least, most].map((speed) => (
        <text key={speed} class="sweep-text" x={LEFT - 6} y={y(speed) + 4} text-anchor="end">{fixed(speed, 2)}</text>
      ))}
      {control?.median != null && (
        <line class="sweep-control" x1={LEFT} x2={WIDTH - 12} y1={y(control.median)} y2={y(control.median)}>
          <title>the current setting: {fixed(control.median, 2)} {unit}</title>
        </line>
      )}
      <polyline class="sweep-line" points={line} />
      {tried.map((point, at) => <Value key={String(point.value)} point={point} x={x(at)} y={y} unit={unit} />)}
    </svg>
  );
}

interface ValueProps {
  readonly point: SweepPoint;
  readonly x: number;
  readonly y: (speed: number) => number;
  readonly unit: string;
}

function Value({ point, x, y, unit }: ValueProps) {
  const { samples, median, value, verdict } = point;
  return (
    <g class={verdict === "stable" ? "sweep-value" : "sweep-value sweep-broken"}>
      <title>{String(value)}: {samples.map((speed) => fixed(speed, 2)).join(", ")} {unit} ({verdict})</title>
      <line x1={x} x2={x} y1={y(Math.min(...samples))} y2={y(Math.max(...samples))} />
      <circle cx={x} cy={y(median ?? 0)} r={3.5} />
      <text class="sweep-text" x={x} y={HEIGHT - 8} text-anchor="middle">{String(value)}</text>
    </g>
  );
}
