/* The worked examples of tests/data/queue-order, each through a whole plan's order and through live events.
 */
#include "base/test/test.h"
#include "sched/book.h"
#include "sched/live.h"

#include <stdlib.h>

#define JOBS_MAX  32
#define CARDS_MAX 8

struct example {
    char what[128];
    struct gpu cards[CARDS_MAX];
    struct node node;
    struct cluster cluster;
    struct workload jobs[JOBS_MAX];
    struct slot slots[JOBS_MAX];
    uint32_t job_count;
    struct usage *usage;
    struct arena arena;
};

static struct workload *find(struct example *ex, const char *name)
{
    for (uint32_t i = 0; i < ex->job_count; i++)
        if (streq(ex->jobs[i].name, name))
            return &ex->jobs[i];
    fail_msg("%s: no job '%s'", ex->what, name);
    return NULL;
}

static void add_job(struct example *ex, char *rest)
{
    struct workload *w = &ex->jobs[ex->job_count++];
    double usage = 0;
    const char *warning;

    assert_true(ex->job_count <= JOBS_MAX);
    *w = (struct workload){.id = ex->job_count, .demand = {.min_gpus = 1, .max_gpus = 1}};
    w->name = arena_strdup(&ex->arena, strtok(rest, " "));
    for (char *word; (word = strtok(NULL, " "));) {
        char *value = strchr(word, '=');

        value = value ? value + 1 : word;
        if (starts_with(word, "user="))
            w->user = arena_strdup(&ex->arena, value);
        else if (starts_with(word, "gpus="))
            w->demand.min_gpus = w->demand.max_gpus = (uint32_t)strtoul(value, NULL, 10);
        else if (starts_with(word, "mib="))
            w->demand.mib = (uint32_t)strtoul(value, NULL, 10);
        else if (starts_with(word, "priority="))
            w->priority = priority_parse(str_from(value), &warning);
        else if (starts_with(word, "submit="))
            w->submit_ms = strtoll(value, NULL, 10) * 1000;
        else if (starts_with(word, "usage="))
            usage = strtod(value, NULL);
        else if (streq(word, "running"))
            w->phase = PHASE_RUNNING;
        else
            fail_msg("%s: %s?", ex->what, word);
    }
    if (usage > 0)
        usage_add(ex->usage, w->user, 0, usage * 3600000);
    if (w->phase == PHASE_RUNNING) {
        ex->slots[ex->job_count] = (struct slot){0, 0, ex->cards[0].mem_mib};
        w->placement = (struct placement){&ex->slots[ex->job_count], 1};
    }
}

/* Both queues as one, as the page shows them. */
static void merged(const struct book *book, uint32_t *ret)
{
    size_t r = 0, w = 0;

    while (r < book->running.len || w < book->waiting.len) {
        bool running = w == book->waiting.len ||
                       (r < book->running.len && key_cmp(book, &book->running.v[r], &book->waiting.v[w]) < 0);

        *ret++ = running ? book->running.v[r++].job : book->waiting.v[w++].job;
    }
}

static void with_book(struct example *ex, struct book *book, struct sched_view *view)
{
    ex->node = (struct node){.name = "n", .gpus = ex->cards, .gpu_count = ex->node.gpu_count};
    ex->cluster = (struct cluster){&ex->node, 1};
    *view = (struct sched_view){.cluster = &ex->cluster, .jobs = ex->jobs, .job_count = ex->job_count};
    view->usage = ex->usage;
    view->options = sched_defaults;
    book_init(book, sched_policy_find("fair"), view, 100000);
    order_build(book);
    order_flat(book);
}

static void check_order(struct example *ex, char *rest)
{
    CLEANUP(book_done) struct book book;
    struct sched_view view;
    uint32_t order[JOBS_MAX], at = 0;

    with_book(ex, &book, &view);
    merged(&book, order);
    for (char *name = strtok(rest, " "); name; name = strtok(NULL, " "), at++)
        if (!streq(ex->jobs[order[at]].name, name))
            fail_msg("%s: place %u is %s, not %s", ex->what, at + 1, ex->jobs[order[at]].name, name);
    assert_int_equal(at, ex->job_count);
}

/* The same order from events, one job after the other, last first. */
static void check_live(struct example *ex)
{
    CLEANUP(plan_done) struct plan plan = {0};
    CLEANUP(plan_done) struct plan want = {0};
    CLEANUP(book_done) struct book book;
    struct sched_view view;
    struct live *live;

    with_book(ex, &book, &view);
    sched_plan(sched_policy_find("fair"), &view, 100000, &want);
    live = live_new(sched_policy_find("fair"), &ex->cluster, &sched_defaults, ex->usage);
    for (uint32_t i = ex->job_count; i-- > 0;) {
        struct live_event event = {.type = LIVE_ADD, .id = ex->jobs[i].id, .workload = ex->jobs[i]};

        assert_int_equal(live_apply(live, &event, NULL), 0);
        event.type = LIVE_RELABEL;
        event.priority = 77;
        event.user = "somebody else";
        assert_int_equal(live_apply(live, &event, NULL), 0);
    }
    for (uint32_t i = 0; i < ex->job_count; i++) {
        struct live_event event = {.type = LIVE_RELABEL, .id = ex->jobs[i].id, .user = ex->jobs[i].user};

        event.priority = ex->jobs[i].priority;
        assert_int_equal(live_apply(live, &event, NULL), 0);
    }
    live_plan(live, 100000, &plan);
    assert_int_equal(plan.waits.len, want.waits.len);
    for (uint32_t i = 0; i < plan.waits.len; i++) {
        assert_int_equal(live_view(live)->jobs[plan.waits.v[i].job].id, ex->jobs[want.waits.v[i].job].id);
        assert_int_equal(plan.waits.v[i].ordinal, want.waits.v[i].ordinal);
    }
    live_free(live);
}

static void check_ordinals(struct example *ex, char *rest)
{
    CLEANUP(book_done) struct book book;
    struct sched_view view;

    with_book(ex, &book, &view);
    for (char *word = strtok(rest, " "); word; word = strtok(NULL, " ")) {
        char *value = strchr(word, '=');
        int64_t milli;

        *value++ = '\0';
        milli = (int64_t)(strtod(value, NULL) * 1000 + 0.5);
        if (book.jobs.v[find(ex, word) - ex->jobs].ordinal != milli)
            fail_msg("%s: ordinal of %s is %lld, not %lld thousandths", ex->what, word,
                     (long long)book.jobs.v[find(ex, word) - ex->jobs].ordinal, (long long)milli);
    }
}

static void begin(struct example *ex, const char *what)
{
    usage_free(ex->usage);
    arena_done(&ex->arena);
    memset(ex, 0, sizeof(*ex));
    ex->usage = usage_new(0);
    (void)snprintf(ex->what, sizeof(ex->what), "%.120s", what);
    ex->cards[0].mem_mib = 24576;
    ex->node.gpu_count = 1;
}

static void relabel(struct example *ex, char *rest)
{
    const char *warning, *name = strtok(rest, " ");
    char *value = strchr(strtok(NULL, " "), '=') + 1;

    find(ex, name)->priority = priority_parse(str_from(value), &warning);
}

static void add_card(struct example *ex, const char *mib, uint32_t *cards)
{
    ex->cards[*cards].mem_mib = (uint32_t)strtoul(mib, NULL, 10);
    ex->node.gpu_count = ++*cards;
}

static void test_worked_examples_come_out_as_written(void **state)
{
    CLEANUP(file_close) FILE *file = fopen(QUEUE_ORDER, "re");
    struct example ex = {0};
    char line[512];
    uint32_t examples = 0, cards = 0;

    (void)state;
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        char *rest = strchr(line, ' ');

        line[strcspn(line, "\n")] = '\0';
        if (!*line || *line == '#')
            continue;
        rest = rest ? rest + 1 : line;
        if (starts_with(line, "example ")) {
            begin(&ex, rest);
            examples++;
            cards = 0;
        } else if (starts_with(line, "card ")) {
            add_card(&ex, rest, &cards);
        } else if (starts_with(line, "job ")) {
            add_job(&ex, rest);
        } else if (starts_with(line, "relabel ")) {
            relabel(&ex, rest);
        } else if (starts_with(line, "order ")) {
            check_order(&ex, rest);
            check_live(&ex);
        } else if (starts_with(line, "ordinal ")) {
            check_ordinals(&ex, rest);
        } else {
            fail_msg("%s?", line);
        }
    }
    assert_true(examples >= 20);
    usage_free(ex.usage);
    arena_done(&ex.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worked_examples_come_out_as_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
