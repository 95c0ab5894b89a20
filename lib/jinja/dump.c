/* dump.c - values as JSON (json.dumps, safe inside HTML) and as pprint shows them. */
#include "jinja/run.h"
#include "jinja/unicode.h"

#include <math.h>

/* ---- JSON ---- */

struct dumper {
    struct run *r;
    struct buf *buf;
    const char *indent; /* NULL: one line */
    size_t indent_len;
    bool sort;
    int level;
};

static int dump(struct dumper *d, struct jv v);

static void dump_string(struct buf *buf, struct str s)
{
    const char *at = s.s, *end = s.s + s.len;

    buf_putc(buf, '"');
    while (at < end) {
        const char *start = at;
        uint32_t cp;

        while (at < end && (unsigned char)*at >= ' ' && (unsigned char)*at < 0x7f && !strchr("\"\\<>&'", *at))
            at++;
        buf_add(buf, start, (size_t)(at - start));
        if (at == end)
            break;
        cp = utf8_next(&at, end);
        if (cp == '"' || cp == '\\')
            buf_printf(buf, "\\%c", (char)cp);
        else if (cp == '\n' || cp == '\r' || cp == '\t' || cp == '\b' || cp == '\f')
            buf_printf(buf, "\\%c",
                       cp == '\n'   ? 'n'
                       : cp == '\r' ? 'r'
                       : cp == '\t' ? 't'
                       : cp == '\b' ? 'b'
                                    : 'f');
        else if (cp == 0x7f)
            buf_putc(buf, 0x7f);
        else if (cp > 0xffff)
            buf_printf(buf, "\\u%04x\\u%04x", 0xd800 + ((cp - 0x10000) >> 10), 0xdc00 + (cp & 0x3ff));
        else
            buf_printf(buf, "\\u%04x", cp);
    }
    buf_putc(buf, '"');
}

static void new_line(struct dumper *d)
{
    if (!d->indent)
        return;
    buf_putc(d->buf, '\n');
    for (int i = 0; i < d->level; i++)
        buf_add(d->buf, d->indent, d->indent_len);
}

static int dump_float(struct dumper *d, double x)
{
    if (isnan(x) || isinf(x))
        buf_puts(d->buf, isnan(x) ? "NaN" : x < 0 ? "-Infinity" : "Infinity");
    else
        put_float(d->buf, x);
    return 0;
}

static int dump_key(struct dumper *d, struct jv key)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct dumper inner = {.r = d->r, .buf = &text};

    if (key.type == JV_STR) {
        dump_string(d->buf, jv_view(key));
        return charge(d->r, key.len / TEXT_STEP);
    }
    if (key.type != JV_NONE && !jv_is_number(key))
        return raise(d->r, JINJA_TYPE_ERROR, "keys must be str, int, float, bool or None, not %s",
                     jv_type_name(key));
    if (dump(&inner, key) < 0)
        return -1;
    dump_string(d->buf, buf_view(&text));
    return 0;
}

static int dump_list(struct dumper *d, struct jlist *list)
{
    list_expand(d->r, list);
    buf_putc(d->buf, '[');
    d->level++;
    for (uint32_t i = 0; i < list->len; i++) {
        if (i)
            buf_puts(d->buf, d->indent ? "," : ", ");
        new_line(d);
        if (dump(d, list->v[i]) < 0)
            return -1;
    }
    d->level--;
    if (list->len)
        new_line(d);
    buf_putc(d->buf, ']');
    return 0;
}

/* The entries in the order to write them. */
static int sorted_entries(struct run *r, struct jdict *dict, bool sort, struct jv **keys, struct jv **values)
{
    dict_expand(r, dict);
    *keys = run_alloc(r, (dict->len + 1) * sizeof(**keys));
    *values = run_alloc(r, (dict->len + 1) * sizeof(**values));
    for (uint32_t i = 0; i < dict->len; i++) {
        (*keys)[i] = dict->v[i].key;
        (*values)[i] = dict->v[i].value;
    }
    return sort ? sort_values(r, *values, *keys, dict->len, false) : 0;
}

static int dump_dict(struct dumper *d, struct jdict *dict)
{
    struct jv *keys, *values;

    if (sorted_entries(d->r, dict, d->sort, &keys, &values) < 0)
        return -1;
    buf_putc(d->buf, '{');
    d->level++;
    for (uint32_t i = 0; i < dict->len; i++) {
        if (i)
            buf_puts(d->buf, d->indent ? "," : ", ");
        new_line(d);
        if (dump_key(d, keys[i]) < 0)
            return -1;
        buf_puts(d->buf, ": ");
        if (dump(d, values[i]) < 0)
            return -1;
    }
    d->level--;
    if (dict->len)
        new_line(d);
    buf_putc(d->buf, '}');
    return 0;
}

static int dump(struct dumper *d, struct jv v)
{
    int failed;

    if (run_room(d->r, d->buf, jv_text_len(v)) < 0 || run_text_fits(d->r, (int64_t)d->buf->len) < 0)
        return -1;
    switch (v.type) {
    case JV_NONE:
        buf_puts(d->buf, "null");
        return 0;
    case JV_BOOL:
        buf_puts(d->buf, v.b ? "true" : "false");
        return 0;
    case JV_INT:
    case JV_BIG:
        return put_int(d->r, d->buf, v);
    case JV_FLOAT:
        return dump_float(d, v.d);
    case JV_STR:
        dump_string(d->buf, jv_view(v));
        return 0;
    case JV_LIST:
    case JV_TUPLE:
    case JV_DICT:
        if (run_enter(d->r) < 0)
            return -1;
        failed = v.type == JV_DICT ? dump_dict(d, v.dict) : dump_list(d, v.list);
        run_leave(d->r);
        return failed;
    default:
        return raise(d->r, JINJA_TYPE_ERROR, "Object of type %s is not JSON serializable",
                     v.type == JV_UNDEF && d->r->strict ? "StrictUndefined" : jv_type_name(v));
    }
}

int put_json(struct run *r, struct buf *buf, struct jv v, const char *indent, bool has_indent, bool sort_keys)
{
    struct dumper d = {.r = r, .buf = buf, .indent = has_indent ? indent : NULL, .sort = sort_keys};

    d.indent_len = d.indent ? strlen(d.indent) : 0;
    return dump(&d, v);
}

/* ---- pprint ---- */

#define PPRINT_WIDTH 80

static int pretty(struct run *r, struct buf *buf, struct jv v, int64_t indent, int64_t allowance, int level);

/* pprint's order of keys that may not compare: by the names of their types then. */
static int key_before(struct run *r, struct jv a, struct jv b)
{
    if ((jv_is_number(a) && jv_is_number(b)) || (a.type == b.type && a.type == JV_STR))
        return jv_cmp(r, a, b, CMP_LT);
    return strcmp(jv_type_name(a), jv_type_name(b)) < 0;
}

static bool sort_by_type(struct run *r, struct jv *keys, struct jv *values, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t k = i; k > 0 && key_before(r, keys[k], keys[k - 1]) > 0; k--) {
            struct jv key = keys[k], value = values[k];

            if (charge(r, 1) < 0)
                return false;
            keys[k] = keys[k - 1];
            values[k] = values[k - 1];
            keys[k - 1] = key;
            values[k - 1] = value;
        }
    return true;
}

static bool pprint_dict_order(struct run *r, struct jdict *dict, struct jv **keys, struct jv **values)
{
    if (sorted_entries(r, dict, true, keys, values) == 0)
        return true;
    if (r->err->kind != JINJA_TYPE_ERROR)
        return false;
    r->failed = false;
    *r->err = (struct jinja_error){0};
    return sorted_entries(r, dict, false, keys, values) == 0 && sort_by_type(r, *keys, *values, dict->len);
}

/* repr, with dicts sorted */
static int flat(struct run *r, struct buf *buf, struct jv v)
{
    struct jv *keys, *values;
    int failed = 0;

    if (run_room(r, buf, 0) < 0)
        return -1;
    if (v.type != JV_DICT && v.type != JV_LIST && v.type != JV_TUPLE)
        return put_repr(r, buf, v);
    if (run_enter(r) < 0)
        return -1;
    if (v.type == JV_DICT) {
        uint32_t len = v.dict->len; /* what is shown may add to it: a loop's test is a template's */

        if (!pprint_dict_order(r, v.dict, &keys, &values))
            return -1;
        buf_putc(buf, '{');
        for (uint32_t i = 0; !failed && i < len; i++) {
            buf_puts(buf, i ? ", " : "");
            failed = flat(r, buf, keys[i]);
            buf_puts(buf, ": ");
            failed = failed || flat(r, buf, values[i]) < 0;
        }
        buf_putc(buf, '}');
    } else {
        list_expand(r, v.list);
        buf_putc(buf, v.type == JV_LIST ? '[' : '(');
        for (uint32_t i = 0; !failed && i < v.list->len; i++) {
            buf_puts(buf, i ? ", " : "");
            failed = flat(r, buf, v.list->v[i]);
        }
        buf_puts(buf, v.type == JV_LIST ? "]" : v.list->len == 1 ? ",)" : ")");
    }
    run_leave(r);
    return failed || run_text_fits(r, (int64_t)buf->len) < 0 ? -1 : 0;
}

static void put_newline(struct buf *buf, int64_t indent)
{
    buf_putc(buf, '\n');
    for (int64_t i = 0; i < indent; i++)
        buf_putc(buf, ' ');
}

static int pretty_dict(struct run *r, struct buf *buf, struct jdict *dict, int64_t indent, int64_t allowance,
                       int level)
{
    struct jv *keys, *values;
    uint32_t len = dict->len; /* see flat() */

    if (!pprint_dict_order(r, dict, &keys, &values))
        return -1;
    buf_putc(buf, '{');
    for (uint32_t i = 0; i < len; i++) {
        size_t start = buf->len;
        int64_t width;

        if (flat(r, buf, keys[i]) < 0)
            return -1;
        width = (int64_t)utf8_count((struct str){buf->data + start, buf->len - start});
        buf_puts(buf, ": ");
        if (pretty(r, buf, values[i], indent + 1 + width + 2, i + 1 == len ? allowance + 1 : 1, level) < 0)
            return -1;
        if (i + 1 < len) {
            buf_putc(buf, ',');
            put_newline(buf, indent + 1);
        }
    }
    buf_putc(buf, '}');
    return 0;
}

static int pretty_list(struct run *r, struct buf *buf, struct jv v, int64_t indent, int64_t allowance,
                       int level)
{
    const char *close = v.type == JV_LIST ? "]" : v.list->len == 1 ? ",)" : ")";

    list_expand(r, v.list);
    buf_putc(buf, v.type == JV_LIST ? '[' : '(');
    for (uint32_t i = 0; i < v.list->len; i++) {
        bool last = i + 1 == v.list->len;

        if (pretty(r, buf, v.list->v[i], indent + 1, last ? allowance + (int64_t)strlen(close) : 1, level) <
            0)
            return -1;
        if (!last) {
            buf_putc(buf, ',');
            put_newline(buf, indent + 1);
        }
    }
    buf_puts(buf, close);
    return 0;
}

static int64_t repr_width(struct buf *scratch, struct str s)
{
    buf_clear(scratch);
    put_repr_str(scratch, s);
    return (int64_t)utf8_count(buf_view(scratch));
}

static const char *line_end(const char *at, const char *end)
{
    while (at < end) {
        uint32_t cp = utf8_next(&at, end);

        if (cp == '\r' && at < end && *at == '\n')
            at++;
        if (unicode_is(cp, UNI_LINE))
            break;
    }
    return at;
}

/* \S*\s* */
static const char *part_end(const char *at, const char *end)
{
    const char *p = at;

    while (p < end && !unicode_is(utf8_next(&p, end), UNI_SPACE))
        at = p;
    for (p = at; p < end && unicode_is(utf8_next(&p, end), UNI_SPACE);)
        at = p;
    return at;
}

/* Strings that are too long become several, cut behind spaces. */
static int pretty_str(struct run *r, struct buf *buf, struct str s, int64_t indent, int64_t allowance,
                      int level)
{
    CLEANUP(buf_done) struct buf scratch = {0};
    struct jlist *chunks = list_new(r, 4);
    const char *at = s.s, *end = s.s + s.len, *stop, *part;
    int64_t width;

    if (level == 1) {
        indent++;
        allowance++;
    }
    width = PPRINT_WIDTH - indent;
    for (; at < end; at = stop) {
        const char *from = at;

        stop = line_end(at, end);
        if (charge(r, 1 + (size_t)(stop - at) / TEXT_STEP) < 0)
            return -1;
        if (repr_width(&scratch, (struct str){at, (size_t)(stop - at)}) <=
            width - (stop == end ? allowance : 0)) {
            list_push(r, chunks, jv_str((struct str){at, (size_t)(stop - at)}));
            continue;
        }
        for (; at < stop; at = part) {
            int64_t room;

            part = part_end(at, stop);
            room = width - (part == stop && stop == end ? allowance : 0);
            if (charge(r, 1 + (size_t)(part - from) / TEXT_STEP) < 0)
                return -1;
            if (repr_width(&scratch, (struct str){from, (size_t)(part - from)}) > room) {
                if (at > from)
                    list_push(r, chunks, jv_str((struct str){from, (size_t)(at - from)}));
                from = at;
            }
        }
        if (stop > from)
            list_push(r, chunks, jv_str((struct str){from, (size_t)(stop - from)}));
    }
    if (level == 1 && chunks->len > 1)
        buf_putc(buf, '(');
    for (uint32_t i = 0; i < chunks->len; i++) {
        if (run_room(r, buf, chunks->v[i].len + (size_t)(indent > 0 ? indent : 0)) < 0)
            return -1;
        if (i)
            put_newline(buf, indent);
        put_repr_str(buf, jv_view(chunks->v[i]));
    }
    if (level == 1 && chunks->len > 1)
        buf_putc(buf, ')');
    return 0;
}

static int pretty(struct run *r, struct buf *buf, struct jv v, int64_t indent, int64_t allowance, int level)
{
    size_t start = buf->len;
    int failed;

    if (flat(r, buf, v) < 0)
        return -1;
    if ((int64_t)utf8_count((struct str){buf->data + start, buf->len - start}) <=
        PPRINT_WIDTH - indent - allowance)
        return 0;
    if (v.type != JV_DICT && v.type != JV_LIST && (v.type != JV_TUPLE || v.flags) &&
        (v.type != JV_STR || v.flags || !v.len))
        return 0;
    buf->len = start;
    if (run_enter(r) < 0)
        return -1;
    failed = v.type == JV_DICT  ? pretty_dict(r, buf, v.dict, indent, allowance, level + 1)
             : v.type == JV_STR ? pretty_str(r, buf, jv_view(v), indent, allowance, level + 1)
                                : pretty_list(r, buf, v, indent, allowance, level + 1);
    run_leave(r);
    return failed;
}

int put_pprint(struct run *r, struct buf *buf, struct jv v)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (pretty(r, &text, v, 0, 0, 0) < 0)
        return -1;
    buf_add(buf, text.data, text.len);
    return 0;
}
