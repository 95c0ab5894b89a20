/* Logs that stay after their pods: copied by a thread, one pod at a time, before the pod's folder goes. A
 * file in the folder says under which name and in which order, so that the next start can do it for pods that
 * went with a daemon that was killed. */
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "engine/local/internal.h"
#include "engine/local/kept.h"
#include "engine/log_line.h"
#include "loop/offload.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define LOG_MODULE     "engine"
#define NOTE           "keep-log" /* the name, then the containers, a line each */
#define NOTE_BYTES_MAX (64 << 10)
#define COPY_SEC       300
#define RETRY_NSEC     NSEC_PER_SEC

/* The thread's, while one works on it. */
struct keep_work {
    char *uid, *folder, *pod_dir;
    struct err err;
};

static void keep_drop(void *arg)
{
    struct keep_work *work = arg;

    if (!work)
        return;
    free(work->uid);
    free(work->folder);
    free(work->pod_dir);
    free(work);
}

/* ---- in the thread ---- */

static void keep_pod(struct keep_work *work)
{
    CLEANUP(free)
    char *note = mem_printf("%s/" NOTE, work->pod_dir), *logs = mem_printf("%s/logs", work->pod_dir);
    CLEANUP(buf_done) struct buf text = {0};
    const char *lines[FACTS_CONTAINERS_MAX + 2];
    struct kept_pod pod = {.folder = work->folder, .uid = work->uid, .logs = logs, .containers = lines + 1};
    size_t n = 0;
    char *rest;

    if (file_read(note, NOTE_BYTES_MAX, &text, NULL) < 0)
        return;
    for (char *line = strtok_r(text.data, "\n", &rest); line && n < ARRAY_LEN(lines) - 1;
         line = strtok_r(NULL, "\n", &rest))
        lines[n++] = line;
    lines[n] = NULL;
    pod.name = lines[0];
    if (n > 1)
        kept_add(&pod, &work->err);
}

static void keep_run(void *arg)
{
    struct keep_work *work = arg;

    keep_pod(work);
}

/* ---- in the loop ---- */

static void keep_next(struct local_engine *engine);

static void keep_over(struct local_engine *engine, const char *uid)
{
    struct local_pod *pod = local_find(engine, uid);
    CLEANUP(free) char *dir = NULL;

    if (pod && pod->log_asked) {
        pod->log_kept = true;
        pod_queue(pod);
    } else if (!pod) { /* of a pod that went with an earlier daemon */
        dir = mem_printf("%s/pods/%s", engine->data_dir, uid);
        sandbox_remove_tree(engine, dir);
    }
}

static void keep_done(void *owner, void *arg)
{
    struct local_engine *engine = owner;
    struct keep_work *work = arg;
    CLEANUP(free) char *uid = TAKE_PTR(engine->keep_uid);

    engine->keep_busy = false;
    if (work && work->err.code)
        log_warn("log of pod %s: %s", work->uid, work->err.msg);
    else if (!work)
        log_warn("log of pod %s: keeping it takes longer than %d s", uid ? uid : "-", COPY_SEC);
    keep_drop(work);
    if (uid)
        keep_over(engine, uid);
    keep_next(engine);
}

static void on_retry(void *arg)
{
    keep_next(arg);
}

/* No thread is to be had: copying in the loop would hold up everybody. */
static void keep_later(struct local_engine *engine, char *uid)
{
    vec_insert(&engine->keep_line, 0, uid);
    free(TAKE_PTR(engine->keep_uid));
    engine->keep_busy = false;
    if (!engine->keep_retry)
        engine->keep_retry = loop_timer_new(engine->loop, on_retry, engine);
    loop_timer_set(engine->keep_retry, RETRY_NSEC);
}

static void keep_next(struct local_engine *engine)
{
    struct keep_work *work;
    struct err err = {0};

    if (engine->keep_busy || engine->closed || !engine->keep_line.len)
        return;
    work = NEW(struct keep_work);
    work->uid = engine->keep_line.v[0];
    engine->keep_line.len--;
    memmove(engine->keep_line.v, engine->keep_line.v + 1,
            engine->keep_line.len * sizeof(*engine->keep_line.v));
    work->folder = mem_strdup(engine->log_dir);
    work->pod_dir = mem_printf("%s/pods/%s", engine->data_dir, work->uid);
    engine->keep_uid = mem_strdup(work->uid);
    engine->keep_busy = true;
    if (offload_run(engine->offload, COPY_SEC, keep_run, keep_done, keep_drop, engine, work, &err) < 0) {
        keep_later(engine, TAKE_PTR(work->uid));
        keep_drop(work);
    }
}

static void keep_ask(struct local_engine *engine, const char *uid)
{
    vec_push(&engine->keep_line, mem_strdup(uid));
    keep_next(engine);
}

void keeper_stop(struct local_engine *engine)
{
    VEC_EACH(&engine->keep_line, it)
        free(*it);
    vec_done(&engine->keep_line);
    free(TAKE_PTR(engine->keep_uid));
    loop_timer_free(TAKE_PTR(engine->keep_retry));
}

static int write_note(const char *path, const struct buf *text, struct err *err)
{
    CLEANUP(fd_close) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

    return fd < 0 || write(fd, text->data, text->len) != (ssize_t)text->len
               ? err_errno(err, errno, "write '%s'", path)
               : 0;
}

void keeper_note(struct local_pod *pod)
{
    struct local_engine *engine = pod->engine;
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(free) char *path = mem_printf("%s/" NOTE, pod->dir);
    CLEANUP(buf_done) struct buf text = {0};
    const char *name;
    struct err err = {0};

    if (pod->log_noted || !engine->log_dir || !engine->keep)
        return;
    pod->log_noted = true;
    name = engine->keep(engine->keep_arg, pod->doc, &arena);
    if (!name || strchr(name, '/') || strchr(name, '\n'))
        return;
    buf_printf(&text, "%s\n", name);
    for (size_t i = 0; i < pod->facts.len; i++)
        if (!pod->facts.ctrs[i].init)
            buf_printf(&text, "%s\n", pod->facts.ctrs[i].name);
    if (dir_make(pod->dir, 0700, &err) < 0 || write_note(path, &text, &err) < 0)
        log_warn("pod '%s/%s': its log will not be kept: %s", pod->ns, pod->name, err.msg);
}

static bool has_log(const char *dir)
{
    CLEANUP(free) char *note = mem_printf("%s/" NOTE, dir), *logs = mem_printf("%s/logs", dir);

    return access(note, F_OK) == 0 && access(logs, F_OK) == 0;
}

bool keeper_through(struct local_pod *pod)
{
    if (!pod->engine->log_dir || pod->log_kept || pod->released)
        return true;
    if (pod->log_asked)
        return false;
    keeper_note(pod); /* one that ran before there was somebody who keeps logs */
    if (!has_log(pod->dir)) {
        pod->log_kept = true;
        return true;
    }
    pod->log_asked = true;
    keep_ask(pod->engine, pod->uid);
    return false;
}

bool keeper_take(struct local_engine *engine, const char *uid)
{
    CLEANUP(free) char *dir = mem_printf("%s/pods/%s", engine->data_dir, uid);

    if (!engine->log_dir || !has_log(dir) ||
        store_by_uid(engine->store, uid)) /* that one is only without a node */
        return false;
    keep_ask(engine, uid);
    return true;
}

bool keeper_last_line(const struct local_engine *engine, const char *uid, const char *container,
                      char ret[ENGINE_LINE_MAX])
{
    const struct local_pod *pod = local_find(engine, uid);
    const struct ctr *ctr = NULL;
    CLEANUP(free) char *path = NULL;

    if (!pod)
        return false;
    for (size_t i = 0; i < pod->facts.len; i++) {
        const struct ctr *it = &pod->facts.ctrs[i];

        if (container ? streq(it->name, container)
                      : !ctr || (!ctr->end.code && it->end.there && it->end.code))
            ctr = it;
    }
    if (!ctr)
        return false;
    path = start_log_path(pod, ctr->name, ctr->restarts);
    return log_line_read(path, ret, ENGINE_LINE_MAX);
}
