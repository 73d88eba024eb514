import assert from "node:assert/strict";
import { policyOf } from "../../lib/config/policy.ts";
import { ConfigSchema } from "../../lib/config/schema.ts";
import { DEFAULT_POLICY } from "../../lib/model/policy.ts";
import { GIB, MIB } from "../../lib/model/units.ts";

Deno.test("the defaults of the configuration are the built-in policy", () => {
  assert.deepEqual(policyOf(ConfigSchema.parse({})), DEFAULT_POLICY);
});

Deno.test("every setting reaches the policy in its unit", () => {
  const policy = policyOf(ConfigSchema.parse({
    arbitration: {
      mode: "observe",
      keep: ["a:latest"],
      headroom_mb: 1_024,
      busy_after_ms: 700,
      fault_after_ms: 7_000,
      ceiling_ms: 12_000,
      ceiling_per_model_ms: 4_000,
      proceed_unconfirmed: false,
    },
    comfyui: { idle_purge_s: 45, purge_ceiling_ms: 9_000 },
    load: { deadline_s: 60, keep_alive: "1h" },
    classify: { hit_gb_per_s: 3, partial_gb_per_s: 1.2 },
    needs: { comfyui: 7.5, "qwen3:32b": 19 },
  }));
  assert.deepEqual(policy, {
    ...DEFAULT_POLICY,
    mode: "observe",
    yield: {
      ...DEFAULT_POLICY.yield,
      keep: ["a:latest"],
      headroomBytes: 1_024 * MIB,
      busyAfterMs: 700,
      faultAfterMs: 7_000,
      ceilingMs: 12_000,
      ceilingPerModelMs: 4_000,
    },
    purge: { ...DEFAULT_POLICY.purge, idleMs: 45_000, ceilingMs: 9_000 },
    margin: DEFAULT_POLICY.margin,
    load: { deadlineMs: 60_000, keepAlive: "1h" },
    classify: { hitBytesPerSecond: 3e9, partialBytesPerSecond: 1.2e9 },
    needs: { comfyui: 7.5 * GIB, "qwen3:32b": 19 * GIB },
    proceedUnconfirmed: false,
  });
});

Deno.test("an idle time of 0 means never, not at once", () => {
  assert.equal(policyOf(ConfigSchema.parse({ comfyui: { idle_purge_s: 0 } })).purge.idleMs, null);
});
