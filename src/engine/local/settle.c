/* What a pod's status says is on the disk before what proves it goes: exit records of containers are removed,
 * and the next run begins, only then. A daemon that is killed in between finds the one or the other. */
#include "engine/local/internal.h"

struct settle {
    struct local_pod *pod; /* NULL: it is gone */
};

/* A commit that failed settles nothing: the engine tries again, and the records stay until then. */
bool pod_settled(struct local_pod *pod)
{
    pod->wants_settled = !pod->settled;
    return pod->settled;
}

static void settle_on_durable(void *arg, const struct err *err)
{
    CLEANUP(free) struct settle *settle = arg;
    struct local_pod *pod = settle->pod;

    if (!pod)
        return;
    pod->settle = NULL;
    pod->settled = !err && !pod->status_changed;
    pod->settle_failed = err != NULL;
    pod_queue(pod);
}

void settle_ask(struct local_pod *pod)
{
    if (!pod->wants_settled || pod->settle || pod->settled)
        return;
    pod->wants_settled = pod->status_changed = false;
    pod->settle = NEW(struct settle);
    pod->settle->pod = pod;
    store_defer(pod->engine->store, settle_on_durable, pod->settle);
}

void settle_anew(struct local_pod *pod)
{
    pod->settled = false;
    pod->status_changed = true;
}

void settle_drop(struct local_pod *pod)
{
    if (pod->settle)
        pod->settle->pod = NULL;
    pod->settle = NULL;
}
