/* The checks of control/training_check.h on this machine, with the rights of the submitter. */
#include "api/train/internal.h"
#include "base/clock.h"
#include "base/mem.h"
#include "objects/names.h"
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
    int64_t deadline; /* of the loop's wait for all looks */
};

/* ---- in a thread: a directory service or a file server may hang ---- */

struct person_look {
    char name[LOGIN_NAME_MAX]; /* "": by uid */
    uid_t uid;
    bool found;
    gid_t gid, groups[GROUPS_MAX];
    int groups_len;
    char home[PATH_MAX];
};

static void find_account(void *work)
{
    struct person_look *look = work;
    struct passwd entry, *found = NULL;
    char text[NSS_BUF];

    if ((look->name[0] ? getpwnam_r(look->name, &entry, text, sizeof(text), &found)
                       : getpwuid_r(look->uid, &entry, text, sizeof(text), &found)) != 0 ||
        !found)
        return;
    look->found = true;
    look->uid = found->pw_uid;
    look->gid = found->pw_gid;
    snprintf(look->home, sizeof(look->home), "%s", found->pw_dir);
    look->groups_len = GROUPS_MAX;
    if (getgrouplist(found->pw_name, found->pw_gid, look->groups, &look->groups_len) < 0)
        look->groups_len = GROUPS_MAX;
}

struct path_look {
    bool root;
    uid_t uid;
    gid_t gid, groups[GROUPS_MAX];
    int groups_len, mode, sys;
    struct stat st;
    char path[PATH_MAX];
};

/* The system calls change this thread alone; giving up fsuid 0 gives up passing by permissions, too. */
static int become(const struct path_look *look)
{
    if (look->root || geteuid() != 0)
        return 0;
    if (syscall(SYS_setgroups, look->groups_len, look->groups) < 0)
        return errno;
    setfsgid(look->gid);
    setfsuid(look->uid);
    return (uid_t)setfsuid((uid_t)-1) == look->uid ? 0 : EPERM;
}

static void look_at_path(void *work)
{
    struct path_look *look = work;

    look->sys = become(look);
    if (look->sys == 0 && (stat(look->path, &look->st) < 0 ||
                           (look->mode && faccessat(AT_FDCWD, look->path, look->mode, AT_EACCESS) < 0)))
        look->sys = errno;
}

/* ---- with the person's rights ---- */

/* Somebody for whom an admin submits it. As find_person. */
static int find_other(const struct checking *c, const struct identity *who, const char *name,
                      struct person *ret)
{
    struct person_look *look;
    int found;

    *ret = (struct person){.name = name};
    if (strlen(name) >= LOGIN_NAME_MAX)
        return 0;
    look = NEW(struct person_look);
    snprintf(look->name, sizeof(look->name), "%s", name);
    if (!train_look(c->train->looks, who->user, c->deadline, find_account, free, look))
        return -1;
    found = look->found;
    if (found)
        *ret = (struct person){.name = name,
                               .home = arena_strdup(c->arena, look->home),
                               .root = look->uid == 0,
                               .uid = look->uid,
                               .gid = look->gid,
                               .groups_len = look->groups_len};
    memcpy(ret->groups, look->groups, sizeof(look->groups));
    free(look);
    return found;
}

/* 1: found, 0: nobody of this operating system, -1: it cannot be said now. */
static int find_person(const struct checking *c, const struct identity *who, struct person *ret)
{
    bool admin = access_is_admin(who);
    struct person_look *look;

    *ret = (struct person){.name = who->user, .root = admin || !who->has_uid || who->uid == 0};
    if (!who->has_uid && !admin)
        return 0;
    ret->uid = who->has_uid ? who->uid : 0;
    ret->gid = who->has_uid ? who->gid : 0;
    look = NEW(struct person_look);
    look->uid = ret->uid;
    if (!train_look(c->train->looks, who->user, c->deadline, find_account, free, look))
        return -1;
    if (look->found) {
        ret->home = arena_strdup(c->arena, look->home);
        ret->gid = look->gid;
        memcpy(ret->groups, look->groups, sizeof(look->groups));
        ret->groups_len = look->groups_len;
    }
    free(look);
    return 1;
}

/* 0, or an errno. ETIMEDOUT: whoever serves the path does not answer. */
static int may(const struct checking *c, const char *path, int mode, struct stat *st)
{
    struct path_look *look;
    int sys;

    if (strlen(path) >= PATH_MAX)
        return ENAMETOOLONG;
    look = NEW(struct path_look);
    look->root = c->person.root;
    look->uid = c->person.uid;
    look->gid = c->person.gid;
    look->groups_len = c->person.groups_len;
    look->mode = mode;
    memcpy(look->groups, c->person.groups, sizeof(look->groups));
    snprintf(look->path, sizeof(look->path), "%s", path);
    if (!train_look(c->train->looks, c->person.name, c->deadline, look_at_path, free, look))
        return ETIMEDOUT;
    sys = look->sys;
    *st = look->st;
    free(look);
    return sys;
}

static int why_not(struct err *err, const struct person *person, int sys, const char *what, const char *verb)
{
    if (sys == EACCES || sys == EPERM || sys == EROFS)
        return err_set(err, ERR_FORBIDDEN,
                       "%s may not %s it: give one of your own, or have its rights changed", person->name,
                       verb);
    if (sys == ETIMEDOUT)
        return err_set(err, ERR_UNAVAILABLE, "its file server does not answer; try again later");
    if (sys == ENOENT || sys == ENOTDIR)
        return err_set(err, ERR_NOT_FOUND, "there is no such %s on this machine", what);
    return err_errno(err, sys, "cannot look at it");
}

/* A folder that is to be made needs a parent that the person may write to. */
static int check_missing(const struct checking *c, const char *path, struct err *err)
{
    char parent[PATH_MAX];
    struct stat st;
    char *slash;
    int sys;

    snprintf(parent, sizeof(parent), "%s", path);
    do {
        slash = strrchr(parent, '/');
        if (!slash)
            return why_not(err, &c->person, ENOENT, "folder", "write to");
        *(slash == parent ? slash + 1 : slash) = '\0';
        sys = may(c, parent, W_OK | X_OK, &st);
    } while (sys == ENOENT && slash != parent);
    return sys ? why_not(err, &c->person, sys, "folder", "make") : 0;
}

static int check_folder(void *arg, const char *path, bool write, struct err *err)
{
    const struct checking *c = arg;
    struct stat st;
    int sys = may(c, path, (write ? W_OK : R_OK) | X_OK, &st);

    if (sys == ENOENT && write)
        return check_missing(c, path, err);
    if (sys)
        return why_not(err, &c->person, sys, "folder", write ? "write to" : "read");
    return S_ISDIR(st.st_mode) ? 0 : err_set(err, ERR_INVALID, "it is no folder");
}

static int check_file(void *arg, const char *path, struct err *err)
{
    const struct checking *c = arg;
    struct stat st;
    int sys = may(c, path, R_OK, &st);

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

    return may(c, path, R_OK | X_OK, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Names of our own jobs are long enough already. */
static int refuse(const struct write *write, const struct err *err)
{
    int code = err->code == ERR_FORBIDDEN     ? 403
               : err->code == ERR_EXISTS      ? 409
               : err->code == ERR_UNAVAILABLE ? 503
                                              : 422;

    failure_set(write->failure, write->arena, code,
                code == 403   ? "Forbidden"
                : code == 409 ? "Conflict"
                : code == 503 ? "ServiceUnavailable"
                              : "Invalid",
                "%s", err->msg);
    write->failure->retry_after = code == 503;
    return -1;
}

int train_admit(void *arg, const struct write *write, const struct kind *kind, const char *ns,
                struct json *doc, const struct object *old)
{
    struct checking c = {.train = arg, .arena = write->arena};
    struct training_facts facts = {.arg = &c, .port = check_port};
    struct json *spec = json_get(doc, "spec");
    const char *owner = work_rights(doc);
    struct err err = {0};
    int known;

    (void)ns;
    if (kind->id != KIND_TRAINING_JOB || old || !write->who || !json_is(spec, JSON_OBJECT))
        return 0;
    if (c.train->config.queue)
        queue_room(c.train->config.queue, &facts.room);
    facts.low_ports = access_is_admin(write->who);
    c.deadline = train_looks_deadline(c.train->looks, write->who->user);
    known = owner && !streq(owner, write->who->user) && !streq(owner, ADMIN_USER)
                ? find_other(&c, write->who, owner, &c.person)
                : find_person(&c, write->who, &c.person);
    if (known < 0) {
        err_set(&err, ERR_UNAVAILABLE, "the account of '%s' cannot be looked up now; try again later",
                c.person.name);
        return refuse(write, &err);
    }
    if (known) {
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
