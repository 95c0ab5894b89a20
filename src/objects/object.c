/* How it works: an object is one block: the struct, its tables of strings, the short strings that need a
 * NUL (name, namespace, uid) or are not in the text as they are, and the text. Labels and owners point
 * into the text. They are found by a scanner that steps over values without reading them: at start-up it
 * runs for every stored object, and most of a text is of no interest here. Only kinds with selectable
 * fields have their text read as a tree. */
#include "objects/object.h"

#include "base/bug.h"
#include "base/mem.h"
#include "objects/kind.h"
#include "objects/names.h"
#include "objects/object_doc.h"

#define TEXT_USUAL 4096 /* bytes that most texts need no more than */

/* ---- scanning compact JSON ---- */

struct scan {
    const char *at, *end;
};

/* The string at *scan: what stands between its quotes. False when there is none. */
static bool scan_string(struct scan *scan, struct str *ret, bool *escaped)
{
    const char *p = scan->at;

    *escaped = false;
    if (p >= scan->end || *p != '"')
        return false;
    for (ret->s = ++p;; p++) {
        if (p >= scan->end)
            return false;
        if (*p == '"')
            break;
        if (*p == '\\') {
            *escaped = true;
            p++;
        }
    }
    ret->len = (size_t)(p - ret->s);
    scan->at = p + 1;
    return true;
}

static bool scan_skip_string(struct scan *scan)
{
    struct str s;
    bool escaped;

    return scan_string(scan, &s, &escaped);
}

/* What scan_skip looks at; everything else within a value is stepped over. */
enum { PLAIN, QUOTE, OPEN, CLOSE, BETWEEN };
static const unsigned char char_kind[256] = {
    ['"'] = QUOTE, ['{'] = OPEN, ['['] = OPEN, ['}'] = CLOSE, [']'] = CLOSE, [','] = BETWEEN, [':'] = BETWEEN,
};

/* Steps over one value. */
static bool scan_skip(struct scan *scan)
{
    const char *start = scan->at;
    int depth = 0;

    while (scan->at < scan->end) {
        switch (char_kind[(unsigned char)*scan->at]) {
        case QUOTE:
            if (!scan_skip_string(scan))
                return false;
            if (depth == 0)
                return true;
            continue;
        case OPEN:
            depth++;
            break;
        case CLOSE:
            if (depth == 0)
                return scan->at > start;
            if (--depth == 0) {
                scan->at++;
                return true;
            }
            break;
        case BETWEEN:
            if (depth == 0)
                return scan->at > start;
            break;
        default:
            break;
        }
        scan->at++;
    }
    return depth == 0 && scan->at > start;
}

/* Enters a container or goes on behind a value: true when a next one follows; false at its end (which is
 * taken) or where the text is broken (*ok is false then). */
static bool scan_next(struct scan *scan, char open, char close, bool *first, bool *ok)
{
    if (scan->at >= scan->end || *scan->at == close || *scan->at != (*first ? open : ',')) {
        *ok = !*first && scan->at < scan->end && *scan->at == close;
        scan->at += *ok;
        return false;
    }
    scan->at++;
    if (*first && scan->at < scan->end && *scan->at == close) {
        scan->at++;
        *ok = true;
        return false;
    }
    *first = false;
    return true;
}

static bool scan_member(struct scan *scan, bool *first, struct str *key, bool *ok)
{
    bool escaped;

    if (!scan_next(scan, '{', '}', first, ok))
        return false;
    if (scan_string(scan, key, &escaped) && scan->at < scan->end && *scan->at == ':') {
        scan->at++;
        return true;
    }
    *ok = false;
    return false;
}

/* ---- what the tables are made of ---- */

struct parts {
    struct arena *arena;
    struct str text;
    size_t body_at, meta_at, meta_len;
    struct str managed; /* the value of managedFields */
    struct str name, ns, uid;
    int64_t rv;
    bool deleting;
    struct str *labels, *owners, *fields;
    struct str maker;
    size_t label_count, label_cap, owner_count, owner_cap, field_count, controller;
};

static void push_str(struct parts *parts, struct str **list, size_t *count, size_t *cap, struct str s)
{
    if (*count == *cap) {
        size_t more = *cap ? *cap * 2 : 8;
        struct str *grown = arena_alloc(parts->arena, more * sizeof(*grown));

        if (*count)
            memcpy(grown, *list, *count * sizeof(*grown));
        *list = grown;
        *cap = more;
    }
    (*list)[(*count)++] = s;
}

/* A string's value. With escapes it is in the arena, else in the text. */
static bool take_string(struct parts *parts, struct scan *scan, struct str *ret)
{
    const char *start = scan->at;
    struct json *value;
    bool escaped;

    if (!scan_string(scan, ret, &escaped))
        return false;
    if (!escaped)
        return true;
    if (json_parse((struct str){start, (size_t)(scan->at - start)}, parts->arena, &value, NULL, NULL) < 0)
        return false;
    *ret = json_str(value);
    return true;
}

static bool take_labels(struct parts *parts, struct scan *scan)
{
    bool first = true, ok = false;
    struct str s;

    if (scan->at < scan->end && *scan->at == 'n')
        return scan_skip(scan);
    while (scan_next(scan, '{', '}', &first, &ok)) {
        if (!take_string(parts, scan, &s) || scan->at >= scan->end || *scan->at != ':')
            return false;
        push_str(parts, &parts->labels, &parts->label_count, &parts->label_cap, s);
        scan->at++;
        if (!take_string(parts, scan, &s))
            return false;
        push_str(parts, &parts->labels, &parts->label_count, &parts->label_cap, s);
    }
    return ok;
}

/* Of the annotations, who made it. */
static bool take_maker(struct parts *parts, struct scan *scan)
{
    bool first = true, ok = false;
    struct str key;

    if (scan->at < scan->end && *scan->at == 'n')
        return scan_skip(scan);
    while (scan_member(scan, &first, &key, &ok))
        if (str_is(key, OWNER_ANNOTATION) ? !take_string(parts, scan, &parts->maker) : !scan_skip(scan))
            return false;
    return ok;
}

static bool take_owner(struct parts *parts, struct scan *scan)
{
    bool first = true, ok = false, controller = false, has_uid = false;
    struct str key, uid;

    while (scan_member(scan, &first, &key, &ok)) {
        if (str_is(key, "uid")) {
            if (!take_string(parts, scan, &uid))
                return false;
            push_str(parts, &parts->owners, &parts->owner_count, &parts->owner_cap, uid);
            has_uid = true;
        } else {
            if (str_is(key, "controller"))
                controller = scan->at < scan->end && *scan->at == 't';
            if (!scan_skip(scan))
                return false;
        }
    }
    if (controller && has_uid && !parts->controller)
        parts->controller = parts->owner_count;
    return ok;
}

static bool take_owners(struct parts *parts, struct scan *scan)
{
    bool first = true, ok = false;

    if (scan->at < scan->end && *scan->at == 'n')
        return scan_skip(scan);
    while (scan_next(scan, '[', ']', &first, &ok))
        if (!take_owner(parts, scan))
            return false;
    return ok;
}

static bool take_metadata(struct parts *parts, struct scan *scan)
{
    bool first = true, ok = false;
    struct str key, rv = {NULL, 0};

    while (scan_member(scan, &first, &key, &ok)) {
        bool fine;

        if (str_is(key, "name"))
            fine = take_string(parts, scan, &parts->name);
        else if (str_is(key, "namespace"))
            fine = take_string(parts, scan, &parts->ns);
        else if (str_is(key, "uid"))
            fine = take_string(parts, scan, &parts->uid);
        else if (str_is(key, "resourceVersion"))
            fine = take_string(parts, scan, &rv);
        else if (str_is(key, "labels"))
            fine = take_labels(parts, scan);
        else if (str_is(key, "ownerReferences"))
            fine = take_owners(parts, scan);
        else if (str_is(key, "annotations"))
            fine = take_maker(parts, scan);
        else {
            const char *start = scan->at;

            if (str_is(key, "deletionTimestamp"))
                parts->deleting = scan->at < scan->end && *scan->at == '"';
            fine = scan_skip(scan);
            if (str_is(key, "managedFields"))
                parts->managed = (struct str){start, (size_t)(scan->at - start)};
        }
        if (!fine)
            return false;
    }
    /* A dry run's object has no revision. */
    return ok && parts->name.len && parts->uid.s && (!rv.s || (str_to_int(rv, &parts->rv) && parts->rv >= 0));
}

/* Reads what stands in the text's metadata. */
static int parts_scan(struct parts *parts, struct str head, struct err *err)
{
    struct str text = parts->text;
    struct scan scan;

    if (text.len > UINT32_MAX || text.len <= head.len || !str_starts(text, head.s))
        return err_set(err, ERR_INVALID, "stored object does not start as one of its kind");
    parts->body_at = head.len - strlen("\"metadata\":");
    parts->meta_at = head.len;
    scan = (struct scan){text.s + head.len, text.s + text.len};
    if (!take_metadata(parts, &scan))
        return err_set(err, ERR_INVALID, "stored object has broken metadata");
    parts->meta_len = (size_t)(scan.at - text.s) - parts->meta_at;
    if (scan.at >= scan.end || (*scan.at != ',' && *scan.at != '}') || text.s[text.len - 1] != '}')
        return err_set(err, ERR_INVALID, "stored object is cut off");
    return 0;
}

/* The value of a selectable field: text, or a number or boolean as text; "" when absent. */
static struct str field_text(const struct kind *kind, const struct json *doc, const char *field,
                             struct arena *arena)
{
    const char *special = kind->field_value ? kind->field_value(doc, field, arena) : NULL;
    const struct json *value;
    struct buf text = {0};
    struct str ret;

    if (special)
        return str_from(special);
    value = json_at(doc, field);
    if (json_is(value, JSON_STRING))
        return json_str(value);
    if (!value || value->type == JSON_NULL || value->type == JSON_ARRAY || value->type == JSON_OBJECT)
        return STR("");
    json_write(&text, value);
    ret = (struct str){arena_strndup(arena, text.data, text.len), text.len};
    buf_done(&text);
    return ret;
}

static void parts_fields(struct parts *parts, const struct kind *kind, const struct json *doc)
{
    size_t count = 0;

    while (kind->fields[count])
        count++;
    parts->fields = arena_alloc(parts->arena, (count + 1) * sizeof(*parts->fields));
    for (size_t i = 0; i < count; i++)
        parts->fields[i] = field_text(kind, doc, kind->fields[i], parts->arena);
    parts->field_count = count;
}

/* ---- the block ---- */

static int label_cmp(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

static bool in_text(const struct parts *parts, struct str s)
{
    return (uintptr_t)s.s >= (uintptr_t)parts->text.s &&
           (uintptr_t)s.s < (uintptr_t)parts->text.s + parts->text.len;
}

static size_t copied_len(const struct parts *parts, const struct str *list, size_t count)
{
    size_t len = 0;

    for (size_t i = 0; i < count; i++)
        if (!in_text(parts, list[i]))
            len += list[i].len;
    return len;
}

static const struct str *place_list(const struct parts *parts, const struct str *list, size_t count,
                                    const char *text, struct str **table, char **at)
{
    const struct str *placed = *table;

    for (size_t i = 0; i < count; i++) {
        struct str s = list[i];

        if (in_text(parts, s)) {
            s.s = text + (s.s - parts->text.s);
        } else if (s.len) {
            memcpy(*at, s.s, s.len);
            s.s = *at;
            *at += s.len;
        } else {
            s.s = "";
        }
        *(*table)++ = s;
    }
    return placed;
}

static const char *place_string(struct str s, char **at)
{
    char *placed = *at;

    if (!s.len)
        return "";
    memcpy(placed, s.s, s.len);
    placed[s.len] = 0;
    *at += s.len + 1;
    return placed;
}

static struct object *parts_build(const struct parts *parts, const struct kind *kind)
{
    size_t strs = parts->label_count + parts->owner_count + parts->field_count + 1;
    size_t size = sizeof(struct object) + strs * sizeof(struct str) + parts->ns.len + parts->name.len +
                  parts->uid.len + 3 + parts->text.len + 1 +
                  copied_len(parts, parts->labels, parts->label_count) +
                  copied_len(parts, parts->owners, parts->owner_count) + copied_len(parts, &parts->maker, 1) +
                  copied_len(parts, parts->fields, parts->field_count);
    struct object *object = mem_alloc(size);
    struct str *table = (struct str *)(object + 1);
    char *at = (char *)(table + strs), *text = at;

    memcpy(at, parts->text.s, parts->text.len);
    at += parts->text.len;
    *at++ = 0;
    *object = (struct object){
        .kind = kind,
        .rv = parts->rv,
        .text = text,
        .text_len = parts->text.len,
        .body_at = (uint32_t)parts->body_at,
        .meta_at = (uint32_t)parts->meta_at,
        .meta_len = (uint32_t)parts->meta_len,
        .deleting = parts->deleting,
        .refs = 1,
        .label_count = (uint32_t)(parts->label_count / 2),
        .owner_count = (uint32_t)parts->owner_count,
        .controller = (uint32_t)parts->controller,
    };
    object->labels = table;
    place_list(parts, parts->labels, parts->label_count, text, &table, &at);
    qsort((void *)(uintptr_t)object->labels, object->label_count, 2 * sizeof(struct str), label_cmp);
    object->fields = place_list(parts, parts->fields, parts->field_count, text, &table, &at);
    object->owners = place_list(parts, parts->owners, parts->owner_count, text, &table, &at);
    if (parts->maker.s)
        object->maker = *place_list(parts, &parts->maker, 1, text, &table, &at);
    object->ns = place_string(parts->ns, &at);
    object->name = place_string(parts->name, &at);
    object->uid = place_string(parts->uid, &at);
    return object;
}

/* `{"kind":"Pod","apiVersion":"v1","metadata":` */
static void write_head(struct buf *out, const struct kind *kind)
{
    buf_puts(out, "{\"kind\":\"");
    buf_puts(out, kind->name);
    buf_puts(out, "\",\"apiVersion\":\"");
    if (*kind->group) {
        buf_puts(out, kind->group);
        buf_putc(out, '/');
    }
    buf_puts(out, kind->version);
    buf_puts(out, "\",\"metadata\":");
}

struct object *object_new(const struct kind *kind, struct arena *arena, struct json *doc)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct parts parts = {.arena = arena};
    struct err err = {0};
    size_t head;

    buf_reserve(&text, TEXT_USUAL);
    write_head(&text, kind);
    head = text.len;
    json_write(&text, json_get(doc, "metadata"));
    JSON_EACH_MEMBER(doc, member) {
        if (streq(member->key, "kind") || streq(member->key, "apiVersion") || streq(member->key, "metadata"))
            continue;
        buf_putc(&text, ',');
        json_write_string(&text, (struct str){member->key, member->key_len});
        buf_putc(&text, ':');
        json_write(&text, &member->value);
    }
    buf_putc(&text, '}');
    parts.text = buf_view(&text);
    if (parts_scan(&parts, (struct str){arena_strndup(arena, text.data, head), head}, &err) < 0)
        bug("object_new: %s: %.200s", err.msg, text.data); /* the caller did not fill in metadata */
    if (kind->fields)
        parts_fields(&parts, kind, doc);
    return parts_build(&parts, kind);
}

/* The text as a tree, but for managedFields: half of it, and no field selector looks there. */
static int read_tree(const struct parts *parts, struct json **ret, struct err *err)
{
    struct str text = parts->text, managed = parts->managed;
    char *copy = arena_alloc(parts->arena, text.len + 1);
    size_t before = managed.s ? (size_t)(managed.s - text.s) : text.len;
    size_t after = text.len - before - managed.len, len = before;

    memcpy(copy, text.s, before);
    if (managed.s)
        copy[len++] = '0';
    memcpy(copy + len, text.s + before + managed.len, after);
    len += after;
    copy[len] = 0;
    return json_parse_in_place(copy, len, parts->arena, ret, err);
}

int object_parse(const struct kind *kind, struct str text, struct object **ret, struct err *err)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf head = {0};
    struct parts parts = {.arena = &arena, .text = text};
    struct json *doc;

    write_head(&head, kind);
    if (parts_scan(&parts, buf_view(&head), err) < 0)
        return -1;
    if (kind->fields) {
        if (read_tree(&parts, &doc, err) < 0)
            return err_prefix(err, "stored object");
        parts_fields(&parts, kind, doc);
    }
    *ret = parts_build(&parts, kind);
    return 0;
}

struct object *object_ref(const struct object *object)
{
    struct object *shared = (struct object *)(uintptr_t)object;

    shared->refs++;
    return shared;
}

void object_unref(struct object *object)
{
    if (!object || --object->refs)
        return;
    object_doc_done(object);
    free(object->cache);
    free(object);
}

bool object_controls(const struct object *owner, const struct object *child)
{
    return child->controller && str_is(child->owners[child->controller - 1], owner->uid) &&
           streq(owner->ns, child->ns) && !owner->maker.s == !child->maker.s &&
           (!owner->maker.s || str_eq(owner->maker, child->maker));
}

struct str object_label(const struct object *object, const char *key)
{
    struct str wanted = str_from(key);
    size_t low = 0, high = object->label_count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int cmp = str_cmp(wanted, object->labels[2 * mid]);

        if (cmp == 0)
            return object->labels[2 * mid + 1];
        if (cmp < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return (struct str){NULL, 0};
}

struct str object_field(const struct object *object, size_t i)
{
    return object->fields[i];
}
