/* Folders that may hold only so much, where the file system can stop what is beyond: those of claims that
 * Berth made, and emptyDirs with a limit. A claim's folder is made and limited when its volume appears, and
 * again when that grows; one that was filled before is marked file by file, which can take long, so it is
 * done in a thread, one after the other. Elsewhere disk.c measures. */
#include "base/log.h"
#include "engine/local/internal.h"
#include "loop/offload.h"
#include "objects/quantity.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>

#define LOG_MODULE     "claims"
#define MARK_LIMIT_SEC 3600
#define LOOKUP_BYTES   (16 << 10)

struct claims_job {
    char *volume, *dir; /* the PersistentVolume's name */
    struct prjquota *quota;
    uint32_t id;
    int64_t bytes;
    struct err err;
};

static void next_claim(struct local_engine *engine);

/* Root's alone until the first pod mounts it. */
static int make_dir(const char *dir, struct err *err)
{
    return mkdir(dir, 0700) < 0 && errno != EEXIST ? err_errno(err, errno, "make '%s'", dir) : 0;
}

/* ---- in the thread ---- */

static void work(void *arg)
{
    struct claims_job *job = arg;
    CLEANUP(fd_close) int fd = open(job->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    uint32_t now = 0;

    if (fd < 0) {
        err_errno(&job->err, errno, "open '%s'", job->dir);
        return;
    }
    if (prjquota_id_of(job->quota, fd, &now, &job->err) < 0 ||
        (now != job->id && prjquota_mark_tree(job->quota, fd, job->id, &job->err) < 0) ||
        (now == job->id && prjquota_mark(job->quota, fd, job->id, &job->err) < 0))
        return;
    prjquota_limit(job->quota, job->id, job->bytes, &job->err);
}

static void job_free(void *arg)
{
    struct claims_job *job = arg;

    prjquota_free(job->quota);
    free(job->volume);
    free(job->dir);
    free(job);
}

/* ---- claims ---- */

void claims_gone(struct local_engine *engine, const char *volume)
{
    free(map_remove(engine->claim_limits, str_from(volume)));
}

static void failed(struct local_engine *engine, const char *name, const char *why)
{
    const struct object *volume = store_get(engine->store, KIND_PV, "", name);

    claims_gone(engine, name);
    log_warn("volume '%s' is not limited: %s", name, why);
    if (volume)
        registry_event(engine->registry, volume, "Warning", "VolumeNotLimited",
                       "Its size is measured, not enforced: %s", why);
}

static void done(void *owner, void *arg)
{
    struct local_engine *engine = owner;
    struct claims_job *job = arg;

    engine->claim_busy = false;
    if (job && job->err.code)
        failed(engine, job->volume, job->err.msg);
    else if (!job)
        log_warn("a volume with very many files is still being marked");
    if (job)
        job_free(job);
    next_claim(engine);
}

static int64_t capacity_of(const struct local_engine *engine, const char *name)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct object *volume = store_get(engine->store, KIND_PV, "", name);
    const struct json *doc = volume ? object_json(volume, &arena) : NULL;
    struct quantity size;

    if (!volume || volume->deleting || !streq(json_at_string(doc, "spec.csi.driver"), LOCAL_DRIVER) ||
        !quantity_from_json(json_at(doc, "spec.capacity.storage"), &size))
        return 0;
    return quantity_value(&size);
}

/* 1: it is under way; 0: there is nothing to do. */
static int begin(struct local_engine *engine, const char *name, struct err *err)
{
    CLEANUP(free) char *relative = mem_printf("volumes/%s", name);
    int64_t bytes = capacity_of(engine, name), *limit = map_get(engine->claim_limits, str_from(name));
    struct claims_job *job;
    uint32_t id;

    if (bytes <= 0 || (limit && *limit == bytes))
        return 0;
    job = NEW(struct claims_job);
    job->dir = mem_printf("%s/%s", engine->data_dir, relative);
    job->volume = mem_strdup(name);
    job->bytes = bytes;
    if (make_dir(job->dir, err) < 0 || projects_id(engine->projects, relative, &id, err) < 0) {
        job_free(job);
        return -1;
    }
    job->id = id;
    job->quota = prjquota_dup(projects_quota(engine->projects));
    if (offload_run(engine->offload, MARK_LIMIT_SEC, work, done, job_free, engine, job, err) < 0) {
        job_free(job);
        return -1;
    }
    limit = NEW(int64_t);
    *limit = bytes;
    free(map_set(engine->claim_limits, str_from(name), limit));
    return 1;
}

static void next_claim(struct local_engine *engine)
{
    while (!engine->closed && !engine->claim_busy && engine->claim_line.len) {
        CLEANUP(free) char *name = engine->claim_line.v[0];
        struct err err = {0};
        int result;

        vec_remove(&engine->claim_line, 0);
        result = begin(engine, name, &err);
        if (result < 0)
            failed(engine, name, err.msg);
        engine->claim_busy = result > 0;
    }
}

static int owner_ids(const char *owner, uid_t *uid, gid_t *gid, struct err *err)
{
    struct passwd entry, *found = NULL;
    char text[LOOKUP_BYTES];

    if (user_by_number(owner, uid)) {
        *gid = *uid;
        return 0;
    }
    if (getpwnam_r(owner, &entry, text, sizeof(text), &found) != 0 || !found)
        return err_set(err, ERR_NOT_FOUND, "user '%s' has no account on this machine", owner);
    *uid = entry.pw_uid;
    *gid = entry.pw_gid;
    return 0;
}

int claims_make_dir(const char *dir, const char *owner, struct err *err)
{
    CLEANUP(fd_close) int fd = -1;
    uid_t uid = 0;
    gid_t gid = 0;
    struct stat st;

    if (owner && owner_ids(owner, &uid, &gid, err) < 0)
        return -1;
    if (make_dir(dir, err) < 0)
        return -1;
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, errno, "open '%s'", dir);
    /* New, or everybody's without the sticky bit: what its user has set since stays. */
    if (st.st_uid == 0 && ((st.st_mode & 07777) == 0700 || (st.st_mode & 07777) == 0777) &&
        (fchown(fd, uid, gid) < 0 || fchmod(fd, owner ? 0700 : 01777) < 0))
        return err_errno(err, errno, "give '%s' to its owner", dir);
    return 0;
}

void claims_limit(struct local_engine *engine, const char *volume)
{
    if (!engine->projects)
        return;
    VEC_EACH(&engine->claim_line, it)
        if (streq(*it, volume))
            return;
    vec_push(&engine->claim_line, mem_strdup(volume));
    next_claim(engine);
}

/* ---- emptyDirs ---- */

static int limit_empty(const struct local_pod *pod, const char *dir, const char *volume, int64_t bytes,
                       struct err *err)
{
    struct local_engine *engine = pod->engine;
    CLEANUP(free) char *name = mem_printf("pods/%s/volumes/%s", pod->uid, volume);
    CLEANUP(fd_close) int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    uint32_t id;

    if (fd < 0)
        return err_errno(err, errno, "open '%s'", dir);
    if (projects_id(engine->projects, name, &id, err) < 0 ||
        prjquota_mark(projects_quota(engine->projects), fd, id, err) < 0)
        return -1;
    return prjquota_limit(projects_quota(engine->projects), id, bytes, err);
}

void claims_limit_empty(const struct local_pod *pod, const char *dir, const char *volume, int64_t bytes)
{
    struct err err = {0};

    if (!pod->engine->projects || bytes <= 0)
        return;
    if (limit_empty(pod, dir, volume, bytes, &err) < 0)
        log_warn("pod '%s/%s': volume '%s' is measured only: %s", pod->ns, pod->name, volume, err.msg);
}

/* ---- all ---- */

bool claims_use(const struct local_engine *engine, const char *path, int64_t *ret)
{
    size_t len = strlen(engine->data_dir);
    struct prjquota_use use;
    uint32_t id;

    if (!engine->projects || strncmp(path, engine->data_dir, len) != 0 || path[len] != '/')
        return false;
    id = projects_known(engine->projects, path + len + 1);
    if (!id || prjquota_use(projects_quota(engine->projects), id, &use, NULL) < 0 || !use.limit)
        return false;
    *ret = use.bytes;
    return true;
}

void claims_sweep(struct local_engine *engine)
{
    if (engine->projects && !engine->trash_rm)
        projects_sweep(engine->projects);
}

void claims_start(struct local_engine *engine, const struct local_config *config)
{
    struct projects_config projects = {
        .data_dir = engine->data_dir, .first = config->project_first, .last = config->project_last};
    struct err err = {0};

    engine->claim_limits = map_new();
    if (config->project_off) {
        engine->claims_text = mem_strdup("measured (project quotas are off by configuration)");
        return;
    }
    if (projects_open(&projects, &engine->projects, &err) < 0) {
        engine->claims_text = mem_printf("measured (%s)", err.msg);
        return;
    }
    engine->claims_text = mem_strdup("limited by project quotas");
    OBJECTS_EACH(store_list(engine->store, KIND_PV, NULL), it)
        claims_limit(engine, (*it)->name);
}

void claims_stop(struct local_engine *engine)
{
    struct str key;
    void *value;
    size_t at = 0;

    VEC_EACH(&engine->claim_line, it)
        free(*it);
    vec_done(&engine->claim_line);
    while (engine->claim_limits && map_next(engine->claim_limits, &at, &key, &value))
        free(value);
    map_free(TAKE_PTR(engine->claim_limits));
    projects_free(TAKE_PTR(engine->projects));
    free(TAKE_PTR(engine->claims_text));
}
