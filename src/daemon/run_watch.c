#include "daemon/run_watch.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "daemon/agent.h"
#include "daemon/library.h"
#include "daemon/promise.h"
#include "daemon/run_dir.h"
#include "engine/local/local.h"
#include "loop/loop.h"
#include "net/http.h"

#include <unistd.h>

#define LOG_MODULE "berthd"
#include "base/log.h"

struct run_watch {
    struct run_watch_parts parts;
    struct loop_timer *timer;
    char *run_dir;
    char *failed; /* said last, so that it is said once */
};

static void say(struct buf *said, const char *what)
{
    if (said->len)
        buf_puts(said, ", ");
    buf_puts(said, what);
}

static void mend_folder(struct run_watch *watch, struct buf *said, struct err *err)
{
    const struct daemon_config *config = watch->parts.config;

    if (access(watch->run_dir, F_OK) < 0 || run_dir_unmounted(watch->run_dir)) {
        say(said, "the folder itself");
        if (run_dir_make(watch->run_dir, err) < 0)
            return;
    }
    local_engine_mend(agent_engine(watch->parts.agent), said);
    if (library_mend(config->data_dir, err) > 0)
        say(said, "the Python library");
    promise_keep_running(config, watch->parts.store);
}

static void mend_socket(struct run_watch *watch, struct buf *said, struct err *err)
{
    const char *path = watch->parts.config->socket;
    CLEANUP(free) char *folder = mem_strdup(path);
    char *slash = strrchr(folder, '/');

    if (access(path, F_OK) == 0)
        return;
    if (slash && slash != folder) {
        *slash = '\0';
        if (dir_make(folder, 0755, err) < 0)
            return;
    }
    if (http_listen_again(watch->parts.server, path, 0666, err) > 0)
        say(said, "the API's socket");
}

static void run_watch_on_timer(void *arg)
{
    struct run_watch *watch = arg;
    CLEANUP(buf_done) struct buf said = {0};
    struct err err = {0};

    if (watch->parts.agent)
        mend_folder(watch, &said, &err);
    mend_socket(watch, &said, &err);
    if (said.len)
        agent_repaired(watch->parts.agent, "RunFolderRepaired",
                       "parts of '%s' were removed and have been made again: %s", watch->run_dir, said.data);
    if (err.code && !streq(err.msg, watch->failed ? watch->failed : "")) {
        log_warn("%s", err.msg);
        free(watch->failed);
        watch->failed = mem_strdup(err.msg);
    }
    loop_timer_set(watch->timer, RUN_WATCH_SEC * NSEC_PER_SEC);
}

struct run_watch *run_watch_new(const struct run_watch_parts *parts)
{
    struct run_watch *watch = NEW(struct run_watch);

    watch->parts = *parts;
    watch->run_dir = agent_run_dir(parts->config->data_dir);
    watch->timer = loop_timer_new(parts->loop, run_watch_on_timer, watch);
    loop_timer_set(watch->timer, RUN_WATCH_SEC * NSEC_PER_SEC);
    return watch;
}

void run_watch_free(struct run_watch *watch)
{
    if (!watch)
        return;
    loop_timer_free(watch->timer);
    free(watch->run_dir);
    free(watch->failed);
    free(watch);
}
