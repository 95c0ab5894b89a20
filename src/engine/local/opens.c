/* Opening host paths and claims, with the parts of them that are mounted: the file system may be a server's
 * that is away, so it is done in a thread. */
#include "engine/local/internal.h"
#include "loop/offload.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

enum how { OPEN_HOST, OPEN_VOLUME, OPEN_OWN }; /* with the user's rights; an admin's; made here */

struct opens_item {
    char *volume, *path, *type, *sub; /* sub: below path; "": path itself */
    char *owner;                      /* of OPEN_OWN: whose alone the folder is; NULL: it is shared */
    enum how how;
    int fd;
    struct err err;
};

struct opens {
    struct pod_user user;
    size_t len;
    struct opens_item v[];
};

void opens_free(struct opens *opens)
{
    for (size_t i = 0; opens && i < opens->len; i++) {
        free(opens->v[i].volume);
        free(opens->v[i].path);
        free(opens->v[i].type);
        free(opens->v[i].sub);
        free(opens->v[i].owner);
        fd_close(opens->v[i].fd);
    }
    free(opens);
}

/* ---- in the thread ---- */

/* What is there must be what hostPath.type says; empty: anything. */
static int check_type(int fd, const char *type, const char *path, struct err *err)
{
    static const struct {
        const char *type;
        mode_t mode;
        const char *what;
    } types[] = {
        {"Directory", S_IFDIR, "a directory"},
        {"DirectoryOrCreate", S_IFDIR, "a directory"},
        {"File", S_IFREG, "a file"},
        {"FileOrCreate", S_IFREG, "a file"},
        {"Socket", S_IFSOCK, "a socket file"},
        {"CharDevice", S_IFCHR, "a character device"},
        {"BlockDevice", S_IFBLK, "a block device"},
    };
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_errno(err, errno, "stat '%s'", path);
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (streq(type, types[i].type) && (st.st_mode & S_IFMT) != types[i].mode)
            return err_set(err, ERR_INVALID, "hostPath type check failed: %s is not %s", path, types[i].what);
    return 0;
}

static int open_host_path(const struct pod_user *user, const char *path, const char *type, struct err *err)
{
    CLEANUP(fd_close) int fd = -1;

    if (streq(type, "DirectoryOrCreate") && user_mkdir(user, path, err) < 0)
        return -1;
    if (streq(type, "FileOrCreate")) {
        fd = user_open(user, path, O_RDONLY | O_CREAT | O_NONBLOCK, err);
        if (fd < 0)
            return -1;
        close(take_fd(&fd));
    }
    fd = user_open(user, path, O_PATH, err);
    if (fd < 0 && err->code == ERR_NOT_FOUND)
        return err_set(err, ERR_NOT_FOUND, "hostPath '%s' does not exist on this machine", path);
    if (fd < 0 || check_type(fd, type, path, err) < 0)
        return -1;
    return take_fd(&fd);
}

static int open_folder(const char *path, bool own, const char *owner, struct err *err)
{
    int fd;

    if (own && claims_make_dir(path, owner, err) < 0)
        return -1;
    fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? err_errno(err, errno, "open volume '%s'", path) : fd;
}

static int open_item(const struct pod_user *user, const struct opens_item *item, struct err *err)
{
    CLEANUP(fd_close)
    int fd = item->how == OPEN_HOST ? open_host_path(user, item->path, item->type, err)
                                    : open_folder(item->path, item->how == OPEN_OWN, item->owner, err);

    if (fd < 0)
        return -1;
    return *item->sub ? subpath_open(user, fd, item->sub, err) : take_fd(&fd);
}

static void work(void *arg)
{
    struct opens *opens = arg;

    for (size_t i = 0; i < opens->len; i++)
        opens->v[i].fd = open_item(&opens->user, &opens->v[i], &opens->v[i].err);
}

static void drop(void *arg)
{
    opens_free(arg);
}

/* ---- in the loop ---- */

/* A claim's word alone opens nothing: anybody may write a volume's name into it. It must be bound, and the
 * volume must be bound to it. */
static const struct object *volume_of(const struct local_pod *pod, const struct object *claim,
                                      struct arena *arena)
{
    const struct json *doc = object_json(claim, arena);
    const char *name = json_string_or(json_at(doc, "spec.volumeName"), "");
    const struct object *volume = *name ? store_get(pod->engine->store, KIND_PV, "", name) : NULL;

    if (!volume || !streq(json_at_string(doc, "status.phase"), "Bound") ||
        !streq(json_at_string(object_json(volume, arena), "spec.claimRef.uid"), claim->uid))
        return NULL;
    return volume;
}

int opens_claim_dir(struct local_pod *pod, const char *name, struct arena *arena, struct claim_dir *ret,
                    struct err *err)
{
    const struct object *claim = store_get(pod->engine->store, KIND_PVC, pod->ns, name), *volume;
    const struct json *doc, *path;

    if (!claim)
        return err_set(err, ERR_NOT_FOUND, "persistentvolumeclaim \"%s\" not found", name);
    volume = volume_of(pod, claim, arena);
    if (!volume)
        return err_set(err, ERR_UNAVAILABLE, "persistentvolumeclaim \"%s\" is not bound yet", name);
    doc = object_json(volume, arena);
    path = json_at(doc, "spec.hostPath");
    if (!path)
        path = json_at(doc, "spec.local");
    *ret = (struct claim_dir){.own = !path};
    if (path) /* made by an admin: his word counts, not the user's rights */
        ret->path = json_string_or(json_get(path, "path"), "");
    else
        ret->path = arena_printf(arena, "%s/volumes/%s", pod->engine->data_dir, volume->name);
    if (str_is(claim->maker, claim->ns)) /* in somebody's own namespace */
        ret->owner = arena_strdup(arena, claim->ns);
    return 0;
}

static void add(struct opens *opens, struct local_pod *pod, const struct json *volume, const char *sub)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct json *host = json_get(volume, "hostPath"),
                      *claim = json_get(volume, "persistentVolumeClaim");
    struct opens_item *item = &opens->v[opens->len];
    struct claim_dir dir = {.path = json_string_or(json_get(host, "path"), "")};

    if (!host && !claim)
        return;
    *item = (struct opens_item){.fd = -1, .how = OPEN_HOST};
    if (claim) {
        if (opens_claim_dir(pod, json_string_or(json_get(claim, "claimName"), ""), &arena, &dir, &item->err) <
            0)
            dir.path = "";
        item->how = dir.own ? OPEN_OWN : OPEN_VOLUME;
        item->owner = dir.owner ? mem_strdup(dir.owner) : NULL;
    }
    item->volume = mem_strdup(json_string_or(json_get(volume, "name"), ""));
    item->path = mem_strdup(dir.path);
    item->type = mem_strdup(json_string_or(json_get(host, "type"), ""));
    item->sub = mem_strdup(sub);
    opens->len++;
}

static void add_mount(struct opens *opens, struct local_pod *pod, const struct json *mount,
                      const struct env_list *env, struct arena *arena)
{
    JSON_EACH(json_at(pod->doc, "spec.volumes"), it)
        if (streq(json_get_string(it, "name"), json_get_string(mount, "name")))
            add(opens, pod, it, subpath_of(mount, env, arena));
}

static void done(void *owner, void *arg)
{
    struct local_run *run = owner;
    struct opens *opens = arg;

    sandbox_part_gone(run->pod);
    opens_free(run->opens);
    run->opens = opens;
    run->opens_then(run);
}

int opens_begin(struct local_run *run, void (*then)(struct local_run *run), struct err *err)
{
    struct local_pod *pod = run->pod;
    const struct json *spec = pod->facts.ctrs[run->at].spec, *mounts = json_get(spec, "volumeMounts");
    struct opens *opens = mem_zalloc(sizeof(*opens) + (json_len(mounts) + 1) * sizeof(opens->v[0]));
    CLEANUP(arena_done) struct arena arena = {0};
    struct env_list env = subpath_env(pod, spec, &arena);
    struct err failed = {0};

    opens_free(TAKE_PTR(run->opens));
    opens->user = pod->user;
    JSON_EACH(mounts, it)
        add_mount(opens, pod, it, &env, &arena);
    for (size_t i = 0; i < opens->len && !failed.code; i++)
        if (opens->v[i].err.code) {
            failed = opens->v[i].err;
            err_prefix(&failed, "cannot mount volume \"%s\"", opens->v[i].volume);
        }
    if (failed.code || !opens->len) {
        opens_free(opens);
        if (failed.code)
            *err = failed;
        return failed.code ? -1 : 1;
    }
    if (offload_run(pod->engine->offload, OFFLOAD_SEC, work, done, drop, run, opens, err) < 0) {
        opens_free(opens);
        return -1;
    }
    run->opens_then = then;
    pod->pending++;
    return 0;
}

int opens_take(const struct opens *opens, const char *volume, const char *sub, struct err *err)
{
    for (size_t i = 0; opens && i < opens->len; i++) {
        const struct opens_item *item = &opens->v[i];
        int fd;

        if (!streq(item->volume, volume) || !streq(item->sub, sub))
            continue;
        if (item->fd < 0) {
            *err = item->err;
            return -1;
        }
        fd = fcntl(item->fd, F_DUPFD_CLOEXEC, 3);
        return fd < 0 ? err_errno(err, errno, "open volume '%s'", volume) : fd;
    }
    return err_set(err, ERR_TIMEOUT, "opening it takes longer than %d s", OFFLOAD_SEC);
}
