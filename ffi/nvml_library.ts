/** The NVML shared library itself: where it is looked for, and the one place its symbols are called. */
import { NvmlError } from "./nvml_errors.ts";
import { decodeText } from "./nvml_structs.ts";
import { NVML_SYMBOLS, type NvmlSymbol } from "./nvml_symbols.ts";

/**
 * Where the library is looked for, in this order. Never the unversioned name: that is a stub for linking. The first
 * entry asks the loader's own path and cache; WSL, NixOS and container images keep it elsewhere.
 */
export const LIBRARY_PATHS: readonly string[] = [
  "libnvidia-ml.so.1",
  "/usr/lib/wsl/lib/libnvidia-ml.so.1",
  "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
  "/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
  "/usr/lib64/libnvidia-ml.so.1",
  "/run/opengl-driver/lib/libnvidia-ml.so.1",
  "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
];

/** The search order with a configured path in front. */
export function librarySearchOrder(configured: string | null): readonly string[] {
  return configured === null ? LIBRARY_PATHS : [configured, ...LIBRARY_PATHS];
}

type Functions = Deno.DynamicLibrary<typeof NVML_SYMBOLS>["symbols"];
type Arguments<Name extends NvmlSymbol> = Parameters<NonNullable<Functions[Name]>>;

const FUNCTION_NOT_FOUND = 13;
const UNINITIALIZED = 1;

/** A loaded library. Calling a symbol after dlclose is a segmentation fault, so every call goes through here. */
export class NvmlLibrary {
  #library: Deno.DynamicLibrary<typeof NVML_SYMBOLS> | null;

  private constructor(readonly path: string, library: Deno.DynamicLibrary<typeof NVML_SYMBOLS>) {
    this.#library = library;
  }

  /** Loads the first library that can be loaded; nothing is initialised yet. */
  static load(paths: readonly string[]): NvmlLibrary {
    const refusals: string[] = [];
    for (const path of paths) {
      try {
        return new NvmlLibrary(path, Deno.dlopen(path, NVML_SYMBOLS));
      } catch (error) {
        // A missing file, a foreign format and a missing required symbol are all a plain Error; only the text differs.
        refusals.push(error instanceof Error ? error.message : String(error));
      }
    }
    const isAbsent = refusals.every((text) => text.includes("No such file"));
    throw new NvmlError("dlopen", 12, {
      message: isAbsent
        ? "Cannot open the NVIDIA driver's library: libnvidia-ml.so.1 is not on this machine"
        : `Cannot open the NVIDIA driver's library: ${refusals.filter((text) => !text.includes("No such file"))[0]}`,
      hint: isAbsent
        ? "Install the NVIDIA driver, or give the path of libnvidia-ml.so.1 with --nvml"
        : "Check the file and its permissions, or give another path of libnvidia-ml.so.1 with --nvml",
      cause: refusals,
    });
  }

  /** False where this driver's library lacks the symbol, and after `close`. */
  has(name: NvmlSymbol): boolean {
    return this.#library !== null && this.#library.symbols[name] !== null;
  }

  /** Calls and gives the return code. A missing symbol answers 13, as the driver itself does for a stale one. */
  code<Name extends NvmlSymbol>(name: Name, ...args: Arguments<Name>): number {
    if (this.#library === null) {
      throw new NvmlError(name, UNINITIALIZED, { message: `Cannot call ${name}: the library is closed` });
    }
    // The union of some forty signatures can't be called; `Arguments<Name>` has already matched name and arguments.
    const call = this.#library.symbols[name] as ((...args: unknown[]) => number) | null;
    return call === null ? FUNCTION_NOT_FOUND : call(...args);
  }

  /** Calls and throws NvmlError unless it succeeded. */
  call<Name extends NvmlSymbol>(name: Name, ...args: Arguments<Name>): void {
    const code = this.code(name, ...args);
    if (code !== 0) throw this.error(name, code);
  }

  /** The error for a return code. Numbers that aren't known here carry the driver's own words. */
  error(name: NvmlSymbol, code: number): NvmlError {
    if (code === FUNCTION_NOT_FOUND && !this.has(name)) {
      return new NvmlError(name, code, { message: `Cannot call ${name}: this driver's library does not have it` });
    }
    const error = new NvmlError(name, code);
    if (!error.codeName.startsWith("CODE_")) return error;
    return new NvmlError(name, code, { message: `${error.message} (${this.#describe(code)})` });
  }

  #describe(code: number): string {
    const text = this.#library?.symbols.nvmlErrorString(code) ?? null;
    return text === null ? "unknown error" : new Deno.UnsafePointerView(text).getCString();
  }

  /** One u32 written through a pointer. */
  u32<Name extends U32Getter>(name: Name, ...args: DropLast<Arguments<Name>>): number {
    const out = new Uint32Array(1);
    // The getter's last parameter is the out pointer: `U32Getter` holds exactly those symbols.
    this.call(name, ...([...args, out] as unknown as Arguments<Name>));
    return out[0]!;
  }

  /** Two u32 written through two pointers. */
  u32Pair(
    name: "nvmlDeviceGetPowerManagementLimitConstraints" | "nvmlDeviceGetMinMaxFanSpeed",
    device: bigint,
  ): readonly [number, number] {
    const first = new Uint32Array(1);
    const second = new Uint32Array(1);
    this.call(name, device, first, second);
    return [first[0]!, second[0]!];
  }

  /** Two signed words written through two pointers. */
  i32Pair(
    name: "nvmlDeviceGetGpcClkMinMaxVfOffset" | "nvmlDeviceGetMemClkMinMaxVfOffset",
    device: bigint,
  ): readonly [number, number] {
    const first = new Int32Array(1);
    const second = new Int32Array(1);
    this.call(name, device, first, second);
    return [first[0]!, second[0]!];
  }

  /** One u64 written through a pointer. */
  u64(
    name:
      | "nvmlDeviceGetTotalEnergyConsumption"
      | "nvmlDeviceGetCurrentClocksEventReasons"
      | "nvmlDeviceGetCurrentClocksThrottleReasons",
    device: bigint,
  ): bigint {
    const out = new BigUint64Array(1);
    this.call(name, device, out);
    return out[0]!;
  }

  /** Text written into a buffer of `size` bytes. */
  text<Name extends TextGetter>(name: Name, options: { size: number; device?: bigint }): string {
    const out = new Uint8Array(options.size);
    const head = options.device === undefined ? [] : [options.device];
    // `TextGetter` holds exactly the symbols of the forms (buffer, length) and (device, buffer, length).
    this.call(name, ...([...head, out, options.size] as unknown as Arguments<Name>));
    return decodeText(out);
  }

  /** Unloads the library. Later calls throw; closing twice does nothing. */
  close(): void {
    const library = this.#library;
    this.#library = null;
    library?.close();
  }
}

type DropLast<List extends readonly unknown[]> = List extends readonly [...infer Head, unknown] ? Head : never;

type TextGetter =
  | "nvmlSystemGetDriverVersion"
  | "nvmlSystemGetNVMLVersion"
  | "nvmlDeviceGetName"
  | "nvmlDeviceGetUUID";

/** Symbols whose last parameter is one `unsigned int *` or enum pointer. */
type U32Getter =
  | "nvmlSystemGetCudaDriverVersion"
  | "nvmlDeviceGetCount_v2"
  | "nvmlDeviceGetTemperature"
  | "nvmlDeviceGetTemperatureThreshold"
  | "nvmlDeviceGetPowerUsage"
  | "nvmlDeviceGetPowerManagementLimit"
  | "nvmlDeviceGetPowerManagementDefaultLimit"
  | "nvmlDeviceGetEnforcedPowerLimit"
  | "nvmlDeviceGetClockInfo"
  | "nvmlDeviceGetMaxClockInfo"
  | "nvmlDeviceGetPerformanceState"
  | "nvmlDeviceGetNumFans"
  | "nvmlDeviceGetFanSpeed_v2"
  | "nvmlDeviceGetTargetFanSpeed"
  | "nvmlDeviceGetFanControlPolicy_v2"
  | "nvmlDeviceGetCurrPcieLinkGeneration"
  | "nvmlDeviceGetCurrPcieLinkWidth"
  | "nvmlDeviceGetMaxPcieLinkGeneration"
  | "nvmlDeviceGetMaxPcieLinkWidth"
  | "nvmlDeviceGetPcieThroughput";
