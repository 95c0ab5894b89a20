/* What others remove of the run folder while containers run: cleaners of temporary files, `umount`, a hand. A
 * shim can make its folder again (shim/mend.c); here it is found out which have to, and they are told. */
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/vec.h"
#include "runtime/runtime_internal.h"

#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define LOG_MODULE   "runtime"
#define RESCUE_TIME  (3 * NSEC_PER_SEC) /* for all shims to have made their folders */
#define RESCUE_STEP  2000               /* microseconds */
#define DELETED      " (deleted)"
#define CGROUP_BYTES 65536

/* Without one of these a shim cannot be found again, or commands not be run in its container. */
static const char *const needed[] = {"shim.sock", "shim.conf", "config.json"};

static bool is_there(const char *dir, const char *name)
{
    CLEANUP(free) char *path = mem_printf("%s/%s", dir, name);

    return access(path, F_OK) == 0;
}

/* One that has ended removes its files itself. */
static bool is_whole(const struct runtime *rt, const char *dir, const char *id)
{
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        if (!is_there(dir, needed[i]))
            return is_there(dir, "exit");
    return is_there(rt->oci_root, id) || is_there(dir, "exit");
}

size_t runtime_mend(struct runtime *rt)
{
    struct str key;
    void *value;
    size_t at = 0, told = 0;
    struct err err = {0};

    if (runtime_folders(rt, &err) < 0)
        log_warn("%s", err.msg);
    while (map_next(rt->containers, &at, &key, &value)) {
        const struct runtime_container *c = value;

        if (c->state != CONTAINER_RUNNING || c->control < 0 || c->shim_pid <= 0 ||
            is_whole(rt, c->dir, c->id))
            continue;
        kill(c->shim_pid, SIGHUP); /* its socket is open: the pid is still its own */
        told++;
    }
    return told;
}

/* ---- at start ---- */

struct rescue {
    struct runtime *rt;
    VEC(char *) dirs;
};

/* "berth-shim run ID", from its list of arguments; false: it is none. */
static bool shim_id(const char *pid, char ret[RUNTIME_ID_MAX + 1])
{
    static const char title[] = "berth-shim run ";
    CLEANUP(free) char *path = mem_printf("/proc/%s/cmdline", pid);
    CLEANUP(buf_done) struct buf text = {0};
    struct str word;

    if (file_read(path, 4096, &text, NULL) < 0 || text.len <= sizeof(title) ||
        memcmp(text.data, title, sizeof(title) - 1) != 0)
        return false;
    word = (struct str){text.data + sizeof(title) - 1,
                        strnlen(text.data + sizeof(title) - 1, text.len - (sizeof(title) - 1))};
    if (word.len == 0 || word.len > RUNTIME_ID_MAX)
        return false;
    snprintf(ret, RUNTIME_ID_MAX + 1, "%.*s", STR_ARG(word));
    return bundle_id_valid(ret);
}

/* A folder that was removed is told by its name. One that was unmounted has none, but is still there: what
 * its shim.conf says is its place. */
static bool lost_folder(const struct runtime *rt, const char *pid, const char *dir, const char *id)
{
    CLEANUP(free) char *cwd = mem_printf("/proc/%s/cwd", pid);
    CLEANUP(free) char *conf = mem_printf("/proc/%s/cwd/shim.conf", pid);
    CLEANUP(free) char *was = mem_printf("%s" DELETED, dir);
    CLEANUP(free) char *bundle = mem_printf("bundle=%s", dir);
    CLEANUP(buf_done) struct buf text = {0};
    char link[PATH_MAX];
    struct stat here, there;
    ssize_t len = readlink(cwd, link, sizeof(link) - 1);

    if (len <= 0 || stat(cwd, &here) < 0)
        return false;
    link[len] = '\0';
    if (stat(dir, &there) == 0 && there.st_ino == here.st_ino && there.st_dev == here.st_dev)
        return !is_whole(rt, dir, id);
    if (streq(link, was))
        return true;
    return file_read(conf, SHIM_CONF_MAX, &text, NULL) == 0 &&
           memmem(text.data, text.len, bundle, strlen(bundle) + 1);
}

static void rescue_one(struct rescue *rescue, const char *pid)
{
    CLEANUP(free) char *exe = mem_printf("/proc/%s/exe", pid), *dir = NULL;
    char id[RUNTIME_ID_MAX + 1], program[PATH_MAX];
    ssize_t len = readlink(exe, program, sizeof(program) - 1);

    program[len > 0 ? len : 0] = '\0';
    if (!strstr(program, "/berth-shim") || !shim_id(pid, id))
        return;
    dir = mem_printf("%s/%s", rescue->rt->state_dir, id);
    if (!lost_folder(rescue->rt, pid, dir, id) || kill((pid_t)strtol(pid, NULL, 10), SIGHUP) < 0)
        return;
    log_warn("container %s runs, but its folder was removed: making it again", id);
    vec_push(&rescue->dirs, TAKE_PTR(dir));
}

size_t runtime_rescue(struct runtime *rt)
{
    struct rescue rescue = {.rt = rt};
    int64_t end = clock_monotonic() + RESCUE_TIME;
    DIR *proc = opendir("/proc");
    const struct dirent *entry;
    size_t found;

    while (proc && (entry = readdir(proc)))
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
            rescue_one(&rescue, entry->d_name);
    if (proc)
        closedir(proc);
    found = rescue.dirs.len;
    VEC_EACH(&rescue.dirs, it) {
        while (!is_whole(rt, *it, strrchr(*it, '/') + 1) && clock_monotonic() < end)
            usleep(RESCUE_STEP);
        free(*it);
    }
    vec_done(&rescue.dirs);
    return found;
}

/* ---- its process ---- */

static bool in_cgroup_of(pid_t pid, const char *id)
{
    CLEANUP(free) char *path = mem_printf("/proc/%d/cgroup", (int)pid);
    CLEANUP(buf_done) struct buf text = {0};

    return file_read(path, CGROUP_BYTES, &text, NULL) == 0 && memmem(text.data, text.len, id, strlen(id));
}

pid_t runtime_pid(const struct runtime *rt, const char *id)
{
    const struct runtime_container *c = map_get(rt->containers, str_from(id));
    CLEANUP(free) char *path = mem_printf("%s/%s/pid", rt->state_dir, id);
    CLEANUP(buf_done) struct buf text = {0};
    int64_t pid = c ? c->pid : 0;
    struct str number;

    if (pid <= 0 && file_read(path, 32, &text, NULL) == 0) {
        number = buf_view(&text);
        while (number.len > 0 && number.s[number.len - 1] == '\n')
            number.len--;
        if (!str_to_int(number, &pid) || pid > INT32_MAX)
            return 0;
    }
    return pid > 0 && in_cgroup_of((pid_t)pid, id) ? (pid_t)pid : 0;
}
