/* Rows are made in two steps. The cells of one object state are computed once and kept in object->cache as
 * one block: the JSON text of the cells and conditions with the times cut out, and the list of places where
 * a time belongs. Writing a row then copies text and formats a few ages. */
#include "objects/table.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/vec.h"
#include "objects/object_doc.h"
#include "objects/rules.h"

#include <assert.h>

struct mark {
    uint32_t at; /* in text: what stands before it is written first */
    bool until;
    int64_t time;
};

struct cells {
    uint32_t text_len, mark_count;
    struct mark marks[]; /* followed by the text */
};

static const char *cells_text(const struct cells *cells)
{
    return (const char *)(cells->marks + cells->mark_count);
}

static void write_cell(const struct column *column, const struct json *doc, struct column_ctx *ctx,
                       struct buf *out)
{
    const char *value;

    if (column->cell) {
        column->cell(doc, ctx, out);
        return;
    }
    value = json_at_string(doc, column->path);
    if (!value || !*value)
        value = column->none ? column->none : "";
    cell_string(out, value);
}

/* `{"cells":[…],"conditions":[…]` with marks. */
static void write_cells(const struct kind *kind, const struct json *doc, struct column_ctx *ctx,
                        struct buf *out)
{
    const char *conditions = kind->row_conditions ? kind->row_conditions(doc) : NULL;

    buf_puts(out, "{\"cells\":[");
    for (size_t i = 0; i < kind->column_count; i++) {
        if (i)
            buf_putc(out, ',');
        write_cell(&kind->columns[i], doc, ctx, out);
    }
    buf_putc(out, ']');
    if (conditions) {
        buf_puts(out, ",\"conditions\":");
        buf_puts(out, conditions);
    }
}

/* Cuts the times out of marked text. */
static struct cells *cells_new(const struct buf *marked)
{
    CLEANUP(buf_done) struct buf text = {0};
    VEC(struct mark) marks = {0};
    const char *at = marked->data, *end = marked->data + marked->len;
    struct cells *cells;

    while (at < end) {
        const char *mark = at, *stop;
        struct mark found = {0};

        while (mark < end && *mark != TABLE_AGE_MARK && *mark != TABLE_UNTIL_MARK)
            mark++;
        buf_add(&text, at, (size_t)(mark - at));
        if (mark == end)
            break;
        stop = memchr(mark + 1, *mark, (size_t)(end - mark - 1));
        assert(stop);
        found.at = (uint32_t)text.len;
        found.until = *mark == TABLE_UNTIL_MARK;
        if (clock_parse((struct str){mark + 1, (size_t)(stop - mark - 1)}, &found.time))
            vec_push(&marks, found);
        else
            buf_puts(&text, "<unknown>");
        at = stop + 1;
    }
    cells = mem_alloc(sizeof(*cells) + marks.len * sizeof(struct mark) + text.len);
    cells->text_len = (uint32_t)text.len;
    cells->mark_count = (uint32_t)marks.len;
    if (marks.len)
        memcpy(cells->marks, marks.v, marks.len * sizeof(struct mark));
    memcpy((char *)(cells->marks + marks.len), buf_view(&text).s, text.len);
    vec_done(&marks);
    return cells;
}

static const struct cells *object_cells(const struct object *object, int64_t now)
{
    if (!object->cache) {
        CLEANUP(arena_done) struct arena arena = {0};
        CLEANUP(buf_done) struct buf marked = {0};
        struct column_ctx ctx = {.arena = &arena, .now = now};

        write_cells(object->kind, object_doc_once(object, &arena), &ctx, &marked);
        ((struct object *)(uintptr_t)object)->cache = cells_new(&marked); /* the one part that may change */
    }
    return object->cache;
}

void table_begin(struct buf *out, const struct kind *kind, struct str list_metadata, bool columns)
{
    buf_puts(out, "{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":");
    buf_str(out, list_metadata.len ? list_metadata : STR("{}"));
    if (!columns) {
        buf_puts(out, ",\"columnDefinitions\":null,\"rows\":[");
        return;
    }
    buf_puts(out, ",\"columnDefinitions\":[");
    for (size_t i = 0; i < kind->column_count; i++) {
        const struct column *column = &kind->columns[i];

        buf_puts(out, i ? ",{\"name\":" : "{\"name\":");
        json_write_string(out, str_from(column->name));
        buf_printf(out, ",\"type\":\"%s\",\"format\":\"%s\",\"description\":", column->type,
                   column->format ? column->format : "");
        json_write_string(out, str_from(column->doc ? column->doc : ""));
        buf_printf(out, ",\"priority\":%d}", column->priority);
    }
    buf_puts(out, "],\"rows\":[");
}

void table_row(struct buf *out, const struct object *object, enum table_include include, int64_t now)
{
    const struct cells *cells = object_cells(object, now);
    const char *text = cells_text(cells);
    uint32_t done = 0;

    for (const struct mark *mark = cells->marks; mark < cells->marks + cells->mark_count; mark++) {
        int64_t interval = mark->until ? mark->time - now : now - mark->time;
        char age[CLOCK_TEXT_MAX];

        buf_add(out, text + done, mark->at - done);
        buf_puts(out, clock_age(mark->until && interval < 0 ? 0 : interval, age));
        done = mark->at;
    }
    buf_add(out, text + done, cells->text_len - done);
    switch (include) {
    case TABLE_NONE:
        buf_str(out, STR(",\"object\":null}"));
        break;
    case TABLE_OBJECT:
        buf_str(out, STR(",\"object\":"));
        buf_add(out, object->text, object->text_len);
        buf_putc(out, '}');
        break;
    case TABLE_METADATA:
        buf_str(out, STR(",\"object\":{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\","
                         "\"metadata\":"));
        buf_add(out, object->text + object->meta_at, object->meta_len);
        buf_str(out, STR("}}"));
        break;
    }
}

void table_end(struct buf *out)
{
    buf_puts(out, "]}");
}

void cell_string(struct buf *out, const char *s)
{
    json_write_string(out, str_from(s ? s : "<none>"));
}

static void cell_mark(struct buf *out, char mark, const char *rfc3339)
{
    int64_t time;

    if (!clock_parse(str_from(rfc3339), &time)) {
        buf_puts(out, "\"<unknown>\"");
        return;
    }
    buf_printf(out, "\"%c%s%c\"", mark, rfc3339, mark);
}

void cell_age(struct buf *out, const char *rfc3339)
{
    cell_mark(out, TABLE_AGE_MARK, rfc3339);
}

void cell_until(struct buf *out, const char *rfc3339)
{
    cell_mark(out, TABLE_UNTIL_MARK, rfc3339);
}

void cell_created(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    (void)ctx;
    cell_age(out, json_at_string(doc, "metadata.creationTimestamp"));
}
