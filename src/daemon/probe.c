#include "daemon/probe.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "loop/loop.h"
#include "loop/offload.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define LOG_MODULE "probe"

#define LIMIT_SEC  3600            /* a thread that hangs is left alone that long */
#define LATE_SEC   (4 * PROBE_SEC) /* after that without an answer the disk does not answer */

struct probe {
    struct loop *loop;
    struct offload *offload;
    struct loop_timer *timer;
    char *data_dir;
    int64_t every_ms;
    struct probe_facts facts;
    int64_t asked; /* monotonic: when the answer that is waited for was asked for; 0: none is */
};

struct question {
    char *data_dir;
    struct probe_facts facts;
};

static void question_free(void *arg)
{
    struct question *question = arg;

    free(question->data_dir);
    free(question);
}

/* ---- in the thread ---- */

static int64_t file_bytes(const char *dir, const char *name)
{
    CLEANUP(free) char *path = mem_printf("%s/%s", dir, name);
    struct stat st;

    return stat(path, &st) == 0 ? (int64_t)st.st_blocks * 512 : -1;
}

static int64_t count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int64_t count = -3; /* ".", "..", and the folder itself */

    if (!dir)
        return -1;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void ask(void *arg)
{
    struct question *question = arg;
    struct probe_facts *facts = &question->facts;
    struct statvfs fs;

    *facts = (struct probe_facts){.disk_bytes = -1, .disk_free = -1};
    facts->descriptors = count_descriptors();
    if (statvfs(question->data_dir, &fs) == 0) {
        facts->disk_bytes = (int64_t)(fs.f_blocks * fs.f_frsize);
        facts->disk_free = (int64_t)(fs.f_bavail * fs.f_frsize);
        facts->files = (int64_t)fs.f_files;
        facts->files_free = (int64_t)fs.f_favail;
    }
    facts->database_bytes = file_bytes(question->data_dir, "berth.db");
    facts->journal_bytes = file_bytes(question->data_dir, "berth.db-wal");
}

/* ---- in the loop ---- */

static void probe_on_answer(void *owner, void *work)
{
    struct probe *probe = owner;
    struct question *question = work;

    probe->asked = 0;
    if (!question) /* it hung; the next one may not */
        return;
    probe->facts = question->facts;
    probe->facts.at = clock_monotonic();
    question_free(question);
}

static void probe_on_timer(void *arg)
{
    struct probe *probe = arg;
    struct question *question;
    struct err err = {0};

    loop_timer_set(probe->timer, probe->every_ms * NSEC_PER_MSEC);
    if (probe->asked)
        return;
    question = NEW(struct question);
    question->data_dir = mem_strdup(probe->data_dir);
    if (offload_run(probe->offload, LIMIT_SEC, ask, probe_on_answer, question_free, probe, question, &err) <
        0) {
        log_warn("%s", err.msg);
        question_free(question);
        return;
    }
    probe->asked = clock_monotonic();
}

struct probe *probe_new(struct loop *loop, const char *data_dir)
{
    struct probe *probe = NEW(struct probe);
    const char *often = getenv("BERTH_PROBE_MS"); /* tests do not wait that long */

    probe->every_ms = PROBE_SEC * 1000;
    if (often && (!str_to_int(str_from(often), &probe->every_ms) || probe->every_ms < 1))
        probe->every_ms = PROBE_SEC * 1000;
    probe->loop = loop;
    probe->data_dir = mem_strdup(data_dir);
    probe->facts = (struct probe_facts){
        .disk_bytes = -1, .disk_free = -1, .database_bytes = -1, .journal_bytes = -1, .descriptors = -1};
    probe->offload = offload_new(loop);
    probe->timer = loop_timer_new(loop, probe_on_timer, probe);
    loop_timer_set(probe->timer, 0);
    return probe;
}

void probe_free(struct probe *probe)
{
    if (!probe)
        return;
    loop_timer_free(probe->timer);
    offload_close(probe->offload);
    free(probe->data_dir);
    free(probe);
}

const struct probe_facts *probe_facts(const struct probe *probe)
{
    return &probe->facts;
}

int64_t probe_late(const struct probe *probe)
{
    int64_t waited = probe->asked ? (clock_monotonic() - probe->asked) / NSEC_PER_SEC : 0;

    return waited > LATE_SEC ? waited : 0;
}
