/* Hierarchies are found in mountinfo, never guessed from paths. Everything here is a handful of small reads
 * and writes in cgroupfs, which do not wait for anything but the kernel. */
#include "runtime/cgroup.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define FAVOR_CHANGES "favordynmods"
#define FOLDERS_MAX   100000 /* below a container's, which it may make itself, as deep as it likes */
#define KILL_ROUNDS   4
#define FILE_MAX      65536
#define MOUNTS_BYTES  (4 << 20)

struct hierarchy {
    char *mount;
    char *controllers; /* ",cpu,cpuacct," of v1; NULL: v2 */
    char *options;     /* of the whole hierarchy: "rw,nsdelegate"; NULL: v1 */
};

struct cgroup {
    enum runtime_cgroups mode;
    char *parent; /* "/berth" */
    VEC(struct hierarchy) hierarchies;
};

/* ---- finding ---- */

static struct str field(struct str *rest)
{
    struct str word = {0};

    str_split(rest, ' ', &word);
    return word;
}

/* "29 28 0:25 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu": mount point, and after the
 * lone dash type, source, options. */
static void parse_line(struct cgroup *cg, struct str line)
{
    struct str mount, root, type, options;

    for (int i = 0; i < 3; i++)
        field(&line);
    root = field(&line);
    mount = field(&line);
    while (line.len > 0 && !str_is(field(&line), "-"))
        ;
    type = field(&line);
    field(&line);
    options = field(&line);
    /* A bind of some cgroup's folder is not the hierarchy, unless it is all we can see (a container's). */
    if (!str_starts(root, "/") || str_starts(root, "/.."))
        return;
    if (str_is(type, "cgroup2")) {
        vec_push(&cg->hierarchies, (struct hierarchy){mem_strndup(mount.s, mount.len), NULL,
                                                      mem_strndup(options.s, options.len)});
    } else if (str_is(type, "cgroup")) {
        char *list = mem_printf(",%.*s,", STR_ARG(options));

        vec_push(&cg->hierarchies, (struct hierarchy){mem_strndup(mount.s, mount.len), list, NULL});
    }
}

static const struct hierarchy *find(const struct cgroup *cg, const char *controller)
{
    char word[32];

    snprintf(word, sizeof(word), ",%s,", controller);
    VEC_EACH(&cg->hierarchies, it)
        if (it->controllers ? strstr(it->controllers, word) != NULL : cg->mode == RUNTIME_CGROUPS_V2)
            return it;
    return NULL;
}

static const struct hierarchy *unified(const struct cgroup *cg)
{
    VEC_EACH(&cg->hierarchies, it)
        if (!it->controllers)
            return it;
    return NULL;
}

static int check_v1(const struct cgroup *cg, struct err *err)
{
    static const char *const needed[] = {"memory", "cpu", "cpuacct", "devices", "pids"};

    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        if (!find(cg, needed[i]))
            return err_set(
                err, ERR_UNSUPPORTED,
                "cgroup v1 is in use, but its controller '%s' is not mounted; mount it, or start the machine "
                "with systemd.unified_cgroup_hierarchy=1",
                needed[i]);
    return 0;
}

int cgroup_parse(struct str mountinfo, struct str unified_controllers, const char *parent,
                 struct cgroup **ret, struct err *err)
{
    CLEANUP(cgroup_free) struct cgroup *cg = NEW(struct cgroup);
    bool v1 = false, v2 = false;
    struct str line;

    cg->parent = mem_strdup(parent);
    while (str_split(&mountinfo, '\n', &line))
        parse_line(cg, line);
    VEC_EACH(&cg->hierarchies, it)
        *(it->controllers ? &v1 : &v2) = true;
    if (!v1 && !v2)
        return err_set(err, ERR_UNSUPPORTED, "no cgroups are mounted (/sys/fs/cgroup)");
    if (!v1) {
        cg->mode = RUNTIME_CGROUPS_V2;
        if (!memmem(unified_controllers.s, unified_controllers.len, "memory", 6))
            return err_set(err, ERR_UNSUPPORTED,
                           "cgroup v2 is in use, but its memory controller is not available here "
                           "(Delegate=yes missing, or cgroup_disable=memory)");
    } else {
        cg->mode = v2 && str_trim(unified_controllers).len > 0 ? RUNTIME_CGROUPS_HYBRID : RUNTIME_CGROUPS_V1;
        if (check_v1(cg, err) < 0)
            return -1;
    }
    *ret = TAKE_PTR(cg);
    return 0;
}

int cgroup_new(const char *parent, struct cgroup **ret, struct err *err)
{
    static const char *const places[] = {"/sys/fs/cgroup/cgroup.controllers",
                                         "/sys/fs/cgroup/unified/cgroup.controllers"};
    CLEANUP(buf_done) struct buf mounts = {0};
    CLEANUP(buf_done) struct buf controllers = {0};

    if (file_read("/proc/self/mountinfo", MOUNTS_BYTES, &mounts, err) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (file_read(places[i], FILE_MAX, &controllers, NULL) == 0)
            break;
    while (controllers.len > 0 && controllers.data[controllers.len - 1] == '\n')
        controllers.len--;
    return cgroup_parse(buf_view(&mounts), buf_view(&controllers), parent, ret, err);
}

void cgroup_free(struct cgroup *cg)
{
    if (!cg)
        return;
    VEC_EACH(&cg->hierarchies, it) {
        free(it->mount);
        free(it->controllers);
        free(it->options);
    }
    vec_done(&cg->hierarchies);
    free(cg->parent);
    free(cg);
}

enum runtime_cgroups cgroup_mode(const struct cgroup *cg)
{
    return cg->mode;
}

const char *cgroup_parent(const struct cgroup *cg)
{
    return cg->parent;
}

const char *cgroup_hide(const struct cgroup *cg)
{
    return cg->mode == RUNTIME_CGROUPS_HYBRID ? unified(cg)->mount : NULL;
}

/* ---- files ---- */

static char *path_of(const struct cgroup *cg, const struct hierarchy *h, const char *id, const char *file)
{
    return mem_printf("%s%s/%s%s%s", h->mount, cg->parent, id, file ? "/" : "", file ? file : "");
}

static bool read_file(const struct cgroup *cg, const char *controller, const char *id, const char *file,
                      struct buf *ret)
{
    const struct hierarchy *h = find(cg, controller);
    CLEANUP(free) char *path = h ? path_of(cg, h, id, file) : NULL;

    buf_clear(ret);
    return path && file_read(path, FILE_MAX, ret, NULL) == 0;
}

static bool write_file(const char *path, const char *text)
{
    CLEANUP(fd_close) int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);

    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* The number after `key ` at the start of a line, or the whole text for a NULL key. */
static uint64_t number(const struct buf *text, const char *key)
{
    struct str rest = buf_view(text), line;
    uint64_t n = 0;

    while (str_split(&rest, '\n', &line)) {
        if (key) {
            size_t len = strlen(key);

            if (!str_starts(line, key) || line.len <= len || line.s[len] != ' ')
                continue;
            line = (struct str){line.s + len + 1, line.len - len - 1};
        }
        return str_to_uint(line, &n) ? n : 0;
    }
    return 0;
}

bool cgroup_has_swap(const struct cgroup *cg)
{
    const struct hierarchy *h = find(cg, "memory");
    CLEANUP(free) char *path = NULL;

    if (cg->mode == RUNTIME_CGROUPS_V2)
        return access("/proc/swaps", F_OK) == 0;
    path = h ? mem_printf("%s/memory.memsw.limit_in_bytes", h->mount) : NULL;
    return path && access(path, F_OK) == 0;
}

/* cgroup v2 has files of a controller only where the folder above says so. */
static void enable_controllers(const struct hierarchy *h)
{
    static const char *const wanted[] = {"+cpu", "+memory", "+pids"};
    CLEANUP(free) char *file = mem_printf("%s/cgroup.subtree_control", h->mount);

    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        write_file(file, wanted[i]); /* one by one: none hinders the others */
}

void cgroup_make_parent(const struct cgroup *cg)
{
    const struct hierarchy *h = find(cg, "cpu");
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    CLEANUP(free) char *dir = h ? mem_printf("%s%s", h->mount, cg->parent) : NULL;
    CLEANUP(free) char *file = NULL;
    char text[32];

    if (h && !h->controllers)
        enable_controllers(h);
    if (!dir || (mkdir(dir, 0755) < 0 && errno != EEXIST) || cpus < 1)
        return;
    file = mem_printf("%s/%s", dir, h->controllers ? "cpu.shares" : "cpu.weight");
    if (h->controllers)
        snprintf(text, sizeof(text), "%ld", cpus < 256 ? 1024 * cpus : 262144);
    else
        snprintf(text, sizeof(text), "%ld", cpus < 100 ? 100 * cpus : 10000);
    write_file(file, text); /* not where the machine does not let us: then it weighs as one */
}

bool cgroup_favor_changes(const struct cgroup *cg)
{
    const struct hierarchy *h = unified(cg);
    CLEANUP(free) char *options = NULL;
    struct statvfs fs;

    if (!h)
        return false;
    if (strstr(h->options, FAVOR_CHANGES))
        return true;
    /* A remount forgets what is not said again; "rw" and its like are flags, not options. */
    options = mem_printf("%s," FAVOR_CHANGES, str_starts(str_from(h->options), "rw,") ? h->options + 3 : "");
    if (statvfs(h->mount, &fs) < 0)
        return false;
    return mount(NULL, h->mount, NULL,
                 MS_REMOUNT | (fs.f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_RELATIME)),
                 options[0] == ',' ? options + 1 : options) == 0;
}

char *cgroup_weight_path(const struct cgroup *cg, const char *id, int64_t shares, char text[32])
{
    const struct hierarchy *h = find(cg, "cpu");
    bool v1 = h && h->controllers;

    /* The scale of v1, 2 to 262144, onto that of v2, 1 to 10000, as OCI runtimes do it. */
    snprintf(text, 32, "%lld", (long long)(v1 ? shares : 1 + (shares - 2) * 9999 / 262142));
    return h ? path_of(cg, h, id, v1 ? "cpu.shares" : "cpu.weight") : NULL;
}

char *cgroup_oom_path(const struct cgroup *cg, const char *id)
{
    const struct hierarchy *h = find(cg, "memory");

    return h ? path_of(cg, h, id, h->controllers ? "memory.oom_control" : "memory.events") : NULL;
}

char *cgroup_path(const struct cgroup *cg, size_t i, const char *id)
{
    return i < cg->hierarchies.len ? path_of(cg, &cg->hierarchies.v[i], id, NULL) : NULL;
}

uint64_t cgroup_cpu(const struct cgroup *cg, const char *id)
{
    bool v2 = cg->mode == RUNTIME_CGROUPS_V2;
    CLEANUP(buf_done) struct buf text = {0};

    if (!read_file(cg, v2 ? "cpu" : "cpuacct", id, v2 ? "cpu.stat" : "cpuacct.usage", &text))
        return 0;
    return v2 ? number(&text, "usage_usec") * 1000 : number(&text, NULL);
}

int cgroup_stats(const struct cgroup *cg, const char *id, struct runtime_stats *ret, struct err *err)
{
    bool v2 = cg->mode == RUNTIME_CGROUPS_V2;
    struct runtime_stats stats = {0};
    CLEANUP(buf_done) struct buf text = {0};
    uint64_t inactive;

    if (!read_file(cg, "memory", id, v2 ? "memory.current" : "memory.usage_in_bytes", &text))
        return err_set(err, ERR_NOT_FOUND, "container '%s' has no cgroup", id);
    stats.memory_bytes = number(&text, NULL);
    read_file(cg, "memory", id, "memory.stat", &text);
    inactive = number(&text, v2 ? "inactive_file" : "total_inactive_file");
    stats.working_set_bytes = stats.memory_bytes > inactive ? stats.memory_bytes - inactive : 0;
    read_file(cg, "memory", id, v2 ? "memory.events" : "memory.oom_control", &text);
    stats.oom_kills = number(&text, "oom_kill");
    stats.cpu_ns = cgroup_cpu(cg, id);
    read_file(cg, "pids", id, "pids.current", &text);
    stats.pids = number(&text, NULL);
    *ret = stats;
    return 0;
}

/* ---- killing and removing ---- */

/* The folders in one, and how far they have been gone through. */
struct level {
    VEC(char *) names;
    size_t at;
};

static void level_read(int fd, struct level *ret)
{
    DIR *dir = fdopendir(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    const struct dirent *entry;

    *ret = (struct level){0};
    if (!dir)
        return;
    rewinddir(dir);
    while ((entry = readdir(dir)))
        if (entry->d_type == DT_DIR && !streq(entry->d_name, ".") && !streq(entry->d_name, ".."))
            vec_push(&ret->names, mem_strdup(entry->d_name));
    closedir(dir);
}

static void level_done(struct level *level)
{
    VEC_EACH(&level->names, it)
        free(*it);
    vec_done(&level->names);
}

/* Calls fn for the folder and all below it, the deepest first. fd is taken. One descriptor is enough for any
 * depth: cgroups are not moved, so the way back is "..". */
static void each_folder(int fd, void (*fn)(void *arg, int dir), void *arg)
{
    VEC(struct level) way = {0};
    struct level level;

    if (fd < 0)
        return;
    level_read(fd, &level);
    vec_push(&way, level);
    for (size_t seen = 0; way.len > 0 && seen < FOLDERS_MAX;) {
        struct level *here = &way.v[way.len - 1];
        int next = -1;

        if (here->at < here->names.len) {
            next = openat(fd, here->names.v[here->at++], O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
            if (next < 0)
                continue; /* it has gone */
            level_read(next, &level);
            vec_push(&way, level);
        } else {
            fn(arg, fd);
            seen++;
            level_done(here);
            way.len--;
            if (way.len > 0 && (next = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
                break;
        }
        fd_close(fd);
        fd = next;
    }
    VEC_EACH(&way, it)
        level_done(it);
    vec_done(&way);
    fd_close(fd);
}

static void kill_procs(void *arg, int dir)
{
    size_t *found = arg;
    CLEANUP(fd_close) int fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    CLEANUP(file_close) FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    long pid;

    if (!file)
        return;
    take_fd(&fd);
    while (fscanf(file, "%ld", &pid) == 1) // NOLINT(cert-err34-c): the kernel's own numbers
        if (pid > 0 && kill((pid_t)pid, SIGKILL) == 0)
            ++*found;
}

static size_t kill_in(const struct cgroup *cg, const struct hierarchy *h, const char *id)
{
    CLEANUP(free) char *path = path_of(cg, h, id, NULL);
    CLEANUP(free) char *kill_all = path_of(cg, h, id, "cgroup.kill");
    CLEANUP(free) char *freeze = path_of(cg, h, id, "freezer.state");
    size_t all = 0;

    /* Frozen, nothing can fork away; what was killed dies when it thaws. */
    if (h->controllers)
        write_file(freeze, "FROZEN");
    for (int round = 0; round < KILL_ROUNDS; round++) {
        size_t found = 0;

        each_folder(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), kill_procs, &found);
        all = found > all ? found : all;
        if (found == 0 || round > 0)
            break;
    }
    if (h->controllers)
        write_file(freeze, "THAWED");
    else
        write_file(kill_all, "1");
    return all;
}

size_t cgroup_kill(const struct cgroup *cg, const char *id)
{
    const struct hierarchy *h = find(cg, "freezer");

    if (!h)
        h = find(cg, "pids");
    return h ? kill_in(cg, h, id) : 0;
}

static void remove_children(void *arg, int dir)
{
    struct level level;

    (void)arg;
    level_read(dir, &level);
    VEC_EACH(&level.names, it)
        unlinkat(dir, *it, AT_REMOVEDIR);
    level_done(&level);
}

int cgroup_remove(const struct cgroup *cg, const char *id, struct err *err)
{
    VEC_EACH(&cg->hierarchies, it) {
        CLEANUP(free) char *path = path_of(cg, it, id, NULL);

        if (rmdir(path) == 0 || errno == ENOENT)
            continue;
        each_folder(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), remove_children, NULL);
        if (rmdir(path) == 0 || errno == ENOENT)
            continue;
        if (errno == EBUSY || errno == ENOTEMPTY)
            return err_set(err, ERR_CONFLICT, "cgroup '%s' still has processes", path);
        return err_errno(err, errno, "remove cgroup '%s'", path);
    }
    return 0;
}

void cgroup_each(const struct cgroup *cg, void (*fn)(void *arg, const char *id), void *arg)
{
    VEC_EACH(&cg->hierarchies, it) {
        CLEANUP(free) char *path = mem_printf("%s%s", it->mount, cg->parent);
        DIR *dir = opendir(path);
        const struct dirent *entry;

        while (dir && (entry = readdir(dir)))
            if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
                fn(arg, entry->d_name);
        if (dir)
            closedir(dir);
    }
}
