/* What outlives jobs: samples of how long iterations take, kept per (image, script, batch size), and how much
 * GPU time each user had lately, which is read back from the spans of the record log. */
#include "queue/internal.h"

#define SAMPLES_TABLE "samples"
#define USAGE_LIVES   8 /* half-lives that are read back: the rest is less than half a percent */

static void key_text(const struct estimate_key *key, struct buf *text)
{
    buf_printf(text, "%s\x1f%s\x1f%u", key->image ? key->image : "", key->script ? key->script : "",
               key->batch_size);
}

static double real_of(const struct json *value)
{
    return json_is(value, JSON_REAL) ? value->real : (double)json_int(value, 0);
}

static void load_row(struct queue *queue, const struct estimate_key *key, const struct json *row)
{
    struct sample sample = {.gpus = (uint32_t)json_int(json_get(row, "gpus"), 0),
                            .shared = json_bool(json_get(row, "shared")),
                            .iterations = (uint32_t)json_int(json_get(row, "iterations"), 0),
                            .iteration_s = real_of(json_get(row, "iteration")),
                            .epoch_s = real_of(json_get(row, "epoch"))};

    estimator_add(life_estimator(queue->life), key, &sample);
}

static void load_key(void *arg, const char *text, struct str value)
{
    struct queue *queue = arg;
    CLEANUP(arena_done) struct arena arena = {0};
    struct str rest = str_from(text), image, script;
    struct estimate_key key = {0};
    struct json *rows = NULL;
    uint64_t batch = 0;

    if (!str_split(&rest, '\x1f', &image) || !str_split(&rest, '\x1f', &script) ||
        !str_to_uint(rest, &batch) || json_parse(value, &arena, &rows, NULL, NULL) < 0)
        return;
    key = (struct estimate_key){arena_strndup(&arena, image.s, image.len),
                                arena_strndup(&arena, script.s, script.len), (uint32_t)batch};
    JSON_EACH(rows, it)
        load_row(queue, &key, it);
}

void samples_load(struct queue *queue)
{
    store_values(queue->store, SAMPLES_TABLE, load_key, queue);
}

void samples_save(struct queue *queue, const struct life_job *job)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf key_buf = {0};
    CLEANUP(buf_done) struct buf text = {0};
    struct estimate_key key = {job->image, job->script, job->batch_size};
    struct json *rows = json_new_array(&arena);
    struct sample row;

    for (uint32_t i = 0; estimator_row(life_estimator(queue->life), &key, i, &row); i++) {
        struct json *out = json_push_object(&arena, rows);

        json_set_int(&arena, out, "gpus", row.gpus);
        json_set_bool(&arena, out, "shared", row.shared);
        json_set_int(&arena, out, "iterations", row.iterations);
        json_set_real(&arena, out, "iteration", row.iteration_s);
        json_set_real(&arena, out, "epoch", row.epoch_s);
    }
    key_text(&key, &key_buf);
    json_write(&text, rows);
    store_value_set(queue->store, SAMPLES_TABLE, key_buf.data, buf_view(&text));
}

/* ---- usage ---- */

static bool add_span(void *arg, const struct record *record)
{
    struct queue *queue = arg;
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc = NULL;
    double share;

    if (!record->user || !*record->user || record->until_ms <= record->time_ms ||
        json_parse(record->doc, &arena, &doc, NULL, NULL) < 0)
        return true;
    share = json_get(doc, "share") ? real_of(json_get(doc, "share")) : 1;
    usage_add(life_usage(queue->life), record->user, record->until_ms,
              share * (double)(record->until_ms - record->time_ms));
    return true;
}

void usage_load(struct queue *queue)
{
    int64_t half = queue->config.half_life_hours > 0 ? (int64_t)(queue->config.half_life_hours * 3600000)
                                                     : USAGE_HALF_LIFE_MS;
    struct record_query query = {
        .type = RECORD_SPAN, .from_ms = queue_now(queue) - half * USAGE_LIVES, .newest_first = true};
    struct err err = {0};

    if (store_records(queue->store, &query, add_span, queue, &err) < 0)
        log_warn("usage: %s", err.msg);
}
