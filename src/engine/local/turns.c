/* Turns: of many pods that come at once a few are made ready at a time, so that each gets its containers
 * running soon. All at once they would hinder each other: every start of a container takes the longer the
 * more mounts there are, and a pod that is ready has four. Pods that wait for an image or for anything else
 * outside do not count. */
#include "engine/local/internal.h"

#include <unistd.h>

#define TURNS_PER_CPU 6

static unsigned turns_max(void)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    return TURNS_PER_CPU * (cpus > 0 ? (unsigned)cpus : 1);
}

bool turn_take(struct local_pod *pod)
{
    struct local_engine *engine = pod->engine;

    if (pod->has_turn)
        return true;
    if (engine->turns < turns_max()) {
        engine->turns++;
        pod->has_turn = true;
        pod->waits_turn = false;
    } else if (!pod->waits_turn) {
        pod->waits_turn = true;
        vec_push(&engine->turn_line, mem_strdup(pod->uid));
    }
    return pod->has_turn;
}

/* Its first container is not running yet, and nothing outside keeps it. */
static bool needs_turn(const struct local_pod *pod)
{
    if (pod->dead || !pod->object || pod->facts.deleting ||
        (pod->sandbox != SANDBOX_NET && pod->sandbox != SANDBOX_VOLUMES && pod->sandbox != SANDBOX_READY))
        return false;
    for (size_t i = 0; i < pod->facts.len; i++) {
        enum ctr_state state = pod->facts.ctrs[i].state;

        if (state == CTR_RUNNING || state == CTR_EXITED || state == CTR_STUCK ||
            (pod->runs[i].pull && pod->facts.ctrs[i].fetching))
            return false;
    }
    return true;
}

static void wake_next(struct local_engine *engine)
{
    size_t n = 0;

    for (unsigned free_turns = turns_max() - engine->turns; n < engine->turn_line.len && free_turns > 0;
         n++) {
        struct local_pod *pod = local_find(engine, engine->turn_line.v[n]);

        if (pod && pod->waits_turn) {
            pod->waits_turn = false;
            pod_queue(pod);
            free_turns--;
        }
        free(engine->turn_line.v[n]);
    }
    engine->turn_line.len -= n;
    if (n)
        memmove(engine->turn_line.v, engine->turn_line.v + n,
                engine->turn_line.len * sizeof(*engine->turn_line.v));
}

void turn_check(struct local_pod *pod)
{
    if (!pod->has_turn || needs_turn(pod))
        return;
    pod->has_turn = false;
    pod->engine->turns--;
    wake_next(pod->engine);
}

void turns_done(struct local_engine *engine)
{
    VEC_EACH(&engine->turn_line, it)
        free(*it);
    vec_done(&engine->turn_line);
}
