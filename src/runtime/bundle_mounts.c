/* The mounts of a container: the usual ones, then the caller's in their order. A mount of the caller's on the
 * place of a usual one replaces it. Where a target does not exist, the OCI runtime makes it, without
 * following links out of the root. */
#include "base/json.h"
#include "runtime/bundle.h"

struct usual {
    const char *target, *type, *source, *options; /* options: comma-separated */
};

static const struct usual usual[] = {
    {"/proc", "proc", "proc", "nosuid,noexec,nodev"},
    {"/dev", "tmpfs", "tmpfs", "nosuid,strictatime,mode=755,size=65536k"},
    {"/dev/pts", "devpts", "devpts", "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620,gid=5"},
    {"/dev/mqueue", "mqueue", "mqueue", "nosuid,noexec,nodev"},
    {"/dev/shm", "tmpfs", "shm", "nosuid,noexec,nodev,mode=1777"},
    {"/sys", "sysfs", "sysfs", "nosuid,noexec,nodev"},
    {"/sys/fs/cgroup", "cgroup", "cgroup", "nosuid,noexec,nodev,relatime"},
};

static const struct {
    unsigned flag;
    const char *option;
} flags[] = {
    {RUNTIME_MOUNT_RO, "ro"},         {RUNTIME_MOUNT_NOSUID, "nosuid"}, {RUNTIME_MOUNT_NODEV, "nodev"},
    {RUNTIME_MOUNT_NOEXEC, "noexec"}, {RUNTIME_MOUNT_SLAVE, "rslave"},  {RUNTIME_MOUNT_SHARED, "rshared"},
};

static struct json *add_mount(struct arena *arena, struct json *mounts, const char *target, const char *type,
                              const char *source)
{
    struct json *mount = json_push_object(arena, mounts);

    json_set_string(arena, mount, "destination", target);
    json_set_string(arena, mount, "type", type);
    json_set_string(arena, mount, "source", source);
    return json_set_array(arena, mount, "options");
}

static void add_options(struct arena *arena, struct json *options, const char *list)
{
    struct str rest = str_from(list), word;

    while (list && str_split(&rest, ',', &word))
        if (word.len > 0)
            json_push(arena, options, json_of_str(arena, word));
}

static bool has_target(const struct runtime_spec *spec, const char *target)
{
    for (size_t i = 0; i < spec->mounts_len; i++)
        if (streq(spec->mounts[i].target, target))
            return true;
    return false;
}

static void add_usual(const struct runtime_spec *spec, struct arena *arena, struct json *mounts)
{
    for (const struct usual *it = usual; it < usual + ARRAY_LEN(usual); it++) {
        bool sys = starts_with(it->target, "/sys");
        struct json *options;

        if (has_target(spec, it->target))
            continue;
        options = add_mount(arena, mounts, it->target, it->type, it->source);
        add_options(arena, options, it->options);
        if (sys)
            json_push_string(arena, options, spec->privileged ? "rw" : "ro");
        if (streq(it->target, "/dev/shm"))
            json_push_string(arena, options,
                             arena_printf(arena, "size=%lld",
                                          (long long)(spec->shm_bytes > 0 ? spec->shm_bytes : 64LL << 20)));
    }
}

static bool target_valid(const char *target)
{
    struct str rest = str_from(target), word;

    if (!target || target[0] != '/' || streq(target, "/"))
        return false;
    while (str_split(&rest, '/', &word))
        if (str_is(word, ".."))
            return false;
    return true;
}

/* The OCI runtime itself goes by /proc while it sets a container up: what lies there must be the kernel's.
 * Single files that tell of the machine may be others. */
static bool target_open(const char *target)
{
    static const char *const files[] = {"cpuinfo",  "diskstats", "driver", "loadavg", "meminfo",
                                        "slabinfo", "stat",      "swaps",  "uptime"};
    struct str rest = str_from(target), word, parts[2] = {0};
    size_t n = 0;

    while (n < ARRAY_LEN(parts) && str_split(&rest, '/', &word))
        if (word.len && !str_is(word, "."))
            parts[n++] = word;
    if (n == 0 || !str_is(parts[0], "proc"))
        return true;
    for (size_t i = 0; n == 2 && i < ARRAY_LEN(files); i++)
        if (str_is(parts[1], files[i]))
            return true;
    return false;
}

static int add_given(const struct bundle_host *host, const struct runtime_mount *mount, size_t place,
                     struct arena *arena, struct json *mounts, struct err *err)
{
    bool bind = !mount->type || streq(mount->type, "bind");
    const char *source = mount->source;
    struct json *options;

    if (!target_valid(mount->target))
        return err_set(err, ERR_INVALID, "mount target '%s' must be an absolute path below / without '..'",
                       mount->target ? mount->target : "");
    if (!target_open(mount->target))
        return err_set(err, ERR_INVALID, "mount target '%s' is inside /proc", mount->target);
    if (mount->source_fd > 0)
        source = arena_printf(arena, "%s/%zu", host->fd_dir, place);
    if (bind && (!source || source[0] != '/'))
        return err_set(err, ERR_INVALID, "mount of '%s': source '%s' must be an absolute path", mount->target,
                       source ? source : "");
    options =
        add_mount(arena, mounts, mount->target, bind ? "bind" : mount->type, source ? source : mount->type);
    if (bind)
        json_push_string(arena, options, mount->flags & RUNTIME_MOUNT_REC ? "rbind" : "bind");
    if (bind && !(mount->flags & (RUNTIME_MOUNT_SLAVE | RUNTIME_MOUNT_SHARED)))
        json_push_string(arena, options, "rprivate");
    for (size_t i = 0; i < ARRAY_LEN(flags); i++)
        if (mount->flags & flags[i].flag)
            json_push_string(arena, options, flags[i].option);
    add_options(arena, options, mount->options);
    return 0;
}

int bundle_mounts(const struct bundle_host *host, const struct runtime_spec *spec, struct arena *arena,
                  struct json *config, struct err *err)
{
    struct json *mounts = json_set_array(arena, config, "mounts");

    add_usual(spec, arena, mounts);
    for (size_t i = 0; i < spec->mounts_len; i++)
        if (add_given(host, &spec->mounts[i], i, arena, mounts, err) < 0)
            return -1;
    if (spec->init) {
        struct json *options = add_mount(arena, mounts, BUNDLE_INIT, "bind", host->init_path);

        add_options(arena, options, "bind,ro,rprivate,nosuid,nodev");
    }
    return 0;
}
