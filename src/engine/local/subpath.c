/* Parts of volumes: subPath and subPathExpr of a container's mounts. */
#include "engine/local/internal.h"
#include "podnet/files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- which ---- */

/* What subPathExpr may use: what the container's spec sets, and who the person is. What an image sets is not
 * known yet when paths are opened. */
struct env_list subpath_env(struct local_pod *pod, const struct json *container, struct arena *arena)
{
    const struct pod_user *user = &pod->user;
    struct env_world world = pod_world(pod);
    char hostname[PODNET_HOSTNAME_MAX + 1];
    struct env_list env = {0};
    bool wanted = false;

    JSON_EACH(json_get(container, "volumeMounts"), it)
        wanted = wanted || json_get(it, "subPathExpr");
    if (!wanted)
        return env;
    podnet_hostname(hostname, pod->name, json_at_string(pod->doc, "spec.hostname"));
    env_set(&env, arena, "HOSTNAME", hostname);
    if (*user->name) {
        env_set(&env, arena, "HOME", user->home);
        env_set(&env, arena, "USER", user->name);
        env_set(&env, arena, "CLUSTER_USER", user->name);
        env_set(&env, arena, "CLUSTER_USER_ID", arena_printf(arena, "%u", (unsigned)user->uid));
        env_set(&env, arena, "CLUSTER_GROUP_ID", arena_printf(arena, "%u", (unsigned)user->gid));
        env_set(&env, arena, "CLUSTER_GROUP_NAME", user->group);
    }
    env_fill(&env, arena, pod->doc, container, &world, NULL); /* what is missing the start itself tells */
    return env;
}

const char *subpath_of(const struct json *mount, const struct env_list *env, struct arena *arena)
{
    const char *expr = json_string_or(json_get(mount, "subPathExpr"), ""), *path;

    if (!*expr)
        return json_string_or(json_get(mount, "subPath"), "");
    path = env_expand(arena, expr, env);
    return path ? path : expr; /* longer than any path: none of that name is there */
}

/* ---- opening ---- */

static int open_beneath(int at, const char *path)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};

    return (int)syscall(SYS_openat2, at, path, &how, sizeof(how));
}

/* The folders of a path that are missing. */
static int make_beneath(int root, const char *path)
{
    CLEANUP(fd_close) int at = fcntl(root, F_DUPFD_CLOEXEC, 3);
    struct str rest = str_from(path), part;
    char name[256];

    while (at >= 0 && str_split(&rest, '/', &part)) {
        int next;

        if (part.len == 0 || str_is(part, "."))
            continue;
        if (part.len >= sizeof(name) || str_is(part, "..")) {
            errno = EINVAL;
            return -1;
        }
        memcpy(name, part.s, part.len);
        name[part.len] = '\0';
        if (mkdirat(at, name, 0750) < 0 && errno != EEXIST)
            return -1;
        next = open_beneath(at, name);
        if (next < 0)
            return -1;
        close(at);
        at = next;
    }
    return at < 0 ? -1 : 0;
}

/* Below the volume, whatever links are in it, and with the user's rights: a path through a folder that is
 * closed to the person must not become open by being mounted. */
int subpath_open(const struct pod_user *user, int root, const char *path, struct err *err)
{
    struct user_rights saved;
    int fd;

    if (user_enter(user, &saved) < 0)
        return err_errno(err, errno, "subPath '%s'", path);
    fd = open_beneath(root, path);
    if (fd < 0 && errno == ENOENT && make_beneath(root, path) == 0)
        fd = open_beneath(root, path);
    user_leave(&saved);
    if (fd < 0 && errno == EXDEV)
        return err_set(err, ERR_FORBIDDEN, "subPath '%s' leads out of the volume", path);
    return fd < 0 ? err_errno(err, errno, "subPath '%s'", path) : fd;
}
