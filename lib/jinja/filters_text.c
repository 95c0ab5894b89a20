/* filters_text.c - filters that make text. */
#include "jinja/filters.h"
#include "jinja/objects.h"
#include "jinja/textwrap.h"
#include "jinja/unicode.h"

#include <stdio.h>

bool ctx_escapes(const struct run *r)
{
    return r->frame->unit->ctx->autoescape;
}

static struct jv with_markup(struct jv v, uint8_t flags)
{
    v.flags = flags & JV_MARKUP;
    return v;
}

/* A str method on soft_str(value). */
static int via_method(struct run *r, struct call *c, const char *method, struct jv *ret)
{
    struct jv text;
    struct call on = {.pos = c->pos, .npos = c->npos};

    if (to_soft_str(r, c->self, &text) < 0)
        return -1;
    on.self = text;
    return native_call(r, native_find(str_methods, str_methods_len, str_from(method)), &on, ret);
}

static int filter_upper(struct run *r, struct call *c, struct jv *ret)
{
    return via_method(r, c, c->fn->name, ret);
}

static int filter_center(struct run *r, struct call *c, struct jv *ret)
{
    struct jv text;
    int64_t width;

    if (arg_int(r, c, 0, 80, &width) < 0 || to_soft_str(r, c->self, &text) < 0)
        return -1;
    return str_pad(r, text, width, STR(" "), 0, ret);
}

static int filter_trim(struct run *r, struct call *c, struct jv *ret)
{
    struct jv text;

    if (to_soft_str(r, c->self, &text) < 0)
        return -1;
    if (c->a[0].type != JV_MISSING && c->a[0].type != JV_NONE && c->a[0].type != JV_STR)
        return raise(r, JINJA_TYPE_ERROR, "strip arg must be None or str");
    *ret = with_markup(jv_str(strip_chars(jv_view(text), c->a[0], 0)), text.flags);
    return 0;
}

static bool begins_word(uint32_t cp)
{
    return unicode_is(cp, UNI_SPACE) || (cp < 0x80 && strchr("-({[<", (int)cp) && cp);
}

static int filter_title(struct run *r, struct call *c, struct jv *ret)
{
    struct text t;
    struct jv text;
    const char *at, *end, *word;

    if (to_soft_str(r, c->self, &text) < 0)
        return -1;
    t = text_begin(r);
    at = text.s;
    end = at + text.len;
    while (at < end) { /* a word: its first character raised, the rest lowered */
        uint32_t cp = utf8_next(&at, end);

        unicode_map_char(&r->scratch, cp, UNI_TO_UPPER);
        if (begins_word(cp))
            continue;
        for (word = at; at < end;) {
            const char *before = at;

            if (begins_word(utf8_next(&at, end))) {
                at = before;
                break;
            }
        }
        unicode_map(&r->scratch, (struct str){word, (size_t)(at - word)}, UNI_TO_LOWER);
    }
    if (text_end(&t, ret) < 0)
        return -1;
    *ret = with_markup(*ret, 0);
    return 0;
}

static int filter_replace(struct run *r, struct call *c, struct jv *ret)
{
    struct jv s = c->self, from = c->a[0], to = c->a[1];
    bool escapes = ctx_escapes(r);
    uint8_t markup = 0;
    int64_t count = -1;

    if (c->a[2].type != JV_MISSING && c->a[2].type != JV_NONE && to_index(r, c->a[2], &count) < 0)
        return -1;
    if (escapes && (jv_is_markup(from) || (jv_is_markup(to) && !jv_is_markup(s)))) {
        if (to_escaped(r, s, &s) < 0)
            return -1;
    } else if (to_soft_str(r, s, &s) < 0) {
        return -1;
    }
    markup = escapes ? s.flags & JV_MARKUP : 0;
    if (to_soft_str(r, from, &from) < 0 || to_soft_str(r, to, &to) < 0)
        return -1;
    if (markup && (to_escaped(r, from, &from) < 0 || to_escaped(r, to, &to) < 0))
        return -1;
    if (replace_text(r, jv_view(s), jv_view(from), jv_view(to), count, ret) < 0)
        return -1;
    ret->flags = markup;
    return 0;
}

static int filter_string(struct run *r, struct call *c, struct jv *ret)
{
    return to_soft_str(r, c->self, ret);
}

static int filter_escape(struct run *r, struct call *c, struct jv *ret)
{
    return to_escaped(r, c->self, ret);
}

static int filter_forceescape(struct run *r, struct call *c, struct jv *ret)
{
    struct jv text;

    if (to_str(r, c->self, &text) < 0)
        return -1;
    return to_escaped(r, text, ret);
}

static int filter_safe(struct run *r, struct call *c, struct jv *ret)
{
    if (to_soft_str(r, c->self, ret) < 0)
        return -1;
    ret->flags |= JV_MARKUP;
    return 0;
}

static int filter_format(struct run *r, struct call *c, struct jv *ret)
{
    struct jv fmt, values;

    if (c->npos && c->nkw)
        return raise(r, JINJA_FILTER_ARGUMENT_ERROR,
                     "can't handle positional and keyword arguments at the same time");
    if (to_soft_str(r, c->self, &fmt) < 0)
        return -1;
    if (c->nkw) {
        struct jdict *dict = dict_new(r, c->nkw);

        for (uint32_t i = 0; i < c->nkw; i++)
            if (dict_set(r, dict, c->kwname[i], c->kwval[i]) < 0)
                return -1;
        values = jv_dict(dict);
    } else {
        struct jlist *list = list_new(r, c->npos);

        for (uint32_t i = 0; i < c->npos; i++)
            list_push(r, list, c->pos[i]);
        values = jv_tuple(list);
    }
    return format_percent(r, fmt, values, ret);
}

/* ---- lines and words ---- */

static int indent_text(struct run *r, struct call *c, struct str *ret)
{
    int64_t width;
    char *spaces;

    if (c->a[0].type == JV_STR) {
        *ret = jv_view(c->a[0]);
        return 0;
    }
    if (arg_int(r, c, 0, 4, &width) < 0)
        return -1;
    width = width < 0 ? 0 : width;
    spaces = run_string(r, (size_t)width);
    if (!spaces)
        return -1;
    memset(spaces, ' ', (size_t)width);
    *ret = (struct str){spaces, (size_t)width};
    return 0;
}

static int filter_indent(struct run *r, struct call *c, struct jv *ret)
{
    struct jv s = c->self, with_newline;
    struct str indent;
    struct jlist *lines;
    struct text t;
    bool first, blank;

    if (indent_text(r, c, &indent) < 0 || arg_bool(r, c, 1, false, &first) < 0 ||
        arg_bool(r, c, 2, false, &blank) < 0)
        return -1;
    if (s.type == JV_UNDEF)
        return raise_undef(r, s);
    if (s.type != JV_STR)
        return raise(r, JINJA_TYPE_ERROR, "unsupported operand type(s) for +=: '%s' and 'str'",
                     jv_type_name(s));
    if (run_concat(r, jv_view(s), STR("\n"), &with_newline) < 0 ||
        split_lines(r, jv_view(with_newline), false, 0, &lines) < 0)
        return -1;
    t = text_begin(r);
    for (uint32_t i = 0; i < lines->len; i++) {
        if (i)
            buf_putc(&r->scratch, '\n');
        if (i == 0 ? first : blank || lines->v[i].len)
            buf_add(&r->scratch, indent.s, indent.len);
        buf_add(&r->scratch, lines->v[i].s, lines->v[i].len);
        if (text_check(&t) < 0 || charge(r, indent.len / 64) < 0)
            return -1;
    }
    if (text_end(&t, ret) < 0)
        return -1;
    *ret = with_markup(*ret, s.flags);
    return 0;
}

static int filter_truncate(struct run *r, struct call *c, struct jv *ret)
{
    struct str end = STR("..."), s;
    int64_t length, leeway = 5, have;
    size_t cut;
    bool kill;

    if (arg_int(r, c, 0, 255, &length) < 0 || arg_bool(r, c, 1, false, &kill) < 0 ||
        (c->a[2].type != JV_MISSING && arg_str(r, c, 2, &end) < 0) ||
        (c->a[3].type != JV_MISSING && c->a[3].type != JV_NONE && to_index(r, c->a[3], &leeway) < 0))
        return -1;
    if (length < (int64_t)utf8_count(end))
        return raise(r, JINJA_ASSERT_ERROR, "expected length >= %zu, got %lld", utf8_count(end),
                     (long long)length);
    if (leeway < 0)
        return raise(r, JINJA_ASSERT_ERROR, "expected leeway >= 0, got %lld", (long long)leeway);
    have = jv_len(r, c->self);
    if (have < 0)
        return -1;
    if (have <= length + leeway) {
        *ret = c->self;
        return 0;
    }
    if (c->self.type != JV_STR)
        return raise(r, JINJA_TYPE_ERROR, "can only truncate text, not %s", jv_type_name(c->self));
    s = jv_view(c->self);
    cut = utf8_offset(s, (size_t)(length - (int64_t)utf8_count(end)));
    s.len = cut;
    if (!kill) {
        const char *space = memrchr(s.s, ' ', s.len);

        s.len = space ? (size_t)(space - s.s) : s.len;
    }
    struct jv head = with_markup(jv_str(s), c->self.flags), tail = jv_str(end);

    return arith(r, ARITH_ADD, head, tail, ret);
}

static int filter_wordcount(struct run *r, struct call *c, struct jv *ret)
{
    struct jv text;
    const char *at, *end;
    bool inside = false;
    int64_t n = 0;

    if (to_soft_str(r, c->self, &text) < 0 || charge(r, text.len / 4) < 0)
        return -1;
    for (at = text.s, end = at + text.len; at < end;) {
        uint32_t cp = utf8_next(&at, end);
        bool word = cp == '_' || unicode_is(cp, UNI_ALNUM);

        n += word && !inside;
        inside = word;
    }
    *ret = JV_OF_INT(n);
    return 0;
}

static int filter_wordwrap(struct run *r, struct call *c, struct jv *ret)
{
    struct wrap w = {.width = 79, .break_long = true, .break_hyphens = true};
    struct str newline = STR("\n");
    struct jlist *lines, *wrapped = list_new(r, 8);
    struct text t;

    if (arg_int(r, c, 0, 79, &w.width) < 0 || arg_bool(r, c, 1, true, &w.break_long) < 0 ||
        (c->a[2].type != JV_MISSING && c->a[2].type != JV_NONE && arg_str(r, c, 2, &newline) < 0) ||
        arg_bool(r, c, 3, true, &w.break_hyphens) < 0)
        return -1;
    if (c->self.type == JV_UNDEF)
        return raise_undef(r, c->self);
    if (c->self.type != JV_STR)
        return raise(r, JINJA_ATTRIBUTE_ERROR, "'%s' object has no attribute 'splitlines'",
                     jv_type_name(c->self));
    if (split_lines(r, jv_view(c->self), false, 0, &lines) < 0)
        return -1;
    t = text_begin(r);
    for (uint32_t i = 0; i < lines->len; i++) {
        wrapped->len = 0;
        if (wrap_line(r, &w, jv_view(lines->v[i]), wrapped) < 0) {
            text_drop(&t);
            return -1;
        }
        if (i)
            buf_add(&r->scratch, newline.s, newline.len);
        for (uint32_t k = 0; k < wrapped->len; k++) {
            if (text_check(&t) < 0 || charge(r, newline.len / 64) < 0)
                return -1;
            if (k)
                buf_add(&r->scratch, newline.s, newline.len);
            buf_add(&r->scratch, wrapped->v[k].s, wrapped->v[k].len);
        }
        if (text_check(&t) < 0)
            return -1;
    }
    return text_end(&t, ret);
}

/* ---- HTML and URLs ---- */

static int filter_striptags(struct run *r, struct call *c, struct jv *ret)
{
    struct jv text;
    struct text t;

    if (to_str(r, c->self, &text) < 0 || charge(r, text.len) < 0)
        return -1;
    t = text_begin(r);
    put_stripped(&r->scratch, jv_view(text));
    return text_end(&t, ret);
}

static int filter_xmlattr(struct run *r, struct call *c, struct jv *ret)
{
    struct jv v = c->self, key, value;
    struct text t;
    bool autospace;

    if (arg_bool(r, c, 0, true, &autospace) < 0)
        return -1;
    if (v.type == JV_UNDEF)
        return raise_undef(r, v);
    if (v.type != JV_DICT)
        return raise(r, JINJA_ATTRIBUTE_ERROR, "'%s' object has no attribute 'items'", jv_type_name(v));
    dict_expand(r, v.dict);
    t = text_begin(r);
    for (uint32_t i = 0; i < v.dict->len; i++) {
        key = v.dict->v[i].key;
        value = v.dict->v[i].value;
        if (value.type == JV_NONE || value.type == JV_UNDEF)
            continue;
        if (key.type != JV_STR)
            return raise(r, JINJA_TYPE_ERROR, "expected string or bytes-like object, got '%s'",
                         jv_type_name(key));
        for (uint32_t k = 0; k < key.len; k++)
            if (strchr(" \t\n\r\f\v/>=", key.s[k]))
                return raise(r, JINJA_VALUE_ERROR, "Invalid character in attribute name: %s",
                             repr_brief(r, key));
        if (to_escaped(r, key, &key) < 0 || to_escaped(r, value, &value) < 0)
            return -1;
        if (r->scratch.len > t.start || autospace)
            buf_putc(&r->scratch, ' ');
        buf_add(&r->scratch, key.s, key.len);
        buf_puts(&r->scratch, "=\"");
        buf_add(&r->scratch, value.s, value.len);
        buf_putc(&r->scratch, '"');
        if (text_check(&t) < 0 || charge(r, 1) < 0)
            return -1;
    }
    if (text_end(&t, ret) < 0)
        return -1;
    *ret = with_markup(*ret, ctx_escapes(r) ? JV_MARKUP : 0);
    return 0;
}

static int put_quoted(struct run *r, struct buf *buf, struct jv v, bool query)
{
    struct jv text;

    if (v.type == JV_BYTES)
        text = v;
    else if (to_str(r, v, &text) < 0)
        return -1;
    for (uint32_t i = 0; i < text.len; i++) {
        unsigned char ch = (unsigned char)text.s[i];

        if ((ch >= '0' && ch <= '9') || ((ch | 0x20) >= 'a' && (ch | 0x20) <= 'z') ||
            (ch && ch < 0x80 && strchr("_.-~", ch)) || (ch == '/' && !query))
            buf_putc(buf, (char)ch);
        else if (ch == ' ' && query)
            buf_putc(buf, '+');
        else
            buf_printf(buf, "%%%02X", ch);
    }
    return 0;
}

static int filter_urlencode(struct run *r, struct call *c, struct jv *ret)
{
    struct text t = text_begin(r);
    struct jv v = c->self, item;
    struct jlist *pair;
    struct jiter it;
    int more;

    if (v.type == JV_DICT)
        v = (struct jv){.type = JV_VIEW, .flags = JV_VIEW_ITEMS, .dict = v.dict};
    if (v.type == JV_STR || !jv_is_iterable(v))
        return put_quoted(r, &r->scratch, v, false) < 0 ? -1 : text_end(&t, ret);
    if (iter_init(r, v, &it) < 0)
        return -1;
    while ((more = iter_next(r, &it, &item)) == 1) {
        if (iter_list(r, item, &pair) < 0)
            return -1;
        if (pair->len != 2)
            return raise(r, JINJA_VALUE_ERROR, "not enough values to unpack (expected 2, got %u)", pair->len);
        if (r->scratch.len > t.start)
            buf_putc(&r->scratch, '&');
        if (put_quoted(r, &r->scratch, pair->v[0], true) < 0)
            return -1;
        buf_putc(&r->scratch, '=');
        if (put_quoted(r, &r->scratch, pair->v[1], true) < 0 || text_check(&t) < 0 || charge(r, 1) < 0)
            return -1;
    }
    return more < 0 ? -1 : text_end(&t, ret);
}

static int filter_urlize(struct run *r, struct call *c, struct jv *ret)
{
    struct urlize u = {.limit = -1};
    struct jv text;
    struct text t;

    if ((c->a[0].type != JV_MISSING && c->a[0].type != JV_NONE && to_index(r, c->a[0], &u.limit) < 0) ||
        arg_bool(r, c, 1, false, &u.nofollow) < 0)
        return -1;
    if (c->a[2].type != JV_MISSING && c->a[2].type != JV_NONE && to_escaped(r, c->a[2], &u.target) < 0)
        return -1;
    if (c->a[3].type != JV_MISSING && c->a[3].type != JV_NONE && arg_str(r, c, 3, &u.rel) < 0)
        return -1;
    if (c->a[4].type != JV_MISSING && c->a[4].type != JV_NONE && iter_list(r, c->a[4], &u.schemes) < 0)
        return -1;
    if (urlize_check(r, &u) < 0 || to_escaped(r, c->self, &text) < 0 || charge(r, text.len) < 0)
        return -1;
    t = text_begin(r);
    if (put_urlized(r, &r->scratch, &u, jv_view(text)) < 0)
        return -1;
    if (text_end(&t, ret) < 0)
        return -1;
    *ret = with_markup(*ret, ctx_escapes(r) ? JV_MARKUP : 0);
    return 0;
}

const struct native text_filters[] = {
    {"capitalize", filter_upper, "", 0},
    {"center", filter_center, "width", 0},
    {"e", filter_escape, "", 0},
    {"escape", filter_escape, "", 0},
    {"forceescape", filter_forceescape, "", 0},
    {"format", filter_format, "*", 0},
    {"indent", filter_indent, "width first blank", 0},
    {"lower", filter_upper, "", 0},
    {"replace", filter_replace, "old new count", 2},
    {"safe", filter_safe, "", 0},
    {"string", filter_string, "", 0},
    {"striptags", filter_striptags, "", 0},
    {"title", filter_title, "", 0},
    {"trim", filter_trim, "chars", 0},
    {"truncate", filter_truncate, "length killwords end leeway", 0},
    {"upper", filter_upper, "", 0},
    {"urlencode", filter_urlencode, "", 0},
    {"urlize", filter_urlize, "trim_url_limit nofollow target rel extra_schemes", 0},
    {"wordcount", filter_wordcount, "", 0},
    {"wordwrap", filter_wordwrap, "width break_long_words wrapstring break_on_hyphens", 0},
    {"xmlattr", filter_xmlattr, "autospace", 0},
};
const size_t text_filters_len = ARRAY_LEN(text_filters);
