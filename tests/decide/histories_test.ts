/**
 * Random histories: a small machine reacts to the arbiter, and nothing that happens may break what is promised.
 * `task histories` plays 2,000 and more.
 */
import assert from "node:assert/strict";
import { playHistories, STEPS } from "./histories.ts";

const RUNS = 80;

/** A history that never meets what it is about would prove nothing. */
const MET: Readonly<Record<string, number>> = {
  "record yield released": 25,
  "record yield busy": 10,
  "record fault fault": 1,
  "record purge released": 25,
  "answered switch": 25,
  "refused busy": 10,
  "refused wont_fit": 10,
  "refused cancelled": 10,
  "loads that failed": 10,
  "event barrierLost": 10,
  "effect abort": 10,
  "frames of our own prompts": 50,
};

Deno.test(`${RUNS} random histories of ${STEPS} events keep every promise`, () => {
  const counts = playHistories({ runs: RUNS, seed: 20_261_201 });
  assert.ok((counts["events"] ?? 0) >= RUNS * STEPS, `${counts["events"]} events`);
  for (const [name, least] of Object.entries(MET)) {
    assert.ok((counts[name] ?? 0) >= least, `${name}: ${counts[name] ?? 0}`);
  }
});
