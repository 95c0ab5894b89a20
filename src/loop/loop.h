/* loop - one thread's wait for descriptors, timers, signals and child processes (epoll).
 *
 * Callbacks run one after another from loop_run, never from inside the calls that register them. A
 * callback may add, change and remove anything, also itself. A loop borrows descriptors: closing them
 * is the caller's, after loop_io_free. */
#pragma once

#include "base/cleanup.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/types.h>

struct loop;
struct loop_io;
struct loop_timer;
struct loop_child;

struct loop *loop_new(void);
void loop_free(struct loop *loop); /* NULL is fine; what is registered must be gone before */
DEFINE_CLEANUP(struct loop *, loop_free);

/* Runs until loop_stop. */
int loop_run(struct loop *loop, struct err *err);
/* One turn: waits at most timeout_ms (-1: as long as it takes), runs what is ready. For tests. */
int loop_turn(struct loop *loop, int timeout_ms, struct err *err);
void loop_stop(struct loop *loop);
/* For tests: turns never wait. Where nothing is ready, the time of `clock` (which clock_use has made
 * everybody's) jumps to the first timer, at most as far as the turn would have waited. */
struct clock_virtual;
void loop_use_clock(struct loop *loop, struct clock_virtual *clock); /* borrowed */
/* Monotonic time at the start of this turn: cheap, the same for all callbacks of a turn. */
int64_t loop_now(const struct loop *loop);

/* The most processor time that one turn has taken since this was asked last: who waited, waited about so
 * long. */
int64_t loop_longest_turn(struct loop *loop);
/* How long turns took, by the wall's clock, without the wait before them; on the scale histogram_latency.
 * Borrowed. */
struct histogram;
const struct histogram *loop_turns(const struct loop *loop);

typedef void (*loop_io_fn)(void *arg, uint32_t events);
/* events: EPOLLIN | EPOLLOUT …, level-triggered; EPOLLERR and EPOLLHUP always come. */
struct loop_io *loop_io_new(struct loop *loop, int fd, uint32_t events, loop_io_fn fn, void *arg);
void loop_io_set(struct loop_io *io, uint32_t events);
void loop_io_free(struct loop_io *io); /* NULL is fine; no callback comes after it, not even in this turn */

typedef void (*loop_timer_fn)(void *arg);
/* A timer is made idle; it fires once per loop_timer_set. It may be set again in its own callback. */
struct loop_timer *loop_timer_new(struct loop *loop, loop_timer_fn fn, void *arg);
void loop_timer_set(struct loop_timer *timer, int64_t delay_ns); /* from now; replaces an earlier one */
void loop_timer_stop(struct loop_timer *timer);
bool loop_timer_active(const struct loop_timer *timer);
void loop_timer_free(struct loop_timer *timer); /* NULL is fine */

/* Runs fn once at the end of this turn (or of the next one when called outside), in the order of the
 * calls, before the loop waits again. Cannot be taken back. */
void loop_later(struct loop *loop, void (*fn)(void *arg), void *arg);

/* signo is blocked in this thread and delivered here from now on. */
int loop_signal(struct loop *loop, int signo, void (*fn)(void *arg, int signo), void *arg, struct err *err);

/* Calls fn once when the child `pid` has ended (it is reaped then): wait status as from waitpid. */
typedef void (*loop_child_fn)(void *arg, pid_t pid, int status);
struct loop_child *loop_child_new(struct loop *loop, pid_t pid, loop_child_fn fn, void *arg, struct err *err);
void loop_child_free(struct loop_child *child); /* NULL is fine; the child itself goes on */

/* Runs fn(arg) in the loop's thread soon. The only call here that any thread may make. */
void loop_post(struct loop *loop, void (*fn)(void *arg), void *arg);
