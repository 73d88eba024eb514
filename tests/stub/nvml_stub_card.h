/*
 * The stub's writing side: a card whose levers really move. Its state is a file beside the library, `<library>.card`, of
 * 32-bit words that tests read and write too, mapped by every process that loads the library: it outlives a client that
 * was killed, as a real card's state does. Without that file there is no card to set, and every setter says so.
 * The words are named again in stub_card.ts.
 */
enum {
  W_MAGIC, W_POWER_MW, W_CORE_LOCK_MAX, W_CORE_LOCK_MIN, W_MEM_LOCK_MAX, W_MEM_LOCK_MIN, W_CORE_OFFSET, W_MEM_OFFSET,
  W_FAN_POLICY, W_FAN_PCT = W_FAN_POLICY + 4, W_FAN_MIN = W_FAN_PCT + 4,
  /* Per lever, in the order power, core lock, memory lock, core offset, memory offset, fan. */
  W_IGNORE = W_FAN_MIN + 4, W_REFUSE = W_IGNORE + 6, W_CALLS = W_REFUSE + 6,
  W_MEM_SNAP = W_CALLS + 6, W_CORE_OFFSET_MIN, W_CORE_OFFSET_MAX, W_MEM_OFFSET_MIN, W_MEM_OFFSET_MAX,
  W_TEMPERATURE, W_TEMPERATURE_CODE, W_POWER_USED_MW, W_UTILIZATION, W_CORE_MHZ, W_MEM_MHZ, W_SETTER_LAG_MS,
  W_XID_COUNT, W_XID_SEEN, W_XIDS, W_END = W_XIDS + 16
};

static int32_t *card_words(void) {
  static int32_t *words = 0;
  if (words) return words;
  Dl_info here;
  char path[512];
  if (!dladdr((void *)&card_words, &here)) return 0;
  snprintf(path, sizeof path, "%s.card", here.dli_fname);
  int fd = open(path, O_RDWR);
  if (fd < 0) return 0;
  void *at = mmap(0, W_END * 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (at != MAP_FAILED) words = at;
  return words;
}

static u64 card_or(int word, u64 otherwise) {
  int32_t *w = card_words();
  return w ? (u64)(int64_t)w[word] : otherwise;
}

/* How every setter begins: -1 = go on; 0 = accepted and ignored; else its code. */
static int enter_setter(int lever) {
  int32_t *w = card_words();
  if (!w) return 3;
  w[W_CALLS + lever]++;
  if (w[W_SETTER_LAG_MS] > 0) wait_ms(w[W_SETTER_LAG_MS]);
  if (w[W_REFUSE + lever]) return w[W_REFUSE + lever];
  return w[W_IGNORE + lever] ? 0 : -1;
}
#define SET(name, lever) \
  BEGIN(name); \
  int entered = enter_setter(lever); \
  if (entered >= 0) return entered; \
  int32_t *w = card_words()

int nvmlDeviceSetPowerManagementLimit(Device d, u32 mw) {
  SET(nvmlDeviceSetPowerManagementLimit, 0);
  if (mw < value("power.min", 150000) || mw > value("power.max", 400000)) return 2;
  w[W_POWER_MW] = (int32_t)mw;
  return 0;
}

static const u32 memory_clocks[] = { 11501, 11251, 5001, 405 };
int nvmlDeviceGetSupportedMemoryClocks(Device d, u32 *count, u32 *to) {
  BEGIN(nvmlDeviceGetSupportedMemoryClocks);
  u32 room = *count;
  *count = 4;
  if (to == 0 || room < 4) return 7;
  memcpy(to, memory_clocks, sizeof memory_clocks);
  return 0;
}
/* 3105 down to 210 in steps of 15: 194 of them, as on the measured card. */
int nvmlDeviceGetSupportedGraphicsClocks(Device d, u32 memory, u32 *count, u32 *to) {
  BEGIN(nvmlDeviceGetSupportedGraphicsClocks);
  u32 room = *count, most = (u32)value("clocks.graphics", 194);
  *count = most;
  if (to == 0 || room < most) return 7;
  for (u32 i = 0; i < most; i++) to[i] = 3105 - 15 * i;
  return 0;
}
int nvmlDeviceSetGpuLockedClocks(Device d, u32 min, u32 max) {
  SET(nvmlDeviceSetGpuLockedClocks, 1);
  if (min > max) return 2;
  w[W_CORE_LOCK_MIN] = (int32_t)min;
  w[W_CORE_LOCK_MAX] = (int32_t)max;
  return 0;
}
int nvmlDeviceResetGpuLockedClocks(Device d) {
  SET(nvmlDeviceResetGpuLockedClocks, 1);
  w[W_CORE_LOCK_MIN] = w[W_CORE_LOCK_MAX] = 0;
  return 0;
}
int nvmlDeviceSetMemoryLockedClocks(Device d, u32 min, u32 max) {
  SET(nvmlDeviceSetMemoryLockedClocks, 2);
  if (min > max) return 2;
  w[W_MEM_LOCK_MIN] = (int32_t)min;
  w[W_MEM_LOCK_MAX] = (int32_t)max;
  return 0;
}
int nvmlDeviceResetMemoryLockedClocks(Device d) {
  SET(nvmlDeviceResetMemoryLockedClocks, 2);
  w[W_MEM_LOCK_MIN] = w[W_MEM_LOCK_MAX] = 0;
  return 0;
}

/* An offset snaps to the memory's hardware step, where it has one. */
static int set_offset(int32_t *w, int lever, int32_t mhz) {
  int is_memory = lever == 4;
  int32_t low = w[is_memory ? W_MEM_OFFSET_MIN : W_CORE_OFFSET_MIN];
  int32_t high = w[is_memory ? W_MEM_OFFSET_MAX : W_CORE_OFFSET_MAX];
  if (mhz < low || mhz > high) return 2;
  if (is_memory && w[W_MEM_SNAP] > 0) mhz = mhz / w[W_MEM_SNAP] * w[W_MEM_SNAP];
  w[is_memory ? W_MEM_OFFSET : W_CORE_OFFSET] = mhz;
  return 0;
}

#ifndef STUB_OLD
typedef struct { u32 version, type, pstate; int32_t mhz, min, max; } ClockOffset;
int nvmlDeviceGetClockOffsets(Device d, ClockOffset *to) {
  BEGIN(nvmlDeviceGetClockOffsets);
  if (to->version != 0x01000018u) return 25;
  if (to->type != 0 && to->type != 2) return 2;
  int is_memory = to->type == 2;
  to->mhz = (int32_t)card_or(is_memory ? W_MEM_OFFSET : W_CORE_OFFSET, 0);
  to->min = (int32_t)card_or(is_memory ? W_MEM_OFFSET_MIN : W_CORE_OFFSET_MIN, 0);
  to->max = (int32_t)card_or(is_memory ? W_MEM_OFFSET_MAX : W_CORE_OFFSET_MAX, 0);
  return 0;
}
int nvmlDeviceSetClockOffsets(Device d, ClockOffset *from) {
  if (from->version != 0x01000018u) return 25;
  if ((from->type != 0 && from->type != 2) || from->pstate != 0) return 2;
  int lever = from->type == 2 ? 4 : 3;
  SET(nvmlDeviceSetClockOffsets, lever);
  return set_offset(w, lever, from->mhz);
}
#endif
#define OLD_OFFSET(get, range, set, lever, word, low, high) \
  int get(Device d, int32_t *to) { BEGIN(get); *to = (int32_t)card_or(word, 0); return 0; } \
  int range(Device d, int32_t *min, int32_t *max) { \
    BEGIN(range); *min = (int32_t)card_or(low, 0); *max = (int32_t)card_or(high, 0); return 0; \
  } \
  int set(Device d, int32_t mhz) { SET(set, lever); return set_offset(w, lever, mhz); }
OLD_OFFSET(nvmlDeviceGetGpcClkVfOffset, nvmlDeviceGetGpcClkMinMaxVfOffset, nvmlDeviceSetGpcClkVfOffset, 3,
  W_CORE_OFFSET, W_CORE_OFFSET_MIN, W_CORE_OFFSET_MAX)
OLD_OFFSET(nvmlDeviceGetMemClkVfOffset, nvmlDeviceGetMemClkMinMaxVfOffset, nvmlDeviceSetMemClkVfOffset, 4,
  W_MEM_OFFSET, W_MEM_OFFSET_MIN, W_MEM_OFFSET_MAX)

/* Below its own minimum a fan is raised to it, without a word. */
int nvmlDeviceSetFanSpeed_v2(Device d, u32 fan, u32 pct) {
  SET(nvmlDeviceSetFanSpeed_v2, 5);
  if (fan >= value("fans", 2) || fan >= 4 || pct > 100) return 2;
  int32_t least = w[W_FAN_MIN + fan];
  w[W_FAN_POLICY + fan] = 1;
  w[W_FAN_PCT + fan] = (int32_t)pct < least ? least : (int32_t)pct;
  return 0;
}
int nvmlDeviceSetDefaultFanSpeed_v2(Device d, u32 fan) {
  SET(nvmlDeviceSetDefaultFanSpeed_v2, 5);
  if (fan >= value("fans", 2) || fan >= 4) return 2;
  w[W_FAN_POLICY + fan] = 0;
  w[W_FAN_PCT + fan] = 0;
  return 0;
}

/* ---- Events ---- */

typedef struct { Device device; u64 type, data; u32 gi, ci; } EventData;
int nvmlEventSetCreate(u64 *set) {
  BEGIN(nvmlEventSetCreate);
  *set = 0x5e7;
  return 0;
}
int nvmlDeviceRegisterEvents(Device d, u64 mask, u64 set) {
  BEGIN(nvmlDeviceRegisterEvents);
  int32_t *w = card_words();
  if (!w || mask != 8) return 3;
  /* Only what comes after registration is seen. */
  w[W_XID_SEEN] = w[W_XID_COUNT];
  return 0;
}
int nvmlEventSetWait_v2(u64 set, EventData *to, u32 timeout_ms) {
  BEGIN(nvmlEventSetWait_v2);
  int32_t *w = card_words();
  if (!w || w[W_XID_SEEN] >= w[W_XID_COUNT]) return 10;
  *to = (EventData){ 0, 8, (u64)w[W_XIDS + w[W_XID_SEEN] % 16], 0xffffffffu, 0xffffffffu };
  w[W_XID_SEEN]++;
  return 0;
}
int nvmlEventSetFree(u64 set) {
  BEGIN(nvmlEventSetFree);
  return 0;
}
