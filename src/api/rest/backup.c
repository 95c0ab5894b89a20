/* GET /v1/backup: everything this daemon needs to start again somewhere else, as one file. It is made by a
 * thread, then sent as the client takes it. */
#include "api/rest/rest.h"
#include "base/mem.h"

#include <unistd.h>

#define PIECE_BYTES (256 << 10)

/* Outlives the request where the client leaves before the backup is done. */
struct sending {
    struct call *call; /* NULL: the client has left */
    int fd;            /* -1: not made yet */
    bool making;
};

static void sending_done(struct sending *sending)
{
    if (sending->fd >= 0)
        close(sending->fd);
    sending->fd = -1;
    if (!sending->making)
        free(sending);
}

static void backup_on_gone(struct http_req *req)
{
    struct sending *sending = req->user;

    sending->call = NULL;
    sending_done(sending);
    http_abandon(req);
}

static void send_more(struct http_req *req)
{
    struct sending *sending = req->user;
    CLEANUP(free) char *piece = mem_alloc(PIECE_BYTES);
    ssize_t n = read(sending->fd, piece, PIECE_BYTES);

    if (n > 0) {
        http_stream_write(req, (struct str){piece, (size_t)n});
        http_stream_on_drain(req, send_more);
        return;
    }
    req->gone = NULL;
    sending_done(sending);
    if (n == 0)
        http_stream_end(req);
    else
        http_abandon(req);
}

static void on_made(void *arg, int fd, const struct err *err)
{
    struct sending *sending = arg;
    struct call *call = sending->call;

    sending->making = false;
    sending->fd = fd;
    if (!call) {
        sending_done(sending);
        return;
    }
    if (err) {
        call->req->gone = NULL;
        sending_done(sending);
        rest_fail_err(call, err);
        return;
    }
    http_stream_begin(call->req, 200, "application/gzip", &(struct http_header){"Cache-Control", "no-store"},
                      1);
    send_more(call->req);
}

void rest_backup(struct call *call, const char *id)
{
    const struct api_hooks *hooks = &call->api->config.hooks;
    struct sending *sending = NEW(struct sending);
    struct err err = {0};

    (void)id;
    *sending = (struct sending){.call = call, .fd = -1, .making = true};
    if (!hooks->backup || hooks->backup(hooks->arg, on_made, sending, &err) < 0) {
        if (!err.code)
            err_set(&err, ERR_UNSUPPORTED, "this server makes no backups");
        free(sending);
        rest_fail_err(call, &err);
        return;
    }
    call->req->user = sending;
    call->req->gone = backup_on_gone;
}
