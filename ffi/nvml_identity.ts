/** The NVML calls about the library, and about which card is which. */
import type { DeviceHandle, Nvml } from "./nvml.ts";
import type { NvmlLibrary } from "./nvml_library.ts";
import { decodePciBusId, encodeText, SIZE, TEXT_SIZE } from "./nvml_structs.ts";
import type { NvmlSymbol } from "./nvml_symbols.ts";

type IdentityCalls = Pick<
  Nvml,
  | "driverVersion"
  | "nvmlVersion"
  | "cudaVersion"
  | "deviceCount"
  | "deviceByIndex"
  | "deviceByUuid"
  | "name"
  | "uuid"
  | "pciBusId"
>;

/** Versions, enumeration and identity. */
export function identityCalls(library: NvmlLibrary): IdentityCalls {
  const handle = (symbol: NvmlSymbol, code: (out: BigUint64Array<ArrayBuffer>) => number): DeviceHandle => {
    const out = new BigUint64Array(1);
    const answer = code(out);
    if (answer !== 0) throw library.error(symbol, answer);
    return out[0]!;
  };
  return {
    driverVersion: () => library.text("nvmlSystemGetDriverVersion", { size: TEXT_SIZE.driverVersion }),
    nvmlVersion: () => library.text("nvmlSystemGetNVMLVersion", { size: TEXT_SIZE.nvmlVersion }),
    cudaVersion: () => formatCudaVersion(library.u32("nvmlSystemGetCudaDriverVersion")),
    deviceCount: () => library.u32("nvmlDeviceGetCount_v2"),
    deviceByIndex: (index) =>
      handle(
        "nvmlDeviceGetHandleByIndex_v2",
        (out) => library.code("nvmlDeviceGetHandleByIndex_v2", index, out),
      ),
    deviceByUuid: (uuid) =>
      handle(
        "nvmlDeviceGetHandleByUUID",
        (out) => library.code("nvmlDeviceGetHandleByUUID", encodeText(uuid), out),
      ),
    name: (device) => library.text("nvmlDeviceGetName", { size: TEXT_SIZE.name, device }),
    uuid: (device) => library.text("nvmlDeviceGetUUID", { size: TEXT_SIZE.uuid, device }),
    pciBusId: (device) => {
      const pci = new DataView(new ArrayBuffer(SIZE.pciInfo));
      library.call("nvmlDeviceGetPciInfo_v3", device, pci);
      return decodePciBusId(pci);
    },
  };
}

/** 13000 → "13.0", 12040 → "12.4". */
export function formatCudaVersion(version: number): string {
  return `${Math.floor(version / 1000)}.${Math.floor((version % 1000) / 10)}`;
}
