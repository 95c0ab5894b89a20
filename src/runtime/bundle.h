/* bundle - a container's spec as the OCI runtime reads it (config.json). Pure: what the machine is like is an
 * argument, but for the device nodes that a privileged container gets. */
#pragma once

#include "base/buf.h"
#include "runtime/runtime.h"

struct arena;
struct json;
struct seccomp;

#define BUNDLE_INIT         "/dev/berth-init" /* where the init program is seen in the container */
#define BUNDLE_START_SHARES 1024              /* a container's weight until it runs, if its own is smaller */

struct bundle_host {
    bool crun; /* takes a compiled seccomp filter */
    enum runtime_cgroups cgroups;
    const char *cgroup_parent;
    bool has_swap;         /* limits of swap can be set */
    const char *init_path; /* NULL: none */
    struct seccomp *seccomp;
    uint64_t caps_own;   /* capabilities that can be given */
    bool may_lower_oom;  /* CAP_SYS_RESOURCE */
    int oom_score_own;   /* the lowest that can be given without it */
    uint64_t rlimit_max; /* 0: as getrlimit says; else this for every hard limit (tests) */
    const char *fd_dir; /* where mounts by descriptor are: FD_DIR/0, FD_DIR/1 … by their place in the spec */
};

/* Letters, digits, '.', '_', '-'; see runtime.h. */
bool bundle_id_valid(const char *id);
/* ERR_INVALID: what is wrong with the spec, in words. ERR_NOT_FOUND: init is wanted and there is none. */
int bundle_config(const struct bundle_host *host, const struct runtime_spec *spec, struct buf *ret,
                  struct err *err);
/* The process of an exec: `process` of the container's config.json with what exec says differently, and the
 * user it will run as. */
struct bundle_user {
    uid_t uid;
    gid_t gid;
};
int bundle_process(struct str config, const struct runtime_exec *exec, struct buf *ret,
                   struct bundle_user *user, struct err *err);

/* bundle_devices.c: adds the host's device nodes that are not in the list yet. */
void bundle_host_devices(struct arena *arena, struct json *devices);
/* bundle_mounts.c: adds `mounts`. */
int bundle_mounts(const struct bundle_host *host, const struct runtime_spec *spec, struct arena *arena,
                  struct json *config, struct err *err);
