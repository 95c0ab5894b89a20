/* The tables themselves are in the .def files, read three times here: once to number the types, once for the
 * fields, once for the types. Rows are
 *
 *     TYPE(name, package, options)                the fields of a type follow, sorted by name
 *         FIELD(name, number, base, options)      one scalar
 *         LIST(name, number, base, options)       a list of scalars
 *         MAP(name, number, base, options)        string keys
 *         MESSAGE(name, number, type, options)    one message
 *         MESSAGES(name, number, type, options)   a list of messages
 *     END
 *
 * MAP_ATOMIC and MESSAGE_ATOMIC are those that server-side apply replaces whole. The options are defined
 * below. Types are sorted within each file. */
#include "objects/schema_tables.h"

#include "base/cleanup.h"
#include "objects/schema.h"

#include <assert.h>

#undef linux /* a field of that name; gnu17 makes it 1 */

#define PACKAGE_META           "io.k8s.apimachinery.pkg.apis.meta.v1"
#define PACKAGE_CORE           "io.k8s.api.core.v1"
#define PACKAGE_AUTHENTICATION "io.k8s.api.authentication.v1"
#define PACKAGE_AUTHORIZATION  "io.k8s.api.authorization.v1"
#define PACKAGE_BATCH          "io.k8s.api.batch.v1"
#define PACKAGE_COORDINATION   "io.k8s.api.coordination.v1"
#define PACKAGE_DISCOVERY      "io.k8s.api.discovery.v1"
#define PACKAGE_POLICY         "io.k8s.api.policy.v1"
#define PACKAGE_SCHEDULING     "io.k8s.api.scheduling.v1"
#define PACKAGE_STORAGE        "io.k8s.api.storage.v1"
#define PACKAGE_METRICS        "io.k8s.metrics.pkg.apis.metrics.v1beta1"
#define PACKAGE_BERTH          "dev.berth.v1"

/* Options of fields. */
#define DOC(text)        .doc = (text)
#define GO(name)         .go_type = (name)
#define POINTER          .pointer = true
#define REQUIRED         .required = true
#define RETAIN_KEYS      .retain_keys = true
#define PATCH_KEY(key)   .patch = SCHEMA_KEYED, .patch_key = (key)
#define PATCH_SET        .patch = SCHEMA_SET
#define APPLY_KEYS(keys) .apply = SCHEMA_KEYED, .apply_keys = (keys)
#define APPLY_SET        .apply = SCHEMA_SET
/* Options of types. */
#define INLINE_ANY             .inline_any = true
#define KEEPS_UNKNOWN          .inline_any = true, .reports_unknown = true
#define EMBEDS(type_, number_) .embedded = &types[TYPE_##type_], .embedded_number = (number_)

/* clang-format off */
/* Numbers of the types. */
#define TYPE(name_, package_, ...) TYPE_##name_,
#define FIELD(name_, ...)
#define LIST(name_, ...)
#define MAP(name_, ...)
#define MAP_ATOMIC(name_, ...)
#define MESSAGE(name_, ...)
#define MESSAGE_ATOMIC(name_, ...)
#define MESSAGES(name_, ...)
#define END
enum {
#include "objects/schema_meta.def"
    META_END,
    META_END_ = META_END - 1,
#include "objects/schema_core.def"
    CORE_END,
    CORE_END_ = CORE_END - 1,
#include "objects/schema_groups.def"
    GROUPS_END,
    GROUPS_END_ = GROUPS_END - 1,
#include "objects/schema_berth.def"
    TYPE_COUNT,
};
#undef TYPE
#undef FIELD
#undef LIST
#undef MAP
#undef MAP_ATOMIC
#undef MESSAGE
#undef MESSAGE_ATOMIC
#undef MESSAGES
#undef END

static const struct schema_type types[TYPE_COUNT];

/* Their fields. */
#define NAME_NUMBER(name_, number_)       .name = #name_, .name_len = sizeof(#name_) - 1, .number = (number_)
#define GRANULAR                          .patch = SCHEMA_GRANULAR, .apply = SCHEMA_GRANULAR
#define APPLY_ATOMIC                      .patch = SCHEMA_GRANULAR, .apply = SCHEMA_ATOMIC
#define OF_TYPE(type_)                    .base = SCHEMA_MESSAGE, .type = &types[TYPE_##type_]
#define TYPE(name_, package_, ...)        static const struct schema_field fields_##name_[] = {
#define FIELD(name_, number_, base_, ...) {NAME_NUMBER(name_, number_), .base = SCHEMA_##base_, __VA_ARGS__},
#define LIST(name_, number_, base_, ...)                                                                     \
    {NAME_NUMBER(name_, number_), .base = SCHEMA_##base_, .shape = SCHEMA_LIST, __VA_ARGS__},
#define MAP(name_, number_, base_, ...)                                                                      \
    {NAME_NUMBER(name_, number_), .base = SCHEMA_##base_, .shape = SCHEMA_MAP, GRANULAR, __VA_ARGS__},
#define MAP_ATOMIC(name_, number_, base_, ...)                                                               \
    {NAME_NUMBER(name_, number_), .base = SCHEMA_##base_, .shape = SCHEMA_MAP, APPLY_ATOMIC, __VA_ARGS__},
#define MESSAGE(name_, number_, type_, ...)                                                                  \
    {NAME_NUMBER(name_, number_), OF_TYPE(type_), GRANULAR, __VA_ARGS__},
#define MESSAGE_ATOMIC(name_, number_, type_, ...)                                                           \
    {NAME_NUMBER(name_, number_), OF_TYPE(type_), APPLY_ATOMIC, __VA_ARGS__},
#define MESSAGES(name_, number_, type_, ...)                                                                 \
    {NAME_NUMBER(name_, number_), OF_TYPE(type_), .shape = SCHEMA_LIST, __VA_ARGS__},
#define END                                                                                                  \
    }                                                                                                        \
    ;
#include "objects/schema_berth.def"
#include "objects/schema_core.def"
#include "objects/schema_groups.def"
#include "objects/schema_meta.def"
#undef TYPE
#undef FIELD
#undef LIST
#undef MAP
#undef MAP_ATOMIC
#undef MESSAGE
#undef MESSAGE_ATOMIC
#undef MESSAGES
#undef END

/* The types. */
#define TYPE(name_, package_, ...)                                                                           \
    [TYPE_##name_] = {.name = #name_,                                                                        \
                      .package = PACKAGE_##package_,                                                         \
                      .fields = fields_##name_,                                                              \
                      .field_count = ARRAY_LEN(fields_##name_),                                              \
                      __VA_ARGS__},
#define FIELD(name_, ...)
#define LIST(name_, ...)
#define MAP(name_, ...)
#define MAP_ATOMIC(name_, ...)
#define MESSAGE(name_, ...)
#define MESSAGE_ATOMIC(name_, ...)
#define MESSAGES(name_, ...)
#define END
static const struct schema_type types[TYPE_COUNT] = {
#include "objects/schema_berth.def"
#include "objects/schema_core.def"
#include "objects/schema_groups.def"
#include "objects/schema_meta.def"
};
/* clang-format on */

const struct schema_type *schema_type_at(size_t i)
{
    return i < TYPE_COUNT ? &types[i] : NULL;
}

size_t schema_type_index(const struct schema_type *type)
{
    assert(type >= types && type < types + TYPE_COUNT);
    return (size_t)(type - types);
}

static const struct schema_type *find_between(const char *name, size_t first, size_t end)
{
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        int order = strcmp(name, types[middle].name);

        if (order == 0)
            return &types[middle];
        if (order < 0)
            end = middle;
        else
            first = middle + 1;
    }
    return NULL;
}

const struct schema_type *schema_type_find(const char *name)
{
    static const struct {
        size_t first, end;
    } files[] = {{0, META_END}, {META_END, CORE_END}, {CORE_END, GROUPS_END}, {GROUPS_END, TYPE_COUNT}};
    const struct schema_type *found = NULL;

    for (size_t i = 0; i < ARRAY_LEN(files) && !found; i++)
        found = find_between(name, files[i].first, files[i].end);
    return found;
}

const struct schema_field *schema_field_find(const struct schema_type *type, struct str name)
{
    size_t first = 0, end = type->field_count;

    while (first < end) {
        size_t middle = first + (end - first) / 2;
        const struct schema_field *field = &type->fields[middle];
        size_t common = name.len < field->name_len ? name.len : field->name_len;
        int order = memcmp(name.s, field->name, common);

        if (order == 0)
            order = name.len < field->name_len ? -1 : name.len > field->name_len;
        if (order == 0)
            return field;
        if (order < 0)
            end = middle;
        else
            first = middle + 1;
    }
    return NULL;
}
