/* engine - who runs pods. An engine takes the pods that are bound to its nodes from the store, runs them, and
 * writes what becomes of them back through the registry. What else is asked of it is one table of operations,
 * so that the daemon, the queue and the API need not know which engine it is: engine/local runs pods on this
 * machine; another one fills the same table.
 *
 * Everything is on the loop, and no operation blocks: what may take long goes on aside, and is told of by a
 * callback from the loop. What runs goes on when the engine is freed, and is taken up again by the next. */
#pragma once

#include "base/arena.h"
#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ENGINE_LINE_MAX 256

struct engine;
struct json;
struct pod_ops;

/* ---- cards ---- */

/* A card as it is offered. The strings live as long as the engine. */
struct engine_card {
    const char *uuid, *model;
    int64_t mib;
    bool declared; /* by the operator: nobody can be asked about it */
    bool failed;
};

/* What a measurement found of one card; -1: not known. */
struct engine_card_use {
    uint32_t card;
    int64_t used_mib;
    int busy_percent;
    bool failed;
};
/* What the processes of one pod take on one card. */
struct engine_pod_use {
    const char *pod_uid;
    uint32_t card;
    int64_t mib;
};
struct engine_sample {
    const char *node;
    const struct engine_card_use *cards;
    size_t cards_len;
    const struct engine_pod_use *pods;
    size_t pods_len;
};
typedef void (*engine_sample_fn)(void *arg, const struct engine_sample *sample); /* borrowed for the call */

/* ---- logs that stay ---- */

/* Under which name the log of a pod is kept after the pod has gone, in the arena; NULL: it goes with the pod.
 * Several pods may have one name: what they wrote comes one after the other, each pod once. */
typedef const char *(*engine_keep_fn)(void *arg, const struct json *pod, struct arena *arena);

/* ---- what containers are told in secret ---- */

/* The token with which a pod speaks for its job ($BERTH_TOKEN), in the arena; NULL: it has none. It stands in
 * no object that others read. */
typedef const char *(*engine_token_fn)(void *arg, const char *pod_uid, struct arena *arena);

/* ---- the operations ---- */

struct engine_ops {
    const char *name; /* "local" */

    /* Whether anything of a pod is still here: its processes, its network. */
    bool (*holds)(const struct engine *engine, const char *pod_uid);
    /* Logs, commands, streams, ports and usage of pods. Lives as long as the engine. */
    const struct pod_ops *(*pod_ops)(struct engine *engine);
    /* The line that tells best why a container ended: a traceback's exception, else the last line. container
     * NULL: the one that failed. Looks at the end of the log only. False: it wrote nothing, or the log has
     * gone. */
    bool (*last_line)(const struct engine *engine, const char *pod_uid, const char *container,
                      char ret[ENGINE_LINE_MAX]);
    /* From now on; NULL: none is kept. */
    void (*keep_logs)(struct engine *engine, engine_keep_fn fn, void *arg);
    /* Asked for each container that is made, from now on; NULL: nobody has one. */
    void (*tokens)(struct engine *engine, engine_token_fn fn, void *arg);

    /* Whether pods of a user can run here (NULL: of nobody, who cannot). False: not, or it is not known yet,
     * and why in one sentence; fn is called from the loop when that has changed for anybody. */
    bool (*account)(struct engine *engine, const char *user, void (*fn)(void *arg), void *arg,
                    char why[ENGINE_LINE_MAX]);

    /* The cards of its node, in order; returns how many there are. */
    size_t (*capacity)(const struct engine *engine, struct engine_card *ret, size_t max);
    /* Tells every few seconds what the cards and the pods on them use, from now on; fn NULL: no more. Where
     * nobody can be asked, fn is never called. */
    void (*measure)(struct engine *engine, engine_sample_fn fn, void *arg);
    /* Limits what a pod that runs may take on a card, soon; false: the driver cannot. */
    bool (*limit)(struct engine *engine, const char *pod_uid, uint32_t card, int64_t mib);
    /* Whether disk or memory run short; pods are being evicted then. */
    void (*pressure)(const struct engine *engine, bool *disk, bool *memory);
    /* Whether the sizes of claims are enforced, in words: "limited by project quotas", "measured (…)". */
    const char *(*claims_text)(const struct engine *engine);

    /* The machine goes down: nothing is started any more, what runs is ended with its grace (a minute at
     * most), and fn is called once, from the loop, when all have ended. Pods that are not started again after
     * the boot are Failed, reason NodeReboot. */
    void (*shut_down)(struct engine *engine, void (*fn)(void *arg), void *arg);
    /* Lets go of streams, pulls and containers, which go on. The loop is not turned any more after it; what
     * the engine was made with may be freed then, and free comes last. */
    void (*close)(struct engine *engine);
    void (*free)(struct engine *engine);
};

/* The first member of each engine's own struct. */
struct engine {
    const struct engine_ops *ops;
};

/* ---- the same, for engines that may be NULL: there is none, and it holds, offers and keeps nothing ---- */

static inline bool engine_holds(const struct engine *engine, const char *pod_uid)
{
    return engine && engine->ops->holds(engine, pod_uid);
}

static inline const struct pod_ops *engine_pod_ops(struct engine *engine)
{
    return engine ? engine->ops->pod_ops(engine) : NULL;
}

static inline bool engine_last_line(const struct engine *engine, const char *pod_uid, const char *container,
                                    char ret[ENGINE_LINE_MAX])
{
    return engine && engine->ops->last_line(engine, pod_uid, container, ret);
}

static inline void engine_keep_logs(struct engine *engine, engine_keep_fn fn, void *arg)
{
    if (engine)
        engine->ops->keep_logs(engine, fn, arg);
}

static inline void engine_tokens(struct engine *engine, engine_token_fn fn, void *arg)
{
    if (engine)
        engine->ops->tokens(engine, fn, arg);
}

static inline bool engine_account(struct engine *engine, const char *user, void (*fn)(void *arg), void *arg,
                                  char why[ENGINE_LINE_MAX])
{
    return !engine || engine->ops->account(engine, user, fn, arg, why);
}

static inline void engine_measure(struct engine *engine, engine_sample_fn fn, void *arg)
{
    if (engine)
        engine->ops->measure(engine, fn, arg);
}

static inline bool engine_limit(struct engine *engine, const char *pod_uid, uint32_t card, int64_t mib)
{
    return engine && engine->ops->limit(engine, pod_uid, card, mib);
}

static inline void engine_close(struct engine *engine)
{
    if (engine)
        engine->ops->close(engine);
}

static inline void engine_free(struct engine *engine)
{
    if (engine)
        engine->ops->free(engine);
}
