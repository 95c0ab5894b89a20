/* The host's device nodes, for privileged containers: what Kubernetes' runtimes give them. */
#include "base/cleanup.h"
#include "base/json.h"
#include "runtime/bundle.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define DEPTH_MAX   6
#define DEVICES_MAX 4096

/* The container has its own of these, or the OCI runtime makes them. */
static const char *const skipped[] = {
    "/dev/pts",  "/dev/shm",    "/dev/mqueue",  "/dev/fd",   "/dev/console", "/dev/ptmx",
    "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero", "/dev/full",    "/dev/tty",
};

static bool is_skipped(const char *path)
{
    for (size_t i = 0; i < ARRAY_LEN(skipped); i++)
        if (streq(path, skipped[i]))
            return true;
    return false;
}

static void add_device(struct arena *arena, struct json *devices, const char *path, const struct stat *st)
{
    struct json *row = json_push_object(arena, devices);

    json_set_string(arena, row, "path", path);
    json_set_string(arena, row, "type", S_ISCHR(st->st_mode) ? "c" : "b");
    json_set_int(arena, row, "major", major(st->st_rdev));
    json_set_int(arena, row, "minor", minor(st->st_rdev));
    json_set_int(arena, row, "fileMode", st->st_mode & 0777);
    json_set_int(arena, row, "uid", st->st_uid);
    json_set_int(arena, row, "gid", st->st_gid);
}

static bool is_listed(const struct json *devices, const char *path)
{
    JSON_EACH(devices, it)
        if (streq(json_get_string(it, "path"), path))
            return true;
    return false;
}

static void walk(struct arena *arena, struct json *devices, const char *path, int depth)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        const char *name = arena_printf(arena, "%s/%s", path, entry->d_name);
        struct stat st;

        if (entry->d_name[0] == '.' || is_skipped(name) || lstat(name, &st) < 0)
            continue;
        if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
            walk(arena, devices, name, depth + 1);
        else if ((S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) && json_len(devices) < DEVICES_MAX &&
                 !is_listed(devices, name))
            add_device(arena, devices, name, &st);
    }
    if (dir)
        closedir(dir);
}

void bundle_host_devices(struct arena *arena, struct json *devices)
{
    walk(arena, devices, "/dev", 0);
}
