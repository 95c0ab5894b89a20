/* gc.c - which images go, and the layers that nobody has any more. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "image/internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#define LOG_MODULE "image"
#define DAY_NS     (24 * 3600 * NSEC_PER_SEC)
#define GRACE_NS   (120 * NSEC_PER_SEC)  /* between a pull and the container that wanted it */
#define JUMP_NS    (3600 * NSEC_PER_SEC) /* more between the two clocks is not drift */
#define ORPHAN_SEC (6 * 3600)            /* how long layers of a failed pull wait for the next try */

/* ---- the decision ---- */

static int by_use(const void *a, const void *b)
{
    const struct gc_item *x = *(struct gc_item *const *)a, *y = *(struct gc_item *const *)b;

    if (x->used != y->used)
        return x->used < y->used ? -1 : 1;
    return strcmp(x->image->id, y->image->id);
}

/* How many of the images have each layer. Counts are stored as pointers, which are never looked at. */
static void count_layers(struct map *counts, const struct image *image, intptr_t add)
{
    for (size_t i = 0; i < image->layers_len; i++) {
        struct str key = str_from(image->layers[i].digest);
        intptr_t n = (intptr_t)map_get(counts, key) + add;

        if (n == 0)
            map_remove(counts, key);
        else
            map_set(counts, key, (void *)n);
    }
}

static int64_t freed_by(const struct map *counts, const struct image *image)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < image->layers_len; i++) {
        bool again = false;

        for (size_t k = 0; k < i && !again; k++)
            again = streq(image->layers[k].digest, image->layers[i].digest);
        if (!again && !map_get(counts, str_from(image->layers[i].digest)))
            bytes += image->layers[i].unpacked;
    }
    return bytes;
}

int64_t gc_plan(struct gc_item *items, size_t len, int64_t now, int64_t max_age_ns, int64_t need_bytes)
{
    CLEANUP(map_free) struct map *counts = map_new();
    CLEANUP(free) struct gc_item **order = mem_zalloc((len + 1) * sizeof(struct gc_item *));
    int64_t freed = 0;

    for (size_t i = 0; i < len; i++) {
        items[i].remove = false;
        order[i] = &items[i];
        count_layers(counts, items[i].image, 1);
    }
    qsort(order, len, sizeof(struct gc_item *), by_use);
    for (size_t i = 0; i < len; i++) {
        struct gc_item *item = order[i];
        bool old = max_age_ns >= 0 && now - item->used > max_age_ns;

        if (item->busy || (!old && freed >= need_bytes))
            continue;
        item->remove = true;
        count_layers(counts, item->image, -1);
        freed += freed_by(counts, item->image);
    }
    return freed;
}

/* A clock that is set forward by a month (a bad time server, a dead battery) must not remove everything as
 * old: while we run, no more time goes by than the machine counts. */
int64_t gc_time(int64_t wall, int64_t opened_wall, int64_t ran)
{
    return wall < opened_wall + ran + JUMP_NS ? wall : opened_wall + ran;
}

/* ---- doing it ---- */

/* Bytes to free so that the disk is as empty as it should be; 0 when it is not too full. */
static int64_t bytes_needed(const struct images *images)
{
    const struct images_config *config = &images->config;
    struct statvfs fs;
    int64_t total, used;

    if (config->gc_high_percent < 0 || statvfs(images->dir, &fs) < 0)
        return 0;
    /* As df counts: what is kept for root is neither used nor free. */
    used = (int64_t)((fs.f_blocks - fs.f_bfree) * fs.f_frsize);
    total = used + (int64_t)(fs.f_bavail * fs.f_frsize);
    if (used <= total / 100 * config->gc_high_percent)
        return 0;
    return used - total / 100 * config->gc_low_percent;
}

/* By its time of change: it stays when we are killed, and needs no file of its own. */
void gc_mark(const struct images *images, const char *digest)
{
    CLEANUP(free) char *path = record_layer_path(images->dir, digest, "");
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {0}};

    utimensat(AT_FDCWD, path, times, 0);
}

static bool waits_for_retry(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && st.st_mtime != 0 &&
           llabs((long long)(time(NULL) - st.st_mtime)) < ORPHAN_SEC;
}

/* Pulls under way hold a lock on each layer they count on, until their image is recorded. */
static int lock_layer(const struct images *images, const char *name)
{
    CLEANUP(free) char *path = mem_printf("%s/locks/%s", images->dir, name);
    CLEANUP(fd_close) int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 ? take_fd(&fd) : -1;
}

static void sweep_one(struct images *images, const struct map *wanted, const char *name,
                      struct images_gc *ret)
{
    char digest[IMAGE_DIGEST_MAX];
    CLEANUP(free) char *path = NULL;
    CLEANUP(fd_close) int lock = -1;
    int64_t unpacked = 0;

    snprintf(digest, sizeof(digest), "sha256:%.64s", name);
    if (map_get(wanted, str_from(digest)))
        return;
    path = mem_printf("%s/layers/%s", images->dir, name);
    lock = lock_layer(images, name);
    if (lock < 0 || (!images->rebooted && waits_for_retry(path)))
        return;
    if (image_digest_valid(str_from(digest)) && record_layer_here(images->dir, digest, &unpacked)) {
        ret->layers++;
        ret->bytes += unpacked;
    }
    images_discard(images, path);
}

void gc_sweep(struct images *images, struct images_gc *ret)
{
    CLEANUP(map_free) struct map *wanted = map_new();
    CLEANUP(free) char *path = mem_printf("%s/layers", images->dir);
    struct images_gc unused = {0};
    struct dirent *entry;
    struct str key;
    size_t at = 0;
    void *value;
    DIR *dir;

    while (map_next(images->stored, &at, &key, &value))
        count_layers(wanted, ((struct stored *)value)->image, 1);
    dir = opendir(path);
    while (dir && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.')
            sweep_one(images, wanted, entry->d_name, ret ? ret : &unused);
    if (dir)
        closedir(dir);
}

void images_gc(struct images *images, struct images_gc *ret)
{
    CLEANUP(free) struct gc_item *items = mem_zalloc((map_len(images->stored) + 1) * sizeof(*items));
    struct images_gc sum = {0};
    int64_t now = gc_time(clock_now(), images->opened, clock_monotonic() - images->opened_mono);
    int64_t age = images->config.gc_days < 0 ? -1 : images->config.gc_days * DAY_NS;
    size_t len = 0, at = 0;
    struct str key;
    void *value;

    while (map_next(images->stored, &at, &key, &value)) {
        const struct stored *stored = value;

        items[len++] = (struct gc_item){
            .image = stored->image,
            .used = stored->used,
            .busy = stored->mounts > 0 || (now - stored->used < GRACE_NS && stored->used - now < GRACE_NS) ||
                    store_kept(stored->image),
        };
    }
    gc_plan(items, len, now, age, bytes_needed(images));
    for (size_t i = 0; i < len; i++) {
        if (!items[i].remove)
            continue;
        log_info("image %s is removed: not used for %lld h", items[i].image->id,
                 (long long)((now - items[i].used) / (3600 * NSEC_PER_SEC)));
        store_forget(images, stored_by_id(images, items[i].image->id));
        sum.images++;
    }
    gc_sweep(images, &sum);
    if (ret)
        *ret = sum;
}

static void on_timer(void *arg)
{
    struct images *images = arg;

    images_gc(images, NULL);
    loop_timer_set(images->gc_timer, images->config.gc_interval_sec * NSEC_PER_SEC);
}

void gc_timer_start(struct images *images)
{
    if (images->config.gc_interval_sec <= 0)
        return;
    images->gc_timer = loop_timer_new(images->loop, on_timer, images);
    loop_timer_set(images->gc_timer, images->config.gc_interval_sec * NSEC_PER_SEC);
}
