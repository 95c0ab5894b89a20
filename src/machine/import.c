/* An archive that comes over the connection: frames into a file, then the store takes it. The caller has read
 * it with its own rights, so no path of theirs is ever opened here. */
#include "base/file.h"
#include "base/mem.h"
#include "machine/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define RESERVE_BYTES (INT64_C(1) << 30)  /* of disk that stays free */
#define CHECK_BYTES   (INT64_C(64) << 20) /* come before the disk is asked again: others fill it, too */

struct import {
    struct machine *machine;
    struct http_conn *conn;
    struct image_pull *pull;
    char *path;
    char name[IMAGE_REF_MAX];
    int fd;
    unsigned char head[4];
    size_t head_len;
    uint32_t left; /* of the frame */
    int64_t room;  /* bytes that may come before the disk is asked */
    bool whole;    /* the last frame was there */
    bool all;      /* every step is told, not only news */
};

static void import_free(struct import *import)
{
    struct machine *machine = import->machine;

    for (size_t i = 0; i < machine->imports.len; i++)
        if (machine->imports.v[i] == import) {
            vec_remove(&machine->imports, i);
            break;
        }
    if (import->pull)
        image_pull_cancel(import->pull);
    fd_close(import->fd);
    if (import->path)
        images_discard(machine->images, import->path);
    free(import->path);
    if (import->conn)
        http_conn_close(import->conn);
    free(import);
}

static void say_and_end(struct import *import, const char *sentence)
{
    CLEANUP(free) char *line = mem_printf("fail %s\n", sentence);

    http_conn_write(import->conn, str_from(line));
    import_free(import);
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
    import_free(import);
}

static const struct image_pull_events events = {on_progress, on_done};

/* How much may come; below 0: nothing. */
static int64_t ask_room(int fd)
{
    struct statvfs disk;
    int64_t room;

    if (fstatvfs(fd, &disk) < 0)
        return -1;
    room = (int64_t)(disk.f_bavail * disk.f_frsize) - RESERVE_BYTES;
    return room < CHECK_BYTES ? room : CHECK_BYTES;
}

/* false: import is gone. */
static bool take_bytes(struct import *import, struct str *data)
{
    size_t n = data->len < import->left ? data->len : import->left;

    if (import->room < (int64_t)n)
        import->room = ask_room(import->fd);
    import->room -= (int64_t)n;
    if (import->room < 0) {
        say_and_end(import, "no space: the archive does not fit on the disk of the server");
        return false;
    }
    while (n > 0) {
        ssize_t done = write(import->fd, data->s, n);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            say_and_end(import, strerror(errno));
            return false;
        }
        *data = (struct str){data->s + done, data->len - (size_t)done};
        import->left -= (uint32_t)done;
        n -= (size_t)done;
    }
    return true;
}

static void on_data(void *arg, struct str data)
{
    struct import *import = arg;

    while (data.len > 0 && !import->whole) {
        if (import->left > 0) {
            if (!take_bytes(import, &data))
                return;
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
    if (import->whole && !import->pull) {
        fd_close(take_fd(&import->fd));
        import->pull = images_import(import->machine->images, import->path, import->name, &events, import);
    }
}

static void on_closed(void *arg, const char *why)
{
    (void)why;
    import_free(arg);
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

    *import = (struct import){.machine = machine, .fd = -1, .all = query_bool(call, "progress")};
    vec_push(&machine->imports, import);
    if (image_local_name(machine_owner(call), query_string(call, "name"), import->name, &err) < 0 ||
        make_file(import, &err) < 0) {
        call_fail_err(call, &err);
        import_free(import);
        return;
    }
    import->conn = http_upgrade(call->req, MACHINE_PROTOCOL, NULL, 0, &ops, import);
}

void imports_end(struct machine *machine)
{
    while (machine->imports.len > 0) {
        struct import *import = vec_pop(&machine->imports);

        import->conn = NULL; /* the server is gone, and its connections with it */
        import_free(import);
    }
    vec_done(&machine->imports);
}
