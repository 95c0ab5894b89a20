/* share - what one person holds of things that the daemon has only so much of: open streams and lists that
 * are being sent. Each has a bound per person (docs/limits.md) beside the one for all. Admins have the one
 * for all. Callers without a name count together, by address. */
#pragma once

#include "api/call.h"

enum share_kind {
    SHARE_STREAMS,    /* of the queue */
    SHARE_LIST_BYTES, /* of objects that watches have still to send */
    SHARE_KINDS,
};

/* Who counts: the name, and of those without one the address. In the call's arena. */
const char *share_person(struct call *call);

/* A place in what somebody holds; zero-initialised is none. */
struct share_hold {
    struct api *api;
    char *who;
    enum share_kind kind;
    size_t amount;
};

/* 0, or -1 with call->failure (429). */
int share_take(struct call *call, enum share_kind kind, size_t amount, struct share_hold *ret);
void share_give(struct share_hold *hold); /* none afterwards */

struct shares;
void shares_free(struct shares *shares); /* NULL is fine */
