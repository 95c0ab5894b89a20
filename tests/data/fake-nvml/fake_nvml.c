/* FAKE: a stand-in for NVIDIA's libnvidia-ml.so.1, for tests on machines without a card. Built only with the
 * tests and never installed.
 *
 *     FAKE_GPUS=N            cards, 24576 MiB each
 *     FAKE_GPU_MIB=N         that many MiB instead
 *     FAKE_GPU_PROCS=C:P:M,… on card C process P uses M MiB; @FILE: that file has it, read at every question
 *     FAKE_GPU_LOST=N        card N is lost
 *     FAKE_GPU_ECC=N         card N has 3 uncorrected memory errors
 *     FAKE_GPU_INIT=N        nvmlInit answers N
 *
 * FAKE_NVML_OLD leaves out what old drivers do not have: versioned names, minor numbers, memory limits.
 * fake_nvml_limit() tells a test which limit was set last. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#ifdef FAKE_NVML_OLD
#define VERSIONED(name, version) name
#else
#define VERSIONED(name, version) name##version
#endif

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, LOST = 15 };

static long number(const char *name, long fallback)
{
    const char *text = getenv(name);

    return text ? strtol(text, NULL, 10) : fallback;
}

/* Handles are 1 + index. */
static long index_of(const void *dev)
{
    return (long)(size_t)dev - 1;
}

static int lost(const void *dev)
{
    return number("FAKE_GPU_LOST", -1) == index_of(dev);
}

static unsigned long long memory_bytes(void)
{
    return (unsigned long long)number("FAKE_GPU_MIB", 24576) << 20;
}

/* Calls fn for each process of that card. */
static unsigned long long each_proc(long card, void (*fn)(void *arg, unsigned pid, unsigned long long bytes),
                                    void *arg)
{
    const char *at = getenv("FAKE_GPU_PROCS");
    unsigned long long sum = 0;
    char text[4096] = "";

    if (at && at[0] == '@') {
        FILE *file = fopen(at + 1, "re");

        if (file && !fgets(text, sizeof(text), file))
            text[0] = '\0';
        if (file)
            fclose(file);
        at = text;
    }

    while (at && *at) {
        char *end;
        long c = strtol(at, &end, 10), pid = strtol(end + 1, &end, 10), mib = strtol(end + 1, &end, 10);

        if (c == card) {
            unsigned long long bytes = (unsigned long long)mib << 20;

            sum += bytes;
            if (fn)
                fn(arg, (unsigned)pid, bytes);
        }
        at = *end == ',' ? end + 1 : NULL;
    }
    return sum;
}

EXPORT int VERSIONED(nvmlInit, _v2)(void)
{
    return (int)number("FAKE_GPU_INIT", OK);
}

EXPORT int nvmlShutdown(void)
{
    return OK;
}

EXPORT const char *nvmlErrorString(int result)
{
    return result == LOST ? "GPU is lost" : result == 9 ? "Driver Not Loaded" : "fake error";
}

EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned size)
{
    (void)snprintf(text, size, "999.1-fake");
    return OK;
}

EXPORT int nvmlSystemGetNVMLVersion(char *text, unsigned size)
{
    (void)snprintf(text, size, "99.999.1-fake");
    return OK;
}

EXPORT int VERSIONED(nvmlDeviceGetCount, _v2)(unsigned *ret)
{
    *ret = (unsigned)number("FAKE_GPUS", 0);
    return OK;
}

EXPORT int VERSIONED(nvmlDeviceGetHandleByIndex, _v2)(unsigned index, void **ret)
{
    if (index >= (unsigned)number("FAKE_GPUS", 0))
        return INVALID;
    *ret = (void *)((size_t)index + 1);
    return OK;
}

EXPORT int nvmlDeviceGetUUID(void *dev, char *text, unsigned size)
{
    (void)snprintf(text, size, "GPU-fa4e0000-0000-0000-0000-%012ld", index_of(dev));
    return OK;
}

EXPORT int nvmlDeviceGetName(void *dev, char *text, unsigned size)
{
    (void)dev;
    (void)snprintf(text, size, "Fake RTX");
    return OK;
}

struct memory {
    unsigned long long total, free, used;
};

EXPORT int nvmlDeviceGetMemoryInfo(void *dev, struct memory *ret)
{
    if (lost(dev))
        return LOST;
    ret->total = memory_bytes();
    ret->used = each_proc(index_of(dev), NULL, NULL);
    ret->free = ret->total - ret->used;
    return OK;
}

EXPORT int nvmlDeviceGetUtilizationRates(void *dev, unsigned ret[2])
{
    ret[0] = each_proc(index_of(dev), NULL, NULL) ? 75 : 0;
    ret[1] = 10;
    return OK;
}

EXPORT int nvmlDeviceGetTemperature(void *dev, int sensor, unsigned *ret)
{
    (void)dev;
    (void)sensor;
    *ret = 42;
    return OK;
}

EXPORT int nvmlDeviceGetTotalEccErrors(void *dev, int type, int counter, unsigned long long *ret)
{
    (void)type;
    (void)counter;
    if (number("FAKE_GPU_ECC", -1) != index_of(dev))
        return NOT_SUPPORTED;
    *ret = 3;
    return OK;
}

struct process {
    unsigned pid;
    unsigned long long used;
#ifndef FAKE_NVML_OLD
    unsigned gpu_instance, compute_instance;
#endif
};

struct list {
    struct process *v;
    unsigned len, cap;
};

static void add_process(void *arg, unsigned pid, unsigned long long bytes)
{
    struct list *list = arg;

    if (list->len < list->cap) {
        memset(&list->v[list->len], 0, sizeof(list->v[0]));
        list->v[list->len].pid = pid;
        list->v[list->len].used = bytes;
    }
    list->len++;
}

EXPORT int VERSIONED(nvmlDeviceGetComputeRunningProcesses, _v3)(void *dev, unsigned *count,
                                                                struct process *ret)
{
    struct list list = {ret, 0, *count};

    if (lost(dev))
        return LOST;
    each_proc(index_of(dev), add_process, &list);
    *count = list.len;
    return list.len > list.cap ? TOO_SMALL : OK;
}

EXPORT int VERSIONED(nvmlDeviceGetGraphicsRunningProcesses, _v3)(void *dev, unsigned *count,
                                                                 struct process *ret)
{
    /* The same ones again, as a process that does both is listed by the real library. */
    return VERSIONED(nvmlDeviceGetComputeRunningProcesses, _v3)(dev, count, ret);
}

#ifndef FAKE_NVML_OLD
EXPORT int nvmlDeviceGetMinorNumber(void *dev, unsigned *ret)
{
    *ret = (unsigned)index_of(dev);
    return OK;
}

struct pci {
    char legacy[16];
    unsigned numbers[5];
    char bus[32];
};

EXPORT int nvmlDeviceGetPciInfo_v3(void *dev, struct pci *ret)
{
    memset(ret, 0, sizeof(*ret));
    (void)snprintf(ret->bus, sizeof(ret->bus), "00000000:%02lX:00.0", index_of(dev) + 1);
    return OK;
}

struct limits {
    const char *cgroup;
    unsigned long long soft, hard;
};

static char last[4200];

EXPORT int nvmlDeviceSetMemoryLimits_v1(void *dev, struct limits *limits)
{
    if (lost(dev))
        return LOST;
    (void)snprintf(last, sizeof(last), "%ld %s %llu %llu", index_of(dev), limits->cgroup, limits->soft,
                   limits->hard);
    return OK;
}

EXPORT const char *fake_nvml_limit(void)
{
    return last;
}
#endif
