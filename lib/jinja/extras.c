/* extras.c - filters that Jinja2 lacks and templates of manifests want; each must be asked for. */
#include "base/yaml.h"
#include "jinja/filters.h"

/* A value as JSON, with *bytes of text so far; -1 raised. */
static int to_json(struct run *r, struct jv v, size_t *bytes, struct json *ret)
{
    struct json *inner;
    struct jv text = JV_OF_NONE;

    *bytes += jv_text_len(v);
    if (run_enter(r) < 0 || run_text_fits(r, (int64_t)*bytes) < 0 ||
        charge(r, 1 + jv_text_len(v) / TEXT_STEP) < 0)
        return -1;
    switch (v.type) {
    case JV_NONE:
        *ret = (struct json){.type = JSON_NULL};
        break;
    case JV_BOOL:
        *ret = json_of_bool(v.b);
        break;
    case JV_INT:
        *ret = json_of_int(v.i);
        break;
    case JV_FLOAT:
        *ret = json_of_real(v.d);
        break;
    case JV_DICT:
        inner = json_new_object(r->arena);
        dict_expand(r, v.dict);
        for (uint32_t i = 0; i < v.dict->len; i++) {
            struct json member = {0};

            if (to_str(r, v.dict->v[i].key, &text) < 0 || to_json(r, v.dict->v[i].value, bytes, &member) < 0)
                return -1;
            *bytes += text.len;
            json_set_str(r->arena, inner, jv_view(text), member);
        }
        *ret = *inner;
        break;
    case JV_LIST:
    case JV_TUPLE:
        inner = json_new_array(r->arena);
        list_expand(r, v.list);
        for (uint32_t i = 0; i < v.list->len; i++) {
            struct json item = {0};

            if (to_json(r, v.list->v[i], bytes, &item) < 0)
                return -1;
            json_push(r->arena, inner, item);
        }
        *ret = *inner;
        break;
    case JV_UNDEF:
        return raise_undef(r, v);
    default:
        if (to_str(r, v, &text) < 0)
            return -1;
        *ret = json_of_str(r->arena, jv_view(text));
        break;
    }
    run_leave(r);
    return 0;
}

/* to_nice_yaml is block style; to_yaml the same, since YAML of two styles helps nobody. */
static int extra_yaml(struct run *r, struct call *c, struct jv *ret)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct json doc;
    size_t bytes = 0;

    if (to_json(r, c->self, &bytes, &doc) < 0)
        return -1;
    yaml_write(&text, &doc);
    return run_copy(r, buf_view(&text), ret);
}

static int extra_b64encode(struct run *r, struct call *c, struct jv *ret)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct jv s;

    if (to_str(r, c->self, &s) < 0)
        return -1;
    buf_base64(&text, jv_view(s));
    return run_copy(r, buf_view(&text), ret);
}

static int extra_b64decode(struct run *r, struct call *c, struct jv *ret)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct jv s;

    if (to_str(r, c->self, &s) < 0)
        return -1;
    if (!buf_base64_decode(&text, jv_view(s)) || !utf8_valid(buf_view(&text)))
        return raise(r, JINJA_VALUE_ERROR, "b64decode: no base64 of text");
    return run_copy(r, buf_view(&text), ret);
}

/* shlex.quote */
static int extra_quote(struct run *r, struct call *c, struct jv *ret)
{
    struct text t;
    bool plain = true;
    struct jv s;

    if (to_str(r, c->self, &s) < 0)
        return -1;
    for (uint32_t i = 0; i < s.len; i++) {
        char ch = s.s[i];

        plain = plain && ch &&
                ((ch >= '0' && ch <= '9') || ((ch | 0x20) >= 'a' && (ch | 0x20) <= 'z') ||
                 strchr("@%+=:,./-_", ch));
    }
    t = text_begin(r);
    buf_puts(&r->scratch, plain && s.len ? "" : "'");
    for (uint32_t i = 0; i < s.len; i++)
        if (s.s[i] == '\'')
            buf_puts(&r->scratch, "'\"'\"'");
        else
            buf_putc(&r->scratch, s.s[i]);
    buf_puts(&r->scratch, plain && s.len ? "" : "'");
    return text_end(&t, ret);
}

static int extra_required(struct run *r, struct call *c, struct jv *ret)
{
    struct str what = c->a[0].type == JV_STR ? jv_view(c->a[0]) : STR("a required value is missing");

    if (c->self.type == JV_UNDEF || c->self.type == JV_NONE || (c->self.type == JV_STR && c->self.len == 0))
        return raise(r, JINJA_UNDEFINED_ERROR, "%.*s", STR_ARG(what));
    *ret = c->self;
    return 0;
}

static const struct {
    struct native fn;
    unsigned extra;
} extras[] = {
    {{"to_yaml", extra_yaml, "", 0}, JINJA_EXTRA_YAML},
    {{"to_nice_yaml", extra_yaml, "indent", 0}, JINJA_EXTRA_YAML},
    {{"b64encode", extra_b64encode, "", 0}, JINJA_EXTRA_B64},
    {{"b64decode", extra_b64decode, "", 0}, JINJA_EXTRA_B64},
    {{"quote", extra_quote, "", 0}, JINJA_EXTRA_QUOTE},
    {{"required", extra_required, "message", 0}, JINJA_EXTRA_REQUIRED},
};

const struct native *extra_find(unsigned wanted, struct str name)
{
    for (size_t i = 0; wanted && i < ARRAY_LEN(extras); i++)
        if (wanted & extras[i].extra && str_is(name, extras[i].fn.name))
            return &extras[i].fn;
    return NULL;
}
