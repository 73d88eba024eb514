import assert from "node:assert/strict";
import { hasCompiler } from "../stub/compile_stub.ts";
import { type KillCount, killDriver } from "./kill_driver.ts";

// Some processes with several cards each: 8 cards that their owner's SIGKILL caught at 2 moments. `task bench` has 100.
Deno.test({
  name:
    "kill -9 while the card is set: after the journal's restore it is at stock, and what we never touched is untouched",
  ignore: !hasCompiler,
  fn: async () => {
    const counts: KillCount[] = [];
    for (const seed of [11, 22]) counts.push(await killDriver({ seed, cards: 4 }));
    const sum = (pick: (count: KillCount) => number) => counts.reduce((total, count) => total + pick(count), 0);
    assert.equal(sum(({ killed }) => killed), 8);
    assert.ok(sum(({ foundChanged }) => foundChanged) > 1, "the kills came while cards were set");
    assert.equal(sum(({ leftChanged }) => leftChanged), 0);
    assert.equal(sum(({ untouchedMoved }) => untouchedMoved), 0);
    assert.equal(sum(({ untold }) => untold), 0);
  },
});
