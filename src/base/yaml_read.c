/* yaml_read.c - YAML text to json values, over libfyaml's events.
 *
 * libfyaml knows the syntax; everything with a meaning is here: types of scalars, anchors, merges,
 * repeated keys, limits. An alias becomes a copy of the value at its anchor (strings are shared, since
 * nobody changes them), so every value of the result can be changed without another one following. The
 * copies count against YAML_NODES_MAX and YAML_BYTES_MAX. */
#include "base/json_build.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"
#include "base/yaml.h"
#include "base/yaml_scalar.h"

#include <libfyaml.h>

#define SOURCE_MAX 120 /* bytes of a source line shown in a message */

/* Where something stands, both counted from 0; line < 0 when unknown. */
struct mark {
    int line, column;
};

struct anchor {
    struct json value;
    bool open; /* its node has not ended yet */
};

struct reader {
    struct str text;
    struct buf lf_text; /* the text where its line ends had to be changed */
    struct arena *arena;
    struct fy_diag *diag;
    struct fy_parser *parser;
    struct map *anchors; /* of this document: struct anchor in the arena */
    VEC(struct json) items;
    VEC(struct json_member) members;
    VEC(struct mark) marks; /* of the keys in members */
    struct mark at;         /* the event last read */
    size_t nodes, bytes;
    int depth;
    struct err *err;
};

/* --- messages --- */

/* Line `line` of the text without its end and outer blanks, cut where it is long. */
static struct str source_line(struct str text, int line)
{
    struct str rest = text, found = {0};

    for (int i = 0; i <= line; i++)
        if (!str_split(&rest, '\n', &found))
            return (struct str){"", 0};
    found = str_trim(found);
    if (found.len > SOURCE_MAX) {
        found.len = SOURCE_MAX;
        found.len = utf8_valid_len(found);
    }
    return found;
}

static int __attribute__((format(printf, 3, 4))) fail(struct reader *r, struct mark at, const char *fmt, ...)
{
    CLEANUP(buf_done) struct buf what = {0};
    struct str source = source_line(r->text, at.line);
    va_list ap;

    va_start(ap, fmt);
    buf_vprintf(&what, fmt, ap);
    va_end(ap);
    if (source.len)
        return err_set(r->err, ERR_INVALID, "line %d, column %d: %s: `%.*s`", at.line + 1, at.column + 1,
                       what.data, STR_ARG(source));
    return err_set(r->err, ERR_INVALID, "line %d, column %d: %s", at.line + 1, at.column + 1, what.data);
}

/* What libfyaml found wrong; its own marks count from 1. */
static int fail_syntax(struct reader *r)
{
    struct fy_diag_error *error;
    void *iter = NULL;

    while ((error = fy_diag_errors_iterate(r->diag, &iter)))
        if (error->type == FYET_ERROR && error->line > 0)
            return fail(r, (struct mark){error->line - 1, error->column > 0 ? error->column - 1 : 0}, "%s",
                        error->msg);
    return fail(r, r->at, "not YAML");
}

/* libfyaml prints to stderr when nobody takes its output. */
static void swallow(struct fy_diag *diag, void *user, const char *text, size_t len)
{
    (void)diag;
    (void)user;
    (void)text;
    (void)len;
}

/* --- events --- */

static struct str token_text(struct fy_token *token)
{
    struct str s = {"", 0};
    const char *text = token ? fy_token_get_text(token, &s.len) : NULL;

    return text ? (struct str){text, s.len} : (struct str){"", 0};
}

/* NULL: the text is wrong, and r->err says how. */
static struct fy_event *next_event(struct reader *r)
{
    struct fy_event *event = fy_parser_parse(r->parser);
    const struct fy_mark *mark;

    if (!event) {
        fail_syntax(r);
        return NULL;
    }
    mark = fy_event_start_mark(event);
    if (mark)
        r->at = (struct mark){mark->line, mark->column};
    return event;
}

static int count_node(struct reader *r, size_t bytes)
{
    r->bytes += bytes;
    if (++r->nodes > YAML_NODES_MAX)
        return err_set(r->err, ERR_INVALID, "line %d: more than %d values, aliases resolved", r->at.line + 1,
                       YAML_NODES_MAX);
    if (r->bytes > YAML_BYTES_MAX)
        return err_set(r->err, ERR_INVALID, "line %d: more than %d bytes of text, aliases resolved",
                       r->at.line + 1, YAML_BYTES_MAX);
    return 0;
}

/* --- anchors and aliases --- */

static struct anchor *open_anchor(struct reader *r, struct fy_token *token)
{
    struct anchor *anchor;

    if (!token)
        return NULL;
    if (!r->anchors)
        r->anchors = map_new();
    anchor = arena_zalloc(r->arena, sizeof(*anchor));
    anchor->open = true;
    map_set(r->anchors, token_text(token), anchor);
    return anchor;
}

static void close_anchor(struct anchor *anchor, const struct json *value)
{
    if (anchor)
        *anchor = (struct anchor){.value = *value};
}

/* A copy that shares only strings, counted against the limits. The source has at most the depth of a
 * document, but stands deeper now: the sum counts. */
static int copy_value(struct reader *r, const struct json *from, int depth, struct json *ret)
{
    if (depth >= YAML_DEPTH_MAX && json_len(from))
        return fail(r, r->at, "nested too deeply");
    if (count_node(r, from->type == JSON_STRING ? from->len : 0) < 0)
        return -1;
    *ret = *from;
    if (from->type == JSON_ARRAY && from->len) {
        *ret = json_build_array(r->arena, from->items->v, from->len);
        for (uint32_t i = 0; i < from->len; i++)
            if (copy_value(r, &from->items->v[i], depth + 1, &ret->items->v[i]) < 0)
                return -1;
    } else if (from->type == JSON_OBJECT && from->len) {
        *ret = json_build_object(r->arena, from->members->v, from->len, NULL, NULL);
        for (uint32_t i = 0; i < from->len; i++) {
            r->bytes += from->members->v[i].key_len;
            if (copy_value(r, &from->members->v[i].value, depth + 1, &ret->members->v[i].value) < 0)
                return -1;
        }
    }
    return 0;
}

static int resolve_alias(struct reader *r, struct fy_event *event, struct json *ret)
{
    struct str name = token_text(event->alias.anchor);
    struct anchor *anchor = r->anchors ? map_get(r->anchors, name) : NULL;

    if (!anchor)
        return fail(r, r->at, "alias '%.*s' has no anchor", STR_ARG(name));
    if (anchor->open)
        return fail(r, r->at, "anchor '%.*s' contains itself", STR_ARG(name));
    return copy_value(r, &anchor->value, r->depth, ret);
}

/* --- scalars --- */

static bool is_tag(struct str tag, const char *name)
{
    return str_starts(tag, "tag:yaml.org,2002:") && str_is((struct str){tag.s + 18, tag.len - 18}, name);
}

static int read_string(struct reader *r, struct str text, struct json *ret)
{
    if (!utf8_valid(text)) /* "\ud800" */
        return fail(r, r->at, "string is not UTF-8");
    *ret = json_of_str(r->arena, text);
    return 0;
}

/* The text of a scalar, in `own` where it is quoted: those are decoded here, see yaml_quoted.c. */
static int scalar_text(struct reader *r, struct fy_token *token, struct buf *own, struct str *ret)
{
    enum fy_scalar_style style = token ? fy_token_scalar_style(token) : FYSS_PLAIN;
    const struct fy_mark *from, *to;
    struct str raw;

    if (style != FYSS_SINGLE_QUOTED && style != FYSS_DOUBLE_QUOTED) {
        *ret = token_text(token);
        return 0;
    }
    from = fy_token_start_mark(token);
    to = fy_token_end_mark(token);
    if (!from || !to || from->input_pos > to->input_pos || to->input_pos > r->text.len)
        return fail(r, r->at, "quoted text without a place");
    raw = (struct str){r->text.s + from->input_pos, to->input_pos - from->input_pos};
    if (style == FYSS_SINGLE_QUOTED)
        yaml_single_quoted(raw, own);
    else if (!yaml_double_quoted(raw, own))
        return fail(r, r->at, "bad escape in double-quoted text");
    *ret = buf_view(own);
    return 0;
}

static int read_binary(struct reader *r, struct str text, struct json *ret)
{
    CLEANUP(buf_done) struct buf packed = {0};
    CLEANUP(buf_done) struct buf raw = {0};

    for (size_t i = 0; i < text.len; i++)
        if (!strchr(" \t\r\n", text.s[i]) || !text.s[i])
            buf_putc(&packed, text.s[i]);
    if (!buf_base64_decode(&raw, buf_view(&packed)))
        return fail(r, r->at, "!!binary value is not base64");
    if (!utf8_valid(buf_view(&raw)))
        return fail(r, r->at, "!!binary value is not UTF-8 text, which JSON cannot hold");
    *ret = json_of_str(r->arena, buf_view(&raw));
    return 0;
}

static int read_tagged(struct reader *r, struct str tag, struct str text, struct json *ret)
{
    static const char *const types[] = {"int", "float", "bool", "null"};

    if (is_tag(tag, "binary"))
        return read_binary(r, text, ret);
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (!is_tag(tag, types[i]))
            continue;
        if (!yaml_resolve_as(r->arena, types[i], text, ret))
            return fail(r, r->at, "value is no !!%s", types[i]);
        return 0;
    }
    return read_string(r, text, ret); /* !!str, !!timestamp, tags of others */
}

static int read_scalar(struct reader *r, struct fy_event *event, struct json *ret)
{
    CLEANUP(buf_done) struct buf own = {0};
    struct fy_token *token = event->scalar.value;
    struct str tag = token_text(event->scalar.tag), text = {"", 0};

    if (scalar_text(r, token, &own, &text) < 0 || count_node(r, text.len) < 0)
        return -1;
    if (event->scalar.tag)
        return read_tagged(r, tag, text, ret);
    if (token && fy_token_scalar_style(token) != FYSS_PLAIN)
        return read_string(r, text, ret);
    if (!yaml_resolve(r->arena, text, ret))
        return fail(r, r->at, "JSON has no number %.*s", STR_ARG(text));
    return 0;
}

/* --- sequences and mappings --- */

static int read_node(struct reader *r, struct fy_event *event, struct json *ret);

static int read_sequence(struct reader *r, struct json *ret)
{
    size_t base = r->items.len;

    for (;;) {
        struct fy_event *event = next_event(r);
        struct json value;

        if (!event)
            return -1;
        if (event->type == FYET_SEQUENCE_END) {
            fy_parser_event_free(r->parser, event);
            break;
        }
        if (read_node(r, event, &value) < 0)
            return -1;
        vec_push(&r->items, value);
    }
    *ret = json_build_array(r->arena, r->items.v ? &r->items.v[base] : NULL, r->items.len - base);
    r->items.len = base;
    return 0;
}

/* The text of a key: scalars keep theirs whatever their type. */
static int read_key_text(struct reader *r, struct fy_event *event, struct str *ret)
{
    CLEANUP(buf_done) struct buf buf = {0};
    struct json value = {0};
    struct str text = {"", 0};

    if (event->type == FYET_ALIAS) {
        if (resolve_alias(r, event, &value) < 0)
            return -1;
        if (value.type == JSON_ARRAY || value.type == JSON_OBJECT)
            return fail(r, r->at, "a key must be a scalar");
        if (value.type != JSON_STRING) {
            json_write(&buf, &value);
            value = json_of_str(r->arena, buf_view(&buf));
        }
        *ret = json_str(&value);
        return 0;
    }
    if (event->type != FYET_SCALAR)
        return fail(r, r->at, "a key must be a scalar");
    if (scalar_text(r, event->scalar.value, &buf, &text) < 0 || count_node(r, text.len) < 0 ||
        read_string(r, text, &value) < 0)
        return -1;
    close_anchor(open_anchor(r, event->scalar.anchor), &value);
    *ret = json_str(&value);
    return 0;
}

static bool is_merge_key(const struct fy_event *event)
{
    struct fy_token *token = event->type == FYET_SCALAR ? event->scalar.value : NULL;

    if (!token || fy_token_scalar_style(token) != FYSS_PLAIN || !str_is(token_text(token), "<<"))
        return false;
    return !event->scalar.tag || is_tag(token_text(event->scalar.tag), "merge");
}

/* Members of what `<<` names that the mapping has not itself; of several the first wins. */
static int merge(struct reader *r, struct json *object, const struct json *from, struct mark at)
{
    if (from->type == JSON_ARRAY) {
        JSON_EACH(from, it) {
            if (it->type != JSON_OBJECT)
                return fail(r, at, "'<<' takes a mapping or a list of mappings");
            if (merge(r, object, it, at) < 0)
                return -1;
        }
        return 0;
    }
    if (from->type != JSON_OBJECT)
        return fail(r, at, "'<<' takes a mapping or a list of mappings");
    JSON_EACH_MEMBER(from, it)
        if (!json_get_str(object, (struct str){it->key, it->key_len}))
            json_set_str(r->arena, object, (struct str){it->key, it->key_len}, it->value);
    return 0;
}

struct dup_arg {
    struct reader *r;
    size_t base;
    bool failed;
};

static void on_dup(void *arg, size_t at)
{
    struct dup_arg *dup = arg;
    const struct json_member *member = &dup->r->members.v[dup->base + at];

    if (!dup->failed)
        fail(dup->r, dup->r->marks.v[dup->base + at], "key '%.*s' is there already",
             (int)(member->key_len < SOURCE_MAX ? member->key_len : SOURCE_MAX), member->key);
    dup->failed = true;
}

/* One key and its value, on the scratch stacks. Merged values go to r->items. */
static int read_member(struct reader *r, struct fy_event *event)
{
    struct mark at = r->at;
    bool merging = is_merge_key(event);
    struct json value;
    struct str key = {"", 0};
    int res = merging ? 0 : read_key_text(r, event, &key);

    fy_parser_event_free(r->parser, event);
    event = res < 0 ? NULL : next_event(r);
    if (!event || read_node(r, event, &value) < 0)
        return -1;
    if (merging) {
        vec_push(&r->items, value);
        return 0;
    }
    vec_push(&r->members, (struct json_member){.key = key.s, .key_len = (uint32_t)key.len, .value = value});
    vec_push(&r->marks, at);
    return 0;
}

static int read_mapping(struct reader *r, struct json *ret)
{
    size_t base = r->members.len, merges = r->items.len;
    struct dup_arg dup = {.r = r, .base = base};
    struct mark start = r->at;

    for (;;) {
        struct fy_event *event = next_event(r);

        if (!event)
            return -1;
        if (event->type == FYET_MAPPING_END) {
            fy_parser_event_free(r->parser, event);
            break;
        }
        if (read_member(r, event) < 0)
            return -1;
    }
    *ret = json_build_object(r->arena, r->members.v ? &r->members.v[base] : NULL, r->members.len - base,
                             on_dup, &dup);
    if (dup.failed)
        return -1;
    for (size_t i = merges; i < r->items.len; i++)
        if (merge(r, ret, &r->items.v[i], start) < 0)
            return -1;
    r->members.len = r->marks.len = base;
    r->items.len = merges;
    return 0;
}

static int read_collection(struct reader *r, struct fy_event *event, struct json *ret)
{
    bool mapping = event->type == FYET_MAPPING_START;
    struct anchor *anchor =
        open_anchor(r, mapping ? event->mapping_start.anchor : event->sequence_start.anchor);
    int res;

    if (r->depth == YAML_DEPTH_MAX)
        return fail(r, r->at, "nested too deeply");
    if (count_node(r, 0) < 0)
        return -1;
    r->depth++;
    res = mapping ? read_mapping(r, ret) : read_sequence(r, ret);
    r->depth--;
    if (res == 0)
        close_anchor(anchor, ret);
    return res;
}

/* Reads the node that starts with the event, which it frees. */
static int read_node(struct reader *r, struct fy_event *event, struct json *ret)
{
    struct anchor *anchor;
    int res;

    switch (event->type) {
    case FYET_SCALAR:
        anchor = open_anchor(r, event->scalar.anchor);
        res = read_scalar(r, event, ret);
        if (res == 0)
            close_anchor(anchor, ret);
        break;
    case FYET_ALIAS:
        res = resolve_alias(r, event, ret);
        break;
    case FYET_MAPPING_START:
    case FYET_SEQUENCE_START:
        res = read_collection(r, event, ret);
        break;
    default:
        res = fail(r, r->at, "unexpected %s", fy_event_type_get_text(event->type));
        break;
    }
    fy_parser_event_free(r->parser, event);
    return res;
}

/* --- documents --- */

static bool is_empty_node(const struct fy_event *event)
{
    return event->type == FYET_SCALAR && !event->scalar.tag && !event->scalar.anchor &&
           (!event->scalar.value || (fy_token_scalar_style(event->scalar.value) == FYSS_PLAIN &&
                                     token_text(event->scalar.value).len == 0));
}

/* Documents and the lines they start at. */
struct docs {
    struct json array;
    VEC(int) lines;
};

/* The root node and the end of a document whose start was read. Empty ones are left out. */
static int read_document(struct reader *r, struct docs *docs)
{
    struct fy_event *event = next_event(r);
    struct json value = {0};
    int line;
    bool empty;

    if (!event)
        return -1;
    r->depth = 0;
    map_free(TAKE_PTR(r->anchors));
    empty = is_empty_node(event);
    line = r->at.line + 1;
    if (read_node(r, event, &value) < 0)
        return -1;
    event = next_event(r);
    if (!event)
        return -1;
    fy_parser_event_free(r->parser, event); /* the end of the document */
    if (empty)
        return 0;
    if (docs->array.len == YAML_DOCS_MAX)
        return fail(r, r->at, "more than %d documents", YAML_DOCS_MAX);
    json_push(r->arena, &docs->array, value);
    vec_push(&docs->lines, line);
    return 0;
}

/* With "%YAML 1.1" U+0085, U+2028 and U+2029 are line breaks, which libfyaml 0.7.12 turns into garbage. */
static int check_version(struct reader *r, struct fy_event *event)
{
    const struct fy_version *version = fy_document_state_version(event->document_start.document_state);

    if (!version || version->major != 1 || version->minor != 1)
        return 0;
    if (memmem(r->text.s, r->text.len, "\xc2\x85", 2) || memmem(r->text.s, r->text.len, "\xe2\x80\xa8", 3) ||
        memmem(r->text.s, r->text.len, "\xe2\x80\xa9", 3))
        return fail(r, r->at, "Unicode line separators are not supported with '%%YAML 1.1'");
    return 0;
}

static int read_stream(struct reader *r, struct docs *docs)
{
    for (;;) {
        struct fy_event *event = next_event(r);
        enum fy_event_type type;
        int res;

        if (!event)
            return -1;
        type = event->type;
        res = type == FYET_DOCUMENT_START ? check_version(r, event) : 0;
        fy_parser_event_free(r->parser, event);
        if (res < 0)
            return -1;
        if (type == FYET_STREAM_END)
            return 0;
        if (type == FYET_DOCUMENT_START && read_document(r, docs) < 0)
            return -1;
    }
}

/* What libfyaml would not notice or not report well. */
static int check_text(struct reader *r)
{
    size_t valid = utf8_valid_len(r->text);
    const char *nul = r->text.len ? memchr(r->text.s, '\0', r->text.len) : NULL;
    struct mark at = {0};

    if (r->text.len > YAML_TEXT_MAX)
        return err_set(r->err, ERR_INVALID, "YAML text is larger than %d bytes", YAML_TEXT_MAX);
    if (valid == r->text.len && !nul)
        return 0;
    if (nul && (size_t)(nul - r->text.s) < valid)
        valid = (size_t)(nul - r->text.s);
    for (size_t i = 0; i < valid; i++) {
        at.column++;
        if (r->text.s[i] == '\n')
            at = (struct mark){at.line + 1, 0};
    }
    return err_set(r->err, ERR_INVALID, "line %d, column %d: %s", at.line + 1, at.column + 1,
                   nul && *(r->text.s + valid) == '\0' ? "NUL byte" : "not UTF-8");
}

/* CR and CRLF become LF, as YAML has it anyway: libfyaml 0.7.12 leaks memory on many CRs in a row. */
static void normalise_breaks(struct reader *r)
{
    struct str rest = r->text;

    if (!memchr(rest.s, '\r', rest.len))
        return;
    while (rest.len) {
        const char *cr = memchr(rest.s, '\r', rest.len);
        size_t len = cr ? (size_t)(cr - rest.s) : rest.len, skip = len;

        buf_add(&r->lf_text, rest.s, len);
        if (cr) {
            buf_putc(&r->lf_text, '\n');
            skip += len + 1 < rest.len && cr[1] == '\n' ? 2 : 1;
        }
        rest = (struct str){rest.s + skip, rest.len - skip};
    }
    r->text = buf_view(&r->lf_text);
}

static int start(struct reader *r)
{
    struct fy_diag_cfg diag;
    struct fy_parse_cfg cfg = {
        .flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | FYPCF_DISABLE_DEPTH_LIMIT | FYPCF_DEFAULT_VERSION_1_2 |
                 FYPCF_JSON_NONE,
    };

    normalise_breaks(r);
    fy_diag_cfg_default(&diag);
    diag.fp = NULL;
    diag.output_fn = swallow;
    diag.colorize = false;
    r->diag = fy_diag_create(&diag);
    if (!r->diag)
        return err_set(r->err, ERR_INTERNAL, "YAML parser does not start");
    fy_diag_set_collect_errors(r->diag, true);
    cfg.diag = r->diag;
    r->parser = fy_parser_create(&cfg);
    if (!r->parser || fy_parser_set_string(r->parser, r->text.s, r->text.len) < 0)
        return err_set(r->err, ERR_INTERNAL, "YAML parser does not start");
    return 0;
}

static void reader_done(struct reader *r)
{
    if (r->parser)
        fy_parser_destroy(r->parser);
    if (r->diag)
        fy_diag_destroy(r->diag);
    map_free(r->anchors);
    buf_done(&r->lf_text);
    vec_done(&r->items);
    vec_done(&r->members);
    vec_done(&r->marks);
}

int yaml_parse(struct str text, struct arena *arena, struct json **ret_docs, const int **lines,
               struct err *err)
{
    struct reader r = {.text = text, .arena = arena, .err = err};
    struct docs docs = {.array = {.type = JSON_ARRAY}};
    int res = check_text(&r);

    /* libfyaml takes an empty string for a missing one */
    if (res == 0 && text.len > 0) {
        res = start(&r);
        if (res == 0)
            res = read_stream(&r, &docs);
    }
    reader_done(&r);
    if (res == 0) {
        *ret_docs = arena_alloc(arena, sizeof(**ret_docs));
        **ret_docs = docs.array;
        if (lines) {
            int *copy = arena_alloc(arena, (docs.lines.len + 1) * sizeof(int));

            if (docs.lines.len)
                memcpy(copy, docs.lines.v, docs.lines.len * sizeof(int));
            *lines = copy;
        }
    }
    vec_done(&docs.lines);
    return res < 0 ? -1 : 0;
}

int yaml_parse_one(struct str text, struct arena *arena, struct json **ret, struct err *err)
{
    struct json *docs = NULL;
    const int *lines = NULL;

    if (yaml_parse(text, arena, &docs, &lines, err) < 0 || !docs || !lines)
        return -1;
    if (docs->len == 0)
        return err_set(err, ERR_INVALID, "no YAML document");
    if (docs->len > 1)
        return err_set(err, ERR_INVALID, "line %d: a second YAML document where only one is expected",
                       lines[1]);
    *ret = json_item(docs, 0);
    return 0;
}
