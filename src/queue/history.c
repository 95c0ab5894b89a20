/* What was: from the record log. All of this but the functions of queue.h runs in the store's reading
 * threads. */
#include "base/map.h"
#include "queue/past.h"

#define DAY_MS      (24 * 3600 * (int64_t)1000)
#define SPANS_MAX   20000
#define POINTS_MAX  2000 /* of one card */
#define HISTORY_DEF 100
#define BUCKETS_MAX 100000

/* ---- history ---- */

struct history {
    struct queue_past *past;
    const char **states; /* NULL-terminated; NULL: all */
    struct record_query query;
    bool mine, csv;
    size_t limit, count;
    int64_t last_ms, last_seq;
    bool more;
};

static const char *const csv_columns[] = {
    "id",          "kind",     "namespace",   "name",          "user",          "state",      "reason",
    "priority",    "gpus",     "memoryMiB",   "submitted",     "started",       "finished",   "epochsDone",
    "epochsTotal", "restarts", "lostSeconds", "peakMemoryMiB", "waitedSeconds", "ranSeconds", "gpuHours",
    "image"};

void queue_history_csv_head(struct buf *out)
{
    for (size_t i = 0; i < ARRAY_LEN(csv_columns); i++)
        buf_printf(out, "%s%s", i ? "," : "", csv_columns[i]);
    buf_puts(out, "\r\n");
}

/* Quoted where needed; text that a spreadsheet would take for a formula gets a ' before it. */
static void csv_cell(struct buf *out, const struct json *value)
{
    struct str text = json_str(value);

    if (!text.s) {
        if (value && !json_is(value, JSON_NULL))
            json_write(out, value);
        return;
    }
    buf_putc(out, '"');
    if (text.len && strchr("=+-@\t\r", text.s[0]))
        buf_putc(out, '\'');
    for (size_t i = 0; i < text.len; i++) {
        if (text.s[i] == '"')
            buf_putc(out, '"');
        buf_putc(out, text.s[i]);
    }
    buf_putc(out, '"');
}

static void csv_row(struct buf *out, const struct json *job)
{
    for (size_t i = 0; i < ARRAY_LEN(csv_columns); i++) {
        if (i)
            buf_putc(out, ',');
        csv_cell(out, json_get(job, csv_columns[i]));
    }
    buf_puts(out, "\r\n");
}

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
    struct buf *out = &history->past->answer.text;
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc = NULL;
    bool mine;

    if (!wanted(history->states, record->tag) || json_parse(record->doc, &arena, &doc, NULL, NULL) < 0)
        return true;
    mine =
        viewer_owns(&history->past->viewer, json_get_string(doc, "user"), json_get_string(doc, "namespace"));
    if (history->mine && !mine)
        return true;
    if (history->count == history->limit) {
        history->more = true;
        return false;
    }
    if (history->csv) {
        csv_row(out, doc);
    } else {
        json_set_bool(&arena, doc, "mine", mine);
        buf_puts(out, history->count ? "," : "");
        json_write(out, doc);
    }
    history->count++;
    history->last_ms = record->time_ms;
    history->last_seq = record->seq;
    return true;
}

static int read_history(struct queue_past *past, struct record_source *source, struct err *err)
{
    struct history *history = past->work;

    if (!history->csv)
        buf_puts(&past->answer.text, "{\"jobs\":[");
    if (records_read(source, &history->query, add_job, history, err) < 0)
        return -1;
    past->answer.count = history->count;
    if (history->more)
        past->answer.next = arena_printf(&past->arena, "%lld.%lld", (long long)history->last_ms,
                                         (long long)history->last_seq);
    if (history->csv)
        return 0;
    if (history->more)
        buf_printf(&past->answer.text, "],\"next\":\"%s\"}", past->answer.next);
    else
        buf_puts(&past->answer.text, "],\"next\":null}");
    return 0;
}

/* "1789.12": the time and number of the record it goes on behind. */
static bool read_cursor(const char *text, struct record_query *query)
{
    struct str rest = str_from(text), time;

    return str_split(&rest, '.', &time) && str_to_int(time, &query->after.time_ms) &&
           str_to_int(rest, &query->after.seq) && query->after.seq > 0;
}

static const char **copy_states(struct arena *arena, const char *const *states, const char **only)
{
    const char **copy;
    size_t count = 0;

    if (!states)
        return NULL;
    while (states[count])
        count++;
    copy = arena_zalloc(arena, (count + 1) * sizeof(*copy));
    for (size_t i = 0; i < count; i++)
        copy[i] = arena_strdup(arena, states[i]);
    if (count == 1)
        *only = copy[0];
    return copy;
}

int queue_history(struct queue *queue, const struct identity *who, const struct queue_history_query *query,
                  const struct queue_reader *reader, struct queue_past **ret, struct err *err)
{
    struct queue_past *past = past_new(who, read_history);
    struct history *history = arena_zalloc(&past->arena, sizeof(*history));

    *history = (struct history){.past = past,
                                .mine = query->mine,
                                .csv = query->csv,
                                .limit = query->limit ? query->limit : HISTORY_DEF,
                                .query = {.type = RECORD_JOB,
                                          .user = arena_strdup(&past->arena, query->user),
                                          .from_ms = query->from_ms,
                                          .to_ms = query->to_ms,
                                          .newest_first = true}};
    if (history->limit > QUEUE_HISTORY_MAX)
        history->limit = QUEUE_HISTORY_MAX;
    history->states = copy_states(&past->arena, query->states, &history->query.tag);
    past->work = history;
    if (query->after && !read_cursor(query->after, &history->query)) {
        past_free(past);
        return err_set(err, ERR_INVALID, "after: '%s' is no cursor", query->after);
    }
    return past_start(queue, past, reader, ret, err);
}

/* ---- timeline ---- */

struct timeline {
    struct arena *arena;
    struct record_query query;
    struct json *spans, *cards;
    struct map *points; /* "node index" → its points */
};

static bool add_span(void *arg, const struct record *record)
{
    struct timeline *timeline = arg;
    struct arena *arena = timeline->arena;
    struct json *doc = NULL, *out;

    if (json_parse(record->doc, arena, &doc, NULL, NULL) < 0)
        return true;
    out = json_push_object(arena, timeline->spans);
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

static int by_span_start(const void *a, const void *b)
{
    int order = strcmp(json_string_or(json_get(a, "start"), ""), json_string_or(json_get(b, "start"), ""));

    return order ? order : json_int(json_get(a, "index"), 0) < json_int(json_get(b, "index"), 0) ? -1 : 1;
}

static struct json *points_of(struct timeline *timeline, const char *node, int64_t index)
{
    CLEANUP(free)
    char *key = mem_printf("%s %lld", node, (long long)index);
    struct json *card, *points = map_get(timeline->points, str_from(key));

    if (points)
        return points;
    card = json_new_object(timeline->arena);
    json_set_string(timeline->arena, card, "node", node);
    json_set_int(timeline->arena, card, "index", index);
    points = json_new_array(timeline->arena);
    map_set(timeline->points, str_from(key), points);
    json_push(timeline->arena, timeline->cards, *card);
    return points;
}

/* The document goes: numbers stand for themselves, others do not count. */
static struct json number_of(const struct json *value)
{
    return json_is(value, JSON_INT) || json_is(value, JSON_REAL) ? *value : (struct json){0};
}

static bool add_point(void *arg, const struct record *record)
{
    struct timeline *timeline = arg;
    struct arena *arena = timeline->arena;
    CLEANUP(arena_done) struct arena scratch = {0};
    struct json *doc = NULL, *points, *point;
    char time[CLOCK_TEXT_MAX];

    if (json_parse(record->doc, &scratch, &doc, NULL, NULL) < 0)
        return true;
    points = points_of(timeline, record->tag, json_int(json_get(doc, "index"), 0));
    if (points->len >= POINTS_MAX)
        return true;
    point = json_push(arena, points, *json_new_array(arena));
    json_push_string(arena, point, ms_text(record->time_ms, time));
    json_push(arena, point, number_of(json_get(doc, "compute")));
    json_push(arena, point, number_of(json_get(doc, "memory")));
    return true;
}

static void write_timeline(struct timeline *timeline, struct buf *text)
{
    struct json *out = json_new_object(timeline->arena);

    if (timeline->spans->len)
        qsort(timeline->spans->items->v, timeline->spans->len, sizeof(*timeline->spans->items->v),
              by_span_start);
    JSON_EACH(timeline->cards, card) {
        CLEANUP(free)
        char *key = mem_printf("%s %lld", json_get_string(card, "node"),
                               (long long)json_int(json_get(card, "index"), 0));

        json_set(timeline->arena, card, "points", *(struct json *)map_get(timeline->points, str_from(key)));
    }
    json_set_ms(timeline->arena, out, "from", timeline->query.from_ms);
    json_set_ms(timeline->arena, out, "to", timeline->query.to_ms);
    json_set(timeline->arena, out, "spans", *timeline->spans);
    json_set(timeline->arena, out, "utilization", *timeline->cards);
    json_write(text, out);
}

static int read_timeline(struct queue_past *past, struct record_source *source, struct err *err)
{
    struct timeline *timeline = past->work;
    int result;

    timeline->query.type = RECORD_SPAN;
    timeline->query.limit = SPANS_MAX;
    result = records_read(source, &timeline->query, add_span, timeline, err);
    timeline->query.type = RECORD_CARD;
    timeline->query.limit = 0;
    timeline->points = map_new();
    if (result == 0)
        result = records_read(source, &timeline->query, add_point, timeline, err);
    if (result == 0)
        write_timeline(timeline, &past->answer.text);
    map_free(timeline->points);
    return result;
}

int queue_timeline(struct queue *queue, int64_t from_ms, int64_t to_ms, const struct queue_reader *reader,
                   struct queue_past **ret, struct err *err)
{
    struct queue_past *past;
    struct timeline *timeline;

    if (from_ms >= (to_ms ? to_ms : queue_now(queue)))
        return err_set(err, ERR_INVALID, "from: must be before to");
    past = past_new(NULL, read_timeline);
    timeline = past->work = arena_zalloc(&past->arena, sizeof(*timeline));
    timeline->arena = &past->arena;
    timeline->query = (struct record_query){.from_ms = from_ms, .to_ms = to_ms ? to_ms : queue_now(queue)};
    timeline->spans = json_new_array(&past->arena);
    timeline->cards = json_new_array(&past->arena);
    return past_start(queue, past, reader, ret, err);
}

/* ---- usage ---- */

struct bucket {
    int64_t start;
    const char *user;
    double gpu_ms;
    int64_t jobs;
    VEC(double) waits; /* of each job; as many as records of finished jobs are kept */
};

struct usage_sum {
    struct arena *arena;
    int64_t now, from, to, step;
    VEC(struct bucket) buckets;
    struct map *places; /* "start user" → place in buckets + 1, as an address */
    bool full;
};

/* Weeks begin on Monday, UTC; day 0 of 1970 was a Thursday. */
static int64_t bucket_start(const struct usage_sum *sum, int64_t ms)
{
    int64_t shift = sum->step > DAY_MS ? 3 * DAY_MS : 0;

    return (ms + shift) / sum->step * sum->step - shift;
}

static struct bucket *bucket_of(struct usage_sum *sum, int64_t start, const char *user)
{
    CLEANUP(free) char *key = mem_printf("%lld %s", (long long)start, user);
    uintptr_t place = (uintptr_t)map_get(sum->places, str_from(key));

    if (place)
        return &sum->buckets.v[place - 1];
    if (sum->buckets.len >= BUCKETS_MAX) {
        sum->full = true;
        return NULL;
    }
    vec_push(&sum->buckets, (struct bucket){.start = start, .user = arena_strdup(sum->arena, user)});
    map_set(sum->places, str_from(key), (void *)(uintptr_t)sum->buckets.len);
    return &sum->buckets.v[sum->buckets.len - 1];
}

static bool sum_span(void *arg, const struct record *record)
{
    struct usage_sum *sum = arg;
    int64_t at = record->time_ms > sum->from ? record->time_ms : sum->from;
    int64_t end = record->until_ms ? record->until_ms : sum->now;

    end = end < sum->to ? end : sum->to;
    while (at < end && !sum->full) {
        int64_t start = bucket_start(sum, at), next = start + sum->step < end ? start + sum->step : end;
        struct bucket *bucket = bucket_of(sum, start, record->user);

        if (bucket)
            bucket->gpu_ms += (double)(next - at);
        at = next;
    }
    return !sum->full;
}

static bool sum_job(void *arg, const struct record *record)
{
    struct usage_sum *sum = arg;
    CLEANUP(arena_done) struct arena arena = {0};
    struct bucket *bucket = bucket_of(sum, bucket_start(sum, record->time_ms), record->user);
    struct json *doc = NULL;
    const struct json *waited;

    if (!bucket)
        return false;
    if (json_parse(record->doc, &arena, &doc, NULL, NULL) < 0)
        return true;
    waited = json_get(doc, "waitedSeconds");
    bucket->jobs++;
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

static void write_bucket(struct bucket *bucket, struct buf *text)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *row = json_new_object(&arena);

    if (bucket->waits.len)
        qsort(bucket->waits.v, bucket->waits.len, sizeof(*bucket->waits.v), by_value);
    json_set_ms(&arena, row, "start", bucket->start);
    json_set_string(&arena, row, "user", *bucket->user ? bucket->user : NULL);
    json_set_real(&arena, row, "gpuHours", bucket->gpu_ms / 3600000);
    json_set_int(&arena, row, "jobs", bucket->jobs);
    set_quantile(&arena, row, "waitMedian", bucket, 0.5);
    set_quantile(&arena, row, "waitP90", bucket, 0.9);
    json_write(text, row);
}

static int sum_all(struct usage_sum *sum, struct record_source *source, struct err *err)
{
    struct record_query query = {.type = RECORD_SPAN, .from_ms = sum->from, .to_ms = sum->to};

    if (records_read(source, &query, sum_span, sum, err) < 0)
        return -1;
    query.type = RECORD_JOB;
    if (!sum->full && records_read(source, &query, sum_job, sum, err) < 0)
        return -1;
    if (sum->full)
        return err_set(err, ERR_INVALID, "from: usage since then has more than %d rows; ask for less time",
                       BUCKETS_MAX);
    return 0;
}

static int read_usage(struct queue_past *past, struct record_source *source, struct err *err)
{
    struct usage_sum *sum = past->work;
    struct buf *text = &past->answer.text;
    int result;

    sum->places = map_new();
    result = sum_all(sum, source, err);
    if (sum->buckets.len)
        qsort(sum->buckets.v, sum->buckets.len, sizeof(*sum->buckets.v), by_start);
    buf_puts(text, "{\"rows\":[");
    VEC_EACH(&sum->buckets, it) {
        if (result == 0) {
            buf_puts(text, it == sum->buckets.v ? "" : ",");
            write_bucket(it, text);
        }
        vec_done(&it->waits);
    }
    buf_puts(text, "]}");
    vec_done(&sum->buckets);
    map_free(sum->places);
    return result;
}

int queue_usage(struct queue *queue, int64_t from_ms, int64_t to_ms, bool by_day,
                const struct queue_reader *reader, struct queue_past **ret, struct err *err)
{
    struct queue_past *past = past_new(NULL, read_usage);
    struct usage_sum *sum = past->work = arena_zalloc(&past->arena, sizeof(*sum));

    sum->arena = &past->arena;
    sum->now = queue_now(queue);
    sum->from = from_ms;
    sum->to = to_ms ? to_ms : sum->now;
    sum->step = by_day ? DAY_MS : 7 * DAY_MS;
    return past_start(queue, past, reader, ret, err);
}
