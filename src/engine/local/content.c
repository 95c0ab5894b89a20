/* As in Kubernetes, VOLUME/..data is a link to a folder with all files, VOLUME/NAME a link to ..data/NAME: a
 * change makes a new folder and swaps the one link, so readers see either all old files or all new ones. */
#include "engine/local/content.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#define DATA_LINK "..data"
#define FILES_MAX 16384

struct content *content_new(const char *dir, uid_t owner, gid_t group)
{
    struct content *content = NEW(struct content);

    content->places = map_new();
    content->dir = arena_strdup(&content->arena, dir);
    content->owner = owner;
    content->group = group;
    return content;
}

void content_free(struct content *content)
{
    if (!content)
        return;
    map_free(content->places);
    vec_done(&content->files);
    arena_done(&content->arena);
    free(content);
}

/* Paths were validated when the pod was made; what would lead out is refused here again. */
static bool safe_path(const char *path)
{
    struct str rest = str_from(path), part;

    if (!*path || *path == '/' || starts_with(path, ".."))
        return false;
    while (str_split(&rest, '/', &part))
        if (part.len == 0 || str_is(part, ".."))
            return false;
    return true;
}

int content_put(struct content *content, const char *path, struct str data, mode_t mode, struct err *err)
{
    size_t place = (size_t)(uintptr_t)map_get(content->places, str_from(path));
    struct content_file file = {
        NULL, {arena_strndup(&content->arena, data.s ? data.s : "", data.len), data.len}, mode};

    if (!safe_path(path))
        return err_set(err, ERR_INVALID, "path '%s' leads out of the volume", path);
    if (place) {
        file.path = content->files.v[place - 1].path;
        content->files.v[place - 1] = file;
        return 0;
    }
    if (content->files.len >= FILES_MAX)
        return err_set(err, ERR_LIMIT, "more than %d files", FILES_MAX);
    file.path = arena_strdup(&content->arena, path);
    vec_push(&content->files, file);
    map_set(content->places, str_from(path), (void *)(uintptr_t)content->files.len);
    return 0;
}

/* ---- writing ---- */

/* One go at it: the thread's own memory, and where to say what went wrong. */
struct content_swap {
    const struct content *content;
    struct arena arena;
    struct err *err;
};

static int write_file(struct content_swap *c, const char *dir, const struct content_file *file)
{
    const char *full = arena_printf(&c->arena, "%s/%s", dir, file->path);
    char *folder = arena_strdup(&c->arena, full);
    mode_t mode = file->mode;
    CLEANUP(fd_close) int fd = -1;

    *strrchr(folder, '/') = '\0';
    if (dir_make(folder, 0755, c->err) < 0)
        return -1;
    fd = open(full, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || (file->data.len && write(fd, file->data.s, file->data.len) != (ssize_t)file->data.len))
        return err_errno(c->err, fd < 0 ? errno : ENOSPC, "write '%s'", full);
    if (c->content->group && fchown(fd, (uid_t)-1, c->content->group) == 0)
        mode |= mode >> 3 & 0040; /* the group may read it */
    if (c->content->owner != (uid_t)-1 && fchown(fd, c->content->owner, (gid_t)-1) < 0)
        return err_errno(c->err, errno, "chown '%s'", full);
    return fchmod(fd, mode) < 0 ? err_errno(c->err, errno, "chmod '%s'", full) : 0;
}

static bool same_file(const char *dir, const struct content_file *file)
{
    CLEANUP(free) char *path = mem_printf("%s/" DATA_LINK "/%s", dir, file->path);
    CLEANUP(buf_done) struct buf text = {0};

    return file_read(path, file->data.len + 1, &text, NULL) == 0 && text.len == file->data.len &&
           (!text.len || memcmp(text.data, file->data.s, text.len) == 0);
}

static _Thread_local size_t counted; /* by count_one: nftw has no argument for it */

static int count_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)path;
    (void)st;
    (void)at;
    counted += type == FTW_F;
    return 0;
}

static bool unchanged(const struct content *content, const char *dir)
{
    CLEANUP(free) char *data = mem_printf("%s/" DATA_LINK "/.", dir);

    if (access(data, F_OK) < 0)
        return false;
    VEC_EACH(&content->files, it)
        if (!same_file(dir, it))
            return false;
    counted = 0;
    nftw(data, count_one, 8, FTW_PHYS);
    return counted == content->files.len;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path) < 0 && errno != ENOENT;
}

static int link_to(struct content_swap *c, const char *target, const char *dir, const char *name)
{
    const char *path = arena_printf(&c->arena, "%s/%s", dir, name);
    const char *fresh = arena_printf(&c->arena, "%s/..tmp", dir);

    unlink(fresh);
    if (symlink(target, fresh) < 0 || rename(fresh, path) < 0)
        return err_errno(c->err, errno, "link '%s'", path);
    return 0;
}

/* VOLUME/first part of each path. */
static int link_names(struct content_swap *c, const char *dir)
{
    VEC_EACH(&c->content->files, it) {
        size_t len = strcspn(it->path, "/");
        const char *name = arena_strndup(&c->arena, it->path, len);
        const char *target = arena_printf(&c->arena, DATA_LINK "/%s", name);
        const char *path = arena_printf(&c->arena, "%s/%s", dir, name);
        char there[512];
        ssize_t n = readlink(path, there, sizeof(there));

        if ((n < 0 || (size_t)n != strlen(target) || memcmp(there, target, (size_t)n) != 0) &&
            link_to(c, target, dir, name) < 0)
            return -1;
    }
    return 0;
}

/* Links to what is no longer there. */
static void drop_names(const char *dir)
{
    DIR *folder = opendir(dir);
    const struct dirent *entry;

    while (folder && (entry = readdir(folder)))
        if (!starts_with(entry->d_name, "..") && faccessat(dirfd(folder), entry->d_name, F_OK, 0) < 0 &&
            errno == ENOENT)
            unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder)
        closedir(folder);
}

static int swap(struct content_swap *c, const char *dir)
{
    const char *name = arena_printf(&c->arena, "..%lld", (long long)clock_now());
    const char *fresh = arena_printf(&c->arena, "%s/%s", dir, name);
    const char *data = arena_printf(&c->arena, "%s/" DATA_LINK, dir);
    char old[256];
    ssize_t n = readlink(data, old, sizeof(old) - 1);

    if (dir_make(fresh, 0755, c->err) < 0)
        return -1;
    VEC_EACH(&c->content->files, it)
        if (write_file(c, fresh, it) < 0) {
            nftw(fresh, remove_one, 8, FTW_DEPTH | FTW_PHYS);
            return -1;
        }
    if (link_to(c, name, dir, DATA_LINK) < 0 || link_names(c, dir) < 0)
        return -1;
    drop_names(dir);
    if (n > 0 && starts_with(old, "..")) {
        old[n] = '\0';
        if (!strchr(old, '/'))
            nftw(arena_printf(&c->arena, "%s/%s", dir, old), remove_one, 8, FTW_DEPTH | FTW_PHYS);
    }
    return 0;
}

int content_apply(const struct content *content, struct err *err)
{
    struct content_swap work = {.content = content, .err = err};
    int result = unchanged(content, content->dir) ? 0 : swap(&work, content->dir);

    arena_done(&work.arena);
    return result;
}
