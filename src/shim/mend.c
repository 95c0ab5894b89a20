/* What becomes of a shim whose folder somebody removed: cleaners of temporary files do that, and `umount`.
 * The container goes on, but nobody could find its shim after a restart of berthd, and its exit record would
 * have no place. So berthd sends HUP to a shim that lacks something, and that makes it again from what it has
 * in memory and from files that it kept open. */
#include "shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PARENT_MODE 0711
#define OWN_MODE    0700

/* What the OCI runtime keeps of a container: crun's, and runc's. */
static const char *const state_names[SHIM_STATE_FILES] = {"config.json", "seccomp.bpf", "status",
                                                          "state.json"};

static char path[4300];

void kept_open(struct shim_kept *kept)
{
    kept->config = open("config.json", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    for (int i = 0; i < SHIM_STATE_FILES; i++)
        kept->state[i] = -1;
}

void kept_open_state(struct shim_kept *kept, const char *root, const char *id)
{
    for (int i = 0; i < SHIM_STATE_FILES; i++) {
        snprintf(path, sizeof(path), "%s/%s/%s", root, id, state_names[i]);
        kept->state[i] = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    }
}

static bool make_folder(const char *folder)
{
    static char part[4300];
    size_t len = strlen(folder);

    if (len == 0 || len >= sizeof(part))
        return false;
    memcpy(part, folder, len + 1);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, PARENT_MODE) < 0 && errno != EEXIST)
            return false;
        *slash = '/';
    }
    return mkdir(part, OWN_MODE) == 0 || errno == EEXIST;
}

static void make_file(const char *name, const char *data, size_t len)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return; /* it is there, most often */
    write_all(fd, data, len);
    close(fd);
}

static void copy_file(const char *name, int from)
{
    static char chunk[SHIM_CHUNK];
    off_t at = 0;
    ssize_t n;
    int fd = from < 0 ? -1 : open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return;
    while ((n = pread(from, chunk, sizeof(chunk), at)) > 0 && write_all(fd, chunk, (size_t)n))
        at += n;
    close(fd);
}

static bool is_here(const char *folder)
{
    struct stat there, here;

    return stat(folder, &there) == 0 && stat(".", &here) == 0 && there.st_ino == here.st_ino &&
           there.st_dev == here.st_dev;
}

bool folder_mend(const struct shim_conf *conf, const struct shim_kept *kept, const char *id, pid_t pid)
{
    const char *bundle = conf_get(conf, "bundle"), *root = conf_get(conf, "root");
    char number[24];

    if (!is_here(bundle) && (!make_folder(bundle) || chdir(bundle) < 0))
        return false;
    copy_file("config.json", kept->config);
    make_file("shim.conf", conf->text, conf->len);
    make_file("pid", number, (size_t)snprintf(number, sizeof(number), "%d", (int)pid));
    snprintf(path, sizeof(path), "%s/%s", root, id);
    if (!make_folder(root) || !make_folder(path))
        return true; /* commands do not run in it any more; the rest does */
    for (int i = 0; i < SHIM_STATE_FILES; i++) {
        snprintf(path, sizeof(path), "%s/%s/%s", root, id, state_names[i]);
        copy_file(path, kept->state[i]);
    }
    return true;
}
