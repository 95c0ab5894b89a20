#include "tasks/values.h"

#include "base/yaml.h"

#include <ctype.h>

#define REQUIRED "(Required)"
#define OPTIONAL "(Optional)"

int values_read(const struct json *given, struct arena *arena, struct json **ret, struct err *err)
{
    struct json *docs;
    struct str text = json_str(given);

    *ret = NULL;
    if (!given || json_is(given, JSON_NULL) || (text.s && !text.len)) {
        *ret = json_new_object(arena);
        return 0;
    }
    if (json_is(given, JSON_OBJECT)) {
        *ret = json_copy(arena, given);
        return 0;
    }
    if (!text.s)
        return err_set(err, ERR_INVALID, "must be an object, or YAML text of one, not a %s",
                       json_type_name(given));
    if (text.len > VALUES_TEXT_MAX)
        return err_set(err, ERR_LIMIT, "is longer than %d bytes", VALUES_TEXT_MAX);
    if (yaml_parse(text, arena, &docs, NULL, err) < 0)
        return -1;
    if (json_len(docs) > 1)
        return err_set(err, ERR_INVALID, "has more than one YAML document");
    *ret = json_len(docs) ? json_item(docs, 0) : json_new_object(arena);
    if (!json_is(*ret, JSON_OBJECT))
        return err_set(err, ERR_INVALID, "must be YAML of an object, not of a %s", json_type_name(*ret));
    return 0;
}

static void merge_into(struct arena *arena, struct json *into, const struct json *over)
{
    JSON_EACH_MEMBER(over, it) {
        struct str key = {it->key, it->key_len};
        struct json *below = json_get_str(into, key);

        if (json_is(&it->value, JSON_NULL) && below)
            continue;
        if (json_is(&it->value, JSON_OBJECT) && json_is(below, JSON_OBJECT))
            merge_into(arena, below, &it->value);
        else
            json_set_str(arena, into, key, *json_copy(arena, &it->value));
    }
}

struct json *values_merge(struct arena *arena, const struct json *under, const struct json *over)
{
    struct json *merged = json_copy(arena, under);

    if (!json_is(merged, JSON_OBJECT))
        merged = json_new_object(arena);
    merge_into(arena, merged, over);
    return merged;
}

static bool is_overridable(const struct json *paths, const char *path)
{
    JSON_EACH(paths, it) {
        const char *given = json_string_or(json_string(it) ? it : NULL, "");
        size_t len = strlen(given);

        if (streq(given, "*") || (strncmp(path, given, len) == 0 && (path[len] == '\0' || path[len] == '.')))
            return len > 0;
    }
    return false;
}

static struct json *lock_at(struct arena *arena, const struct json *system, const struct json *user,
                            const struct json *overridable, const char *prefix, struct json *locked)
{
    struct json *out = json_copy(arena, user);

    JSON_EACH_MEMBER(system, it) {
        const char *path = arena_printf(arena, "%s%s%s", prefix, *prefix ? "." : "", it->key);
        const struct json *given = json_get(user, it->key);
        bool has = given && !json_is(given, JSON_NULL);

        if (json_is(&it->value, JSON_NULL))
            continue;
        if (has && json_is(given, JSON_OBJECT) && json_is(&it->value, JSON_OBJECT))
            json_set(arena, out, it->key, *lock_at(arena, &it->value, given, overridable, path, locked));
        else if (has && is_overridable(overridable, path))
            continue;
        else
            json_set(arena, out, it->key, *json_copy(arena, &it->value));
        if (locked && has && !json_equal(given, json_get(out, it->key)) && !json_is(given, JSON_OBJECT) &&
            json_len(locked) < VALUES_PATHS_MAX)
            json_push_string(arena, locked, path);
    }
    return out;
}

struct json *values_lock(struct arena *arena, const struct json *system, const struct json *user,
                         const struct json *overridable, struct json *locked)
{
    return lock_at(arena, system, user, overridable, "", locked);
}

struct json *values_hidden(struct arena *arena, const struct json *values)
{
    struct json *out;

    if (json_is(values, JSON_OBJECT)) {
        out = json_new_object(arena);
        JSON_EACH_MEMBER(values, it)
            json_set(arena, out, it->key, *values_hidden(arena, &it->value));
    } else if (json_is(values, JSON_ARRAY)) {
        out = json_new_array(arena);
        JSON_EACH(values, it)
            json_push(arena, out, *values_hidden(arena, it));
    } else {
        out = json_new_string(arena, VALUES_HIDDEN);
    }
    return out;
}

/* ---- what is missing ---- */

/* Where a value is, up to the whole of them: put together only for messages. */
struct place {
    const struct place *up;
    struct str key; /* {NULL, 0}: of a list */
    size_t index;
};

struct check {
    struct arena *arena;
    struct json *missing, *wrong;
    size_t looks; /* at values, of VALUES_LOOKS_MAX */
};

static bool is_required(const struct json *leaf)
{
    return starts_with(json_string_or(leaf, ""), REQUIRED);
}

/* "dataset" of "(Required) dataset"; {NULL, 0} when it is not one word. */
static struct str leaf_word(const struct json *leaf)
{
    const char *text = json_string_or(leaf, "");
    struct str word;

    if (!starts_with(text, REQUIRED) && !starts_with(text, OPTIONAL))
        return (struct str){0};
    word = str_trim(str_from(text + strlen(REQUIRED)));
    for (size_t i = 0; i < word.len; i++)
        if (!isalnum((unsigned char)word.s[i]) && word.s[i] != '_' && word.s[i] != '-')
            return (struct str){0};
    return word.len ? word : (struct str){0};
}

static void put_path(struct buf *path, const struct place *place)
{
    if (!place)
        return;
    put_path(path, place->up);
    if (!place->key.s) {
        buf_printf(path, "[%zu]", place->index);
        return;
    }
    if (path->len)
        buf_putc(path, '.');
    buf_str(path, place->key);
    if (path->len > VALUES_PATH_BYTES)
        path->len = utf8_valid_len((struct str){path->data, VALUES_PATH_BYTES});
}

static void add(struct check *check, struct json *list, const struct place *place, const char *what)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (json_len(list) >= VALUES_PATHS_MAX)
        return;
    put_path(&text, place);
    buf_puts(&text, what);
    json_push(check->arena, list, json_of_str(check->arena, buf_view(&text)));
}

/* Counts n looks. False: there were too many, which has been said. */
static bool look(struct check *check, size_t n)
{
    bool before = check->looks <= VALUES_LOOKS_MAX;

    check->looks += n;
    if (check->looks <= VALUES_LOOKS_MAX)
        return true;
    if (before)
        add(check, check->wrong, NULL, "there are too many values to check against the description");
    return false;
}

static void check_value(struct check *check, const struct place *place, const struct json *description,
                        const struct json *value);

static bool absent(const struct json *value)
{
    return !value || json_is(value, JSON_NULL);
}

static void check_map(struct check *check, const struct place *place, const struct json *description,
                      const struct json *value)
{
    if (!absent(value) && !json_is(value, JSON_OBJECT)) {
        add(check, check->wrong, place,
            arena_printf(check->arena, ": must be a map, not a %s", json_type_name(value)));
        return;
    }
    JSON_EACH_MEMBER(description, it) {
        struct place below = {.up = place, .key = {it->key, it->key_len}};

        check_value(check, &below, &it->value, json_get_str(value, below.key));
    }
}

/* Items that a described item is about: all of its type, or the one at its place. */
static void check_item(struct check *check, const struct place *up, size_t place,
                       const struct json *description, const struct json *list)
{
    struct str type = leaf_word(json_get(description, "type"));
    struct place item = {.up = up, .index = place};
    const struct json *there = json_item(list, place);
    size_t found = 0;

    if (!type.s && there) {
        check_value(check, &item, description, there);
        return;
    }
    if (!look(check, json_len(list)))
        return;
    item.index = 0;
    JSON_EACH(list, it) {
        if (type.s && str_eq(json_str(json_get(it, "type")), type)) {
            found++;
            check_value(check, &item, description, it);
        }
        item.index++;
    }
    item.index = place;
    if (!found) /* an item at that place that does not say its type may be the one that is meant */
        check_value(check, &item, description,
                    json_is(there, JSON_OBJECT) && absent(json_get(there, "type")) ? there : NULL);
}

static void check_value(struct check *check, const struct place *place, const struct json *description,
                        const struct json *value)
{
    size_t item = 0;

    if (!look(check, 1))
        return;
    if (json_is(description, JSON_OBJECT)) {
        check_map(check, place, description, value);
    } else if (json_is(description, JSON_ARRAY)) {
        if (!absent(value) && !json_is(value, JSON_ARRAY)) {
            add(check, check->wrong, place,
                arena_printf(check->arena, ": must be a list, not a %s", json_type_name(value)));
            return;
        }
        JSON_EACH(description, it)
            check_item(check, place, item++, it, value);
    } else if (is_required(description) && absent(value)) {
        add(check, check->missing, place, "");
    }
}

void values_missing(const struct json *description, const struct json *values, struct arena *arena,
                    struct json *missing, struct json *wrong)
{
    struct check check = {.arena = arena, .missing = missing, .wrong = wrong};

    check_value(&check, NULL, description, values);
}

/* ---- schema ---- */

static const char *schema_type(const struct json *example)
{
    if (!example)
        return NULL;
    switch ((enum json_type)example->type) {
    case JSON_BOOL:
        return "boolean";
    case JSON_INT:
    case JSON_BIG:
        return "integer";
    case JSON_REAL:
        return "number";
    case JSON_STRING:
        return "string";
    case JSON_ARRAY:
        return "array";
    case JSON_OBJECT:
        return "object";
    case JSON_NULL:
        break;
    }
    return NULL;
}

static bool any_required(const struct json *description)
{
    JSON_EACH_MEMBER(description, it)
        if (any_required(&it->value))
            return true;
    JSON_EACH(description, it)
        if (any_required(it))
            return true;
    return is_required(description);
}

static struct json *schema_of(const struct json *description, const struct json *example,
                              struct arena *arena);

static void schema_map(struct json *schema, const struct json *description, const struct json *example,
                       struct arena *arena)
{
    struct json *properties = json_new_object(arena), *required = json_new_array(arena);

    JSON_EACH_MEMBER(description, it) {
        struct str key = {it->key, it->key_len};

        json_set_str(arena, properties, key, *schema_of(&it->value, json_get_str(example, key), arena));
        if (any_required(&it->value))
            json_push(arena, required, json_of_str(arena, key));
    }
    json_set_string(arena, schema, "type", "object");
    json_set(arena, schema, "properties", *properties);
    json_set(arena, schema, "required", *required);
    json_set_bool(arena, schema, "additionalProperties", true);
}

static void schema_list(struct json *schema, const struct json *description, const struct json *example,
                        struct arena *arena)
{
    struct json *choices = json_new_array(arena);
    size_t place = 0;

    JSON_EACH(description, it) {
        struct json *item = schema_of(it, json_item(example, place++), arena);
        struct str type = leaf_word(json_get(it, "type"));

        if (type.s)
            json_set(arena, json_get(json_get(item, "properties"), "type"), "const",
                     json_of_str(arena, type));
        json_push(arena, choices, *item);
    }
    json_set_string(arena, schema, "type", "array");
    if (json_len(choices))
        json_set(arena, json_set_object(arena, schema, "items"), "anyOf", *choices);
    if (any_required(description))
        json_set_int(arena, schema, "minItems", 1);
}

static void schema_leaf(struct json *schema, const struct json *description, const struct json *example,
                        struct arena *arena)
{
    const char *text = json_string_or(description, ""), *type = schema_type(example);

    if (starts_with(text, REQUIRED) || starts_with(text, OPTIONAL))
        text += strlen(REQUIRED);
    json_set(arena, schema, "description", json_of_str(arena, str_trim(str_from(text))));
    if (type) {
        json_set_string(arena, schema, "type", type);
        json_push(arena, json_set_array(arena, schema, "examples"), *example);
    }
}

static struct json *schema_of(const struct json *description, const struct json *example, struct arena *arena)
{
    struct json *schema = json_new_object(arena);

    if (json_is(description, JSON_OBJECT))
        schema_map(schema, description, example, arena);
    else if (json_is(description, JSON_ARRAY))
        schema_list(schema, description, example, arena);
    else if (json_is(description, JSON_STRING))
        schema_leaf(schema, description, example, arena);
    else /* `model:` with nothing below */
        json_set_bool(arena, schema, "additionalProperties", true);
    return schema;
}

struct json *values_schema(const struct json *description, const struct json *example, struct arena *arena)
{
    struct json *schema = json_new_object(arena), *root = schema_of(description, example, arena);

    json_set_string(arena, schema, "$schema", "https://json-schema.org/draft/2020-12/schema");
    JSON_EACH_MEMBER(root, it)
        json_set_str(arena, schema, (struct str){it->key, it->key_len}, it->value);
    return schema;
}

/* ---- text ---- */

static uint32_t code_point(const unsigned char *p, size_t len)
{
    uint32_t c = p[0] & (0xffU >> (len + 1));

    if (len == 1)
        return p[0];
    for (size_t i = 1; i < len; i++)
        c = c << 6 | (p[i] & 0x3f);
    return c;
}

/* What YAML readers refuse, fold or take for a line's end. */
static bool unsafe(uint32_t c)
{
    return (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfeff || c == 0xfffe || c == 0xffff;
}

struct json values_quoted(const struct json *value, struct arena *arena)
{
    CLEANUP(buf_done) struct buf plain = {0}, safe = {0};

    json_write(&plain, value);
    for (size_t i = 0; i < plain.len;) {
        const unsigned char *p = (const unsigned char *)plain.data + i;
        size_t len = utf8_len(p, plain.len - i);
        uint32_t c;

        len = len ? len : 1;
        c = code_point(p, len);
        if (unsafe(c))
            buf_printf(&safe, "\\u%04x", c);
        else if (c == '\'')
            buf_puts(&safe, "''");
        else
            buf_add(&safe, p, len);
        i += len;
    }
    return json_of_str(arena, buf_view(&safe));
}

char *values_slug(const char *name, size_t max, struct arena *arena)
{
    char *slug = arena_alloc(arena, max + 1);
    size_t len = 0;

    for (; *name && len < max; name++) {
        unsigned char c = (unsigned char)*name;

        if (isalnum(c) && (len > 0 || isalpha(c)))
            slug[len++] = (char)tolower(c);
        else if (len > 0 && slug[len - 1] != '-')
            slug[len++] = '-';
    }
    while (len > 0 && slug[len - 1] == '-')
        len--;
    slug[len] = '\0';
    return slug;
}
