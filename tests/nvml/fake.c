/* A libnvidia-ml.so.1 without GPUs: the functions that the driver calls, on a table in memory.
 *
 * It uses the structures of NVIDIA's published header, so that the calls through ctypes are tested. It returns the
 * errors of the real library: overlapping placements, instances in use, GPUs without MIG, placements of a GPU whose MIG
 * is disabled. Functions that begin with fake_ are for the test.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    TIMEOUT = 10,
    FUNCTION_NOT_FOUND = 13,
    GPU_IS_LOST = 15,
    IN_USE = 19,
    INSUFFICIENT_RESOURCES = 23,
    ARGUMENT_VERSION_MISMATCH = 25,
};

#define MOST_GPUS 16
#define MOST_INSTANCES 16
#define MOST_EVENTS 64
#define XID_CRITICAL 8ULL

typedef unsigned int uint;

/* --- models ------------------------------------------------------------------------------------------------------ */

typedef struct {
    uint number, id, slices, count, multiprocessors, copy, decoders, encoders, jpeg, ofa;
    unsigned long long mib;
    const char *name;
    uint size, places, starts[8];
} Profile;

static const Profile A100[] = {
    {0, 19, 1, 7, 14, 1, 0, 0, 0, 0, 4864, "MIG 1g.5gb", 1, 7, {0, 1, 2, 3, 4, 5, 6}},
    {7, 20, 1, 1, 14, 1, 1, 0, 1, 1, 4864, "MIG 1g.5gb+me", 1, 7, {0, 1, 2, 3, 4, 5, 6}},
    {9, 15, 1, 4, 14, 1, 1, 0, 0, 0, 9856, "MIG 1g.10gb", 2, 4, {0, 2, 4, 6}},
    {1, 14, 2, 3, 28, 2, 1, 0, 0, 0, 9856, "MIG 2g.10gb", 2, 3, {0, 2, 4}},
    {2, 9, 3, 2, 42, 3, 2, 0, 0, 0, 19968, "MIG 3g.20gb", 4, 2, {0, 4}},
    {3, 5, 4, 1, 56, 4, 2, 0, 0, 0, 19968, "MIG 4g.20gb", 4, 1, {0}},
    {4, 0, 7, 1, 98, 7, 5, 0, 1, 1, 40192, "MIG 7g.40gb", 8, 1, {0}},
};

static const Profile H100[] = {
    {0, 19, 1, 7, 16, 1, 1, 0, 1, 0, 9984, "MIG 1g.10gb", 1, 7, {0, 1, 2, 3, 4, 5, 6}},
    {7, 20, 1, 1, 16, 1, 1, 0, 1, 1, 9984, "MIG 1g.10gb+me", 1, 7, {0, 1, 2, 3, 4, 5, 6}},
    {9, 15, 1, 4, 26, 1, 1, 0, 1, 0, 20096, "MIG 1g.20gb", 2, 4, {0, 2, 4, 6}},
    {1, 14, 2, 3, 32, 2, 2, 0, 2, 0, 20096, "MIG 2g.20gb", 2, 3, {0, 2, 4}},
    {2, 9, 3, 2, 60, 3, 3, 0, 3, 0, 40448, "MIG 3g.40gb", 4, 2, {0, 4}},
    {3, 5, 4, 1, 64, 4, 4, 0, 4, 0, 40448, "MIG 4g.40gb", 4, 1, {0}},
    {4, 0, 7, 1, 132, 8, 7, 0, 7, 1, 81152, "MIG 7g.80gb", 8, 1, {0}},
};

typedef struct {
    const char *name;
    uint brand, architecture, major, minor, cores, device;
    unsigned long long mib, bar_mib;
    const Profile *profiles;
    uint profile_count;
} Model;

static const Model MODELS[] = {
    {"NVIDIA A100-SXM4-40GB", 14, 7, 8, 0, 6912, 0x20b010de, 40960, 65536, A100, 7},
    {"Tesla T4", 14, 6, 7, 5, 2560, 0x1eb810de, 15360, 256, NULL, 0},
    {"NVIDIA H100 80GB HBM3", 14, 9, 9, 0, 16896, 0x233010de, 81559, 131072, H100, 7},
};

/* Compute instance profiles by number: slices of each. */
static const uint COMPUTE[] = {1, 2, 3, 4, 7};

/* --- state ------------------------------------------------------------------------------------------------------- */

typedef struct Gpu Gpu;
typedef struct Instance Instance;

typedef struct {
    int used;
    uint id, slices;
    char uuid[64];
    Instance *parent;
} Compute;

struct Instance {
    int used;
    uint id, start;
    const Profile *profile;
    Compute compute[8];
    Gpu *gpu;
};

/* A device handle points to one of these: a GPU (instance NULL) or a MIG device. */
typedef struct {
    Gpu *gpu;
    Instance *instance;
    Compute *compute;
} Device;

struct Gpu {
    Device self;
    const Model *model;
    uint bus, minor, clique;
    int mig, lost, registered, coherent;
    char uuid[64];
    Instance instances[MOST_INSTANCES];
    Device mig_devices[MOST_INSTANCES];
};

static Gpu gpus[MOST_GPUS];
static uint gpu_count;
static int started, old_driver, absent, compute_failures, destroy_failures;
static uint serial;
static struct { Gpu *gpu; unsigned long long data; } events[MOST_EVENTS];
static uint event_count;
static const char *driver_version = "550.163.01";

/* --- for the test ------------------------------------------------------------------------------------------------ */

/* A GPU of model 0 (A100), 1 (T4) or 2 (H100) at 0000:<bus>:00.0. */
void fake_gpu(int model, uint bus, const char *uuid, int mig) {
    Gpu *gpu = &gpus[gpu_count];
    memset(gpu, 0, sizeof *gpu);
    gpu->self.gpu = gpu;
    gpu->model = &MODELS[model];
    gpu->bus = bus;
    gpu->minor = gpu_count++;
    gpu->mig = mig;
    snprintf(gpu->uuid, sizeof gpu->uuid, "%s", uuid);
}

void fake_clear(void) { gpu_count = 0; event_count = 0; }
void fake_old_driver(int yes) { old_driver = yes; }
void fake_driver_absent(int yes) { absent = yes; }
void fake_fail_compute(int times) { compute_failures = times; }
void fake_fail_destroy(int times) { destroy_failures = times; }
void fake_lose(uint gpu) { gpus[gpu].lost = 1; }
void fake_coherent(uint gpu) { gpus[gpu].coherent = 1; }
void fake_fabric(uint gpu, uint clique) { gpus[gpu].clique = clique; }
int fake_mig_mode(uint gpu) { return gpus[gpu].mig; }
int fake_started(void) { return started; }
int fake_registered(uint gpu) { return gpus[gpu].registered; }

void fake_xid(uint gpu, unsigned long long number) {
    if (gpus[gpu].registered && event_count < MOST_EVENTS) {
        events[event_count].gpu = &gpus[gpu];
        events[event_count++].data = number;
    }
}

/* The number of GPU instances, incomplete ones included. */
int fake_instances(uint gpu) {
    int count = 0;
    for (int n = 0; n < MOST_INSTANCES; n++) count += gpus[gpu].instances[n].used;
    return count;
}

/* --- GPUs that outlive a process ------------------------------------------------------------------------------------ */

/* $FAKE_NVML_STATE is a file with a line for each GPU, "gpu MODEL BUS UUID MIG", followed by one for each of its GPU
 * instances, "instance SLOT PROFILE START UUID", with "-" for one without a compute instance. */

static const Profile *by_id(const Model *model, uint id);

static void load(void) {
    const char *path = getenv("FAKE_NVML_STATE");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[256], uuid[64];
    uint slot, id, start, bus;
    int model, mig;
    if (!file) return;
    fake_clear();
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "gpu %d %u %63s %d", &model, &bus, uuid, &mig) == 4) {
            fake_gpu(model, bus, uuid, mig);
        } else if (gpu_count && sscanf(line, "instance %u %u %u %63s", &slot, &id, &start, uuid) == 4) {
            Gpu *gpu = &gpus[gpu_count - 1];
            Instance *instance = &gpu->instances[slot];
            *instance = (Instance){.used = 1, .id = slot + 1, .start = start, .profile = by_id(gpu->model, id), .gpu = gpu};
            if (instance->profile->slices == 7) instance->id = 0;
            if (strcmp(uuid, "-")) {
                instance->compute[0] = (Compute){.used = 1, .slices = instance->profile->slices, .parent = instance};
                strcpy(instance->compute[0].uuid, uuid);
                uint number = (uint)strtoul(uuid + 4, NULL, 16);
                if (number > serial) serial = number;
            }
        }
    }
    fclose(file);
}

static void save(void) {
    const char *path = getenv("FAKE_NVML_STATE");
    char new[512];
    if (!path) return;
    snprintf(new, sizeof new, "%s.new", path);
    FILE *file = fopen(new, "w");
    if (!file) return;
    for (uint n = 0; n < gpu_count; n++) {
        Gpu *gpu = &gpus[n];
        fprintf(file, "gpu %d %u %s %d\n", (int)(gpu->model - MODELS), gpu->bus, gpu->uuid, gpu->mig);
        for (int slot = 0; slot < MOST_INSTANCES; slot++) {
            Instance *one = &gpu->instances[slot];
            const char *uuid = one->compute[0].used ? one->compute[0].uuid : "-";
            if (one->used) fprintf(file, "instance %d %u %u %s\n", slot, one->profile->id, one->start, uuid);
        }
    }
    fclose(file);
    rename(new, path);
}

/* --- library ----------------------------------------------------------------------------------------------------- */

int nvmlInitWithFlags(uint flags) {
    (void)flags;
    if (absent) return DRIVER_NOT_LOADED;
    if (!started++) load();
    return SUCCESS;
}

int nvmlShutdown(void) {
    if (!started) return UNINITIALIZED;
    started--;
    for (uint n = 0; n < gpu_count; n++) gpus[n].registered = 0;
    return SUCCESS;
}

const char *nvmlErrorString(int code) {
    switch (code) {
    case NOT_SUPPORTED: return "Not Supported";
    case NOT_FOUND: return "Not Found";
    case IN_USE: return "In use by another client";
    case INSUFFICIENT_RESOURCES: return "Insufficient Resources";
    default: return "Unknown Error";
    }
}

static int copied(char *to, uint room, const char *from) {
    if (strlen(from) >= room) return INSUFFICIENT_SIZE;
    strcpy(to, from);
    return SUCCESS;
}

int nvmlSystemGetDriverVersion(char *version, uint room) { return copied(version, room, driver_version); }
int nvmlSystemGetCudaDriverVersion(int *version) { *version = 12040; return SUCCESS; }

int nvmlDeviceGetCount_v2(uint *count) {
    if (!started) return UNINITIALIZED;
    *count = gpu_count;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(uint index, Device **device) {
    if (index >= gpu_count) return INVALID_ARGUMENT;
    if (gpus[index].lost) return GPU_IS_LOST;
    *device = &gpus[index].self;
    return SUCCESS;
}

#define ALIVE(device) \
    if (!started) return UNINITIALIZED; \
    if ((device)->gpu->lost) return GPU_IS_LOST

typedef struct {
    char legacy[16];
    uint domain, bus, device, pci_device, subsystem;
    char bus_id[32];
} PciInfo;

int nvmlDeviceGetPciInfo_v3(Device *device, PciInfo *info) {
    ALIVE(device);
    memset(info, 0, sizeof *info);
    info->bus = device->gpu->bus;
    info->pci_device = device->gpu->model->device;
    snprintf(info->legacy, sizeof info->legacy, "0000:%02X:00.0", device->gpu->bus);
    snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", device->gpu->bus);
    return SUCCESS;
}

int nvmlDeviceGetUUID(Device *device, char *uuid, uint room) {
    ALIVE(device);
    return copied(uuid, room, device->compute ? device->compute->uuid : device->gpu->uuid);
}

int nvmlDeviceGetName(Device *device, char *name, uint room) {
    ALIVE(device);
    return copied(name, room, device->gpu->model->name);
}

int nvmlDeviceGetBrand(Device *device, uint *brand) { ALIVE(device); *brand = device->gpu->model->brand; return SUCCESS; }

int nvmlDeviceGetArchitecture(Device *device, uint *architecture) {
    ALIVE(device);
    *architecture = device->gpu->model->architecture;
    return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(Device *device, int *major, int *minor) {
    ALIVE(device);
    *major = (int)device->gpu->model->major;
    *minor = (int)device->gpu->model->minor;
    return SUCCESS;
}

int nvmlDeviceGetMinorNumber(Device *device, uint *minor) { ALIVE(device); *minor = device->gpu->minor; return SUCCESS; }
int nvmlDeviceGetNumGpuCores(Device *device, uint *cores) { ALIVE(device); *cores = device->gpu->model->cores; return SUCCESS; }

typedef struct { unsigned long long total, free, used; } Memory;

int nvmlDeviceGetMemoryInfo(Device *device, Memory *memory) {
    ALIVE(device);
    if (device->gpu->coherent) return NOT_SUPPORTED;
    memory->total = memory->free = device->gpu->model->mib << 20;
    memory->used = 0;
    return SUCCESS;
}

int nvmlDeviceGetBAR1MemoryInfo(Device *device, Memory *memory) {
    ALIVE(device);
    memory->total = memory->free = device->gpu->model->bar_mib << 20;
    memory->used = 0;
    return SUCCESS;
}

int nvmlDeviceSetPersistenceMode(Device *device, uint mode) { (void)mode; ALIVE(device); return SUCCESS; }

int nvmlDeviceGetAddressingMode(Device *device, uint *versioned) {
    ALIVE(device);
    if (old_driver) return FUNCTION_NOT_FOUND;
    if (versioned[0] != 0x1000008) return ARGUMENT_VERSION_MISMATCH;
    if (device->gpu->model->architecture < 9) return NOT_SUPPORTED;
    versioned[1] = 1;
    return SUCCESS;
}

typedef struct {
    uint version;
    unsigned char cluster[16];
    uint status, clique, state, health;
} FabricInfo;

int nvmlDeviceGetGpuFabricInfoV(Device *device, FabricInfo *info) {
    ALIVE(device);
    if (info->version != 0x02000024) return ARGUMENT_VERSION_MISMATCH;
    if (device->gpu->model->architecture < 9) return NOT_SUPPORTED;
    for (int n = 0; n < 16; n++) info->cluster[n] = device->gpu->clique ? (unsigned char)(n * 17) : 0;
    info->status = SUCCESS;
    info->clique = device->gpu->clique;
    info->state = 3;
    return SUCCESS;
}

/* --- MIG ---------------------------------------------------------------------------------------------------------- */

int nvmlDeviceGetMigMode(Device *device, uint *current, uint *pending) {
    ALIVE(device);
    if (!device->gpu->model->profiles) return NOT_SUPPORTED;
    *current = *pending = (uint)device->gpu->mig;
    return SUCCESS;
}

int nvmlDeviceSetMigMode(Device *device, uint mode, uint *status) {
    ALIVE(device);
    if (!device->gpu->model->profiles) return NOT_SUPPORTED;
    for (int n = 0; n < MOST_INSTANCES; n++)
        if (device->gpu->instances[n].used) return IN_USE;
    *status = SUCCESS;
    if (device->gpu->model->architecture > 7) device->gpu->mig = (int)mode;
    save();
    return SUCCESS;
}

static const Profile *by_number(const Model *model, uint number) {
    for (uint n = 0; n < model->profile_count; n++)
        if (model->profiles[n].number == number) return &model->profiles[n];
    return NULL;
}

static const Profile *by_id(const Model *model, uint id) {
    for (uint n = 0; n < model->profile_count; n++)
        if (model->profiles[n].id == id) return &model->profiles[n];
    return NULL;
}

typedef struct {
    uint id, p2p, slices, count, multiprocessors, copy, decoders, encoders, jpeg, ofa;
    unsigned long long mib;
} ProfileInfo;

typedef struct {
    uint version, id, p2p, slices, count, multiprocessors, copy, decoders, encoders, jpeg, ofa;
    unsigned long long mib;
    char name[96];
} NamedProfileInfo;

#define FILL(info, profile) do { \
    (info)->id = (profile)->id; (info)->p2p = 0; (info)->slices = (profile)->slices; \
    (info)->count = (profile)->count; (info)->multiprocessors = (profile)->multiprocessors; \
    (info)->copy = (profile)->copy; (info)->decoders = (profile)->decoders; (info)->encoders = (profile)->encoders; \
    (info)->jpeg = (profile)->jpeg; (info)->ofa = (profile)->ofa; (info)->mib = (profile)->mib; \
} while (0)

int nvmlDeviceGetGpuInstanceProfileInfo(Device *device, uint number, ProfileInfo *info) {
    ALIVE(device);
    const Profile *profile = by_number(device->gpu->model, number);
    if (!profile) return NOT_SUPPORTED;
    FILL(info, profile);
    return SUCCESS;
}

int nvmlDeviceGetGpuInstanceProfileInfoV(Device *device, uint number, NamedProfileInfo *info) {
    ALIVE(device);
    if (old_driver) return FUNCTION_NOT_FOUND;
    if (info->version != 0x02000098 || sizeof *info != 0x98) return ARGUMENT_VERSION_MISMATCH;
    const Profile *profile = by_number(device->gpu->model, number);
    if (!profile) return NOT_SUPPORTED;
    FILL(info, profile);
    strcpy(info->name, profile->name);
    return SUCCESS;
}

typedef struct { uint start, size; } Placement;

int nvmlDeviceGetGpuInstancePossiblePlacements_v2(Device *device, uint id, Placement *places, uint *count) {
    ALIVE(device);
    const Profile *profile = by_id(device->gpu->model, id);
    if (!profile || !device->gpu->mig) return NOT_SUPPORTED;
    if (!places) { *count = profile->places; return SUCCESS; }
    if (*count < profile->places) return INSUFFICIENT_SIZE;
    for (uint n = 0; n < profile->places; n++) {
        places[n].start = profile->starts[n];
        places[n].size = profile->size;
    }
    *count = profile->places;
    return SUCCESS;
}

int nvmlDeviceCreateGpuInstanceWithPlacement(Device *device, uint id, const Placement *place, Instance **made) {
    ALIVE(device);
    Gpu *gpu = device->gpu;
    const Profile *profile = by_id(gpu->model, id);
    if (!profile || !gpu->mig) return NOT_SUPPORTED;
    int allowed = 0;
    for (uint n = 0; n < profile->places; n++) allowed |= profile->starts[n] == place->start;
    if (!allowed || place->size != profile->size) return INVALID_ARGUMENT;
    uint same = 0;
    Instance *room = NULL;
    for (int n = 0; n < MOST_INSTANCES; n++) {
        Instance *other = &gpu->instances[n];
        if (!other->used) { if (!room) room = other; continue; }
        same += other->profile == profile;
        if (place->start < other->start + other->profile->size && other->start < place->start + profile->size)
            return INSUFFICIENT_RESOURCES;
    }
    if (!room || same >= profile->count) return INSUFFICIENT_RESOURCES;
    memset(room, 0, sizeof *room);
    room->used = 1;
    room->gpu = gpu;
    room->profile = profile;
    room->start = place->start;
    room->id = profile->slices == 7 ? 0 : 1 + (uint)(room - gpu->instances);
    *made = room;
    save();
    return SUCCESS;
}

int nvmlGpuInstanceDestroy(Instance *instance) {
    if (destroy_failures > 0) { destroy_failures--; return IN_USE; }
    if (!instance->used) return NOT_FOUND;
    for (int n = 0; n < 8; n++)
        if (instance->compute[n].used) return IN_USE;
    instance->used = 0;
    save();
    return SUCCESS;
}

int nvmlDeviceGetGpuInstances(Device *device, uint id, Instance **found, uint *count) {
    ALIVE(device);
    if (!device->gpu->mig || !by_id(device->gpu->model, id)) return NOT_SUPPORTED;
    *count = 0;
    for (int n = 0; n < MOST_INSTANCES; n++) {
        Instance *instance = &device->gpu->instances[n];
        if (instance->used && instance->profile->id == id) found[(*count)++] = instance;
    }
    return SUCCESS;
}

typedef struct { Device *device; uint id, profile; Placement place; } InstanceInfo;

int nvmlGpuInstanceGetInfo(Instance *instance, InstanceInfo *info) {
    if (!instance->used) return NOT_FOUND;
    info->device = &instance->gpu->self;
    info->id = instance->id;
    info->profile = instance->profile->id;
    info->place.start = instance->start;
    info->place.size = instance->profile->size;
    return SUCCESS;
}

typedef struct { uint id, slices, count, rest[6]; } ComputeProfile;
typedef struct { uint version, id, slices, count, rest[6]; char name[96]; } NamedComputeProfile;

static int compute_profile(Instance *instance, uint number, uint *slices, uint *count) {
    if (!instance->used) return NOT_FOUND;
    if (number >= sizeof COMPUTE / sizeof *COMPUTE || COMPUTE[number] > instance->profile->slices) return NOT_SUPPORTED;
    *slices = COMPUTE[number];
    *count = instance->profile->slices / COMPUTE[number];
    return SUCCESS;
}

int nvmlGpuInstanceGetComputeInstanceProfileInfo(Instance *instance, uint number, uint engines, ComputeProfile *info) {
    (void)engines;
    info->id = number;
    return compute_profile(instance, number, &info->slices, &info->count);
}

int nvmlGpuInstanceGetComputeInstanceProfileInfoV(Instance *instance, uint number, uint engines, NamedComputeProfile *info) {
    (void)engines;
    if (old_driver) return FUNCTION_NOT_FOUND;
    if (info->version != 0x02000088 || sizeof *info != 0x88) return ARGUMENT_VERSION_MISMATCH;
    info->id = number;
    return compute_profile(instance, number, &info->slices, &info->count);
}

int nvmlGpuInstanceCreateComputeInstance(Instance *instance, uint id, Compute **made) {
    if (compute_failures > 0) { compute_failures--; return INSUFFICIENT_RESOURCES; }
    uint slices, count, taken = 0;
    int status = compute_profile(instance, id, &slices, &count);
    if (status) return status;
    Compute *room = NULL;
    for (int n = 0; n < 8; n++) {
        if (instance->compute[n].used) taken += instance->compute[n].slices;
        else if (!room) room = &instance->compute[n];
    }
    if (!room || taken + slices > instance->profile->slices) return INSUFFICIENT_RESOURCES;
    room->used = 1;
    room->id = (uint)(room - instance->compute);
    room->slices = slices;
    room->parent = instance;
    snprintf(room->uuid, sizeof room->uuid, "MIG-%08x-0000-5000-8000-%012x", ++serial, instance->gpu->bus);
    *made = room;
    save();
    return SUCCESS;
}

int nvmlComputeInstanceDestroy(Compute *compute) {
    if (!compute->used) return NOT_FOUND;
    compute->used = 0;
    save();
    return SUCCESS;
}

int nvmlGpuInstanceGetComputeInstances(Instance *instance, uint id, Compute **found, uint *count) {
    uint slices, most;
    int status = compute_profile(instance, id, &slices, &most);
    if (status) return status;
    *count = 0;
    for (int n = 0; n < 8; n++)
        if (instance->compute[n].used && instance->compute[n].slices == slices) found[(*count)++] = &instance->compute[n];
    return SUCCESS;
}

typedef struct { Device *device; Instance *instance; uint id, profile; Placement place; } ComputeInfo;

int nvmlComputeInstanceGetInfo_v2(Compute *compute, ComputeInfo *info) {
    if (!compute->used) return NOT_FOUND;
    memset(info, 0, sizeof *info);
    info->instance = compute->parent;
    info->id = compute->id;
    info->place.size = compute->slices;
    return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(Device *device, uint *count) {
    ALIVE(device);
    if (!device->gpu->model->profiles) return NOT_SUPPORTED;
    *count = MOST_INSTANCES;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, uint index, Device **found) {
    ALIVE(device);
    if (index >= MOST_INSTANCES) return INVALID_ARGUMENT;
    Instance *instance = &device->gpu->instances[index];
    if (!instance->used || !instance->compute[0].used) return NOT_FOUND;
    *found = &device->gpu->mig_devices[index];
    (*found)->gpu = device->gpu;
    (*found)->instance = instance;
    (*found)->compute = &instance->compute[0];
    return SUCCESS;
}

int nvmlDeviceGetGpuInstanceId(Device *device, uint *id) {
    ALIVE(device);
    if (!device->instance) return INVALID_ARGUMENT;
    *id = device->instance->id;
    return SUCCESS;
}

int nvmlDeviceGetComputeInstanceId(Device *device, uint *id) {
    ALIVE(device);
    if (!device->compute) return INVALID_ARGUMENT;
    *id = device->compute->id;
    return SUCCESS;
}

/* --- events -------------------------------------------------------------------------------------------------------- */

static int event_set;

int nvmlEventSetCreate(int **set) { *set = &event_set; return SUCCESS; }
int nvmlEventSetFree(int *set) { (void)set; return SUCCESS; }

int nvmlDeviceGetSupportedEventTypes(Device *device, unsigned long long *types) {
    ALIVE(device);
    *types = device->gpu->model->profiles ? XID_CRITICAL | 3 : 0;
    return SUCCESS;
}

int nvmlDeviceRegisterEvents(Device *device, unsigned long long types, int *set) {
    ALIVE(device);
    if (set != &event_set || types != XID_CRITICAL) return INVALID_ARGUMENT;
    device->gpu->registered = 1;
    return SUCCESS;
}

typedef struct { Device *device; unsigned long long type, data; uint instance, compute; } EventData;

int nvmlEventSetWait_v2(int *set, EventData *data, uint timeout) {
    (void)set, (void)timeout;
    if (!event_count) return TIMEOUT;
    memset(data, 0, sizeof *data);
    data->device = &events[0].gpu->self;
    data->type = XID_CRITICAL;
    data->data = events[0].data;
    memmove(events, events + 1, --event_count * sizeof *events);
    return SUCCESS;
}
