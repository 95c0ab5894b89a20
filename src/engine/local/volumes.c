/* Volumes of a pod: made when its sandbox is, below POD/volumes/NAME; host paths and claims are opened when
 * a container starts, with the rights of the person whose pod it is. A mount is handed on as a descriptor,
 * so nobody can put a link in between. */
#include "base/file.h"
#include "engine/local/internal.h"
#include "objects/quantity.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

/* ---- making ---- */

static gid_t fs_group(const struct local_pod *pod)
{
    int64_t gid = json_int(json_at(pod->doc, "spec.securityContext.fsGroup"), 0);

    if (pod->user.admin)
        return (gid_t)gid;
    for (size_t i = 0; i < pod->user.groups_len; i++) /* only a group that the person is in */
        if ((gid_t)gid == pod->user.groups[i])
            return (gid_t)gid;
    return 0;
}

static char *volume_dir(const struct local_pod *pod, const char *name)
{
    return mem_printf("%s/volumes/%s", pod->dir, name);
}

static bool is_mounted(const char *dir)
{
    CLEANUP(free) char *parent = mem_printf("%s/..", dir);
    struct stat here, above;

    return stat(dir, &here) == 0 && stat(parent, &above) == 0 && here.st_dev != above.st_dev;
}

static int mount_memory(const char *dir, const char *options, struct err *err)
{
    if (is_mounted(dir))
        return 0;
    if (mount("tmpfs", dir, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
        return err_errno(err, errno, "mount memory at '%s'", dir);
    return 0;
}

static int make_empty(const struct local_pod *pod, const struct json *source, const char *name,
                      const char *dir, struct err *err)
{
    char options[64] = "mode=0777";
    struct quantity limit = {0};
    gid_t group = fs_group(pod);
    bool limited = quantity_from_json(json_get(source, "sizeLimit"), &limit) && limit.nanos > 0;

    if (streq(json_get_string(source, "medium"), "Memory")) {
        if (limited)
            snprintf(options, sizeof(options), "mode=0777,size=%lld", (long long)quantity_value(&limit));
        if (mount_memory(dir, options, err) < 0)
            return -1;
    } else if (limited) {
        claims_limit_empty(pod, dir, name, quantity_value(&limit));
    }
    if (group && chown(dir, (uid_t)-1, group) < 0)
        return err_errno(err, errno, "chown '%s'", dir);
    if (chmod(dir, group ? 02777 : 0777) < 0)
        return err_errno(err, errno, "chmod '%s'", dir);
    return 0;
}

static bool has_secret(const struct json *volume)
{
    if (json_get(volume, "secret"))
        return true;
    JSON_EACH(json_at(volume, "projected.sources"), it)
        if (json_get(it, "secret"))
            return true;
    return false;
}

static bool has_content(const struct json *volume)
{
    return json_get(volume, "configMap") || json_get(volume, "secret") || json_get(volume, "downwardAPI") ||
           json_get(volume, "projected");
}

/* Its files are added to what a thread will write. */
static int prepare_one(struct local_pod *pod, const struct json *volume, struct gather_work **work,
                       struct err *err)
{
    const char *name = json_string_or(json_get(volume, "name"), "");
    CLEANUP(free) char *dir = volume_dir(pod, name);
    const struct json *empty = json_get(volume, "emptyDir");

    if (!empty && !has_content(volume))
        return 0;
    if (dir_make(dir, 0755, err) < 0)
        return -1;
    if (empty)
        return make_empty(pod, empty, name, dir, err);
    if (has_secret(volume) && mount_memory(dir, "mode=0755,size=16m", err) < 0)
        return -1;
    return gather_add(work, pod, volume, dir, fs_group(pod), err);
}

int volumes_prepare(struct local_pod *pod, struct err *err)
{
    struct gather_work *work = NULL;
    int result = 0;

    JSON_EACH(json_at(pod->doc, "spec.volumes"), it)
        if (result == 0 && prepare_one(pod, it, &work, err) < 0)
            result = err_prefix(err, "cannot mount volume \"%s\"", json_string_or(json_get(it, "name"), ""));
    if (result == 0 && work) {
        if (pod->content_busy) /* of its last time: what has changed since is written after it */
            result = err_set(err, ERR_CONFLICT, "cannot mount its volumes: their files are being written");
        else if (gather_send(pod, work, sandbox_volumes, err) == 0)
            return 1;
        else
            result = err_prefix(err, "cannot mount its volumes");
    }
    gather_drop(work);
    return result;
}

/* Whether a volume shows that object; name NULL: fields of the pod itself. */
static bool shows(const struct json *from, bool secret, const char *name)
{
    const struct json *source = json_get(from, secret ? "secret" : "configMap");
    const char *its =
        json_string_or(json_get(source, "secretName"), json_string_or(json_get(source, "name"), ""));

    if (!name)
        return json_get(from, "downwardAPI") != NULL;
    return source && streq(its, name);
}

static bool is_concerned(const struct json *volume, bool secret, const char *name)
{
    bool concerned = shows(volume, secret, name);

    JSON_EACH(json_at(volume, "projected.sources"), it)
        concerned = concerned || shows(it, secret, name);
    return concerned;
}

static void update_one(struct local_pod *pod, const struct json *volume, struct gather_work **work)
{
    struct err err = {0};

    if (prepare_one(pod, volume, work, &err) < 0)
        pod_event(pod, "Warning", "FailedMount", "cannot mount volume \"%s\": %s",
                  json_string_or(json_get(volume, "name"), ""), err.msg);
    arena_reset(&pod->scratch);
}

static void updated(struct local_pod *pod, const struct err *err)
{
    if (err)
        pod_event(pod, "Warning", "FailedMount", "%s", err->msg);
}

static void send_update(struct local_pod *pod, struct gather_work *work)
{
    struct err err = {0};

    if (work && gather_send(pod, work, updated, &err) < 0) {
        pod_event(pod, "Warning", "FailedMount", "cannot update its volumes: %s", err.msg);
        gather_drop(work);
    }
}

/* They have been made, or are being made from what was known then. */
static bool are_made(const struct local_pod *pod)
{
    return pod->sandbox == SANDBOX_VOLUMES || pod->sandbox == SANDBOX_PAUSE || pod->sandbox == SANDBOX_READY;
}

void volumes_update(struct local_pod *pod, bool secret, const char *name)
{
    struct gather_work *work = NULL;

    if (!are_made(pod))
        return;
    JSON_EACH(json_at(pod->doc, "spec.volumes"), it) {
        if (!is_concerned(it, secret, name))
            continue;
        if (pod->content_busy)
            pod->content_again = true;
        else
            update_one(pod, it, &work);
    }
    send_update(pod, work);
}

void volumes_refresh(struct local_pod *pod)
{
    struct gather_work *work = NULL;

    JSON_EACH(json_at(pod->doc, "spec.volumes"), it)
        if (are_made(pod) && has_content(it))
            update_one(pod, it, &work);
    send_update(pod, work);
}

void volumes_remove(struct local_pod *pod)
{
    JSON_EACH(json_at(pod->doc, "spec.volumes"), it) {
        CLEANUP(free) char *dir = volume_dir(pod, json_string_or(json_get(it, "name"), ""));

        if (is_mounted(dir))
            umount2(dir, MNT_DETACH | UMOUNT_NOFOLLOW);
    }
}

/* ---- opening ---- */

/* Host paths and claims have been opened before, with what is mounted of them. */
static int open_volume(struct local_pod *pod, const struct json *volume, const char *sub,
                       const struct opens *opens, struct err *err)
{
    const char *name = json_string_or(json_get(volume, "name"), "");
    CLEANUP(free) char *dir = NULL;
    CLEANUP(fd_close) int fd = -1;

    if (json_get(volume, "hostPath") || json_get(volume, "persistentVolumeClaim"))
        return opens_take(opens, name, sub, err);
    if (!json_get(volume, "emptyDir") && !has_content(volume))
        return err_set(err, ERR_UNSUPPORTED, "volumes of this kind are not offered");
    dir = volume_dir(pod, name);
    fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno, "open '%s'", dir);
    return *sub ? subpath_open(&pod->user, fd, sub, err) : take_fd(&fd);
}

/* ---- for one container ---- */

void mounts_done(struct mounts *mounts)
{
    VEC_EACH(&mounts->fds, it)
        close(*it);
    vec_done(&mounts->fds);
    vec_done(&mounts->v);
}

static const struct json *find_volume(const struct local_pod *pod, const char *name)
{
    JSON_EACH(json_at(pod->doc, "spec.volumes"), it)
        if (streq(json_get_string(it, "name"), name))
            return it;
    return NULL;
}

static int mount_one(struct local_pod *pod, const struct json *mount, const struct env_list *env,
                     struct mounts *mounts, struct err *err)
{
    const struct json *volume = find_volume(pod, json_get_string(mount, "name"));
    const char *sub = subpath_of(mount, env, mounts->arena);
    const char *propagation = json_string_or(json_get(mount, "mountPropagation"), "None");
    struct runtime_mount out = {.target = json_string_or(json_get(mount, "mountPath"), ""),
                                .flags = RUNTIME_MOUNT_REC};
    int fd;

    if (!volume)
        return err_set(err, ERR_NOT_FOUND, "no volume \"%s\"", json_string_or(json_get(mount, "name"), ""));
    fd = open_volume(pod, volume, sub, mounts->opens, err);
    if (fd < 0)
        return err_prefix(err, "cannot mount volume \"%s\"", json_string_or(json_get(volume, "name"), ""));
    vec_push(&mounts->fds, fd);
    out.source_fd = fd;
    if (json_bool(json_get(mount, "readOnly")) ||
        json_bool(json_at(volume, "persistentVolumeClaim.readOnly")) || has_content(volume))
        out.flags |= RUNTIME_MOUNT_RO;
    if (!pod->user.admin)
        out.flags |= RUNTIME_MOUNT_NOSUID | RUNTIME_MOUNT_NODEV;
    if (streq(propagation, "HostToContainer"))
        out.flags |= RUNTIME_MOUNT_SLAVE;
    if (streq(propagation, "Bidirectional") && pod->user.admin)
        out.flags |= RUNTIME_MOUNT_SHARED;
    vec_push(&mounts->v, out);
    return 0;
}

int volumes_mount(struct local_pod *pod, const struct json *container, struct mounts *mounts, struct err *err)
{
    struct env_list env = subpath_env(pod, container, mounts->arena);

    JSON_EACH(json_get(container, "volumeMounts"), it)
        if (mount_one(pod, it, &env, mounts, err) < 0)
            return -1;
    return 0;
}
