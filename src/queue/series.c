/* Rows of memory are taken before the thread reads: the records of what they tell are then either among those
 * that are on their way to the disk, which are copied in the same moment, or read. */
#include "queue/series.h"

#include "queue/past.h"

#define SERIES_MAX 2000 /* points of one metric */

struct note {
    enum record_type type;
    struct record record;
};

struct metric {
    const char *name;
    struct buf points;
    size_t count;
};

struct showing {
    struct show show;
    struct past_search search;
    const char *id;
    struct str row, rest; /* texts of objects; row {NULL, 0}: none */
    VEC(struct note) notes;
    /* of the series that is being read */
    struct queue_past *past;
    int64_t last;
    size_t count;
    VEC(struct metric) metrics;
};

/* ---- in the thread ---- */

static bool add_history(void *arg, const struct record *record)
{
    struct showing *showing = arg;
    struct buf *out = &showing->past->answer.text;
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc = NULL;

    if (json_parse(record->doc, &arena, &doc, NULL, NULL) < 0)
        return true;
    json_set_ms(&arena, doc, "time", record->time_ms);
    buf_puts(out, showing->count++ ? "," : "");
    json_write(out, doc);
    showing->last = record->seq;
    return true;
}

static struct metric *metric_of(struct showing *showing, const char *name)
{
    VEC_EACH(&showing->metrics, it)
        if (streq(it->name, name))
            return it;
    if (showing->metrics.len >= QUEUE_METRICS_MAX)
        return NULL;
    vec_push(&showing->metrics, (struct metric){.name = arena_strdup(&showing->past->arena, name)});
    return &showing->metrics.v[showing->metrics.len - 1];
}

static void write_member(struct buf *out, const struct json *doc, const char *key)
{
    const struct json *value = json_get(doc, key);

    if (value)
        json_write(out, value);
    else
        buf_putc(out, '0');
}

static bool add_metric(void *arg, const struct record *record)
{
    struct showing *showing = arg;
    struct metric *metric = metric_of(showing, record->tag);
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc = NULL;
    char time[CLOCK_TEXT_MAX];

    if (!metric || metric->count >= SERIES_MAX || json_parse(record->doc, &arena, &doc, NULL, NULL) < 0)
        return true;
    buf_printf(&metric->points, "%s[\"%s\",", metric->count++ ? "," : "", ms_text(record->time_ms, time));
    write_member(&metric->points, doc, "step");
    buf_putc(&metric->points, ',');
    write_member(&metric->points, doc, "value");
    buf_putc(&metric->points, ']');
    return true;
}

static bool add_memory(void *arg, const struct record *record)
{
    struct showing *showing = arg;
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc = NULL;
    char time[CLOCK_TEXT_MAX];

    if (json_parse(record->doc, &arena, &doc, NULL, NULL) < 0)
        return true;
    buf_printf(&showing->past->answer.text, "%s[\"%s\",%lld]", showing->count++ ? "," : "",
               ms_text(record->time_ms, time), (long long)json_int(json_get(doc, "mib"), 0));
    return showing->count < SERIES_MAX;
}

static void write_metrics(struct showing *showing, struct buf *out)
{
    VEC_EACH(&showing->metrics, it) {
        buf_puts(out, it == showing->metrics.v ? "" : ",");
        json_write_string(out, str_from(it->name));
        buf_puts(out, ":[");
        buf_add(out, it->points.data, it->points.len);
        buf_putc(out, ']');
        buf_done(&it->points);
    }
    vec_done(&showing->metrics);
}

static int read_series(struct showing *showing, struct record_source *source, const char *uid,
                       struct err *err)
{
    static const struct {
        const char *opens, *closes;
        bool (*fn)(void *arg, const struct record *record);
        enum record_type type;
        bool private;
    } parts[] = {
        {"\"history\":[", "],", add_history, RECORD_TRANSITION, false},
        {"\"epochs\":[", "],", add_history, RECORD_EPOCH, false},
        {"\"memory\":[", "],", add_memory, RECORD_MEMORY, false},
        {"\"metrics\":{", "}", add_metric, RECORD_METRIC, true},
    };
    struct buf *out = &showing->past->answer.text;
    int result = 0;

    for (size_t i = 0; i < ARRAY_LEN(parts) && result == 0; i++) {
        struct record_query query = {.type = parts[i].type, .job = uid};

        buf_puts(out, parts[i].opens);
        showing->last = 0;
        showing->count = 0;
        if (showing->show.private || !parts[i].private)
            result = records_read(source, &query, parts[i].fn, showing, err);
        VEC_EACH(&showing->notes, it)
            if (it->type == parts[i].type && it->record.seq > showing->last)
                add_history(showing, &it->record);
        if (parts[i].fn == add_metric)
            write_metrics(showing, out);
        buf_puts(out, parts[i].closes);
    }
    return result;
}

/* All but the brace that closes it, and a comma. */
static void open_object(struct buf *out, struct str text)
{
    buf_add(out, text.s, text.len - 1);
    buf_putc(out, ',');
}

static int read_show(struct queue_past *past, struct record_source *source, struct err *err)
{
    struct showing *showing = past->work;
    CLEANUP(buf_done) struct buf row = {0};

    if (showing->show.past && past_find(past, source, &showing->search, err) < 0)
        return -1;
    if (showing->search.row)
        json_write(&row, showing->search.row);
    else if (showing->row.s)
        buf_add(&row, showing->row.s, showing->row.len);
    else
        return err_set(err, ERR_NOT_FOUND, "there is no job '%s'", showing->id);
    open_object(&past->answer.text, buf_view(&row));
    open_object(&past->answer.text, (struct str){showing->rest.s + 1, showing->rest.len - 1});
    if (read_series(showing, source, showing->search.found ? showing->search.found : showing->id, err) < 0)
        return -1;
    buf_putc(&past->answer.text, '}');
    return 0;
}

/* ---- on the loop ---- */

static struct str text_of(struct arena *arena, const struct json *value)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (!value)
        return (struct str){0};
    json_write(&text, value);
    return (struct str){arena_strndup(arena, text.data, text.len), text.len};
}

/* What happened a moment ago and is on its way to the disk: the row shows it, so the history has to. */
static void copy_unsaved(const struct queue *queue, const char *uid, struct showing *showing,
                         struct arena *arena)
{
    size_t count = 0;

    VEC_EACH(&queue->unsaved, it)
        count += streq(it->job, uid);
    if (count == 0)
        return;
    showing->notes.v = arena_alloc(arena, count * sizeof(*showing->notes.v));
    VEC_EACH(&queue->unsaved, it)
        if (streq(it->job, uid))
            showing->notes.v[showing->notes.len++] = (struct note){
                it->type,
                {.seq = it->seq, .time_ms = it->time_ms, .doc = str_from(arena_strdup(arena, it->doc))}};
}

int show_start(struct queue *queue, const struct identity *who, const char *id, const struct show *show,
               const struct json *row, const struct json *rest, const struct queue_reader *reader,
               struct queue_past **ret, struct err *err)
{
    struct queue_past *past = past_new(who, read_show);
    struct showing *showing = past->work = arena_zalloc(&past->arena, sizeof(*showing));

    showing->show = *show;
    showing->past = past;
    showing->id = arena_strdup(&past->arena, id);
    past_search_of(id, &past->arena, &showing->search);
    showing->row = text_of(&past->arena, row);
    showing->rest = text_of(&past->arena, rest);
    copy_unsaved(queue, id, showing, &past->arena);
    return past_start(queue, past, reader, ret, err);
}
