/* Real containers: commands in them, attached clients, the log. */
#include "base/file.h"
#include "base/mem.h"
#include "live.h"
#include "runtime/runtime_internal.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

static void test_exec_gives_output_input_and_exit_code(void **state)
{
    struct live *live = *state;
    struct box box;
    struct pipe_box p = {0};
    static char big[300000];
    const uid_t uid = 77;
    const char *const args[] = {"id", NULL};
    struct runtime_exec exec = {.args = args, .uid = &uid, .gid = &uid};

    box_run(live, &box, "exec sleep 100");
    pipe_sh(&box, "echo out; echo err >&2; grep Seccomp: /proc/self/status; exit 5", &p);
    assert_string_equal(p.out[0].data, "out\nSeccomp:\t2\n");
    assert_string_equal(p.out[1].data, "err\n");
    assert_int_equal(p.how.code, 5);
    pipe_done(&p);

    memset(big, 'x', sizeof(big));
    p.input = big;
    p.input_len = sizeof(big);
    pipe_sh(&box, "cat", &p);
    assert_int_equal(p.out[0].len, sizeof(big));
    assert_int_equal(p.how.code, 0);
    pipe_done(&p);

    pipe_exec(&box, &exec, &p);
    UNTIL(live, p.ended);
    assert_int_equal(memcmp(p.out[0].data, "uid=77 gid=77", 13), 0);
    pipe_done(&p);
    box_remove(&box);
}

/* crun gives the standard streams it inherits to the container's user. */
static void test_streams_that_nobody_reads_are_the_containers_own(void **state)
{
    struct live *live = *state;
    const uid_t uid = 77;
    const char *const args[] = {"stat", "-L", "-c", "%d:%i %t,%T %F", "/proc/self/fd/0", NULL};
    struct runtime_exec exec = {.args = args, .uid = &uid, .gid = &uid};
    struct pipe_box p[2] = {0};
    struct stat host;
    struct box box;
    char own[64];

    assert_int_equal(stat("/dev/null", &host), 0);
    snprintf(own, sizeof(own), "%llu:%llu ", (unsigned long long)host.st_dev,
             (unsigned long long)host.st_ino);
    box_run(live, &box, "stat -L -c '%d:%i %t,%T %F' /proc/self/fd/0 >/tmp/in; exec sleep 100");
    pipe_sh(&box, "cat /tmp/in; cat", &p[0]);
    pipe_exec(&box, &exec, &p[1]);
    UNTIL(live, p[1].ended);
    for (int i = 0; i < 2; i++) {
        assert_non_null(strstr(p[i].out[0].data, " 1,3 character special file\n"));
        assert_null(strstr(p[i].out[0].data, own));
    }
    assert_string_not_equal(p[0].out[0].data, p[1].out[0].data);
    pipe_done(&p[0]);
    pipe_done(&p[1]);
    box_remove(&box);
}

/* A process that forks shims and reads nothing is replaced; asking it never waits. */
static void test_asking_for_shims_never_blocks(void **state)
{
    struct live *live = *state;
    enum { COMMANDS = 600 };
    static struct pipe_box p[COMMANDS];
    const char *const args[] = {"true", NULL};
    struct runtime_exec exec = {.args = args};
    struct box box;
    pid_t pid;
    int asked = 0, ended = 0;

    box_run(live, &box, "exec sleep 100");
    pid = live->rt->nursery_pid;
    assert_int_equal(kill(pid, SIGSTOP), 0);
    while (live->rt->nursery_pid == pid && asked < COMMANDS)
        pipe_exec(&box, &exec, &p[asked++]);
    assert_true(live->rt->nursery_pid != pid);
    for (int i = 0; i < asked; i++) {
        UNTIL(live, p[i].ended || p[i].failed);
        ended += p[i].ended;
        pipe_done(&p[i]);
    }
    assert_true(ended >= 1); /* the one that found it stuck */
    box_remove(&box);
}

static void test_many_commands_at_once(void **state)
{
    struct live *live = *state;
    enum { COMMANDS = 20 };
    static struct pipe_box p[COMMANDS];
    const char *const args[] = {"sh", "-c", "sleep 0.2; echo done; exit 3", NULL};
    struct runtime_exec exec = {.args = args};
    struct box box;

    box_run(live, &box, "exec sleep 100");
    for (int i = 0; i < COMMANDS; i++)
        pipe_exec(&box, &exec, &p[i]);
    for (int i = 0; i < COMMANDS; i++) {
        UNTIL(live, p[i].ended || p[i].failed);
        assert_int_equal(p[i].how.code, 3);
        assert_int_equal(p[i].out[0].len, 5);
        pipe_done(&p[i]);
    }
    box_remove(&box);
}

static void test_a_container_that_ends_ends_its_commands(void **state)
{
    struct live *live = *state;
    struct box box;
    struct pipe_box p = {0};
    const char *const args[] = {"sleep", "100", NULL};
    struct runtime_exec exec = {.args = args};

    box_run(live, &box, "sleep 1");
    pipe_exec(&box, &exec, &p);
    UNTIL(live, p.ended || p.failed);
    assert_int_equal(p.how.signal, SIGKILL);
    box_wait(&box);
    assert_int_equal(box.how.code, 0);
    pipe_done(&p);
    box_remove(&box);
}

static void test_exec_of_nothing_fails_and_signals_end_it(void **state)
{
    struct live *live = *state;
    struct box box;
    struct pipe_box p = {0};
    const char *const nothing[] = {"no-such-program", NULL}, *const sleeps[] = {"sleep", "100", NULL};
    struct runtime_exec exec = {.args = nothing};

    box_run(live, &box, "exec sleep 100");
    pipe_exec(&box, &exec, &p);
    UNTIL(live, p.ended || p.failed);
    assert_int_equal(p.failed, 1);
    assert_non_null(strstr(p.sentence, "no-such-program"));
    pipe_done(&p);

    exec.args = sleeps;
    pipe_exec(&box, &exec, &p);
    runtime_stream_signal(p.s, SIGKILL);
    UNTIL(live, p.ended);
    assert_int_equal(p.how.signal, SIGKILL);
    pipe_done(&p);

    pipe_exec(&box, &exec, &p); /* given up at once: nothing may break */
    pipe_done(&p);
    box_remove(&box);
}

static void test_exec_on_a_terminal(void **state)
{
    struct live *live = *state;
    struct box box;
    struct pipe_box p = {0};
    /* crun hands the terminal over while the command starts: its size may come a moment later. */
    const char *const args[] = {
        "sh", "-c", "until stty size 2>/dev/null; do :; done; read x; echo got $x; stty size; exit 4", NULL};
    struct runtime_exec exec = {.args = args, .tty = true, .stdin_open = true, .rows = 40, .cols = 120};

    box_run(live, &box, "exec sleep 100");
    pipe_exec(&box, &exec, &p);
    UNTIL(live, p.out[0].len >= 7);
    assert_memory_equal(p.out[0].data, "40 120", 6);
    runtime_stream_resize(p.s, 50, 132);
    assert_int_equal(runtime_stream_write(p.s, "word\r", 5), 5);
    UNTIL(live, p.ended);
    assert_int_equal(p.how.code, 4);
    buf_puts(&p.out[0], "");
    assert_non_null(strstr(p.out[0].data, "got word"));
    assert_non_null(strstr(p.out[0].data, "50 132"));
    pipe_done(&p);
    box_remove(&box);
}

static void test_a_paused_exec_loses_nothing(void **state)
{
    struct live *live = *state;
    struct box box;
    struct pipe_box p = {0};
    const char *const args[] = {"sh", "-c", "seq 1 100000", NULL};
    struct runtime_exec exec = {.args = args};

    box_run(live, &box, "exec sleep 100");
    pipe_exec(&box, &exec, &p);
    runtime_stream_pause(p.s, true);
    for (int i = 0; i < 20; i++)
        loop_turn(live->loop, 20, NULL);
    assert_int_equal(p.out[0].len, 0);
    runtime_stream_pause(p.s, false);
    UNTIL(live, p.ended);
    assert_int_equal(p.out[0].len, 588895);
    pipe_done(&p);
    box_remove(&box);
}

static void test_attach_serves_several_clients(void **state)
{
    struct live *live = *state;
    struct box box;
    struct pipe_box a = {0}, b = {0};
    struct runtime_spec spec =
        box_spec(live, &box, "while read x; do echo got $x; done; echo over >&2; exit 9");

    spec.stdin_open = spec.stdin_once = true;
    box_start(&box, &spec);
    UNTIL(live, box.started);
    assert_int_equal(runtime_attach(box.c, true, true, &pipe_events, &a, &a.s, NULL), 0);
    assert_int_equal(runtime_attach(box.c, false, true, &pipe_events, &b, &b.s, NULL), 0);
    for (int i = 0; i < 5; i++)
        loop_turn(live->loop, 20, NULL);
    assert_int_equal(runtime_stream_write(a.s, "one\n", 4), 4);
    UNTIL(live, a.out[0].len >= 8 && b.out[0].len >= 8);
    runtime_stream_close_stdin(a.s);
    UNTIL(live, a.ended && b.ended);
    assert_true(a.has_how && a.how.code == 9);
    buf_puts(&b.out[0], "");
    assert_string_equal(b.out[0].data, "got one\n");
    assert_int_equal(a.out[1].len, 5);
    box_wait(&box);
    pipe_done(&a);
    pipe_done(&b);
    box_remove(&box);
}

/* Both have something to say at the moment when the container takes a little. */
static void test_input_of_two_clients_is_not_lost(void **state)
{
    struct live *live = *state;
    enum { EACH = 1000000 };
    static char data[EACH];
    size_t sent[2] = {0};
    struct box box;
    struct pipe_box p[2] = {0};
    struct runtime_spec spec = box_spec(live, &box, "sleep 0.3; head -c 2000000 | wc -c");

    memset(data, 'x', sizeof(data));
    spec.stdin_open = true;
    box_start(&box, &spec);
    UNTIL(live, box.started);
    for (int i = 0; i < 2; i++)
        assert_int_equal(runtime_attach(box.c, true, true, &pipe_events, &p[i], &p[i].s, NULL), 0);
    for (int turns = 0; turns < 2000 && !p[0].ended; turns++) {
        for (int i = 0; i < 2; i++)
            if (sent[i] < EACH)
                sent[i] += runtime_stream_write(p[i].s, data + sent[i], EACH - sent[i]);
        loop_turn(live->loop, 10, NULL);
    }
    UNTIL(live, p[0].ended && p[1].ended);
    buf_puts(&p[0].out[0], "");
    assert_string_equal(p[0].out[0].data, "2000000\n");
    box_wait(&box);
    pipe_done(&p[0]);
    pipe_done(&p[1]);
    box_remove(&box);
}

static void test_attach_to_a_terminal(void **state)
{
    struct live *live = *state;
    struct box box;
    struct pipe_box a = {0};
    CLEANUP(buf_done) struct buf text = {0};
    struct runtime_spec spec = box_spec(live, &box, "stty size; read x; stty size; echo got $x; exit 2");

    spec.stdin_open = spec.tty = true;
    spec.tty_rows = 33;
    spec.tty_cols = 99;
    box_start(&box, &spec);
    UNTIL(live, box.started);
    assert_int_equal(runtime_attach(box.c, true, true, &pipe_events, &a, &a.s, NULL), 0);
    for (int i = 0; i < 5; i++)
        loop_turn(live->loop, 20, NULL);
    runtime_stream_resize(a.s, 44, 111);
    for (int i = 0; i < 3; i++)
        loop_turn(live->loop, 20, NULL);
    assert_int_equal(runtime_stream_write(a.s, "word\r", 5), 5);
    UNTIL(live, a.ended);
    box_wait(&box);
    assert_int_equal(box.how.code, 2);
    box_output(&box, NULL, &text);
    assert_non_null(strstr(text.data, "33 99"));
    assert_non_null(strstr(text.data, "44 111"));
    assert_non_null(strstr(text.data, "got word"));
    pipe_done(&a);
    box_remove(&box);
}

static void test_a_client_that_reads_nothing_is_cut_off(void **state)
{
    struct live *live = *state;
    struct box box;
    struct pipe_box lazy = {0}, keen = {0};
    struct runtime_spec spec = box_spec(live, &box, "read x; seq 1 300000; exit 3");

    spec.stdin_open = true;
    box_start(&box, &spec);
    UNTIL(live, box.started);
    assert_int_equal(runtime_attach(box.c, true, true, &pipe_events, &keen, &keen.s, NULL), 0);
    assert_int_equal(runtime_attach(box.c, false, true, &pipe_events, &lazy, &lazy.s, NULL), 0);
    runtime_stream_pause(lazy.s, true);
    for (int i = 0; i < 5; i++)
        loop_turn(live->loop, 20, NULL);
    assert_int_equal(runtime_stream_write(keen.s, "go\n", 3), 3);
    box_wait(&box);
    assert_int_equal(box.how.code, 3);
    UNTIL(live, keen.ended);
    assert_int_equal(keen.out[0].len, 1988895);
    assert_true(box.how.finished - box.how.started > 4 * NSEC_PER_SEC);
    runtime_stream_pause(lazy.s, false);
    UNTIL(live, lazy.ended);
    assert_false(lazy.has_how);
    pipe_done(&keen);
    pipe_done(&lazy);
    box_remove(&box);
}

/* Of the sizes some leave the pipe full when the process ends. */
static void test_what_is_in_the_pipe_at_the_end_is_logged_although_a_client_reads_nothing(void **state)
{
    static const int sizes[] = {150000, 200000, 250000, 300000, 350000};
    struct live *live = *state;
    struct box boxes[ARRAY_LEN(sizes)];
    struct pipe_box lazy[ARRAY_LEN(sizes)] = {0};

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        CLEANUP(free) char *script = mem_printf("read x; seq 1 100000 | head -c %d", sizes[i]);
        struct runtime_spec spec = box_spec(live, &boxes[i], script);

        spec.stdin_open = true;
        box_start(&boxes[i], &spec);
        UNTIL(live, boxes[i].started);
        assert_int_equal(runtime_attach(boxes[i].c, true, true, &pipe_events, &lazy[i], &lazy[i].s, NULL), 0);
        runtime_stream_pause(lazy[i].s, true);
        for (int turn = 0; turn < 5; turn++)
            loop_turn(live->loop, 20, NULL);
        assert_int_equal(runtime_stream_write(lazy[i].s, "go\n", 3), 3);
    }
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        CLEANUP(buf_done) struct buf text = {0};

        box_wait(&boxes[i]);
        box_output(&boxes[i], NULL, &text);
        assert_int_equal(text.len, sizes[i]);
        pipe_done(&lazy[i]);
        box_remove(&boxes[i]);
    }
}

static void test_rotation_of_any_bytes_loses_none(void **state)
{
    struct live *live = *state;
    struct box box;
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(free) char *blob = mem_printf("%s/blob", live->rootfs);
    static char data[400000];
    struct runtime_spec spec = box_spec(live, &box, "cat /blob");

    random_bytes(data, sizeof(data));
    assert_int_equal(file_write_atomic(blob, (struct str){data, sizeof(data)}, 0644, NULL), 0);
    spec.log_max_bytes = 20000;
    spec.log_max_files = 200;
    box_start(&box, &spec);
    box_wait(&box);
    box_output(&box, "stdout", &text);
    assert_int_equal(text.len, sizeof(data));
    assert_memory_equal(text.data, data, sizeof(data));
    assert_int_equal(box.how.log_dropped, 0);
    box_remove(&box);
}

static void test_a_full_log_disk_does_not_hold_up_the_container(void **state)
{
    struct live *live = *state;
    struct box box;
    CLEANUP(free) char *small = mem_printf("%s/small", live->dir);
    CLEANUP(free) char *log = mem_printf("%s/small/log", live->dir);
    struct runtime_spec spec = box_spec(live, &box, "seq 1 200000; exit 6");

    assert_int_equal(dir_make(small, 0755, NULL), 0);
    assert_int_equal(mount("small", small, "tmpfs", 0, "size=64k"), 0);
    spec.log_path = log;
    box_start(&box, &spec);
    box_wait(&box);
    assert_int_equal(umount2(small, MNT_DETACH), 0);
    assert_int_equal(box.how.code, 6);
    assert_true(box.how.log_dropped > 1000000);
    box_remove(&box);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        LIVE_TEST(test_exec_gives_output_input_and_exit_code),
        LIVE_TEST(test_streams_that_nobody_reads_are_the_containers_own),
        LIVE_TEST(test_asking_for_shims_never_blocks),
        LIVE_TEST(test_many_commands_at_once),
        LIVE_TEST(test_a_container_that_ends_ends_its_commands),
        LIVE_TEST(test_exec_of_nothing_fails_and_signals_end_it),
        LIVE_TEST(test_exec_on_a_terminal),
        LIVE_TEST(test_a_paused_exec_loses_nothing),
        LIVE_TEST(test_attach_serves_several_clients),
        LIVE_TEST(test_input_of_two_clients_is_not_lost),
        LIVE_TEST(test_attach_to_a_terminal),
        LIVE_TEST(test_a_client_that_reads_nothing_is_cut_off),
        LIVE_TEST(test_what_is_in_the_pipe_at_the_end_is_logged_although_a_client_reads_nothing),
        LIVE_TEST(test_rotation_of_any_bytes_loses_none),
        LIVE_TEST(test_a_full_log_disk_does_not_hold_up_the_container),
    };
    int status = live_prepare(argc, argv);

    return status ? status : cmocka_run_group_tests(tests, NULL, NULL);
}
