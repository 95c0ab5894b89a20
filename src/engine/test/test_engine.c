#include "base/test/test.h"
#include "engine/engine.h"
#include "engine/pod_ops.h"

/* An engine of one pod that always runs. */
struct still_engine {
    struct engine base;
    struct pod_ops pod_ops;
    engine_keep_fn keep;
    engine_token_fn token;
    bool closed, freed;
};

static bool still_holds(const struct engine *engine, const char *pod_uid)
{
    (void)engine;
    return streq(pod_uid, "still");
}

static const struct pod_ops *still_pod_ops(struct engine *engine)
{
    return &((struct still_engine *)engine)->pod_ops;
}

static bool still_last_line(const struct engine *engine, const char *pod_uid, const char *container,
                            char ret[ENGINE_LINE_MAX])
{
    (void)engine;
    (void)container;
    snprintf(ret, ENGINE_LINE_MAX, "%s says nothing", pod_uid);
    return true;
}

static void still_keep_logs(struct engine *engine, engine_keep_fn fn, void *arg)
{
    (void)arg;
    ((struct still_engine *)engine)->keep = fn;
}

static void still_tokens(struct engine *engine, engine_token_fn fn, void *arg)
{
    (void)arg;
    ((struct still_engine *)engine)->token = fn;
}

static bool still_account(struct engine *engine, const char *user, void (*fn)(void *arg), void *arg,
                          char why[ENGINE_LINE_MAX])
{
    (void)engine;
    (void)fn;
    (void)arg;
    snprintf(why, ENGINE_LINE_MAX, "no %s here", user);
    return streq(user, "ann");
}

static size_t still_capacity(const struct engine *engine, struct engine_card *ret, size_t max)
{
    (void)engine;
    if (max)
        ret[0] = (struct engine_card){"GPU-0", "declared", 8192, true, false};
    return 1;
}

static void still_measure(struct engine *engine, engine_sample_fn fn, void *arg)
{
    struct engine_card_use use = {0, 100, 5, false};
    struct engine_pod_use pod = {"still", 0, 100};

    (void)engine;
    if (fn)
        fn(arg, &(struct engine_sample){"here", &use, 1, &pod, 1});
}

static bool still_limit(struct engine *engine, const char *pod_uid, uint32_t card, int64_t mib)
{
    (void)engine;
    (void)pod_uid;
    (void)card;
    return mib > 0;
}

static void still_close(struct engine *engine)
{
    ((struct still_engine *)engine)->closed = true;
}

static void still_free(struct engine *engine)
{
    ((struct still_engine *)engine)->freed = true;
}

static const struct engine_ops still_ops = {
    .name = "still",
    .holds = still_holds,
    .pod_ops = still_pod_ops,
    .last_line = still_last_line,
    .keep_logs = still_keep_logs,
    .tokens = still_tokens,
    .account = still_account,
    .capacity = still_capacity,
    .measure = still_measure,
    .limit = still_limit,
    .close = still_close,
    .free = still_free,
};

static void count_sample(void *arg, const struct engine_sample *sample)
{
    assert_string_equal(sample->node, "here");
    assert_string_equal(sample->pods[0].pod_uid, "still");
    ++*(int *)arg;
}

static const char *no_token(void *arg, const char *pod_uid, struct arena *arena)
{
    (void)arg;
    (void)pod_uid;
    (void)arena;
    return NULL;
}

static const char *keep_none(void *arg, const struct json *pod, struct arena *arena)
{
    (void)arg;
    (void)pod;
    (void)arena;
    return NULL;
}

static void test_another_engine_fills_the_same_table(void **state)
{
    struct still_engine still = {.base = {&still_ops}};
    struct engine *engine = &still.base;
    char line[ENGINE_LINE_MAX];
    int samples = 0;

    (void)state;
    assert_true(engine_holds(engine, "still"));
    assert_false(engine_holds(engine, "other"));
    assert_ptr_equal(engine_pod_ops(engine), &still.pod_ops);
    assert_true(engine_last_line(engine, "still", NULL, line));
    assert_string_equal(line, "still says nothing");
    assert_true(engine_account(engine, "ann", NULL, NULL, line));
    assert_false(engine_account(engine, "bob", NULL, NULL, line));
    assert_string_equal(line, "no bob here");
    engine_keep_logs(engine, keep_none, NULL);
    assert_true(still.keep == keep_none);
    engine_tokens(engine, no_token, NULL);
    assert_true(still.token == no_token);
    engine_measure(engine, count_sample, &samples);
    assert_int_equal(samples, 1);
    assert_true(engine_limit(engine, "still", 0, 100));
    engine_close(engine);
    engine_free(engine);
    assert_true(still.closed && still.freed);
}

static void test_where_there_is_no_engine_nothing_is_held_or_kept(void **state)
{
    char line[ENGINE_LINE_MAX];

    (void)state;
    assert_false(engine_holds(NULL, "still"));
    assert_null(engine_pod_ops(NULL));
    assert_false(engine_last_line(NULL, "still", NULL, line));
    assert_false(engine_limit(NULL, "still", 0, 1));
    assert_true(engine_account(NULL, "bob", NULL, NULL, line));
    engine_keep_logs(NULL, keep_none, NULL);
    engine_tokens(NULL, no_token, NULL);
    engine_measure(NULL, count_sample, NULL);
    engine_close(NULL);
    engine_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_engine_fills_the_same_table),
        cmocka_unit_test(test_where_there_is_no_engine_nothing_is_held_or_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
