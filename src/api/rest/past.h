/* past - answers of /v1 that are read from the record log (queue.h).
 *
 *     reader = rest_past_new(call, rest_past_reply);
 *     result = queue_usage(queue, from, to, true, reader, &read, &err);
 *     rest_past_begun(call, result, read, &err);
 *
 * Errors, those of the read as well, are answered. */
#pragma once

#include "api/rest/rest.h"
#include "queue/queue.h"

struct rest_past {
    struct queue_reader reader;
    struct call *call;
    struct queue_past *read; /* NULL: not begun, or done */
    void (*then)(struct call *call, struct queue_answer *answer);
};

/* In the call's arena; then: ends the call, or goes on with it. */
const struct queue_reader *rest_past_new(struct call *call,
                                         void (*then)(struct call *call, struct queue_answer *answer));
/* The last thing done with the call. */
void rest_past_begun(struct call *call, int result, struct queue_past *read, const struct err *err);
/* A `then`: the answer is the document that was read. */
void rest_past_reply(struct call *call, struct queue_answer *answer);
void rest_past_fail(struct call *call, const struct err *err);
