/* Finished work leaves the store: what may, when it may, once, also over kills and full disks. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/test/test.h"
#include "base/yaml.h"
#include "loop/loop.h"
#include "notify/inbox.h"
#include "objects/kind.h"
#include "registry/registry.h"
#include "store/disk.h"
#include "upkeep/upkeep.h"

#define BEGIN (INT64_C(1767225600) * NSEC_PER_SEC) /* 2026-01-01 */
#define DAY   (INT64_C(86400) * NSEC_PER_SEC)

struct lab {
    struct clock_virtual clock;
    struct loop *loop;
    struct store_disk *disk;
    struct store *store;
    struct registry *registry;
    struct upkeep *upkeep;
    struct inbox *inbox;
    struct upkeep_policy policy;
    struct arena arena;
};

static void open_lab(struct lab *lab)
{
    struct err err = {0};

    if (store_open_disk(lab->disk, lab->loop, &lab->store, &err) < 0)
        fail_msg("%s", err.msg);
    lab->registry = registry_new(lab->store);
    lab->inbox = inbox_new(lab->store);
    lab->upkeep = upkeep_new(&(struct upkeep_config){
        .loop = lab->loop, .registry = lab->registry, .inbox = lab->inbox, .policy = lab->policy});
}

static void kill_lab(struct lab *lab)
{
    upkeep_free(lab->upkeep);
    registry_free(lab->registry);
    store_kill(lab->store);
    inbox_free(lab->inbox);
}

static int setup(void **state)
{
    struct lab *lab = NEW(struct lab);

    lab->clock = (struct clock_virtual){BEGIN, BEGIN};
    clock_use(&lab->clock);
    lab->loop = loop_new();
    loop_use_clock(lab->loop, &lab->clock);
    lab->disk = store_disk_new();
    open_lab(lab);
    *state = lab;
    return 0;
}

static int teardown(void **state)
{
    struct lab *lab = *state;

    kill_lab(lab);
    loop_turn(lab->loop, 0, NULL);
    store_disk_free(lab->disk);
    loop_free(lab->loop);
    arena_done(&lab->arena);
    clock_use(NULL);
    free(lab);
    return 0;
}

static void pass(struct lab *lab, int64_t ns)
{
    int64_t end = lab->clock.now + ns;

    for (int i = 0; i < 5; i++)
        assert_int_equal(loop_turn(lab->loop, 0, NULL), 0);
    while (lab->clock.now < end)
        assert_int_equal(loop_turn(lab->loop, (int)((end - lab->clock.now + 999999) / NSEC_PER_MSEC), NULL),
                         0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(loop_turn(lab->loop, 0, NULL), 0);
}

static struct write write_by_berth(struct lab *lab, struct failure *failure)
{
    return (struct write){.arena = &lab->arena, .failure = failure, .manager = "berth"};
}

static void make(struct lab *lab, int kind, const char *ns, const char *text)
{
    struct failure failure = {0};
    struct write write = write_by_berth(lab, &failure);
    CLEANUP(written_done) struct written written = {0};
    struct json *doc = NULL;
    struct err err = {0};

    if (*ns && !store_get(lab->store, KIND_NAMESPACE, "", ns))
        make(lab, KIND_NAMESPACE, "", arena_printf(&lab->arena, "metadata: {name: %s}", ns));
    if (yaml_parse_one(str_from(text), &lab->arena, &doc, &err) < 0)
        fail_msg("%s", err.msg);
    if (registry_create(lab->registry, &write, kind_by_id(kind), ns, doc, &written) < 0)
        fail_msg("%s", failure.message);
}

static bool set_status(void *arg, struct arena *arena, struct json *doc)
{
    json_set(arena, doc, "status", *(const struct json *)arg);
    return true;
}

static void say(struct lab *lab, int kind, const char *ns, const char *name, const char *status)
{
    const struct object *object = store_get(lab->store, kind, ns, name);
    struct failure failure = {0};
    struct write write = write_by_berth(lab, &failure);
    struct written written = {0};
    struct json *doc = NULL;
    char time[CLOCK_TEXT_MAX];

    assert_non_null(object);
    assert_int_equal(
        yaml_parse_one(str_from(arena_printf(&lab->arena, status, clock_format(lab->clock.now, time))),
                       &lab->arena, &doc, NULL),
        0);
    if (registry_edit_object(lab->registry, &write, object, set_status, doc, &written) < 0)
        fail_msg("%s", failure.message);
}

static void train(struct lab *lab, const char *ns, const char *name, bool over)
{
    make(lab, KIND_TRAINING_JOB, ns,
         arena_printf(&lab->arena, "{metadata: {name: %s}, spec: {image: i}}", name));
    if (over)
        say(lab, KIND_TRAINING_JOB, ns, name, "{phase: Succeeded, completionTime: '%s'}");
}

static void train_many(struct lab *lab, const char *ns, int count)
{
    for (int i = 0; i < count; i++) {
        train(lab, ns, arena_printf(&lab->arena, "j%03d", i), true);
        lab->clock.now += NSEC_PER_SEC;
    }
}

static size_t left(const struct lab *lab, const char *ns)
{
    return store_count(lab->store, KIND_TRAINING_JOB, ns);
}

static void set_policy(struct lab *lab, struct prune_policy work)
{
    lab->policy = (struct upkeep_policy){.work = work};
    upkeep_set_policy(lab->upkeep, &lab->policy);
}

static void test_finished_work_goes_after_its_days_and_live_work_stays(void **state)
{
    struct lab *lab = *state;

    set_policy(lab, (struct prune_policy){.age_sec = 7 * 86400});
    train(lab, "a", "old", true);
    train(lab, "a", "running", false);
    pass(lab, 6 * DAY);
    train(lab, "a", "new", true);
    assert_int_equal(left(lab, "a"), 3);
    pass(lab, 2 * DAY);
    assert_null(store_get(lab->store, KIND_TRAINING_JOB, "a", "old"));
    assert_non_null(store_get(lab->store, KIND_TRAINING_JOB, "a", "running"));
    assert_non_null(store_get(lab->store, KIND_TRAINING_JOB, "a", "new"));
}

static void test_its_own_time_is_kept_to_the_second(void **state)
{
    struct lab *lab = *state;

    set_policy(lab, (struct prune_policy){0});
    make(lab, KIND_TRAINING_JOB, "a",
         "{metadata: {name: j}, spec: {image: i, ttlSecondsAfterFinished: 300}}");
    say(lab, KIND_TRAINING_JOB, "a", "j", "{phase: Failed, completionTime: '%s'}");
    pass(lab, 298 * NSEC_PER_SEC);
    assert_int_equal(left(lab, "a"), 1);
    pass(lab, 4 * NSEC_PER_SEC);
    assert_int_equal(left(lab, "a"), 0);
}

static void test_the_newest_of_a_namespace_stay(void **state)
{
    struct lab *lab = *state;

    set_policy(lab, (struct prune_policy){.count = 20});
    train_many(lab, "a", 300); /* more than one turn's share */
    train_many(lab, "b", 20);
    pass(lab, 60 * NSEC_PER_SEC);
    assert_int_equal(left(lab, "a"), 20);
    assert_int_equal(left(lab, "b"), 20);
    assert_non_null(store_get(lab->store, KIND_TRAINING_JOB, "a", "j280"));
    assert_null(store_get(lab->store, KIND_TRAINING_JOB, "a", "j279"));
}

static void test_what_still_has_something_running_stays(void **state)
{
    struct lab *lab = *state;
    const char *owner;

    set_policy(lab, (struct prune_policy){.age_sec = 60});
    make(lab, KIND_TASK, "a", "{metadata: {name: t}, spec: {taskDef: d}}");
    say(lab, KIND_TASK, "a", "t", "{phase: Failed, completionTime: '%s'}");
    owner =
        arena_printf(&lab->arena,
                     "{metadata: {name: p, ownerReferences: [{apiVersion: berth.dev/v1, kind: Task, name: t, "
                     "uid: %s, controller: true}]}, spec: {containers: [{name: c, image: i}]}}",
                     store_get(lab->store, KIND_TASK, "a", "t")->uid);
    make(lab, KIND_POD, "a", owner);
    pass(lab, 600 * NSEC_PER_SEC);
    assert_non_null(store_get(lab->store, KIND_TASK, "a", "t"));
    say(lab, KIND_POD, "a", "p", "{phase: Succeeded, conditions: [{type: Ready, lastTransitionTime: '%s'}]}");
    pass(lab, 120 * NSEC_PER_SEC);
    assert_null(store_get(lab->store, KIND_TASK, "a", "t"));
}

static void test_what_a_failed_commit_took_back_goes_later(void **state)
{
    struct lab *lab = *state;

    train_many(lab, "a", 5);
    pass(lab, NSEC_PER_SEC);
    store_disk_fail(lab->disk, 1);
    set_policy(lab, (struct prune_policy){.count = 2});
    pass(lab, 2 * NSEC_PER_SEC);
    assert_int_equal(store_disk_failures(lab->disk), 1);
    assert_int_equal(left(lab, "a"), 5);
    pass(lab, 120 * NSEC_PER_SEC);
    assert_int_equal(left(lab, "a"), 2);
}

static void test_a_kill_at_any_commit_loses_nothing_else(void **state)
{
    struct lab *lab = *state;

    train_many(lab, "a", 200);
    pass(lab, 2 * NSEC_PER_SEC);
    set_policy(lab, (struct prune_policy){.count = 10});
    for (int i = 0; i < 10 && left(lab, "a") > 10; i++) {
        store_disk_stop_after(lab->disk, 1);
        pass(lab, 2 * NSEC_PER_SEC);
        kill_lab(lab);
        open_lab(lab);
        assert_true(left(lab, "a") >= 10);
        for (int newest = 190; newest < 200; newest++)
            assert_non_null(
                store_get(lab->store, KIND_TRAINING_JOB, "a", arena_printf(&lab->arena, "j%03d", newest)));
    }
    assert_int_equal(left(lab, "a"), 10);
}

static void test_a_plan_changes_nothing_and_a_run_does_what_it_says(void **state)
{
    struct lab *lab = *state;
    const struct upkeep_policy once = {.work = {.count = 3}};
    struct json *plan;

    set_policy(lab, (struct prune_policy){0});
    train_many(lab, "a", 5);
    pass(lab, 60 * NSEC_PER_SEC);
    plan = upkeep_plan(lab->upkeep, &once, &lab->arena);
    assert_int_equal(json_len(plan), 2);
    assert_string_equal(json_get_string(json_item(plan, 0), "name"), "j000");
    assert_string_equal(json_get_string(json_item(plan, 0), "reason"), "finishedCount");
    assert_int_equal(left(lab, "a"), 5);
    assert_int_equal(upkeep_run(lab->upkeep, &once), 2);
    pass(lab, NSEC_PER_SEC);
    assert_int_equal(left(lab, "a"), 3);
    train_many(lab, "b", 5); /* the run was for once */
    pass(lab, 60 * NSEC_PER_SEC);
    assert_int_equal(left(lab, "b"), 5);
}

static size_t told(struct lab *lab)
{
    return json_len(json_get(inbox_list(lab->inbox, "ann", false, 0, &lab->arena), "items"));
}

static void test_claims_that_nobody_uses_are_told_of_then_deleted(void **state)
{
    struct lab *lab = *state;

    lab->policy = (struct upkeep_policy){.claim_warn_sec = 30 * 86400, .claim_delete_sec = 60 * 86400};
    upkeep_set_policy(lab->upkeep, &lab->policy);
    for (int i = 0; i < 3; i++)
        make(
            lab, KIND_PVC, "a",
            arena_printf(&lab->arena,
                         "{metadata: {name: %s, labels: {user: ann}%s}, spec: {accessModes: [ReadWriteOnce], "
                         "resources: {requests: {storage: 1Gi}}}}",
                         i == 0   ? "used"
                         : i == 1 ? "free"
                                  : "precious",
                         i == 2 ? ", annotations: {berth.dev/retain: 'true'}" : ""));
    make(lab, KIND_POD, "a",
         "{metadata: {name: p}, spec: {containers: [{name: c, image: i}], volumes: [{name: v, "
         "persistentVolumeClaim: {claimName: used}}]}}");
    pass(lab, 29 * DAY);
    assert_int_equal(told(lab), 0);
    pass(lab, 2 * DAY);
    assert_int_equal(told(lab), 2);
    pass(lab, 10 * DAY);
    assert_int_equal(told(lab), 2); /* once */
    pass(lab, 20 * DAY);
    assert_null(store_get(lab->store, KIND_PVC, "a", "free"));
    assert_non_null(store_get(lab->store, KIND_PVC, "a", "used"));
    assert_non_null(store_get(lab->store, KIND_PVC, "a", "precious"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_finished_work_goes_after_its_days_and_live_work_stays, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_its_own_time_is_kept_to_the_second, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_newest_of_a_namespace_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_still_has_something_running_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_a_failed_commit_took_back_goes_later, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_kill_at_any_commit_loses_nothing_else, setup, teardown),
        cmocka_unit_test_setup_teardown(test_claims_that_nobody_uses_are_told_of_then_deleted, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_plan_changes_nothing_and_a_run_does_what_it_says, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
