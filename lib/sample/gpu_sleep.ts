/** Whether the card is runtime-suspended (a laptop's second GPU): asking the driver anything would wake it. */
import type { Libc } from "../../ffi/libc.ts";
import { unlessGone } from "./vanishing.ts";

const NVIDIA = "0x10de";
/** PCI class 03: display controllers, the compute-only ones (0302) included. Audio and USB of the same card are not. */
const DISPLAY_CLASS = "0x03";

const ASLEEP: ReadonlySet<string> = new Set(["suspended", "suspending"]);

/** True where the kernel suspends the card once nobody holds it open (RTD3): a laptop's second GPU, seldom another. */
export function maySleep(libc: Pick<Libc, "readText">, card: { readonly sysRoot: string; readonly pciBusId: string }) {
  const path = `${card.sysRoot}/bus/pci/devices/${card.pciBusId}/power/control`;
  return unlessGone(() => libc.readText(path))?.trim() === "auto";
}

/**
 * True when the kernel says the card sleeps. Without a bus address (the library was never opened) it is true only when
 * every NVIDIA GPU of the machine sleeps: opening the library may wake any of them. Reads sysfs alone.
 */
export function isGpuAsleep(
  libc: Pick<Libc, "readText" | "list">,
  card: { readonly sysRoot: string; readonly pciBusId: string | null },
): boolean {
  const devices = `${card.sysRoot}/bus/pci/devices`;
  const read = (busId: string, file: string) => unlessGone(() => libc.readText(`${devices}/${busId}/${file}`))?.trim();
  const sleeps = (busId: string) => ASLEEP.has(read(busId, "power/runtime_status") ?? "");
  if (card.pciBusId !== null) return sleeps(card.pciBusId);
  const gpus = (unlessGone(() => libc.list(devices)) ?? [])
    .filter((busId) => read(busId, "vendor") === NVIDIA && read(busId, "class")?.startsWith(DISPLAY_CLASS));
  return gpus.length > 0 && gpus.every(sleeps);
}
