/* An archive that comes over the connection: frames into a file, then the store takes it. The caller has read
 * it with its own rights, so no path of theirs is ever opened here. Bytes are written in a thread, a batch at
 * a time, since a busy disk holds up whoever writes to it; a caller that is faster waits. */
#include "base/file.h"
#include "base/mem.h"
#include "loop/offload.h"
#include "machine/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define QUEUE_MAX (2 << 20) /* bytes that wait for the disk before we stop reading from the caller */
#define WRITE_SEC 300       /* for one batch of them */

struct import {
    struct machine *machine;
    struct http_conn *conn;
    struct image_pull *pull;
    char *path;
    char name[IMAGE_REF_MAX];
    int fd;
    unsigned char head[4];
    size_t head_len;
    uint32_t left;    /* of the frame */
    struct buf queue; /* bytes for the disk */
    bool writing;     /* a batch is on its way there */
    bool over;        /* only that batch is still to end */
    bool paused;
    bool whole; /* the last frame was there */
    char *owner;
    bool all; /* every step is told, not only news */
};

static void import_free(struct import *import)
{
    struct machine *machine = import->machine;

    for (size_t i = 0; i < machine->imports.len; i++)
        if (machine->imports.v[i] == import) {
            vec_remove(&machine->imports, i);
            break;
        }
    free(import->path);
    free(import->owner);
    free(import);
}

/* What is left waits for the disk, where it is being written to. */
static void import_end(struct import *import)
{
    import->over = true;
    if (import->pull)
        image_pull_cancel(TAKE_PTR(import->pull));
    fd_close(take_fd(&import->fd));
    buf_done(&import->queue);
    if (import->path)
        images_discard(import->machine->images, import->path);
    if (import->conn)
        http_conn_close(TAKE_PTR(import->conn));
    if (!import->writing)
        import_free(import);
}

static void say_and_end(struct import *import, const char *sentence)
{
    CLEANUP(free) char *line = mem_printf("fail %s\n", sentence);

    http_conn_write(import->conn, str_from(line));
    import_end(import);
}

static void on_progress(void *arg, const struct image_progress *progress)
{
    struct import *import = arg;
    CLEANUP(buf_done) struct buf line = {0};

    if (!import->all && !progress_is_news(progress))
        return;
    progress_line(&line, progress);
    http_conn_write(import->conn, buf_view(&line));
}

static void on_done(void *arg, const struct image_pull_result *result)
{
    struct import *import = arg;
    CLEANUP(buf_done) struct buf line = {0};

    import->pull = NULL;
    result_line(&line, result);
    http_conn_write(import->conn, buf_view(&line));
    import_end(import);
}

static const struct image_pull_events events = {on_progress, on_done};

/* ---- bytes ---- */

struct batch {
    int fd;
    struct buf data;
    int64_t keep; /* bytes of the disk that stay free */
    int error;    /* 0: all is written */
};

static void batch_free(void *arg)
{
    struct batch *batch = arg;

    fd_close(batch->fd);
    buf_done(&batch->data);
    free(batch);
}

/* In a thread. Others fill the disk, too: it is asked each time. */
static void batch_write(void *arg)
{
    struct batch *batch = arg;
    struct statvfs disk;

    if (fstatvfs(batch->fd, &disk) < 0) {
        batch->error = errno;
        return;
    }
    if ((int64_t)(disk.f_bavail * disk.f_frsize) - batch->keep < (int64_t)batch->data.len) {
        batch->error = ENOSPC;
        return;
    }
    for (size_t at = 0; at < batch->data.len && !batch->error;) {
        ssize_t n = write(batch->fd, batch->data.data + at, batch->data.len - at);

        if (n > 0)
            at += (size_t)n;
        else if (n == 0 || errno != EINTR)
            batch->error = n < 0 ? errno : EIO;
    }
}

static void write_next(struct import *import);

static void on_written(void *owner, void *work)
{
    struct import *import = owner;
    struct batch *batch = work;
    int error = batch ? batch->error : ETIMEDOUT;

    if (batch)
        batch_free(batch);
    import->writing = false;
    if (import->over)
        import_free(import);
    else if (error == ENOSPC || error == EDQUOT)
        say_and_end(import, "no space: the archive does not fit on the disk of the server");
    else if (error)
        say_and_end(import, strerrordesc_np(error));
    else
        write_next(import);
}

/* import may be gone afterwards. */
static void write_next(struct import *import)
{
    struct batch *batch;
    struct err err = {0};

    if (import->writing || import->pull)
        return;
    if (import->paused) {
        import->paused = false;
        http_conn_pause(import->conn, false);
    }
    if (import->queue.len == 0) {
        if (!import->whole)
            return;
        fd_close(take_fd(&import->fd));
        import->pull = images_import(import->machine->images, import->path, import->name, &events, import);
        return;
    }
    batch = NEW(struct batch);
    *batch = (struct batch){.fd = fcntl(import->fd, F_DUPFD_CLOEXEC, 3),
                            .data = import->queue,
                            .keep = images_reserve(import->machine->images)};
    import->queue = (struct buf){0};
    if (offload_run(import->machine->writes, WRITE_SEC, batch_write, on_written, batch_free, import, batch,
                    &err) < 0) {
        batch_free(batch);
        say_and_end(import, err.msg);
        return;
    }
    import->writing = true;
}

static void take_bytes(struct import *import, struct str *data)
{
    size_t n = data->len < import->left ? data->len : import->left;

    buf_add(&import->queue, data->s, n);
    *data = (struct str){data->s + n, data->len - n};
    import->left -= (uint32_t)n;
}

static void on_data(void *arg, struct str data)
{
    struct import *import = arg;

    while (data.len > 0 && !import->whole) {
        if (import->left > 0) {
            take_bytes(import, &data);
            continue;
        }
        import->head[import->head_len++] = (unsigned char)data.s[0];
        data = (struct str){data.s + 1, data.len - 1};
        if (import->head_len < sizeof(import->head))
            continue;
        import->head_len = 0;
        import->left = (uint32_t)import->head[0] << 24 | (uint32_t)import->head[1] << 16 |
                       (uint32_t)import->head[2] << 8 | import->head[3];
        if (import->left > MACHINE_FRAME_MAX) {
            say_and_end(import, "a frame is too long");
            return;
        }
        import->whole = import->left == 0;
    }
    if (import->queue.len > QUEUE_MAX && import->writing && !import->paused) {
        import->paused = true;
        http_conn_pause(import->conn, true);
    }
    write_next(import);
}

static void on_closed(void *arg, const char *why)
{
    (void)why;
    import_end(arg);
}

static const struct http_conn_ops ops = {.data = on_data, .closed = on_closed};

static int make_file(struct import *import, struct err *err)
{
    CLEANUP(free) char *folder = mem_printf("%s/incoming", import->machine->data_dir);
    char random[17];

    random_hex(random, 8);
    import->path = mem_printf("%s/%s.tar", folder, random);
    if (dir_make(folder, 0700, err) < 0)
        return -1;
    import->fd = open(import->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (import->fd < 0)
        return err_errno(err, errno, "make '%s'", import->path);
    return 0;
}

/* What a daemon that was killed has left. */
void imports_sweep(struct machine *machine)
{
    CLEANUP(free) char *folder = mem_printf("%s/incoming", machine->data_dir);
    DIR *dir = opendir(folder);
    struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        if (ends_with(entry->d_name, ".tar") || ends_with(entry->d_name, ".trash")) {
            CLEANUP(free) char *path = mem_printf("%s/%s", folder, entry->d_name);

            images_discard(machine->images, path);
        }
    if (dir)
        closedir(dir);
}

void import_route(struct machine *machine, struct call *call)
{
    struct import *import = NEW(struct import);
    struct err err = {0};
    size_t own = 0;

    *import = (struct import){.machine = machine,
                              .fd = -1,
                              .all = query_bool(call, "progress"),
                              .owner = mem_strdup(call->who.user)};
    for (size_t i = 0; i < machine->imports.len; i++)
        own += streq(machine->imports.v[i]->owner, import->owner);
    if (share_used_up(call, "imports", own, IMPORTS_PERSON_MAX, machine->imports.len, IMPORTS_MAX)) {
        import_end(import);
        return;
    }
    vec_push(&machine->imports, import);
    if (image_local_name(machine_owner(call), query_string(call, "name"), import->name, &err) < 0 ||
        make_file(import, &err) < 0) {
        call_fail_err(call, &err);
        import_end(import);
        return;
    }
    import->conn = http_upgrade(call->req, MACHINE_PROTOCOL, NULL, 0, &ops, import);
}

void imports_end(struct machine *machine)
{
    while (machine->imports.len > 0) {
        struct import *import = vec_pop(&machine->imports);

        import->conn = NULL;     /* the server is gone, and its connections with it */
        import->writing = false; /* nobody tells of it any more */
        import_end(import);
    }
    vec_done(&machine->imports);
}
