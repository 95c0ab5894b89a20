#include "base/clock.h"
#include "base/mem.h"
#include "objects/kind.h"
#include "upkeep/internal.h"

#include <sys/stat.h>

struct upkeep *upkeep_new(const struct upkeep_config *config)
{
    struct upkeep *upkeep = NEW(struct upkeep);

    upkeep->config = *config;
    upkeep->store = registry_store(config->registry);
    upkeep->tie = NEW(struct upkeep_tie);
    *upkeep->tie = (struct upkeep_tie){upkeep, 1};
    work_start(upkeep);
    files_start(upkeep);
    return upkeep;
}

void upkeep_free(struct upkeep *upkeep)
{
    if (!upkeep)
        return;
    work_stop(upkeep);
    files_stop(upkeep);
    upkeep->tie->upkeep = NULL;
    if (--upkeep->tie->refs == 0)
        free(upkeep->tie);
    free(upkeep);
}

void upkeep_set_policy(struct upkeep *upkeep, const struct upkeep_policy *policy)
{
    upkeep->config.policy = *policy;
    work_soon(upkeep);
    files_soon(upkeep);
}

const struct upkeep_policy *upkeep_policy(const struct upkeep *upkeep)
{
    return &upkeep->config.policy;
}

/* ---- what is kept, and what goes ---- */

struct json *upkeep_status(const struct upkeep *upkeep, struct arena *arena)
{
    struct json *out = json_new_object(arena), *finished = json_set_object(arena, out, "finished");
    struct prune_totals totals = prune_totals(upkeep->prune);
    struct json *logs;
    struct stat st;

    json_set_int(arena, finished, "count", (int64_t)totals.count);
    json_set_int(arena, finished, "bytes", totals.bytes);
    json_set_int(arena, finished, "retained", (int64_t)totals.retained);
    json_set_int(arena, finished, "pruned", (int64_t)upkeep->pruned);
    logs = json_set_object(arena, out, "logs");
    json_set_int(arena, logs, "count", (int64_t)upkeep->logs.count);
    json_set_int(arena, logs, "bytes", upkeep->logs.bytes);
    if (upkeep->db_path && stat(upkeep->db_path, &st) == 0)
        json_set_int(arena, json_set_object(arena, out, "database"), "bytes", st.st_size);
    return out;
}

/* "Finished work of a namespace past the 200 newest." */
static const char *reason_text(enum prune_why why)
{
    static const char *const texts[] = {[PRUNE_TTL] = "ttlSecondsAfterFinished",
                                        [PRUNE_AGE] = "finishedDays",
                                        [PRUNE_COUNT] = "finishedCount",
                                        [PRUNE_BYTES] = "finishedSize"};

    return texts[why];
}

struct json *upkeep_plan(const struct upkeep *upkeep, const struct upkeep_policy *policy, struct arena *arena)
{
    struct prune_due *due = mem_alloc(UPKEEP_PLAN_MAX * sizeof(*due));
    size_t len = prune_look(upkeep->prune, &policy->work, clock_now(), due, UPKEEP_PLAN_MAX);
    struct json *list = json_new_array(arena);
    char time[CLOCK_TEXT_MAX];

    for (size_t i = 0; i < len; i++) {
        struct json *out = json_push_object(arena, list);

        json_set_string(arena, out, "kind", kind_by_id(due[i].kind)->name);
        json_set_string(arena, out, "namespace", due[i].ns);
        json_set_string(arena, out, "name", due[i].name);
        json_set_string(arena, out, "uid", due[i].uid);
        json_set_string(arena, out, "finished", clock_format(due[i].finished_at, time));
        json_set_int(arena, out, "bytes", due[i].bytes);
        json_set_string(arena, out, "reason", reason_text(due[i].why));
    }
    free(due);
    return list;
}

size_t upkeep_run(struct upkeep *upkeep, const struct upkeep_policy *policy)
{
    struct prune_due *due = mem_alloc(UPKEEP_PLAN_MAX * sizeof(*due));
    size_t len = prune_look(upkeep->prune, &policy->work, clock_now(), due, UPKEEP_PLAN_MAX);

    free(due);
    upkeep->once = *policy;
    upkeep->asked = true;
    upkeep->soon = true;
    loop_timer_set(upkeep->timer, 0);
    return len;
}
