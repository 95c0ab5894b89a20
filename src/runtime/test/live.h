/* live - what the tests on real containers share: a root file system made of busybox, a runtime with folders
 * and cgroups of its own, containers that note what happens to them. Everything is gone after live_done,
 * which fails the test otherwise. */
#pragma once

#include "base/buf.h"
#include "base/clock.h"
#include "base/test/test.h"
#include "loop/loop.h"
#include "runtime/runtime.h"

#define LIVE_WAIT (30 * NSEC_PER_SEC)

struct live {
    struct loop *loop;
    struct runtime *rt;
    char dir[64], rootfs[96], cgroup[64];
    const char *oci, *shim;
    int serial;
};

/* Arguments: crun or runc, the shim, and a filter of tests. 0: go on; else the exit status: 77 with the
 * reason printed when these tests cannot run here. */
int live_prepare(int argc, char **argv);
extern const char *live_oci;
int live_set_up(void **state); /* a struct live */
int live_tear_down(void **state);
#define LIVE_TEST(name) cmocka_unit_test_setup_teardown(name, live_set_up, live_tear_down)
/* Drops the runtime and makes another, as a restart of the daemon does. */
void live_restart(struct live *live);

struct box {
    struct live *live;
    struct runtime_container *c;
    char id[64], log[160];
    int started, exited, failed;
    pid_t pid;
    struct runtime_exit how;
    char sentence[512];
};
extern const struct runtime_events box_events;
/* A spec with the id, rootfs, log and args of `sh -c script` (NULL: the caller sets args). */
struct runtime_spec box_spec(struct live *live, struct box *box, const char *script);
void box_start(struct box *box, const struct runtime_spec *spec);
void box_run(struct live *live, struct box *box, const char *script); /* started, or ended already */
void box_wait(struct box *box);                                       /* until it has ended */
void box_remove(struct box *box);
pid_t box_shim(const struct box *box);
/* The output in the log (all its files), without the frames; one stream, or both for NULL. */
void box_output(const struct box *box, const char *stream, struct buf *ret);

struct pipe_box {
    struct runtime_stream *s;
    struct buf out[2];
    int ended, failed;
    bool has_how;
    struct runtime_exit how;
    char sentence[512];
    const char *input; /* to write, then end */
    size_t input_len;
};
extern const struct runtime_stream_events pipe_events;
void pipe_exec(struct box *box, const struct runtime_exec *exec, struct pipe_box *p);
void pipe_sh(struct box *box, const char *script, struct pipe_box *p); /* to its end */
void pipe_done(struct pipe_box *p);

/* Turns the loop until cond holds; fails after LIVE_WAIT. */
#define UNTIL(live_, cond)                                                                                   \
    do {                                                                                                     \
        int64_t until_ = clock_monotonic() + LIVE_WAIT;                                                      \
        while (!(cond) && clock_monotonic() < until_)                                                        \
            loop_turn((live_)->loop, 20, NULL);                                                              \
        assert_true(cond);                                                                                   \
    } while (0)
