/* gpu - the graphics cards of this machine: what they are, how busy, and which container uses how much.
 *
 * NVIDIA's library is opened at run time (libnvidia-ml.so.1 comes with the driver and is in no Debian
 * package): absent means no cards. An operator can declare cards instead; they are scheduled like real ones
 * and marked declared everywhere. Calls may take milliseconds (a driver that sleeps: seconds); any one
 * thread may make them, one at a time. */
#pragma once

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define GPU_CARDS_MAX   64
#define GPU_PROCS_MAX   1024 /* per card and kind */
#define GPU_TEXT_MAX    96
#define GPU_MEM_UNKNOWN INT64_C(-1)

struct gpus;

struct gpu_card {
    int index; /* as the driver counts */
    bool declared;
    char uuid[GPU_TEXT_MAX]; /* "GPU-8f6c…"; "GPU-declared-0" */
    char name[GPU_TEXT_MAX]; /* "NVIDIA RTX A6000"; "declared" */
    char bus[GPU_TEXT_MAX];  /* PCI: "00000000:01:00.0"; "" when unknown */
    int minor;               /* /dev/nvidiaN; -1 when unknown */
    int64_t memory_mib;
    int64_t used_mib;  /* by anybody; GPU_MEM_UNKNOWN */
    int busy_percent;  /* -1 when unknown */
    int temperature_c; /* -1 when unknown */
    bool healthy;
    char trouble[160]; /* why not healthy: "the card is lost (fell off the bus?)" */
};

struct gpu_config {
    const char *declared; /* NULL or "": ask NVML; else see gpu_declare; "none": no cards, do not ask */
    const char *library;  /* NULL: "libnvidia-ml.so.1" */
};

/* No library and no driver is fine: no cards, gpu_source says why. ERR_INVALID: `declared` is wrong. */
int gpu_open(const struct gpu_config *config, struct gpus **ret, struct err *err);
void gpu_close(struct gpus *gpus); /* NULL is fine */
DEFINE_CLEANUP(struct gpus *, gpu_close);

size_t gpu_count(const struct gpus *gpus);
const struct gpu_card *gpu_at(const struct gpus *gpus, size_t i); /* borrowed; in order of index */
/* For `berth doctor`: "NVML 12.550.54, driver 550.54.15", "declared", "none (libnvidia-ml.so.1: cannot …)".
 */
const char *gpu_source(const struct gpus *gpus);
/* Asks again for used, busy, temperature and health. Cards do not come or go; a lost one is not healthy. */
void gpu_refresh(struct gpus *gpus);

/* As the daemon's --gpus: "4x24576" (MiB each), "4" (GPU_DECLARED_MIB each), "2x24576:RTX 3090,1x81920:A100";
 * into cards[GPU_CARDS_MAX]. */
#define GPU_DECLARED_MIB 16384
int gpu_declare(const char *text, struct gpu_card *cards, size_t *ret_len, struct err *err);

/* ---- who uses it ---- */

struct gpu_proc {
    int card; /* place in gpu_at */
    pid_t pid;
    int64_t used_mib; /* GPU_MEM_UNKNOWN where the driver does not say */
};
struct gpu_procs {
    struct gpu_proc *v;
    size_t len, cap;
};
/* All processes on all cards, compute and graphics, each once per card; adds to ret, vec_done it. */
void gpu_procs(struct gpus *gpus, struct gpu_procs *ret);

#define GPU_CONTAINER_ID_MAX 128
/* The id of the container in which pid runs, by /proc/PID/cgroup: PARENT/ID[/…]. False: in none of ours. */
bool gpu_container_of(pid_t pid, const char *cgroup_parent, char ret[GPU_CONTAINER_ID_MAX + 1]);
/* The same from the file's text; cgroup v1, v2 and hybrid. */
bool gpu_container_in(struct str cgroup_text, const char *cgroup_parent, char ret[GPU_CONTAINER_ID_MAX + 1]);

/* ---- memory limits by the driver ---- */

/* Newer drivers (615 and later) limit a cgroup's memory on a card. False: not this one, and why. */
bool gpu_limits_available(const struct gpus *gpus, const char **why);
/* cgroup_path: the full path of the cgroup v2 folder. soft: what it may count on; hard: what it may not pass;
 * hard < 0: no limit. ERR_UNSUPPORTED: not available, or refused by this card. */
int gpu_limit_set(struct gpus *gpus, size_t card, const char *cgroup_path, int64_t soft_mib, int64_t hard_mib,
                  struct err *err);

/* ---- cards for a container ---- */

struct cdi;
struct cdi_edits;

enum gpu_way {
    GPU_WAY_CDI,   /* devices, libraries and hooks from a CDI file */
    GPU_WAY_HOOK,  /* nvidia-container-runtime-hook does it at start */
    GPU_WAY_NODES, /* the device nodes only: the driver's libraries must be in the image (`image: host` has
                      them) */
    GPU_WAY_ENV,   /* only the variables: declared cards */
};
/* What a container needs to see exactly these cards (places in gpu_at; none: it sees none). Adds to *edits,
 * everything in arena. NVIDIA_VISIBLE_DEVICES (uuids, "void" for none) and CUDA_VISIBLE_DEVICES (uuids, ""
 * for none) are always set. cdi may be NULL. ERR_INVALID: the CDI file is wrong for a card that it names. */
int gpu_edits(const struct gpus *gpus, const struct cdi *cdi, const size_t *cards, size_t cards_len,
              struct arena *arena, struct cdi_edits *edits, enum gpu_way *ret_way, struct err *err);
/* nvidia-container-runtime-hook (or -toolkit) on PATH; NULL: none. Free it. */
char *gpu_hook_path(void);
