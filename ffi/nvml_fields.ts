/** NVML field ids, and which of them moved between drivers. Pure. */

/** Memory temperature, °C. Not supported on GeForce. */
export const FIELD_MEMORY_TEMPERATURE = 82;

export interface FieldValue {
  readonly id: number;
  /** NVML return code of this one field; 0 = `value` holds. */
  readonly code: number;
  /** Null unless `code` is 0. Exact up to 2^53. */
  readonly value: number | null;
}
