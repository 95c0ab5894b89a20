/* yaml_read.c - YAML text to json values, over the events of libyaml, whose port to Go kubectl uses.
 *
 * libyaml knows the syntax; everything with a meaning is here: types of scalars, anchors, merges,
 * repeated keys, limits. An alias becomes a copy of the value at its anchor (strings are shared, since
 * nobody changes them), so every value of the result can be changed without another one following. The
 * copies count against YAML_NODES_MAX and YAML_BYTES_MAX. Text that is JSON goes to json_parse, as kubectl
 * does it too: libyaml does not know surrogate pairs. */
#include "base/json_build.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"
#include "base/yaml.h"
#include "base/yaml_scalar.h"

#include <yaml.h>

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
    struct arena *arena;
    yaml_parser_t parser;
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

/* Line `line` of the text without outer blanks, up to what cannot be shown, cut where it is long. */
static struct str source_line(struct str text, int line)
{
    struct str rest = text, found = {"", 0};
    size_t len = 0;

    for (int i = 0; i <= line; i++)
        if (!str_split(&rest, '\n', &found))
            return (struct str){"", 0};
    if (found.len > SOURCE_MAX)
        found.len = SOURCE_MAX;
    found.len = utf8_valid_len(found);
    while (len < found.len && ((unsigned char)found.s[len] >= 0x20 || found.s[len] == '\t'))
        len++;
    return str_trim((struct str){found.s, len});
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

/* The place of a byte of the text. */
static struct mark mark_of(struct str text, size_t offset)
{
    struct mark at = {0};

    for (size_t i = 0; i < offset && i < text.len; i++) {
        at.column++;
        if (text.s[i] == '\n')
            at = (struct mark){at.line + 1, 0};
    }
    return at;
}

static struct mark mark_from(yaml_mark_t mark)
{
    return (struct mark){(int)mark.line, (int)mark.column};
}

/* What libyaml found wrong. A text that ends too early is reported where the open thing starts. */
static int fail_syntax(struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    const char *problem = p->problem ? p->problem : "not YAML";

    if (p->error == YAML_MEMORY_ERROR)
        return err_set(r->err, ERR_INTERNAL, "out of memory");
    if (p->error == YAML_READER_ERROR)
        return fail(r, mark_of(r->text, p->problem_offset), "%s", problem);
    if (!p->context)
        return fail(r, mark_from(p->problem_mark), "%s", problem);
    if (strstr(problem, "end of stream") || p->problem_mark.index >= r->text.len)
        return fail(r, mark_from(p->context_mark), "%s %s", problem, p->context);
    return fail(r, mark_from(p->problem_mark), "%s %s from line %zu on", problem, p->context,
                p->context_mark.line + 1);
}

/* --- events --- */

/* CLEANUP(event_done) yaml_event_t event = {0}; */
static inline void event_done_cleanup_(yaml_event_t *event)
{
    yaml_event_delete(event);
}

static bool next_event(struct reader *r, yaml_event_t *event)
{
    if (!yaml_parser_parse(&r->parser, event)) {
        fail_syntax(r);
        return false;
    }
    r->at = mark_from(event->start_mark);
    return true;
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

static struct anchor *open_anchor(struct reader *r, const yaml_char_t *name)
{
    struct anchor *anchor;

    if (!name)
        return NULL;
    if (!r->anchors)
        r->anchors = map_new();
    anchor = arena_zalloc(r->arena, sizeof(*anchor));
    anchor->open = true;
    map_set(r->anchors, str_from((const char *)name), anchor);
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

static int resolve_alias(struct reader *r, const yaml_event_t *event, struct json *ret)
{
    struct str name = str_from((const char *)event->data.alias.anchor);
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
    if (!utf8_valid(text))
        return fail(r, r->at, "string is not UTF-8");
    *ret = json_of_str(r->arena, text);
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

static struct str scalar_text(const yaml_event_t *event)
{
    return (struct str){(const char *)event->data.scalar.value, event->data.scalar.length};
}

static int read_scalar(struct reader *r, const yaml_event_t *event, struct json *ret)
{
    struct str text = scalar_text(event);

    if (count_node(r, text.len) < 0)
        return -1;
    if (event->data.scalar.tag)
        return read_tagged(r, str_from((const char *)event->data.scalar.tag), text, ret);
    if (event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return read_string(r, text, ret);
    if (!yaml_resolve(r->arena, text, ret))
        return fail(r, r->at, "JSON has no number %.*s", STR_ARG(text));
    return 0;
}

/* --- sequences and mappings --- */

static int read_node(struct reader *r, const yaml_event_t *event, struct json *ret);

static int read_sequence(struct reader *r, struct json *ret)
{
    size_t base = r->items.len;

    for (;;) {
        CLEANUP(event_done) yaml_event_t event = {0};
        struct json value;

        if (!next_event(r, &event))
            return -1;
        if (event.type == YAML_SEQUENCE_END_EVENT)
            break;
        if (read_node(r, &event, &value) < 0)
            return -1;
        vec_push(&r->items, value);
    }
    *ret = json_build_array(r->arena, r->items.v ? &r->items.v[base] : NULL, r->items.len - base);
    r->items.len = base;
    return 0;
}

/* The text of a key: scalars keep theirs whatever their type. */
static int read_key_text(struct reader *r, const yaml_event_t *event, struct str *ret)
{
    CLEANUP(buf_done) struct buf buf = {0};
    struct json value = {0};
    struct str text = {"", 0};

    if (event->type == YAML_ALIAS_EVENT) {
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
    if (event->type != YAML_SCALAR_EVENT)
        return fail(r, r->at, "a key must be a scalar");
    text = scalar_text(event);
    if (count_node(r, text.len) < 0 || read_string(r, text, &value) < 0)
        return -1;
    close_anchor(open_anchor(r, event->data.scalar.anchor), &value);
    *ret = json_str(&value);
    return 0;
}

static bool is_merge_key(const yaml_event_t *event)
{
    const yaml_char_t *tag;

    if (event->type != YAML_SCALAR_EVENT || event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE ||
        !str_is(scalar_text(event), "<<"))
        return false;
    tag = event->data.scalar.tag;
    return !tag || is_tag(str_from((const char *)tag), "merge");
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

/* One key and its value, on the scratch stacks. What is to be merged goes to r->items. */
static int read_member(struct reader *r, const yaml_event_t *key_event)
{
    CLEANUP(event_done) yaml_event_t event = {0};
    struct mark at = r->at;
    bool merging = is_merge_key(key_event);
    struct json value;
    struct str key = {"", 0};

    if (!merging && read_key_text(r, key_event, &key) < 0)
        return -1;
    if (!next_event(r, &event) || read_node(r, &event, &value) < 0)
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
        CLEANUP(event_done) yaml_event_t event = {0};

        if (!next_event(r, &event))
            return -1;
        if (event.type == YAML_MAPPING_END_EVENT)
            break;
        if (read_member(r, &event) < 0)
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

static int read_collection(struct reader *r, const yaml_event_t *event, struct json *ret)
{
    bool mapping = event->type == YAML_MAPPING_START_EVENT;
    struct anchor *anchor =
        open_anchor(r, mapping ? event->data.mapping_start.anchor : event->data.sequence_start.anchor);

    if (r->depth == YAML_DEPTH_MAX)
        return fail(r, r->at, "nested too deeply");
    if (count_node(r, 0) < 0)
        return -1;
    r->depth++;
    if ((mapping ? read_mapping(r, ret) : read_sequence(r, ret)) < 0)
        return -1;
    r->depth--;
    close_anchor(anchor, ret);
    return 0;
}

/* Reads the node that starts with the event. */
static int read_node(struct reader *r, const yaml_event_t *event, struct json *ret)
{
    struct anchor *anchor;

    switch (event->type) {
    case YAML_SCALAR_EVENT:
        anchor = open_anchor(r, event->data.scalar.anchor);
        if (read_scalar(r, event, ret) < 0)
            return -1;
        close_anchor(anchor, ret);
        return 0;
    case YAML_ALIAS_EVENT:
        return resolve_alias(r, event, ret);
    case YAML_MAPPING_START_EVENT:
    case YAML_SEQUENCE_START_EVENT:
        return read_collection(r, event, ret);
    default:
        return fail(r, r->at, "a value should be here");
    }
}

/* --- documents --- */

static bool is_empty_node(const yaml_event_t *event)
{
    return event->type == YAML_SCALAR_EVENT && !event->data.scalar.tag && !event->data.scalar.anchor &&
           event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && event->data.scalar.length == 0;
}

/* Documents and the lines they start at. */
struct docs {
    struct json array;
    VEC(int) lines;
};

/* The root node of a document whose start was read. Empty ones are left out. */
static int read_document(struct reader *r, struct docs *docs)
{
    CLEANUP(event_done) yaml_event_t event = {0};
    struct json value = {0};
    int line;

    r->depth = 0;
    map_free(TAKE_PTR(r->anchors));
    if (!next_event(r, &event))
        return -1;
    line = r->at.line + 1;
    if (read_node(r, &event, &value) < 0)
        return -1;
    if (is_empty_node(&event))
        return 0;
    if (docs->array.len == YAML_DOCS_MAX)
        return fail(r, r->at, "more than %d documents", YAML_DOCS_MAX);
    json_push(r->arena, &docs->array, value);
    vec_push(&docs->lines, line);
    return 0;
}

static int read_stream(struct reader *r, struct docs *docs)
{
    for (;;) {
        CLEANUP(event_done) yaml_event_t event = {0};

        if (!next_event(r, &event))
            return -1;
        if (event.type == YAML_STREAM_END_EVENT)
            return 0;
        if (event.type == YAML_DOCUMENT_START_EVENT && read_document(r, docs) < 0)
            return -1;
    }
}

/* Whether a tree stays within the limits; *left is what remains of YAML_NODES_MAX. */
static bool within_limits(const struct json *value, int depth, size_t *left)
{
    if (*left == 0 || (json_len(value) && depth >= YAML_DEPTH_MAX))
        return false;
    --*left;
    JSON_EACH(value, it)
        if (!within_limits(it, depth + 1, left))
            return false;
    JSON_EACH_MEMBER(value, it)
        if (*left < 2 || (--*left, !within_limits(&it->value, depth + 1, left)))
            return false;
    return true;
}

/* JSON objects and arrays. Whatever is not quite right is left to the YAML reader and its messages. */
static bool read_json(struct reader *r, struct docs *docs)
{
    CLEANUP(buf_done) struct buf dups = {0};
    size_t left = YAML_NODES_MAX, start = 0;
    struct json *value;

    while (start < r->text.len && strchr(" \t\r\n", r->text.s[start]))
        start++;
    if (start == r->text.len || (r->text.s[start] != '{' && r->text.s[start] != '['))
        return false;
    if (json_parse(r->text, r->arena, &value, &dups, NULL) < 0 || dups.len || !within_limits(value, 0, &left))
        return false;
    json_push(r->arena, &docs->array, *value);
    vec_push(&docs->lines, mark_of(r->text, start).line + 1);
    return true;
}

static int check_text(struct reader *r)
{
    const char *nul;
    size_t valid;

    if (r->text.len > YAML_TEXT_MAX)
        return err_set(r->err, ERR_INVALID, "YAML text is larger than %d bytes", YAML_TEXT_MAX);
    nul = r->text.len ? memchr(r->text.s, '\0', r->text.len) : NULL;
    if (nul)
        return fail(r, mark_of(r->text, (size_t)(nul - r->text.s)), "NUL byte");
    valid = utf8_valid_len(r->text);
    if (valid < r->text.len)
        return fail(r, mark_of(r->text, valid), "not UTF-8");
    return 0;
}

static int read_text(struct reader *r, struct docs *docs)
{
    int res;

    if (check_text(r) < 0)
        return -1;
    if (read_json(r, docs))
        return 0;
    if (!yaml_parser_initialize(&r->parser))
        return err_set(r->err, ERR_INTERNAL, "YAML parser does not start");
    yaml_parser_set_encoding(&r->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)r->text.s, r->text.len);
    res = read_stream(r, docs);
    yaml_parser_delete(&r->parser);
    map_free(r->anchors);
    vec_done(&r->items);
    vec_done(&r->members);
    vec_done(&r->marks);
    return res;
}

static const int *copy_lines(struct arena *arena, const struct docs *docs)
{
    int *copy = arena_alloc(arena, (docs->lines.len + 1) * sizeof(int));

    if (docs->lines.len)
        memcpy(copy, docs->lines.v, docs->lines.len * sizeof(int));
    return copy;
}

int yaml_parse(struct str text, struct arena *arena, struct json **ret_docs, const int **lines,
               struct err *err)
{
    struct reader r = {.text = {text.s ? text.s : "", text.len}, .arena = arena, .err = err};
    struct docs docs = {.array = {.type = JSON_ARRAY}};
    int res = read_text(&r, &docs);

    if (res == 0) {
        *ret_docs = arena_alloc(arena, sizeof(**ret_docs));
        **ret_docs = docs.array;
        if (lines)
            *lines = copy_lines(arena, &docs);
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
