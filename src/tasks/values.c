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

struct json *values_merge(struct arena *arena, const struct json *under, const struct json *over)
{
    struct json *merged = json_copy(arena, under);

    if (!json_is(merged, JSON_OBJECT))
        merged = json_new_object(arena);
    JSON_EACH_MEMBER(over, it) {
        struct str key = {it->key, it->key_len};
        const struct json *below = json_get_str(merged, key);

        if (json_is(&it->value, JSON_NULL) && below)
            continue;
        if (json_is(&it->value, JSON_OBJECT) && json_is(below, JSON_OBJECT))
            json_set_str(arena, merged, key, *values_merge(arena, below, &it->value));
        else
            json_set_str(arena, merged, key, *json_copy(arena, &it->value));
    }
    return merged;
}

/* ---- what is missing ---- */

struct check {
    struct arena *arena;
    struct json *missing, *wrong;
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

static const char *below(struct check *check, const char *path, const char *key)
{
    return *path ? arena_printf(check->arena, "%s.%s", path, key) : arena_strdup(check->arena, key);
}

static void add(struct check *check, struct json *list, const char *text)
{
    if (json_len(list) < VALUES_PATHS_MAX)
        json_push_string(check->arena, list, text);
}

static void check_value(struct check *check, const char *path, const struct json *description,
                        const struct json *value);

static bool absent(const struct json *value)
{
    return !value || json_is(value, JSON_NULL);
}

static void check_map(struct check *check, const char *path, const struct json *description,
                      const struct json *value)
{
    if (!absent(value) && !json_is(value, JSON_OBJECT)) {
        add(check, check->wrong,
            arena_printf(check->arena, "%s: must be a map, not a %s", path, json_type_name(value)));
        return;
    }
    JSON_EACH_MEMBER(description, it)
        check_value(check, below(check, path, it->key), &it->value,
                    json_get_str(value, (struct str){it->key, it->key_len}));
}

/* Items that a described item is about: all of its type, or the one at its place. */
static void check_item(struct check *check, const char *path, size_t place, const struct json *description,
                       const struct json *list)
{
    struct str type = leaf_word(json_get(description, "type"));
    size_t i = 0, found = 0;

    JSON_EACH(list, it) {
        if (type.s ? str_eq(json_str(json_get(it, "type")), type) : i == place) {
            found++;
            check_value(check, arena_printf(check->arena, "%s[%zu]", path, i), description, it);
        }
        i++;
    }
    if (!found) {
        const struct json *there = json_item(list, place);

        /* an item at that place that does not say its type may be the one that is meant */
        check_value(check, arena_printf(check->arena, "%s[%zu]", path, place), description,
                    json_is(there, JSON_OBJECT) && absent(json_get(there, "type")) ? there : NULL);
    }
}

static void check_value(struct check *check, const char *path, const struct json *description,
                        const struct json *value)
{
    size_t place = 0;

    if (json_is(description, JSON_OBJECT)) {
        check_map(check, path, description, value);
    } else if (json_is(description, JSON_ARRAY)) {
        if (!absent(value) && !json_is(value, JSON_ARRAY)) {
            add(check, check->wrong,
                arena_printf(check->arena, "%s: must be a list, not a %s", path, json_type_name(value)));
            return;
        }
        JSON_EACH(description, it)
            check_item(check, path, place++, it, value);
    } else if (is_required(description) && absent(value)) {
        add(check, check->missing, path);
    }
}

void values_missing(const struct json *description, const struct json *values, struct arena *arena,
                    struct json *missing, struct json *wrong)
{
    struct check check = {arena, missing, wrong};

    check_value(&check, "", description, values);
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
