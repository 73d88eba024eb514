/** What a driver's refusal means for the card. */
import type { NvmlFailure } from "../../ffi/nvml_errors.ts";
import { messageOf } from "../model/failure.ts";
import { GpuUnavailable } from "../model/ports.ts";

/** Told by its name: this folder may import only the types of ffi, and the lab's card throws its own. */
export function isNvmlFailure(error: unknown): error is NvmlFailure {
  return error instanceof Error && error.name === "NvmlError" && "code" in error;
}

/** A figure this card or driver never gives; asking again is useless until the library is opened anew. */
const NEVER: ReadonlySet<number> = new Set([2, 3, 4, 13, 25, 26]);

/** The card, or the library's hold on it, is gone: everything has to be opened anew. */
const GONE: ReadonlySet<number> = new Set([1, 9, 15, 16, 18, 28]);

/** What one call's error costs: that figure for good, the card, or that figure this once. */
export function costOf(error: NvmlFailure): "figure" | "card" | "once" {
  if (GONE.has(error.code)) return "card";
  return NEVER.has(error.code) ? "figure" : "once";
}

interface Meaning {
  readonly kind: GpuUnavailable["kind"];
  readonly remedy: string;
}

const REBOOT_HINT = "Look for Xid messages in the kernel log; the GPU usually needs a reset or the machine a reboot";

const MEANINGS: Readonly<Record<number, Meaning>> = {
  1: { kind: "lost", remedy: "Nothing to do: the driver's library is opened again" },
  3: { kind: "refused", remedy: "This GPU has no memory of its own to arbitrate; choose another with gpu.uuid" },
  4: { kind: "refused", remedy: "Let this user open /dev/nvidia* (usually group video or render)" },
  6: { kind: "absent", remedy: "Set gpu.uuid to a GPU of this machine, or leave it out" },
  8: { kind: "refused", remedy: "Connect the GPU's external power cables" },
  9: { kind: "absent", remedy: "Load the kernel module with `modprobe nvidia`" },
  12: { kind: "absent", remedy: "Install the NVIDIA driver" },
  15: { kind: "lost", remedy: REBOOT_HINT },
  16: { kind: "lost", remedy: REBOOT_HINT },
  17: {
    kind: "refused",
    remedy:
      "In a container, recreate it: `systemctl daemon-reload` on the host takes the GPU away from running containers",
  },
  18: { kind: "absent", remedy: "Reboot, or load the kernel modules of the driver that is installed" },
  28: { kind: "lost", remedy: "Check that the GPU is still on the bus (`lspci`)" },
};

const OTHERWISE: Meaning = { kind: "lost", remedy: "See `dmesg` for what the nvidia module says" };

/** Why the card can't be read, for whatever was thrown. A hint of the error's own is better than a general remedy. */
export function toGpuUnavailable(error: unknown): GpuUnavailable {
  if (error instanceof GpuUnavailable) return error;
  const meaning = isNvmlFailure(error) ? MEANINGS[error.code] ?? OTHERWISE : OTHERWISE;
  const hint = isNvmlFailure(error) && "hint" in error && typeof error.hint === "string" ? error.hint : null;
  return new GpuUnavailable(meaning.kind, messageOf(error), hint ?? meaning.remedy, { cause: error });
}
