/* A stand-in for libamdhip64: the calls that coasm makes, checked for their order and arguments.
 *
 * Memory and launches are handed to callbacks (see hip_session.py). A call out of order gets the
 * error that HIP gives it. `double_fail` makes the next call of one function fail. Signatures and
 * error numbers: HIP Runtime API Reference, hip_runtime_api.h; the offsets in the device's
 * properties are those of hipDeviceProp_tR0600 there.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    OK = 0,
    INVALID_VALUE = 1,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    LAUNCH_FAILURE = 719,
};
enum { NAME = 0, MULTI_PROCESSOR_COUNT = 388, GCN_ARCH_NAME = 1160 };
enum { HOST_TO_DEVICE = 1, DEVICE_TO_HOST = 2 };

typedef struct {
    uint64_t (*allocate)(uint64_t size);
    int (*release)(uint64_t address);
    int (*upload)(uint64_t address, const void *source, uint64_t size);
    int (*download)(void *to, uint64_t address, uint64_t size);
    int (*load)(const void *image);
    int (*find)(const char *name);
    int (*launch)(const char *name, const uint32_t *sizes, const void *block, uint64_t size);
} Callbacks;

static Callbacks on;
static char log_text[1 << 20], arch[256], failing[64], function_name[1024];
static int failing_status, device_count = 1, chosen, module_loaded, function_found;
static int events, recorded[64], finished[64], launches_pending;

static int called(const char *name) {
    strncat(log_text, name, sizeof log_text - strlen(log_text) - 2);
    strcat(log_text, "\n");
    if (strcmp(name, failing) == 0) {
        failing[0] = 0;
        return failing_status;
    }
    return OK;
}
#define CALLED(name)                       \
    do {                                   \
        int failed = called(name);         \
        if (failed) return failed;         \
    } while (0)

void double_connect(const Callbacks *callbacks, const char *name, int count) {
    on = *callbacks;
    strncpy(arch, name, sizeof arch - 1);
    device_count = count;
}
const char *double_log(void) { return log_text; }
void double_fail(const char *function, int status) {
    strncpy(failing, function, sizeof failing - 1);
    failing_status = status;
}

int hipGetDeviceCount(int *count) {
    CALLED("hipGetDeviceCount");
    *count = device_count;
    return device_count ? OK : 100; /* hipErrorNoDevice */
}
int hipGetDevicePropertiesR0600(char *properties, int device) {
    CALLED("hipGetDeviceProperties");
    if (device < 0 || device >= device_count) return INVALID_DEVICE;
    int units = 256;
    strcpy(properties + NAME, "Double");
    memcpy(properties + MULTI_PROCESSOR_COUNT, &units, sizeof units);
    strcpy(properties + GCN_ARCH_NAME, arch);
    return OK;
}
int hipSetDevice(int device) {
    CALLED("hipSetDevice");
    if (device < 0 || device >= device_count) return INVALID_DEVICE;
    chosen = 1;
    return OK;
}
int hipMalloc(void **pointer, size_t size) {
    CALLED("hipMalloc");
    if (!chosen) return NOT_INITIALIZED;
    uint64_t address = on.allocate(size);
    *pointer = (void *)(uintptr_t)address;
    return address ? OK : 2; /* hipErrorOutOfMemory */
}
int hipFree(void *pointer) {
    CALLED("hipFree");
    return on.release((uint64_t)(uintptr_t)pointer);
}
int hipMemcpy(void *to, const void *from, size_t size, int kind) {
    CALLED(kind == HOST_TO_DEVICE ? "hipMemcpy to" : "hipMemcpy from");
    if (kind == HOST_TO_DEVICE) return on.upload((uint64_t)(uintptr_t)to, from, size);
    if (kind != DEVICE_TO_HOST || launches_pending) return INVALID_VALUE;
    return on.download(to, (uint64_t)(uintptr_t)from, size);
}
int hipModuleLoadData(void **module, const void *image) {
    CALLED("hipModuleLoadData");
    if (memcmp(image, "\177ELF", 4) != 0) return INVALID_IMAGE;
    int status = on.load(image);
    module_loaded = status == OK;
    *module = &module_loaded;
    return status;
}
int hipModuleUnload(void *module) {
    CALLED("hipModuleUnload");
    if (module != &module_loaded || !module_loaded) return INVALID_HANDLE;
    module_loaded = function_found = 0;
    return OK;
}
int hipModuleGetFunction(void **function, void *module, const char *name) {
    CALLED("hipModuleGetFunction");
    if (module != &module_loaded || !module_loaded) return INVALID_HANDLE;
    if (on.find(name) != OK) return NOT_FOUND;
    strncpy(function_name, name, sizeof function_name - 1);
    function_found = 1;
    *function = &function_found;
    return OK;
}
int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned lds, void *stream, void **parameters,
                          void **extra) {
    CALLED("hipModuleLaunchKernel");
    if (function != &function_found || !function_found) return INVALID_HANDLE;
    /* HIP_LAUNCH_PARAM_BUFFER_POINTER, _SIZE, _END */
    if (stream || parameters || !extra || extra[0] != (void *)1 || extra[2] != (void *)2 ||
        extra[4] != (void *)3)
        return INVALID_VALUE;
    uint32_t sizes[] = {gx, gy, gz, bx, by, bz, lds};
    launches_pending = 1;
    return on.launch(function_name, sizes, extra[1], *(const size_t *)extra[3]);
}
int hipDeviceSynchronize(void) {
    CALLED("hipDeviceSynchronize");
    launches_pending = 0;
    return OK;
}
int hipEventCreate(void **event) {
    CALLED("hipEventCreate");
    if (events >= 64) return INVALID_VALUE;
    *event = &recorded[events++];
    return OK;
}
int hipEventDestroy(void *event) {
    (void)event;
    CALLED("hipEventDestroy");
    return OK;
}
int hipEventRecord(void *event, void *stream) {
    CALLED("hipEventRecord");
    if (stream) return INVALID_VALUE;
    int at = (int *)event - recorded;
    recorded[at] = 1;
    finished[at] = 0;
    return OK;
}
int hipEventSynchronize(void *event) {
    CALLED("hipEventSynchronize");
    int at = (int *)event - recorded;
    if (!recorded[at]) return INVALID_HANDLE;
    for (int i = 0; i <= at; i++) finished[i] = recorded[i];
    launches_pending = 0;
    return OK;
}
int hipEventElapsedTime(float *milliseconds, void *first, void *second) {
    CALLED("hipEventElapsedTime");
    int from = (int *)first - recorded, to = (int *)second - recorded;
    if (!recorded[from] || !recorded[to]) return INVALID_HANDLE;
    if (!finished[from] || !finished[to]) return 600; /* hipErrorNotReady */
    static const float times[] = {0.30f, 0.25f, 0.50f};
    static int next;
    *milliseconds = times[next++ % 3];
    return OK;
}
