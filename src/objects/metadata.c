/* Names, labels and the rest of metadata. A rule for text is a function that puts the sentences about what
 * is wrong into msgs and returns how many; the sentences are those of Kubernetes' apimachinery, so that
 * users find them with a search. All of them are constants: rules need no memory. */
#include "base/clock.h"
#include "objects/rules.h"

#include <ctype.h>

#define LABEL_MAX                63
#define SUBDOMAIN_MAX            253
#define PORT_NAME_MAX            15
#define ANNOTATIONS_BYTES        (256 << 10)
#define GENERATE_BASE_MAX        58

#define REGEX(pattern, examples) " (e.g. " examples "regex used for validation is '" pattern "')"
#define LABEL_RE                 "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
#define NAME_RE                  "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
#define EDGES                    "must start and end with an alphanumeric character"
#define SUBDOMAIN_MSG                                                                                        \
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "        \
    "and " EDGES                                                                                             \
    REGEX(LABEL_RE "(\\." LABEL_RE ")*", "'example.com', ")
#define QUALIFIED_MSG                                                                                        \
    "must consist of alphanumeric characters, '-', '_' or '.', and " EDGES REGEX(                            \
        NAME_RE, "'MyName',  or 'my.name',  or '123-abc', ")
#define MAX_MSG(n) "must be no more than " #n " characters"

static bool is_lower_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_alnum(char c)
{
    return is_lower_alnum(c) || (c >= 'A' && c <= 'Z');
}

static bool all_of(struct str s, bool (*allowed)(char c))
{
    for (size_t i = 0; i < s.len; i++)
        if (!allowed(s.s[i]))
            return false;
    return true;
}

static bool is_label_char(char c)
{
    return is_lower_alnum(c) || c == '-';
}

static bool is_name_char(char c)
{
    return is_alnum(c) || c == '-' || c == '_' || c == '.';
}

static bool is_label(struct str s)
{
    return s.len && all_of(s, is_label_char) && is_lower_alnum(s.s[0]) && is_lower_alnum(s.s[s.len - 1]);
}

static bool is_subdomain(struct str s)
{
    struct str part;

    if (!s.len || s.s[s.len - 1] == '.')
        return false;
    while (str_split(&s, '.', &part))
        if (!is_label(part))
            return false;
    return true;
}

size_t rule_dns_label(struct str s, const char **msgs)
{
    size_t n = 0;

    if (s.len > LABEL_MAX)
        msgs[n++] = MAX_MSG(63);
    if (!is_label(s))
        msgs[n++] = is_subdomain(s)
                        ? "must not contain dots"
                        : "a lowercase RFC 1123 label must consist of lower case alphanumeric characters "
                          "or '-', and " EDGES REGEX(LABEL_RE, "'my-name',  or '123-abc', ");
    return n;
}

size_t rule_dns1035_label(struct str s, const char **msgs)
{
    size_t n = 0;

    if (s.len > LABEL_MAX)
        msgs[n++] = MAX_MSG(63);
    if (!is_label(s) || isdigit((unsigned char)s.s[0]))
        msgs[n++] =
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
            "alphabetic character, and end with an alphanumeric character" REGEX(
                "[a-z]([-a-z0-9]*[a-z0-9])?", "'my-name',  or 'abc-123', ");
    return n;
}

size_t rule_dns_subdomain(struct str s, const char **msgs)
{
    size_t n = 0;

    if (s.len > SUBDOMAIN_MAX)
        msgs[n++] = MAX_MSG(253);
    if (!is_subdomain(s))
        msgs[n++] = SUBDOMAIN_MSG;
    return n;
}

size_t rule_path_segment(struct str s, const char **msgs)
{
    size_t n = 0;

    if (str_is(s, ".") || str_is(s, "..")) {
        msgs[0] = s.len == 1 ? "may not be '.'" : "may not be '..'";
        return 1;
    }
    if (s.len && memchr(s.s, '/', s.len))
        msgs[n++] = "may not contain '/'";
    if (s.len && memchr(s.s, '%', s.len))
        msgs[n++] = "may not contain '%'";
    return n;
}

size_t rule_qualified_name(struct str s, const char **msgs)
{
    const char *slash = s.len ? memchr(s.s, '/', s.len) : NULL;
    struct str name = s;
    size_t n = 0;

    if (slash) {
        struct str prefix = {s.s, (size_t)(slash - s.s)};

        name = (struct str){slash + 1, s.len - prefix.len - 1};
        if (name.len && memchr(name.s, '/', name.len)) {
            msgs[0] = "a qualified name " QUALIFIED_MSG
                      " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return 1;
        }
        if (!prefix.len)
            msgs[n++] = "prefix part must be non-empty";
        else if (prefix.len > SUBDOMAIN_MAX)
            msgs[n++] = "prefix part " MAX_MSG(253);
        else if (!is_subdomain(prefix))
            msgs[n++] = "prefix part " SUBDOMAIN_MSG;
    }
    if (!name.len)
        msgs[n++] = "name part must be non-empty";
    else if (name.len > LABEL_MAX)
        msgs[n++] = "name part " MAX_MSG(63);
    if (!name.len || !all_of(name, is_name_char) || !is_alnum(name.s[0]) || !is_alnum(name.s[name.len - 1]))
        msgs[n++] = "name part " QUALIFIED_MSG;
    return n;
}

size_t rule_label_value(struct str s, const char **msgs)
{
    size_t n = 0;

    if (s.len > LABEL_MAX)
        msgs[n++] = MAX_MSG(63);
    if (s.len && (!all_of(s, is_name_char) || !is_alnum(s.s[0]) || !is_alnum(s.s[s.len - 1])))
        msgs[n++] =
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
            "and " EDGES REGEX("(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
                               "'MyValue',  or 'my_value',  or '12345', ");
    return n;
}

/* Names that start with ".." would leave the folder the keys are written to. */
static size_t dots_errors(struct str s, const char **msgs)
{
    if (str_is(s, "."))
        msgs[0] = "must not be '.'";
    else if (str_is(s, ".."))
        msgs[0] = "must not be '..'";
    else if (str_starts(s, ".."))
        msgs[0] = "must not start with '..'";
    else
        return 0;
    return 1;
}

size_t rule_config_key(struct str s, const char **msgs)
{
    size_t n = 0;

    if (s.len > SUBDOMAIN_MAX)
        msgs[n++] = MAX_MSG(253);
    if (!s.len || !all_of(s, is_name_char))
        msgs[n++] = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'" REGEX(
            "[-._a-zA-Z0-9]+", "'key.name',  or 'KEY_NAME',  or 'key-name', ");
    return n + dots_errors(s, msgs + n);
}

static bool is_env_char(char c)
{
    return c >= ' ' && c < 0x7f && c != '=';
}

size_t rule_env_name(struct str s, const char **msgs)
{
    if (!s.len)
        msgs[0] = "environment variable name must be non-empty";
    else if (!all_of(s, is_env_char))
        msgs[0] =
            "a valid environment variable name must consist only of printable ASCII characters other than "
            "'='";
    else
        return 0;
    return 1;
}

size_t rule_port_name(struct str s, const char **msgs)
{
    bool letter = false, pair = false;
    size_t n = 0;

    for (size_t i = 0; i < s.len; i++) {
        letter |= s.s[i] >= 'a' && s.s[i] <= 'z';
        pair |= i && s.s[i] == '-' && s.s[i - 1] == '-';
    }
    if (s.len > PORT_NAME_MAX)
        msgs[n++] = MAX_MSG(15);
    if (!s.len || !all_of(s, is_label_char))
        msgs[n++] = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)";
    if (!letter)
        msgs[n++] = "must contain at least one letter (a-z)";
    if (pair)
        msgs[n++] = "must not contain consecutive hyphens";
    if (s.len && (s.s[0] == '-' || s.s[s.len - 1] == '-'))
        msgs[n++] = "must not begin or end with a hyphen";
    return n;
}

bool check_str(struct field_errors *errors, const char *path, struct str s, text_rule *rule)
{
    const char *msgs[RULE_MSGS_MAX];
    size_t n = rule(s, msgs);
    struct json value;

    if (!n)
        return true;
    value = json_of_str(errors->arena, s);
    for (size_t i = 0; i < n; i++)
        field_invalid(errors, path, &value, "%s", msgs[i]);
    return false;
}

bool check_text(struct field_errors *errors, const char *path, const struct json *value, text_rule *rule)
{
    struct str s = json_str(value);

    return check_str(errors, path, s.s ? s : STR(""), rule);
}

/* ---- metadata ---- */

static text_rule *name_rule_of(const struct kind *kind)
{
    if (streq(kind->name_rule, "dns-label"))
        return rule_dns_label;
    if (streq(kind->name_rule, "dns1035-label"))
        return rule_dns1035_label;
    if (streq(kind->name_rule, "path-segment"))
        return rule_path_segment;
    return rule_dns_subdomain;
}

void check_labels(struct field_errors *errors, const char *path, const struct json *labels)
{
    JSON_EACH_MEMBER(labels, label) {
        check_str(errors, path, (struct str){label->key, label->key_len}, rule_qualified_name);
        check_text(errors, path, &label->value, rule_label_value);
    }
}

void check_annotations(struct field_errors *errors, const char *path, const struct json *annotations)
{
    size_t total = 0;

    JSON_EACH_MEMBER(annotations, annotation) {
        /* Upper case is fine in the prefix of annotations. */
        char *lower = arena_strndup(errors->arena, annotation->key, annotation->key_len);
        const char *msgs[RULE_MSGS_MAX];
        struct json key = json_of_string_ref(annotation->key);
        size_t n;

        for (char *c = lower; *c; c++)
            *c = (char)tolower((unsigned char)*c);
        n = rule_qualified_name((struct str){lower, annotation->key_len}, msgs);
        for (size_t i = 0; i < n; i++)
            field_invalid(errors, path, &key, "%s", msgs[i]);
        total += annotation->key_len + json_str(&annotation->value).len;
    }
    if (total > ANNOTATIONS_BYTES)
        field_too_long(errors, path, ANNOTATIONS_BYTES);
}

/* "v1", "batch/v1" */
static bool has_version(struct str api_version)
{
    const char *slash = memchr(api_version.s, '/', api_version.len);
    struct str rest;

    if (!slash)
        return true;
    rest = (struct str){slash + 1, api_version.len - (size_t)(slash - api_version.s) - 1};
    return rest.len && !memchr(rest.s, '/', rest.len);
}

static void check_owner(struct field_errors *errors, const char *path, const struct json *owner)
{
    static const char *const keys[][2] = {
        {"apiVersion", "version must not be empty"},
        {"kind", "kind must not be empty"},
        {"name", "name must not be empty"},
        {"uid", "uid must not be empty"},
    };
    const struct json empty = json_of_string_ref("");

    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        struct str value = json_str(json_get(owner, keys[i][0]));

        if (!value.len || (i == 0 && !has_version(value)))
            field_invalid(errors, AT(errors, "%s.%s", path, keys[i][0]),
                          value.len ? json_get(owner, keys[i][0]) : &empty, "%s", keys[i][1]);
    }
    if (streq(json_get_string(owner, "apiVersion"), "v1") && streq(json_get_string(owner, "kind"), "Event"))
        field_invalid(errors, path, owner, "/v1, Kind=Event is disallowed from being an owner");
}

static void check_owners(struct field_errors *errors, const char *path, const struct json *owners)
{
    const struct json *controller = NULL;

    JSON_EACH(owners, owner) {
        check_owner(errors, path, owner);
        if (!json_bool(json_get(owner, "controller")))
            continue;
        if (controller)
            field_invalid(errors, path, owners,
                          "Only one reference can have Controller set to true. Found \"true\" in references "
                          "for %s/%s and %s/%s",
                          json_string_or(json_get(controller, "kind"), ""),
                          json_string_or(json_get(controller, "name"), ""),
                          json_string_or(json_get(owner, "kind"), ""),
                          json_string_or(json_get(owner, "name"), ""));
        else
            controller = owner;
    }
}

static bool has_string(const struct json *array, const char *s)
{
    JSON_EACH(array, item)
        if (streq(json_string(item), s))
            return true;
    return false;
}

bool finalizer_is_known(const char *name)
{
    return strchr(name, '/') || streq(name, "kubernetes") || streq(name, "orphan") ||
           streq(name, "foregroundDeletion");
}

/* The kinds of Kubernetes' own groups also want a domain in the names of finalizers. */
static void check_finalizer_domains(const struct kind *kind, struct field_errors *errors,
                                    const struct json *finalizers)
{
    size_t i = 0;

    if (kind->id == KIND_EVENT || kind->id == KIND_LEASE || streq(kind->group, "berth.dev"))
        return;
    JSON_EACH(finalizers, finalizer) {
        size_t at = i++;

        if (!finalizer_is_known(json_string_or(finalizer, "")))
            field_invalid(errors, AT(errors, "metadata.finalizers[%zu]", at), finalizer,
                          "name is neither a standard finalizer name nor is it fully qualified");
    }
}

static void check_finalizers(struct field_errors *errors, const char *path, const struct json *finalizers)
{
    JSON_EACH(finalizers, finalizer)
        check_text(errors, path, finalizer, rule_qualified_name);
    if (has_string(finalizers, "orphan") && has_string(finalizers, "foregroundDeletion"))
        field_invalid(errors, path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set");
}

/* What is being deleted can only lose finalizers. */
static void check_no_new_finalizers(struct field_errors *errors, const struct json *now,
                                    const struct json *before)
{
    CLEANUP(buf_done) struct buf extra = {0};

    JSON_EACH(now, finalizer)
        if (!has_string(before, json_string(finalizer)))
            buf_printf(&extra, "%s\"%s\"", extra.len ? ", " : "", json_string_or(finalizer, ""));
    if (extra.len)
        field_forbidden(errors, "metadata.finalizers",
                        "no new finalizers can be added if the object is being deleted, found new finalizers "
                        "[]string{%s}",
                        extra.data);
}

bool check_immutable(struct field_errors *errors, const char *path, const struct json *value,
                     const struct json *old)
{
    if (json_equal(value, old) || (!json_present(value) && !json_present(old)))
        return true;
    field_invalid(errors, path, value, "field is immutable");
    return false;
}

static void check_metadata_update(struct field_errors *errors, const struct json *meta,
                                  const struct json *old)
{
    static const char *const fixed[] = {
        "name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"};

    if (json_get(old, "deletionTimestamp"))
        check_no_new_finalizers(errors, json_get(meta, "finalizers"), json_get(old, "finalizers"));
    for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
        check_immutable(errors, AT(errors, "metadata.%s", fixed[i]), json_get(meta, fixed[i]),
                        json_get(old, fixed[i]));
}

/* A generated name may end in a dash before its random part. */
static struct str mask_trailing_dash(struct arena *arena, struct str s)
{
    if (s.len > 1 && s.s[s.len - 1] == '-')
        return str_from(arena_printf(arena, "%.*sa", (int)s.len - 2, s.s));
    return s;
}

static void check_names(const struct kind *kind, struct field_errors *errors, const struct json *meta)
{
    text_rule *rule = name_rule_of(kind);
    struct str base = json_str(json_get(meta, "generateName")), name = json_str(json_get(meta, "name"));
    const char *ns = json_get_string(meta, "namespace");
    const char *msgs[RULE_MSGS_MAX];

    if (base.len) {
        size_t n = rule(mask_trailing_dash(errors->arena, base), msgs);

        for (size_t i = 0; i < n; i++)
            field_invalid(errors, "metadata.generateName", json_get(meta, "generateName"), "%s", msgs[i]);
    }
    if (!name.len)
        field_required(errors, "metadata.name", "name or generateName is required");
    else
        check_str(errors, "metadata.name", name, rule);
    if (kind->namespaced && (!ns || !*ns))
        field_required(errors, "metadata.namespace", "%s", "");
    else if (kind->namespaced)
        check_str(errors, "metadata.namespace", str_from(ns), rule_dns_label);
    else if (ns && *ns)
        field_forbidden(errors, "metadata.namespace", "not allowed on this type");
}

void object_check_metadata(const struct kind *kind, const struct rule_ctx *ctx, const struct json *doc,
                           const struct json *old, struct field_errors *errors)
{
    const struct json *meta = json_get(doc, "metadata");

    (void)ctx;
    if (old)
        check_metadata_update(errors, meta, json_get(old, "metadata"));
    else
        check_names(kind, errors, meta);
    check_labels(errors, "metadata.labels", json_get(meta, "labels"));
    check_annotations(errors, "metadata.annotations", json_get(meta, "annotations"));
    check_owners(errors, "metadata.ownerReferences", json_get(meta, "ownerReferences"));
    check_finalizers(errors, "metadata.finalizers", json_get(meta, "finalizers"));
    check_finalizer_domains(kind, errors, json_get(meta, "finalizers"));
}

char *object_name_after(struct arena *arena, const char *base, const uint8_t random[NAME_TAIL_LEN])
{
    static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";
    size_t len = strnlen(base, GENERATE_BASE_MAX);
    char tail[NAME_TAIL_LEN + 1] = "";

    for (size_t i = 0; i < NAME_TAIL_LEN; i++)
        tail[i] = letters[random[i] % (sizeof(letters) - 1)];
    return arena_printf(arena, "%.*s%s", (int)len, base, tail);
}
