/* mount.c - root file systems: the layers as overlayfs' lower folders, with a folder of the container's own
 * on top. MOUNTS/ID has the mount point, root, and a note, which is written before the mount is made and
 * removed after it is gone, so that whoever opens the store next knows what is in use. It need not survive a
 * power cut, as mounts do not either.
 *
 * What containers write to their roots goes with them, so overlayfs need not bring it to the disk
 * ("volatile"): unmounting would wait for that, with everything else that is being written there. */
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "image/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define LOG_MODULE     "image"
#define ATTRIBUTES_MAX 4096
#define OPTIONS_MAX    4095 /* the kernel takes one page, with the NUL */

/* ---- notes of mounts ---- */

static bool valid_id(const char *id)
{
    size_t len = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

    return len > 0 && len <= IMAGE_MOUNT_ID_MAX && !id[len] && id[0] != '.' && id[0] != '-';
}

static char *note_path(const struct images *images, const char *id)
{
    return mem_printf("%s/%s/note", images->mounts_dir, id);
}

static char *root_path(const struct images *images, const char *id)
{
    return mem_printf("%s/%s/root", images->mounts_dir, id);
}

static int note_write(const struct images *images, const struct mounted *m, struct err *err)
{
    CLEANUP(free) char *path = note_path(images, m->id);
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(fd_close) int fd = -1;
    struct json *doc = json_new_object(&arena);

    json_set_string(&arena, doc, "dir", m->dir);
    json_set_string(&arena, doc, "image", m->image);
    json_write(&text, doc);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text.data, text.len) != (ssize_t)text.len)
        return err_errno(err, errno, "write '%s'", path);
    return 0;
}

static void mounted_free(struct mounted *m)
{
    if (!m)
        return;
    free(m->id);
    free(m->dir);
    free(m->owner);
    free(m);
}

/* Counts in and out; with the note, so that they never differ. */
static void mounted_add(struct images *images, struct mounted *m)
{
    struct stored *stored = m->image[0] ? stored_by_id(images, m->image) : NULL;

    map_set(images->mounted, str_from(m->id), m);
    if (stored)
        stored->mounts++;
}

static void mounted_forget(struct images *images, struct mounted *m)
{
    struct stored *stored = m->image[0] ? stored_by_id(images, m->image) : NULL;

    map_remove(images->mounted, str_from(m->id));
    if (stored) {
        stored->mounts--;
        store_touch(images, stored);
    }
    mounted_free(m);
}

static void mounted_remove(struct images *images, struct mounted *m)
{
    CLEANUP(free) char *path = note_path(images, m->id), *root = root_path(images, m->id);

    rmdir(root);
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
    mounted_forget(images, m);
}

static bool is_mount_point(const char *path)
{
    struct statx st;

    return statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &st) == 0 &&
           (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

static struct mounted *note_read(const char *path, const char *id)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};
    struct mounted *m;
    struct json *doc;

    if (file_read(path, RECORD_FILE_MAX, &text, NULL) < 0 ||
        json_parse(buf_view(&text), &arena, &doc, NULL, NULL) < 0 || !json_get_string(doc, "dir"))
        return NULL;
    m = NEW(struct mounted);
    m->id = mem_strdup(id);
    m->dir = mem_strdup(json_get_string(doc, "dir"));
    snprintf(m->image, sizeof(m->image), "%s", json_string_or(json_get(doc, "image"), ""));
    return m;
}

void mounts_load(struct images *images)
{
    DIR *dir = opendir(images->mounts_dir);
    struct dirent *entry;

    while (dir && (entry = readdir(dir)) != NULL) {
        CLEANUP(free) char *path = NULL, *root = NULL;
        struct mounted *m;

        if (!valid_id(entry->d_name) && !starts_with(entry->d_name, ".spare-"))
            continue;
        path = note_path(images, entry->d_name);
        root = root_path(images, entry->d_name);
        m = note_read(path, entry->d_name);
        if (m && is_mount_point(root)) {
            mounted_add(images, m);
        } else {
            mounted_free(m);
            unlink(path);
            umount2(root, MNT_DETACH | UMOUNT_NOFOLLOW); /* nobody knows what it is of */
            rmdir(root);
            *strrchr(path, '/') = '\0';
            rmdir(path);
        }
    }
    if (dir)
        closedir(dir);
}

bool images_mend(struct images *images)
{
    bool changed = access(images->run_dir, F_OK) < 0 || access(images->mounts_dir, F_OK) < 0;
    struct err err = {0};
    struct str key;
    void *value;
    size_t at = 0;

    if (changed &&
        (dir_make(images->run_dir, 0700, &err) < 0 || dir_make(images->mounts_dir, 0700, &err) < 0))
        log_warn("%s", err.msg);
    spares_mend(images);
    while (map_next(images->mounted, &at, &key, &value)) {
        const struct mounted *m = value;
        CLEANUP(free) char *path = note_path(images, m->id), *root = root_path(images, m->id);

        if (access(path, F_OK) == 0)
            continue;
        changed = true;
        if (dir_make(root, 0755, &err) < 0 || note_write(images, m, &err) < 0)
            log_warn("%s", err.msg);
    }
    return changed;
}

void mounts_free(struct images *images)
{
    size_t at = 0;
    struct str key;
    void *value;

    while (map_next(images->mounted, &at, &key, &value))
        mounted_free(value);
}

bool image_mounted(const struct images *images, const char *id)
{
    return map_get(images->mounted, str_from(id)) != NULL;
}

const char *image_mount_dir(const struct images *images, const char *id)
{
    const struct mounted *m = map_get(images->mounted, str_from(id));

    return m ? m->dir : NULL;
}

/* ---- the folders of a mount ---- */

/* Nothing lies in it, and its root has no attributes but overlayfs' own. */
bool mount_untouched(const char *upper)
{
    char names[ATTRIBUTES_MAX];
    ssize_t len = llistxattr(upper, names, sizeof(names));
    DIR *dir = opendir(upper);
    const struct dirent *entry;
    bool untouched = dir && len >= 0;

    for (ssize_t at = 0; untouched && at < len; at += (ssize_t)strlen(names + at) + 1)
        untouched = starts_with(names + at, "trusted.overlay.") || starts_with(names + at, "user.overlay.");
    while (untouched && (entry = readdir(dir)))
        untouched = streq(entry->d_name, ".") || streq(entry->d_name, "..");
    if (dir)
        closedir(dir);
    return untouched;
}

/* A volatile mount leaves a mark, on which the next one would be refused. */
static void work_clear(const char *work)
{
    static const struct {
        const char *name;
        int flags;
    } marks[] = {{"work/incompat/volatile/dirty", 0},
                 {"work/incompat/volatile", AT_REMOVEDIR},
                 {"work/incompat", AT_REMOVEDIR}};
    CLEANUP(fd_close) int fd = open(work, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    for (size_t i = 0; fd >= 0 && i < ARRAY_LEN(marks); i++)
        unlinkat(fd, marks[i].name, marks[i].flags);
}

/* ---- mounting ---- */

struct lower {
    char *paths[IMAGE_LAYERS_MAX + 2];
    size_t len;
};

static void lower_done(struct lower *lower)
{
    while (lower->len > 0)
        free(lower->paths[--lower->len]);
}

/* The lower folders, top first. The same layer twice counts once, at its upper place: the lower one would be
 * hidden by it anyway, and overlayfs refuses it. */
static void lower_list(const struct images *images, const struct image_mount_spec *spec, struct lower *ret)
{
    const struct image *image = spec->image;

    if (!image)
        ret->paths[ret->len++] = mem_strdup("/");
    for (size_t i = image ? image->layers_len : 0; i > 0; i--) {
        char *path = record_layer_path(images->dir, image->layers[i - 1].digest, "/fs");
        bool again = false;

        for (size_t k = 0; k < ret->len && !again; k++)
            again = streq(ret->paths[k], path);
        if (again)
            free(path);
        else
            ret->paths[ret->len++] = path;
    }
    if (image)
        ret->paths[ret->len++] = mem_printf("%s/base", images->dir);
}

/* Paths as they are, for people who read /proc/mounts; where they are too long for the one page that mount(2)
 * takes, or have characters with a meaning, as /proc/self/fd/N. */
struct options {
    struct buf text;
    bool by_fd;
    VEC(int) fds;
};

static int add_path(struct options *o, const char *path, struct err *err)
{
    int fd;

    if (!o->by_fd) {
        buf_puts(&o->text, path);
        return 0;
    }
    fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno, "open '%s'", path);
    vec_push(&o->fds, fd);
    buf_printf(&o->text, "/proc/self/fd/%d", fd);
    return 0;
}

static int build_options(const struct images *images, const struct image_mount_spec *spec,
                         const struct lower *lower, struct options *o, struct err *err)
{
    CLEANUP(free) char *upper = mem_printf("%s/upper", spec->dir);
    CLEANUP(free) char *work = mem_printf("%s/work", spec->dir);

    buf_puts(&o->text, "lowerdir=");
    for (size_t i = 0; i < lower->len; i++) {
        if (i > 0)
            buf_putc(&o->text, ':');
        if (add_path(o, lower->paths[i], err) < 0)
            return -1;
    }
    if (!spec->readonly) {
        buf_puts(&o->text, ",upperdir=");
        if (add_path(o, upper, err) < 0)
            return -1;
        buf_puts(&o->text, ",workdir=");
        if (add_path(o, work, err) < 0)
            return -1;
    }
    /* Notes that lead to other places are not ours: unpack lets none through, and we write none. */
    buf_puts(&o->text, images->user_xattr ? ",userxattr" : ",redirect_dir=nofollow,metacopy=off");
    if (!images->plain_overlay && !spec->readonly)
        buf_puts(&o->text, ",volatile,uuid=off");
    return 0;
}

static void options_done(struct options *o)
{
    VEC_EACH(&o->fds, it)
        close(*it);
    vec_done(&o->fds);
    buf_done(&o->text);
}

/* sys: errno of a mount that was refused. */
static int mount_text(const char *root, const struct options *o, bool readonly, int *sys, struct err *err)
{
    if (o->text.len > OPTIONS_MAX)
        return err_set(err, ERR_LIMIT, "the image has too many layers to be mounted");
    if (mount("overlay", root, "overlay", readonly ? MS_RDONLY : 0, o->text.data) == 0)
        return 0;
    *sys = errno;
    if (errno == ENODEV || errno == EPERM)
        return err_set(err, ERR_UNSUPPORTED, "overlayfs cannot be mounted here: %s", strerror(errno));
    return err_errno(err, errno, "mount the image at '%s'", root);
}

static int mount_once(const struct images *images, const struct image_mount_spec *spec,
                      const struct lower *lower, const char *root, int *sys, struct err *err)
{
    struct options o = {0};
    int result;

    o.by_fd = strpbrk(images->dir, ":,\\") || strpbrk(spec->dir, ":,\\");
    result = build_options(images, spec, lower, &o, err);
    if (result == 0 && !o.by_fd && o.text.len > OPTIONS_MAX) {
        options_done(&o);
        o = (struct options){.by_fd = true};
        result = build_options(images, spec, lower, &o, err);
    }
    if (result == 0)
        result = mount_text(root, &o, spec->readonly, sys, err);
    options_done(&o);
    return result;
}

/* Kernels before 5.14 do not know all of our options. */
static int mount_lower(struct images *images, const struct image_mount_spec *spec, const struct lower *lower,
                       const char *root, struct err *err)
{
    struct err first = {0};
    int sys = 0;

    if (mount_once(images, spec, lower, root, &sys, &first) == 0)
        return 0;
    if (sys == EINVAL && !images->plain_overlay) {
        images->plain_overlay = true;
        if (mount_once(images, spec, lower, root, &sys, NULL) == 0)
            return 0;
        images->plain_overlay = false;
    }
    if (err)
        *err = first;
    return -1;
}

/* The host's root, read-only: overlayfs refuses "/" as one of two lower folders (ELOOP). */
static int mount_host_readonly(const char *root, struct err *err)
{
    if (mount("/", root, NULL, MS_BIND, NULL) < 0)
        return err_errno(err, errno, "bind / to '%s'", root);
    if (mount(NULL, root, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) == 0)
        return 0;
    err_errno(err, errno, "make '%s' read-only", root);
    umount2(root, MNT_DETACH);
    return -1;
}

/* A new upper folder looks like the one it lies on: its mode and owner become the root's. */
static int make_upper(const char *path, const char *like, struct err *err)
{
    struct stat st;

    struct stat own;

    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "make '%s'", path);
    if (stat(like, &st) < 0 || stat(path, &own) < 0)
        return err_errno(err, errno, "look at '%s'", like);
    if (own.st_mode == st.st_mode && own.st_uid == st.st_uid && own.st_gid == st.st_gid)
        return 0;
    if (chown(path, st.st_uid, st.st_gid) < 0 || chmod(path, st.st_mode & 07777) < 0)
        return err_errno(err, errno, "set the owner of '%s'", path);
    return 0;
}

static int make_dirs(const struct image_mount_spec *spec, const struct lower *lower, const char *root,
                     struct err *err)
{
    CLEANUP(free) char *upper = mem_printf("%s/upper", spec->dir);
    CLEANUP(free) char *work = mem_printf("%s/work", spec->dir);

    if (dir_make(spec->dir, 0700, err) < 0 || dir_make(root, 0755, err) < 0)
        return -1;
    if (spec->readonly)
        return 0;
    if (mkdir(work, 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "make '%s'", work);
    work_clear(work);
    return make_upper(upper, lower->paths[0], err);
}

int image_mount(struct images *images, const struct image_mount_spec *spec, char **ret, struct err *err)
{
    CLEANUP(free) char *root = root_path(images, spec->id);
    struct lower lower = {0};
    struct stored *stored = NULL;
    struct mounted *m;
    bool spare;
    int result;

    if (!valid_id(spec->id))
        return err_set(err, ERR_INVALID, "'%.200s' is no id for a container", spec->id);
    if (spec->dir[0] != '/')
        return err_set(err, ERR_INVALID, "a container's folder must be an absolute path");
    if (image_mounted(images, spec->id))
        return err_set(err, ERR_EXISTS, "container '%s' has its root file system already", spec->id);
    if (spec->image && !(stored = stored_by_id(images, spec->image->id)))
        return err_set(err, ERR_NOT_FOUND, "image %s is not here any more", spec->image->id);
    m = NEW(struct mounted);
    m->id = mem_strdup(spec->id);
    m->dir = spec->image && spec->owner && !spec->readonly ? spare_take(images, spec) : NULL;
    spare = m->dir != NULL;
    if (!spare)
        m->dir = mem_strdup(spec->dir);
    m->owner = mem_strdup(spec->owner);
    snprintf(m->image, sizeof(m->image), "%s", spec->image ? spec->image->id : "");
    lower_list(images, spec, &lower);
    mounted_add(images, m);
    result = spare ? 0 : make_dirs(spec, &lower, root, err);
    if (result == 0)
        result = note_write(images, m, err);
    if (result == 0 && !spare)
        result = !spec->image && spec->readonly ? mount_host_readonly(root, err)
                                                : mount_lower(images, spec, &lower, root, err);
    lower_done(&lower);
    if (result < 0) {
        if (spare)
            umount2(root, MNT_DETACH | UMOUNT_NOFOLLOW);
        mounted_remove(images, m);
        return -1;
    }
    if (stored)
        store_touch(images, stored);
    *ret = TAKE_PTR(root);
    return 0;
}

bool image_spare(struct images *images, const char *id)
{
    struct mounted *m = map_get(images->mounted, str_from(id));

    if (!m || !spare_keep(images, m))
        return false;
    mounted_forget(images, m);
    return true;
}

int image_unmount(struct images *images, const char *id, bool discard, struct err *err)
{
    struct mounted *m = map_get(images->mounted, str_from(id));
    CLEANUP(free) char *root = NULL;

    if (!m)
        return 0;
    root = root_path(images, id);
    if (umount2(root, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 && errno != EINVAL && errno != ENOENT)
        return err_errno(err, errno, "unmount '%s'", root);
    if (discard) {
        CLEANUP(free) char *upper = mem_printf("%s/upper", m->dir);

        CLEANUP(free) char *work = mem_printf("%s/work", m->dir);

        if (!mount_untouched(upper))
            images_discard(images, upper);
        work_clear(work);
    }
    mounted_remove(images, m);
    return 0;
}

void images_sweep(struct images *images, bool (*keep)(void *arg, const char *id), void *arg)
{
    VEC(char *) unwanted = {0};
    size_t at = 0;
    struct str key;
    void *value;

    while (map_next(images->mounted, &at, &key, &value))
        if (!keep || !keep(arg, key.s))
            vec_push(&unwanted, mem_strndup(key.s, key.len));
    VEC_EACH(&unwanted, it) {
        struct err err = {0};

        if (image_unmount(images, *it, true, &err) < 0)
            log_warn("container %s: %s", *it, err.msg);
        free(*it);
    }
    vec_done(&unwanted);
}
