#include "base/clock.h"
#include "base/test/test.h"
#include "engine/local/plan.h"

#define T0 (INT64_C(1700000000) * NSEC_PER_SEC)

/* One container as the table writes it. */
struct given {
    bool init, sidecar;
    enum ctr_state state;
    int code;
    unsigned quick;   /* ends in a row */
    int64_t ago_sec;  /* since its end */
    int64_t retry_in; /* of STUCK */
};

struct row {
    const char *what;
    enum restart_policy policy;
    bool deleting, no_sandbox;
    const char *fail;
    struct given ctrs[3];
    size_t len;
    const char *steps; /* "pull 0, stop 1" */
    const char *phase;
    bool over;
    int64_t wake_sec; /* from now; 0: none */
};

static const struct row rows[] = {
    {"a new pod gets its sandbox first", RESTART_ALWAYS, .no_sandbox = true, .ctrs = {{0}}, .len = 1,
     .steps = "sandbox 0", .phase = "Pending"},
    {"all main containers start at once", RESTART_ALWAYS, .ctrs = {{0}, {0}}, .len = 2,
     .steps = "pull 0, pull 1", .phase = "Pending"},
    {"an init container comes before the rest", RESTART_ALWAYS, .ctrs = {{.init = true}, {0}}, .len = 2,
     .steps = "pull 0", .phase = "Pending"},
    {"main containers follow a finished init container", RESTART_NEVER,
     .ctrs = {{.init = true, .state = CTR_EXITED}, {0}}, .len = 2, .steps = "pull 1", .phase = "Pending"},
    {"an init container that fails is run again", RESTART_ON_FAILURE,
     .ctrs = {{.init = true, .state = CTR_EXITED, .code = 1}, {0}}, .len = 2, .steps = "restart 0",
     .phase = "Pending"},
    {"... but ends the pod where nothing is", RESTART_NEVER,
     .ctrs = {{.init = true, .state = CTR_EXITED, .code = 1}, {0}}, .len = 2, .steps = "", .phase = "Failed",
     .over = true},
    {"a pod that did its work succeeded", RESTART_NEVER, .ctrs = {{.state = CTR_EXITED}}, .len = 1,
     .steps = "", .phase = "Succeeded", .over = true},
    {"one exit code that is not 0 fails it", RESTART_NEVER,
     .ctrs = {{.state = CTR_EXITED}, {.state = CTR_EXITED, .code = 3}}, .len = 2, .steps = "",
     .phase = "Failed", .over = true},
    {"it goes on while one container runs", RESTART_NEVER,
     .ctrs = {{.state = CTR_EXITED, .code = 1}, {.state = CTR_RUNNING}}, .len = 2, .steps = "",
     .phase = "Running"},
    {"OnFailure leaves exit code 0 alone", RESTART_ON_FAILURE, .ctrs = {{.state = CTR_EXITED}}, .len = 1,
     .steps = "", .phase = "Succeeded", .over = true},
    {"the first restart is at once", RESTART_ON_FAILURE, .ctrs = {{.state = CTR_EXITED, .code = 1}}, .len = 1,
     .steps = "restart 0", .phase = "Running"},
    {"the second waits 10 s", RESTART_ALWAYS, .ctrs = {{.state = CTR_EXITED, .quick = 1, .ago_sec = 4}},
     .len = 1, .steps = "", .phase = "Running", .wake_sec = 6},
    {"the third 20 s", RESTART_ALWAYS, .ctrs = {{.state = CTR_EXITED, .quick = 2, .ago_sec = 4}}, .len = 1,
     .steps = "", .phase = "Running", .wake_sec = 16},
    {"and never more than 300 s", RESTART_ALWAYS, .ctrs = {{.state = CTR_EXITED, .quick = 25, .ago_sec = 1}},
     .len = 1, .steps = "", .phase = "Running", .wake_sec = 299},
    {"a wait that is over", RESTART_ALWAYS, .ctrs = {{.state = CTR_EXITED, .quick = 1, .ago_sec = 10}},
     .len = 1, .steps = "restart 0", .phase = "Running"},
    {"an image that could not be had is asked for later", RESTART_ALWAYS,
     .ctrs = {{.state = CTR_STUCK, .retry_in = 7}}, .len = 1, .steps = "", .phase = "Pending", .wake_sec = 7},
    {"... and then again", RESTART_ALWAYS, .ctrs = {{.state = CTR_STUCK}}, .len = 1, .steps = "pull 0",
     .phase = "Pending"},
    {"deletion stops what runs", RESTART_ALWAYS, .deleting = true,
     .ctrs = {{.state = CTR_RUNNING}, {.state = CTR_EXITED}}, .len = 2, .steps = "stop 0",
     .phase = "Running"},
    {"... and starts nothing", RESTART_ALWAYS, .deleting = true, .ctrs = {{0}}, .len = 1, .steps = "",
     .phase = "Pending", .over = true},
    {"... and what was killed has failed", RESTART_ALWAYS, .deleting = true,
     .ctrs = {{.state = CTR_EXITED, .code = 143}}, .len = 1, .steps = "", .phase = "Failed", .over = true},
    {"sidecars end after the others", RESTART_NEVER, .deleting = true,
     .ctrs = {{.init = true, .sidecar = true, .state = CTR_RUNNING},
              {.state = CTR_RUNNING},
              {.state = CTR_RUNNING}},
     .len = 3, .steps = "stop 1, stop 2", .phase = "Running"},
    {"... the last first", RESTART_NEVER,
     .ctrs = {{.init = true, .sidecar = true, .state = CTR_RUNNING},
              {.init = true, .sidecar = true, .state = CTR_RUNNING},
              {.state = CTR_EXITED}},
     .len = 3, .steps = "stop 1", .phase = "Running"},
    {"a deadline stops everything first", RESTART_NEVER, .fail = "DeadlineExceeded",
     .ctrs = {{.state = CTR_RUNNING}, {0}}, .len = 2, .steps = "stop 0", .phase = "Running"},
    {"... then the pod has failed", RESTART_ALWAYS, .fail = "DeadlineExceeded",
     .ctrs = {{.state = CTR_EXITED}}, .len = 1, .steps = "", .phase = "Failed", .over = true},
};

static void fill(struct facts *facts, struct ctr *ctrs, const struct row *row)
{
    *facts = (struct facts){.ctrs = ctrs, .len = row->len, .policy = row->policy};
    facts->deleting = row->deleting;
    facts->sandbox = !row->no_sandbox;
    if (row->fail)
        strcpy(facts->fail_reason, row->fail);
    for (size_t i = 0; i < row->len; i++) {
        const struct given *g = &row->ctrs[i];

        ctrs[i] = (struct ctr){.init = g->init, .sidecar = g->sidecar, .state = g->state, .quick = g->quick};
        ctrs[i].retry_at = T0 + g->retry_in * NSEC_PER_SEC;
        if (g->state == CTR_EXITED)
            ctrs[i].end =
                (struct ctr_end){.there = true, .code = g->code, .finished = T0 - g->ago_sec * NSEC_PER_SEC};
    }
}

static void test_plans(void **state)
{
    static const char *const names[] = {"sandbox", "pull", "restart", "stop"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct ctr ctrs[3];
        struct facts facts;
        static struct pod_plan plan;
        char steps[200] = "";

        fill(&facts, ctrs, &rows[i]);
        plan_pod(&facts, T0, &plan);
        for (size_t j = 0; j < plan.len; j++)
            snprintf(steps + strlen(steps), sizeof(steps) - strlen(steps), "%s%s %zu", j ? ", " : "",
                     names[plan.steps[j].act], plan.steps[j].ctr);
        if (!streq(steps, rows[i].steps) || !streq(plan.phase, rows[i].phase) || plan.over != rows[i].over ||
            plan.wake_at != (rows[i].wake_sec ? T0 + rows[i].wake_sec * NSEC_PER_SEC : 0))
            fail_msg("%s: steps '%s', phase %s, over %d, wake %lld", rows[i].what, steps, plan.phase,
                     plan.over, (long long)(plan.wake_at ? (plan.wake_at - T0) / NSEC_PER_SEC : 0));
    }
}

static void test_long_run_begins_back_off_anew(void **state)
{
    struct ctr ctr = {.state = CTR_RUNNING, .quick = 5, .started = T0};

    (void)state;
    ctr_exited(&ctr, 1, 0, "Error", NULL, 0, T0 + 601 * NSEC_PER_SEC);
    assert_int_equal(ctr.quick, 0);
    ctr.state = CTR_RUNNING;
    ctr.quick = 5;
    ctr_exited(&ctr, 1, 0, "Error", NULL, 0, T0 + 599 * NSEC_PER_SEC);
    assert_int_equal(ctr.quick, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_long_run_begins_back_off_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
