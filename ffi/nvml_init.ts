/** Starting the library, and what it means when that is refused. */
import { codeName, NvmlError } from "./nvml_errors.ts";
import type { NvmlLibrary } from "./nvml_library.ts";
import { TEXT_SIZE } from "./nvml_structs.ts";

/** Where the loaded kernel module says its version. */
export const MODULE_VERSION_FILE = "/proc/driver/nvidia/version";

/** Initialises NVML, or throws NvmlError with what is wrong and what helps. Takes 3–10 ms. */
export function initialise(library: NvmlLibrary, readText: (path: string) => string): void {
  const code = library.code("nvmlInit_v2");
  if (code === 0) return;
  const refusal = code === 18 ? versionMismatch(library, readText) : REFUSALS[code] ?? unknownRefusal(code);
  throw new NvmlError("nvmlInit_v2", code, { message: `Cannot open the GPU: ${refusal.reason}`, hint: refusal.hint });
}

interface Refusal {
  readonly reason: string;
  readonly hint: string;
}

/** What nvmlInit's codes mean to the owner of the machine. */
const REFUSALS: Readonly<Record<number, Refusal>> = {
  4: {
    reason: "driver returned NO_PERMISSION",
    hint: "Let this user open /dev/nvidiactl and /dev/nvidia0 (usually group video or render)",
  },
  9: {
    reason: "the NVIDIA kernel module is not loaded",
    hint: "Load it with `modprobe nvidia`; if that fails, reinstall the driver for this kernel",
  },
  12: {
    reason: "a library the driver needs is missing",
    hint: "Reinstall the NVIDIA driver's user-space libraries",
  },
  15: {
    reason: "the GPU is lost",
    hint: "Look for Xid messages in the kernel log; the machine usually has to be rebooted",
  },
  17: {
    reason: "the operating system blocks the GPU's device nodes",
    hint: "In a container, recreate it: `systemctl daemon-reload` on the host takes the GPU away from running ones",
  },
  999: {
    reason: "the driver returned UNKNOWN",
    hint: "In a container, recreate it (`systemctl daemon-reload` on the host takes the GPU away from running ones); " +
      "otherwise see `dmesg` for what the nvidia module says",
  },
};

function unknownRefusal(code: number): Refusal {
  return { reason: `driver returned ${codeName(code)}`, hint: "See `dmesg` for what the nvidia module says" };
}

/** An upgrade left the old kernel module loaded: name both versions, since that is what a user must compare. */
function versionMismatch(library: NvmlLibrary, readText: (path: string) => string): Refusal {
  const module = moduleVersion(readText) ?? "unknown";
  const own = libraryVersion(library) ?? "unknown";
  return {
    reason: `the driver's library (${own}) and the loaded kernel module (${module}) are of different versions`,
    hint: "Reboot, or unload and load the nvidia kernel modules, so that both come from the same driver",
  };
}

function moduleVersion(readText: (path: string) => string): string | null {
  try {
    return parseModuleVersion(readText(MODULE_VERSION_FILE));
  } catch {
    // No such file where the module is gone; the mismatch is worth telling without this half.
    return null;
  }
}

/** The driver part of the library's own version ("13.580.159.04" → "580.159.04"); answers without Init. */
function libraryVersion(library: NvmlLibrary): string | null {
  try {
    const version = library.text("nvmlSystemGetNVMLVersion", { size: TEXT_SIZE.nvmlVersion });
    return version.split(".").slice(1).join(".") || null;
  } catch {
    // Some drivers refuse even this before Init; the mismatch is worth telling without it.
    return null;
  }
}

/** "… Kernel Module  580.159.04  Release Build …" → "580.159.04"; both the closed and the open module. */
export function parseModuleVersion(text: string): string | null {
  return /Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)/.exec(text)?.[1] ?? null;
}
