// A program that sees cards as programs of users do: by the driver's library, libcuda.so.1, which the loader must find. It needs neither
// CUDA nor its headers to be built. It prints one line of JSON for each thing it did; codes are CUresult, 0 for success.
//
//	cuda see                 which cards there are
//	cuda hold MIB SECONDS    take memory of the first card, and keep it
//	cuda compute SECONDS     compute on the first card
//	cuda fault               write where no memory is
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct { unsigned char bytes[16]; } uuid_type;

static void *library;

static void *symbol(const char *name) {
  void *found = dlsym(library, name);
  if (!found) {
    printf("{\"did\":\"load\",\"error\":\"no %s\"}\n", name);
    exit(0);
  }
  return found;
}

static const char *kernels =
    ".version 6.4\n.target sm_70\n.address_size 64\n"
    ".visible .entry fault() {\n .reg .u64 %a;\n .reg .u32 %v;\n mov.u64 %a, 64;\n mov.u32 %v, 1;\n st.global.u32 [%a], %v;\n ret;\n}\n"
    ".visible .entry spin(.param .u32 rounds) {\n .reg .u32 %n, %x;\n .reg .pred %p;\n ld.param.u32 %n, [rounds];\n mov.u32 %x, 1;\n"
    "again:\n mad.lo.u32 %x, %x, 1664525, 1013904223;\n sub.u32 %n, %n, 1;\n setp.ne.u32 %p, %n, 0;\n @%p bra again;\n"
    " setp.eq.u32 %p, %x, 7;\n @%p trap;\n ret;\n}\n";

// nodes prints the device nodes of cards.
static void nodes(void) {
  glob_t found;
  printf("{\"did\":\"nodes\",\"nodes\":[");
  if (glob("/dev/nvidia[0-9]*", 0, NULL, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc; i++) printf("%s\"%s\"", i ? "," : "", found.gl_pathv[i]);
  printf("]}\n");
}

// see prints the cards' UUIDs, and returns how many there are.
static int see(void) {
  int (*init)(unsigned) = symbol("cuInit");
  int (*get_count)(int *) = symbol("cuDeviceGetCount");
  int (*get_uuid)(uuid_type *, int) = symbol("cuDeviceGetUuid");
  int (*get_total)(size_t *, int) = symbol("cuDeviceTotalMem_v2");
  int code = init(0), count = 0;
  if (code == 0) code = get_count(&count);
  printf("{\"did\":\"see\",\"code\":%d,\"uuids\":[", code);
  for (int i = 0; i < count; i++) {
    uuid_type u = {{0}};
    get_uuid(&u, i);
    printf("%s\"GPU-", i ? "," : "");
    for (int b = 0; b < 16; b++) printf("%s%02x", b == 4 || b == 6 || b == 8 || b == 10 ? "-" : "", u.bytes[b]);
    printf("\"");
  }
  size_t total = 0;
  if (count > 0) get_total(&total, 0);
  printf("],\"totalMiB\":%zu}\n", total >> 20);
  return count;
}

// open_context makes the first card usable.
static int open_context(void) {
  int (*retain)(void **, int) = symbol("cuDevicePrimaryCtxRetain");
  int (*use)(void *) = symbol("cuCtxSetCurrent");
  void *context = NULL;
  int code = retain(&context, 0);
  return code ? code : use(context);
}

static int load(const char *kernel, void **function) {
  int (*load_data)(void **, const void *) = symbol("cuModuleLoadData");
  int (*get_function)(void **, void *, const char *) = symbol("cuModuleGetFunction");
  void *module = NULL;
  int code = load_data(&module, kernels);
  return code ? code : get_function(function, module, kernel);
}

static int launch(void *function, void **arguments) {
  int (*launch_kernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **) = symbol("cuLaunchKernel");
  int (*synchronize)(void) = symbol("cuCtxSynchronize");
  int code = launch_kernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL);
  return code ? code : synchronize();
}

static void hold(long mebibytes, unsigned seconds) {
  int (*allocate)(unsigned long long *, size_t) = symbol("cuMemAlloc_v2");
  unsigned long long where = 0;
  int code = open_context();
  if (code == 0) code = allocate(&where, (size_t)mebibytes << 20);
  printf("{\"did\":\"hold\",\"code\":%d}\n", code);
  sleep(seconds);
}

static void compute(long seconds) {
  void *spin = NULL;
  unsigned rounds = 1000000;
  void *arguments[] = {&rounds};
  int code = open_context();
  if (code == 0) code = load("spin", &spin);
  if (code == 0) code = launch(spin, arguments);
  printf("{\"did\":\"compute\",\"code\":%d}\n", code);
  for (time_t end = time(NULL) + seconds; code == 0 && time(NULL) < end;) code = launch(spin, arguments);
  printf("{\"did\":\"computed\",\"code\":%d}\n", code);
}

static void fault(void) {
  void *function = NULL;
  int code = open_context();
  if (code == 0) code = load("fault", &function);
  printf("{\"did\":\"prepare\",\"code\":%d}\n", code);
  if (code == 0) printf("{\"did\":\"fault\",\"code\":%d}\n", launch(function, NULL));
}

int main(int count, char **words) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  nodes();
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) {
    printf("{\"did\":\"load\",\"error\":\"%s\"}\n", "the loader finds no libcuda.so.1");
    // Who is to stay does, so that all but the driver can be tried out without one.
    if (count > 1 && strcmp(words[1], "see") && strcmp(words[1], "fault")) {
      printf("{\"did\":\"%s\",\"code\":-1}\n", words[1]);
      sleep(600);
    }
  } else if (see() > 0 && count > 1) {
    if (!strcmp(words[1], "hold") && count > 3) hold(atol(words[2]), (unsigned)atol(words[3]));
    if (!strcmp(words[1], "compute") && count > 2) compute(atol(words[2]));
    if (!strcmp(words[1], "fault")) fault();
  }
  printf("{\"did\":\"end\"}\n");

  return 0;
}
