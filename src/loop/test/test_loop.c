#include "base/clock.h"
#include "base/test/test.h"
#include "loop/loop.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

static char trace[256];

static void note(const char *text)
{
    strncat(trace, text, sizeof(trace) - strlen(trace) - 1);
}

static int setup(void **state)
{
    trace[0] = '\0';
    *state = loop_new();
    return 0;
}

static int teardown(void **state)
{
    loop_free(*state);
    return 0;
}

static void turn(struct loop *loop, int timeout_ms)
{
    struct err err = {0};

    assert_int_equal(loop_turn(loop, timeout_ms, &err), 0);
}

struct end {
    struct loop_io *io, *other;
    int fd;
    int calls;
};

static void count_and_read(void *arg, uint32_t events)
{
    struct end *end = arg;
    char byte;

    assert_true(events & EPOLLIN);
    assert_int_equal(read(end->fd, &byte, 1), 1);
    end->calls++;
}

static void test_readable_descriptor_calls_back_until_it_is_read(void **state)
{
    int fds[2];
    struct end end = {0};

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    end.fd = fds[0];
    end.io = loop_io_new(*state, fds[0], EPOLLIN, count_and_read, &end);
    turn(*state, 0);
    assert_int_equal(end.calls, 0);
    assert_int_equal(write(fds[1], "ab", 2), 2);
    turn(*state, -1);
    turn(*state, -1);
    assert_int_equal(end.calls, 2);
    assert_int_equal(write(fds[1], "c", 1), 1);
    loop_io_set(end.io, 0);
    turn(*state, 0);
    assert_int_equal(end.calls, 2);
    loop_io_free(end.io);
    close(fds[0]);
    close(fds[1]);
}

static void free_both(void *arg, uint32_t events)
{
    struct end *end = arg;

    (void)events;
    end->calls++;
    loop_io_free(end->io);
    loop_io_free(end->other);
}

static void test_io_freed_in_a_turn_gets_no_callback_in_it(void **state)
{
    int a[2], b[2];
    struct end end = {0};

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, a), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, b), 0);
    end.io = loop_io_new(*state, a[0], EPOLLIN, free_both, &end);
    end.other = loop_io_new(*state, b[0], EPOLLIN, free_both, &end);
    assert_int_equal(write(a[1], "x", 1), 1);
    assert_int_equal(write(b[1], "x", 1), 1);
    turn(*state, -1);
    assert_int_equal(end.calls, 1);
    turn(*state, 0);
    assert_int_equal(end.calls, 1);
    for (int i = 0; i < 2; i++) {
        close(a[i]);
        close(b[i]);
    }
}

static void note_arg(void *arg)
{
    note(arg);
}

static void run_for(struct loop *loop, int64_t ns)
{
    int64_t end = clock_monotonic() + ns;

    while (clock_monotonic() < end)
        turn(loop, 1);
}

static void test_timers_fire_in_order_and_once(void **state)
{
    struct loop_timer *a = loop_timer_new(*state, note_arg, (void *)"a");
    struct loop_timer *b = loop_timer_new(*state, note_arg, (void *)"b");
    struct loop_timer *c = loop_timer_new(*state, note_arg, (void *)"c");
    struct loop_timer *d = loop_timer_new(*state, note_arg, (void *)"d");

    loop_timer_set(a, 3 * NSEC_PER_MSEC);
    loop_timer_set(b, 1 * NSEC_PER_MSEC);
    loop_timer_set(c, 2 * NSEC_PER_MSEC);
    loop_timer_set(d, 0);
    loop_timer_stop(d);
    assert_false(loop_timer_active(d));
    assert_true(loop_timer_active(a));
    run_for(*state, 6 * NSEC_PER_MSEC);
    assert_string_equal(trace, "bca");
    assert_false(loop_timer_active(a));
    loop_timer_free(a);
    loop_timer_free(b);
    loop_timer_free(c);
    loop_timer_free(d);
}

struct repeat {
    struct loop_timer *timer;
    int left;
};

static void fire_again(void *arg)
{
    struct repeat *repeat = arg;

    note("r");
    if (--repeat->left > 0) {
        loop_timer_set(repeat->timer, 0);
        return;
    }
    loop_timer_free(repeat->timer);
    repeat->timer = NULL;
}

static void test_timer_may_set_and_free_itself(void **state)
{
    struct repeat repeat = {.left = 3};

    repeat.timer = loop_timer_new(*state, fire_again, &repeat);
    loop_timer_set(repeat.timer, 0);
    while (repeat.left > 0)
        turn(*state, -1);
    assert_null(repeat.timer);
    assert_string_equal(trace, "rrr");
}

static void later_once_more(void *arg)
{
    note("1");
    loop_later(arg, note_arg, (void *)"3");
}

static void test_later_runs_in_order_before_the_loop_waits(void **state)
{
    loop_later(*state, later_once_more, *state);
    loop_later(*state, note_arg, (void *)"2");
    assert_string_equal(trace, "");
    turn(*state, -1);
    assert_string_equal(trace, "123");
}

static int rounds_left;

static void later_many_times(void *arg)
{
    note("x");
    if (--rounds_left > 0)
        loop_later(arg, later_many_times, arg);
}

static void test_long_chain_of_laters_leaves_descriptors_their_turn(void **state)
{
    rounds_left = 100;
    loop_later(*state, later_many_times, *state);
    turn(*state, -1);
    assert_true(strlen(trace) < 20);
    while (rounds_left > 0)
        turn(*state, -1);
    assert_int_equal(strlen(trace), 100);
}

static void on_signal(void *arg, int signo)
{
    (void)arg;
    note(signo == SIGUSR1 ? "1" : "2");
}

static void test_signals_arrive_as_callbacks(void **state)
{
    struct err err = {0};

    assert_int_equal(loop_signal(*state, SIGUSR1, on_signal, NULL, &err), 0);
    assert_int_equal(loop_signal(*state, SIGUSR2, on_signal, NULL, &err), 0);
    assert_int_equal(loop_signal(*state, 1000, on_signal, NULL, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    raise(SIGUSR1);
    turn(*state, -1);
    raise(SIGUSR2);
    turn(*state, -1);
    assert_string_equal(trace, "12");
}

struct ended {
    struct loop_child *child;
    int status;
    pid_t pid;
};

static void on_child(void *arg, pid_t pid, int status)
{
    struct ended *ended = arg;

    ended->pid = pid;
    ended->status = status;
    loop_child_free(ended->child);
    ended->child = NULL;
}

static void test_child_that_ends_is_reaped_and_reported(void **state)
{
    struct ended ended = {0};
    struct err err = {0};
    pid_t pid = fork();

    if (pid == 0)
        _exit(7);
    ended.child = loop_child_new(*state, pid, on_child, &ended, &err);
    assert_non_null(ended.child);
    while (ended.child)
        turn(*state, -1);
    assert_int_equal(ended.pid, pid);
    assert_true(WIFEXITED(ended.status));
    assert_int_equal(WEXITSTATUS(ended.status), 7);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), -1);
}

static void test_child_that_is_killed_is_reported_so(void **state)
{
    struct ended ended = {0};
    pid_t pid = fork();

    if (pid == 0)
        for (;;)
            pause();
    ended.child = loop_child_new(*state, pid, on_child, &ended, NULL);
    kill(pid, SIGKILL);
    while (ended.child)
        turn(*state, -1);
    assert_true(WIFSIGNALED(ended.status));
}

static void test_unknown_child_is_refused(void **state)
{
    struct err err = {0};

    assert_null(loop_child_new(*state, 0x3fffffff, on_child, NULL, &err));
    assert_int_equal(err.code, ERR_SYSTEM);
}

#define POSTS 1000

struct posts {
    struct loop *loop;
    int seen;
};

static void on_post(void *arg)
{
    struct posts *posts = arg;

    if (++posts->seen == 2 * POSTS)
        loop_stop(posts->loop);
}

static void *post_many(void *arg)
{
    struct posts *posts = arg;

    for (int i = 0; i < POSTS; i++)
        loop_post(posts->loop, on_post, posts);
    return NULL;
}

static void test_posts_of_other_threads_all_run(void **state)
{
    struct posts posts = {.loop = *state};
    struct err err = {0};
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, post_many, &posts), 0);
    assert_int_equal(loop_run(*state, &err), 0);
    assert_int_equal(posts.seen, 2 * POSTS);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

static void test_stop_before_run_ends_run_at_once(void **state)
{
    struct err err = {0};

    loop_stop(*state);
    assert_int_equal(loop_run(*state, &err), 0);
}

static void test_now_is_the_start_of_the_turn(void **state)
{
    int64_t before = clock_monotonic();

    turn(*state, 0);
    assert_true(loop_now(*state) >= before);
    assert_true(loop_now(*state) <= clock_monotonic());
}

static void note_timer(void *arg)
{
    note(arg);
}

static void test_virtual_time_jumps_to_the_next_timer(void **state)
{
    struct clock_virtual clock = {.now = 1000 * NSEC_PER_SEC, .monotonic = 5 * NSEC_PER_SEC};
    struct loop *loop = *state;
    struct loop_timer *soon, *late;

    clock_use(&clock);
    loop_use_clock(loop, &clock);
    soon = loop_timer_new(loop, note_timer, (char *)"a");
    late = loop_timer_new(loop, note_timer, (char *)"b");
    loop_timer_set(late, 3600 * NSEC_PER_SEC);
    loop_timer_set(soon, 60 * NSEC_PER_SEC);
    turn(loop, 1000); /* one second, and no timer yet */
    assert_string_equal(trace, "");
    assert_int_equal(clock.now, 1001 * NSEC_PER_SEC);
    turn(loop, -1);
    assert_string_equal(trace, "a");
    assert_int_equal(clock.monotonic, 65 * NSEC_PER_SEC);
    assert_int_equal(loop_now(loop), clock.monotonic);
    loop_later(loop, note_timer, (char *)"c");
    turn(loop, -1); /* what is ready comes first */
    assert_string_equal(trace, "ac");
    assert_int_equal(clock.monotonic, 65 * NSEC_PER_SEC);
    turn(loop, -1);
    assert_string_equal(trace, "acb");
    assert_int_equal(clock.now, 4600 * NSEC_PER_SEC);
    loop_timer_free(soon);
    loop_timer_free(late);
    loop_use_clock(loop, NULL);
    clock_use(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_readable_descriptor_calls_back_until_it_is_read, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_io_freed_in_a_turn_gets_no_callback_in_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_timers_fire_in_order_and_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_timer_may_set_and_free_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(test_later_runs_in_order_before_the_loop_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_chain_of_laters_leaves_descriptors_their_turn, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_virtual_time_jumps_to_the_next_timer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_signals_arrive_as_callbacks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_child_that_ends_is_reaped_and_reported, setup, teardown),
        cmocka_unit_test_setup_teardown(test_child_that_is_killed_is_reported_so, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unknown_child_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_posts_of_other_threads_all_run, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stop_before_run_ends_run_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_now_is_the_start_of_the_turn, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
