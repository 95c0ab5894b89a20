/* Removing containers, and what is left of those nobody knows. A removal is tried again and again, in growing
 * steps: killed processes need a moment to die, and a shim to finish its own cleaning up. It goes by id only,
 * so it works just as well on the remains of a crash. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/vec.h"
#include "runtime/runtime_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define LOG_MODULE    "runtime"

#define STEP_MIN      (2 * NSEC_PER_MSEC)
#define STEP_MAX      (200 * NSEC_PER_MSEC)
#define SHIM_TIME     (5 * NSEC_PER_SEC)  /* for the shim's own cleaning up, then it is killed */
#define DEPTH_MAX     32                  /* of folders in a container's folder */
#define MOUNTS_ON_ONE 16                  /* on top of each other */
#define TOTAL_TIME    (30 * NSEC_PER_SEC) /* then it is given up, with a sentence */

struct removal {
    struct runtime *rt;
    struct removal *next;
    char *id, *dir;
    int control; /* -1: no shim */
    pid_t shim_pid;
    struct loop_io *io;
    struct loop_timer *timer;
    int64_t begun, step;
    runtime_done_fn done;
    void *arg;
};

static void removal_free(struct removal *r)
{
    for (struct removal **at = &r->rt->removals; *at; at = &(*at)->next)
        if (*at == r) {
            *at = r->next;
            break;
        }
    loop_io_free(r->io);
    fd_close(r->control);
    loop_timer_free(r->timer);
    free(r->id);
    free(r->dir);
    free(r);
}

static void removal_end(struct removal *r, const char *sentence)
{
    runtime_done_fn done = r->done;
    void *arg = r->arg;

    if (sentence)
        log_warn("container %s: %s", r->id, sentence);
    removal_free(r);
    if (done)
        done(arg, sentence);
}

/* ---- files and mounts ---- */

/* Takes off all that is mounted on that name; false: something stays. */
static bool unmount_at(int dir, const char *name)
{
    CLEANUP(free)
    char *path = dir == AT_FDCWD ? mem_strdup(name) : mem_printf("/proc/self/fd/%d/%s", dir, name);
    struct statx st;

    for (int i = 0; i < MOUNTS_ON_ONE; i++) {
        if (statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_TYPE, &st) < 0)
            return errno == ENOENT;
        if (!(st.stx_attributes & STATX_ATTR_MOUNT_ROOT))
            return true;
        if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
            return false;
    }
    return false;
}

static void remove_at(int dir, const char *name, int depth)
{
    CLEANUP(fd_close) int fd = -1;
    struct dirent *entry;
    DIR *list;

    if (!unmount_at(dir, name) || unlinkat(dir, name, 0) == 0 || depth >= DEPTH_MAX)
        return;
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    list = fd < 0 ? NULL : fdopendir(fd);
    if (!list)
        return;
    while ((entry = readdir(list)))
        if (!streq(entry->d_name, ".") && !streq(entry->d_name, ".."))
            remove_at(fd, entry->d_name, depth + 1);
    take_fd(&fd);
    closedir(list);
    unlinkat(dir, name, AT_REMOVEDIR);
}

/* A container's folder has our own files only, but something may be mounted in it, on folders and on files.
 * Each name is asked whether it is a mount before anything below it is touched: reading the list of all
 * mounts instead takes the longer the more containers there are. Does not follow links. */
void removal_tree(const char *path)
{
    remove_at(AT_FDCWD, path, 0);
}

/* ---- one removal ---- */

static bool wait_for_shim(struct removal *r, int64_t age)
{
    if (r->control < 0)
        return false;
    if (age > SHIM_TIME && r->shim_pid > 0) {
        kill(r->shim_pid, SIGKILL); /* its socket is open: the pid is still its own */
        r->shim_pid = 0;
    }
    return true;
}

static void try_again(struct removal *r)
{
    loop_timer_set(r->timer, r->step);
    r->step = r->step * 2 < STEP_MAX ? r->step * 2 : STEP_MAX;
}

static void removal_turn(void *arg)
{
    struct removal *r = arg;
    struct runtime *rt = r->rt;
    int64_t age = clock_monotonic() - r->begun;
    CLEANUP(free) char *state = mem_printf("%s/%s", rt->oci_root, r->id);
    struct err err = {0};

    cgroup_kill(rt->cgroup, r->id);
    if (age < TOTAL_TIME && wait_for_shim(r, age)) {
        try_again(r);
        return;
    }
    if (cgroup_remove(rt->cgroup, r->id, &err) < 0 && age < TOTAL_TIME) {
        try_again(r);
        return;
    }
    sweeper_take(rt->sweeper, r->dir);
    removal_tree(state);
    if (err.code == ERR_NONE && access(r->dir, F_OK) == 0)
        err_set(&err, ERR_SYSTEM, "folder '%s' could not be removed", r->dir);
    removal_end(r, err.code ? err.msg : NULL);
}

static void on_control(void *arg, uint32_t events)
{
    struct removal *r = arg;
    static char data[SHIM_CHUNK];
    struct shim_msg msg = {0};
    ssize_t len = oci_recv(r->control, &msg, data, sizeof(data), NULL);

    (void)events;
    if (len < 0 && errno == EAGAIN)
        return;
    if (len >= 0) {
        if (msg.type == SHIM_HELLO) {
            struct shim_msg end = {.type = SHIM_SIGNAL, .signal = SIGKILL};

            r->shim_pid = msg.shim_pid;
            oci_send(r->control, &end, NULL, 0);
        }
        return;
    }
    loop_io_free(r->io);
    r->io = NULL;
    fd_close(take_fd(&r->control));
    loop_timer_set(r->timer, 0);
}

void removal_start(struct runtime *rt, const char *id, const char *dir, int control, pid_t shim_pid,
                   runtime_done_fn done, void *arg)
{
    struct removal *r = NEW(struct removal);
    struct shim_msg end = {.type = SHIM_SIGNAL, .signal = SIGKILL};

    *r = (struct removal){.rt = rt, .next = rt->removals, .control = control, .shim_pid = shim_pid};
    r->id = mem_strdup(id);
    r->dir = mem_strdup(dir);
    r->begun = clock_monotonic();
    r->step = STEP_MIN;
    r->done = done;
    r->arg = arg;
    r->timer = loop_timer_new(rt->loop, removal_turn, r);
    if (control >= 0) {
        r->io = loop_io_new(rt->loop, control, EPOLLIN, on_control, r);
        oci_send(control, &end, NULL, 0);
    }
    rt->removals = r;
    loop_timer_set(r->timer, 0);
}

/* ---- everything that belongs to nobody ---- */

struct sweep {
    size_t open; /* removals under way, and one for the search itself */
    char *sentence;
    runtime_done_fn done;
    void *arg;
};

static void swept(void *arg, const char *sentence)
{
    struct sweep *sweep = arg;

    if (sentence && !sweep->sentence)
        sweep->sentence = mem_strdup(sentence);
    if (--sweep->open > 0)
        return;
    if (sweep->done)
        sweep->done(sweep->arg, sweep->sentence);
    free(sweep->sentence);
    free(sweep);
}

void removals_abandon(struct runtime *rt)
{
    while (rt->removals) {
        struct removal *r = rt->removals;

        rt->removals = r->next;
        if (r->done == swept) {
            struct sweep *sweep = r->arg;

            sweep->done = NULL; /* nobody hears it any more */
            swept(sweep, NULL);
        }
        removal_free(r);
    }
}

static void swept_timer(struct runtime *rt, struct sweep *sweep)
{
    /* An empty removal of no container: done is then called from the loop in any case. */
    CLEANUP(free) char *none = mem_printf("%s/.none", rt->run_dir);

    removal_start(rt, ".none", none, -1, 0, swept, sweep);
}

static bool under_removal(const struct runtime *rt, const char *id)
{
    for (const struct removal *r = rt->removals; r; r = r->next)
        if (streq(r->id, id))
            return true;
    return false;
}

static void sweep_one(struct runtime *rt, struct sweep *sweep, const char *id)
{
    CLEANUP(free) char *dir = mem_printf("%s/%s", rt->state_dir, id);
    int control = -1;

    if (runtime_get(rt, id) || under_removal(rt, id))
        return;
    oci_connect(dir, &control);
    sweep->open++;
    removal_start(rt, id, dir, control, 0, swept, sweep);
}

struct seen {
    struct runtime *rt;
    struct sweep *sweep;
};

static void sweep_unknown(void *arg, const char *id)
{
    const struct seen *seen = arg;
    CLEANUP(free) char *dir = mem_printf("%s/%s", seen->rt->state_dir, id);

    if (bundle_id_valid(id) && access(dir, F_OK) < 0)
        sweep_one(seen->rt, seen->sweep, id);
}

static void each_name(const char *path, void (*fn)(void *arg, const char *name), void *arg)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            fn(arg, entry->d_name);
    if (dir)
        closedir(dir);
}

/* A shim whose folder is gone keeps nothing but itself. */
static void kill_stray_shim(void *arg, const char *name)
{
    const struct runtime *rt = arg;
    char path[64], cwd[PATH_MAX], exe[PATH_MAX];
    ssize_t len;

    if (name[0] < '1' || name[0] > '9')
        return;
    snprintf(path, sizeof(path), "/proc/%.20s/cwd", name);
    len = readlink(path, cwd, sizeof(cwd) - 1);
    if (len <= 0)
        return;
    cwd[len] = '\0';
    if (strncmp(cwd, rt->state_dir, strlen(rt->state_dir)) != 0 || cwd[strlen(rt->state_dir)] != '/' ||
        !ends_with(cwd, " (deleted)"))
        return;
    snprintf(path, sizeof(path), "/proc/%.20s/exe", name);
    len = readlink(path, exe, sizeof(exe) - 1);
    exe[len > 0 ? len : 0] = '\0';
    if (strstr(exe, "/berth-shim"))
        kill((pid_t)strtol(name, NULL, 10), SIGKILL);
}

struct pins {
    struct runtime *rt;
    bool (*keep)(void *arg, const char *id);
    void *arg;
};

static void sweep_pin(void *arg, const char *file)
{
    const struct pins *pins = arg;
    CLEANUP(free) char *name = mem_strdup(file);
    char *dot = strrchr(name, '.');

    if (!dot)
        return;
    *dot = '\0';
    if (!pins->keep || !pins->keep(pins->arg, name))
        runtime_ns_unpin(pins->rt, name);
}

void runtime_cleanup(struct runtime *rt, bool (*keep)(void *arg, const char *id), runtime_done_fn done,
                     void *arg)
{
    struct sweep *sweep = NEW(struct sweep);
    struct seen seen = {rt, sweep};
    struct pins pins = {rt, keep, arg};
    CLEANUP(free) char *ns = mem_printf("%s/ns", rt->run_dir);
    char **ids = NULL;
    size_t len = 0;

    *sweep = (struct sweep){.open = 1, .done = done, .arg = arg};
    if (runtime_list(rt, &ids, &len, NULL) == 0)
        for (size_t i = 0; i < len; i++)
            if (!keep || !keep(arg, ids[i]))
                sweep_one(rt, sweep, ids[i]);
    runtime_list_free(ids, len);
    cgroup_each(rt->cgroup, sweep_unknown, &seen);
    each_name(rt->oci_root, sweep_unknown, &seen);
    each_name(ns, sweep_pin, &pins);
    each_name("/proc", kill_stray_shim, rt);
    swept_timer(rt, sweep);
}
