/* Who a pod's processes are, and files opened with that person's rights. */
#include "engine/local/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define USER_ANNOTATION "berth.dev/user"

static bool is_admin(const struct local_engine *engine, const char *name)
{
    if (!name || streq(name, "") || streq(name, "root") || streq(name, "system:admin"))
        return true;
    for (size_t i = 0; engine->admins && engine->admins[i]; i++)
        if (streq(engine->admins[i], name))
            return true;
    return false;
}

static void take_groups(struct pod_user *user, const char *name)
{
    gid_t all[IMAGE_GROUPS_MAX];
    int len = IMAGE_GROUPS_MAX;

    if (getgrouplist(name, user->gid, all, &len) < 0)
        len = IMAGE_GROUPS_MAX; /* more than that: the first ones */
    for (int i = 0; i < len; i++)
        if (all[i] != user->gid)
            user->groups[user->groups_len++] = all[i];
}

int user_find(const struct local_engine *engine, const struct json *pod, struct pod_user *ret,
              struct err *err)
{
    const char *name = json_string(json_get(json_at(pod, "metadata.annotations"), USER_ANNOTATION));
    struct pod_user user = {0};
    struct passwd entry, *found = NULL;
    char text[4096];
    uint64_t uid;

    if (is_admin(engine, name)) {
        user.admin = true;
        *ret = user;
        return 0;
    }
    if (starts_with(name, "uid-") && str_to_uint(str_from(name + 4), &uid) && uid > 0 && uid < UINT32_MAX) {
        user.uid = user.gid = (uid_t)uid;
        snprintf(user.home, sizeof(user.home), "/");
        *ret = user;
        return 0;
    }
    if (getpwnam_r(name, &entry, text, sizeof(text), &found) != 0 || !found)
        return err_set(err, ERR_NOT_FOUND, "user '%s' has no account on this machine", name);
    user.uid = entry.pw_uid;
    user.gid = entry.pw_gid;
    snprintf(user.name, sizeof(user.name), "%s", entry.pw_name);
    snprintf(user.home, sizeof(user.home), "%s", entry.pw_dir);
    take_groups(&user, entry.pw_name);
    *ret = user;
    return 0;
}

/* setgroups of libc changes all threads; the system call changes this one. Giving up fsuid 0 also gives up
 * the rights to pass by permissions. */
int user_enter(const struct pod_user *user, struct user_rights *saved)
{
    saved->other = false;
    if (user->admin || user->uid == 0)
        return 0;
    saved->len = getgroups(ARRAY_LEN(saved->groups), saved->groups);
    if (saved->len < 0 || syscall(SYS_setgroups, user->groups_len, user->groups) < 0)
        return -1;
    setfsgid(user->gid);
    setfsuid(user->uid);
    saved->other = true;
    return 0;
}

void user_leave(const struct user_rights *saved)
{
    int sys = errno;

    if (!saved->other)
        return;
    setfsuid(0);
    setfsgid(0);
    syscall(SYS_setgroups, saved->len, saved->groups);
    errno = sys;
}

/* One call with the user's rights. flags < 0: mkdir. */
static int try_as(const struct pod_user *user, const char *path, int flags)
{
    struct user_rights saved;
    int result;

    if (user_enter(user, &saved) < 0)
        return -1;
    result = flags < 0 ? mkdir(path, 0755) : open(path, flags | O_CLOEXEC, 0644);
    user_leave(&saved);
    return result;
}

int user_mkdir(const struct pod_user *user, const char *path, struct err *err)
{
    CLEANUP(free) char *part = mem_strdup(path);

    for (char *slash = part + 1; *slash; slash++) {
        if (*slash != '/')
            continue;
        *slash = '\0';
        if (try_as(user, part, -1) < 0 && errno != EEXIST)
            return err_errno(err, errno, "make '%s'%s%s", part, *user->name ? " as " : "", user->name);
        *slash = '/';
    }
    if (try_as(user, part, -1) < 0 && errno != EEXIST)
        return err_errno(err, errno, "make '%s'%s%s", part, *user->name ? " as " : "", user->name);
    return 0;
}

int user_open(const struct pod_user *user, const char *path, int flags, struct err *err)
{
    int fd = try_as(user, path, flags);

    if (fd < 0)
        return err_errno(err, errno, "open '%s'%s%s", path, *user->name ? " as " : "", user->name);
    return fd;
}
