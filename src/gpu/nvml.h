/* nvml - the few calls of NVIDIA's management library that we need, found at run time. Names with a version
 * are tried from the newest down; a function that no version of has is NULL. Not for others. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Numbers and layouts as NVIDIA documents them. */
#define NVML_OK                0
#define NVML_NOT_SUPPORTED     3
#define NVML_INSUFFICIENT_SIZE 7
#define NVML_GPU_IS_LOST       15
#define NVML_MEMORY_UNLIMITED  UINT64_MAX
#define NVML_UUID_MAX          96
#define NVML_ECC_UNCORRECTED   1
#define NVML_ECC_SINCE_BOOT    0
#define NVML_TEMPERATURE_GPU   0

struct nvml_device; /* the library's own */

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_utilization {
    unsigned gpu, memory;
};

struct nvml_process { /* _v2 and _v3; the first version has only the first two members */
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};
struct nvml_process_v1 {
    unsigned pid;
    unsigned long long used;
};

struct nvml_pci {
    char bus_legacy[16];
    unsigned domain, bus, device, pci_device, pci_subsystem;
    char bus_id[32];
};

struct nvml_memory_limits {
    const char *cgroup; /* full path of its folder */
    unsigned long long soft, hard;
};

struct nvml {
    void *handle;
    bool processes_v1;
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_string)(int result);
    int (*driver_version)(char *text, unsigned size);
    int (*nvml_version)(char *text, unsigned size);
    int (*count)(unsigned *ret);
    int (*by_index)(unsigned index, struct nvml_device **ret);
    int (*uuid)(struct nvml_device *dev, char *text, unsigned size);
    int (*name)(struct nvml_device *dev, char *text, unsigned size);
    int (*minor)(struct nvml_device *dev, unsigned *ret);
    int (*pci)(struct nvml_device *dev, struct nvml_pci *ret);
    int (*memory)(struct nvml_device *dev, struct nvml_memory *ret);
    int (*utilization)(struct nvml_device *dev, struct nvml_utilization *ret);
    int (*temperature)(struct nvml_device *dev, int sensor, unsigned *ret);
    int (*ecc_errors)(struct nvml_device *dev, int type, int counter, unsigned long long *ret);
    int (*remapped_rows)(struct nvml_device *dev, unsigned *corrected, unsigned *uncorrected,
                         unsigned *pending, unsigned *failed);
    int (*compute_processes)(struct nvml_device *dev, unsigned *count, void *ret);
    int (*graphics_processes)(struct nvml_device *dev, unsigned *count, void *ret);
    int (*set_memory_limits)(struct nvml_device *dev, struct nvml_memory_limits *limits);
};

/* Opens and initialises. ERR_NOT_FOUND: no such library. ERR_UNAVAILABLE: it does not work (no driver …). */
int nvml_open(const char *library, struct nvml *ret, struct err *err);
void nvml_close(struct nvml *nvml);
const char *nvml_error(const struct nvml *nvml, int result);
