/** NVML field ids, and which of them moved between drivers. Pure. */

/** Memory temperature, °C. Not supported on GeForce. */
export const FIELD_MEMORY_TEMPERATURE = 82;

const NS_PER_MS = 1e6;

export interface FieldValue {
  readonly id: number;
  /** NVML return code of this one field; 0 = `value` holds. */
  readonly code: number;
  /** Null unless `code` is 0. Exact up to 2^53. */
  readonly value: number | null;
}

/** What holds a card's clocks back and is counted; its power limit is the usual one. */
export const THROTTLE_CAUSES = ["power", "softwareThermal", "hardwareThermal", "powerBrake"] as const;
type ThrottleCause = typeof THROTTLE_CAUSES[number];

/** The field that counts each cause, in nanoseconds; null where the driver has none. */
export type ThrottleFields = Readonly<Record<ThrottleCause, number | null>>;

/** Time held back since the driver was loaded, ms; null where it isn't counted. */
export type ThrottleTimes = Readonly<Record<ThrottleCause, number | null>>;

/**
 * The throttle counters of a driver. The last three stood at 251–253 in the headers of 575.51 to 580.76 and stand at
 * 269–271 from 580.82.07 on (on 580.159.04 the old ids answer NOT_SUPPORTED); before 575.51 there were none.
 */
export function throttleFields(driverVersion: string): ThrottleFields {
  const first = isAtLeast(driverVersion, [580, 82, 7]) ? 269 : isAtLeast(driverVersion, [575, 51]) ? 251 : null;
  return {
    power: 74,
    softwareThermal: first,
    hardwareThermal: first === null ? null : first + 1,
    powerBrake: first === null ? null : first + 2,
  };
}

/** The counters out of the values of their fields. */
export function throttleTimes(fields: ThrottleFields, values: readonly FieldValue[]): ThrottleTimes {
  const of = (cause: ThrottleCause) => {
    const value = values.find(({ id }) => id === fields[cause])?.value ?? null;
    return value === null ? null : value / NS_PER_MS;
  };
  return {
    power: of("power"),
    softwareThermal: of("softwareThermal"),
    hardwareThermal: of("hardwareThermal"),
    powerBrake: of("powerBrake"),
  };
}

/** True when "580.159.04" is the given version or a later one. */
export function isAtLeast(version: string, wanted: readonly number[]): boolean {
  const parts = version.split(".").map(Number);
  for (const [place, want] of wanted.entries()) {
    const have = parts[place] ?? 0;
    if (have !== want) return have > want;
  }
  return true;
}
