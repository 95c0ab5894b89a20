/* What is on the disk. Once an hour the store is told what of the history may go, and a thread goes through
 * the kept logs: those of work that is over are compressed, and the oldest removed. Compressed ones are read
 * by threads, too. */
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "engine/packed.h"
#include "loop/offload.h"
#include "objects/kind.h"
#include "objects/object_doc.h"
#include "upkeep/internal.h"

#include <unistd.h>

#define FIRST_NSEC   (INT64_C(30) * NSEC_PER_SEC)
#define EVERY_NSEC   (INT64_C(3600) * NSEC_PER_SEC)
#define TIDY_SEC     3600 /* for all logs */
#define READ_SEC     60   /* for one */
#define READINGS_MAX 8    /* at once: each may take PACKED_READ_MAX of the disk */

/* ---- the logs, in a thread ---- */

struct logs_work {
    char *folder;
    struct map *alive; /* uids of work that is not over */
    struct packed_rules rules;
    struct packed_totals totals;
};

static void logs_drop(void *arg)
{
    struct logs_work *work = arg;

    if (!work)
        return;
    free(work->folder);
    map_free(work->alive);
    free(work);
}

static bool is_alive(void *arg, const char *name)
{
    return map_get(arg, str_from(name));
}

static void logs_run(void *arg)
{
    struct logs_work *work = arg;

    packed_tidy(work->folder, &work->rules, &work->totals);
}

/* ---- in the loop ---- */

static void logs_done(void *owner, void *arg)
{
    struct upkeep *upkeep = owner;
    struct logs_work *work = arg;

    upkeep->logs_busy = false;
    if (!work) {
        log_warn("going through the logs takes longer than %d s", TIDY_SEC);
        return;
    }
    upkeep->logs = work->totals;
    if (work->totals.packed || work->totals.removed)
        log_info("logs: %zu compressed, %zu removed; %zu are left, %lld KiB", work->totals.packed,
                 work->totals.removed, work->totals.count, (long long)(work->totals.bytes >> 10));
    logs_drop(work);
}

static struct map *living(const struct upkeep *upkeep)
{
    static const int kinds_with_logs[] = {KIND_TRAINING_JOB, KIND_JOB, KIND_POD};
    struct map *alive = map_new();

    for (size_t i = 0; i < ARRAY_LEN(kinds_with_logs); i++)
        OBJECTS_EACH(store_list(upkeep->store, kinds_with_logs[i], NULL), it) {
            CLEANUP(arena_done) struct arena arena = {0};

            if (!prune_finished_at(*it, object_doc_once(*it, &arena)))
                map_set(alive, str_from((*it)->uid), alive);
        }
    return alive;
}

static void tidy_logs(struct upkeep *upkeep)
{
    struct logs_work *work;
    struct err err = {0};

    if (upkeep->logs_busy || !upkeep->log_dir)
        return;
    work = NEW(struct logs_work);
    work->folder = mem_strdup(upkeep->log_dir);
    work->alive = living(upkeep);
    work->rules = (struct packed_rules){clock_now(), upkeep->config.policy.log_sec,
                                        upkeep->config.policy.log_bytes, is_alive, work->alive};
    if (offload_run(upkeep->offload, TIDY_SEC, logs_run, logs_done, logs_drop, upkeep, work, &err) < 0) {
        log_warn("logs: %s", err.msg);
        logs_drop(work);
        return;
    }
    upkeep->logs_busy = true;
}

static void files_on_timer(void *arg)
{
    struct upkeep *upkeep = arg;
    const struct upkeep_policy *policy = &upkeep->config.policy;
    int64_t now_ms = clock_now() / NSEC_PER_MSEC;

    loop_timer_set(upkeep->files_timer, EVERY_NSEC);
    store_tidy(upkeep->store,
               &(struct store_limits){policy->history_sec ? now_ms - policy->history_sec * 1000 : 0,
                                      policy->history_bytes});
    tidy_logs(upkeep);
    claims_look(upkeep);
}

void files_soon(struct upkeep *upkeep)
{
    loop_timer_set(upkeep->files_timer, 0);
}

void files_start(struct upkeep *upkeep)
{
    upkeep->log_dir = mem_strdup(upkeep->config.log_dir);
    upkeep->db_path = mem_strdup(upkeep->config.db_path);
    upkeep->offload = offload_new(upkeep->config.loop);
    upkeep->files_timer = loop_timer_new(upkeep->config.loop, files_on_timer, upkeep);
    loop_timer_set(upkeep->files_timer, FIRST_NSEC);
}

/* ---- reading one ---- */

struct reading {
    char *folder, *name;
    int fd;
    struct err err;
};

static void reading_drop(void *arg)
{
    struct reading *reading = arg;

    if (reading->fd >= 0)
        close(reading->fd);
    free(reading->folder);
    free(reading->name);
    free(reading);
}

static void reading_run(void *arg)
{
    struct reading *reading = arg;

    packed_open(reading->folder, reading->name, &reading->fd, &reading->err);
}

/* The thread has its own copy of what it needs: who asked is told by `asked`, whatever becomes of the thread.
 */
struct asked {
    struct upkeep *upkeep;
    void (*done)(void *arg, int fd, const struct err *err);
    void *arg;
};

static void forget(struct asked *asked)
{
    for (size_t i = 0; i < asked->upkeep->readings.len; i++)
        if (asked->upkeep->readings.v[i] == asked) {
            vec_remove(&asked->upkeep->readings, i);
            return;
        }
}

static void reading_done(void *owner, void *arg)
{
    struct asked *asked = owner;
    struct reading *reading = arg;
    struct err late = {0};
    int fd = -1;

    forget(asked);
    if (!reading)
        err_set(&late, ERR_TIMEOUT, "the log could not be read within %d s", READ_SEC);
    else if (!reading->err.code) {
        fd = reading->fd;
        reading->fd = -1;
    }
    asked->done(asked->arg, fd, !reading ? &late : reading->err.code ? &reading->err : NULL);
    if (reading)
        reading_drop(reading);
    free(asked);
}

bool upkeep_log_packed(const struct upkeep *upkeep, const char *uid)
{
    return upkeep && upkeep->log_dir && packed_is(upkeep->log_dir, uid);
}

int upkeep_open_log(struct upkeep *upkeep, const char *uid,
                    void (*done)(void *arg, int fd, const struct err *err), void *arg, struct err *err)
{
    struct reading *reading;
    struct asked *asked;

    if (upkeep->readings.len >= READINGS_MAX)
        return err_set(err, ERR_LIMIT, "%d logs are being unpacked already; try again in a moment",
                       READINGS_MAX);
    reading = NEW(struct reading);
    reading->folder = mem_strdup(upkeep->log_dir);
    reading->name = mem_strdup(uid);
    reading->fd = -1;
    asked = NEW(struct asked);
    *asked = (struct asked){upkeep, done, arg};
    if (offload_run(upkeep->offload, READ_SEC, reading_run, reading_done, reading_drop, asked, reading, err) <
        0) {
        reading_drop(reading);
        free(asked);
        return -1;
    }
    vec_push(&upkeep->readings, asked);
    return 0;
}

void files_stop(struct upkeep *upkeep)
{
    const struct err ends = {.code = ERR_UNAVAILABLE, .msg = "the daemon ends"};

    loop_timer_free(upkeep->files_timer);
    offload_close(upkeep->offload);
    VEC_EACH(&upkeep->readings, it) {
        (*it)->done((*it)->arg, -1, &ends);
        free(*it);
    }
    vec_done(&upkeep->readings);
    free(upkeep->log_dir);
    free(upkeep->db_path);
}
