/** The configuration as decisions need it. */
import type { CachePolicy } from "../model/cache.ts";
import { DEFAULT_POLICY, type Policy } from "../model/policy.ts";
import { GIB, MIB } from "../model/units.ts";
import type { Config } from "./schema.ts";

export function policyOf(
  config: Pick<Config, "arbitration" | "classify" | "comfyui" | "load" | "needs" | "gate">,
): Policy {
  const { arbitration, classify, comfyui, load, needs, gate } = config;
  return {
    mode: arbitration.mode,
    yield: {
      ...DEFAULT_POLICY.yield,
      headroomBytes: arbitration.headroom_mb * MIB,
      keep: arbitration.keep,
      busyAfterMs: arbitration.busy_after_ms,
      faultAfterMs: arbitration.fault_after_ms,
      ceilingMs: arbitration.ceiling_ms,
      ceilingPerModelMs: arbitration.ceiling_per_model_ms,
    },
    purge: {
      ...DEFAULT_POLICY.purge,
      idleMs: comfyui.idle_purge_s === 0 ? null : comfyui.idle_purge_s * 1000,
      ceilingMs: comfyui.purge_ceiling_ms,
    },
    margin: DEFAULT_POLICY.margin,
    load: { deadlineMs: load.deadline_s * 1000, keepAlive: load.keep_alive },
    gate: {
      mostHeld: gate.most_held,
      deadlineMs: gate.deadline_s * 1000,
      ageMs: gate.age_s * 1000,
      batch: gate.batch,
    },
    classify: {
      hitBytesPerSecond: classify.hit_gb_per_s === 0 ? null : classify.hit_gb_per_s * 1e9,
      partialBytesPerSecond: classify.partial_gb_per_s === 0 ? null : classify.partial_gb_per_s * 1e9,
    },
    needs: Object.fromEntries(Object.entries(needs).map(([name, gib]) => [name, Math.round(gib * GIB)])),
    proceedUnconfirmed: arbitration.proceed_unconfirmed,
    healPartial: comfyui.heal_partial,
    mayEndRunners: arbitration.end_stuck_runners,
  };
}

/** What is configured about warming. File sizes, budgets and rates are decimal. */
export function cachePolicyOf({ warm, pin }: Pick<Config, "warm" | "pin">): CachePolicy {
  return {
    budgetBytes: warm.budget_gb === 0 ? null : warm.budget_gb * 1e9,
    bytesPerS: warm.throttle_mbps === 0 ? null : warm.throttle_mbps * 1e6,
    reserveBytes: warm.reserve_gb * 1e9,
    pinBudgetBytes: pin.budget_gb * 1e9,
    atStart: warm.at_start,
    whenIdle: warm.when_idle,
    idleMs: warm.idle_s * 1_000,
  };
}
