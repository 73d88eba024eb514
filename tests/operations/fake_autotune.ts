/** Sweeps of plain values. */
import type { Autotune, SweepResult } from "../../lib/model/autotune.ts";

export const SWEEP_RESULT: SweepResult = {
  end: "flat",
  message: "Flat: 370 W came out at +0.1 % against stock",
  controlValue: "stock",
  controlMedian: 6.52,
  bestValue: 370,
  bestMedian: 6.53,
  gainPct: 0.1,
  comparison: null,
  spreadPct: 1.2,
  stoppedBy: null,
  pauses: 0,
  applied: null,
};

export function fakeAutotune(note: (name: string, what: unknown) => void): Autotune {
  return {
    current: () => null,
    admit: () => {},
    sweep: (request) => {
      note("sweep", request);
      return Promise.resolve(SWEEP_RESULT);
    },
  };
}
