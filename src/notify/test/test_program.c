#include "base/clock.h"
#include "base/mem.h"
#include "base/test/test.h"
#include "notify/program.h"

#include <signal.h>

struct fixture {
    struct loop *loop;
    struct program_end end;
    bool ended;
};

static void on_end(void *arg, const struct program_end *end)
{
    struct fixture *f = arg;

    f->end = *end;
    f->ended = true;
}

static struct program *start(struct fixture *f, const char *user, const char *script, const char *input,
                             int64_t timeout_sec)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};

    f->ended = false;
    return program_start(
        f->loop,
        &(struct program_spec){
            .user = user, .argv = argv, .input = str_from(input), .timeout_sec = timeout_sec},
        on_end, f);
}

static void run(struct fixture *f, const char *script, const char *input, int64_t timeout_sec)
{
    start(f, NULL, script, input, timeout_sec);
    while (!f->ended)
        assert_int_equal(loop_turn(f->loop, 20, NULL), 0);
}

static int setup(void **state)
{
    struct fixture *f = NEW(struct fixture);

    f->loop = loop_new();
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    loop_free(f->loop);
    free(f);
    return 0;
}

static void test_it_gets_its_input_and_ends(void **state)
{
    struct fixture *f = *state;

    run(f, "read x && [ \"$x\" = hello ]", "hello\n", 0);
    assert_true(f->end.started);
    assert_int_equal(f->end.status, 0);
}

static void test_much_input_that_nobody_reads_is_fine(void **state)
{
    struct fixture *f = *state;
    char *text = mem_zalloc(1 << 20);

    memset(text, 'x', (1 << 20) - 1);
    run(f, "exit 0", text, 0);
    assert_int_equal(f->end.status, 0);
    free(text);
}

static void test_the_last_line_says_why(void **state)
{
    struct fixture *f = *state;

    run(f, "echo first; printf 'bad \\033[1mthing\\n\\n' >&2; exit 3", "", 0);
    assert_int_equal(f->end.status, 3);
    assert_string_equal(f->end.why, "ended with exit code 3: bad  [1mthing");
}

static void test_what_takes_too_long_is_killed(void **state)
{
    struct fixture *f = *state;
    int64_t start_ns = clock_monotonic();

    run(f, "sleep 100", "", 1);
    assert_int_equal(f->end.status, -1);
    assert_string_equal(f->end.why, "took longer than 1 s");
    assert_true(clock_monotonic() - start_ns < 20 * NSEC_PER_SEC);
}

static void test_what_never_stops_writing_is_killed(void **state)
{
    struct fixture *f = *state;

    run(f, "while :; do cat /dev/zero; done", "", 1);
    assert_int_equal(f->end.status, -1);
    assert_true(starts_with(f->end.why, "took longer than 1 s"));
}

static void test_what_it_leaves_behind_is_not_waited_for(void **state)
{
    struct fixture *f = *state;

    run(f, "sleep 100 & exit 0", "", 60);
    assert_int_equal(f->end.status, 0);
}

static void test_who_has_no_account_runs_nothing(void **state)
{
    struct fixture *f = *state;

    start(f, "no-such-user", "exit 0", "", 0);
    while (!f->ended)
        assert_int_equal(loop_turn(f->loop, 20, NULL), 0);
    assert_false(f->end.started);
    assert_string_equal(f->end.why, "user 'no-such-user' has no account on this machine");
}

static void test_root_runs_nothing(void **state)
{
    struct fixture *f = *state;

    start(f, "root", "exit 0", "", 0);
    while (!f->ended)
        assert_int_equal(loop_turn(f->loop, 20, NULL), 0);
    assert_false(f->end.started);
}

static void test_a_cancelled_one_is_not_heard_of(void **state)
{
    struct fixture *f = *state;

    program_cancel(start(f, NULL, "sleep 100", "", 0));
    run(f, "exit 0", "", 0); /* the loop has had its turns */
    assert_int_equal(f->end.status, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_it_gets_its_input_and_ends),
        CASE(test_much_input_that_nobody_reads_is_fine),
        CASE(test_the_last_line_says_why),
        CASE(test_what_takes_too_long_is_killed),
        CASE(test_what_never_stops_writing_is_killed),
        CASE(test_what_it_leaves_behind_is_not_waited_for),
        CASE(test_who_has_no_account_runs_nothing),
        CASE(test_root_runs_nothing),
        CASE(test_a_cancelled_one_is_not_heard_of),
    };

    signal(SIGPIPE, SIG_IGN); /* as in the daemon */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
