/* config.json of a container, member by member. What the machine cannot give (capabilities, rlimits, a lower
 * OOM score) is left out rather than passed on: the OCI runtime would refuse the whole container. */
#include "runtime/bundle.h"

#include "base/json.h"
#include "runtime/bundle_caps.h"
#include "runtime/seccomp.h"

#include <ctype.h>
#include <sys/resource.h>

#define CPU_PERIOD_USEC 100000
#define CPU_QUOTA_MIN   1000       /* the kernel's least */
#define CPU_MILLI_MAX   1000000000 /* a million cpus; more is no limit either, and the kernel refuses some */

static const char default_path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

static const char *const masked_paths[] = {
    "/proc/acpi",          "/proc/asound",
    "/proc/kcore",         "/proc/keys",
    "/proc/latency_stats", "/proc/sched_debug",
    "/proc/scsi",          "/proc/timer_list",
    "/proc/timer_stats",   "/sys/devices/virtual/powercap",
    "/sys/firmware",
};
static const char *const readonly_paths[] = {
    "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger",
};

bool bundle_id_valid(const char *id)
{
    size_t len = id ? strlen(id) : 0;

    if (len == 0 || len > RUNTIME_ID_MAX || !isalnum((unsigned char)id[0]))
        return false;
    for (const char *c = id; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
            return false;
    return true;
}

static bool has_env(const char *const *env, const char *prefix)
{
    for (; env && *env; env++)
        if (starts_with(*env, prefix))
            return true;
    return false;
}

static void put_list(struct arena *arena, struct json *object, const char *key, const char *const *list)
{
    struct json *array = json_set_array(arena, object, key);

    for (; list && *list; list++)
        json_push_string(arena, array, *list);
}

static void put_pairs(struct arena *arena, struct json *object, const struct runtime_pair *pairs, size_t len)
{
    for (size_t i = 0; i < len; i++)
        json_set_string(arena, object, pairs[i].key, pairs[i].value);
}

static void put_env(struct arena *arena, struct json *process, const char *const *env, bool tty)
{
    struct json *array = json_set_array(arena, process, "env");

    if (!has_env(env, "PATH="))
        json_push_string(arena, array, default_path);
    if (tty && !has_env(env, "TERM="))
        json_push_string(arena, array, "TERM=xterm");
    for (; env && *env; env++)
        json_push_string(arena, array, *env);
}

static void put_size(struct arena *arena, struct json *process, uint16_t rows, uint16_t cols)
{
    struct json *size = json_set_object(arena, process, "consoleSize");

    json_set_int(arena, size, "height", rows ? rows : 24);
    json_set_int(arena, size, "width", cols ? cols : 80);
}

/* ---- process ---- */

static uint64_t own_hard_limit(const struct bundle_host *host, const char *type)
{
    static const struct {
        const char *name;
        __rlimit_resource_t resource;
    } limits[] = {
        {"RLIMIT_AS", RLIMIT_AS},           {"RLIMIT_CORE", RLIMIT_CORE},
        {"RLIMIT_CPU", RLIMIT_CPU},         {"RLIMIT_DATA", RLIMIT_DATA},
        {"RLIMIT_FSIZE", RLIMIT_FSIZE},     {"RLIMIT_LOCKS", RLIMIT_LOCKS},
        {"RLIMIT_MEMLOCK", RLIMIT_MEMLOCK}, {"RLIMIT_MSGQUEUE", RLIMIT_MSGQUEUE},
        {"RLIMIT_NICE", RLIMIT_NICE},       {"RLIMIT_NOFILE", RLIMIT_NOFILE},
        {"RLIMIT_NPROC", RLIMIT_NPROC},     {"RLIMIT_RSS", RLIMIT_RSS},
        {"RLIMIT_RTPRIO", RLIMIT_RTPRIO},   {"RLIMIT_RTTIME", RLIMIT_RTTIME},
        {"RLIMIT_STACK", RLIMIT_STACK},     {"RLIMIT_SIGPENDING", RLIMIT_SIGPENDING},
    };
    struct rlimit own;

    if (host->rlimit_max)
        return host->rlimit_max;
    if (host->may_lower_oom) /* CAP_SYS_RESOURCE also raises limits */
        return UINT64_MAX;
    for (size_t i = 0; i < ARRAY_LEN(limits); i++)
        if (streq(type, limits[i].name) && getrlimit(limits[i].resource, &own) == 0)
            return own.rlim_max == RLIM_INFINITY ? UINT64_MAX : own.rlim_max;
    return 0;
}

static struct json of_uint(struct arena *arena, uint64_t n)
{
    struct json value = {.type = JSON_BIG};

    if (n <= INT64_MAX)
        return json_of_int((int64_t)n);
    value.string = arena_printf(arena, "%llu", (unsigned long long)n);
    value.len = (uint32_t)strlen(value.string);
    return value;
}

static void put_rlimits(const struct bundle_host *host, const struct runtime_spec *spec, struct arena *arena,
                        struct json *process)
{
    struct json *array = json_set_array(arena, process, "rlimits");

    for (size_t i = 0; i < spec->rlimits_len; i++) {
        const struct runtime_rlimit *limit = &spec->rlimits[i];
        uint64_t max = own_hard_limit(host, limit->type);
        struct json *row;

        if (max == 0)
            continue;
        row = json_push_object(arena, array);
        json_set_string(arena, row, "type", limit->type);
        json_set(arena, row, "hard", of_uint(arena, limit->hard < max ? limit->hard : max));
        json_set(arena, row, "soft", of_uint(arena, limit->soft < max ? limit->soft : max));
    }
}

static void put_caps(struct arena *arena, struct json *process, uint64_t caps)
{
    static const char *const sets[] = {"bounding", "effective", "permitted"};
    struct json *object = json_set_object(arena, process, "capabilities");

    for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
        struct json *array = json_set_array(arena, object, sets[i]);

        for (int bit = 0; bit < CAPS_COUNT; bit++)
            if (caps >> bit & 1)
                json_push(arena, array, json_of_string_ref(caps_name(bit)));
    }
}

static void put_user(struct arena *arena, struct json *process, uid_t uid, gid_t gid, const gid_t *groups,
                     size_t groups_len)
{
    struct json *user = json_set_object(arena, process, "user"), *array;

    json_set_int(arena, user, "uid", uid);
    json_set_int(arena, user, "gid", gid);
    array = json_set_array(arena, user, "additionalGids");
    for (size_t i = 0; i < groups_len; i++)
        json_push(arena, array, json_of_int(groups[i]));
}

static void put_args(const struct runtime_spec *spec, struct arena *arena, struct json *process)
{
    struct json *args = json_set_array(arena, process, "args");

    if (spec->init) {
        json_push_string(arena, args, BUNDLE_INIT);
        if (spec->pid.mode != RUNTIME_NS_OWN)
            json_push_string(arena, args, "-s"); /* not PID 1, but still the one that reaps */
        json_push_string(arena, args, "--");
    }
    for (const char *const *arg = spec->args; *arg; arg++)
        json_push_string(arena, args, *arg);
}

static void put_process(const struct bundle_host *host, const struct runtime_spec *spec, uint64_t caps,
                        struct arena *arena, struct json *config)
{
    struct json *process = json_set_object(arena, config, "process");
    int oom = spec->oom_score_adj;

    json_set_bool(arena, process, "terminal", spec->tty);
    if (spec->tty)
        put_size(arena, process, spec->tty_rows, spec->tty_cols);
    put_user(arena, process, spec->uid, spec->gid, spec->groups, spec->groups_len);
    put_args(spec, arena, process);
    put_env(arena, process, spec->env, spec->tty);
    json_set_string(arena, process, "cwd", spec->cwd ? spec->cwd : "/");
    put_caps(arena, process, caps);
    put_rlimits(host, spec, arena, process);
    json_set_bool(arena, process, "noNewPrivileges", spec->no_new_privileges);
    if (!host->may_lower_oom && oom < host->oom_score_own)
        oom = host->oom_score_own;
    json_set_int(arena, process, "oomScoreAdj", oom);
}

/* ---- linux ---- */

static void put_namespace(struct arena *arena, struct json *array, const char *type, struct runtime_ns ns)
{
    struct json *row;

    if (ns.mode == RUNTIME_NS_HOST)
        return;
    row = json_push_object(arena, array);
    json_set_string(arena, row, "type", type);
    if (ns.mode == RUNTIME_NS_PATH)
        json_set_string(arena, row, "path", ns.path);
}

static void put_namespaces(const struct bundle_host *host, const struct runtime_spec *spec,
                           struct arena *arena, struct json *linux_)
{
    struct json *array = json_set_array(arena, linux_, "namespaces");
    const struct runtime_ns own = {.mode = RUNTIME_NS_OWN};

    put_namespace(arena, array, "mount", own);
    put_namespace(arena, array, "pid", spec->pid);
    put_namespace(arena, array, "network", spec->net);
    put_namespace(arena, array, "ipc", spec->ipc);
    put_namespace(arena, array, "uts", spec->uts);
    if (host->cgroups == RUNTIME_CGROUPS_V2) /* else the host's figures are seen in the container */
        put_namespace(arena, array, "cgroup", own);
}

static void put_device_rule(struct arena *arena, struct json *rules, bool allow, char type, int64_t major,
                            int64_t minor, const char *access)
{
    struct json *rule = json_push_object(arena, rules);
    char text[2] = {type, '\0'};

    json_set_bool(arena, rule, "allow", allow);
    if (type)
        json_set_string(arena, rule, "type", text);
    if (major >= 0)
        json_set_int(arena, rule, "major", major);
    if (minor >= 0)
        json_set_int(arena, rule, "minor", minor);
    json_set_string(arena, rule, "access", access);
}

static void put_devices(const struct runtime_spec *spec, struct arena *arena, struct json *linux_,
                        struct json *resources)
{
    struct json *devices = json_set_array(arena, linux_, "devices");
    struct json *rules = json_set_array(arena, resources, "devices");

    put_device_rule(arena, rules, spec->privileged, '\0', -1, -1, "rwm");
    for (size_t i = 0; i < spec->devices_len; i++) {
        const struct runtime_device *d = &spec->devices[i];
        struct json *row = json_push_object(arena, devices);
        char type[2] = {d->type, '\0'};

        json_set_string(arena, row, "path", d->path);
        json_set_string(arena, row, "type", type);
        if (d->type != 'p') {
            json_set_int(arena, row, "major", d->major);
            json_set_int(arena, row, "minor", d->minor);
        }
        json_set_int(arena, row, "fileMode", d->mode ? d->mode : 0666);
        json_set_int(arena, row, "uid", d->uid);
        json_set_int(arena, row, "gid", d->gid);
        if (!spec->privileged && d->type != 'p')
            put_device_rule(arena, rules, true, d->type, d->major, d->minor, d->access ? d->access : "rwm");
    }
    if (spec->privileged)
        bundle_host_devices(arena, devices);
}

static void put_limits(const struct bundle_host *host, const struct runtime_spec *spec, struct arena *arena,
                       struct json *resources)
{
    struct json *cpu = json_set_object(arena, resources, "cpu");

    /* A small weight is set once it runs: what the OCI runtime does in the container's cgroup before that
     * would take long on a busy machine. */
    json_set_int(arena, cpu, "shares",
                 spec->cpu_shares > BUNDLE_START_SHARES ? spec->cpu_shares : BUNDLE_START_SHARES);
    if (spec->cpu_milli > 0) {
        int64_t milli = spec->cpu_milli < CPU_MILLI_MAX ? spec->cpu_milli : CPU_MILLI_MAX;
        int64_t quota = milli * CPU_PERIOD_USEC / 1000;

        json_set_int(arena, cpu, "period", CPU_PERIOD_USEC);
        json_set_int(arena, cpu, "quota", quota < CPU_QUOTA_MIN ? CPU_QUOTA_MIN : quota);
    }
    if (spec->cpus)
        json_set_string(arena, cpu, "cpus", spec->cpus);
    if (spec->memory_bytes > 0) {
        struct json *memory = json_set_object(arena, resources, "memory");

        json_set_int(arena, memory, "limit", spec->memory_bytes);
        if (host->has_swap) /* memory and swap together: no swap */
            json_set_int(arena, memory, "swap", spec->memory_bytes);
    }
    if (spec->pids_max > 0)
        json_set_int(arena, json_set_object(arena, resources, "pids"), "limit", spec->pids_max);
}

static int put_linux(const struct bundle_host *host, const struct runtime_spec *spec, uint64_t caps,
                     struct arena *arena, struct json *config, struct err *err)
{
    /* Built apart and then set: setters' pointers do not outlive a growing parent. */
    struct json *linux_ = json_new_object(arena), *resources = json_new_object(arena), *array;
    bool confined = !spec->privileged && !spec->seccomp_unconfined;
    const char *bpf;

    json_set_string(arena, linux_, "cgroupsPath",
                    arena_printf(arena, "%s/%s", host->cgroup_parent, spec->id));
    put_namespaces(host, spec, arena, linux_);
    put_devices(spec, arena, linux_, resources);
    put_limits(host, spec, arena, resources);
    json_set(arena, linux_, "resources", *resources);
    if (spec->sysctls_len > 0)
        put_pairs(arena, json_set_object(arena, linux_, "sysctl"), spec->sysctls, spec->sysctls_len);
    if (!spec->privileged && !spec->unmask_proc) {
        array = json_set_array(arena, linux_, "maskedPaths");
        for (size_t i = 0; i < ARRAY_LEN(masked_paths); i++)
            json_push(arena, array, json_of_string_ref(masked_paths[i]));
        array = json_set_array(arena, linux_, "readonlyPaths");
        for (size_t i = 0; i < ARRAY_LEN(readonly_paths); i++)
            json_push(arena, array, json_of_string_ref(readonly_paths[i]));
    }
    if (confined && host->crun) {
        if (seccomp_bpf(host->seccomp, caps, &bpf, err) < 0)
            return -1;
        json_set(arena, json_need_object(arena, config, "annotations"), "run.oci.seccomp_bpf_data",
                 json_of_string_ref(bpf));
    } else if (confined) {
        json_set(arena, linux_, "seccomp", seccomp_oci(arena, caps));
    }
    json_set(arena, config, "linux", *linux_);
    return 0;
}

static void put_hooks(const struct runtime_spec *spec, struct arena *arena, struct json *config)
{
    struct json *hooks;

    if (spec->hooks_len == 0)
        return;
    hooks = json_new_object(arena);
    for (size_t i = 0; i < spec->hooks_len; i++) {
        const struct runtime_hook *hook = &spec->hooks[i];
        struct json *array = json_get(hooks, hook->when), *row;

        if (!array)
            array = json_set_array(arena, hooks, hook->when);
        row = json_push_object(arena, array);
        json_set_string(arena, row, "path", hook->path);
        if (hook->args)
            put_list(arena, row, "args", hook->args);
        if (hook->env)
            put_list(arena, row, "env", hook->env);
        if (hook->timeout_sec > 0)
            json_set_int(arena, row, "timeout", hook->timeout_sec);
    }
    json_set(arena, config, "hooks", *hooks);
}

/* Annotations can come from users, and crun does as some of them say. */
static void put_annotations(const struct runtime_spec *spec, struct arena *arena, struct json *config)
{
    struct json *object = json_set_object(arena, config, "annotations");

    for (size_t i = 0; i < spec->annotations_len; i++) {
        const struct runtime_pair *pair = &spec->annotations[i];

        if (!starts_with(pair->key, "run.oci.") && !starts_with(pair->key, "org.systemd.") &&
            !starts_with(pair->key, "org.criu."))
            json_set_string(arena, object, pair->key, pair->value);
    }
}

/* ---- the whole ---- */

static int check_spec(const struct bundle_host *host, const struct runtime_spec *spec, struct err *err)
{
    if (!bundle_id_valid(spec->id))
        return err_set(err, ERR_INVALID, "container id '%s' is not valid", spec->id ? spec->id : "");
    if (!spec->rootfs || spec->rootfs[0] != '/')
        return err_set(err, ERR_INVALID, "rootfs must be an absolute path");
    if (!spec->args || !spec->args[0])
        return err_set(err, ERR_INVALID, "no command specified");
    if (spec->cwd && spec->cwd[0] != '/')
        return err_set(err, ERR_INVALID, "working directory '%s' must be an absolute path", spec->cwd);
    if (spec->log_path && spec->log_path[0] != '/')
        return err_set(err, ERR_INVALID, "log path '%s' must be absolute", spec->log_path);
    if (spec->init && !host->init_path)
        return err_set(err, ERR_NOT_FOUND, "an init process is wanted, but tini-static is not installed");
    for (const char *const *env = spec->env; env && *env; env++)
        if (!strchr(*env, '=') || (*env)[0] == '=')
            return err_set(err, ERR_INVALID, "environment '%s' has no name", *env);
    for (size_t i = 0; i < spec->devices_len; i++)
        if (!strchr("cbp", spec->devices[i].type) || !spec->devices[i].path ||
            spec->devices[i].path[0] != '/')
            return err_set(err, ERR_INVALID, "device %zu needs a path and the type c, b or p", i);
    return 0;
}

int bundle_config(const struct bundle_host *host, const struct runtime_spec *spec, struct buf *ret,
                  struct err *err)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *config = json_new_object(&arena), *root;
    uint64_t caps = CAPS_ALL;

    if (check_spec(host, spec, err) < 0)
        return -1;
    if (!spec->privileged && caps_resolve(spec->cap_add, spec->cap_drop, &caps, err) < 0)
        return -1;
    caps &= host->caps_own;
    json_set_string(&arena, config, "ociVersion", "1.0.2");
    put_process(host, spec, caps, &arena, config);
    root = json_set_object(&arena, config, "root");
    json_set_string(&arena, root, "path", spec->rootfs);
    json_set_bool(&arena, root, "readonly", spec->rootfs_readonly);
    if (spec->hostname && spec->uts.mode == RUNTIME_NS_OWN)
        json_set_string(&arena, config, "hostname", spec->hostname);
    if (bundle_mounts(host, spec, &arena, config, err) < 0)
        return -1;
    put_hooks(spec, &arena, config);
    put_annotations(spec, &arena, config);
    if (put_linux(host, spec, caps, &arena, config, err) < 0)
        return -1;
    json_write(ret, config);
    return 0;
}

int bundle_process(struct str config, const struct runtime_exec *exec, struct buf *ret,
                   struct bundle_user *ret_user, struct err *err)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc, *process, *user;

    if (!exec->args || !exec->args[0])
        return err_set(err, ERR_INVALID, "no command specified");
    if (exec->cwd && exec->cwd[0] != '/')
        return err_set(err, ERR_INVALID, "working directory '%s' must be an absolute path", exec->cwd);
    if (json_parse(config, &arena, &doc, NULL, err) < 0)
        return err_prefix(err, "config.json");
    process = json_get(doc, "process");
    if (!json_is(process, JSON_OBJECT))
        return err_set(err, ERR_INTERNAL, "config.json has no process");
    put_list(&arena, process, "args", exec->args);
    if (exec->env)
        put_env(&arena, process, exec->env, exec->tty);
    else if (exec->tty && !json_bool(json_get(process, "terminal")))
        json_push_string(&arena, json_get(process, "env"), "TERM=xterm");
    if (exec->cwd)
        json_set_string(&arena, process, "cwd", exec->cwd);
    user = json_get(process, "user");
    if (exec->uid) {
        json_set_int(&arena, user, "uid", *exec->uid);
        json_set_array(&arena, user, "additionalGids");
    }
    if (exec->gid)
        json_set_int(&arena, user, "gid", *exec->gid);
    json_set_bool(&arena, process, "terminal", exec->tty);
    json_remove(process, "consoleSize");
    if (exec->tty)
        put_size(&arena, process, exec->rows, exec->cols);
    json_write(ret, process);
    user = json_get(process, "user");
    *ret_user = (struct bundle_user){(uid_t)json_int(json_get(user, "uid"), 0),
                                     (gid_t)json_int(json_get(user, "gid"), 0)};
    return 0;
}
