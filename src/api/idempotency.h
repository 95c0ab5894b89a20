/* idempotency - the header Idempotency-Key: a client that does not know whether its request arrived sends it
 * again, and nothing is made twice. A key is a user's own, for one method and path, and is remembered for
 * IDEMPOTENCY_DAYS together with what it made, in the same commit. */
#pragma once

#include "api/call.h"

#define IDEMPOTENCY_KEY_MAX  255 /* bytes of a key */
#define IDEMPOTENCY_DAYS     7
#define IDEMPOTENCY_KEYS_MAX 100000 /* remembered at once; the oldest go first */

/* At the beginning of a request that makes something. 0: go on (also where no key was sent). 1: *ret_uid is
 * what an earlier request with this key has made; it may have been deleted since. -1: call->failure (400: not
 * a key; 409: the earlier request is under way; 422: that one was another request). */
int idempotency_begin(struct call *call, const char **ret_uid);
/* Something was made: in the same turn, so that both are in one commit. */
void idempotency_made(struct call *call, const char *uid);
