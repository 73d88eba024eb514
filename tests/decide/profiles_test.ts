import assert from "node:assert/strict";
import { BUILT_IN, valueOn, within } from "../../lib/decide/profiles.ts";
import { LIMITS } from "./card_world.ts";

Deno.test("the built-in profiles hold what was measured: power alone differs, fans are automatic, no clock is locked", () => {
  const power = BUILT_IN.map(({ name, values }) => [name, values.power_limit_w]);
  assert.deepEqual(power, [["ollama", "default"], ["comfy", "max"], ["balanced", "default"]]);
  for (const { values, measured } of BUILT_IN) {
    const { power_limit_w: _power, ...rest } = values;
    assert.deepEqual(rest, { lock_core_mhz: "default", lock_mem_mhz: "default", fan: "default" });
    // Evidence from another machine says whose it is.
    for (const evidence of Object.values(measured)) assert.match(evidence, /^RTX 4080 SUPER, /);
  }
});

Deno.test("values are relative to the card, and always inside what it allows", () => {
  const { power_limit_w: power, lock_core_mhz: lock, fan } = LIMITS.levers;
  const none = { adjustable: false, verdict: "not_supported", evidence: "no fan" } as const;
  assert.deepEqual(
    [valueOn(power, "max"), valueOn(power, "default"), valueOn(power, 900), valueOn(power, 1), valueOn(fan, 5)],
    [370, "stock", 370, 150, 30],
  );
  assert.deepEqual([valueOn(lock, 1799), valueOn(lock, "max"), valueOn(lock, 1)], [1200, 3105, 210]);
  assert.equal(valueOn(none, 50), null);
});

Deno.test("of a card's steps the nearest not above counts, and the lowest where none is below", () => {
  const steps = { adjustable: true, min: 300, max: 900, stock: null, steps: [300, 600, 900] } as const;
  assert.deepEqual([299, 300, 599, 600, 901].map((value) => within(steps, value)), [300, 300, 300, 600, 900]);
  assert.equal(within({ ...steps, steps: [250, 950] }, 500), 500);
});
