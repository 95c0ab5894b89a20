/* Answers that are read from the record log: by a thread, one after another for each person. A client that
 * leaves ends its read. */
#include "api/rest/past.h"

#include "api/share.h"

#define RETRY_SEC 1

static void past_on_gone(struct http_req *req)
{
    struct rest_past *past = req->user;

    queue_past_cancel(TAKE_PTR(past->read));
    http_abandon(req);
}

void rest_past_fail(struct call *call, const struct err *err)
{
    failure_from_err(&call->failure, call->arena, err);
    if (err->code == ERR_INVALID) /* about what was asked for, not about its form */
        call->failure.code = 422;
    if (err->code == ERR_LIMIT)
        call->failure.retry_after = RETRY_SEC;
    rest_fail(call);
}

static void past_on_done(void *arg, struct queue_answer *answer, const struct err *err)
{
    struct rest_past *past = arg;

    past->read = NULL;
    past->call->req->gone = NULL;
    if (err)
        rest_past_fail(past->call, err);
    else
        past->then(past->call, answer);
}

const struct queue_reader *rest_past_new(struct call *call,
                                         void (*then)(struct call *call, struct queue_answer *answer))
{
    struct rest_past *past = arena_zalloc(call->arena, sizeof(*past));

    *past = (struct rest_past){.call = call, .then = then};
    past->reader = (struct queue_reader){share_person(call), past_on_done, past};
    call->req->user = past;
    call->req->gone = past_on_gone;
    return &past->reader;
}

void rest_past_begun(struct call *call, int result, struct queue_past *read, const struct err *err)
{
    if (result < 0) {
        call->req->gone = NULL;
        rest_past_fail(call, err);
    } else if (read) { /* else it has been answered, and the call is gone */
        ((struct rest_past *)call->req->user)->read = read;
    }
}

void rest_past_reply(struct call *call, struct queue_answer *answer)
{
    buf_putc(&answer->text, '\n');
    call->no_store = true;
    call_reply(call, 200, "application/json", &answer->text);
}
