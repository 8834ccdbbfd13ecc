// A stand-in for NVIDIA's driver: libcuda.so.1, and with -DSMI the program nvidia-smi. It hands out no memory, it only
// counts, in a file that all processes of one simulated card share, so that they really are neighbours.
//
// Settings come from the file stub.conf beside the library or program, one NAME=VALUE a line, and from the environment,
// which goes before the file:
//
//   STUB_STATE           the card's file of who holds what (required)
//   STUB_POD             whose process this is; limits count per pod
//   STUB_CARD_MIB        physical memory (default 23028)
//   STUB_SLICE_MIB       most that the pod may hold; 0 = no limit
//   STUB_TOTAL_MIB       what is shown as total (default: the slice, or the card)
//   STUB_CONTEXT_MIB     what a process holds before its first allocation (default 235)
//   STUB_OWN_MIB         what the pod's simulated work holds
//   STUB_NEIGHBOURS_MIB  what simulated others hold on the card
//   STUB_CARDS           cards that are shown (default 1)
//   STUB_UUID, STUB_NAME, STUB_DRIVER
//   STUB_UTILIZATION     percent, as nvidia-smi shows it
//   STUB_PERCENT         share of compute (default 100)
//   STUB_BROKEN          CUresult of cuInit; nvidia-smi then fails as well
//   STUB_HANG            a function of the driver that never returns
//   STUB_NO_VMM          1 = cuMemCreate is not supported
//   STUB_SMI             noise, na, lost, wrong, missing-row: what is wrong with nvidia-smi's answer
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define OUT_OF_MEMORY 2
#define INVALID 1
#define NOT_SUPPORTED 801
#define MIB (1024L * 1024L)
#define MOST 4096 // handles of one process

static char *settings; // text of stub.conf

static void read_settings(void) {
  char path[4096] = "";
#ifdef SMI
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  if (n > 0) path[n] = 0;
#else
  Dl_info info;
  if (dladdr((void *)read_settings, &info) && info.dli_fname) snprintf(path, sizeof path, "%s", info.dli_fname);
#endif
  char *slash = strrchr(path, '/');
  settings = calloc(1, 1 << 16);
  if (!slash || slash - path > 4000) return;
  strcpy(slash + 1, "stub.conf");
  FILE *file = fopen(path, "r");
  if (!file) return;
  settings[0] = '\n';
  fread(settings + 1, 1, (1 << 16) - 2, file);
  fclose(file);
}

static const char *setting(const char *name, const char *otherwise) {
  const char *value = getenv(name);
  if (value) return value;
  if (!settings) read_settings();
  char key[64];
  snprintf(key, sizeof key, "\n%s=", name);
  char *at = strstr(settings, key);
  if (!at) return otherwise;
  at += strlen(key);
  static __thread char values[8][512];
  static __thread int next;
  char *copy = values[next++ % 8];
  snprintf(copy, 512, "%.*s", (int)strcspn(at, "\n"), at);
  return copy;
}

static long figure(const char *name, long otherwise) {
  const char *value = setting(name, "");
  return *value ? atol(value) : otherwise;
}

static long card_mib(void) { return figure("STUB_CARD_MIB", 23028); }
static long slice_mib(void) { return figure("STUB_SLICE_MIB", 0); }
static long total_mib(void) { return figure("STUB_TOTAL_MIB", slice_mib() ? slice_mib() : card_mib()); }

// The card's file: a line "pid pod kib" for each process that holds something.
struct held {
  long card, pod; // KiB
};

// exchange adds kib to what this process holds when there is room, and tells what is held then. Returns a CUresult.
static int exchange(long kib, struct held *now) {
  int result = OUT_OF_MEMORY, fd = open(setting("STUB_STATE", "/nonexistent"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return INVALID;
  while (flock(fd, LOCK_EX) && errno == EINTR) {
  }
  static char text[1 << 18];
  ssize_t n = read(fd, text, sizeof text - 1);
  text[n > 0 ? n : 0] = 0;
  const char *own_pod = setting("STUB_POD", "pod");
  long own = 0, pod = figure("STUB_OWN_MIB", 0) * 1024, card = pod + figure("STUB_NEIGHBOURS_MIB", 0) * 1024;
  char *kept = calloc(1, sizeof text), *line, *rest = text;
  while ((line = strsep(&rest, "\n"))) {
    int pid;
    char name[256];
    long holds;
    if (sscanf(line, "%d %255s %ld", &pid, name, &holds) != 3) continue;
    if (kill(pid, 0) && errno == ESRCH) continue; // it ended without giving back
    card += holds;
    if (!strcmp(name, own_pod)) pod += holds;
    if (pid == getpid()) own = holds;
    else sprintf(kept + strlen(kept), "%d %s %ld\n", pid, name, holds);
  }
  long limit = slice_mib() * 1024;
  if (kib <= 0 || ((!limit || pod + kib <= limit) && card + kib <= card_mib() * 1024)) {
    own += kib, pod += kib, card += kib, result = 0;
    if (own > 0) sprintf(kept + strlen(kept), "%d %s %ld\n", getpid(), own_pod, own);
    if (kib && (ftruncate(fd, 0) || pwrite(fd, kept, strlen(kept), 0) < 0)) result = INVALID;
  }
  if (now) now->card = card, now->pod = pod;
  free(kept);
  close(fd);
  return result;
}

#ifdef SMI

static long used_kib(struct held now) { return slice_mib() ? now.pod : now.card; }

static void print_field(const char *field, long card, struct held now) {
  const char *uuid = setting("STUB_UUID", "GPU-00000000-0000-0000-0000-000000000000");
  int na = !strcmp(setting("STUB_SMI", ""), "na");
  if (!strcmp(field, "uuid") && card) printf("%.*s%03ld", (int)strlen(uuid) - 3, uuid, card);
  else if (!strcmp(field, "uuid")) printf("%s", uuid);
  else if (!strcmp(field, "name")) printf("%s", setting("STUB_NAME", "NVIDIA A10"));
  else if (!strcmp(field, "driver_version")) printf("%s", setting("STUB_DRIVER", "550.90.07"));
  else if (na) printf("[N/A]");
  else if (!strcmp(field, "memory.total")) printf("%ld", total_mib());
  else if (!strcmp(field, "memory.used") && !strcmp(setting("STUB_SMI", ""), "wrong")) printf("17592186044134");
  else if (!strcmp(field, "memory.used")) printf("%ld", used_kib(now) / 1024);
  else if (!strcmp(field, "utilization.gpu")) printf("%ld", figure("STUB_UTILIZATION", 0));
  else printf("[Not Supported]");
}

// It answers --query-gpu=…, always as csv,noheader,nounits.
int main(int count, char **arguments) {
  const char *fault = setting("STUB_SMI", ""), *query = "name,uuid";
  for (int i = 1; i < count; i++)
    if (!strncmp(arguments[i], "--query-gpu=", 12)) query = arguments[i] + 12;
  if (figure("STUB_BROKEN", 0) || !strcmp(fault, "lost")) {
    puts("Failed to initialize NVML: Unknown Error");
    return 255;
  }
  struct held now = {0, 0};
  if (exchange(0, &now)) {
    puts("Unable to determine the device handle for GPU0: Unknown Error");
    return 15;
  }
  if (!strcmp(fault, "noise")) puts("[core-lib msg(1:2:stub.c:1)]: init\r\n[core-lib msg(1:2:stub.c:2)]: ready");
  for (long i = 0; i < figure("STUB_CARDS", 1) && strcmp(fault, "missing-row"); i++) {
    char fields[1024], *rest = fields, *field;
    snprintf(fields, sizeof fields, "%s", query);
    for (int first = 1; (field = strsep(&rest, ",")); first = 0) {
      if (!first) printf(", ");
      print_field(field, i, now);
    }
    puts("");
  }
  return 0;
}

#else

static long sizes[MOST]; // KiB by handle

static int entered(const char *function) {
  if (!strcmp(setting("STUB_HANG", ""), function))
    for (;;) pause();
  return 0;
}

static int take(unsigned long long *handle, size_t bytes) {
  for (int i = 1; i < MOST; i++) {
    if (sizes[i]) continue;
    long kib = (bytes + 1023) / 1024;
    int result = exchange(kib, NULL);
    if (!result) sizes[i] = kib, *handle = (unsigned long long)i << 32;
    return result;
  }
  return INVALID;
}

static int give(unsigned long long handle) {
  unsigned long long i = handle >> 32;
  if (i == 0 || i >= MOST || !sizes[i]) return INVALID;
  long kib = sizes[i];
  sizes[i] = 0;
  return exchange(-kib, NULL);
}

int cuInit(unsigned flags) {
  (void)flags;
  entered("cuInit");
  return figure("STUB_BROKEN", 0);
}
int cuDriverGetVersion(int *version) { return *version = 12040, 0; }
int cuDeviceGetCount(int *count) {
  const char *visible = getenv("CUDA_VISIBLE_DEVICES"); // Ray hides cards by an empty one
  return *count = visible && !*visible ? 0 : figure("STUB_CARDS", 1), 0;
}
int cuDeviceGet(int *device, int index) {
  int count;
  cuDeviceGetCount(&count);
  return index < count ? (*device = index, 0) : 101;
}
int cuDeviceGetName(char *name, int most, int device) {
  (void)device;
  return snprintf(name, most, "%s", setting("STUB_NAME", "NVIDIA A10")), 0;
}
int cuDeviceGetUuid(unsigned char *uuid, int device) {
  const char *text = setting("STUB_UUID", "GPU-00000000-0000-0000-0000-000000000000");
  int at = 0;
  for (const char *c = text + 4; *c && at < 32; c++) {
    if (*c == '-') continue;
    int digit = *c <= '9' ? *c - '0' : (*c | 32) - 'a' + 10;
    uuid[at / 2] = at % 2 ? uuid[at / 2] | digit : digit << 4;
    at++;
  }
  uuid[15] += device;
  return 0;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  (void)device;
  return *bytes = total_mib() * MIB, 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)attribute, (void)device;
  return *value = 1, 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
  (void)device;
  static char one;
  return *context = &one, exchange(figure("STUB_CONTEXT_MIB", 235) * 1024, NULL);
}
int cuCtxSetCurrent(void *context) { return context ? 0 : INVALID; }
int cuMemGetInfo_v2(size_t *free, size_t *total) {
  struct held now;
  int result = exchange(0, &now);
  long kib = card_mib() * 1024 - now.card, of_slice = slice_mib() * 1024 - now.pod;
  if (slice_mib() && of_slice < kib) kib = of_slice;
  *free = (kib > 0 ? kib : 0) * 1024, *total = total_mib() * MIB;
  return result;
}
int cuMemAlloc_v2(unsigned long long *handle, size_t bytes) { return entered("cuMemAlloc"), take(handle, bytes); }
int cuMemFree_v2(unsigned long long handle) { return give(handle); }
int cuMemAllocAsync(unsigned long long *handle, size_t bytes, void *stream) {
  (void)stream;
  return entered("cuMemAllocAsync"), take(handle, bytes);
}
int cuMemFreeAsync(unsigned long long handle, void *stream) { return (void)stream, give(handle); }
int cuStreamSynchronize(void *stream) { return (void)stream, 0; }
int cuDeviceGetDefaultMemPool(void **pool, int device) {
  (void)device;
  static char one;
  return *pool = &one, 0;
}
int cuMemPoolTrimTo(void *pool, size_t keep) { return (void)pool, (void)keep, 0; }
int cuMemGetAllocationGranularity(size_t *bytes, const void *properties, int option) {
  (void)properties, (void)option;
  return *bytes = 2 * MIB, 0;
}
int cuMemCreate(unsigned long long *handle, size_t bytes, const void *properties, unsigned long long flags) {
  (void)properties, (void)flags;
  entered("cuMemCreate");
  return figure("STUB_NO_VMM", 0) ? NOT_SUPPORTED : take(handle, bytes);
}
int cuMemRelease(unsigned long long handle) { return give(handle); }
int cuMemAllocManaged(unsigned long long *handle, size_t bytes, unsigned flags) {
  (void)flags;
  return slice_mib() ? NOT_SUPPORTED : take(handle, bytes); // cGPU has none (domain facts A.2)
}
int cuGetErrorName(int result, const char **name) {
  switch (result) {
  case OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; break;
  case INVALID: *name = "CUDA_ERROR_INVALID_VALUE"; break;
  case NOT_SUPPORTED: *name = "CUDA_ERROR_NOT_SUPPORTED"; break;
  default: *name = "CUDA_ERROR_UNKNOWN";
  }
  return 0;
}
int cuModuleLoadData(void **module, const void *image) { return *module = (void *)image, image ? 0 : INVALID; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
  (void)name;
  return *function = module, 0;
}
// A round takes 5 ms; with a share of compute, every tenth waits for the others' turns.
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **arguments, void **extra) {
  (void)function, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream, (void)arguments, (void)extra;
  static long round;
  long micros = 5000, percent = figure("STUB_PERCENT", 100);
  if (++round % 10 == 0 && percent > 0) micros += 50000 * (100 - percent) / percent;
  struct timespec time = {micros / 1000000, micros % 1000000 * 1000};
  return nanosleep(&time, NULL), 0;
}
int cuCtxSynchronize(void) { return 0; }

#endif
