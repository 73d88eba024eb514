/*
 * A libnvidia-ml.so.1 without a card, for tests: the layouts and habits of the real one, and stub_* functions that make
 * it answer any code, lag, block until released, lose its card, or lie. Its state belongs to the loaded file, so a test
 * thread and a Worker that load the same path share it.
 *
 * -DSTUB_OLD leaves out what drivers before 510 didn't have, -DSTUB_BARE everything but the three required symbols,
 * -DSTUB_NO_INIT one of those three.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef uint32_t u32;
typedef uint64_t u64;
typedef u64 Device;

enum { MOST = 128 };

/* What each function was told to do, and how often it was called. */
typedef struct { char name[64]; int code; int times; int lag_ms; int is_held; int calls; } Function;
typedef struct { char name[64]; u64 value; } Value;
typedef struct { u32 pid; u64 used; } Process;
typedef struct { u32 pid; u64 at_us; u32 sm, mem, enc, dec; } Utilization;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static Function functions[MOST];
static Value values[MOST];
static Process processes[2][MOST];
static Utilization utilization[MOST];
static char driver[80] = "580.159.04";
static char nvml[80] = "13.580.159.04";

static Function *function(const char *name) {
  for (int i = 0; i < MOST; i++) {
    if (functions[i].name[0] == 0) strncpy(functions[i].name, name, 63);
    if (strcmp(functions[i].name, name) == 0) return &functions[i];
  }
  return &functions[0];
}

static Value *value_of(const char *name, int create) {
  for (int i = 0; i < MOST; i++) {
    if (create && values[i].name[0] == 0) strncpy(values[i].name, name, 63);
    if (strcmp(values[i].name, name) == 0) return &values[i];
  }
  return 0;
}

static u64 value(const char *name, u64 otherwise) {
  Value *found = value_of(name, 0);
  return found ? found->value : otherwise;
}

static void wait_ms(int ms) {
  struct timespec t = { ms / 1000, (ms % 1000) * 1000000L };
  nanosleep(&t, 0);
}

/* ---- What a test says ---- */

void stub_answer(const char *name, int code, int times) {
  pthread_mutex_lock(&lock);
  Function *f = function(name);
  f->code = code;
  f->times = times;
  pthread_mutex_unlock(&lock);
}
void stub_lag(const char *name, int ms) { function(name)->lag_ms = ms; }
void stub_hold(const char *name, int is_held) {
  pthread_mutex_lock(&lock);
  function(name)->is_held = is_held;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}
int stub_calls(const char *name) { return function(name)->calls; }
void stub_set(const char *name, u64 to) { value_of(name, 1)->value = to; }
void stub_process(int kind, int slot, u32 pid, u64 used) { processes[kind][slot] = (Process){ pid, used }; }
void stub_utilization(int slot, u32 pid, u64 at_us, u32 sm, u32 rest) {
  utilization[slot] = (Utilization){ pid, at_us, sm, rest, rest, rest };
}
void stub_versions(const char *driver_version, const char *nvml_version) {
  strncpy(driver, driver_version, 79);
  strncpy(nvml, nvml_version, 79);
}

/* ---- How every call begins ---- */

static int initialised = 0;

/* -1: go on and answer. */
static int enter(const char *name, int is_device_call) {
  pthread_mutex_lock(&lock);
  Function *f = function(name);
  f->calls++;
  int lag = f->lag_ms;
  while (f->is_held) pthread_cond_wait(&changed, &lock);
  int code = -1;
  if (f->code != 0 && f->times != 0) {
    code = f->code;
    if (f->times > 0) f->times--;
  }
  pthread_mutex_unlock(&lock);
  if (lag > 0) wait_ms(lag);
  if (code >= 0) return code;
  if (is_device_call && initialised == 0) return 1;
  if (is_device_call && value("lost", 0)) return 15;
  return -1;
}

#define BEGIN(name) do { int code_ = enter(#name, 1); if (code_ >= 0) return code_; } while (0)

static int write_text(char *to, u32 length, const char *text) {
  if (length <= strlen(text)) return 7;
  strcpy(to, text);
  return 0;
}

/* ---- The library ---- */

#ifndef STUB_NO_INIT
int nvmlInit_v2(void) {
  int code = enter("nvmlInit_v2", 0);
  if (code >= 0) return code;
  initialised++;
  return 0;
}
#endif
int nvmlShutdown(void) {
  int code = enter("nvmlShutdown", 0);
  if (code >= 0) return code;
  if (initialised == 0) return 1;
  initialised--;
  return 0;
}
const char *nvmlErrorString(int code) { return code == 0 ? "Success" : "words of the stub"; }

#ifndef STUB_BARE
int nvmlSystemGetDriverVersion(char *to, u32 length) {
  BEGIN(nvmlSystemGetDriverVersion);
  return write_text(to, length, driver);
}
int nvmlSystemGetNVMLVersion(char *to, u32 length) {
  int code = enter("nvmlSystemGetNVMLVersion", 0);
  return code >= 0 ? code : write_text(to, length, nvml);
}
int nvmlSystemGetCudaDriverVersion(int *to) {
  BEGIN(nvmlSystemGetCudaDriverVersion);
  *to = (int)value("cuda", 13000);
  return 0;
}

int nvmlDeviceGetCount_v2(u32 *to) {
  BEGIN(nvmlDeviceGetCount_v2);
  *to = (u32)value("count", 1);
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(u32 index, Device *to) {
  BEGIN(nvmlDeviceGetHandleByIndex_v2);
  if (index >= value("count", 1)) return 2;
  *to = 0x7f0000001000ull + index;
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, Device *to) {
  BEGIN(nvmlDeviceGetHandleByUUID);
  if (strncmp(uuid, "GPU-stub-", 9) != 0 || (u64)(uuid[9] - '0') >= value("count", 1)) return 6;
  *to = 0x7f0000001000ull + (u64)(uuid[9] - '0');
  return 0;
}
int nvmlDeviceGetName(Device d, char *to, u32 length) {
  BEGIN(nvmlDeviceGetName);
  return write_text(to, length, "NVIDIA Stub 16GB");
}
int nvmlDeviceGetUUID(Device d, char *to, u32 length) {
  BEGIN(nvmlDeviceGetUUID);
  // A service locks its card by this name for the whole machine: one that shares the machine with others needs its own.
  const char *tail = getenv("STUB_UUID_TAIL");
  char uuid[64];
  snprintf(uuid, sizeof uuid, "GPU-stub-%d%s", (int)(d & 0xf), tail ? tail : "");
  return write_text(to, length, uuid);
}
typedef struct { char legacy[16]; u32 domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
int nvmlDeviceGetPciInfo_v3(Device d, Pci *to) {
  BEGIN(nvmlDeviceGetPciInfo_v3);
  *to = (Pci){ "0000:2b:00.0", 0, 0x2b + (u32)(d & 0xf), 0, 0x270210de, 0, "00000000:2B:00.0" };
  return 0;
}

/* ---- Memory and processes ---- */

typedef struct { u64 total, free, used; } MemoryV1;
int nvmlDeviceGetMemoryInfo(Device d, MemoryV1 *to) {
  BEGIN(nvmlDeviceGetMemoryInfo);
  u64 total = value("memory.total", 16ull << 30), used = value("memory.used", 1ull << 30);
  u64 reserved = value("memory.reserved", 512ull << 20);
  *to = (MemoryV1){ total, total - used - reserved, used + reserved };
  return 0;
}
static int list(int kind, u32 *count, unsigned char *to, u32 stride) {
  u32 n = 0;
  while (n < MOST && processes[kind][n].pid != 0) n++;
  if (n > *count || (n > 0 && to == 0)) { *count = n; return 7; }
  *count = n;
  for (u32 i = 0; i < n; i++, to += stride) {
    u32 none = 0xffffffffu;
    u64 zero = 0;
    memcpy(to, &processes[kind][i].pid, 4);
    memcpy(to + 8, &processes[kind][i].used, 8);
    memcpy(to + 16, &none, 4);
    memcpy(to + 20, &none, 4);
    /* A wider entry has a further u64, or as many bytes as a lie is told to have. */
    for (u32 extra = 24; extra < stride; extra++) memcpy(to + extra, &zero, 1);
  }
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v2(Device d, u32 *count, unsigned char *to) {
  BEGIN(nvmlDeviceGetComputeRunningProcesses_v2);
  return list(0, count, to, 24);
}
int nvmlDeviceGetGraphicsRunningProcesses_v2(Device d, u32 *count, unsigned char *to) {
  BEGIN(nvmlDeviceGetGraphicsRunningProcesses_v2);
  return list(1, count, to, 24);
}
typedef struct { u32 pid; u64 at_us; u32 sm, mem, enc, dec; } UtilizationRow;
int nvmlDeviceGetProcessUtilization(Device d, UtilizationRow *to, u32 *count, u64 since_us) {
  BEGIN(nvmlDeviceGetProcessUtilization);
  u32 capacity = (u32)value("ring", 72), n = 0;
  if (to == 0 || *count < capacity) { *count = capacity; return 7; }
  /* Rows are handed out as they stand: leaving out the rubbish is the caller's work. */
  for (; n < capacity && utilization[n].pid != 0; n++) memcpy(&to[n], &utilization[n], sizeof *to);
  if (n == 0) return 6;
  *count = n;
  return 0;
}
#include "nvml_stub_card.h"
#include "nvml_stub_sensors.h"
#endif
