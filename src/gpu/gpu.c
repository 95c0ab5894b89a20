/* gpu - see gpu.h. The cards are read once; gpu_refresh asks again for what changes. */
#include "gpu/gpu.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "gpu/nvml.h"

#include <stdio.h>

#define LIBRARY        "libnvidia-ml.so.1"
#define MIB            (UINT64_C(1) << 20)
#define MEMORY_MIB_MAX INT64_C(16777216) /* of a declared card: 16 TiB */
#define CGROUP_MAX     65536             /* bytes of /proc/PID/cgroup */

struct gpus {
    struct nvml nvml; /* handle NULL: none */
    struct gpu_card cards[GPU_CARDS_MAX];
    struct nvml_device *devices[GPU_CARDS_MAX];
    size_t len;
    struct buf source;
};

/* ---- declared cards ---- */

static int declare_group(struct str text, struct gpu_card *cards, size_t *len, struct err *err)
{
    struct str name = STR("declared"), rest = text, size;
    const char *x;
    int64_t count = 1, mib = GPU_DECLARED_MIB;

    (void)str_split(&rest, ':', &size);
    if (size.len < text.len)
        name = rest;
    x = memchr(size.s, 'x', size.len);
    if (!str_to_int((struct str){size.s, x ? (size_t)(x - size.s) : size.len}, &count) ||
        (x && !str_to_int((struct str){x + 1, size.len - (size_t)(x - size.s) - 1}, &mib)))
        count = 0;
    if (count < 1 || mib < 1 || mib > MEMORY_MIB_MAX || !name.len || name.len >= GPU_TEXT_MAX ||
        !utf8_valid(name))
        return err_set(err, ERR_INVALID, "gpus: '%.*s' is not COUNT[xMIB][:NAME], as in 4x24576",
                       STR_ARG(text));
    if (count > (int64_t)(GPU_CARDS_MAX - *len))
        return err_set(err, ERR_INVALID, "gpus: more than %d cards", GPU_CARDS_MAX);
    for (; count > 0; count--) {
        struct gpu_card *card = &cards[*len];

        *card = (struct gpu_card){.index = (int)*len, .declared = true, .minor = -1, .memory_mib = mib};
        card->used_mib = GPU_MEM_UNKNOWN;
        card->busy_percent = card->temperature_c = -1;
        card->healthy = true;
        (void)snprintf(card->uuid, sizeof(card->uuid), "GPU-declared-%zu", *len);
        (void)snprintf(card->name, sizeof(card->name), "%.*s", STR_ARG(name));
        ++*len;
    }
    return 0;
}

int gpu_declare(const char *text, struct gpu_card *cards, size_t *ret_len, struct err *err)
{
    struct str rest = str_from(text), group;
    size_t len = 0;

    while (str_split(&rest, ',', &group))
        if (declare_group(group, cards, &len, err) < 0)
            return -1;
    if (!len)
        return err_set(err, ERR_INVALID, "gpus: '%s' declares none", text);
    *ret_len = len;
    return 0;
}

/* ---- real ones ---- */

static void set_trouble(struct gpu_card *card, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void set_trouble(struct gpu_card *card, const char *fmt, ...)
{
    va_list ap;

    card->healthy = false;
    va_start(ap, fmt);
    (void)vsnprintf(card->trouble, sizeof(card->trouble), fmt, ap);
    va_end(ap);
}

/* What makes a card unfit for work. A function that a card does not support says nothing. */
static void read_health(const struct nvml *nvml, struct nvml_device *dev, struct gpu_card *card)
{
    unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
    unsigned long long errors = 0;

    if (nvml->remapped_rows &&
        nvml->remapped_rows(dev, &corrected, &uncorrected, &pending, &failed) == NVML_OK && failed)
        set_trouble(card, "its memory has faulty rows that could not be replaced");
    else if (pending)
        set_trouble(card, "its memory has faulty rows that a reset of the card would replace");
    else if (nvml->ecc_errors &&
             nvml->ecc_errors(dev, NVML_ECC_UNCORRECTED, NVML_ECC_SINCE_BOOT, &errors) == NVML_OK && errors)
        set_trouble(card, "%llu uncorrected memory errors since the driver was loaded", errors);
}

static void read_card(const struct nvml *nvml, struct nvml_device *dev, struct gpu_card *card)
{
    struct nvml_memory memory = {0};
    struct nvml_utilization busy = {0};
    unsigned celsius = 0;
    int result = nvml->memory(dev, &memory);

    card->healthy = true;
    card->trouble[0] = '\0';
    card->used_mib = GPU_MEM_UNKNOWN;
    card->busy_percent = card->temperature_c = -1;
    if (result == NVML_GPU_IS_LOST) {
        set_trouble(card, "the card is lost (it fell off the bus or its driver failed)");
        return;
    }
    if (result == NVML_OK) {
        card->memory_mib = (int64_t)(memory.total / MIB);
        card->used_mib = (int64_t)(memory.used / MIB);
    } else if (result != NVML_NOT_SUPPORTED) {
        set_trouble(card, "its memory cannot be read: %s", nvml_error(nvml, result));
        return;
    }
    if (nvml->utilization && nvml->utilization(dev, &busy) == NVML_OK)
        card->busy_percent = (int)busy.gpu;
    if (nvml->temperature && nvml->temperature(dev, NVML_TEMPERATURE_GPU, &celsius) == NVML_OK)
        card->temperature_c = (int)celsius;
    read_health(nvml, dev, card);
}

static void read_identity(const struct nvml *nvml, struct nvml_device *dev, struct gpu_card *card)
{
    struct nvml_pci pci = {0};
    unsigned minor = 0;

    if (nvml->uuid(dev, card->uuid, sizeof(card->uuid)) != NVML_OK)
        (void)snprintf(card->uuid, sizeof(card->uuid), "GPU-unknown-%d", card->index);
    if (!nvml->name || nvml->name(dev, card->name, sizeof(card->name)) != NVML_OK)
        (void)snprintf(card->name, sizeof(card->name), "NVIDIA");
    card->uuid[sizeof(card->uuid) - 1] = card->name[sizeof(card->name) - 1] = '\0';
    card->minor = nvml->minor && nvml->minor(dev, &minor) == NVML_OK ? (int)minor : -1;
    if (nvml->pci && nvml->pci(dev, &pci) == NVML_OK)
        (void)snprintf(card->bus, sizeof(card->bus), "%.*s", (int)sizeof(pci.bus_id), pci.bus_id);
}

static void read_cards(struct gpus *gpus)
{
    const struct nvml *nvml = &gpus->nvml;
    unsigned count = 0;

    if (nvml->count(&count) != NVML_OK)
        return;
    for (unsigned i = 0; i < count && gpus->len < GPU_CARDS_MAX; i++) {
        struct gpu_card *card = &gpus->cards[gpus->len];
        struct nvml_device *dev = NULL;
        int result = nvml->by_index(i, &dev);

        *card = (struct gpu_card){.index = (int)i, .minor = -1};
        if (result == NVML_OK) {
            read_identity(nvml, dev, card);
            read_card(nvml, dev, card);
        } else { /* it is there, so that the others keep their numbers, but nobody gets it */
            (void)snprintf(card->uuid, sizeof(card->uuid), "GPU-unknown-%u", i);
            (void)snprintf(card->name, sizeof(card->name), "NVIDIA");
            card->used_mib = GPU_MEM_UNKNOWN;
            card->busy_percent = card->temperature_c = -1;
            set_trouble(card, "the driver does not give it: %s", nvml_error(nvml, result));
        }
        gpus->devices[gpus->len++] = dev;
    }
}

static void describe(struct gpus *gpus)
{
    const struct nvml *nvml = &gpus->nvml;
    char version[80] = "", driver[80] = "";

    if (nvml->nvml_version)
        (void)nvml->nvml_version(version, sizeof(version));
    if (nvml->driver_version)
        (void)nvml->driver_version(driver, sizeof(driver));
    buf_printf(&gpus->source, "NVML %.79s, driver %.79s", version[0] ? version : "?",
               driver[0] ? driver : "?");
}

int gpu_open(const struct gpu_config *config, struct gpus **ret, struct err *err)
{
    CLEANUP(gpu_close) struct gpus *gpus = NEW(struct gpus);
    struct err why = {0};

    if (streq(config->declared, "none")) {
        buf_puts(&gpus->source, "none, as configured");
    } else if (config->declared && config->declared[0]) {
        if (gpu_declare(config->declared, gpus->cards, &gpus->len, err) < 0)
            return -1;
        buf_puts(&gpus->source, "declared");
    } else if (nvml_open(config->library ? config->library : LIBRARY, &gpus->nvml, &why) < 0) {
        buf_printf(&gpus->source, "none (%s)", why.msg);
    } else {
        describe(gpus);
        read_cards(gpus);
    }
    *ret = TAKE_PTR(gpus);
    return 0;
}

void gpu_close(struct gpus *gpus)
{
    if (!gpus)
        return;
    nvml_close(&gpus->nvml);
    buf_done(&gpus->source);
    free(gpus);
}

size_t gpu_count(const struct gpus *gpus)
{
    return gpus->len;
}

const struct gpu_card *gpu_at(const struct gpus *gpus, size_t i)
{
    return i < gpus->len ? &gpus->cards[i] : NULL;
}

const char *gpu_source(const struct gpus *gpus)
{
    return gpus->source.data;
}

void gpu_refresh(struct gpus *gpus)
{
    for (size_t i = 0; gpus->nvml.handle && i < gpus->len; i++)
        if (gpus->devices[i])
            read_card(&gpus->nvml, gpus->devices[i], &gpus->cards[i]);
}

/* ---- processes ---- */

static void add_proc(struct gpu_procs *ret, size_t first, int card, unsigned pid, unsigned long long used)
{
    int64_t mib = used == UINT64_MAX ? GPU_MEM_UNKNOWN : (int64_t)(used / MIB);

    for (size_t i = first; i < ret->len; i++) /* in both lists, or once for each of its instances */
        if (ret->v[i].pid == (pid_t)pid) {
            if (mib > ret->v[i].used_mib)
                ret->v[i].used_mib = mib;
            return;
        }
    vec_push(ret, (struct gpu_proc){card, (pid_t)pid, mib});
}

static void read_procs(struct gpus *gpus, size_t card, int (*list)(struct nvml_device *, unsigned *, void *),
                       size_t first, struct gpu_procs *ret)
{
    CLEANUP(free) struct nvml_process *procs = NULL;
    unsigned count = GPU_PROCS_MAX;

    if (!list || !gpus->devices[card])
        return;
    procs = mem_zalloc(GPU_PROCS_MAX * sizeof(*procs)); /* large enough for either layout */
    if (list(gpus->devices[card], &count, procs) != NVML_OK)
        return;
    for (unsigned i = 0; i < count && i < GPU_PROCS_MAX; i++) {
        const struct nvml_process_v1 *v1 = (const void *)procs;

        if (gpus->nvml.processes_v1)
            add_proc(ret, first, (int)card, v1[i].pid, v1[i].used);
        else
            add_proc(ret, first, (int)card, procs[i].pid, procs[i].used);
    }
}

void gpu_procs(struct gpus *gpus, struct gpu_procs *ret)
{
    for (size_t i = 0; gpus->nvml.handle && i < gpus->len; i++) {
        size_t first = ret->len;

        read_procs(gpus, i, gpus->nvml.compute_processes, first, ret);
        read_procs(gpus, i, gpus->nvml.graphics_processes, first, ret);
    }
}

/* A line is "HIERARCHY:CONTROLLERS:PATH"; v2's is "0::PATH". */
static bool line_container(struct str line, const char *parent, char *ret)
{
    size_t parent_len = strlen(parent), len = 0;
    struct str hierarchy, controllers;

    if (!str_split(&line, ':', &hierarchy) || !str_split(&line, ':', &controllers) ||
        line.len <= parent_len + 1 || !str_starts(line, parent) || line.s[parent_len] != '/')
        return false;
    line.s += parent_len + 1;
    line.len -= parent_len + 1;
    while (len < line.len && line.s[len] != '/')
        len++;
    if (len == 0 || len > GPU_CONTAINER_ID_MAX || line.s[0] == '.')
        return false;
    memcpy(ret, line.s, len);
    ret[len] = '\0';
    return true;
}

bool gpu_container_in(struct str cgroup_text, const char *cgroup_parent, char ret[GPU_CONTAINER_ID_MAX + 1])
{
    struct str line;

    while (str_split(&cgroup_text, '\n', &line))
        if (line_container(line, cgroup_parent, ret))
            return true;
    return false;
}

bool gpu_container_of(pid_t pid, const char *cgroup_parent, char ret[GPU_CONTAINER_ID_MAX + 1])
{
    CLEANUP(buf_done) struct buf text = {0};
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
    return file_read(path, CGROUP_MAX, &text, NULL) == 0 &&
           gpu_container_in(buf_view(&text), cgroup_parent, ret);
}

/* ---- limits ---- */

bool gpu_limits_available(const struct gpus *gpus, const char **why)
{
    *why = NULL;
    if (!gpus->nvml.handle)
        *why = "there is no NVML";
    else if (!gpus->nvml.set_memory_limits)
        *why = "this driver has no memory limits (615 and later have)";
    return !*why;
}

int gpu_limit_set(struct gpus *gpus, size_t card, const char *cgroup_path, int64_t soft_mib, int64_t hard_mib,
                  struct err *err)
{
    struct nvml_memory_limits limits = {.cgroup = cgroup_path, .hard = NVML_MEMORY_UNLIMITED};
    const char *why;
    int result;

    if (!gpu_limits_available(gpus, &why))
        return err_set(err, ERR_UNSUPPORTED, "GPU memory cannot be limited: %s", why);
    if (card >= gpus->len || !gpus->devices[card])
        return err_set(err, ERR_NOT_FOUND, "there is no card %zu", card);
    if (hard_mib >= 0) {
        limits.soft = (uint64_t)(soft_mib > 0 ? soft_mib : 0) * MIB;
        limits.hard = (uint64_t)hard_mib * MIB;
    }
    result = gpus->nvml.set_memory_limits(gpus->devices[card], &limits);
    if (result != NVML_OK)
        return err_set(err, ERR_UNSUPPORTED, "GPU memory of '%s' on card %zu cannot be limited: %s",
                       cgroup_path, card, nvml_error(&gpus->nvml, result));
    return 0;
}
