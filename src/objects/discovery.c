/* Discovery in its two forms, from the table of kinds: groups, versions and resources appear in the order in
 * which their first kind stands there. All texts are made on first use and kept for the life of the process.
 */
#include "base/cleanup.h"
#include "base/vec.h"
#include "objects/kind.h"
#include "objects/lenient.h"
#include "objects/openapi.h"

/* Jobs under v1: without list and watch, so that who walks over all resources meets each object once. */
static const struct kind published_jobs = {
    .name = "Job",
    .plural = LENIENT_JOBS,
    .singular = LENIENT_JOB,
    .group = "",
    .version = "v1",
    .namespaced = true,
    .verbs = VERB_CREATE | VERB_DELETE | VERB_GET | VERB_PATCH | VERB_UPDATE,
};

/* A text by what was asked for. */
struct text {
    char *key;
    struct buf data;
};
static VEC(struct text) texts;

static struct str find_text(const char *key)
{
    for (size_t i = 0; i < texts.len; i++)
        if (streq(texts.v[i].key, key))
            return buf_view(&texts.v[i].data);
    return (struct str){0};
}

static struct str keep_text(const char *key, struct buf *data)
{
    struct text text = {.key = mem_strdup(key), .data = *data};

    *data = (struct buf){0};
    vec_push(&texts, text);
    return buf_view(&texts.v[texts.len - 1].data);
}

static void add_string(struct buf *buf, const char *s)
{
    json_write_string(buf, str_from(s));
}

/* `,"key":"s"` */
static void add_member(struct buf *buf, const char *key, const char *s)
{
    buf_printf(buf, ",\"%s\":", key);
    add_string(buf, s);
}

static void add_verbs(struct buf *buf, unsigned verbs)
{
    static const struct {
        unsigned verb;
        const char *name;
    } names[] = {
        {VERB_CREATE, "create"}, {VERB_DELETE, "delete"}, {VERB_DELETE_COLLECTION, "deletecollection"},
        {VERB_GET, "get"},       {VERB_LIST, "list"},     {VERB_PATCH, "patch"},
        {VERB_UPDATE, "update"}, {VERB_WATCH, "watch"},
    };
    const char *comma = "";

    buf_puts(buf, ",\"verbs\":[");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (!(verbs & names[i].verb))
            continue;
        buf_printf(buf, "%s\"%s\"", comma, names[i].name);
        comma = ",";
    }
    buf_putc(buf, ']');
}

static void add_names(struct buf *buf, const char *key, const char *const *names)
{
    if (!names || !*names)
        return;
    buf_printf(buf, ",\"%s\":[", key);
    for (size_t i = 0; names[i]; i++) {
        if (i > 0)
            buf_putc(buf, ',');
        add_string(buf, names[i]);
    }
    buf_putc(buf, ']');
}

static bool same_version(const struct kind *a, const struct kind *b)
{
    return streq(a->group, b->group) && streq(a->version, b->version);
}

/* Whether no earlier row has its group (and version). */
static bool first_of_group(const struct kind *kind)
{
    for (const struct kind *k = kinds; k < kind; k++)
        if (streq(k->group, kind->group))
            return false;
    return true;
}

static bool first_of_version(const struct kind *kind)
{
    for (const struct kind *k = kinds; k < kind; k++)
        if (same_version(k, kind))
            return false;
    return true;
}

static const struct kind *find_group(const char *group)
{
    for (const struct kind *k = kinds; k < kinds + kind_count; k++)
        if (streq(k->group, group))
            return k;
    return NULL;
}

static void add_group_version(struct buf *buf, const struct kind *kind)
{
    buf_puts(buf, "{\"groupVersion\":");
    add_string(buf, kind_api_version(kind));
    add_member(buf, "version", kind->version);
    buf_putc(buf, '}');
}

/* `"name":…,"versions":[…],"preferredVersion":…` of the group whose first kind this is */
static void add_group(struct buf *buf, const struct kind *first)
{
    const char *comma = "";

    buf_puts(buf, "\"name\":");
    add_string(buf, first->group);
    buf_puts(buf, ",\"versions\":[");
    for (const struct kind *k = first; k < kinds + kind_count; k++) {
        if (!streq(k->group, first->group) || !first_of_version(k))
            continue;
        buf_puts(buf, comma);
        add_group_version(buf, k);
        comma = ",";
    }
    buf_puts(buf, "],\"preferredVersion\":");
    add_group_version(buf, first);
}

struct str discovery_legacy_root(const char *root)
{
    CLEANUP(buf_done) struct buf buf = {0};
    struct str found = find_text(root);
    const char *comma = "";

    if (found.s)
        return found;
    if (streq(root, "/api")) {
        buf_puts(&buf, "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"],\"serverAddressByClientCIDRs\":[]}");
        return keep_text(root, &buf);
    }
    if (!streq(root, "/apis"))
        return (struct str){0};
    buf_puts(&buf, "{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":[");
    for (const struct kind *k = kinds; k < kinds + kind_count; k++) {
        if (!*k->group || !first_of_group(k))
            continue;
        buf_printf(&buf, "%s{", comma);
        add_group(&buf, k);
        buf_putc(&buf, '}');
        comma = ",";
    }
    buf_puts(&buf, "]}");
    return keep_text(root, &buf);
}

struct str discovery_legacy_group(const char *group)
{
    CLEANUP(buf_done) struct buf buf = {0}, key = {0};
    const struct kind *first = *group ? find_group(group) : NULL;
    struct str found;

    if (!first)
        return (struct str){0};
    buf_printf(&key, "/apis/%s", group);
    found = find_text(key.data);
    if (found.s)
        return found;
    buf_puts(&buf, "{\"kind\":\"APIGroup\",\"apiVersion\":\"v1\",");
    add_group(&buf, first);
    buf_putc(&buf, '}');
    return keep_text(key.data, &buf);
}

static void add_legacy_resource(struct buf *buf, const struct kind *kind)
{
    buf_puts(buf, "{\"name\":");
    add_string(buf, kind->plural);
    add_member(buf, "singularName", kind->singular);
    buf_printf(buf, ",\"namespaced\":%s", kind->namespaced ? "true" : "false");
    add_member(buf, "kind", kind->name);
    add_verbs(buf, kind->verbs);
    add_names(buf, "shortNames", kind->short_names);
    add_names(buf, "categories", kind->categories);
    buf_putc(buf, '}');
}

static void add_legacy_subresource(struct buf *buf, const struct kind *kind, const struct subresource *sub)
{
    buf_printf(buf, "{\"name\":\"%s/%s\",\"singularName\":\"\",\"namespaced\":%s", kind->plural, sub->name,
               kind->namespaced ? "true" : "false");
    if (sub->kind && (!streq(sub->group, kind->group) || !streq(sub->version, kind->version))) {
        add_member(buf, "group", sub->group);
        add_member(buf, "version", sub->version);
    }
    add_member(buf, "kind", sub->kind ? sub->kind : kind->name);
    add_verbs(buf, sub->verbs);
    buf_putc(buf, '}');
}

struct str discovery_legacy_resources(const char *group, const char *version)
{
    CLEANUP(buf_done) struct buf buf = {0}, key = {0};
    const char *comma = "";
    struct str found;

    buf_printf(&key, "resources %s/%s", group, version);
    found = find_text(key.data);
    if (found.s)
        return found;
    /* The core group's list goes without apiVersion, as it always has. */
    buf_printf(&buf,
               "{\"kind\":\"APIResourceList\",%s\"groupVersion\":", *group ? "\"apiVersion\":\"v1\"," : "");
    json_write_string(&buf, str_from(*group ? key.data + strlen("resources ") : version));
    buf_puts(&buf, ",\"resources\":[");
    for (const struct kind *k = kinds; k < kinds + kind_count; k++) {
        if (!streq(k->group, group) || !streq(k->version, version))
            continue;
        buf_puts(&buf, comma);
        comma = ",";
        add_legacy_resource(&buf, k);
        for (size_t i = 0; i < k->subresource_count; i++) {
            buf_putc(&buf, ',');
            add_legacy_subresource(&buf, k, &k->subresources[i]);
        }
    }
    if (!*group && streq(version, published_jobs.version)) {
        buf_putc(&buf, ',');
        add_legacy_resource(&buf, &published_jobs);
    }
    buf_puts(&buf, "]}");
    return *comma ? keep_text(key.data, &buf) : (struct str){0};
}

/* Group and version are left empty where they are those of the list. */
static void add_response_kind(struct buf *buf, const char *group, const char *version, const char *kind)
{
    buf_puts(buf, ",\"responseKind\":{\"group\":");
    add_string(buf, group);
    add_member(buf, "version", version);
    add_member(buf, "kind", kind);
    buf_putc(buf, '}');
}

static void add_subresource(struct buf *buf, const struct kind *kind, const struct subresource *sub)
{
    bool same = !sub->kind || (streq(sub->group, kind->group) && streq(sub->version, kind->version));

    buf_printf(buf, "{\"subresource\":\"%s\"", sub->name);
    add_response_kind(buf, same ? "" : sub->group, same ? "" : sub->version,
                      sub->kind ? sub->kind : kind->name);
    add_verbs(buf, sub->verbs);
    buf_putc(buf, '}');
}

static void add_resource(struct buf *buf, const struct kind *kind)
{
    buf_puts(buf, "{\"resource\":");
    add_string(buf, kind->plural);
    add_response_kind(buf, "", "", kind->name);
    add_member(buf, "scope", kind->namespaced ? "Namespaced" : "Cluster");
    add_member(buf, "singularResource", kind->singular);
    add_verbs(buf, kind->verbs);
    add_names(buf, "shortNames", kind->short_names);
    add_names(buf, "categories", kind->categories);
    for (size_t i = 0; i < kind->subresource_count; i++) {
        buf_puts(buf, i == 0 ? ",\"subresources\":[" : ",");
        add_subresource(buf, kind, &kind->subresources[i]);
    }
    buf_puts(buf, kind->subresource_count > 0 ? "]}" : "}");
}

static void add_version(struct buf *buf, const struct kind *first)
{
    const char *comma = "";

    buf_puts(buf, "{\"version\":");
    add_string(buf, first->version);
    buf_puts(buf, ",\"resources\":[");
    for (const struct kind *k = first; k < kinds + kind_count; k++) {
        if (!same_version(k, first))
            continue;
        buf_puts(buf, comma);
        add_resource(buf, k);
        comma = ",";
    }
    if (same_version(first, &published_jobs)) {
        buf_putc(buf, ',');
        add_resource(buf, &published_jobs);
    }
    buf_puts(buf, "],\"freshness\":\"Current\"}");
}

static void add_aggregated_group(struct buf *buf, const struct kind *first)
{
    const char *comma = "";

    buf_puts(buf, "{\"metadata\":{");
    if (*first->group) {
        buf_puts(buf, "\"name\":");
        add_string(buf, first->group);
    }
    buf_puts(buf, "},\"versions\":[");
    for (const struct kind *k = first; k < kinds + kind_count; k++) {
        if (!streq(k->group, first->group) || !first_of_version(k))
            continue;
        buf_puts(buf, comma);
        add_version(buf, k);
        comma = ",";
    }
    buf_puts(buf, "]}");
}

struct str discovery_aggregated(const char *root, const char *version)
{
    CLEANUP(buf_done) struct buf buf = {0}, key = {0};
    bool core = streq(root, "/api");
    const char *comma = "";
    struct str found;

    if ((!core && !streq(root, "/apis")) || (!streq(version, "v2") && !streq(version, "v2beta1")))
        return (struct str){0};
    buf_printf(&key, "aggregated %s %s", root, version);
    found = find_text(key.data);
    if (found.s)
        return found;
    buf_printf(
        &buf,
        "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/%s\",\"metadata\":{},"
        "\"items\":[",
        version);
    for (const struct kind *k = kinds; k < kinds + kind_count; k++) {
        if (core == (*k->group != '\0') || !first_of_group(k))
            continue;
        buf_puts(&buf, comma);
        add_aggregated_group(&buf, k);
        comma = ",";
    }
    buf_puts(&buf, "]}");
    return keep_text(key.data, &buf);
}
