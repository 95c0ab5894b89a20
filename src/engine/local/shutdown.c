/* The machine goes down: pods end in order, while network and file systems are still there. Those that may be
 * started again are, after the boot; the others are Failed with the reason that a power cut gives them. */
#include "engine/local/internal.h"

#define SHUT_DOWN_SEC 60 /* the most that a pod is given */

int64_t shutdown_grace(const struct local_engine *engine, int64_t grace_sec)
{
    return engine->going_down && grace_sec > SHUT_DOWN_SEC ? SHUT_DOWN_SEC : grace_sec;
}

static bool alive(const struct local_pod *pod)
{
    for (size_t i = 0; i < pod->facts.len; i++)
        if (pod->runs[i].container && ctr_alive(&pod->facts.ctrs[i]))
            return true;
    return false;
}

void shutdown_pod(struct local_pod *pod)
{
    int64_t grace = json_int(json_at(pod->doc, "spec.terminationGracePeriodSeconds"), LOCAL_GRACE_SEC);

    if (!pod->engine->going_down)
        return;
    if (!alive(pod)) {
        pause_remove(pod);
        return;
    }
    if (pod->facts.deleting || pod->facts.ended || *pod->facts.fail_reason)
        return; /* ends anyway */
    if (pod->facts.policy == RESTART_NEVER) {
        facts_fail(&pod->facts, "NodeReboot", "The machine was shut down while the pod ran");
        return;
    }
    for (size_t i = 0; i < pod->facts.len; i++)
        if (ctr_alive(&pod->facts.ctrs[i]))
            run_stop(&pod->runs[i], shutdown_grace(pod->engine, grace));
}

void shutdown_check(struct local_engine *engine)
{
    struct str key;
    void *value;
    size_t at = 0;

    if (!engine->down || engine->head)
        return;
    while (map_next(engine->pods, &at, &key, &value)) {
        const struct local_pod *pod = value;

        if (alive(pod) || pod->pause)
            return;
    }
    engine->down(engine->down_arg);
    engine->down = NULL;
}

void shutdown_begin(struct local_engine *engine, void (*fn)(void *arg), void *arg)
{
    struct str key;
    void *value;
    size_t at = 0;

    if (engine->going_down)
        return;
    engine->going_down = true;
    engine->down = fn;
    engine->down_arg = arg;
    while (map_next(engine->pods, &at, &key, &value))
        pod_queue(value);
    local_look(engine);
}
