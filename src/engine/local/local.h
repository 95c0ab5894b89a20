/* engine - who runs pods. One so far: local, on this machine (engine/local). It takes pods bound to its node
 * from the store, runs them, and writes what becomes of them back through the registry.
 *
 * Everything is on the loop. What runs goes on when the engine is freed, and is taken up again by the next.
 */
#pragma once

#include "base/cleanup.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cdi;
struct gpus;
struct images;
struct json;
struct local_engine;
struct loop;
struct pod_ops;
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
    const char *run_dir;  /* gone after a reboot; pods/ is made in it, too */
    const char *host_ip;
    const char *const *admins; /* user names beside root and system:admin; NULL-terminated, or NULL */
    struct gpus *gpus;         /* cards to give; NULL: none */
    const struct cdi *cdi;     /* may be NULL */
    /* Numbers for project quotas; 0: the usual ones. off: sizes of claims are measured only. */
    uint32_t project_first, project_last;
    bool project_off;
};

/* Takes up what an earlier engine left running, removes what belongs to nobody. */
int local_engine_new(const struct local_config *config, struct local_engine **ret, struct err *err);
/* Lets go of streams, pulls and containers, which go on. To be called before the runtime, the images and the
 * network are freed; local_engine_free comes after. Both: NULL is fine. The loop is not turned any more after
 * it. */
void local_engine_close(struct local_engine *engine);
void local_engine_free(struct local_engine *engine);
DEFINE_CLEANUP(struct local_engine *, local_engine_free);

/* The machine goes down: nothing is started any more, what runs is ended with its grace (a minute at most),
 * and fn is called once, from the loop, when all have ended. Pods that are not started again after the boot
 * are Failed, reason NodeReboot. */
void local_engine_shut_down(struct local_engine *engine, void (*fn)(void *arg), void *arg);

/* Whether disk or memory of the machine run short; pods are being evicted then. */
void local_engine_pressure(const struct local_engine *engine, bool *disk, bool *memory);

/* Whether the sizes of claims are enforced, in words: "limited by project quotas", "measured (…)". */
const char *local_engine_claims_text(const struct local_engine *engine);

/* Told of each pod whose folder, logs included, is about to be removed. */
typedef void (*local_forget_fn)(void *arg, const char *pod_uid, const struct json *pod);
void local_engine_on_forget(struct local_engine *engine, local_forget_fn fn, void *arg);

/* Whether anything of a pod is still here: its processes, its network. */
bool local_engine_holds(const struct local_engine *engine, const char *pod_uid);

/* What the API asks of pods. Lives as long as the engine. */
const struct pod_ops *local_engine_pod_ops(struct local_engine *engine);
