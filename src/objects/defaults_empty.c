/* What an API server leaves out of its answers: empty lists, maps and texts, zeros and false, where the
 * field's absence means the same. The schema knows those fields: neither required nor a pointer. Our own
 * kinds keep what they are given. */
#include "objects/rules.h"

/* Always there, even when empty. */
static const char *const kept[] = {"reportingComponent", "reportingInstance", "managedFields", NULL};

static bool is_zero(const struct schema_field *field, const struct json *value)
{
    if (field->required || field->pointer)
        return false;
    if (field->shape != SCHEMA_ONE)
        return json_len(value) == 0 && (json_is(value, JSON_ARRAY) || json_is(value, JSON_OBJECT));
    switch (field->base) {
    case SCHEMA_STRING:
        return json_is(value, JSON_STRING) && value->len == 0;
    case SCHEMA_INT32:
    case SCHEMA_INT64:
        return json_is(value, JSON_INT) && value->integer == 0;
    case SCHEMA_BOOL:
        return json_is(value, JSON_BOOL) && !value->boolean;
    default:
        return false;
    }
}

static void drop_below(const struct schema_field *field, struct json *value)
{
    if (field->base != SCHEMA_MESSAGE || !field->type)
        return;
    if (field->shape == SCHEMA_ONE) {
        drop_empty(field->type, value);
        return;
    }
    JSON_EACH(value, item)
        drop_empty(field->type, item);
    JSON_EACH_MEMBER(value, member)
        drop_empty(field->type, &member->value);
}

void drop_empty(const struct schema_type *type, struct json *object)
{
    if (!json_is(object, JSON_OBJECT) || !type || type->inline_any)
        return;
    for (size_t i = object->len; i-- > 0;) {
        struct json_member *member = &object->members->v[i];
        struct str name = {member->key, member->key_len};
        const struct schema_field *field = schema_field_find(type, name);
        bool keep = !field;

        for (const char *const *key = kept; *key && !keep; key++)
            keep = str_is(name, *key);
        if (keep)
            continue;
        if (is_zero(field, &member->value))
            json_remove_str(object, name);
        else
            drop_below(field, &member->value);
    }
}
