/* schema_check walks the document and the tables together. Where it is is a chain of places on the stack, so
 * that paths are only put together for messages: Kubernetes names a place in two ways, with indices for
 * unknown fields (spec.containers[0].x) and without for wrong types (Container.spec.containers.x). */
#include "objects/schema.h"

#include "base/cleanup.h"
#include "objects/schema_value.h"

#include <limits.h>

#define UNKNOWN_MAX 100 /* unknown fields that are named, as many as Kubernetes names */
#define PATH_SHOWN  512 /* bytes of a path in a message about a limit */

enum place_type { PLACE_FIELD, PLACE_INDEX, PLACE_KEY };

struct place {
    const struct place *up; /* NULL: the document */
    enum place_type type;
    struct str key;                  /* of PLACE_FIELD and PLACE_KEY */
    size_t index;                    /* of PLACE_INDEX */
    const struct schema_type *owner; /* of PLACE_FIELD: whose field it is */
};

/* Go's decoder keeps the first wrong type and goes on; what a type's own reader refuses (quantities, times)
 * ends it at once and is what it reports. So functions below return -1 to end, and note wrong types in
 * `first`. */
struct check {
    struct arena *arena;
    bool prune;
    struct schema_report *report;
    struct err *err;
    struct err first;           /* code ERR_NONE: no wrong type so far */
    char *unknown[UNKNOWN_MAX]; /* their paths */
    size_t values;              /* looked at so far */
};

/* Lists and maps whose items cost more than their text, or are compared with each other. */
static const struct {
    const char *type, *field;
    size_t max;
} short_lists[] = {
    {"PodSpec", "containers", SCHEMA_CONTAINERS_MAX},
    {"PodSpec", "initContainers", SCHEMA_CONTAINERS_MAX},
    {"PodSpec", "ephemeralContainers", SCHEMA_CONTAINERS_MAX},
    {"PodSpec", "overhead", SCHEMA_RESOURCES_MAX},
    {"ResourceRequirements", "limits", SCHEMA_RESOURCES_MAX},
    {"ResourceRequirements", "requests", SCHEMA_RESOURCES_MAX},
    {"ResourceRequirements", "claims", SCHEMA_RESOURCES_MAX},
    {"VolumeResourceRequirements", "limits", SCHEMA_RESOURCES_MAX},
    {"VolumeResourceRequirements", "requests", SCHEMA_RESOURCES_MAX},
    {"LimitRangeSpec", "limits", SCHEMA_RESOURCES_MAX},
    {"LimitRangeItem", "max", SCHEMA_RESOURCES_MAX},
    {"LimitRangeItem", "min", SCHEMA_RESOURCES_MAX},
    {"LimitRangeItem", "default", SCHEMA_RESOURCES_MAX},
    {"LimitRangeItem", "defaultRequest", SCHEMA_RESOURCES_MAX},
    {"LimitRangeItem", "maxLimitRequestRatio", SCHEMA_RESOURCES_MAX},
    {"ResourceQuotaSpec", "hard", SCHEMA_SHORT_MAX},
    {"ResourceQuotaSpec", "scopes", SCHEMA_RESOURCES_MAX},
    {"ScopeSelector", "matchExpressions", SCHEMA_RESOURCES_MAX},
    {"Container", "env", SCHEMA_SHORT_MAX},
    {"Container", "envFrom", SCHEMA_SHORT_MAX},
    {"Container", "ports", SCHEMA_SHORT_MAX},
    {"Container", "volumeMounts", SCHEMA_SHORT_MAX},
    {"Container", "volumeDevices", SCHEMA_SHORT_MAX},
    {"TrainingJobSpec", "env", SCHEMA_SHORT_MAX},
    {"PodSpec", "volumes", SCHEMA_SHORT_MAX},
    {"PodSpec", "tolerations", SCHEMA_SHORT_MAX},
    {"PodSpec", "schedulingGates", SCHEMA_SHORT_MAX},
    {"PodSpec", "imagePullSecrets", SCHEMA_SHORT_MAX},
    {"ObjectMeta", "ownerReferences", SCHEMA_SHORT_MAX},
    {"ObjectMeta", "finalizers", SCHEMA_SHORT_MAX},
    {"ObjectMeta", "managedFields", SCHEMA_MANAGERS_MAX},
    {"ServiceSpec", "ports", SCHEMA_SHORT_MAX},
};

static void add_path(struct buf *buf, const struct place *place)
{
    if (!place)
        return;
    add_path(buf, place->up);
    if (place->type == PLACE_INDEX) {
        buf_printf(buf, "[%zu]", place->index);
        return;
    }
    if (place->up)
        buf_putc(buf, '.');
    buf_str(buf, place->key);
}

/* Only the fields, without indices and keys of maps. */
static void add_field_path(struct buf *buf, const struct place *place)
{
    if (!place)
        return;
    add_field_path(buf, place->up);
    if (place->type != PLACE_FIELD)
        return;
    if (buf->len > 0)
        buf_putc(buf, '.');
    buf_str(buf, place->key);
}

static void report_unknown(struct check *check, const struct place *up, struct str key)
{
    struct place place = {.up = up, .type = PLACE_FIELD, .key = key};
    CLEANUP(buf_done) struct buf path = {0};

    if (!check->report || check->report->unknown_count >= UNKNOWN_MAX)
        return;
    add_path(&path, &place);
    check->unknown[check->report->unknown_count++] = arena_strndup(check->arena, path.data, path.len);
}

static int path_cmp(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void finish_report(struct check *check)
{
    struct schema_report *report = check->report;

    if (!report || !report->unknown_count)
        return;
    if (report->sorted)
        qsort(check->unknown, report->unknown_count, sizeof(check->unknown[0]), path_cmp);
    for (size_t i = 0; i < report->unknown_count; i++) {
        buf_puts(&report->unknown, i ? ", unknown field " : "unknown field ");
        json_write_string(&report->unknown, str_from(check->unknown[i]));
    }
}

void schema_report_done(struct schema_report *report)
{
    buf_done(&report->unknown);
    report->unknown_count = 0;
}

/* "v1.Pod": Go's package is named by the version. */
static void add_type_name(struct buf *buf, const struct schema_type *type)
{
    const char *dot = strrchr(type->package, '.');

    buf_printf(buf, "%s.%s", dot ? dot + 1 : type->package, type->name);
}

static void add_item_type(struct buf *buf, const struct schema_field *field)
{
    static const char *const names[] = {
        [SCHEMA_STRING] = "string",
        [SCHEMA_INT32] = "int32",
        [SCHEMA_INT64] = "int64",
        [SCHEMA_BOOL] = "bool",
        [SCHEMA_DOUBLE] = "float64",
        [SCHEMA_BYTES] = "[]uint8",
        [SCHEMA_QUANTITY] = "resource.Quantity",
        [SCHEMA_TIME] = "string",
        [SCHEMA_MICRO_TIME] = "string",
        [SCHEMA_INT_OR_STRING] = "int32",
        [SCHEMA_ANY] = "interface {}",
    };
    const char *item = field->go_type;

    if (item && field->shape == SCHEMA_LIST && starts_with(item, "[]"))
        item += 2;
    else if (item && field->shape == SCHEMA_MAP)
        item = starts_with(item, "map[") ? strchr(item, ']') + 1 : NULL;
    if (item)
        buf_puts(buf, item);
    else if (field->base == SCHEMA_MESSAGE)
        add_type_name(buf, field->type);
    else
        buf_puts(buf, names[field->base]);
}

static void add_whole_type(struct buf *buf, const struct schema_field *field)
{
    if (field->go_type) {
        buf_puts(buf, field->go_type);
        return;
    }
    buf_puts(buf, field->shape == SCHEMA_LIST ? "[]" : field->shape == SCHEMA_MAP ? "map[string]" : "");
    add_item_type(buf, field);
}

/* What Go calls the value; numbers that do not fit whole-number types are quoted. */
static void add_value_name(struct buf *buf, const struct json *value, bool quote_number)
{
    static const char *const names[] = {
        [JSON_NULL] = "null",   [JSON_BOOL] = "bool",     [JSON_INT] = "number",  [JSON_BIG] = "number",
        [JSON_REAL] = "number", [JSON_STRING] = "string", [JSON_ARRAY] = "array", [JSON_OBJECT] = "object",
    };

    buf_puts(buf, names[value->type]);
    if (quote_number && (value->type == JSON_INT || value->type == JSON_BIG || value->type == JSON_REAL)) {
        buf_putc(buf, ' ');
        json_write(buf, value);
    }
}

/* Says so in `to`; callers pass check->first, or check->err where the decoder would end. */
static void wrong_type(struct err *to, const struct place *place, const struct json *value, bool quote_number,
                       const char *type)
{
    CLEANUP(buf_done) struct buf what = {0}, path = {0};
    const struct place *field = place;

    while (field && field->type != PLACE_FIELD)
        field = field->up;
    add_value_name(&what, value, quote_number);
    add_field_path(&path, field);
    if (field)
        err_set(to, ERR_INVALID, "json: cannot unmarshal %s into Go struct field %s.%s of type %s", what.data,
                field->owner->name, path.data, type);
    else
        err_set(to, ERR_INVALID, "json: cannot unmarshal %s into Go value of type %s", what.data, type);
}

/* -1 for types with readers of their own. */
static int wrong_item(struct check *check, const struct place *place, const struct schema_field *field,
                      const struct json *value)
{
    bool whole =
        field->base == SCHEMA_INT32 || field->base == SCHEMA_INT64 || field->base == SCHEMA_INT_OR_STRING;
    bool ends =
        field->base == SCHEMA_TIME || field->base == SCHEMA_MICRO_TIME || field->base == SCHEMA_INT_OR_STRING;
    CLEANUP(buf_done) struct buf type = {0};

    add_item_type(&type, field);
    if (ends)
        wrong_type(check->err, place, value, whole, type.data);
    else if (check->first.code == ERR_NONE)
        wrong_type(&check->first, place, value, whole, type.data);
    return ends ? -1 : 0;
}

static int check_message(struct check *check, const struct place *place, const struct schema_type *type,
                         struct json *value);

static int too_much(struct check *check, const struct place *place, const char *what, size_t max)
{
    CLEANUP(buf_done) struct buf path = {0};

    add_path(&path, place);
    return err_set(check->err, ERR_INVALID, "%.*s: %s %zu",
                   (int)(path.len < PATH_SHOWN ? path.len : PATH_SHOWN), path.data ? path.data : "", what,
                   max);
}

static size_t list_max(const struct place *place, const struct json *value)
{
    for (size_t i = 0; i < ARRAY_LEN(short_lists); i++)
        if (str_is(place->key, short_lists[i].field) && streq(place->owner->name, short_lists[i].type))
            return short_lists[i].max;
    return value->type == JSON_ARRAY ? SCHEMA_LIST_MAX : SCHEMA_VALUES_MAX;
}

/* Whether there may be as many; before anything is made of them. */
static int count_items(struct check *check, const struct place *place, const struct json *value)
{
    if (value->len > SCHEMA_CONTAINERS_MAX && value->len > list_max(place, value))
        return too_much(check, place, "there are more items than", list_max(place, value));
    check->values += value->len;
    if (check->values > SCHEMA_VALUES_MAX)
        return too_much(check, place, "the object has more values than", SCHEMA_VALUES_MAX);
    return 0;
}

static bool fits_int32(const struct json *value)
{
    return value->type == JSON_INT && value->integer >= INT32_MIN && value->integer <= INT32_MAX;
}

/* One value, item or map value; it is not null. */
static int check_item(struct check *check, const struct place *place, const struct schema_field *field,
                      struct json *value)
{
    bool is_string = value->type == JSON_STRING, fits = true;

    switch ((enum schema_base)field->base) {
    case SCHEMA_MESSAGE:
        return check_message(check, place, field->type, value);
    case SCHEMA_QUANTITY:
        return schema_check_quantity(check->arena, value, check->err);
    case SCHEMA_TIME:
    case SCHEMA_MICRO_TIME:
        if (is_string)
            return schema_check_time(check->arena, value, field->base == SCHEMA_MICRO_TIME, check->err);
        fits = false;
        break;
    case SCHEMA_BYTES:
        if (is_string && check->first.code == ERR_NONE)
            (void)schema_check_base64(check->arena, value, &check->first);
        fits = is_string;
        break;
    case SCHEMA_STRING:
        fits = is_string;
        break;
    case SCHEMA_INT32:
        fits = fits_int32(value);
        break;
    case SCHEMA_INT64:
        fits = value->type == JSON_INT;
        break;
    case SCHEMA_INT_OR_STRING:
        fits = is_string || fits_int32(value);
        break;
    case SCHEMA_BOOL:
        fits = value->type == JSON_BOOL;
        break;
    case SCHEMA_DOUBLE:
        fits = value->type == JSON_INT || value->type == JSON_BIG || value->type == JSON_REAL;
        break;
    case SCHEMA_ANY:
        break;
    }
    return fits ? 0 : wrong_item(check, place, field, value);
}

/* What Go has in a list or map where the text says null. */
static struct json zero_value(const struct schema_field *field)
{
    switch ((enum schema_base)field->base) {
    case SCHEMA_MESSAGE:
        return (struct json){.type = JSON_OBJECT};
    case SCHEMA_QUANTITY:
        return json_of_string_ref("0");
    case SCHEMA_STRING:
    case SCHEMA_BYTES:
        return json_of_string_ref("");
    case SCHEMA_INT32:
    case SCHEMA_INT64:
    case SCHEMA_INT_OR_STRING:
    case SCHEMA_DOUBLE:
        return json_of_int(0);
    case SCHEMA_BOOL:
        return json_of_bool(false);
    case SCHEMA_TIME:
    case SCHEMA_MICRO_TIME:
    case SCHEMA_ANY:
        break;
    }
    return (struct json){.type = JSON_NULL};
}

static int check_in_container(struct check *check, const struct place *place,
                              const struct schema_field *field, struct json *value)
{
    if (value->type == JSON_NULL) {
        *value = zero_value(field);
        return 0;
    }
    return check_item(check, place, field, value);
}

static int check_list(struct check *check, const struct place *place, const struct schema_field *field,
                      struct json *value)
{
    if (count_items(check, place, value) < 0)
        return -1;
    for (size_t i = 0; i < value->len; i++) {
        struct place item = {.up = place, .type = PLACE_INDEX, .index = i};

        if (check_in_container(check, &item, field, &value->items->v[i]) < 0)
            return -1;
    }
    return 0;
}

static int check_map(struct check *check, const struct place *place, const struct schema_field *field,
                     struct json *value)
{
    if (count_items(check, place, value) < 0)
        return -1;
    JSON_EACH_MEMBER(value, member) {
        struct place item = {.up = place, .type = PLACE_KEY, .key = {member->key, member->key_len}};

        if (strlen(member->key) != member->key_len) /* names are compared as C strings later on */
            return err_set(check->err, ERR_INVALID, "%s: a key holds a NUL byte", place->key.s);
        if (check_in_container(check, &item, field, &member->value) < 0)
            return -1;
    }
    return 0;
}

static int check_field(struct check *check, const struct place *place, const struct schema_field *field,
                       struct json *value)
{
    CLEANUP(buf_done) struct buf type = {0};

    if (field->shape == SCHEMA_ONE)
        return check_item(check, place, field, value);
    if (field->shape == SCHEMA_LIST && value->type == JSON_ARRAY)
        return check_list(check, place, field, value);
    if (field->shape == SCHEMA_MAP && value->type == JSON_OBJECT)
        return check_map(check, place, field, value);
    add_whole_type(&type, field);
    if (check->first.code == ERR_NONE)
        wrong_type(&check->first, place, value, false, type.data);
    return 0;
}

/* One member; *keep says whether it stays. */
static int check_member(struct check *check, const struct place *up, const struct schema_type *type,
                        struct json_member *member, bool *keep)
{
    struct str key = {member->key, member->key_len};
    const struct schema_field *field = schema_field_find(type, key);
    struct place place = {.up = up, .type = PLACE_FIELD, .key = key, .owner = type};

    *keep = true;
    if (!field) {
        if (!type->inline_any || type->reports_unknown)
            report_unknown(check, up, key);
        if (!type->inline_any)
            *keep = !check->prune && member->value.type != JSON_NULL;
        return 0;
    }
    if (member->value.type != JSON_NULL && check_field(check, &place, field, &member->value) < 0)
        return -1;
    *keep = member->value.type != JSON_NULL;
    return 0;
}

static int check_message(struct check *check, const struct place *place, const struct schema_type *type,
                         struct json *value)
{
    CLEANUP(buf_done) struct buf name = {0};
    uint32_t kept = 0;

    if (value->type != JSON_OBJECT) {
        add_type_name(&name, type);
        if (check->first.code == ERR_NONE)
            wrong_type(&check->first, place, value, false, name.data);
        return 0;
    }
    check->values += value->len;
    if (check->values > SCHEMA_VALUES_MAX)
        return too_much(check, place, "the object has more values than", SCHEMA_VALUES_MAX);
    JSON_EACH_MEMBER(value, member) {
        bool keep;

        if (check_member(check, place, type, member, &keep) < 0)
            return -1;
        if (!keep)
            continue;
        if (&value->members->v[kept] != member)
            value->members->v[kept] = *member;
        kept++;
    }
    if (kept < value->len) { /* an index would point at the old places; lookups do without */
        value->members->index_mask = 0;
        value->members->index = NULL;
        value->len = kept;
    }
    return 0;
}

int schema_check(const struct schema_type *type, struct arena *arena, struct json *doc, bool prune,
                 struct schema_report *report, struct err *err)
{
    struct check check = {.arena = arena, .prune = prune, .report = report, .err = err};
    int r = check_message(&check, NULL, type, doc);

    finish_report(&check);
    if (r < 0)
        return -1;
    if (check.first.code == ERR_NONE)
        return 0;
    return err_set(err, check.first.code, "%s", check.first.msg);
}
