import assert from "node:assert/strict";
import { ConfigSchema } from "../../lib/config/schema.ts";
import { tuningPolicyOf } from "../../lib/config/tuning.ts";
import { DEFAULT_TUNING } from "../../lib/model/tuning.ts";

Deno.test("the defaults of the configuration are the built-in tuning, to the number", () => {
  assert.deepEqual(tuningPolicyOf(ConfigSchema.parse({})), DEFAULT_TUNING);
});

Deno.test("every setting reaches the tuning in its unit", () => {
  const config = ConfigSchema.parse({
    profiles: { automatic: false, dwell_s: 7, idle_min: 10, reapply: true, verify_s: 9 },
    governor: {
      enabled: false,
      hot_margin_c: 9,
      hot_c: 80,
      memory_hot_c: 95,
      recover_margin_c: 4,
      bad_samples: 6,
      good_samples: 31,
      cooldown_s: 21,
      blind_samples: 4,
      fan_pct: 90,
      power_pct: 70,
    },
  });
  assert.deepEqual(tuningPolicyOf(config), {
    isAutomatic: false,
    dwellMs: 7_000,
    idleMs: 600_000,
    reapply: true,
    verifyMs: 9_000,
    governor: {
      enabled: false,
      hotMarginC: 9,
      hotFallbackC: 80,
      memoryHotC: 95,
      recoverMarginC: 4,
      throttleMask: 0xe0,
      badSamples: 6,
      goodSamples: 31,
      cooldownMs: 21_000,
      blindSamples: 4,
      fanPct: 90,
      powerPct: 70,
    },
  });
});
