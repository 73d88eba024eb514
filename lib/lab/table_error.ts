/** What a simulated card's library throws. */
import type { NvmlFailure } from "../../ffi/nvml_errors.ts";

/** The codes the lab uses, as the driver's header names them. */
const CODE_NAMES: Readonly<Record<number, string>> = {
  1: "UNINITIALIZED",
  2: "INVALID_ARGUMENT",
  3: "NOT_SUPPORTED",
  4: "NO_PERMISSION",
  6: "NOT_FOUND",
  9: "DRIVER_NOT_LOADED",
  13: "FUNCTION_NOT_FOUND",
  15: "GPU_IS_LOST",
  16: "RESET_REQUIRED",
  17: "OPERATING_SYSTEM",
  18: "LIB_RM_VERSION_MISMATCH",
  28: "GPU_NOT_FOUND",
  999: "UNKNOWN",
};

/** What the simulated library throws; told from other errors by its name, as the real one. */
export class TableError extends Error implements NvmlFailure {
  override readonly name = "NvmlError";
  readonly codeName: string;
  constructor(readonly symbol: string, readonly code: number) {
    const codeName = CODE_NAMES[code] ?? `CODE_${code}`;
    super(`Cannot read the simulated GPU: ${symbol} returned ${codeName}`);
    this.codeName = codeName;
  }
}
