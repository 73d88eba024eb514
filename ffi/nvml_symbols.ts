import { NVML_LEVER_SYMBOLS } from "./nvml_lever_symbols.ts";

/**
 * The NVML functions, as data: C signature, parameter names in the comment. Those that change a card, and what reads
 * their changes back, stand in nvml_lever_symbols.ts.
 *
 * Every symbol is optional except the three that each driver has had: one missing required symbol makes the whole
 * dlopen fail, and drivers differ in what they export (the first driver release with a symbol is named where it is newer
 * than 450). `nvmlDevice_t` is an opaque pointer passed by value, declared u64 so that a handle is a bigint.
 */
export const NVML_SYMBOLS = {
  ...NVML_LEVER_SYMBOLS,
  /** (void) */
  nvmlInit_v2: { parameters: [], result: "i32" },
  /** (void) */
  nvmlShutdown: { parameters: [], result: "i32" },
  /** (nvmlReturn_t result) → static C string; works without Init. */
  nvmlErrorString: { parameters: ["i32"], result: "pointer" },

  /** (char *version, unsigned int length) */
  nvmlSystemGetDriverVersion: { parameters: ["buffer", "u32"], result: "i32", optional: true },
  /** (char *version, unsigned int length); answers without Init too. */
  nvmlSystemGetNVMLVersion: { parameters: ["buffer", "u32"], result: "i32", optional: true },
  /** (int *cudaDriverVersion); the _v2 form loads libcuda, which a monitor must not. */
  nvmlSystemGetCudaDriverVersion: { parameters: ["buffer"], result: "i32", optional: true },

  /** (unsigned int *deviceCount) */
  nvmlDeviceGetCount_v2: { parameters: ["buffer"], result: "i32", optional: true },
  /** (unsigned int index, nvmlDevice_t *device) */
  nvmlDeviceGetHandleByIndex_v2: { parameters: ["u32", "buffer"], result: "i32", optional: true },
  /** (const char *uuid, nvmlDevice_t *device) */
  nvmlDeviceGetHandleByUUID: { parameters: ["buffer", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, char *name, unsigned int length) */
  nvmlDeviceGetName: { parameters: ["u64", "buffer", "u32"], result: "i32", optional: true },
  /** (nvmlDevice_t device, char *uuid, unsigned int length) */
  nvmlDeviceGetUUID: { parameters: ["u64", "buffer", "u32"], result: "i32", optional: true },
  /** (nvmlDevice_t device, nvmlPciInfo_t *pci) */
  nvmlDeviceGetPciInfo_v3: { parameters: ["u64", "buffer"], result: "i32", optional: true },

  /** (nvmlDevice_t device, nvmlMemory_t *memory) */
  nvmlDeviceGetMemoryInfo: { parameters: ["u64", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, nvmlMemory_v2_t *memory); 510.39 */
  nvmlDeviceGetMemoryInfo_v2: { parameters: ["u64", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, unsigned int *infoCount, nvmlProcessInfo_v2_t *infos) */
  nvmlDeviceGetComputeRunningProcesses_v2: { parameters: ["u64", "buffer", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, unsigned int *infoCount, nvmlProcessInfo_t *infos); 510.39 */
  nvmlDeviceGetComputeRunningProcesses_v3: { parameters: ["u64", "buffer", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, unsigned int *infoCount, nvmlProcessInfo_v2_t *infos) */
  nvmlDeviceGetGraphicsRunningProcesses_v2: { parameters: ["u64", "buffer", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, unsigned int *infoCount, nvmlProcessInfo_t *infos); 510.39 */
  nvmlDeviceGetGraphicsRunningProcesses_v3: { parameters: ["u64", "buffer", "buffer"], result: "i32", optional: true },
  /**
   * (nvmlDevice_t device, nvmlProcessUtilizationSample_t *utilization, unsigned int *processSamplesCount,
   * unsigned long long lastSeenTimeStamp)
   */
  nvmlDeviceGetProcessUtilization: {
    parameters: ["u64", "buffer", "buffer", "u64"],
    result: "i32",
    optional: true,
  },

  /** (nvmlDevice_t device, nvmlUtilization_t *utilization) */
  nvmlDeviceGetUtilizationRates: { parameters: ["u64", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, nvmlTemperatureSensors_t sensorType, unsigned int *temp) */
  nvmlDeviceGetTemperature: { parameters: ["u64", "u32", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, nvmlTemperature_t *temperature); 565.57 */
  nvmlDeviceGetTemperatureV: { parameters: ["u64", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, nvmlTemperatureThresholds_t thresholdType, unsigned int *temp) */
  nvmlDeviceGetTemperatureThreshold: { parameters: ["u64", "u32", "buffer"], result: "i32", optional: true },

  /** (nvmlDevice_t device, unsigned int *power), mW */
  nvmlDeviceGetPowerUsage: { parameters: ["u64", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, unsigned int *limit), mW */
  nvmlDeviceGetPowerManagementLimit: { parameters: ["u64", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, unsigned int *defaultLimit), mW */
  nvmlDeviceGetPowerManagementDefaultLimit: { parameters: ["u64", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, unsigned int *minLimit, unsigned int *maxLimit), mW */
  nvmlDeviceGetPowerManagementLimitConstraints: {
    parameters: ["u64", "buffer", "buffer"],
    result: "i32",
    optional: true,
  },
  /** (nvmlDevice_t device, unsigned int *limit), mW */
  nvmlDeviceGetEnforcedPowerLimit: { parameters: ["u64", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, unsigned long long *energy), mJ */
  nvmlDeviceGetTotalEnergyConsumption: { parameters: ["u64", "buffer"], result: "i32", optional: true },

  /** (nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock), MHz */
  nvmlDeviceGetClockInfo: { parameters: ["u64", "u32", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock), MHz */
  nvmlDeviceGetMaxClockInfo: { parameters: ["u64", "u32", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, nvmlPstates_t *pState) */
  nvmlDeviceGetPerformanceState: { parameters: ["u64", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, unsigned long long *clocksEventReasons); 535.43 */
  nvmlDeviceGetCurrentClocksEventReasons: { parameters: ["u64", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, unsigned long long *clocksThrottleReasons); the older name of the same bits */
  nvmlDeviceGetCurrentClocksThrottleReasons: { parameters: ["u64", "buffer"], result: "i32", optional: true },

  /** (nvmlDevice_t device, unsigned int *numFans); 510.39 */
  nvmlDeviceGetNumFans: { parameters: ["u64", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, unsigned int *minSpeed, unsigned int *maxSpeed); 515.43 */
  nvmlDeviceGetMinMaxFanSpeed: { parameters: ["u64", "buffer", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, unsigned int fan, unsigned int *speed) */
  nvmlDeviceGetFanSpeed_v2: { parameters: ["u64", "u32", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, unsigned int fan, unsigned int *targetSpeed); 520.56 */
  nvmlDeviceGetTargetFanSpeed: { parameters: ["u64", "u32", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, nvmlFanSpeedInfo_t *fanSpeed); 565.57 */
  nvmlDeviceGetFanSpeedRPM: { parameters: ["u64", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, unsigned int fan, nvmlFanControlPolicy_t *policy); 520.56 */
  nvmlDeviceGetFanControlPolicy_v2: { parameters: ["u64", "u32", "buffer"], result: "i32", optional: true },

  /** (nvmlDevice_t device, unsigned int *currLinkGen) */
  nvmlDeviceGetCurrPcieLinkGeneration: { parameters: ["u64", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, unsigned int *currLinkWidth) */
  nvmlDeviceGetCurrPcieLinkWidth: { parameters: ["u64", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, unsigned int *maxLinkGen) */
  nvmlDeviceGetMaxPcieLinkGeneration: { parameters: ["u64", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, unsigned int *maxLinkWidth) */
  nvmlDeviceGetMaxPcieLinkWidth: { parameters: ["u64", "buffer"], result: "i32", optional: true },
  /** (nvmlDevice_t device, nvmlPcieUtilCounter_t counter, unsigned int *value), KB/s; blocks 20 ms */
  nvmlDeviceGetPcieThroughput: { parameters: ["u64", "u32", "buffer"], result: "i32", optional: true },

  /** (nvmlDevice_t device, int valuesCount, nvmlFieldValue_t *values) */
  nvmlDeviceGetFieldValues: { parameters: ["u64", "i32", "buffer"], result: "i32", optional: true },
} as const satisfies Deno.ForeignLibraryInterface;

export type NvmlSymbol = keyof typeof NVML_SYMBOLS;
