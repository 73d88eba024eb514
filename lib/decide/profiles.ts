/** Profiles: the built-in three with their evidence, values relative to the card, and the check of what users make. */
import { type CardLimits, type Lever, type LeverLimits, LEVERS, type LeverValue } from "../model/card.ts";
import type { Profile, ProfileValue, ProfileValues } from "../model/tuning.ts";

/** What brings back automatic switching where a profile's name is expected. */
export const AUTO = "auto";

/** Shown for a value that nobody has measured. */
export const NOT_MEASURED = "not measured on this card";

const LOCKS =
  "RTX 4080 SUPER, no lock: 72.6 tok/s locked at 11251 MHz against 72.7; 6.77 it/s at 3105 MHz and 6.78 at 2400 against 6.73";
const FANS =
  "RTX 4080 SUPER, automatic: 81 °C at most over 48,435 samples and no thermal throttling; pinned at 87 % they held 49.6 °C " +
  "for nothing";

const NO_LOCKS = { lock_core_mhz: "default", lock_mem_mhz: "default", fan: "default" } as const;
const NO_LOCKS_MEASURED = { lock_core_mhz: LOCKS, lock_mem_mhz: LOCKS, fan: FANS } as const;

/** SPEC 4.2. The evidence names the card it was measured on (stock 320 W, at most 370 W): yours may differ. */
export const BUILT_IN: readonly Profile[] = [
  {
    name: "ollama",
    isBuiltIn: true,
    values: { power_limit_w: "default", ...NO_LOCKS },
    measured: {
      power_limit_w:
        "RTX 4080 SUPER, decode isn't bound by power: 73.04 to 73.51 tok/s from 222 W to 370 W, never drawing over 224 W",
      ...NO_LOCKS_MEASURED,
    },
  },
  {
    name: "comfy",
    isBuiltIn: true,
    values: { power_limit_w: "max", ...NO_LOCKS },
    measured: {
      power_limit_w:
        "RTX 4080 SUPER, SDXL 1024², 20 steps: 6.71 it/s at 370 W against 6.52 at 320 W (stock), published as +2.8 %; " +
        "5.48 at 222 W",
      ...NO_LOCKS_MEASURED,
    },
  },
  {
    name: "balanced",
    isBuiltIn: true,
    values: { power_limit_w: "default", ...NO_LOCKS },
    measured: {
      power_limit_w: "RTX 4080 SUPER, stock: 73.51 tok/s and 6.52 it/s at 320 W",
      ...NO_LOCKS_MEASURED,
    },
  },
];

/** Every profile there is, the built-in ones first. */
export function allProfiles(own: readonly Profile[]): readonly Profile[] {
  return [...BUILT_IN, ...own];
}

/** A profile's value on this card; always inside its limits. Null: this card can't set it. */
export function valueOn(limits: LeverLimits, value: ProfileValue): LeverValue | null {
  if (!limits.adjustable) return null;
  if (value === "default") return "stock";
  return within(limits, value === "max" ? limits.max : value);
}

type Adjustable = Extract<LeverLimits, { adjustable: true }>;

/** The nearest value that the card allows: inside its range, and of its steps the nearest not above. */
export function within({ min, max, steps }: Adjustable, value: number): number {
  const inside = Math.min(max, Math.max(min, value));
  if (steps === null || steps.length === 0) return inside;
  const allowed = steps.filter((step) => step >= min && step <= max);
  return allowed.findLast((step) => step <= inside) ?? allowed[0] ?? inside;
}

/** Why a value can't be set on this card, or null. */
export function objectionTo(lever: Lever, value: ProfileValue, limits: CardLimits): string | null {
  const allowed = limits.levers[lever];
  if (!allowed.adjustable) {
    return value === "default" ? null : `${lever} can't be set on this card: ${allowed.evidence}`;
  }
  if (typeof value !== "number") return null;
  // A share of the power limit's unit is real; everything else counts in whole steps.
  if (!Number.isFinite(value)) return `${lever} must be a number`;
  if (value >= allowed.min && value <= allowed.max) return null;
  return `${lever} must be from ${allowed.min} to ${allowed.max} on this card, not ${value}`;
}

/** Why a profile can't be kept, or null. */
export function objectionToProfile(
  { name, values }: { readonly name: string; readonly values: ProfileValues },
  limits: CardLimits,
): string | null {
  if (!/^[a-z0-9][a-z0-9._-]{0,39}$/.test(name)) {
    return "a name takes 1 to 40 of a–z, 0–9, dot, dash and underscore, and begins with a letter or digit";
  }
  if (name === AUTO) return `${AUTO} is no profile's name: it means following the workload`;
  if (BUILT_IN.some((profile) => profile.name === name)) return `${name} is built in and can't be changed`;
  const named = LEVERS.flatMap((lever) => {
    const value = values[lever];
    return value === undefined ? [] : [{ lever, value }];
  });
  if (named.length === 0) return "a profile names at least one lever";
  const objections = named.map(({ lever, value }) => objectionTo(lever, value, limits));
  return objections.find((objection) => objection !== null) ?? null;
}
