/* offload - work that may hang (a directory service, a file server that is away) in threads of its own, with
 * a time limit. What a thread works on is its own: when the limit is over it is left to the thread, which
 * drops it whenever the call returns. At most OFFLOAD_MAX at once. */
#pragma once

#include "base/err.h"

#include <stdint.h>

#define OFFLOAD_MAX 64
#define OFFLOAD_SEC 10

struct loop;
struct offload;

struct offload *offload_new(struct loop *loop);
void offload_close(struct offload *offload); /* no callback comes any more; NULL is fine */

typedef void (*offload_work_fn)(void *work);              /* in a thread; touches work alone */
typedef void (*offload_done_fn)(void *owner, void *work); /* in the loop; work NULL: it took too long */
typedef void (*offload_drop_fn)(void *work); /* frees work that nobody waits for, in any thread */
/* On success exactly one of done and drop comes, done within limit_sec unless closed before; done has to free
 * its work. ERR_LIMIT: too many at once; work stays the caller's. */
int offload_run(struct offload *offload, int64_t limit_sec, offload_work_fn fn, offload_done_fn done,
                offload_drop_fn drop, void *owner, void *work, struct err *err);
