/* nvml - see nvml.h. */
#include "gpu/nvml.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <dlfcn.h>
#include <stdio.h>

/* Where a function goes, its name, the versions to try ("" is the name alone), whether we can do without. */
struct symbol {
    size_t offset;
    const char *name;
    const char *versions[4];
    bool needed;
};

#define AT(member) offsetof(struct nvml, member)

static const struct symbol symbols[] = {
    {AT(init), "nvmlInit", {"_v2", ""}, true},
    {AT(shutdown), "nvmlShutdown", {""}, true},
    {AT(error_string), "nvmlErrorString", {""}, false},
    {AT(driver_version), "nvmlSystemGetDriverVersion", {""}, false},
    {AT(nvml_version), "nvmlSystemGetNVMLVersion", {""}, false},
    {AT(count), "nvmlDeviceGetCount", {"_v2", ""}, true},
    {AT(by_index), "nvmlDeviceGetHandleByIndex", {"_v2", ""}, true},
    {AT(uuid), "nvmlDeviceGetUUID", {""}, true},
    {AT(name), "nvmlDeviceGetName", {""}, false},
    {AT(minor), "nvmlDeviceGetMinorNumber", {""}, false},
    {AT(pci), "nvmlDeviceGetPciInfo", {"_v3"}, false},
    {AT(memory), "nvmlDeviceGetMemoryInfo", {""}, true},
    {AT(utilization), "nvmlDeviceGetUtilizationRates", {""}, false},
    {AT(temperature), "nvmlDeviceGetTemperature", {""}, false},
    {AT(ecc_errors), "nvmlDeviceGetTotalEccErrors", {""}, false},
    {AT(remapped_rows), "nvmlDeviceGetRemappedRows", {""}, false},
    {AT(compute_processes), "nvmlDeviceGetComputeRunningProcesses", {"_v3", "_v2", ""}, false},
    {AT(graphics_processes), "nvmlDeviceGetGraphicsRunningProcesses", {"_v3", "_v2", ""}, false},
    {AT(set_memory_limits), "nvmlDeviceSetMemoryLimits", {"_v1"}, false},
};

static int find_symbol(struct nvml *nvml, const struct symbol *s, struct err *err)
{
    char name[96];

    for (size_t i = 0; i < ARRAY_LEN(s->versions) && s->versions[i]; i++) {
        void *address;

        (void)snprintf(name, sizeof(name), "%s%s", s->name, s->versions[i]);
        address = dlsym(nvml->handle, name);
        if (!address)
            continue;
        memcpy((char *)nvml + s->offset, &address, sizeof(address));
        if (s->offset == AT(compute_processes))
            nvml->processes_v1 = !s->versions[i][0];
        return 0;
    }
    if (s->needed)
        return err_set(err, ERR_UNAVAILABLE, "the library has no %s", s->name);
    return 0;
}

static int start(struct nvml *nvml, struct err *err)
{
    int result;

    for (size_t i = 0; i < ARRAY_LEN(symbols); i++)
        if (find_symbol(nvml, &symbols[i], err) < 0)
            return -1;
    /* Both lists have the same layout or none is read. */
    if (nvml->processes_v1 && nvml->graphics_processes)
        memcpy(&nvml->graphics_processes,
               &(void *){dlsym(nvml->handle, "nvmlDeviceGetGraphicsRunningProcesses")}, sizeof(void *));
    result = nvml->init();
    if (result != NVML_OK)
        return err_set(err, ERR_UNAVAILABLE, "%s", nvml_error(nvml, result));
    return 0;
}

int nvml_open(const char *library, struct nvml *ret, struct err *err)
{
    struct nvml nvml = {.handle = dlopen(library, RTLD_NOW | RTLD_LOCAL)};

    if (!nvml.handle) {
        const char *why = dlerror();

        return err_set(err, ERR_NOT_FOUND, "%s", why ? why : library);
    }
    if (start(&nvml, err) < 0) {
        dlclose(nvml.handle);
        return err_prefix(err, "%s", library);
    }
    *ret = nvml;
    return 0;
}

void nvml_close(struct nvml *nvml)
{
    if (!nvml->handle)
        return;
    nvml->shutdown();
    dlclose(nvml->handle);
    nvml->handle = NULL;
}

const char *nvml_error(const struct nvml *nvml, int result)
{
    const char *text = nvml->error_string ? nvml->error_string(result) : NULL;

    return text ? text : "an error without a name";
}
