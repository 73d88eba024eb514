import assert from "node:assert/strict";
import { playCardHistory } from "./card_histories.ts";

/** `task bench card_histories` plays 2,000 and more. */
const RUNS = 150;
const STEPS = 200;

Deno.test(`${RUNS} random histories of the card keep every promise`, () => {
  const met = { writes: 0, climbs: 0, blinds: 0, switches: 0, reverts: 0 };
  for (let seed = 1; seed <= RUNS; seed++) {
    const figures = playCardHistory(seed, STEPS);
    for (const [name, count] of Object.entries(figures)) met[name as keyof typeof met] += count; // its own keys
  }
  // A history that never meets what it is about would prove nothing.
  for (const [name, count] of Object.entries(met)) assert.ok(count >= 50, `${name}: ${count}`);
});
