/* When jobs start and end, as page, command line, kubectl and simulator are told. Times are seconds after T0.
 */
#include "base/test/test.h"
#include "life/life.h"

#define T0 1000000000000LL

struct lab {
    struct gpu cards[2];
    struct node node;
    struct cluster cluster;
    struct life *life;
    struct life_effects effects;
    uint64_t ids;
};

static int64_t ms(double seconds)
{
    return T0 + (int64_t)(seconds * 1000);
}

static void lab_init(struct lab *lab, uint32_t cards)
{
    struct life_rules rules = life_defaults;

    memset(lab, 0, sizeof(*lab));
    rules.sched.min_run_ms = 0;
    rules.stop_min_ms = 60000;
    lab->node = (struct node){.name = "n", .gpus = lab->cards, .gpu_count = cards};
    lab->node.capacity = (struct resources){64000, 262144};
    for (uint32_t c = 0; c < cards; c++)
        lab->cards[c].mem_mib = 24576;
    lab->cluster = (struct cluster){&lab->node, 1};
    lab->life = life_new(sched_policy_find("fair"), &lab->cluster, &rules);
}

static void lab_done(struct lab *lab)
{
    life_effects_done(&lab->effects);
    life_free(lab->life);
}

static struct life_desc desc_of(struct lab *lab, const char *user, uint32_t gpus, uint32_t epochs)
{
    struct life_desc desc = {.row = "row", .image = "image", .script = "train.py"};

    desc.w = (struct workload){.id = ++lab->ids,
                               .name = "job",
                               .user = user,
                               .submit_ms = T0 + (int64_t)lab->ids,
                               .epochs_total = epochs,
                               .can_checkpoint = true,
                               .resumable = true};
    desc.w.demand = (struct demand){.min_gpus = gpus, .max_gpus = gpus};
    return desc;
}

static void step(struct lab *lab, struct life_event event, double at)
{
    assert_int_equal(life_step(lab->life, &event, ms(at), &lab->effects, NULL), 0);
    (void)life_decide(lab->life, ms(at), NULL, NULL, &lab->effects);
}

static uint64_t submit(struct lab *lab, const char *user, uint32_t gpus, uint32_t epochs, double at)
{
    struct life_desc desc = desc_of(lab, user, gpus, epochs);

    step(lab, (struct life_event){.type = LIFE_SUBMIT, .desc = &desc}, at);
    return desc.w.id;
}

static void runs(struct lab *lab, uint64_t id, double at)
{
    step(lab, (struct life_event){.type = LIFE_RUNS, .id = id}, at);
}

static void epoch(struct lab *lab, uint64_t id, uint32_t done, double at)
{
    step(lab, (struct life_event){.type = LIFE_EPOCH, .id = id, .epochs = done}, at);
}

static struct life_when when(struct lab *lab, uint64_t id, double at)
{
    struct life_when ret;

    life_when(lab->life, life_find(lab->life, id), ms(at), &ret);
    return ret;
}

static void test_measured_epochs_count_without_declared_hours_or_sizes(void **state)
{
    struct lab lab;
    uint64_t id;

    (void)state;
    lab_init(&lab, 1);
    id = submit(&lab, "ann", 1, 60, 0);
    runs(&lab, id, 5);
    for (uint32_t i = 1; i <= 11; i++)
        epoch(&lab, id, i, 5 + i);
    assert_int_equal(when(&lab, id, 16.5).end_ms, ms(65));
    lab_done(&lab);
}

static void test_the_end_of_a_running_job_does_not_slide(void **state)
{
    struct lab lab;
    struct life_when first;
    uint64_t id;

    (void)state;
    lab_init(&lab, 1);
    id = submit(&lab, "ann", 1, 20, 0);
    runs(&lab, id, 5);
    epoch(&lab, id, 1, 110);
    epoch(&lab, id, 2, 210);
    first = when(&lab, id, 210);
    for (double at = 210; at < 305; at += 1.5) {
        struct life_when now = when(&lab, id, at);

        assert_true(now.end_ms == first.end_ms && now.end_lo_ms == first.end_lo_ms &&
                    now.end_hi_ms == first.end_hi_ms);
    }
    lab_done(&lab);
}

static void test_a_start_behind_a_running_job_does_not_slide(void **state)
{
    struct lab lab;
    struct life_when first;
    uint64_t id, next;

    (void)state;
    lab_init(&lab, 1);
    id = submit(&lab, "ann", 1, 20, 0);
    runs(&lab, id, 5);
    epoch(&lab, id, 1, 110);
    epoch(&lab, id, 2, 210);
    next = submit(&lab, "bob", 1, 20, 220);
    first = when(&lab, next, 220);
    assert_int_equal(first.start_ms, when(&lab, id, 220).end_ms);
    for (double at = 220; at < 305; at += 1.5) {
        assert_true(when(&lab, next, at).start_ms == first.start_ms);
        assert_true(when(&lab, next, at).end_ms == first.end_ms);
    }
    lab_done(&lab);
}

static void test_a_waiter_behind_a_stopping_job_starts_at_the_end_of_its_epoch(void **state)
{
    struct lab lab;
    uint64_t first, second, waiter;
    struct life_when start;

    (void)state;
    lab_init(&lab, 2);
    first = submit(&lab, "ann", 1, 200, 0);
    second = submit(&lab, "ann", 1, 200, 0);
    runs(&lab, first, 1);
    runs(&lab, second, 1);
    for (uint32_t i = 1; i <= 5; i++)
        epoch(&lab, second, i, 1 + i * 30);
    waiter = submit(&lab, "bob", 1, 10, 160);
    assert_int_equal(life_find(lab.life, second)->w.phase, PHASE_STOPPING);
    start = when(&lab, waiter, 160);
    assert_true(start.start_ms >= ms(180) && start.start_ms <= ms(186));
    lab_done(&lab);
}

static void test_estimates_outlive_the_daemon(void **state)
{
    struct lab lab, again;
    struct life_desc desc;
    struct life_when before, after;
    uint64_t id;

    (void)state;
    lab_init(&lab, 1);
    lab_init(&again, 1);
    id = submit(&lab, "ann", 1, 20, 0);
    desc = desc_of(&again, "ann", 1, 20);
    runs(&lab, id, 5);
    for (uint32_t i = 1; i <= 3; i++)
        epoch(&lab, id, i, 5 + 100 * i);
    before = when(&lab, id, 320);
    step(&again, (struct life_event){.type = LIFE_RESTORE, .desc = &desc, .saved = life_find(lab.life, id)},
         320);
    after = when(&again, id, 320);
    assert_true(before.end_ms == after.end_ms && before.end_hi_ms == after.end_hi_ms);
    lab_done(&lab);
    lab_done(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_measured_epochs_count_without_declared_hours_or_sizes),
        cmocka_unit_test(test_the_end_of_a_running_job_does_not_slide),
        cmocka_unit_test(test_a_start_behind_a_running_job_does_not_slide),
        cmocka_unit_test(test_a_waiter_behind_a_stopping_job_starts_at_the_end_of_its_epoch),
        cmocka_unit_test(test_estimates_outlive_the_daemon),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
