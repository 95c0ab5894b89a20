/* The checks of control/training_check.h on this machine, with the rights of the submitter. */
#include "api/train/internal.h"
#include "queue/queue.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GROUPS_MAX 256
#define NSS_BUF    16384
#define SNAPSHOTS  ".berth/snapshots"

struct person {
    const char *name, *home; /* home NULL: none */
    bool root;               /* nothing is closed to them */
    uid_t uid;
    gid_t gid, groups[GROUPS_MAX];
    int groups_len;
};

struct checking {
    struct train *train;
    struct arena *arena;
    struct person person;
};

/* False: nobody of this operating system. */
static bool find_person(const struct identity *who, struct arena *arena, struct person *ret)
{
    bool admin = access_is_admin(who);
    struct passwd entry, *found = NULL;
    char text[NSS_BUF];

    *ret = (struct person){.name = who->user, .root = admin || !who->has_uid || who->uid == 0};
    if (!who->has_uid && !admin)
        return false;
    ret->uid = who->has_uid ? who->uid : 0;
    ret->gid = who->has_uid ? who->gid : 0;
    if (getpwuid_r(ret->uid, &entry, text, sizeof(text), &found) != 0 || !found)
        return true;
    ret->home = arena_strdup(arena, found->pw_dir);
    ret->gid = found->pw_gid;
    ret->groups_len = GROUPS_MAX;
    if (getgrouplist(found->pw_name, found->pw_gid, ret->groups, &ret->groups_len) < 0)
        ret->groups_len = GROUPS_MAX;
    return true;
}

/* ---- with the person's rights ---- */

struct rights {
    bool other;
    gid_t groups[GROUPS_MAX];
    int len;
};

/* The system calls change this thread alone; giving up fsuid 0 gives up passing by permissions, too. */
static void enter(const struct person *person, struct rights *saved)
{
    saved->other = false;
    if (person->root || geteuid() != 0)
        return;
    saved->len = getgroups(GROUPS_MAX, saved->groups);
    if (saved->len < 0 || syscall(SYS_setgroups, person->groups_len, person->groups) < 0)
        return;
    setfsgid(person->gid);
    setfsuid(person->uid);
    saved->other = true;
}

static void leave(const struct rights *saved)
{
    int sys = errno;

    if (saved->other) {
        setfsuid(0);
        setfsgid(0);
        syscall(SYS_setgroups, saved->len, saved->groups);
    }
    errno = sys;
}

/* 0, or an errno. */
static int may(const struct person *person, const char *path, int mode, struct stat *st)
{
    struct rights saved;
    int sys = 0;

    enter(person, &saved);
    if (stat(path, st) < 0 || (mode && faccessat(AT_FDCWD, path, mode, AT_EACCESS) < 0))
        sys = errno;
    leave(&saved);
    return sys;
}

static int why_not(struct err *err, const struct person *person, int sys, const char *what, const char *verb)
{
    if (sys == EACCES || sys == EPERM || sys == EROFS)
        return err_set(err, ERR_FORBIDDEN,
                       "%s may not %s it: give one of your own, or have its rights changed", person->name,
                       verb);
    if (sys == ENOENT || sys == ENOTDIR)
        return err_set(err, ERR_NOT_FOUND, "there is no such %s on this machine", what);
    return err_errno(err, sys, "cannot look at it");
}

/* A folder that is to be made needs a parent that the person may write to. */
static int check_missing(const struct person *person, const char *path, struct err *err)
{
    char parent[PATH_MAX];
    struct stat st;
    char *slash;
    int sys;

    snprintf(parent, sizeof(parent), "%s", path);
    do {
        slash = strrchr(parent, '/');
        if (!slash)
            return why_not(err, person, ENOENT, "folder", "write to");
        *(slash == parent ? slash + 1 : slash) = '\0';
        sys = may(person, parent, W_OK | X_OK, &st);
    } while (sys == ENOENT && slash != parent);
    return sys ? why_not(err, person, sys, "folder", "make") : 0;
}

static int check_folder(void *arg, const char *path, bool write, struct err *err)
{
    const struct checking *c = arg;
    struct stat st;
    int sys = may(&c->person, path, (write ? W_OK : R_OK) | X_OK, &st);

    if (sys == ENOENT && write)
        return check_missing(&c->person, path, err);
    if (sys)
        return why_not(err, &c->person, sys, "folder", write ? "write to" : "read");
    return S_ISDIR(st.st_mode) ? 0 : err_set(err, ERR_INVALID, "it is no folder");
}

static int check_file(void *arg, const char *path, struct err *err)
{
    const struct checking *c = arg;
    struct stat st;
    int sys = may(&c->person, path, R_OK, &st);

    if (sys == ENOENT || sys == ENOTDIR)
        return err_set(err, ERR_NOT_FOUND, "there is no such file");
    if (sys)
        return why_not(err, &c->person, sys, "file", "read");
    return S_ISDIR(st.st_mode) ? err_set(err, ERR_INVALID, "that is a folder") : 0;
}

/* ---- ports ---- */

static int check_port(void *arg, uint16_t port, struct err *err)
{
    const struct checking *c = arg;
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};
    const char *name = NULL;
    CLEANUP(fd_close) int fd = -1;

    if (c->train->config.queue && queue_port_taken(c->train->config.queue, port, c->arena, &name))
        return err_set(err, ERR_EXISTS, "job '%s' has asked for it", name);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 && errno == EADDRINUSE)
        return err_set(err, ERR_EXISTS, "a program of this machine listens there");
    return 0;
}

/* ---- the admission ---- */

static bool is_folder(const struct checking *c, const char *path)
{
    struct stat st;

    return may(&c->person, path, R_OK | X_OK, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Names of our own jobs are long enough already. */
static int refuse(const struct write *write, const struct err *err)
{
    int code = err->code == ERR_FORBIDDEN ? 403 : err->code == ERR_EXISTS ? 409 : 422;

    return failure_set(write->failure, write->arena, code,
                       code == 403   ? "Forbidden"
                       : code == 409 ? "Conflict"
                                     : "Invalid",
                       "%s", err->msg);
}

int train_admit(void *arg, const struct write *write, const struct kind *kind, const char *ns,
                struct json *doc, const struct object *old)
{
    struct checking c = {.train = arg, .arena = write->arena};
    struct training_facts facts = {.arg = &c, .port = check_port};
    struct json *spec = json_get(doc, "spec");
    struct err err = {0};

    (void)ns;
    if (kind->id != KIND_TRAINING_JOB || old || !write->who || !json_is(spec, JSON_OBJECT))
        return 0;
    if (c.train->config.queue)
        queue_room(c.train->config.queue, &facts.room);
    facts.low_ports = access_is_admin(write->who);
    if (find_person(write->who, c.arena, &c.person)) {
        facts.folder = check_folder;
        facts.file = check_file;
        if (c.person.home) {
            facts.datasets = arena_printf(c.arena, "%s/%s", c.person.home, c.train->config.datasets);
            facts.snapshots = arena_printf(c.arena, "%s/%s", c.person.home, SNAPSHOTS);
        }
    }
    if (facts.datasets && !is_folder(&c, facts.datasets))
        facts.datasets = NULL;
    if (facts.snapshots && !json_string_or(json_get(spec, "snapshotsDir"), "")[0] &&
        check_folder(&c, facts.snapshots, true, &err) == 0)
        json_set_string(c.arena, spec, "snapshotsDir", facts.snapshots);
    err = (struct err){0};
    return training_check(spec, &facts, &err) < 0 ? refuse(write, &err) : 0;
}
