/* local - the engine that runs pods on this machine, as a kubelet does (engine.h has what can be asked of
 * it). */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "engine/engine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cdi;
struct gpus;
struct images;
struct loop;
struct podnet;
struct registry;
struct runtime;

/* All borrowed and outliving the engine, except the strings, which are copied. */
struct local_config {
    struct loop *loop;
    struct registry *registry;
    struct runtime *runtime;
    struct images *images;
    struct podnet *net;
    const char *node_name;
    const char *data_dir; /* pods/ and volumes/ are made in it */
    const char *log_dir;  /* where logs stay that are kept; NULL: none are */
    const char *run_dir;  /* gone after a reboot; pods/ is made in it, too */
    const char *host_ip;
    const char *const *admins; /* user names beside root and system:admin; NULL-terminated, or NULL */
    struct gpus *gpus;         /* cards to give; NULL: none */
    const struct cdi *cdi;     /* may be NULL */
    const char *cgroup;        /* all containers are below it: "/berth" */
    /* Numbers for project quotas; 0: the usual ones. off: sizes of claims are measured only. */
    uint32_t project_first, project_last;
    bool project_off;
    /* This file in data_dir says that the database may have lost pods: containers of pods that are not known
     * go on, and so does everything they use. It is removed once there are none. NULL: there is no such file.
     */
    const char *keep_unknown;
};

/* Makes again what somebody removed of the run folder: folders, files, pinned namespaces of running pods.
 * Adds what that was to said, in words; nothing where all is well. Cheap: meant to be called every few
 * seconds. */
void local_engine_mend(struct engine *engine, struct buf *said);

/* Takes up what an earlier engine left running, removes what belongs to nobody. */
int local_engine_new(const struct local_config *config, struct engine **ret, struct err *err);
