/* The stub's sensors: every figure is a value that a test may set by the key written here. */

#define U32_CALL(symbol, key, otherwise) \
  int symbol(Device d, u32 *to) { BEGIN(symbol); *to = (u32)value(key, otherwise); return 0; }
#define U64_CALL(symbol, key, otherwise) \
  int symbol(Device d, u64 *to) { BEGIN(symbol); *to = value(key, otherwise); return 0; }
/* A call with a type, index or counter between the card and the answer: the key is followed by it. */
#define TYPED_CALL(symbol, key, otherwise) \
  int symbol(Device d, u32 type, u32 *to) { \
    BEGIN(symbol); \
    char name[] = key "0"; \
    name[sizeof name - 2] = (char)('0' + type); \
    *to = (u32)value(name, (otherwise) + type); \
    return 0; \
  }

typedef struct { u32 gpu, memory; } Rates;
int nvmlDeviceGetUtilizationRates(Device d, Rates *to) {
  BEGIN(nvmlDeviceGetUtilizationRates);
  *to = (Rates){ (u32)card_or(W_UTILIZATION, value("utilization.gpu", 37)), (u32)value("utilization.memory", 12) };
  return 0;
}
TYPED_CALL(nvmlDeviceGetTemperature, "temperature.old.", 51)
TYPED_CALL(nvmlDeviceGetTemperatureThreshold, "threshold.", 90)

/* A figure of the card that can be set, or the value where there is none. */
#define CARD_CALL(symbol, word, key, otherwise) \
  int symbol(Device d, u32 *to) { BEGIN(symbol); *to = (u32)card_or(word, value(key, otherwise)); return 0; }
CARD_CALL(nvmlDeviceGetPowerUsage, W_POWER_USED_MW, "power", 123456)
CARD_CALL(nvmlDeviceGetPowerManagementLimit, W_POWER_MW, "power.limit", 320000)
U32_CALL(nvmlDeviceGetPowerManagementDefaultLimit, "power.default", 320000)
CARD_CALL(nvmlDeviceGetEnforcedPowerLimit, W_POWER_MW, "power.enforced", 310000)
int nvmlDeviceGetPowerManagementLimitConstraints(Device d, u32 *min, u32 *max) {
  BEGIN(nvmlDeviceGetPowerManagementLimitConstraints);
  *min = (u32)value("power.min", 150000);
  *max = (u32)value("power.max", 400000);
  return 0;
}
U64_CALL(nvmlDeviceGetTotalEnergyConsumption, "energy", 9876543)

/* Without a card that can be set, 2400 and the domain's number; with one, what its lock and offset make of it. */
int nvmlDeviceGetClockInfo(Device d, u32 type, u32 *to) {
  BEGIN(nvmlDeviceGetClockInfo);
  char key[] = "clock.0";
  key[6] = (char)('0' + type);
  int32_t *w = card_words();
  *to = (u32)value(key, 2400 + type);
  if (!w) return 0;
  int is_memory = type == 2;
  int32_t mhz = w[is_memory ? W_MEM_MHZ : W_CORE_MHZ] + w[is_memory ? W_MEM_OFFSET : W_CORE_OFFSET];
  int32_t most = w[is_memory ? W_MEM_LOCK_MAX : W_CORE_LOCK_MAX];
  *to = (u32)(most > 0 && most < mhz ? most : mhz);
  return 0;
}
TYPED_CALL(nvmlDeviceGetMaxClockInfo, "clock.max.", 3100)
U32_CALL(nvmlDeviceGetPerformanceState, "pstate", 2)
U64_CALL(nvmlDeviceGetCurrentClocksThrottleReasons, "throttle.old", 1)

U32_CALL(nvmlDeviceGetCurrPcieLinkGeneration, "pcie.gen", 4)
U32_CALL(nvmlDeviceGetCurrPcieLinkWidth, "pcie.width", 16)
U32_CALL(nvmlDeviceGetMaxPcieLinkGeneration, "pcie.gen.max", 5)
U32_CALL(nvmlDeviceGetMaxPcieLinkWidth, "pcie.width.max", 16)
TYPED_CALL(nvmlDeviceGetPcieThroughput, "pcie.throughput.", 1000)

typedef struct { u32 id, scope; int64_t at, latency; u32 type; int code; u64 value; } Field;
int nvmlDeviceGetFieldValues(Device d, int count, Field *fields) {
  BEGIN(nvmlDeviceGetFieldValues);
  for (int i = 0; i < count; i++) {
    fields[i].code = 3;
    if (fields[i].id == 82) { fields[i].code = (int)value("field.82.code", 0); fields[i].type = 1; fields[i].value = value("field.82.value", 66); }
    if (fields[i].id == 74) { fields[i].code = 0; fields[i].type = 3; fields[i].value = value("field.74.value", 1500000000ull); }
    if (fields[i].id == 269) { fields[i].code = 0; fields[i].type = 3; fields[i].value = 5000000000ull; }
    if (fields[i].id == 193) { fields[i].code = 0; fields[i].type = 5; fields[i].value = (u32)-8; }
  }
  return 0;
}

#ifndef STUB_OLD
typedef struct { u32 version; u64 total, reserved, free, used; } MemoryV2;
int nvmlDeviceGetMemoryInfo_v2(Device d, MemoryV2 *to) {
  BEGIN(nvmlDeviceGetMemoryInfo_v2);
  /* The real one answers 13 to a wrong word, not 25. */
  if (to->version != 0x02000028u) return 13;
  u64 total = value("memory.total", 16ull << 30), used = value("memory.used", 1ull << 30);
  u64 reserved = value("memory.reserved", 512ull << 20);
  *to = (MemoryV2){ to->version, total, reserved, total - used - reserved, used };
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(Device d, u32 *count, unsigned char *to) {
  BEGIN(nvmlDeviceGetComputeRunningProcesses_v3);
  return list(0, count, to, (u32)value("stride", 24));
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(Device d, u32 *count, unsigned char *to) {
  BEGIN(nvmlDeviceGetGraphicsRunningProcesses_v3);
  return list(1, count, to, (u32)value("stride", 24));
}
typedef struct { u32 version, sensor; int32_t temperature; } Temperature;
int nvmlDeviceGetTemperatureV(Device d, Temperature *to) {
  BEGIN(nvmlDeviceGetTemperatureV);
  if (to->version != 0x0100000Cu) return 25;
  if (card_or(W_TEMPERATURE_CODE, 0)) return (int)card_or(W_TEMPERATURE_CODE, 0);
  to->temperature = (int32_t)card_or(W_TEMPERATURE, value("temperature", 48));
  return 0;
}
U64_CALL(nvmlDeviceGetCurrentClocksEventReasons, "throttle", 4)
U32_CALL(nvmlDeviceGetNumFans, "fans", 2)

/* On a card without fans these answer 2, not 3. */
#define NEEDS_FAN(fan) if ((fan) >= value("fans", 2)) return 2
int nvmlDeviceGetMinMaxFanSpeed(Device d, u32 *min, u32 *max) {
  BEGIN(nvmlDeviceGetMinMaxFanSpeed);
  NEEDS_FAN(0);
  *min = 30;
  *max = 100;
  return 0;
}
int nvmlDeviceGetFanSpeed_v2(Device d, u32 fan, u32 *to) {
  BEGIN(nvmlDeviceGetFanSpeed_v2);
  NEEDS_FAN(fan);
  *to = (u32)card_or(W_FAN_PCT + (int)fan, 41 + fan);
  return 0;
}
int nvmlDeviceGetTargetFanSpeed(Device d, u32 fan, u32 *to) {
  BEGIN(nvmlDeviceGetTargetFanSpeed);
  NEEDS_FAN(fan);
  *to = (u32)card_or(W_FAN_PCT + (int)fan, 45 + fan);
  return 0;
}
typedef struct { u32 version, fan, rpm; } FanRpm;
int nvmlDeviceGetFanSpeedRPM(Device d, FanRpm *to) {
  BEGIN(nvmlDeviceGetFanSpeedRPM);
  if (to->version != 0x0100000Cu) return 25;
  NEEDS_FAN(to->fan);
  to->rpm = 1500 + to->fan;
  return 0;
}
int nvmlDeviceGetFanControlPolicy_v2(Device d, u32 fan, u32 *to) {
  BEGIN(nvmlDeviceGetFanControlPolicy_v2);
  NEEDS_FAN(fan);
  *to = (u32)card_or(W_FAN_POLICY + (int)fan, fan);
  return 0;
}
#endif
