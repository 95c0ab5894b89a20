/* Every LOOK_SEC a thread looks whether the newest backup in the folder is old enough for another one: the
 * folder is what is believed, so restarts change nothing. */
#include "daemon/backup_service.h"

#include "backup/backup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/vec.h"
#include "loop/loop.h"
#include "loop/offload.h"
#include "objects/kind.h"
#include "objects/object_doc.h"
#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define LOG_MODULE "backup"
#include "base/log.h"

#define FIRST_LOOK_SEC 60
#define LOOK_SEC       600
#define LIMIT_SEC      7200 /* a backup that takes longer is given up */
#define PREFIX         "berth-"
#define SINGLE         ".backup-" /* one that was asked for, while it is made */
#define LATE_PERIODS   2          /* so many of them without a backup are worth a word */

struct backup_service {
    struct loop *loop;
    struct store *store;
    const struct daemon_config *config;
    struct offload *offload;
    struct loop_timer *timer;
    int64_t started, last;
    char *trouble;
    bool busy;
};

/* What a thread works on; everything is its own. */
struct work {
    struct backup_service *service;
    char *data_dir, *config_file, *node_name, *claims;
    char *dir; /* of the daily ones; NULL: a single one was asked for */
    int keep;
    int64_t every, now;
    /* results */
    int64_t newest;
    bool made;
    int fd;
    struct backup_info info;
    struct err err;
    void (*done)(void *arg, int fd, const struct err *err);
    void *arg;
};

static void work_free(void *arg)
{
    struct work *work = arg;

    if (work->fd >= 0)
        close(work->fd);
    free(work->data_dir);
    free(work->config_file);
    free(work->node_name);
    free(work->claims);
    free(work->dir);
    free(work);
}

/* ---- in a thread ---- */

struct found {
    char *name;
    int64_t time; /* 0: not known, or it has not come yet: made when the clock was wrong */
};

static int by_time(const void *a, const void *b)
{
    const struct found *x = a, *y = b;

    return x->time != y->time ? (x->time < y->time ? -1 : 1) : strcmp(x->name, y->name);
}

static bool is_backup(const char *name)
{
    size_t len = strlen(name);

    return starts_with(name, PREFIX) && len > strlen(BACKUP_SUFFIX) &&
           streq(name + len - strlen(BACKUP_SUFFIX), BACKUP_SUFFIX);
}

/* "berth-2026-01-02T03:04:05Z.tar.gz" */
static int64_t time_of(const char *name)
{
    size_t len = strlen(name) - strlen(PREFIX) - strlen(BACKUP_SUFFIX);
    int64_t t = 0;

    return clock_parse((struct str){name + strlen(PREFIX), len}, &t) ? t : 0;
}

/* Parts of backups that an ended daemon has left, each as large as the database. */
static void remove_parts(const char *path, const char *prefix, const char *suffix)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        if (starts_with(entry->d_name, prefix) && ends_with(entry->d_name, suffix))
            unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
}

/* Keeps the newest, removes the others. */
static void prune(const char *path, int keep, int64_t now, int64_t *ret_newest)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    VEC(struct found) all = {0};

    while (dir && (entry = readdir(dir)))
        if (is_backup(entry->d_name)) {
            int64_t time = time_of(entry->d_name);

            vec_push(&all, (struct found){mem_strdup(entry->d_name), time <= now ? time : 0});
        }
    if (dir)
        closedir(dir);
    if (all.len > 0)
        qsort(all.v, all.len, sizeof(*all.v), by_time);
    for (size_t i = 0; i < all.len; i++) {
        CLEANUP(free) char *file = mem_printf("%s/%s", path, all.v[i].name);

        if (i + (size_t)keep < all.len)
            unlink(file);
        else
            *ret_newest = all.v[i].time;
        free(all.v[i].name);
    }
    vec_done(&all);
}

static struct backup_source source_of(const struct work *work)
{
    return (struct backup_source){work->data_dir, work->config_file, work->node_name, work->claims,
                                  work->now};
}

static void make_daily(void *arg)
{
    struct work *work = arg;
    struct backup_source source = source_of(work);
    char time[CLOCK_TEXT_MAX];
    CLEANUP(free)
    char *path = mem_printf("%s/" PREFIX "%s" BACKUP_SUFFIX, work->dir, clock_format(work->now, time));

    if (dir_make(work->dir, 0700, &work->err) < 0)
        return;
    remove_parts(work->dir, PREFIX, ".part");
    remove_parts(work->data_dir, SINGLE, "");
    prune(work->dir, work->keep, work->now, &work->newest);
    if (work->newest > 0 && work->now - work->newest < work->every)
        return;
    if (backup_make(&source, path, &work->info, &work->err) < 0)
        return;
    work->made = true;
    prune(work->dir, work->keep, work->now, &work->newest);
}

static void make_single(void *arg)
{
    struct work *work = arg;
    struct backup_source source = source_of(work);
    char random[17];
    CLEANUP(free) char *path = NULL;

    random_hex(random, 8);
    path = mem_printf("%s/" SINGLE "%s" BACKUP_SUFFIX, work->data_dir, random);
    if (backup_make(&source, path, &work->info, &work->err) < 0)
        return;
    work->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (work->fd < 0)
        err_errno(&work->err, errno, "open '%s'", path);
    unlink(path);
}

/* ---- in the loop ---- */

/* Claims with their folders: what a backup does not hold, and an admin has to look after. */
static char *list_claims(const struct store *store, const char *data_dir)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *list = json_new_array(&arena);
    struct buf text = {0};

    OBJECTS_EACH(store_list(store, KIND_PVC, NULL), it) {
        const struct json *doc = object_doc(*it);
        const char *volume = json_string_or(json_at(doc, "spec.volumeName"), "");
        const struct object *pv = *volume ? store_get(store, KIND_PV, "", volume) : NULL;
        struct json *item = json_push_object(&arena, list);

        json_set_string(&arena, item, "namespace", (*it)->ns);
        json_set_string(&arena, item, "name", (*it)->name);
        json_set_string(&arena, item, "volume", volume);
        json_set_string(&arena, item, "size",
                        json_string_or(json_at(doc, "spec.resources.requests.storage"), ""));
        if (pv) /* those that Berth has made are in its own folder */
            json_set_string(&arena, item, "folder",
                            json_string_or(json_at(object_doc(pv), "spec.hostPath.path"),
                                           arena_printf(&arena, "%s/volumes/%s", data_dir, pv->name)));
    }
    json_write_pretty(&text, list, 2);
    buf_puts(&text, "\n");
    return text.data;
}

static struct work *work_new(struct backup_service *service)
{
    struct work *work = NEW(struct work);

    work->service = service;
    work->data_dir = mem_strdup(service->config->data_dir);
    work->config_file = mem_strdup(service->config->file);
    work->node_name = mem_strdup(service->config->node_name);
    work->claims = list_claims(service->store, service->config->data_dir);
    work->now = clock_now();
    work->fd = -1;
    return work;
}

static void set_trouble(struct backup_service *service, char *text)
{
    free(service->trouble);
    service->trouble = text;
}

static void on_daily(void *owner, void *arg)
{
    struct backup_service *service = owner;
    struct work *work = arg;

    service->busy = false;
    loop_timer_set(service->timer, LOOK_SEC * NSEC_PER_SEC);
    if (!work) {
        set_trouble(service, mem_printf("the last backup did not end within %d s", LIMIT_SEC));
        log_error("%s", service->trouble);
        return;
    }
    if (work->newest > service->last)
        service->last = work->newest;
    if (work->err.code) {
        set_trouble(service, mem_printf("the last backup failed: %s", work->err.msg));
        log_error("%s", service->trouble);
    } else {
        set_trouble(service, NULL);
    }
    if (work->made)
        log_info("backup of revision %lld, %lld objects, %lld bytes in %s", (long long)work->info.revision,
                 (long long)work->info.objects, (long long)work->info.bytes, work->dir);
    work_free(work);
}

static void backup_on_timer(void *arg)
{
    struct backup_service *service = arg;
    struct work *work;
    struct err err = {0};

    loop_timer_set(service->timer, LOOK_SEC * NSEC_PER_SEC);
    if (service->busy)
        return;
    work = work_new(service);
    work->dir = service->config->backup_dir ? mem_strdup(service->config->backup_dir)
                                            : mem_printf("%s/backups", service->config->data_dir);
    work->keep = service->config->backup_keep;
    work->every = service->config->backup_hours * 3600 * NSEC_PER_SEC;
    if (offload_run(service->offload, LIMIT_SEC, make_daily, on_daily, work_free, service, work, &err) < 0) {
        log_warn("backup: %s", err.msg);
        work_free(work);
        return;
    }
    service->busy = true;
}

static void on_single(void *owner, void *arg)
{
    struct backup_service *service = owner;
    struct work *work = arg;
    struct err late = {0};
    int fd;

    if (!work) {
        /* Its asker was told by the limit of the request; the thread drops the file when it ends. */
        service->busy = false;
        err_set(&late, ERR_TIMEOUT, "the backup did not end within %d s", LIMIT_SEC);
        log_error("%s", late.msg);
        return;
    }
    service->busy = false;
    fd = work->fd;
    work->fd = -1;
    work->done(work->arg, fd, work->err.code ? &work->err : NULL);
    work_free(work);
}

int backup_service_make(struct backup_service *service,
                        void (*done)(void *arg, int fd, const struct err *err), void *arg, struct err *err)
{
    struct work *work;

    if (service->busy)
        return err_set(err, ERR_CONFLICT, "a backup is being made already; try again when it is done");
    work = work_new(service);
    work->done = done;
    work->arg = arg;
    if (offload_run(service->offload, LIMIT_SEC, make_single, on_single, work_free, service, work, err) < 0) {
        work_free(work);
        return -1;
    }
    service->busy = true;
    return 0;
}

struct backup_service *backup_service_new(struct loop *loop, struct store *store,
                                          const struct daemon_config *config)
{
    struct backup_service *service = NEW(struct backup_service);
    const char *soon = getenv("BERTH_BACKUP_FIRST_LOOK_MS"); /* tests do not wait a minute */
    int64_t first_ms = FIRST_LOOK_SEC * 1000;

    if (soon)
        str_to_int(str_from(soon), &first_ms);
    service->loop = loop;
    service->store = store;
    service->config = config;
    service->offload = offload_new(loop);
    service->started = clock_now();
    service->timer = loop_timer_new(loop, backup_on_timer, service);
    if (config->backup_hours > 0)
        loop_timer_set(service->timer, first_ms * NSEC_PER_MSEC);
    return service;
}

void backup_service_free(struct backup_service *service)
{
    if (!service)
        return;
    loop_timer_free(service->timer);
    offload_close(service->offload);
    free(service->trouble);
    free(service);
}

int64_t backup_service_last(const struct backup_service *service)
{
    return service->last;
}

const char *backup_service_trouble(const struct backup_service *service)
{
    int64_t every = service->config->backup_hours * 3600 * NSEC_PER_SEC;
    int64_t since = service->last > service->started ? service->last : service->started;

    if (service->trouble)
        return service->trouble;
    if (every > 0 && clock_now() - since > LATE_PERIODS * every)
        return "the newest backup is older than it should be";
    return NULL;
}
