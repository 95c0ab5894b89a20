/* layers.c - getting a layer into the store: one process at a time for each (flock on locks/HEX), unpacked in
 * the job's folder, then renamed into place. */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "image/sum.h"
#include "image/work/unpack.h"
#include "image/work/work.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#define CLAIM_RETRY_USEC 100000
#define BOMB_RATIO       100
#define BOMB_BYTES       (INT64_C(2) << 30)

struct step {
    const struct layers *layers;
    size_t i;
};

static void say(const struct layers *layers, size_t i, enum image_step step, int64_t done)
{
    const struct image_blob *blob = &layers->manifest->layers[i];

    work_step(i + 1, layers->manifest->layers_len, step, done, blob->size, blob->digest);
}

/* ---- who fetches ---- */

/* 1: it is here, and the lock shared. 0: it is not, and the lock ours alone. -1: somebody is at it. */
static int try_claim(const struct layers *layers, const char *digest, int fd)
{
    if (flock(fd, LOCK_SH | LOCK_NB) < 0)
        return -1;
    if (record_layer_here(layers->work->dir, digest, NULL))
        return 1;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) { /* two at once: both let go, and try again at different times */
        flock(fd, LOCK_UN);
        return -1;
    }
    if (!record_layer_here(layers->work->dir, digest, NULL))
        return 0;
    flock(fd, LOCK_SH);
    return 1;
}

/* The lock's file says from which registry the layer is being fetched. */
static void write_host(int fd, const char *host)
{
    if (ftruncate(fd, 0) < 0 || pwrite(fd, host, strlen(host), 0) < 0)
        return; /* then nobody goes past us */
}

/* One that drips must not keep a layer from those who have it from elsewhere. */
static bool may_go_past(const struct layers *layers, int fd, int64_t since)
{
    char host[sizeof(layers->work->ref.host)] = "";
    ssize_t n = pread(fd, host, sizeof(host) - 1, 0);

    return n > 0 && !streq(host, layers->work->ref.host) &&
           clock_monotonic() - since > layers->work->stall_sec * NSEC_PER_SEC;
}

int layers_claim(struct layers *layers, size_t i, bool *mine, struct fail *fail)
{
    const char *digest = layers->manifest->layers[i].digest;
    CLEANUP(free) char *path = mem_printf("%s/locks/%s", layers->work->dir, sum_hex(digest));
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600), got = -1;
    int64_t since = clock_monotonic();

    if (fd < 0)
        return err_errno(&fail->err, errno, "open '%s'", path);
    vec_push(&layers->locks, fd);
    layers->beside = false;
    while (!layers->beside && (got = try_claim(layers, digest, fd)) < 0) {
        unsigned char jitter;

        say(layers, i, IMAGE_STEP_WAITING, 0);
        random_bytes(&jitter, sizeof(jitter));
        usleep(CLAIM_RETRY_USEC + 200 * (useconds_t)jitter);
        if (layers_wait(layers, LAYERS_AT_ONCE, fail) < 0)
            return -1;
        layers->beside = may_go_past(layers, fd, since);
    }
    *mine = layers->beside || got == 0;
    if (!layers->beside && *mine)
        write_host(fd, layers->work->ref.host);
    if (!*mine)
        say(layers, i, IMAGE_STEP_PRESENT, layers->manifest->layers[i].size);
    return 0;
}

int layers_check_space(const struct layers *layers, struct fail *fail)
{
    const struct work *work = layers->work;
    struct statvfs fs;
    int64_t need = 0, have;

    for (size_t i = 0; i < layers->manifest->layers_len; i++)
        if (!record_layer_here(work->dir, layers->manifest->layers[i].digest, NULL))
            need += layers->manifest->layers[i].size;
    if (statvfs(work->dir, &fs) < 0)
        return err_errno(&fail->err, errno, "ask for disk space");
    have = (int64_t)(fs.f_bavail * fs.f_frsize);
    if (need > 0 && have - work->reserve_bytes < need)
        return fail_set(fail, IMAGE_FAIL_NO_SPACE,
                        "the image needs %lld MB and the disk has %lld MB left, of which %lld MB stay free",
                        (long long)(need >> 20), (long long)(have >> 20),
                        (long long)(work->reserve_bytes >> 20));
    return 0;
}

/* ---- unpacking ---- */

static void on_progress(void *arg, int64_t consumed)
{
    const struct step *step = arg;

    say(step->layers, step->i, IMAGE_STEP_UNPACKING, consumed);
}

static int write_implied(const char *temp, struct str implied, struct fail *fail)
{
    CLEANUP(free) char *path = mem_printf("%s/implied", temp);
    CLEANUP(fd_close) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0 || write(fd, implied.s, implied.len) != (ssize_t)implied.len)
        return err_errno(&fail->err, errno, "write '%s'", path);
    return 0;
}

/* Not synced here: work_record does that once for all layers, before the image is there. Layers without an
 * image are not believed after the machine was started anew. */
static int publish(const struct layers *layers, size_t i, const char *temp,
                   const struct unpack_counts *counts, struct str implied, struct fail *fail)
{
    const struct image_blob *blob = &layers->manifest->layers[i];
    CLEANUP(free) char *meta = mem_printf("%s/meta.json", temp);
    CLEANUP(free) char *path = record_layer_path(layers->work->dir, blob->digest, "");
    CLEANUP(fd_close) int fd = open(meta, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CLEANUP(buf_done) struct buf text = {0};

    record_layer_meta(&text, blob->digest, blob->size, counts->bytes, counts->files);
    if (fd < 0 || write(fd, text.data, text.len) != (ssize_t)text.len)
        return err_errno(&fail->err, errno, "write '%s'", meta);
    if (implied.len && write_implied(temp, implied, fail) < 0)
        return -1;
    if (rename(temp, path) < 0 && errno != EEXIST && errno != ENOTEMPTY)
        return err_errno(&fail->err, errno, "rename '%s'", temp);
    return 0;
}

/* What unpacks to a hundred times its size is no layer but a bomb, once it is large. */
static int64_t unpacked_max(const struct work *work, int64_t packed)
{
    int64_t max = packed < INT64_MAX / BOMB_RATIO ? packed * BOMB_RATIO : INT64_MAX;

    if (max < BOMB_BYTES)
        max = BOMB_BYTES;
    return max < work->unpacked_max ? max : work->unpacked_max;
}

static int unpack_one(const struct layers *layers, size_t i, int blob, struct fail *fail)
{
    const struct work *work = layers->work;
    const char *digest = layers->manifest->layers[i].digest;
    CLEANUP(free) char *temp = mem_printf("%s/%s.layer", work->job, sum_hex(digest));
    CLEANUP(free) char *fs = mem_printf("%s/fs", temp);
    CLEANUP(buf_done) struct buf implied = {0};
    struct step step = {layers, i};
    struct unpack_options options = {
        .bytes_max = unpacked_max(work, layers->manifest->layers[i].size),
        .files_max = work->files_max,
        .reserve_bytes = work->reserve_bytes,
        .progress = on_progress,
        .arg = &step,
        .implied = &implied,
    };
    CLEANUP(fd_close) int root = -1;
    struct unpack_counts counts;

    if (mkdir(temp, 0700) < 0 || mkdir(fs, 0755) < 0 || chmod(fs, 0755) < 0)
        return err_errno(&fail->err, errno, "make '%s'", fs);
    root = open(fs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return err_errno(&fail->err, errno, "open '%s'", fs);
    if (lseek(blob, 0, SEEK_SET) < 0 || unpack_tar(blob, root, &options, &counts, fail) < 0)
        return -1;
    return publish(layers, i, temp, &counts, buf_view(&implied), fail);
}

int layers_unpack(struct layers *layers, size_t i, int blob, const char *path, struct fail *fail)
{
    pid_t parent = getpid(), pid;

    if (layers_wait(layers, LAYERS_AT_ONCE - 1, fail) < 0)
        return -1;
    say(layers, i, IMAGE_STEP_UNPACKING, 0);
    pid = fork();
    if (pid < 0)
        return err_errno(&fail->err, errno, "fork");
    if (pid == 0) {
        struct fail why = {0};

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        if (unpack_one(layers, i, blob, &why) < 0) {
            work_say("fail %d %s", (int)fail_kind(&why), why.err.msg);
            _exit(1);
        }
        if (path)
            unlink(path);
        /* the parent's, too: it is the same lock */
        flock(layers->locks.v[layers->locks.len - 1], LOCK_SH | (layers->beside ? LOCK_NB : 0));
        say(layers, i, IMAGE_STEP_DONE, layers->manifest->layers[i].size);
        _exit(0);
    }
    for (size_t slot = 0; slot < LAYERS_AT_ONCE; slot++) {
        if (layers->running[slot] == 0) {
            layers->running[slot] = pid;
            break;
        }
    }
    return 0;
}

static size_t count_running(const struct layers *layers)
{
    size_t n = 0;

    for (size_t i = 0; i < LAYERS_AT_ONCE; i++)
        n += layers->running[i] != 0;
    return n;
}

int layers_wait(struct layers *layers, size_t at_most, struct fail *fail)
{
    for (size_t i = 0; i < LAYERS_AT_ONCE; i++) {
        pid_t pid = layers->running[i];
        bool must = count_running(layers) > at_most;
        int status;

        if (pid == 0 || waitpid(pid, &status, must ? 0 : WNOHANG) != pid)
            continue;
        layers->running[i] = 0;
        /* The child has said why already: the store believes the first line. */
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            return fail_set(fail, IMAGE_FAIL_OTHER, "a layer could not be unpacked (status %d)", status);
    }
    return 0;
}

/* What was fetched is worth having, also when the rest failed: the next try finds it. */
void layers_done(struct layers *layers)
{
    for (size_t i = 0; i < LAYERS_AT_ONCE; i++)
        while (layers->running[i] && waitpid(layers->running[i], NULL, 0) < 0 && errno == EINTR)
            ;
    VEC_EACH(&layers->locks, it)
        close(*it);
    vec_done(&layers->locks);
}
