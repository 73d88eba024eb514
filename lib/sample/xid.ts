/** Where the driver's faults (Xid) are heard: from NVML's events, else from the kernel's log, else nowhere. */
import type { DeviceHandle } from "../../ffi/nvml.ts";
import type { NvmlLevers, XidWatch } from "../../ffi/nvml_levers.ts";
import type { Libc } from "../../ffi/libc.ts";

export interface XidEars extends Disposable {
  /** Null: not measurable here. */
  readonly source: "nvml" | "kmsg" | null;
  /** Faults of this card since the last look. Never waits. */
  poll(): readonly number[];
}

type KernelLog = Pick<Libc, "open" | "read" | "close">;

export interface XidPlaces {
  readonly libc: KernelLog;
  readonly device: DeviceHandle;
  /** As sysfs writes it; null: every card's faults count. */
  readonly pciBusId: string | null;
  readonly kernelLogPath?: string;
}

/** Records of the kernel log are at most about 1 KiB; a shorter buffer is refused. */
const RECORD_BYTES = 8_192;
/** More than a log holds: an end to looking, whatever happens. */
const MOST_RECORDS = 100_000;

/** Opens the best source there is. Needs root (NVML's events don't) or CAP_SYSLOG for the kernel log. */
export function openXidEars(nvml: NvmlLevers, places: XidPlaces): XidEars {
  return nvmlEars(nvml, places.device) ?? kernelLogEars(places) ??
    { source: null, poll: () => [], [Symbol.dispose]: () => {} };
}

function nvmlEars(nvml: NvmlLevers, device: DeviceHandle): XidEars | null {
  let watch: XidWatch;
  try {
    watch = nvml.watchXid(device);
  } catch (error) {
    // This driver or platform (WSL) tells no events: the kernel log may. Anything but a refusal is a defect.
    if (!(error instanceof Error && error.name === "NvmlError")) throw error;
    return null;
  }
  return { source: "nvml", poll: () => watch.poll(), [Symbol.dispose]: () => watch.close() };
}

function kernelLogEars({ libc, pciBusId, kernelLogPath = "/dev/kmsg" }: XidPlaces): XidEars | null {
  let fd: number;
  try {
    fd = libc.open(kernelLogPath, { flags: ["read", "nonblocking"] });
  } catch (error) {
    // No such log (a container), or not for us (CAP_SYSLOG): then nothing can be heard.
    if (!(error instanceof Error && error.name === "ErrnoError")) throw error;
    return null;
  }
  const poll = () => parseXids(readRecords(libc, fd), pciBusId);
  // What stands there already is old.
  poll();
  return { source: "kmsg", poll, [Symbol.dispose]: () => libc.close(fd) };
}

/** Everything new. Each read of the log gives one record, and EAGAIN after the last. */
function readRecords(libc: KernelLog, fd: number): string {
  const decoder = new TextDecoder();
  const buffer = new Uint8Array(RECORD_BYTES);
  let text = "";
  for (let record = 0; record < MOST_RECORDS; record++) {
    try {
      const length = libc.read(fd, buffer);
      if (length === 0) return text;
      text += decoder.decode(buffer.subarray(0, length));
    } catch (error) {
      const code = error instanceof Error && "code" in error ? error.code : null;
      // EPIPE: records were overwritten before they were read; the next read goes on behind them.
      if (code !== "EPIPE") return text;
    }
  }
  return text;
}

/** "… NVRM: Xid (PCI:0000:01:00): 79, pid=…" → 79, for that card or, without an address, for any. */
export function parseXids(text: string, pciBusId: string | null): readonly number[] {
  // The log leaves the function out: 0000:01:00 for 0000:01:00.0.
  const wanted = pciBusId?.toLowerCase().replace(/\.\d+$/, "") ?? null;
  const found: number[] = [];
  for (const [, address = "", code] of text.matchAll(/NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)/g)) {
    const card = address.toLowerCase().replace(/\.\d+$/, "");
    if (wanted === null || card === wanted) found.push(Number(code));
  }
  return found;
}
