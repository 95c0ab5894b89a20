/* repr.c - values as text: Python's str() and repr(), and markupsafe's escape(). */
#include "jinja/objects.h"
#include "jinja/run.h"
#include "jinja/unicode.h"

#include <stdio.h>

static void put_escape(struct buf *buf, uint32_t cp)
{
    if (cp <= 0xff)
        buf_printf(buf, "\\x%02x", cp);
    else if (cp <= 0xffff)
        buf_printf(buf, "\\u%04x", cp);
    else
        buf_printf(buf, "\\U%08x", cp);
}

void put_repr_str(struct buf *buf, struct str s)
{
    bool single = memchr(s.s, '\'', s.len) != NULL, dbl = memchr(s.s, '"', s.len) != NULL;
    char quote = single && !dbl ? '"' : '\'';
    const char *at = s.s, *end = s.s + s.len, *run = s.s;

    buf_putc(buf, quote);
    while (at < end) {
        const char *before = at;
        uint32_t cp = utf8_next(&at, end);

        if (cp < 0x7f ? cp >= ' ' && cp != '\\' && cp != (uint32_t)quote : unicode_is(cp, UNI_PRINT))
            continue;
        buf_add(buf, run, (size_t)(before - run));
        run = at;
        if (cp == '\\' || cp == (uint32_t)quote)
            buf_printf(buf, "\\%c", (char)cp);
        else if (cp == '\n' || cp == '\r' || cp == '\t')
            buf_puts(buf, cp == '\n' ? "\\n" : cp == '\r' ? "\\r" : "\\t");
        else
            put_escape(buf, cp);
    }
    buf_add(buf, run, (size_t)(end - run));
    buf_putc(buf, quote);
}

static void put_bytes(struct buf *buf, struct str s)
{
    bool single = memchr(s.s, '\'', s.len) != NULL, dbl = memchr(s.s, '"', s.len) != NULL;
    char quote = single && !dbl ? '"' : '\'';

    buf_putc(buf, 'b');
    buf_putc(buf, quote);
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.s[i];

        if (c == '\\' || c == (unsigned char)quote)
            buf_printf(buf, "\\%c", c);
        else if (c == '\n' || c == '\r' || c == '\t')
            buf_puts(buf, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        else if (c < ' ' || c >= 0x7f)
            buf_printf(buf, "\\x%02x", c);
        else
            buf_putc(buf, (char)c);
    }
    buf_putc(buf, quote);
}

/* Containers that are being printed, to see cycles. */
struct nest {
    struct nest *up;
    const void *what;
};

static int put_nested(struct run *r, struct buf *buf, struct jv v, struct nest *up);

static bool in_nest(const struct nest *nest, const void *what)
{
    for (; nest; nest = nest->up)
        if (nest->what == what)
            return true;
    return false;
}

static int put_items(struct run *r, struct buf *buf, struct jlist *list, const char *open, const char *close,
                     struct nest *up)
{
    struct nest nest = {up, list};

    list_expand(r, list);
    buf_puts(buf, open);
    for (uint32_t i = 0; i < list->len; i++) {
        if (i)
            buf_puts(buf, ", ");
        if (run_room(r, buf, 0) < 0 || run_text_fits(r, (int64_t)buf->len) < 0 ||
            put_nested(r, buf, list->v[i], &nest) < 0)
            return -1;
    }
    buf_puts(buf, close);
    return 0;
}

/* what: 0 pairs, else keys, values or items alone. */
static int put_members(struct run *r, struct buf *buf, struct jdict *dict, unsigned what, struct nest *up)
{
    struct nest nest = {up, dict};

    dict_expand(r, dict);
    for (uint32_t i = 0; i < dict->len; i++) {
        const struct jentry *e = &dict->v[i];

        if (i)
            buf_puts(buf, ", ");
        if (charge(r, 1) < 0 || run_text_fits(r, (int64_t)buf->len) < 0)
            return -1;
        if (what == JV_VIEW_ITEMS)
            buf_putc(buf, '(');
        if (what != JV_VIEW_VALUES && put_nested(r, buf, e->key, &nest) < 0)
            return -1;
        if (what == 0 || what == JV_VIEW_ITEMS)
            buf_puts(buf, what ? ", " : ": ");
        if ((what == 0 || what & (JV_VIEW_VALUES | JV_VIEW_ITEMS)) && put_nested(r, buf, e->value, &nest) < 0)
            return -1;
        if (what == JV_VIEW_ITEMS)
            buf_putc(buf, ')');
    }
    return 0;
}

static int put_dict(struct run *r, struct buf *buf, struct jv v, struct nest *up)
{
    if (in_nest(up, v.dict)) {
        buf_puts(buf, v.type == JV_DICT ? "{...}" : "...");
        return 0;
    }
    buf_puts(buf, v.type == JV_NS ? "<Namespace {" : "{");
    if (put_members(r, buf, v.dict, 0, up) < 0)
        return -1;
    buf_puts(buf, v.type == JV_NS ? "}>" : "}");
    return 0;
}

static int put_view(struct run *r, struct buf *buf, struct jv v, struct nest *up)
{
    unsigned what = v.flags & (JV_VIEW_VALUES | JV_VIEW_ITEMS);

    if (v.flags & JV_SET) {
        buf_puts(buf, v.dict->len ? "{" : "set(");
        if (put_members(r, buf, v.dict, 1, up) < 0)
            return -1;
        buf_putc(buf, v.dict->len ? '}' : ')');
        return 0;
    }
    buf_printf(buf, "%s([", jv_type_name(v));
    if (in_nest(up, v.dict))
        buf_puts(buf, "...");
    else if (put_members(r, buf, v.dict, what ? what : 1, up) < 0)
        return -1;
    buf_puts(buf, "])");
    return 0;
}

static int put_list(struct run *r, struct buf *buf, struct jv v, struct nest *up)
{
    if (in_nest(up, v.list)) {
        buf_puts(buf, v.type == JV_LIST ? "[...]" : "(...)");
        return 0;
    }
    if (v.type == JV_LIST)
        return put_items(r, buf, v.list, "[", "]", up);
    return put_items(r, buf, v.list, "(", v.list->len == 1 ? ",)" : ")", up);
}

static int put_range(struct buf *buf, const struct jrange *range)
{
    buf_printf(buf, "range(%lld, %lld", (long long)range->start, (long long)range->stop);
    if (range->step != 1)
        buf_printf(buf, ", %lld", (long long)range->step);
    buf_putc(buf, ')');
    return 0;
}

/* Containers: one level deeper, so that the nesting limit holds. */
static int put_container(struct run *r, struct buf *buf, struct jv v, struct nest *up)
{
    int failed;

    if (run_enter(r) < 0)
        return -1;
    if (v.type == JV_DICT || v.type == JV_NS)
        failed = put_dict(r, buf, v, up);
    else if (v.type == JV_VIEW)
        failed = put_view(r, buf, v, up);
    else
        failed = put_list(r, buf, v, up);
    run_leave(r);
    return failed;
}

static int put_scalar(struct run *r, struct buf *buf, struct jv v)
{
    switch (v.type) {
    case JV_NONE:
        buf_puts(buf, "None");
        return 0;
    case JV_BOOL:
        buf_puts(buf, v.b ? "True" : "False");
        return 0;
    case JV_INT:
    case JV_BIG:
        return put_int(r, buf, v);
    case JV_FLOAT:
        put_float(buf, v.d);
        return 0;
    case JV_BYTES:
        put_bytes(buf, jv_view(v));
        return 0;
    case JV_RANGE:
        return put_range(buf, v.range);
    default:
        return put_object(r, buf, v);
    }
}

static int put_nested(struct run *r, struct buf *buf, struct jv v, struct nest *up)
{
    switch (v.type) {
    case JV_STR:
        if (run_room(r, buf, v.len) < 0)
            return -1;
        if (v.flags & JV_MARKUP)
            buf_puts(buf, "Markup(");
        put_repr_str(buf, jv_view(v));
        if (v.flags & JV_MARKUP)
            buf_putc(buf, ')');
        return 0;
    case JV_UNDEF:
        buf_puts(buf, "Undefined");
        return 0;
    case JV_LIST:
    case JV_TUPLE:
    case JV_DICT:
    case JV_NS:
    case JV_VIEW:
        return put_container(r, buf, v, up);
    default:
        return put_scalar(r, buf, v);
    }
}

int put_repr(struct run *r, struct buf *buf, struct jv v)
{
    return put_nested(r, buf, v, NULL);
}

int put_str(struct run *r, struct buf *buf, struct jv v)
{
    if (v.type == JV_STR) {
        buf_add(buf, v.s, v.len);
        return 0;
    }
    if (v.type == JV_UNDEF)
        return undef_use(r, v);
    if (v.type == JV_MODULE) {
        struct str body = module_text(v.module);

        buf_add(buf, body.s, body.len);
        return 0;
    }
    return put_nested(r, buf, v, NULL);
}

int to_soft_str(struct run *r, struct jv v, struct jv *ret)
{
    struct text t;

    if (v.type == JV_STR) {
        *ret = v;
        return 0;
    }
    t = text_begin(r);
    if (put_str(r, &r->scratch, v) < 0) {
        text_drop(&t);
        return -1;
    }
    return text_end(&t, ret);
}

int to_str(struct run *r, struct jv v, struct jv *ret)
{
    if (to_soft_str(r, v, ret) < 0)
        return -1;
    ret->flags &= (uint8_t)~JV_MARKUP;
    return 0;
}

void put_escaped(struct buf *buf, struct str s)
{
    const char *run = s.s, *end = s.s + s.len;

    for (const char *p = s.s; p < end; p++) {
        const char *to = *p == '&'    ? "&amp;"
                         : *p == '<'  ? "&lt;"
                         : *p == '>'  ? "&gt;"
                         : *p == '\'' ? "&#39;"
                         : *p == '"'  ? "&#34;"
                                      : NULL;

        if (!to)
            continue;
        buf_add(buf, run, (size_t)(p - run));
        buf_puts(buf, to);
        run = p + 1;
    }
    buf_add(buf, run, (size_t)(end - run));
}

int to_escaped(struct run *r, struct jv v, struct jv *ret)
{
    struct text t;

    if (v.type == JV_MODULE) {
        *ret = jv_str(module_text(v.module));
        ret->flags = JV_MARKUP;
        return 0;
    }
    if (to_soft_str(r, v, &v) < 0)
        return -1;
    if (!(v.flags & JV_MARKUP)) {
        t = text_begin(r);
        put_escaped(&r->scratch, jv_view(v));
        if (text_end(&t, &v) < 0)
            return -1;
    }
    v.flags |= JV_MARKUP;
    *ret = v;
    return 0;
}

const char *repr_brief(struct run *r, struct jv v)
{
    struct buf buf = {0};
    const char *text;

    if (put_repr(r, &buf, v) < 0)
        buf_clear(&buf);
    text = arena_strndup(r->arena, buf.data ? buf.data : "", buf.len < 200 ? buf.len : 200);
    buf_done(&buf);
    return text;
}
