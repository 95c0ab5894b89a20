/* The runtime itself: what it finds on this machine, and the list of its containers. */
#include "runtime/runtime.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/vec.h"
#include "runtime/bundle_caps.h"
#include "runtime/runtime_internal.h"
#include "runtime/seccomp.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>

/* ---- finding ---- */

static int find_oci(struct runtime *rt, const char *name, struct err *err)
{
    const char *base;

    if (name && oci_find(name, &rt->oci_path, err) < 0)
        return err_prefix(err, "OCI runtime");
    if (!name && oci_find("crun", &rt->oci_path, NULL) < 0 && oci_find("runc", &rt->oci_path, NULL) < 0)
        return err_set(err, ERR_NOT_FOUND, "no OCI runtime is installed: apt install crun (or runc)");
    base = strrchr(rt->oci_path, '/') + 1;
    rt->host.crun = starts_with(base, "crun");
    return 0;
}

/* Beside this program (a build folder has it in src/shim), in ../libexec/berth, on PATH. */
static int find_shim(struct runtime *rt, const char *path, struct err *err)
{
    static const char *const places[] = {"berth-shim", "../libexec/berth/berth-shim", "../shim/berth-shim",
                                         "src/shim/berth-shim"};
    char self[PATH_MAX];
    ssize_t len;

    if (path)
        return oci_find(path, &rt->shim_path, err) < 0 ? err_prefix(err, "berth-shim") : 0;
    len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[len > 0 ? len : 0] = '\0';
    if (strrchr(self, '/'))
        *strrchr(self, '/') = '\0';
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        CLEANUP(free) char *try = mem_printf("%s/%s", self, places[i]);
        CLEANUP(free) char *real = realpath(try, NULL);

        if (real && oci_find(real, &rt->shim_path, NULL) == 0)
            return 0;
    }
    return oci_find("berth-shim", &rt->shim_path, err);
}

static void find_init(struct runtime *rt, const char *path)
{
    if (oci_find(path ? path : "tini-static", &rt->init_path, NULL) < 0)
        rt->init_path = NULL;
}

static void read_boot_id(struct runtime *rt)
{
    const char *path = getenv("BERTH_BOOT_ID"); /* for tests of a reboot */
    CLEANUP(buf_done) struct buf text = {0};

    if (file_read(path ? path : "/proc/sys/kernel/random/boot_id", 64, &text, NULL) == 0 && text.len >= 36)
        memcpy(rt->boot_id, text.data, 36);
}

static int own_oom_score(void)
{
    CLEANUP(buf_done) struct buf text = {0};
    int64_t score = 0;

    if (file_read("/proc/self/oom_score_adj", 32, &text, NULL) == 0) {
        struct str line = buf_view(&text);

        while (line.len > 0 && line.s[line.len - 1] == '\n')
            line.len--;
        str_to_int(line, &score);
    }
    return (int)score;
}

int runtime_folders(struct runtime *rt, struct err *err)
{
    if (rt->state_dir[0] != '/' || rt->run_dir[0] != '/')
        return err_set(err, ERR_INVALID, "the folders of containers must be absolute paths");
    if (dir_make(rt->state_dir, 0711, err) < 0 || dir_make(rt->run_dir, 0711, err) < 0)
        return -1;
    return dir_make(rt->oci_root, 0700, err);
}

/* One parent per state folder: another daemon's clean-up must not take our containers for its strays. */
static char *default_parent(const char *state_dir)
{
    uint32_t hash = 2166136261U; /* FNV-1a: the same in every run */

    for (const char *c = state_dir; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619U;
    return mem_printf("/berth-%08x", hash);
}

static void describe_host(struct runtime *rt)
{
    rt->host.cgroups = cgroup_mode(rt->cgroup);
    rt->host.cgroup_parent = cgroup_parent(rt->cgroup);
    rt->host.has_swap = cgroup_has_swap(rt->cgroup);
    rt->host.init_path = rt->init_path;
    rt->host.seccomp = rt->seccomp;
    rt->host.caps_own = caps_own();
    rt->host.may_lower_oom = rt->host.caps_own & caps_mask("CAP_SYS_RESOURCE");
    rt->host.oom_score_own = own_oom_score();
}

int runtime_new(struct loop *loop, const struct runtime_config *config, struct runtime **ret, struct err *err)
{
    CLEANUP(runtime_free) struct runtime *rt = NEW(struct runtime);
    CLEANUP(free) char *parent = default_parent(config->state_dir);
    const char *bpf;

    rt->oci_fd = rt->nursery = -1;
    rt->loop = loop;
    rt->containers = map_new();
    rt->starting_max = RUNTIME_STARTS_PER_CPU * (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    rt->waiting_end = &rt->waiting;
    rt->seccomp = seccomp_new();
    rt->state_dir = mem_strdup(config->state_dir);
    rt->run_dir = mem_strdup(config->run_dir);
    rt->oci_root = mem_printf("%s/oci", config->run_dir);
    if (geteuid() != 0)
        return err_set(err, ERR_UNSUPPORTED, "containers need root");
    if (find_oci(rt, config->oci_runtime, err) < 0 || find_shim(rt, config->shim_path, err) < 0)
        return -1;
    find_init(rt, config->init_path);
    if (cgroup_new(config->cgroup_parent ? config->cgroup_parent : parent, &rt->cgroup, err) < 0 ||
        runtime_folders(rt, err) < 0)
        return -1;
    if (rt->host.crun)
        rt->oci_fd = oci_seal(rt->oci_path);
    rt->sweeper = sweeper_new(rt->state_dir, removal_tree);
    cgroup_make_parent(rt->cgroup);
    if (config->favor_changes)
        cgroup_favor_changes(rt->cgroup);
    read_boot_id(rt);
    describe_host(rt);
    /* The first container should not wait for it. */
    if (rt->host.crun && seccomp_bpf(rt->seccomp, caps_default & rt->host.caps_own, &bpf, err) < 0)
        return -1;
    signal(SIGPIPE, SIG_IGN); /* a command may close its stdin before we have written all */
    *ret = TAKE_PTR(rt);
    return 0;
}

void runtime_free(struct runtime *rt)
{
    if (!rt)
        return;
    removals_abandon(rt);
    rt->starting_max = 0; /* those that wait are not started any more */
    while (map_len(rt->containers) > 0) {
        size_t at = 0;
        struct str key;
        void *c;

        if (map_next(rt->containers, &at, &key, &c))
            runtime_forget(c);
    }
    map_free(rt->containers);
    nursery_end(rt);
    sweeper_free(rt->sweeper);
    seccomp_free(rt->seccomp);
    cgroup_free(rt->cgroup);
    free(rt->state_dir);
    free(rt->run_dir);
    free(rt->oci_root);
    fd_close(rt->oci_fd);
    free(rt->oci_path);
    free(rt->shim_path);
    free(rt->init_path);
    free(rt);
}

const char *runtime_oci_path(const struct runtime *rt)
{
    return rt->oci_path;
}

const char *runtime_shim_path(const struct runtime *rt)
{
    return rt->shim_path;
}

enum runtime_cgroups runtime_cgroups(const struct runtime *rt)
{
    return rt->host.cgroups;
}

const char *runtime_cgroups_text(const struct runtime *rt)
{
    static const char *const texts[] = {
        [RUNTIME_CGROUPS_V1] = "cgroup v1",
        [RUNTIME_CGROUPS_HYBRID] = "cgroup v1 hybrid",
        [RUNTIME_CGROUPS_V2] = "cgroup v2",
    };

    return texts[rt->host.cgroups];
}

/* ---- the list ---- */

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int runtime_list(struct runtime *rt, char ***ret, size_t *len, struct err *err)
{
    DIR *dir = opendir(rt->state_dir);
    const struct dirent *entry;
    VEC(char *) ids = {0};

    if (!dir)
        return err_errno(err, errno, "open '%s'", rt->state_dir);
    while ((entry = readdir(dir)))
        if (bundle_id_valid(entry->d_name))
            vec_push(&ids, mem_strdup(entry->d_name));
    closedir(dir);
    if (ids.len > 0)
        qsort(ids.v, ids.len, sizeof(*ids.v), compare);
    *ret = ids.v;
    *len = ids.len;
    return 0;
}

void runtime_list_free(char **ids, size_t len)
{
    for (size_t i = 0; i < len; i++)
        free(ids[i]);
    free(ids);
}
