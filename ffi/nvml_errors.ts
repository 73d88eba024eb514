/** NVML's return codes, and the error every call throws. Pure. */

/** Return codes by number, without the NVML_ERROR_ prefix. Later drivers may add some. */
export const NVML_CODES = {
  0: "SUCCESS",
  1: "UNINITIALIZED",
  2: "INVALID_ARGUMENT",
  3: "NOT_SUPPORTED",
  4: "NO_PERMISSION",
  5: "ALREADY_INITIALIZED",
  6: "NOT_FOUND",
  7: "INSUFFICIENT_SIZE",
  8: "INSUFFICIENT_POWER",
  9: "DRIVER_NOT_LOADED",
  10: "TIMEOUT",
  11: "IRQ_ISSUE",
  12: "LIBRARY_NOT_FOUND",
  13: "FUNCTION_NOT_FOUND",
  14: "CORRUPTED_INFOROM",
  15: "GPU_IS_LOST",
  16: "RESET_REQUIRED",
  17: "OPERATING_SYSTEM",
  18: "LIB_RM_VERSION_MISMATCH",
  19: "IN_USE",
  20: "MEMORY",
  21: "NO_DATA",
  22: "VGPU_ECC_NOT_SUPPORTED",
  23: "INSUFFICIENT_RESOURCES",
  24: "FREQ_NOT_SUPPORTED",
  25: "ARGUMENT_VERSION_MISMATCH",
  26: "DEPRECATED",
  27: "NOT_READY",
  28: "GPU_NOT_FOUND",
  29: "INVALID_STATE",
  30: "RESET_TYPE_NOT_SUPPORTED",
  999: "UNKNOWN",
} as const satisfies Readonly<Record<number, string>>;

/**
 * What callers rely on in an NVML error. Recognise one by `name`, not by class: the lab's card throws its own, and
 * code that may import only the types of ffi must tell it too.
 */
export interface NvmlFailure extends Error {
  readonly name: "NvmlError";
  /** The C function. */
  readonly symbol: string;
  readonly code: number;
  /** As in NVML_CODES; "CODE_n" for a number that isn't known here. */
  readonly codeName: string;
}

/** A name for every code, also those a later driver adds. */
export function codeName(code: number): string {
  const names: Readonly<Record<number, string>> = NVML_CODES;
  return names[code] ?? `CODE_${code}`;
}

export interface NvmlErrorOptions extends ErrorOptions {
  readonly message?: string;
  readonly hint?: string;
}

/** A call the library refused, or doesn't have. */
export class NvmlError extends Error implements NvmlFailure {
  override readonly name = "NvmlError";
  readonly codeName: string;
  /** What helps, where that is known. */
  readonly hint: string | null;
  constructor(readonly symbol: string, readonly code: number, options: NvmlErrorOptions = {}) {
    super(options.message ?? `Cannot read the GPU: ${symbol} returned ${codeName(code)}`, options);
    this.codeName = codeName(code);
    this.hint = options.hint ?? null;
  }
}
