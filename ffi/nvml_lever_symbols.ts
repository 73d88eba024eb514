/**
 * The NVML functions that change a card, and those that read back what they changed, as data. All setters need root.
 * `lib/act/card_writer` alone reaches them, through the calls of nvml_levers.ts.
 */
export const NVML_LEVER_SYMBOLS = {
  /** (nvmlDevice_t device, unsigned int limit), mW; lost when the driver is unloaded */
  nvmlDeviceSetPowerManagementLimit: { parameters: ["u64", "u32"], result: "i32", optional: true },

  /** (nvmlDevice_t device, unsigned int *count, unsigned int *clocksMHz), descending */
  nvmlDeviceGetSupportedMemoryClocks: { parameters: ["u64", "buffer", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, unsigned int memoryClockMHz, unsigned int *count, unsigned int *clocksMHz), descending */
  nvmlDeviceGetSupportedGraphicsClocks: {
    parameters: ["u64", "u32", "buffer", "buffer"],
    result: "i32",
    optional: true,
  },
  /** (nvmlDevice_t device, unsigned int minMHz, unsigned int maxMHz); Volta and newer; no getter exists */
  nvmlDeviceSetGpuLockedClocks: { parameters: ["u64", "u32", "u32"], result: "i32", optional: true },
  /** (nvmlDevice_t device) */
  nvmlDeviceResetGpuLockedClocks: { parameters: ["u64"], result: "i32", optional: true },
  /** (nvmlDevice_t device, unsigned int minMHz, unsigned int maxMHz); 465.19, Ampere and newer; no getter exists */
  nvmlDeviceSetMemoryLockedClocks: { parameters: ["u64", "u32", "u32"], result: "i32", optional: true },
  /** (nvmlDevice_t device) */
  nvmlDeviceResetMemoryLockedClocks: { parameters: ["u64"], result: "i32", optional: true },

  /** (nvmlDevice_t device, nvmlClockOffset_t *info): one P-state; 555.42 */
  nvmlDeviceGetClockOffsets: { parameters: ["u64", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, nvmlClockOffset_t *info); 555.42 */
  nvmlDeviceSetClockOffsets: { parameters: ["u64", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, int *offset): all P-states; 515.43 */
  nvmlDeviceGetGpcClkVfOffset: { parameters: ["u64", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, int offset); 515.43 */
  nvmlDeviceSetGpcClkVfOffset: { parameters: ["u64", "i32"], result: "i32", optional: true },
  /** (nvmlDevice_t device, int *minOffset, int *maxOffset); 520.56 */
  nvmlDeviceGetGpcClkMinMaxVfOffset: { parameters: ["u64", "buffer", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, int *offset); 520.56 */
  nvmlDeviceGetMemClkVfOffset: { parameters: ["u64", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, int offset); 520.56 */
  nvmlDeviceSetMemClkVfOffset: { parameters: ["u64", "i32"], result: "i32", optional: true },
  /** (nvmlDevice_t device, int *minOffset, int *maxOffset); 520.56 */
  nvmlDeviceGetMemClkMinMaxVfOffset: { parameters: ["u64", "buffer", "buffer"], result: "i32", optional: true },

  /** (nvmlDevice_t device, unsigned int fan, unsigned int speed): makes the fan manual by itself; 515.43 */
  nvmlDeviceSetFanSpeed_v2: { parameters: ["u64", "u32", "u32"], result: "i32", optional: true },
  /** (nvmlDevice_t device, unsigned int fan): the only full way back to automatic; 515.43 */
  nvmlDeviceSetDefaultFanSpeed_v2: { parameters: ["u64", "u32"], result: "i32", optional: true },
  /** (nvmlDevice_t device, unsigned int fan, nvmlFanControlPolicy_t policy); 520.56 */
  nvmlDeviceSetFanControlPolicy: { parameters: ["u64", "u32", "u32"], result: "i32", optional: true },

  /** (nvmlEventSet_t *set) */
  nvmlEventSetCreate: { parameters: ["buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, unsigned long long eventTypes, nvmlEventSet_t set) */
  nvmlDeviceRegisterEvents: { parameters: ["u64", "u64", "u64"], result: "i32", optional: true },
  /** (nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeoutMs) */
  nvmlEventSetWait_v2: { parameters: ["u64", "buffer", "u32"], result: "i32", optional: true },
  /** (nvmlEventSet_t set) */
  nvmlEventSetFree: { parameters: ["u64"], result: "i32", optional: true },
} as const satisfies Deno.ForeignLibraryInterface;
