/* OpenAPI: one version 3 document for each group and version, with the types its kinds reach. They are kept
 * small, since kubectl downloads and reads them again and again: no merge rules (kubectl would compute
 * patches from them, slowly), no paths beyond those it looks up (explain: the list or the object;
 * --dry-run=server and
 * --validate: the query parameters of PATCH). */
#include "objects/openapi.h"

#include "base/cleanup.h"
#include "base/vec.h"
#include "objects/kind.h"
#include "objects/schema_tables.h"

#define QUANTITY_NAME      "io.k8s.apimachinery.pkg.api.resource.Quantity"
#define INT_OR_STRING_NAME "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
#define REF(name)          "{\"$ref\":\"#/components/schemas/" name "\"}"

struct document {
    char *path; /* "api/v1", "apis/batch/v1" */
    struct buf text;
    uint64_t hash;
};
static VEC(struct document) documents;
static struct buf index_text;

struct str openapi_v2_protobuf(void)
{
    return STR("\x0a\x03"
               "2.0");
}

static void add_string(struct buf *buf, const char *s)
{
    json_write_string(buf, str_from(s));
}

static void add_ref(struct buf *buf, const struct schema_type *type)
{
    buf_printf(buf, REF("%s.%s"), type->package, type->name);
}

/* Of a single value, item or map value. */
static void add_item_schema(struct buf *buf, const struct schema_field *field)
{
    static const char quantity[] = REF(QUANTITY_NAME), int_or_string[] = REF(INT_OR_STRING_NAME);
    static const char *const schemas[] = {
        [SCHEMA_STRING] = "{\"type\":\"string\"}",
        [SCHEMA_INT32] = "{\"type\":\"integer\",\"format\":\"int32\"}",
        [SCHEMA_INT64] = "{\"type\":\"integer\",\"format\":\"int64\"}",
        [SCHEMA_BOOL] = "{\"type\":\"boolean\"}",
        [SCHEMA_DOUBLE] = "{\"type\":\"number\",\"format\":\"double\"}",
        [SCHEMA_BYTES] = "{\"type\":\"string\",\"format\":\"byte\"}",
        [SCHEMA_QUANTITY] = quantity,
        [SCHEMA_TIME] = "{\"type\":\"string\",\"format\":\"date-time\"}",
        [SCHEMA_MICRO_TIME] = "{\"type\":\"string\",\"format\":\"date-time\"}",
        [SCHEMA_INT_OR_STRING] = int_or_string,
        [SCHEMA_ANY] = "{\"type\":\"object\",\"x-kubernetes-preserve-unknown-fields\":true}",
    };

    if (field->base == SCHEMA_MESSAGE)
        add_ref(buf, field->type);
    else
        buf_puts(buf, schemas[field->base]);
}

/* `$ref` takes no neighbours, so a described reference is an allOf of one. */
static void add_field(struct buf *buf, const struct schema_field *field)
{
    bool is_ref = field->base == SCHEMA_MESSAGE || field->base == SCHEMA_QUANTITY ||
                  field->base == SCHEMA_INT_OR_STRING;
    size_t at;

    add_string(buf, field->name);
    buf_puts(buf, ":{");
    if (field->doc) {
        buf_puts(buf, "\"description\":");
        add_string(buf, field->doc);
        buf_putc(buf, ',');
    }
    if (field->shape != SCHEMA_ONE) {
        buf_puts(buf, field->shape == SCHEMA_LIST ? "\"type\":\"array\",\"items\":"
                                                  : "\"type\":\"object\",\"additionalProperties\":");
        add_item_schema(buf, field);
        buf_putc(buf, '}');
        return;
    }
    if (is_ref && field->doc) {
        buf_puts(buf, "\"allOf\":[");
        add_item_schema(buf, field);
        buf_puts(buf, "]}");
        return;
    }
    at = buf->len;
    add_item_schema(buf, field);
    memmove(buf->data + at, buf->data + at + 1, buf->len - at); /* the brace is there already */
    buf->len--;
}

static void add_gvk(struct buf *buf, const struct kind *kind)
{
    buf_puts(buf, "{\"group\":");
    add_string(buf, kind->group);
    buf_puts(buf, ",\"kind\":");
    add_string(buf, kind->name);
    buf_puts(buf, ",\"version\":");
    add_string(buf, kind->version);
    buf_putc(buf, '}');
}

static void add_type(struct buf *buf, const struct schema_type *type, const struct kind *kind)
{
    const char *comma = "";

    buf_printf(buf, "\"%s.%s\":{\"type\":\"object\"", type->package, type->name);
    if (type->doc) {
        buf_puts(buf, ",\"description\":");
        add_string(buf, type->doc);
    }
    if (kind) {
        buf_puts(buf, ",\"x-kubernetes-group-version-kind\":[");
        add_gvk(buf, kind);
        buf_putc(buf, ']');
    }
    if (type->inline_any && !type->reports_unknown)
        buf_puts(buf, ",\"x-kubernetes-preserve-unknown-fields\":true");
    for (size_t i = 0; i < type->field_count; i++) {
        if (!type->fields[i].required)
            continue;
        buf_printf(buf, "%s\"%s\"", *comma ? comma : ",\"required\":[", type->fields[i].name);
        comma = ",";
    }
    buf_puts(buf, *comma ? "],\"properties\":{" : ",\"properties\":{");
    for (size_t i = 0; i < type->field_count; i++) {
        if (i > 0)
            buf_putc(buf, ',');
        add_field(buf, &type->fields[i]);
    }
    buf_puts(buf, "}}");
}

/* Marks the type and all that its fields lead to. */
static void mark_reachable(const struct schema_type *type, bool *marks)
{
    size_t i = schema_type_index(type);

    if (marks[i])
        return;
    marks[i] = true;
    for (const struct schema_field *field = type->fields; field < type->fields + type->field_count; field++)
        if (field->type)
            mark_reachable(field->type, marks);
}

static bool in_version(const struct kind *kind, const struct kind *of)
{
    return streq(kind->group, of->group) && streq(kind->version, of->version);
}

static const struct kind *kind_of_type(const struct kind *version, const struct schema_type *type)
{
    for (const struct kind *k = kinds; k < kinds + kind_count; k++)
        if (in_version(k, version) && kind_schema(k) == type)
            return k;
    return NULL;
}

static void add_schemas(struct buf *buf, const struct kind *version)
{
    const struct schema_type *type;
    CLEANUP(free) bool *marks = NULL;
    size_t count = 0;

    while (schema_type_at(count))
        count++;
    marks = mem_zalloc(count);
    for (const struct kind *k = kinds; k < kinds + kind_count; k++)
        if (in_version(k, version) && kind_schema(k))
            mark_reachable(kind_schema(k), marks);
    buf_puts(buf, "\"" QUANTITY_NAME
                  "\":{\"description\":\"An amount: a number with an optional suffix such as m, k, "
                  "Mi or Gi.\",\"oneOf\":[{\"type\":\"string\"},{\"type\":\"number\"}]},"
                  "\"" INT_OR_STRING_NAME "\":{\"description\":\"A whole number or a text.\","
                  "\"format\":\"int-or-string\",\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"string\"}]}");
    for (size_t i = 0; (type = schema_type_at(i)); i++) {
        if (!marks[i])
            continue;
        buf_putc(buf, ',');
        add_type(buf, type, kind_of_type(version, type));
    }
}

/* One operation. Parameters are those kubectl asks about before it sends them. */
static void add_operation(struct buf *buf, const char *method, const char *action, const struct kind *kind,
                          bool writes)
{
    buf_printf(buf, "\"%s\":{\"x-kubernetes-action\":\"%s\",\"x-kubernetes-group-version-kind\":", method,
               action);
    add_gvk(buf, kind);
    if (writes)
        buf_puts(buf,
                 ",\"parameters\":[{\"name\":\"dryRun\",\"in\":\"query\",\"schema\":{\"type\":\"string\"}},"
                 "{\"name\":\"fieldValidation\",\"in\":\"query\",\"schema\":{\"type\":\"string\"}}],"
                 "\"requestBody\":{\"content\":{}}");
    buf_puts(buf, ",\"responses\":{}}");
}

static void add_paths(struct buf *buf, const struct kind *kind, const char *root)
{
    if (kind->verbs & VERB_LIST) {
        buf_printf(buf, "\"/%s/%s\":{", root, kind->plural);
        add_operation(buf, "get", "list", kind, false);
    } else {
        buf_printf(buf, "\"/%s/%s%s\":{", root, kind->namespaced ? "namespaces/{namespace}/" : "",
                   kind->plural);
        add_operation(buf, "post", "post", kind, true);
    }
    buf_putc(buf, '}');
    if (kind->verbs & VERB_PATCH) {
        buf_printf(buf, ",\"/%s/%s%s/{name}\":{", root, kind->namespaced ? "namespaces/{namespace}/" : "",
                   kind->plural);
        add_operation(buf, "patch", "patch", kind, true);
        buf_putc(buf, '}');
    }
}

/* FNV-1a: the same in every process, so that what kubectl keeps stays good over restarts. */
static uint64_t hash_text(struct str text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < text.len; i++)
        hash = (hash ^ (unsigned char)text.s[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* The document of the version whose first kind this is. */
static void make_document(const struct kind *first)
{
    struct document doc = {.path = mem_printf("api%s/%s", *first->group ? "s" : "", kind_api_version(first))};
    const char *comma = "";

    buf_puts(&doc.text, "{\"openapi\":\"3.0.0\",\"info\":{\"title\":\"Berth\",\"version\":\"" BERTH_VERSION
                        "\"},\"paths\":{");
    for (const struct kind *k = first; k < kinds + kind_count; k++) {
        if (!in_version(k, first))
            continue;
        buf_puts(&doc.text, comma);
        add_paths(&doc.text, k, doc.path);
        comma = ",";
    }
    buf_puts(&doc.text, "},\"components\":{\"schemas\":{");
    add_schemas(&doc.text, first);
    buf_puts(&doc.text, "}}}");
    doc.hash = hash_text(buf_view(&doc.text));
    vec_push(&documents, doc);
}

static bool is_made(const struct kind *kind)
{
    for (const struct kind *k = kinds; k < kind; k++)
        if (in_version(k, kind))
            return true;
    return false;
}

static void make_documents(void)
{
    if (documents.len > 0)
        return;
    for (const struct kind *k = kinds; k < kinds + kind_count; k++)
        if (!is_made(k))
            make_document(k);
}

struct str openapi_v3_index(void)
{
    if (index_text.len > 0)
        return buf_view(&index_text);
    make_documents();
    buf_puts(&index_text, "{\"paths\":{");
    VEC_EACH(&documents, doc)
        buf_printf(&index_text, "%s\"%s\":{\"serverRelativeURL\":\"/openapi/v3/%s?hash=%016llX\"}",
                   doc == documents.v ? "" : ",", doc->path, doc->path, (unsigned long long)doc->hash);
    buf_puts(&index_text, "}}");
    return buf_view(&index_text);
}

struct str openapi_v3_document(const char *group_version)
{
    make_documents();
    VEC_EACH(&documents, doc)
        if (streq(doc->path, group_version))
            return buf_view(&doc->text);
    return (struct str){0};
}
