/* Protobuf bodies are read by the schema tables: a tag's number finds the field, the field says what the
 * bytes mean. Kubernetes writes zero values of plain members although they mean "not set", and members that
 * are pointers in Go only when they are set; a field's `pointer` tells which it is.
 *
 * Limits: the type tables are not recursive, so nesting is theirs; DEPTH_MAX guards that. VALUES_MAX bounds
 * what a small body can be blown up to. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "objects/schema.h"
#include "objects/schema_value.h"

#define MAGIC      "k8s\0"
#define BODY_MAX   (32 << 20) /* bytes */
#define VALUES_MAX 2000000    /* list items, map entries and messages of one body */
#define DEPTH_MAX  40         /* nested messages */

enum wire { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

struct decoder {
    struct arena *arena;
    struct err *err;
    size_t values;
};

struct input {
    const uint8_t *at, *end;
};

/* One field as it stands in the bytes. */
struct item {
    uint32_t number;
    enum wire wire;
    uint64_t integer;   /* of VARINT, FIXED64, FIXED32 */
    struct input bytes; /* of BYTES */
};

static int bad(const struct decoder *d, const char *what)
{
    return err_set(d->err, ERR_INVALID, "protobuf: %s", what);
}

static bool read_varint(struct input *in, uint64_t *ret)
{
    uint64_t n = 0;

    for (unsigned shift = 0; shift < 64 && in->at < in->end; shift += 7) {
        uint8_t byte = *in->at++;

        if (shift == 63 && byte > 1)
            return false;
        n |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *ret = n;
            return true;
        }
    }
    return false;
}

static bool read_fixed(struct input *in, size_t size, uint64_t *ret)
{
    if ((size_t)(in->end - in->at) < size)
        return false;
    *ret = 0;
    for (size_t i = 0; i < size; i++)
        *ret |= (uint64_t)in->at[i] << (8 * i);
    in->at += size;
    return true;
}

static bool read_bytes(struct input *in, struct input *ret)
{
    uint64_t len;

    if (!read_varint(in, &len) || len > (uint64_t)(in->end - in->at))
        return false;
    *ret = (struct input){in->at, in->at + len};
    in->at += len;
    return true;
}

static int read_item(const struct decoder *d, struct input *in, struct item *ret)
{
    uint64_t tag;
    bool ok = false;

    *ret = (struct item){0};
    if (!read_varint(in, &tag) || tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
        return bad(d, "bad field tag");
    ret->number = (uint32_t)(tag >> 3);
    ret->wire = (enum wire)(tag & 7);
    switch (ret->wire) {
    case WIRE_VARINT:
        ok = read_varint(in, &ret->integer);
        break;
    case WIRE_FIXED64:
        ok = read_fixed(in, 8, &ret->integer);
        break;
    case WIRE_BYTES:
        ok = read_bytes(in, &ret->bytes);
        break;
    case WIRE_FIXED32:
        ok = read_fixed(in, 4, &ret->integer);
        break;
    }
    return ok ? 0 : bad(d, "field is cut off or of unknown form");
}

static struct str input_str(struct input in)
{
    return (struct str){(const char *)in.at, (size_t)(in.end - in.at)};
}

static int wrong_wire(const struct decoder *d, const struct schema_field *field)
{
    return err_set(d->err, ERR_INVALID, "protobuf: field %s is of another type", field->name);
}

static int count_value(struct decoder *d)
{
    return ++d->values > VALUES_MAX ? err_set(d->err, ERR_LIMIT, "protobuf: more than %d values", VALUES_MAX)
                                    : 0;
}

static int decode_string(const struct decoder *d, struct input in, struct json *ret)
{
    struct str s = input_str(in);

    if (!utf8_valid(s))
        return bad(d, "string is not UTF-8");
    *ret = json_of_str(d->arena, s);
    return 0;
}

static void decode_bytes(const struct decoder *d, struct input in, struct json *ret)
{
    CLEANUP(buf_done) struct buf text = {0};

    buf_base64(&text, input_str(in));
    *ret = json_of_str(d->arena, buf_view(&text));
}

/* A message of a few scalar fields: their last values, by number 1 to max. */
static int read_small(const struct decoder *d, struct input in, struct item *items, size_t max)
{
    memset(items, 0, (max + 1) * sizeof(*items));
    while (in.at < in.end) {
        struct item item;

        if (read_item(d, &in, &item) < 0)
            return -1;
        if (item.number <= max)
            items[item.number] = item;
    }
    return 0;
}

/* Quantity: {1: string}; none is zero. */
static int decode_quantity(const struct decoder *d, struct input in, struct json *ret)
{
    struct item items[2];

    if (read_small(d, in, items, 1) < 0 || decode_string(d, items[1].bytes, ret) < 0)
        return -1;
    if (ret->len == 0)
        *ret = json_of_string_ref("0");
    return schema_check_quantity(d->arena, ret, d->err);
}

/* Time and MicroTime: {1: seconds, 2: nanoseconds}; empty is Go's zero time, null here. */
static int decode_time(const struct decoder *d, struct input in, bool micro, struct json *ret)
{
    struct item items[3];
    char text[SCHEMA_TIME_TEXT_MAX];

    *ret = (struct json){.type = JSON_NULL};
    if (in.at == in.end)
        return 0;
    if (read_small(d, in, items, 2) < 0)
        return -1;
    if (items[2].integer >= (uint64_t)NSEC_PER_SEC ||
        !schema_time_text((int64_t)items[1].integer, micro ? (int64_t)items[2].integer / 1000 : -1, text))
        return bad(d, "time is out of range");
    *ret = json_of_str(d->arena, str_from(text));
    return 0;
}

/* IntOrString: {1: which, 2: number, 3: text} */
static int decode_int_or_string(const struct decoder *d, struct input in, struct json *ret)
{
    struct item items[4];

    if (read_small(d, in, items, 3) < 0)
        return -1;
    if (items[1].integer != 0)
        return decode_string(d, items[3].bytes, ret);
    *ret = json_of_int((int32_t)items[2].integer);
    return 0;
}

/* RawExtension and FieldsV1: {1: JSON text} */
static int decode_any(const struct decoder *d, struct input in, struct json *ret)
{
    struct item items[2];
    struct json *value;

    *ret = (struct json){.type = JSON_NULL};
    if (read_small(d, in, items, 1) < 0)
        return -1;
    if (items[1].bytes.at == items[1].bytes.end)
        return 0;
    if (json_parse(input_str(items[1].bytes), d->arena, &value, NULL, d->err) < 0)
        return -1;
    *ret = *value;
    return 0;
}

static enum wire wire_of(const struct schema_field *field)
{
    switch ((enum schema_base)field->base) {
    case SCHEMA_INT32:
    case SCHEMA_INT64:
    case SCHEMA_BOOL:
        return WIRE_VARINT;
    case SCHEMA_DOUBLE:
        return WIRE_FIXED64;
    default:
        return WIRE_BYTES;
    }
}

static int decode_message(struct decoder *d, const struct schema_type *type, struct input in,
                          struct json *object, int depth);

/* ret holds what stood there before, for messages: they merge. */
static int decode_value(struct decoder *d, const struct schema_field *field, const struct item *item,
                        struct json *ret, int depth)
{
    double real;

    if (item->wire != wire_of(field))
        return wrong_wire(d, field);
    switch ((enum schema_base)field->base) {
    case SCHEMA_STRING:
        return decode_string(d, item->bytes, ret);
    case SCHEMA_INT32:
        *ret = json_of_int((int32_t)item->integer);
        return 0;
    case SCHEMA_INT64:
        *ret = json_of_int((int64_t)item->integer);
        return 0;
    case SCHEMA_BOOL:
        *ret = json_of_bool(item->integer != 0);
        return 0;
    case SCHEMA_DOUBLE:
        memcpy(&real, &item->integer, sizeof(real));
        *ret = json_of_real(real);
        return 0;
    case SCHEMA_BYTES:
        decode_bytes(d, item->bytes, ret);
        return 0;
    case SCHEMA_QUANTITY:
        return decode_quantity(d, item->bytes, ret);
    case SCHEMA_TIME:
    case SCHEMA_MICRO_TIME:
        return decode_time(d, item->bytes, field->base == SCHEMA_MICRO_TIME, ret);
    case SCHEMA_INT_OR_STRING:
        return decode_int_or_string(d, item->bytes, ret);
    case SCHEMA_ANY:
        return decode_any(d, item->bytes, ret);
    case SCHEMA_MESSAGE:
        if (ret->type != JSON_OBJECT)
            *ret = (struct json){.type = JSON_OBJECT};
        return decode_message(d, field->type, item->bytes, ret, depth + 1);
    }
    return bad(d, "unknown type");
}

/* What means "not set" where Go has no pointer. */
static bool is_zero(const struct schema_field *field, const struct json *value)
{
    switch ((enum json_type)value->type) {
    case JSON_NULL:
        return true;
    case JSON_BOOL:
        return !value->boolean;
    case JSON_INT:
        return value->integer == 0;
    case JSON_REAL:
        return value->real == 0;
    case JSON_STRING:
        return value->len == 0 || (field->base == SCHEMA_QUANTITY && str_is(json_str(value), "0"));
    case JSON_OBJECT:
        return value->len == 0;
    case JSON_ARRAY:
    case JSON_BIG:
        break;
    }
    return false;
}

static int decode_one(struct decoder *d, const struct schema_field *field, const struct item *item,
                      struct json *object, int depth)
{
    const struct json *before = json_get(object, field->name);
    struct json value = before ? *before : (struct json){.type = JSON_NULL};

    if (decode_value(d, field, item, &value, depth) < 0)
        return -1;
    if (value.type == JSON_NULL || (!field->pointer && is_zero(field, &value)))
        json_remove(object, field->name);
    else
        json_set(d->arena, object, field->name, value);
    return 0;
}

/* Whole numbers may come one by one or packed. */
static int decode_packed(struct decoder *d, const struct schema_field *field, struct input in,
                         struct json *list)
{
    while (in.at < in.end) {
        struct item item = {.wire = WIRE_VARINT};
        struct json value;

        if (!read_varint(&in, &item.integer))
            return bad(d, "packed list is cut off");
        if (count_value(d) < 0 || decode_value(d, field, &item, &value, 0) < 0)
            return -1;
        json_push(d->arena, list, value);
    }
    return 0;
}

static struct json *need_array(struct decoder *d, struct json *object, const char *key)
{
    struct json *list = json_get(object, key);

    return list ? list : json_set_array(d->arena, object, key);
}

static int decode_list_item(struct decoder *d, const struct schema_field *field, const struct item *item,
                            struct json *object, int depth)
{
    struct json *list = need_array(d, object, field->name);
    struct json value = {.type = JSON_NULL};

    if (item->wire == WIRE_BYTES && wire_of(field) == WIRE_VARINT)
        return decode_packed(d, field, item->bytes, list);
    if (count_value(d) < 0 || decode_value(d, field, item, &value, depth) < 0)
        return -1;
    json_push(d->arena, list, value);
    return 0;
}

/* {1: key, 2: value}; an absent value is the zero value. */
static int decode_map_entry(struct decoder *d, const struct schema_field *field, const struct item *item,
                            struct json *object, int depth)
{
    struct item parts[3];
    struct json value = {.type = JSON_NULL}, *map;
    struct str key;

    if (item->wire != WIRE_BYTES)
        return wrong_wire(d, field);
    if (count_value(d) < 0 || read_small(d, item->bytes, parts, 2) < 0)
        return -1;
    key = input_str(parts[1].bytes);
    if (!utf8_valid(key))
        return bad(d, "key is not UTF-8");
    if (key.len && memchr(key.s, '\0', key.len))
        return bad(d, "a key holds a NUL byte");
    if (parts[2].number == 0)
        parts[2].wire = wire_of(field);
    if (decode_value(d, field, &parts[2], &value, depth) < 0)
        return -1;
    map = json_need_object(d->arena, object, field->name);
    json_set_str(d->arena, map, key, value);
    return 0;
}

static const struct schema_field *field_by_number(const struct schema_type *type, uint32_t number)
{
    for (const struct schema_field *field = type->fields; field < type->fields + type->field_count; field++)
        if (field->number == number)
            return field;
    return NULL;
}

static int decode_field(struct decoder *d, const struct schema_type *type, const struct item *item,
                        struct json *object, int depth)
{
    const struct schema_field *field;

    if (type->embedded && item->number == type->embedded_number) {
        if (item->wire != WIRE_BYTES)
            return bad(d, "embedded message is of another type");
        return decode_message(d, type->embedded, item->bytes, object, depth + 1);
    }
    field = field_by_number(type, item->number);
    if (!field)
        return 0; /* of a newer version */
    switch ((enum schema_shape)field->shape) {
    case SCHEMA_LIST:
        return decode_list_item(d, field, item, object, depth);
    case SCHEMA_MAP:
        return decode_map_entry(d, field, item, object, depth);
    case SCHEMA_ONE:
        break;
    }
    return decode_one(d, field, item, object, depth);
}

static int decode_message(struct decoder *d, const struct schema_type *type, struct input in,
                          struct json *object, int depth)
{
    if (depth > DEPTH_MAX)
        return bad(d, "messages are nested too deeply");
    if (count_value(d) < 0)
        return -1;
    while (in.at < in.end) {
        struct item item;

        if (read_item(d, &in, &item) < 0 || decode_field(d, type, &item, object, depth) < 0)
            return -1;
    }
    return 0;
}

/* The envelope: {1: {1: apiVersion, 2: kind}, 2: the message, 3: contentEncoding, 4: contentType} */
struct envelope {
    struct json api_version, kind;
    struct input raw;
};

static int read_envelope(const struct decoder *d, struct str body, struct envelope *ret)
{
    struct item outer[5], meta[3];
    struct input in;

    if (body.len < sizeof(MAGIC) - 1 || memcmp(body.s, MAGIC, sizeof(MAGIC) - 1) != 0)
        return err_set(
            d->err, ERR_INVALID,
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]");
    if (body.len > BODY_MAX)
        return err_set(d->err, ERR_LIMIT, "protobuf: the body is larger than %d bytes", BODY_MAX);
    in.at = (const uint8_t *)body.s + sizeof(MAGIC) - 1;
    in.end = (const uint8_t *)body.s + body.len;
    if (read_small(d, in, outer, 4) < 0 || read_small(d, outer[1].bytes, meta, 2) < 0 ||
        decode_string(d, meta[1].bytes, &ret->api_version) < 0 ||
        decode_string(d, meta[2].bytes, &ret->kind) < 0)
        return -1;
    if (outer[3].bytes.at != outer[3].bytes.end)
        return err_set(d->err, ERR_UNSUPPORTED, "protobuf: encoded content is not supported");
    ret->raw = outer[2].bytes;
    return 0;
}

/* The kind's type, when it is that of the API version: other versions of a group have other numbers. What all
 * groups share (DeleteOptions) goes by any version. */
static const struct schema_type *find_type(const char *api_version, const char *kind)
{
    static const struct {
        const char *package, *api_version;
    } packages[] = {
        {"io.k8s.api.core.v1", "v1"},
        {"io.k8s.api.authentication.v1", "authentication.k8s.io/v1"},
        {"io.k8s.api.authorization.v1", "authorization.k8s.io/v1"},
        {"io.k8s.api.batch.v1", "batch/v1"},
        {"io.k8s.api.coordination.v1", "coordination.k8s.io/v1"},
        {"io.k8s.api.discovery.v1", "discovery.k8s.io/v1"},
        {"io.k8s.api.policy.v1", "policy/v1"},
        {"io.k8s.api.scheduling.v1", "scheduling.k8s.io/v1"},
        {"io.k8s.api.storage.v1", "storage.k8s.io/v1"},
        {"io.k8s.apimachinery.pkg.apis.meta.v1", NULL},
    };
    const struct schema_type *type = schema_type_find(kind);

    if (!type || !schema_field_find(type, STR("apiVersion")))
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(packages); i++)
        if (streq(type->package, packages[i].package))
            return !packages[i].api_version || streq(api_version, packages[i].api_version) ? type : NULL;
    return NULL;
}

int schema_from_protobuf(struct str body, struct arena *arena, struct json **ret, struct err *err)
{
    struct decoder d = {.arena = arena, .err = err};
    const struct schema_type *type;
    struct envelope envelope;
    struct json *doc;

    if (read_envelope(&d, body, &envelope) < 0)
        return -1;
    type = find_type(envelope.api_version.string, envelope.kind.string);
    if (!type)
        return err_set(
            err, ERR_UNSUPPORTED,
            "no kind \"%s\" is registered for version \"%s\" in scheme \"pkg/runtime/scheme.go:110\"",
            envelope.kind.string, envelope.api_version.string);
    doc = json_new_object(arena);
    json_set(arena, doc, "kind", envelope.kind);
    json_set(arena, doc, "apiVersion", envelope.api_version);
    if (decode_message(&d, type, envelope.raw, doc, 1) < 0)
        return -1;
    *ret = doc;
    return 0;
}
