/* Exact results on small traces of our own (tests/sim), determinism, what bad traces are told, and, where
 * BERTH_TRACES names a folder with the public traces, the published results of others. */
#include "base/mem.h"
#include "base/test/test.h"
#include "sim/sim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct expected {
    const char *path, *workload, *rules, *cluster, *policy;
    double avg, p99, makespan; /* 0: not looked at */
    double within;             /* relative; 0: to the digit */
    double alloc, points;
};

static struct sim_result simulate(const struct expected *e, const char *folder, uint64_t seed, double noise)
{
    CLEANUP(free) char *path = mem_printf("%s/%s", folder, e->path);
    struct trace_request request = {
        .path = path, .workload = e->workload, .rules = e->rules, .cluster = e->cluster};
    struct sim_options options = {.policy = e->policy, .seed = seed, .noise_size = noise, .restart_s = -1};
    CLEANUP(trace_free) struct trace *trace = NULL;
    struct sim_result result = {0};
    struct err err = {0};

    if (trace_load(&request, &trace, &err) < 0 || sim_run(trace, &options, &result, &err) < 0)
        fail_msg("%s: %s", path, err.msg);
    return result;
}

static void near(const struct expected *e, const char *what, double got, double want)
{
    double off = e->within > 0 ? want * e->within : 0.05;

    if (want > 0 && !(fabs(got - want) <= off))
        fail_msg("%s %s with %s: %s is %.3f, not %.3f", e->path, e->workload ? e->workload : "", e->policy,
                 what, got, want);
}

static void check(const struct expected *e, size_t count, const char *folder)
{
    for (; count > 0; count--, e++) {
        struct sim_result r = simulate(e, folder, 0, 0);

        near(e, "average", r.avg_jct_s, e->avg);
        near(e, "p99", r.p99_jct_s, e->p99);
        near(e, "makespan", r.makespan_s, e->makespan);
        if (e->alloc > 0 && fabs(r.gpu_alloc_pct - e->alloc) > e->points)
            fail_msg("%s with %s: %.2f%% allocated, not %.2f%%", e->path, e->policy, r.gpu_alloc_pct,
                     e->alloc);
    }
}

/* Worked out by hand: a (1 GPU, 100 s), b (2 GPUs, 50 s, at 10), c (1 GPU, 10 s, at 20) on two GPUs. */
static void test_small_traces_give_what_was_worked_out_by_hand(void **state)
{
    static const struct expected rows[] = {
        {"queue.csv", NULL, "tiresias", "1x2", "fifo", 126.667, 0, 160, 0, 0, 0},
        {"queue.csv", NULL, "berth", "1x2", "fifo", 83.333, 0, 150, 0, 0, 0},
        {"queue.csv", NULL, "berth", "1x2", "fair", 83.333, 0, 150, 0, 0, 0},
        {"queue.csv", NULL, "tiresias", "1x2", "srtf", 73.333, 0, 150, 0, 0, 0},
        {"elastic.csv", NULL, "berth", "1x4", "berth", 75, 0, 1050, 0, 0, 0},
        {"shares.csv", NULL, "berth", "1x1", "fair", 200, 0, 200, 0, 0, 0},
        {"shares.csv", NULL, "berth", "1x1x6000", "fair", 195, 0, 260, 0, 0, 0},
    };

    (void)state;
    check(rows, ARRAY_LEN(rows), SIM_TRACES);
}

/* Bob comes at 200 s; ann's second GPU could go on from then until its last epoch begins at 900 s. */
static void test_a_first_gpu_that_waits_behind_a_second_is_counted(void **state)
{
    static const struct expected fifo = {.path = "first.csv", .cluster = "1x2", .policy = "fifo"},
                                 fair = {.path = "first.csv", .cluster = "1x2", .policy = "fair"};
    struct sim_result late = simulate(&fifo, SIM_TRACES, 0, 0), kept = simulate(&fair, SIM_TRACES, 0, 0);

    (void)state;
    assert_float_equal(late.promise_jobs, 1, 0);
    assert_float_equal(late.promise_users, 1, 0);
    assert_float_equal(late.promise_s, 700, 0.1);
    assert_float_equal(kept.promise_jobs, 0, 0);
    assert_float_equal(kept.promise_s, 0, 0);
}

static void test_fair_keeps_its_promise_in_labs(void **state)
{
    static const char *const labs[] = {"lab:gpus=8,users=10", "lab:gpus=32", "lab:gpus=20,users=30,load=1.2"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(labs); i++) {
        struct trace_request request = {.generate = labs[i], .seed = i + 1};
        struct sim_options options = {.policy = "fair", .restart_s = -1};
        CLEANUP(trace_free) struct trace *trace = NULL;
        struct sim_result result = {0};

        assert_int_equal(trace_load(&request, &trace, NULL), 0);
        assert_int_equal(sim_run(trace, &options, &result, NULL), 0);
        assert_float_equal(result.promise_jobs, 0, 0);
    }
}

static void test_same_seed_same_result_for_every_policy(void **state)
{
    static const char *const policies[] = {"fair", "fifo", "srtf", "las", "pressure", "berth"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(policies); i++) {
        struct trace_request request = {.generate = "400", .cluster = "3x4", .seed = 7};
        struct sim_options options = {
            .policy = policies[i], .seed = 3, .noise_size = 0.3, .noise_speed = 0.1, .restart_s = -1};
        CLEANUP(trace_free) struct trace *trace = NULL;
        struct sim_result a, b;
        struct err err = {0};

        if (trace_load(&request, &trace, &err) < 0)
            request.cluster = "3x8", assert_int_equal(trace_load(&request, &trace, &err), 0);
        assert_int_equal(sim_run(trace, &options, &a, &err), 0);
        assert_int_equal(sim_run(trace, &options, &b, &err), 0);
        assert_true(a.avg_jct_s == b.avg_jct_s && a.makespan_s == b.makespan_s &&
                    a.worst_ftf == b.worst_ftf && a.gpu_hours == b.gpu_hours &&
                    a.restarts_per_job == b.restarts_per_job);
        assert_true(a.avg_jct_s > 0 && a.gpu_alloc_pct <= 100.001);
    }
}

static void test_another_seed_generates_other_jobs(void **state)
{
    struct trace_request request = {.generate = "50", .seed = 1};
    CLEANUP(trace_free) struct trace *a = NULL;
    CLEANUP(trace_free) struct trace *b = NULL;

    (void)state;
    assert_int_equal(trace_load(&request, &a, NULL), 0);
    request.seed = 2;
    assert_int_equal(trace_load(&request, &b, NULL), 0);
    assert_true(a->jobs.v[10].alone_s != b->jobs.v[10].alone_s);
}

static void test_a_lab_is_busy_by_day_and_brings_its_load(void **state)
{
    struct trace_request request = {.generate = "lab:gpus=16,users=12,days=14,load=1.1", .seed = 5};
    CLEANUP(trace_free) struct trace *trace = NULL;
    uint32_t day = 0, weekend = 0;
    double work = 0;

    (void)state;
    assert_int_equal(trace_load(&request, &trace, NULL), 0);
    assert_int_equal(cluster_gpus(&trace->cluster), 16);
    VEC_EACH(&trace->jobs, job) {
        double hour = fmod(job->submit_s / 3600, 24);

        day += hour >= 8 && hour < 20;
        weekend += fmod(job->submit_s / 86400, 7) >= 5;
        work += job->alone_s * job->gpus;
        assert_true(job->gpus >= 1 && job->gpus <= 8 && job->submit_s < 14.1 * 86400);
    }
    assert_true(day > trace->jobs.len * 3 / 4);
    assert_true(weekend < trace->jobs.len / 5);
    assert_true(work > 1.05 * 16 * 14 * 86400 && work < 1.3 * 16 * 14 * 86400);
}

static void test_a_lab_that_cannot_be_read_is_refused(void **state)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"lab:gpus=65", "lab: gpus must be a number from 8 to 64"},
        {"lab:users=many", "lab: users must be a number from 10 to 50"},
        {"lab:days", "lab: days must be a number from 1 to 60"},
        {"lab:cards=8",
         "unknown setting 'cards' of a lab: there are gpus, users, days, load, elastic, jitter, early"},
        {"0", "--generate 0: write 1 to 1000000 for so many jobs, or lab, or lab:gpus=32,users=30"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct trace_request request = {.generate = rows[i].text};
        struct trace *trace = NULL;
        struct err err = {0};

        assert_int_equal(trace_load(&request, &trace, &err), -1);
        assert_string_equal(err.msg, rows[i].says);
    }
}

static void test_bad_traces_are_named_with_file_and_line(void **state)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", ":1: the file is empty"},
        {"job,submit_s,gpus\n", ":1: there is no column 'duration_s'"},
        {"job,submit_s,gpus,duration_s\na,-1,1,10\n", ":2: submit_s: -1 is not in 0..1e+10"},
        {"job,submit_s,gpus,duration_s\na,0,1,10\n\nb,nan,1,10\n", ":4: submit_s: nan is not in 0..1e+10"},
        {"job,submit_s,gpus,duration_s\na,0,1.5,10\n", ":2: gpus: '1.5' is no whole number"},
        {"job,submit_s,gpus,duration_s\na,0,one,10\n", ":2: gpus: 'one' is no number"},
        {"job,submit_s,gpus,duration_s\na,0,1\n", ":2: 3 cells where the first line has 4"},
        {"job,submit_s,gpus,duration_s\na,0,1,0\n", ":2: duration_s: 0 is not in 0.001..1e+10"},
        {"job,submit_s,gpus,duration_s\n\xff,0,1,1\n", ":2: the line is not UTF-8 text"},
        {"job,submit_s,gpus,duration_s\n", ":1: there are no jobs"},
    };
    char path[] = "/tmp/berth-sim-XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    (void)close(fd);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct trace_request request = {.path = path};
        struct trace *trace = NULL;
        struct err err = {0};
        FILE *file = fopen(path, "we");

        assert_non_null(file);
        (void)fputs(rows[i].text, file);
        (void)fclose(file);
        assert_int_equal(trace_load(&request, &trace, &err), -1);
        assert_string_equal(err.msg + strlen(path), rows[i].says);
    }
    (void)unlink(path);
}

static void test_an_endless_line_is_refused(void **state)
{
    char path[] = "/tmp/berth-sim-XXXXXX";
    int fd = mkstemp(path);
    struct trace_request request = {.path = path};
    struct trace *trace = NULL;
    struct err err = {0};

    (void)state;
    assert_true(fd >= 0);
    for (int i = 0; i < 64; i++)
        assert_int_equal(
            write(fd, "job,submit_s,gpus,duration_s,job,submit_s,gpus,duration_s,job,submit_s", 64), 64);
    assert_true(ftruncate(fd, 10LL << 30) == 0); /* ten gigabytes, most of it a hole */
    (void)close(fd);
    assert_int_equal(trace_load(&request, &trace, &err), -1);
    (void)unlink(path);
    assert_non_null(strstr(err.msg, ":1: "));
}

static void test_clusters_are_read_and_refused(void **state)
{
    static const char *const bad[] = {"",     "4",     "x",       "0x4",       "4x0",
                                      "4x65", "4x4x0", "4x4x4x4", "1000000x8", "2x8,"};
    struct trace trace = {0};
    struct err err = {0};

    (void)state;
    assert_int_equal(trace_cluster(&trace, "2x8x24576,1x4", &err), 0);
    assert_int_equal(cluster_gpus(&trace.cluster), 20);
    assert_int_equal(trace.cluster.nodes[2].gpus[0].mem_mib, 16384);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (trace_cluster(&trace, bad[i], &err) == 0)
            fail_msg("'%s' was taken", bad[i]);
    arena_done(&trace.arena);
}

static void test_reports_hold_every_result(void **state)
{
    static const struct expected row = {"queue.csv", NULL, NULL, "1x2", "fair", 0, 0, 0, 0, 0, 0};
    struct sim_result results[2] = {simulate(&row, SIM_TRACES, 0, 0), simulate(&row, SIM_TRACES, 0, 0)};
    CLEANUP(buf_done) struct buf json = {0};
    CLEANUP(buf_done) struct buf html = {0};

    (void)state;
    report_json(results, 2, &json);
    assert_non_null(strstr(json.data, "\"idle_while_waiting_gpu_hours\": "));
    assert_non_null(strstr(json.data, "\"decision_us_p99\": "));
    report_html(results, 2, "berth simulate --trace <a>", &html);
    assert_non_null(strstr(html.data, "&lt;a>"));
    assert_non_null(strstr(html.data, "Job completion times"));
    assert_null(strstr(html.data, "http")); /* all of it is in the file */
}

static void test_published_results_come_out_again(void **state)
{
    static const struct expected rows[] = {
        {"pollux64", "w6", NULL, NULL, "las", 3469.69, 46335.5, 78609, 0, 0, 0},
        {"pollux64", "w2", NULL, NULL, "las", 5145.0, 58422.5, 85625, 0.001, 0, 0},
        {"philly-vc", NULL, NULL, NULL, "fifo", 32024, 107495, 2333763, 0.01, 0, 0},
        {"philly-vc", NULL, NULL, NULL, "srtf", 9347, 132792, 2408043, 0.01, 0, 0},
        {"philly-vc", NULL, NULL, NULL, "las", 10699, 132619, 2327088, 0.0001, 0, 0},
        {"openb", "default", NULL, NULL, "bestfit", 0, 0, 0, 0, 93.08, 0.5},
        {"openb", "gpushare100", NULL, NULL, "fgd", 0, 0, 0, 0, 86.9, 0.5},
    };
    const char *folder = getenv("BERTH_TRACES");

    (void)state;
    if (!folder || access(folder, R_OK) < 0) {
        print_message("skipped: BERTH_TRACES names no folder with the public traces (docs/scheduling.md)\n");
        skip();
    }
    check(rows, ARRAY_LEN(rows), folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_traces_give_what_was_worked_out_by_hand),
        cmocka_unit_test(test_a_first_gpu_that_waits_behind_a_second_is_counted),
        cmocka_unit_test(test_fair_keeps_its_promise_in_labs),
        cmocka_unit_test(test_same_seed_same_result_for_every_policy),
        cmocka_unit_test(test_another_seed_generates_other_jobs),
        cmocka_unit_test(test_a_lab_is_busy_by_day_and_brings_its_load),
        cmocka_unit_test(test_a_lab_that_cannot_be_read_is_refused),
        cmocka_unit_test(test_bad_traces_are_named_with_file_and_line),
        cmocka_unit_test(test_an_endless_line_is_refused),
        cmocka_unit_test(test_clusters_are_read_and_refused),
        cmocka_unit_test(test_reports_hold_every_result),
        cmocka_unit_test(test_published_results_come_out_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
