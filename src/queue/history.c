/* What was: from the record log. */
#include "queue/internal.h"

#define DAY_MS      (24 * 3600 * (int64_t)1000)
#define SPANS_MAX   20000
#define POINTS_MAX  2000 /* of one card */
#define HISTORY_DEF 100
#define BUCKETS_MAX 10000
#define WAITS_MAX   100000

/* ---- history ---- */

struct history {
    const struct queue_history_query *query;
    const struct identity *who;
    struct arena *arena;
    struct json *jobs;
    size_t limit;
    int64_t last;
    bool more;
};

static bool wanted(const char *const *states, const char *state)
{
    if (!states)
        return true;
    for (; *states; states++)
        if (streq(*states, state))
            return true;
    return false;
}

static bool add_job(void *arg, const struct record *record)
{
    struct history *history = arg;
    struct json *doc = NULL;
    bool mine;

    if (!wanted(history->query->states, record->tag) ||
        json_parse(record->doc, history->arena, &doc, NULL, NULL) < 0)
        return true;
    mine = row_mine(history->who, json_get_string(doc, "user"), json_get_string(doc, "namespace"));
    if (history->query->mine && !mine)
        return true;
    if (history->jobs->len == history->limit) {
        history->more = true;
        return false;
    }
    json_set_bool(history->arena, doc, "mine", mine);
    json_push(history->arena, history->jobs, *doc);
    history->last = record->seq;
    return true;
}

int queue_history(struct queue *queue, const struct identity *who, const struct queue_history_query *query,
                  struct arena *arena, struct json **ret, struct err *err)
{
    struct json *out = json_new_object(arena);
    struct history history = {.query = query, .who = who, .arena = arena, .limit = query->limit};
    struct record_query records = {.type = RECORD_JOB,
                                   .user = query->user,
                                   .from_ms = query->from_ms,
                                   .to_ms = query->to_ms,
                                   .newest_first = true};

    if (query->after && !str_to_int(str_from(query->after), &records.before_seq))
        return err_set(err, ERR_INVALID, "after: '%s' is no cursor", query->after);
    if (history.limit == 0)
        history.limit = HISTORY_DEF;
    if (history.limit > QUEUE_HISTORY_MAX)
        history.limit = QUEUE_HISTORY_MAX;
    history.jobs = json_new_array(arena);
    if (store_records(queue->store, &records, add_job, &history, err) < 0)
        return -1;
    json_set(arena, out, "jobs", *history.jobs);
    json_set_string(arena, out, "next",
                    history.more ? arena_printf(arena, "%lld", (long long)history.last) : NULL);
    *ret = out;
    return 0;
}

/* ---- timeline ---- */

struct timeline {
    struct arena *arena;
    struct json *list;
};

static bool add_span(void *arg, const struct record *record)
{
    struct timeline *timeline = arg;
    struct arena *arena = timeline->arena;
    struct json *doc = NULL, *out;

    if (json_parse(record->doc, arena, &doc, NULL, NULL) < 0)
        return true;
    if (timeline->list->len >= SPANS_MAX)
        return false;
    out = json_push_object(arena, timeline->list);
    json_set_string(arena, out, "node", record->tag);
    json_set_int(arena, out, "index", json_int(json_get(doc, "index"), 0));
    json_set_string(arena, out, "id", record->job);
    json_set_string(arena, out, "name", json_get_string(doc, "name"));
    json_set_string(arena, out, "user", *record->user ? record->user : NULL);
    json_set_int(arena, out, "mib", json_int(json_get(doc, "mib"), 0));
    json_set_ms(arena, out, "start", record->time_ms);
    json_set_ms(arena, out, "end", record->until_ms);
    return true;
}

static struct json *points_of(struct timeline *timeline, const char *node, int64_t index)
{
    struct json *card, *points;

    JSON_EACH(timeline->list, it)
        if (streq(json_get_string(it, "node"), node) && json_int(json_get(it, "index"), -1) == index)
            return json_get(it, "points");
    card = json_push_object(timeline->arena, timeline->list);
    json_set_string(timeline->arena, card, "node", node);
    json_set_int(timeline->arena, card, "index", index);
    points = json_set_array(timeline->arena, card, "points");
    return points;
}

static bool add_point(void *arg, const struct record *record)
{
    struct timeline *timeline = arg;
    struct arena *arena = timeline->arena;
    struct json *doc = NULL, *points, *point;
    char time[CLOCK_TEXT_MAX];

    if (json_parse(record->doc, arena, &doc, NULL, NULL) < 0)
        return true;
    points = points_of(timeline, record->tag, json_int(json_get(doc, "index"), 0));
    if (points->len >= POINTS_MAX)
        return true;
    point = json_push(arena, points, *json_new_array(arena));
    json_push_string(arena, point, ms_text(record->time_ms, time));
    json_push(arena, point, json_get(doc, "compute") ? *json_get(doc, "compute") : (struct json){0});
    json_push(arena, point, json_get(doc, "memory") ? *json_get(doc, "memory") : (struct json){0});
    return true;
}

int queue_timeline(struct queue *queue, int64_t from_ms, int64_t to_ms, struct arena *arena,
                   struct json **ret, struct err *err)
{
    struct json *out = json_new_object(arena);
    struct timeline spans = {arena, json_new_array(arena)}, cards = {arena, json_new_array(arena)};
    struct record_query query = {
        .type = RECORD_SPAN, .from_ms = from_ms, .to_ms = to_ms ? to_ms : queue_now(queue)};

    if (query.from_ms >= query.to_ms)
        return err_set(err, ERR_INVALID, "from: must be before to");
    if (store_records(queue->store, &query, add_span, &spans, err) < 0)
        return -1;
    query.type = RECORD_CARD;
    if (store_records(queue->store, &query, add_point, &cards, err) < 0)
        return -1;
    json_set_ms(arena, out, "from", query.from_ms);
    json_set_ms(arena, out, "to", query.to_ms);
    json_set(arena, out, "spans", *spans.list);
    json_set(arena, out, "utilization", *cards.list);
    *ret = out;
    return 0;
}

/* ---- usage ---- */

struct bucket {
    int64_t start;
    const char *user;
    double gpu_ms;
    int64_t jobs;
    VEC(double) waits;
};

struct usage_sum {
    int64_t now;
    struct arena *arena;
    int64_t from, to, step;
    VEC(struct bucket) buckets;
};

/* Weeks begin on Monday, UTC; day 0 of 1970 was a Thursday. */
static int64_t bucket_start(const struct usage_sum *sum, int64_t ms)
{
    int64_t shift = sum->step > DAY_MS ? 3 * DAY_MS : 0;

    return (ms + shift) / sum->step * sum->step - shift;
}

static struct bucket *bucket_of(struct usage_sum *sum, int64_t start, const char *user)
{
    VEC_EACH(&sum->buckets, it)
        if (it->start == start && streq(it->user, user))
            return it;
    if (sum->buckets.len >= BUCKETS_MAX)
        return NULL;
    vec_push(&sum->buckets, (struct bucket){.start = start, .user = arena_strdup(sum->arena, user)});
    return &sum->buckets.v[sum->buckets.len - 1];
}

static bool sum_span(void *arg, const struct record *record)
{
    struct usage_sum *sum = arg;
    int64_t at = record->time_ms > sum->from ? record->time_ms : sum->from;
    int64_t end = record->until_ms ? record->until_ms : sum->now;

    end = end < sum->to ? end : sum->to;
    while (at < end) {
        int64_t start = bucket_start(sum, at), next = start + sum->step < end ? start + sum->step : end;
        struct bucket *bucket = bucket_of(sum, start, record->user);

        if (bucket)
            bucket->gpu_ms += (double)(next - at);
        at = next;
    }
    return true;
}

static bool sum_job(void *arg, const struct record *record)
{
    struct usage_sum *sum = arg;
    CLEANUP(arena_done) struct arena arena = {0};
    struct bucket *bucket = bucket_of(sum, bucket_start(sum, record->time_ms), record->user);
    struct json *doc = NULL;
    const struct json *waited;

    if (!bucket || json_parse(record->doc, &arena, &doc, NULL, NULL) < 0)
        return true;
    waited = json_get(doc, "waitedSeconds");
    bucket->jobs++;
    if (bucket->waits.len < WAITS_MAX)
        vec_push(&bucket->waits, json_is(waited, JSON_REAL) ? waited->real : (double)json_int(waited, 0));
    return true;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static int by_start(const void *a, const void *b)
{
    const struct bucket *x = a, *y = b;

    return x->start != y->start ? (x->start < y->start ? -1 : 1) : strcmp(x->user, y->user);
}

static void set_quantile(struct arena *arena, struct json *out, const char *key, const struct bucket *bucket,
                         double q)
{
    if (bucket->waits.len == 0)
        json_set_null(arena, out, key);
    else
        json_set_real(arena, out, key, bucket->waits.v[(size_t)(q * (double)(bucket->waits.len - 1) + 0.5)]);
}

int queue_usage(struct queue *queue, int64_t from_ms, int64_t to_ms, bool by_day, struct arena *arena,
                struct json **ret, struct err *err)
{
    struct usage_sum sum = {.now = queue_now(queue),
                            .arena = arena,
                            .from = from_ms,
                            .to = to_ms ? to_ms : queue_now(queue),
                            .step = by_day ? DAY_MS : 7 * DAY_MS};
    struct record_query query = {.type = RECORD_SPAN, .from_ms = from_ms, .to_ms = sum.to};
    struct json *out = json_new_object(arena), *rows = json_set_array(arena, out, "rows");
    int result = store_records(queue->store, &query, sum_span, &sum, err);

    query.type = RECORD_JOB;
    if (result == 0)
        result = store_records(queue->store, &query, sum_job, &sum, err);
    if (sum.buckets.len)
        qsort(sum.buckets.v, sum.buckets.len, sizeof(*sum.buckets.v), by_start);
    VEC_EACH(&sum.buckets, it) {
        struct json *row = json_push_object(arena, rows);

        if (it->waits.len)
            qsort(it->waits.v, it->waits.len, sizeof(*it->waits.v), by_value);
        json_set_ms(arena, row, "start", it->start);
        json_set_string(arena, row, "user", *it->user ? it->user : NULL);
        json_set_real(arena, row, "gpuHours", it->gpu_ms / 3600000);
        json_set_int(arena, row, "jobs", it->jobs);
        set_quantile(arena, row, "waitMedian", it, 0.5);
        set_quantile(arena, row, "waitP90", it, 0.9);
        vec_done(&it->waits);
    }
    vec_done(&sum.buckets);
    *ret = out;
    return result;
}
