/* What a folder says of a container whose daemon was killed: a shim that was started a moment before may not
 * listen yet, or none was started at all. */
#include "base/mem.h"
#include "base/str.h"
#include "runtime/runtime_internal.h"

#include <dirent.h>
#include <limits.h>
#include <sys/stat.h>

static bool is_shim_in(const char *pid, const struct stat *folder)
{
    char path[64], exe[PATH_MAX];
    struct stat cwd;
    ssize_t len;

    snprintf(path, sizeof(path), "/proc/%.20s/cwd", pid);
    if (stat(path, &cwd) < 0 || cwd.st_ino != folder->st_ino || cwd.st_dev != folder->st_dev)
        return false;
    snprintf(path, sizeof(path), "/proc/%.20s/exe", pid);
    len = readlink(path, exe, sizeof(exe) - 1);
    exe[len > 0 ? len : 0] = '\0';
    return strstr(exe, "/berth-shim") != NULL;
}

bool folder_has_shim(const char *folder)
{
    DIR *proc = opendir("/proc");
    struct stat own;
    const struct dirent *entry;
    bool found = false;

    if (!proc)
        return false;
    if (stat(folder, &own) == 0)
        while (!found && (entry = readdir(proc)))
            found = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && is_shim_in(entry->d_name, &own);
    closedir(proc);
    return found;
}

/* A shim listens before it does anything, and its socket stays until the exit record is there. */
bool folder_never_begun(const char *folder)
{
    static const char *const traces[] = {"shim.sock", "exit"};

    for (size_t i = 0; i < ARRAY_LEN(traces); i++) {
        CLEANUP(free) char *path = mem_printf("%s/%s", folder, traces[i]);

        if (access(path, F_OK) == 0)
            return false;
    }
    return !folder_has_shim(folder);
}
