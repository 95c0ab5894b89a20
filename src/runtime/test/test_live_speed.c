/* Real containers, many of them: prints its measurements. */
#include "base/file.h"
#include "base/mem.h"
#include "live.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>

static long pss_kb(pid_t pid)
{
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(free) char *path = mem_printf("/proc/%d/smaps_rollup", (int)pid);
    struct err err = {0};
    const char *at;

    if (file_read(path, 65536, &text, &err) < 0)
        fail_msg("%s", err.msg);
    at = strstr(text.data, "\nPss:");
    return at ? strtol(at + 5, NULL, 10) : -1;
}

static void count_done(void *arg, const char *sentence)
{
    if (sentence)
        fail_msg("%s", sentence);
    ++*(int *)arg;
}

/* As a queue of short jobs does it: each is removed as soon as it has ended. */

static void on_short_exited(void *arg, struct runtime_container *c, const struct runtime_exit *how)
{
    assert_int_equal(how->code, 0);
    runtime_remove(c, count_done, arg);
}

static void test_a_burst_of_short_ones(void **state)
{
    struct live *live = *state;
    static const struct runtime_events events = {.exited = on_short_exited};
    int64_t begun = clock_monotonic();
    enum { BURST = 100, AT_ONCE = 4 };
    struct runtime_container *c;
    struct box box;
    int done = 0;

    for (int i = 0; i < BURST; i++) {
        struct runtime_spec spec = box_spec(live, &box, "true");

        assert_int_equal(runtime_start(live->rt, &spec, &events, &done, &c, NULL), 0);
        UNTIL(live, i - done < AT_ONCE);
    }
    UNTIL(live, done == BURST);
    print_message("%s: %d times `true`, %d in flight: %.0f a second\n", live_oci, BURST, AT_ONCE,
                  BURST * 1e9 / (double)(clock_monotonic() - begun));
}

#define MANY 50

static void test_fifty_at_once(void **state)
{
    struct live *live = *state;
    static struct box boxes[MANY];
    int64_t begun = clock_monotonic(), running, ended;
    size_t count;
    long alone, together;

    box_run(live, &boxes[0], "exec sleep 100");
    alone = pss_kb(box_shim(&boxes[0]));
    box_remove(&boxes[0]);
    begun = clock_monotonic();
    for (size_t i = 0; i < MANY; i++) {
        struct runtime_spec spec = box_spec(live, &boxes[i], "exec sleep 100");

        box_start(&boxes[i], &spec);
    }
    for (size_t i = 0; i < MANY; i++)
        UNTIL(live, boxes[i].started);
    running = clock_monotonic();
    together = pss_kb(box_shim(&boxes[0]));
    for (size_t i = 0; i < MANY; i++)
        runtime_kill_all(boxes[i].c);
    for (size_t i = 0; i < MANY; i++)
        box_wait(&boxes[i]);
    ended = clock_monotonic();
    for (count = 0; count < MANY; count++)
        box_remove(&boxes[count]);
    print_message("%s: %d at once: all running after %.0f ms, killed in %.0f ms, removed in %.0f ms\n",
                  live_oci, MANY, (double)(running - begun) / 1e6, (double)(ended - running) / 1e6,
                  (double)(clock_monotonic() - ended) / 1e6);
    print_message("%s: PSS of a shim: %ld kB alone, %ld kB among %d\n", live_oci, alone, together, MANY);
    assert_true(together <= 200);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The OCI runtime by itself, as the shim starts it: milliseconds, -1 when it failed. */
static double bare(struct live *live, const char *const *more)
{
    CLEANUP(free) char *root = mem_printf("%s/bare-root", live->dir);
    const char *argv[8] = {live_oci, "--root", root};
    int64_t begun = clock_monotonic();
    int status = -1;
    pid_t pid;

    for (size_t i = 0; more[i]; i++)
        argv[3 + i] = more[i];
    pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        for (int fd = 0; fd < 3; fd++)
            dup2(null, fd);
        if (streq(live_oci, "crun") && unshare(CLONE_NEWNS) == 0 &&
            mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == 0)
            umount2("/sys/fs/cgroup/unified", MNT_DETACH);
        execvp(live_oci, (char *const *)argv);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    return status ? -1 : (double)(clock_monotonic() - begun) / 1e6;
}

#define ROUNDS 15

/* create and start of the OCI runtime, with the configuration that ours had. */
static void measure_bare(struct live *live, double *ret)
{
    CLEANUP(free) char *bundle = mem_printf("%s/bare", live->dir);
    CLEANUP(free) char *copy = mem_printf("%s/bare/config.json", live->dir);
    CLEANUP(free) char *config = NULL;
    CLEANUP(buf_done) struct buf text = {0};
    struct box box;

    box_run(live, &box, "true");
    box_wait(&box);
    config = mem_printf("%s/containers/%s/config.json", live->dir, box.id);
    assert_int_equal(file_read(config, 1 << 20, &text, NULL), 0);
    assert_int_equal(dir_make(bundle, 0700, NULL), 0);
    assert_int_equal(file_write_atomic(copy, buf_view(&text), 0600, NULL), 0);
    box_remove(&box);
    for (int i = 0; i < ROUNDS; i++) {
        double create = bare(live, (const char *const[]){"create", "-b", bundle, "bare", NULL});
        double start = bare(live, (const char *const[]){"start", "bare", NULL});

        assert_true(create > 0 && start > 0);
        ret[i] = create + start;
        bare(live, (const char *const[]){"delete", "-f", "bare", NULL});
    }
}

static void test_times(void **state)
{
    struct live *live = *state;
    static double start[ROUNDS], whole[ROUNDS], execs[ROUNDS], plain[ROUNDS];
    struct box box, host;
    struct pipe_box p = {0};

    for (int i = 0; i < ROUNDS; i++) {
        int64_t begun = clock_monotonic();
        struct runtime_spec spec = box_spec(live, &box, "true");

        box_start(&box, &spec);
        UNTIL(live, box.started);
        start[i] = (double)(clock_monotonic() - begun) / 1e6;
        box_wait(&box);
        whole[i] = (double)(clock_monotonic() - begun) / 1e6;
        box_remove(&box);
    }
    box_run(live, &host, "exec sleep 100");
    for (int i = 0; i < ROUNDS; i++) {
        int64_t begun = clock_monotonic();

        pipe_sh(&host, "true", &p);
        execs[i] = (double)(clock_monotonic() - begun) / 1e6;
        pipe_done(&p);
    }
    box_remove(&host);
    measure_bare(live, plain);
    qsort(plain, ROUNDS, sizeof(*plain), by_value);
    qsort(start, ROUNDS, sizeof(*start), by_value);
    qsort(whole, ROUNDS, sizeof(*whole), by_value);
    qsort(execs, ROUNDS, sizeof(*execs), by_value);
    print_message("%s: start to running %.1f ms (best %.1f); bare create and start %.1f ms (best %.1f)\n",
                  live_oci, start[ROUNDS / 2], start[0], plain[ROUNDS / 2], plain[0]);
    print_message("%s: start to exit of `true` %.1f ms (best %.1f); exec true %.1f ms (best %.1f)\n",
                  live_oci, whole[ROUNDS / 2], whole[0], execs[ROUNDS / 2], execs[0]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        LIVE_TEST(test_a_burst_of_short_ones),
        LIVE_TEST(test_fifty_at_once),
        LIVE_TEST(test_times),
    };
    int status = live_prepare(argc, argv);

    return status ? status : cmocka_run_group_tests(tests, NULL, NULL);
}
