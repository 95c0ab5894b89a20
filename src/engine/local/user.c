/* Who a pod's processes are, and files opened with that person's rights. */
#include "engine/local/internal.h"
#include "loop/offload.h"
#include "objects/names.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define NOBODYS_GROUP 65534 /* nogroup */

static bool is_admin(const struct local_engine *engine, const char *name)
{
    if (!name) /* nobody's: it must not run, least of all as root */
        return false;
    if (streq(name, ADMIN_USER))
        return true;
    for (size_t i = 0; engine->admins && engine->admins[i]; i++)
        if (streq(engine->admins[i], name))
            return true;
    return false;
}

/* A line of /etc/group for it, as far as there is room. */
static void name_group(struct pod_user *user, gid_t gid)
{
    size_t len = strlen(user->group_lines), room = sizeof(user->group_lines) - len;
    struct group group, *found = NULL;
    char text[16384];

    if (getgrgid_r(gid, &group, text, sizeof(text), &found) == 0 && found &&
        (size_t)snprintf(user->group_lines + len, room, "%s:x:%u:\n", found->gr_name, (unsigned)gid) >= room)
        user->group_lines[len] = '\0';
}

static void take_groups(struct pod_user *user, const char *name)
{
    gid_t all[IMAGE_GROUPS_MAX];
    int len = IMAGE_GROUPS_MAX;

    if (getgrouplist(name, user->gid, all, &len) < 0)
        len = IMAGE_GROUPS_MAX; /* more than that: the first ones */
    for (int i = 0; i < len; i++)
        if (all[i] != user->gid) {
            user->groups[user->groups_len++] = all[i];
            name_group(user, all[i]);
        }
}

static bool is_number(const char *name, uint64_t *uid)
{
    return starts_with(name, "uid-") && str_to_uint(str_from(name + 4), uid) && *uid > 0 && *uid < UINT32_MAX;
}

bool user_by_number(const char *name, uid_t *uid)
{
    uint64_t number;

    if (!is_number(name, &number))
        return false;
    *uid = (uid_t)number;
    return true;
}

bool user_needs_no_account(const struct local_engine *engine, const char *name)
{
    uint64_t uid;

    return is_admin(engine, name) || (name && is_number(name, &uid));
}

bool user_known_at_once(const struct local_engine *engine, const struct json *pod, struct pod_user *ret)
{
    const char *name = work_rights(pod);
    uint64_t uid;

    *ret = (struct pod_user){0};
    if (is_admin(engine, name)) {
        ret->admin = true;
        return true;
    }
    if (!name || !is_number(name, &uid))
        return false;
    ret->uid = (uid_t)uid;
    ret->gid = NOBODYS_GROUP; /* the group of that number is somebody else's: shadow, sudo, docker */
    snprintf(ret->home, sizeof(ret->home), "/");
    return true;
}

/* ---- looking up: a directory service may take its time ---- */

struct lookup {
    char *name;
    struct pod_user user;
    struct err err;
    int result;
};

static void lookup_drop(void *work)
{
    struct lookup *lookup = work;

    free(lookup->name);
    free(lookup);
}

static void lookup_work(void *work)
{
    struct lookup *lookup = work;
    struct pod_user *user = &lookup->user;
    struct passwd entry, *found = NULL;
    struct group group, *its = NULL;
    char text[16384];

    if (getpwnam_r(lookup->name, &entry, text, sizeof(text), &found) != 0 || !found) {
        lookup->result =
            err_set(&lookup->err, ERR_NOT_FOUND, "user '%s' has no account on this machine", lookup->name);
        return;
    }
    user->uid = entry.pw_uid;
    user->gid = entry.pw_gid;
    snprintf(user->name, sizeof(user->name), "%s", entry.pw_name);
    snprintf(user->home, sizeof(user->home), "%s", entry.pw_dir);
    take_groups(user, entry.pw_name);
    if (getgrgid_r(user->gid, &group, text, sizeof(text), &its) == 0 && its)
        snprintf(user->group, sizeof(user->group), "%s", its->gr_name);
}

static void lookup_done(void *owner, void *work)
{
    struct local_pod *pod = owner;
    struct lookup *lookup = work;
    struct err late = {0};

    sandbox_part_gone(pod);
    pod->user_asked = false;
    if (!lookup) {
        err_set(&late, ERR_TIMEOUT, "looking up the user takes longer than %d s", OFFLOAD_SEC);
        sandbox_not_yet(pod, &late);
        return;
    }
    if (lookup->result < 0) {
        sandbox_not_yet(pod, &lookup->err);
    } else {
        pod->user = lookup->user;
        pod->user_known = true;
        pod_queue(pod);
    }
    lookup_drop(lookup);
}

int user_find(struct local_pod *pod, struct err *err)
{
    struct lookup *lookup;

    if (pod->user_known || pod->user_asked)
        return 0;
    if (user_known_at_once(pod->engine, pod->doc, &pod->user)) {
        pod->user_known = true;
        return 0;
    }
    if (!work_rights(pod->doc))
        return err_set(err, ERR_FORBIDDEN, NO_OWNER);
    lookup = NEW(struct lookup);
    lookup->name = mem_strdup(work_rights(pod->doc));
    if (offload_run(pod->engine->offload, OFFLOAD_SEC, lookup_work, lookup_done, lookup_drop, pod, lookup,
                    err) < 0) {
        lookup_drop(lookup);
        return -1;
    }
    pod->user_asked = true;
    pod->pending++;
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

/* Links of /proc/self lead to what berthd itself has open, past every permission on the way: not for users.
 */
static int open_path(int at, const char *path, int flags, bool magic)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC),
                           .mode = flags & O_CREAT ? 0644 : 0,
                           .resolve = magic ? 0 : RESOLVE_NO_MAGICLINKS};

    return (int)syscall(SYS_openat2, at, path, &how, sizeof(how));
}

/* The last part of the path is made in the folder that the rest of it names. */
static int make_last(const char *path, bool magic)
{
    CLEANUP(free) char *parent = mem_strdup(path);
    char *name = strrchr(parent, '/');
    CLEANUP(fd_close) int at = -1;

    if (!name || name == parent)
        return mkdir(path, 0755);
    *name++ = '\0';
    at = open_path(AT_FDCWD, parent, O_PATH | O_DIRECTORY, magic);
    return at < 0 ? -1 : mkdirat(at, name, 0755);
}

/* One call with the user's rights. flags < 0: mkdir. */
static int try_as(const struct pod_user *user, const char *path, int flags)
{
    struct user_rights saved;
    int result;

    if (user_enter(user, &saved) < 0)
        return -1;
    result = flags < 0 ? make_last(path, user->admin) : open_path(AT_FDCWD, path, flags, user->admin);
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
