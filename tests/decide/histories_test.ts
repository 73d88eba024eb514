/**
 * Random histories: a small machine reacts to the arbiter, and nothing that happens may break what is promised. Each
 * failure is shrunk; its seed stands in the message.
 */
import fc from "fast-check";
import { CHOICES, live } from "./promises.ts";

const RUNS = 300;
const STEPS = 200;

Deno.test(`${RUNS} random histories of ${STEPS} events keep every promise`, () => {
  const choice = fc.record({
    what: fc.nat(CHOICES.length - 1),
    which: fc.nat(9),
    ms: fc.integer({ min: 1, max: 400 }),
  });
  const history = fc.array(choice, { minLength: STEPS, maxLength: STEPS, size: "max" });
  fc.assert(fc.property(fc.nat(), history, live), { numRuns: RUNS, seed: 20_261_201, endOnFailure: false });
});
