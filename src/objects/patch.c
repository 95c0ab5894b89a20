/* How it works: RFC 7386 merges member by member, recursing where both sides are objects. The patch is
 * not changed: what goes into the document is copied. */
#include "objects/patch.h"

#include "objects/patch_util.h"

#define REMOVE_SINGLY_MAX 8 /* nulls up to which members are removed one by one */

bool patch_type_of(const char *content_type, enum patch_type *ret)
{
    static const struct {
        const char *name;
        enum patch_type type;
    } types[] = {
        {"application/json-patch+json", PATCH_JSON},
        {"application/merge-patch+json", PATCH_MERGE},
        {"application/strategic-merge-patch+json", PATCH_STRATEGIC},
        {"application/apply-patch+yaml", PATCH_APPLY},
    };
    struct str rest = str_from(content_type), name;

    if (!content_type || !str_split(&rest, ';', &name))
        return false;
    name = str_trim(name);
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (str_ieq(name, str_from(types[i].name))) {
            *ret = types[i].type;
            return true;
        }
    return false;
}

int patch_rejected(struct failure *failure, struct arena *arena)
{
    return failure_generic(failure, arena, 422, "Invalid",
                           "the server rejected our request due to an error in our request");
}

void patch_remove_nulled(struct arena *arena, struct json *object, const struct json *patch)
{
    struct json kept = {.type = JSON_OBJECT};
    size_t nulls = 0;

    JSON_EACH_MEMBER(patch, member)
        nulls += member->value.type == JSON_NULL;
    if (!nulls)
        return;
    if (nulls <= REMOVE_SINGLY_MAX) {
        JSON_EACH_MEMBER(patch, member)
            if (member->value.type == JSON_NULL)
                json_remove_str(object, (struct str){member->key, member->key_len});
        return;
    }
    JSON_EACH_MEMBER(object, member) {
        struct str key = {member->key, member->key_len};

        if (!json_is(json_get_str(patch, key), JSON_NULL))
            json_set_str(arena, &kept, key, member->value);
    }
    *object = kept;
}

static void merge(struct arena *arena, struct json *doc, const struct json *patch)
{
    if (patch->type != JSON_OBJECT) {
        *doc = *json_copy(arena, patch);
        return;
    }
    if (doc->type != JSON_OBJECT)
        *doc = (struct json){.type = JSON_OBJECT};
    patch_remove_nulled(arena, doc, patch);
    JSON_EACH_MEMBER(patch, member) {
        struct str key = {member->key, member->key_len};
        struct json *old;

        if (member->value.type == JSON_NULL)
            continue;
        old = json_get_str(doc, key);
        if (!old)
            old = json_set_str(arena, doc, key, (struct json){.type = JSON_NULL});
        merge(arena, old, &member->value);
    }
}

int patch_merge(struct arena *arena, struct json *doc, const struct json *patch, struct failure *failure)
{
    if (!json_is(patch, JSON_OBJECT))
        return failure_bad_request(
            failure, arena,
            "error decoding patch: json: cannot unmarshal %s into Go value of type map[string]interface {}",
            json_type_name(patch));
    merge(arena, doc, patch);
    return 0;
}

const char *patch_go_type(const struct json *value)
{
    static const char *const names[] = {
        [JSON_NULL] = "<nil>",
        [JSON_BOOL] = "bool",
        [JSON_INT] = "int64",
        [JSON_BIG] = "float64",
        [JSON_REAL] = "float64",
        [JSON_STRING] = "string",
        [JSON_ARRAY] = "[]interface {}",
        [JSON_OBJECT] = "map[string]interface {}",
    };

    return names[value ? value->type : JSON_NULL];
}

void patch_go_print(struct buf *out, const struct json *value)
{
    struct json sorted;
    bool first = true;

    switch (value ? value->type : JSON_NULL) {
    case JSON_NULL:
        buf_puts(out, "<nil>");
        break;
    case JSON_STRING:
        buf_str(out, json_str(value));
        break;
    case JSON_ARRAY:
        buf_putc(out, '[');
        JSON_EACH(value, item) {
            if (item != value->items->v)
                buf_putc(out, ' ');
            patch_go_print(out, item);
        }
        buf_putc(out, ']');
        break;
    case JSON_OBJECT:
        buf_puts(out, "map[");
        sorted = *value;
        json_sort_members(&sorted);
        JSON_EACH_MEMBER(&sorted, member) {
            if (!first)
                buf_putc(out, ' ');
            first = false;
            buf_add(out, member->key, member->key_len);
            buf_putc(out, ':');
            patch_go_print(out, &member->value);
        }
        buf_putc(out, ']');
        break;
    default:
        json_write(out, value);
    }
}
