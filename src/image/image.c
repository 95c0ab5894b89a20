/* image.c - the store: its folder, what is in it, and names. Memory holds a copy of all records and is what
 * questions are answered from; files change first, then memory. */
#include "image/image.h"

#include "base/clock.h"
#include "base/disk.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "image/internal.h"
#include "image/sum.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#define LOG_MODULE "image"

static const char *const folders[] = {"layers", "images", "names", "staging", "locks", "trash", "base"};

/* ---- looking up ---- */

struct stored *stored_by_id(const struct images *images, const char *id)
{
    return map_get(images->stored, str_from(id));
}

static struct record_name *get_name(const struct images *images, const char *reference, struct image_ref *ref)
{
    struct record_name *name;
    char text[IMAGE_REF_MAX], repo[IMAGE_REF_MAX];
    size_t at = 0;
    struct str key;
    void *value;

    if (image_ref_parse(str_from(reference), ref, NULL) < 0)
        return NULL;
    image_ref_format(ref, text);
    name = map_get(images->names, str_from(text));
    if (name || !ref->digest[0])
        return name;
    image_ref_repo(ref, repo);
    while (map_next(images->names, &at, &key, &value)) {
        name = value;
        if (str_starts(key, repo) && (key.s[strlen(repo)] == ':' || key.s[strlen(repo)] == '@') &&
            (streq(name->digest, ref->digest) || streq(name->id, ref->digest)))
            return name;
    }
    return NULL;
}

const struct image *images_find(const struct images *images, const char *reference)
{
    struct image_ref ref;
    const struct record_name *name = get_name(images, reference, &ref);
    const struct stored *stored = name ? stored_by_id(images, name->id) : NULL;

    return stored ? stored->image : NULL;
}

void images_pinned(const struct images *images, const char *reference, char text[IMAGE_REF_MAX])
{
    struct image_ref ref;
    const struct record_name *name = get_name(images, reference, &ref);

    text[0] = '\0';
    if (!name)
        return;
    snprintf(ref.digest, sizeof(ref.digest), "%s", name->digest);
    image_ref_format(&ref, text);
}

bool store_kept(const struct image *image)
{
    for (size_t i = 0; i < image->config.labels_len; i++)
        if (streq(image->config.labels[i].key, IMAGE_KEEP_LABEL))
            return streq(image->config.labels[i].value, "true");
    return false;
}

static int by_name(const void *a, const void *b)
{
    const struct images_entry *x = a, *y = b;

    if (!x->name || !y->name)
        return (x->name != NULL) - (y->name != NULL);
    return strcmp(x->name, y->name);
}

static struct images_entry entry_of(const char *name, const struct stored *stored)
{
    return (struct images_entry){
        .name = name,
        .image = stored->image,
        .used = stored->used,
        .in_use = stored->mounts > 0,
        .keep = store_kept(stored->image),
    };
}

size_t images_list(const struct images *images, struct images_entry **ret)
{
    VEC(struct images_entry) list = {0};
    CLEANUP(map_free) struct map *named = map_new();
    size_t at = 0;
    struct str key;
    void *value;

    while (map_next(images->names, &at, &key, &value)) {
        struct record_name *name = value;
        const struct stored *stored = stored_by_id(images, name->id);

        if (!stored)
            continue;
        map_set(named, str_from(name->id), name);
        vec_push(&list, entry_of(name->name, stored));
    }
    at = 0;
    while (map_next(images->stored, &at, &key, &value))
        if (!map_get(named, key))
            vec_push(&list, entry_of(NULL, value));
    if (list.len > 0)
        qsort(list.v, list.len, sizeof(*list.v), by_name);
    *ret = list.v;
    return list.len;
}

/* ---- records ---- */

static int64_t file_time(const char *path)
{
    struct stat st;

    return stat(path, &st) < 0 ? 0 : st.st_mtim.tv_sec * NSEC_PER_SEC + st.st_mtim.tv_nsec;
}

int store_load_image(struct images *images, const char *id, struct err *err)
{
    CLEANUP(free) char *path = record_image_path(images->dir, id);
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(image_drop) const struct image *image = NULL;
    struct stored *stored;

    if (file_read(path, RECORD_FILE_MAX, &text, err) < 0 ||
        record_image_read(buf_view(&text), &image, err) < 0)
        return -1;
    if (!streq(image->id, id))
        return err_set(err, ERR_INVALID, "'%s' is about another image", path);
    for (size_t i = 0; i < image->layers_len; i++)
        if (!record_layer_here(images->dir, image->layers[i].digest, NULL))
            return err_set(err, ERR_NOT_FOUND, "layer %s of it is not here", image->layers[i].digest);
    if (stored_by_id(images, id))
        return 0;
    stored = NEW(struct stored);
    stored->image = TAKE_PTR(image);
    stored->used = file_time(path);
    map_set(images->stored, str_from(id), stored);
    return 0;
}

static void name_free(struct record_name *name)
{
    if (!name)
        return;
    record_name_done(name);
    free(name);
}

int store_load_name(struct images *images, const char *name, struct err *err)
{
    CLEANUP(free) char *path = record_name_path(images->dir, name);
    CLEANUP(buf_done) struct buf text = {0};
    struct record_name read = {0}, *kept;

    if (file_read(path, RECORD_FILE_MAX, &text, err) < 0 || record_name_read(buf_view(&text), &read, err) < 0)
        return -1;
    if (!streq(read.name, name)) {
        record_name_done(&read);
        return err_set(err, ERR_INVALID, "'%s' is about another name", path);
    }
    kept = mem_dup(&read, sizeof(read));
    name_free(map_set(images->names, str_from(name), kept));
    return 0;
}

static void drop_name(struct images *images, const char *reference)
{
    CLEANUP(free) char *path = record_name_path(images->dir, reference);

    unlink(path);
    name_free(map_remove(images->names, str_from(reference)));
}

void store_touch(struct images *images, struct stored *stored)
{
    CLEANUP(free) char *path = record_image_path(images->dir, stored->image->id);

    stored->used = clock_now();
    utimensat(AT_FDCWD, path, NULL, 0);
}

void store_forget(struct images *images, struct stored *stored)
{
    CLEANUP(free) char *path = record_image_path(images->dir, stored->image->id);
    VEC(char *) names = {0};
    size_t at = 0;
    struct str key;
    void *value;

    spares_drop(images, stored->image->id);
    while (map_next(images->names, &at, &key, &value)) {
        const struct record_name *name = value;

        if (streq(name->id, stored->image->id))
            vec_push(&names, mem_strdup(name->name));
    }
    VEC_EACH(&names, it) {
        drop_name(images, *it);
        free(*it);
    }
    vec_done(&names);
    unlink(path);
    for (size_t i = 0; i < stored->image->layers_len; i++)
        gc_mark(images, stored->image->layers[i].digest);
    map_remove(images->stored, str_from(stored->image->id));
    image_drop(stored->image);
    free(stored);
}

/* ---- changing names ---- */

static int find_or_fail(const struct images *images, const char *reference, struct record_name **ret,
                        struct err *err)
{
    struct image_ref ref;

    if (image_ref_parse(str_from(reference), &ref, err) < 0)
        return -1;
    *ret = get_name(images, reference, &ref);
    if (!*ret || !stored_by_id(images, (*ret)->id))
        return err_set(err, ERR_NOT_FOUND, "there is no image '%s' here", reference);
    return 0;
}

int images_remove(struct images *images, const char *reference, struct err *err)
{
    struct record_name *name;
    struct stored *stored;
    size_t names = 0, at = 0;
    struct str key;
    void *value;

    if (find_or_fail(images, reference, &name, err) < 0)
        return -1;
    stored = stored_by_id(images, name->id);
    while (map_next(images->names, &at, &key, &value))
        names += streq(((struct record_name *)value)->id, name->id);
    if (names == 1 && stored->mounts > 0)
        return err_set(err, ERR_CONFLICT, "containers use image '%s'", reference);
    if (names > 1) {
        CLEANUP(free) char *text = mem_strdup(name->name);

        drop_name(images, text);
        return 0;
    }
    store_forget(images, stored);
    gc_sweep(images, NULL);
    return 0;
}

/* ---- opening ---- */

static int default_to(int value, int fallback)
{
    return value == 0 ? fallback : value;
}

static void take_config(struct images *images, const struct images_config *given)
{
    static const struct images_config none;
    const struct images_config *config = given ? given : &none;
    struct images_config *c = &images->config;

    *c = *config;
    c->skopeo = c->helper = c->run_dir = NULL;
    c->registries = NULL;
    c->pulls_max = config->pulls_max > 0 ? config->pulls_max : 3;
    c->stall_sec = config->stall_sec > 0 ? config->stall_sec : 60;
    c->unpacked_max = config->unpacked_max > 0 ? config->unpacked_max : INT64_C(256) << 30;
    c->files_max = config->files_max > 0 ? config->files_max : 4000000;
    c->gc_days = default_to(config->gc_days, 30);
    c->gc_high_percent = default_to(config->gc_high_percent, 85);
    c->gc_low_percent = default_to(config->gc_low_percent, 75);
    images->skopeo = store_program(config->skopeo, "skopeo", false);
    images->helper = store_program(config->helper, "berth-image", true);
    images->run_dir = config->run_dir ? mem_printf("%s/image-auth", config->run_dir)
                                      : mem_printf("%s/staging", images->dir);
    images->mounts_dir = mem_printf("%s/mounts", config->run_dir ? config->run_dir : images->dir);
    images->registries = mem_zalloc((config->registries_len + 1) * sizeof(*images->registries));
    for (; images->registries_len < config->registries_len; images->registries_len++)
        images->registries[images->registries_len] = (struct image_registry){
            .host = mem_strdup(config->registries[images->registries_len].host),
            .ca_file = mem_strdup(config->registries[images->registries_len].ca_file),
            .mirror = mem_strdup(config->registries[images->registries_len].mirror),
            .insecure = config->registries[images->registries_len].insecure,
            .mirror_insecure = config->registries[images->registries_len].mirror_insecure,
        };
}

static int check_version(const char *dir, struct err *err)
{
    CLEANUP(free) char *path = mem_printf("%s/version", dir);
    CLEANUP(buf_done) struct buf text = {0};
    struct err ignored = {0};

    if (file_read(path, 64, &text, &ignored) < 0) {
        if (ignored.code == ERR_NOT_FOUND)
            return file_write_atomic(path, STR(RECORD_VERSION), 0600, err);
        return err_set(err, ignored.code, "%s", ignored.msg);
    }
    if (!str_eq(buf_view(&text), STR(RECORD_VERSION)))
        return err_set(err, ERR_UNSUPPORTED, "'%s' was written by a newer Berth", dir);
    return 0;
}

/* Below all layers: what every container has something mounted on, so that nothing need be made for that in
 * the container's own root. */
static int make_base(const struct images *images, struct err *err)
{
    static const char *const dirs[] = {"dev", "etc", "proc", "sys"}, *const files[] = {"etc/hostname",
                                                                                       "etc/hosts",
                                                                                       "etc/resolv.conf"};

    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        CLEANUP(free) char *path = mem_printf("%s/base/%s", images->dir, dirs[i]);

        if (dir_make(path, 0755, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        CLEANUP(free) char *path = mem_printf("%s/base/%s", images->dir, files[i]);
        CLEANUP(fd_close) int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);

        if (fd < 0)
            return err_errno(err, errno, "make '%s'", path);
    }
    return 0;
}

static int make_folders(struct images *images, struct err *err)
{
    CLEANUP(free) char *lock = mem_printf("%s/lock", images->dir);

    if (dir_make(images->dir, 0700, err) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        CLEANUP(free) char *path = mem_printf("%s/%s", images->dir, folders[i]);

        if (dir_make(path, streq(folders[i], "base") ? 0755 : 0700, err) < 0)
            return -1;
    }
    if (make_base(images, err) < 0 || dir_make(images->run_dir, 0700, err) < 0 ||
        dir_make(images->mounts_dir, 0700, err) < 0)
        return -1;
    images->lock = open(lock, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (images->lock < 0)
        return err_errno(err, errno, "open '%s'", lock);
    if (flock(images->lock, LOCK_EX | LOCK_NB) < 0)
        return err_set(err, ERR_CONFLICT, "another process has the images in '%s'", images->dir);
    return check_version(images->dir, err);
}

/* Calls each for the entries of a folder of the store. */
static void each_file(const struct images *images, const char *folder,
                      void (*each)(struct images *images, const char *path, const char *name))
{
    CLEANUP(free)
    char *path = folder[0] == '/' ? mem_strdup(folder) : mem_printf("%s/%s", images->dir, folder);
    DIR *dir = opendir(path);
    struct dirent *entry;

    while (dir && (entry = readdir(dir)) != NULL) {
        CLEANUP(free) char *file = mem_printf("%s/%s", path, entry->d_name);

        if (entry->d_name[0] != '.')
            each((struct images *)(uintptr_t)images, file, entry->d_name);
    }
    if (dir)
        closedir(dir);
}

static void load_trash(struct images *images, const char *path, const char *name)
{
    (void)name;
    vec_push(&images->trash, mem_strdup(path));
}

static void throw_away(struct images *images, const char *path, const char *name)
{
    (void)name;
    if (unlink(path) == 0 || rmdir(path) == 0)
        return;
    images_discard(images, path);
}

int64_t images_reserve(const struct images *images)
{
    return images->config.reserve_bytes;
}

/* Credentials of a process that was killed. */
static void throw_auth_away(struct images *images, const char *path, const char *name)
{
    const char *const files[] = {"auth.json", "certs/ca.crt", "certs", "registries.conf"};

    (void)images;
    (void)name;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        CLEANUP(free) char *file = mem_printf("%s/%s", path, files[i]);

        if (unlink(file) < 0)
            rmdir(file);
    }
    rmdir(path);
}

static void load_image(struct images *images, const char *path, const char *name)
{
    struct err err = {0};
    char id[IMAGE_DIGEST_MAX];

    snprintf(id, sizeof(id), "sha256:%.64s", name);
    if (!ends_with(name, ".json") || !image_digest_valid(str_from(id)) || strlen(name) != 69) {
        unlink(path); /* the temporary file of a write that was cut off */
        return;
    }
    if (store_load_image(images, id, &err) < 0) {
        log_warn("image %s is dropped: %s", id, err.msg);
        unlink(path);
    }
}

static void load_name(struct images *images, const char *path, const char *file)
{
    CLEANUP(record_name_done) struct record_name name = {0};
    CLEANUP(buf_done) struct buf text = {0};

    (void)file;
    if (file_read(path, RECORD_FILE_MAX, &text, NULL) < 0 ||
        record_name_read(buf_view(&text), &name, NULL) < 0 || !stored_by_id(images, name.id) ||
        store_load_name(images, name.name, NULL) < 0)
        unlink(path);
}

/* Which start of the machine the store was last open in. */
static void check_boot(struct images *images)
{
    CLEANUP(free) char *path = mem_printf("%s/boot", images->dir);
    CLEANUP(buf_done) struct buf now = {0};
    CLEANUP(buf_done) struct buf before = {0};

    (void)file_read("/proc/sys/kernel/random/boot_id", 256, &now, NULL);
    (void)file_read(path, 256, &before, NULL);
    images->rebooted = now.len == 0 || !str_eq(buf_view(&now), buf_view(&before));
    gc_sweep(images, NULL);
    if (images->rebooted && file_write_atomic(path, buf_view(&now), 0600, NULL) == 0)
        images->rebooted = false;
}

static bool takes_trusted(const struct images *images)
{
    CLEANUP(free) char *path = mem_printf("%s/base", images->dir);

    if (setxattr(path, "trusted.berth", "y", 1, 0) < 0)
        return false;
    removexattr(path, "trusted.berth");
    return true;
}

/* By the size of the disk that the store is on, where nothing else is wanted. */
static void set_reserve(struct images *images)
{
    int64_t *reserve = &images->config.reserve_bytes;
    struct statvfs fs;

    if (*reserve == 0)
        *reserve =
            statvfs(images->dir, &fs) < 0 ? DISK_MARK_BYTES : disk_keep((int64_t)(fs.f_blocks * fs.f_frsize));
    if (*reserve < 0)
        *reserve = 0;
}

int images_open(const char *dir, struct loop *loop, const struct images_config *config, struct images **ret,
                struct err *err)
{
    CLEANUP(images_free) struct images *images = NEW(struct images);

    images->loop = loop;
    images->dir = mem_strdup(dir);
    images->lock = -1;
    images->opened = clock_now();
    images->opened_mono = clock_monotonic();
    images->stored = map_new();
    images->names = map_new();
    images->mounted = map_new();
    take_config(images, config);
    if (dir[0] != '/')
        return err_set(err, ERR_INVALID, "the folder for images must be an absolute path, not '%s'", dir);
    if (make_folders(images, err) < 0)
        return -1;
    set_reserve(images);
    images->user_xattr = !takes_trusted(images);
    each_file(images, "trash", load_trash);
    if (config && config->run_dir)
        each_file(images, images->run_dir, throw_auth_away);
    each_file(images, "staging", throw_away);
    each_file(images, "locks", throw_away);
    each_file(images, "images", load_image);
    each_file(images, "names", load_name);
    mounts_load(images);
    check_boot(images);
    store_empty_trash(images);
    gc_timer_start(images);
    *ret = TAKE_PTR(images);
    return 0;
}

static void free_values(struct images *images)
{
    size_t at = 0;
    struct str key;
    void *value;

    while (map_next(images->stored, &at, &key, &value)) {
        image_drop(((struct stored *)value)->image);
        free(value);
    }
    at = 0;
    while (map_next(images->names, &at, &key, &value))
        name_free(value);
    mounts_free(images);
    map_free(images->stored);
    map_free(images->names);
    map_free(images->mounted);
}

void images_free(struct images *images)
{
    if (!images)
        return;
    jobs_end(images);
    loop_timer_free(images->gc_timer);
    loop_timer_free(images->start_timer);
    loop_child_free(images->remover_child);
    if (images->remover > 0) {
        kill(images->remover, SIGKILL);
        while (waitpid(images->remover, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    spares_free(images);
    free_values(images);
    VEC_EACH(&images->trash, it)
        free(*it);
    vec_done(&images->trash);
    for (size_t i = 0; i < images->registries_len; i++) {
        free(images->registries[i].host);
        free(images->registries[i].ca_file);
        free(images->registries[i].mirror);
    }
    free(images->registries);
    fd_close(images->lock);
    free(images->skopeo);
    free(images->helper);
    free(images->run_dir);
    free(images->mounts_dir);
    free(images->dir);
    free(images);
}
