/** Seeded random histories of the arbiter; each failure is shrunk, and its seed stands in the message. */
import fc from "fast-check";
import { type Counts, Tally } from "./history_tally.ts";
import { CHOICES, live } from "./promises.ts";

/** Events that each history is given; what they set off comes on top. */
export const STEPS = 200;

/** Plays that many histories and tells what they met. Throws when a promise is broken. */
export function playHistories({ runs, seed }: { readonly runs: number; readonly seed: number }): Counts {
  const choice = fc.record({
    what: fc.nat(CHOICES.length - 1),
    which: fc.nat(9),
    ms: fc.integer({ min: 1, max: 400 }),
  });
  const history = fc.array(choice, { minLength: STEPS, maxLength: STEPS, size: "max" });
  const tally = new Tally();
  const play = (worldSeed: number, choices: Parameters<typeof live>[1]) => {
    tally.begin();
    live(worldSeed, choices, tally);
  };
  fc.assert(fc.property(fc.nat(), history, play), { numRuns: runs, seed, endOnFailure: false });
  return tally.counts;
}
