/** The configuration of profiles and governor as decisions need it. */
import { DEFAULT_TUNING, type TuningPolicy } from "../model/tuning.ts";
import type { Config } from "./schema.ts";

export function tuningPolicyOf({ profiles, governor }: Pick<Config, "profiles" | "governor">): TuningPolicy {
  return {
    isAutomatic: profiles.automatic,
    dwellMs: profiles.dwell_s * 1000,
    idleMs: profiles.idle_min === 0 ? null : profiles.idle_min * 60_000,
    reapply: profiles.reapply,
    verifyMs: profiles.verify_s * 1000,
    governor: {
      enabled: governor.enabled,
      hotMarginC: governor.hot_margin_c,
      hotFallbackC: governor.hot_c,
      memoryHotC: governor.memory_hot_c,
      recoverMarginC: governor.recover_margin_c,
      // Which of the driver's bits mean heat is a fact of the driver, not a taste.
      throttleMask: DEFAULT_TUNING.governor.throttleMask,
      badSamples: governor.bad_samples,
      goodSamples: governor.good_samples,
      cooldownMs: governor.cooldown_s * 1000,
      blindSamples: governor.blind_samples,
      fanPct: governor.fan_pct,
      powerPct: governor.power_pct,
    },
  };
}
