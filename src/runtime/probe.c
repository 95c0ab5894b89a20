/* Whether an OCI runtime works here is found out by starting a container with it: what it needs of the
 * kernel, of cgroups and of where we are (a chroot, another container) is only known to itself. The
 * container's root is an empty folder with berth-shim in it, which is linked statically and says at once that
 * all is well. It has a loop and a struct runtime of its own, so that the daemon's are made with an OCI
 * runtime that works. */
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "runtime/runtime_internal.h"

#include <stdio.h>

#define LOG_MODULE        "runtime"

#define PROBE_SEC         30 /* a machine that is so busy is not held up any longer */
#define TURN_MS           500
#define PROGRAM           "/berth-shim"
#define MOUNTS_BYTES      (4 << 20)
#define MOUNT_POINT_FIELD 5 /* of a line of mountinfo, counted from 1 */

struct probe {
    bool over, removed;
    char *refusal; /* NULL: it worked */
};

static void on_exited(void *arg, struct runtime_container *c, const struct runtime_exit *how)
{
    struct probe *probe = arg;

    (void)c;
    if (how->code)
        probe->refusal = mem_printf("the first container ended with status %d instead of 0", how->code);
    probe->over = true;
}

static void on_failed(void *arg, struct runtime_container *c, const char *sentence)
{
    struct probe *probe = arg;

    (void)c;
    probe->refusal = mem_strdup(sentence);
    probe->over = true;
}

static void on_removed(void *arg, const char *sentence)
{
    struct probe *probe = arg;

    (void)sentence; /* it is in the log */
    probe->removed = true;
}

static void turn_until(struct loop *loop, const bool *over)
{
    int64_t end = clock_monotonic() + PROBE_SEC * NSEC_PER_SEC;

    while (!*over && clock_monotonic() < end)
        if (loop_turn(loop, TURN_MS, NULL) < 0)
            return;
}

/* *refusal: the OCI runtime's own sentence, when it could not; free it. */
static int run(struct loop *loop, struct runtime *rt, const char *rootfs, char **refusal, struct err *err)
{
    static const struct runtime_events events = {.exited = on_exited, .failed = on_failed};
    const char *const args[] = {PROGRAM, "try", NULL};
    const struct runtime_mount program = {
        .source = rt->shim_path, .target = PROGRAM, .flags = RUNTIME_MOUNT_RO};
    struct runtime_spec spec = {.rootfs = rootfs,
                                .args = args,
                                .mounts = &program,
                                .mounts_len = 1,
                                .net = {.mode = RUNTIME_NS_HOST},
                                .memory_bytes = 64 << 20};
    struct runtime_container *c = NULL;
    struct probe probe = {0};
    char id[32];

    snprintf(id, sizeof(id), "probe-%d", (int)getpid());
    spec.id = id;
    if (runtime_start(rt, &spec, &events, &probe, &c, err) < 0)
        return -1;
    turn_until(loop, &probe.over);
    if (!probe.over)
        log_warn("%s: the first container has not ended within %d s", rt->oci_path, PROBE_SEC);
    runtime_remove(c, on_removed, &probe);
    turn_until(loop, &probe.removed);
    *refusal = probe.refusal;
    return 0;
}

/* One container by `oci`, to its end. */
static int try_oci(const struct runtime_config *config, const char *oci, char **refusal, struct err *err)
{
    CLEANUP(loop_free) struct loop *loop = loop_new();
    CLEANUP(free) char *state = mem_printf("%s/probe", config->run_dir);
    CLEANUP(free) char *rootfs = mem_printf("%s/probe-root", config->run_dir);
    struct runtime_config own = *config;
    struct runtime *rt = NULL;
    int result;

    own.oci_runtime = oci;
    own.state_dir = state;
    if (runtime_new(loop, &own, &rt, err) < 0)
        return -1;
    result = dir_make(rootfs, 0755, err) < 0 ? -1 : run(loop, rt, rootfs, refusal, err);
    runtime_free(rt);
    removal_tree(rootfs);
    removal_tree(state);
    return result;
}

/* Containers get their root by pivot_root, which the kernel refuses in a chroot whose root is an ordinary
 * folder. What the OCI runtimes say of it names everything but that. */
static bool root_is_mount_point(void)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct str rest, line;

    if (file_read("/proc/self/mountinfo", MOUNTS_BYTES, &text, NULL) < 0)
        return true;
    rest = buf_view(&text);
    while (str_split(&rest, '\n', &line)) {
        struct str word = {0};

        for (int i = 0; i < MOUNT_POINT_FIELD; i++)
            str_split(&line, ' ', &word);
        if (str_is(word, "/"))
            return true;
    }
    return false;
}

int runtime_open(struct loop *loop, const struct runtime_config *config, struct runtime **ret, char **warning,
                 struct err *err)
{
    const char *const candidates[] = {config->oci_runtime ? config->oci_runtime : "crun",
                                      config->oci_runtime ? NULL : "runc"};
    CLEANUP(buf_done) struct buf refusals = {0};
    struct runtime_config chosen = *config;

    for (size_t i = 0; i < ARRAY_LEN(candidates); i++) {
        CLEANUP(free) char *path = NULL;
        CLEANUP(free) char *refusal = NULL;

        if (!candidates[i] || oci_find(candidates[i], &path, NULL) < 0)
            continue;
        if (try_oci(config, path, &refusal, err) < 0)
            return -1;
        if (!refusal) {
            chosen.oci_runtime = path;
            *warning = refusals.len ? mem_strdup(refusals.data) : NULL;
            return runtime_new(loop, &chosen, ret, err);
        }
        buf_printf(&refusals, "%s%s cannot start containers here: %s", refusals.len ? "; " : "", path,
                   refusal);
    }
    if (refusals.len && !root_is_mount_point())
        return err_set(
            err, ERR_UNSUPPORTED,
            "no container can be started in this chroot, because its root is not a mount point: run "
            "'mount --bind DIR DIR' before 'chroot DIR'");
    if (refusals.len)
        return err_set(err, ERR_UNSUPPORTED, "%s", refusals.data);
    return runtime_new(loop, config, ret, err); /* none is installed: it says so */
}
