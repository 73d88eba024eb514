/** Long work as one line that is written over: a bar where the share is known, what is under way, how long it takes. */
import type { Progress } from "../model/services.ts";
import { stackedBar, type Style } from "./cli_output.ts";
import { printableLine } from "./printable.ts";

const CELLS = 24;

export function progressLine({ phase: told, done, etaMs }: Progress, style: Style): string {
  const phase = printableLine(told);
  const left = etaMs === null ? "" : style.dim(`  ${secondsLeft(etaMs)}`);
  if (done === null) return `${phase}${left}`;
  const share = Math.max(0, Math.min(1, done));
  const bar = stackedBar([{ value: share, hue: "green", letter: "#" }], { total: 1, cells: CELLS, style });
  return `${bar} ${String(Math.round(share * 100)).padStart(3)} %  ${phase}${left}`;
}

/** `12 s left`, or minutes where that says more. */
export function secondsLeft(etaMs: number): string {
  const seconds = Math.ceil(etaMs / 1_000);
  return seconds < 120 ? `${seconds} s left` : `${Math.round(seconds / 60)} min left`;
}
