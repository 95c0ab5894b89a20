/* What users are told about objects that are taken nevertheless: fields that hide one another, names that
 * have had their day, values that cannot mean what they say. Only new objects are looked at: who updates is
 * mostly a program, and would not read it. */
#include "objects/rules.h"

#define NANOS_PER_UNIT 1000000000
#define WARNINGS_MAX   100  /* about one object */
#define WARNING_BYTES  1024 /* of one; the rest is cut off */

static const struct {
    const char *name;
    const char *message;
} old_labels[] = {
    {"beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"},
    {"beta.kubernetes.io/instance-type",
     "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"},
    {"beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"},
    {"failure-domain.beta.kubernetes.io/region",
     "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"},
    {"failure-domain.beta.kubernetes.io/zone",
     "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"},
};

static const struct {
    const char *name; /* with / at its end: the prefix of a name */
    const char *message;
} old_annotations[] = {
    {"scheduler.alpha.kubernetes.io/critical-pod",
     "non-functional in v1.16+; use the \"priorityClassName\" field instead"},
    {"seccomp.security.alpha.kubernetes.io/pod",
     "non-functional in v1.27+; use the \"seccompProfile\" field instead"},
    {"container.seccomp.security.alpha.kubernetes.io/",
     "non-functional in v1.27+; use the \"seccompProfile\" field instead"},
    {"security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"},
    {"security.alpha.kubernetes.io/unsafe-sysctls",
     "non-functional in v1.11+; use the \"sysctls\" field instead"},
};

struct say {
    struct arena *arena;
    struct json *warnings;
    const char *path; /* before "spec": "", "spec.template." */
};

__attribute__((format(printf, 2, 3))) static void say(const struct say *to, const char *fmt, ...)
{
    CLEANUP(buf_done) struct buf text = {0};
    va_list ap;

    if (json_len(to->warnings) >= WARNINGS_MAX)
        return;
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    if (text.len > WARNING_BYTES)
        text.len = utf8_valid_len((struct str){text.data, WARNING_BYTES});
    json_push(to->arena, to->warnings, json_of_str(to->arena, buf_view(&text)));
}

/* ---- pods and templates ---- */

static void say_old_names(const struct say *to, const struct json *spec, const struct json *annotations)
{
    JSON_EACH_MEMBER(json_get(spec, "nodeSelector"), label)
        for (size_t i = 0; i < ARRAY_LEN(old_labels); i++)
            if (streq(label->key, old_labels[i].name))
                say(to, "%sspec.nodeSelector[%s]: %s", to->path, label->key, old_labels[i].message);
    JSON_EACH_MEMBER(annotations, annotation)
        for (size_t i = 0; i < ARRAY_LEN(old_annotations); i++) {
            const char *name = old_annotations[i].name;

            if (ends_with(name, "/") ? starts_with(annotation->key, name) : streq(annotation->key, name))
                say(to, "%smetadata.annotations[%s]: %s", to->path, annotation->key,
                    old_annotations[i].message);
        }
}

/* Items of one key, of which the later say nothing new. */
static void say_repeated(const struct say *to, const struct json *spec, const char *list, const char *key)
{
    struct json *seen = json_new_object(to->arena);
    size_t i = 0;

    JSON_EACH(json_get(spec, list), item) {
        const char *value = json_string_or(json_get(item, key), "");
        size_t at = i++;

        if (json_get(seen, value))
            say(to, "%sspec.%s[%zu].%s: duplicate %s \"%s\"", to->path, list, at, key, key, value);
        else
            json_set_bool(to->arena, seen, value, true);
    }
}

static void say_fractions(const struct say *to, const char *path, const struct json *resources)
{
    static const char *const names[] = {"memory", "ephemeral-storage"}, *const lists[] = {"limits",
                                                                                          "requests"};

    if (!json_len(resources))
        return;
    for (size_t n = 0; n < ARRAY_LEN(names); n++)
        for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
            const struct json *value = json_get(json_get(resources, lists[l]), names[n]);
            struct quantity q;

            if (value && quantity_from_json(value, &q) && q.nanos % NANOS_PER_UNIT)
                say(to, "%s.resources.%s[%s]: fractional byte value \"%s\" is invalid, must be an integer",
                    path, lists[l], names[n], json_string_or(value, ""));
        }
}

/* A variable may build on one of the same name before it: PATH=$(PATH):/x. */
static void say_hidden(const struct say *to, const char *path, const struct json *env)
{
    struct json *seen;
    size_t i = 0;

    if (json_len(env) < 2)
        return;
    seen = json_new_object(to->arena);
    JSON_EACH(env, var) {
        const char *name = json_string_or(json_get(var, "name"), "");
        const char *value = json_string_or(json_get(var, "value"), "");
        size_t at = i++;
        const char *ref;

        if (!json_get(seen, name)) {
            json_set_bool(to->arena, seen, name, true);
            continue;
        }
        ref = arena_printf(to->arena, "$(%s)", name);
        if (json_present(json_get(var, "valueFrom")) || streq(value, ref) || !strstr(value, ref))
            say(to, "%s.env[%zu]: hides previous definition of \"%s\", which may be dropped when using apply",
                path, at, name);
    }
}

struct port {
    const char *path;
    const struct json *json;
};

static void say_port(const struct say *to, const struct port *port, const struct port *other)
{
    const char *ip = json_string_or(json_get(port->json, "hostIP"), "");
    const char *other_ip = json_string_or(json_get(other->json, "hostIP"), "");
    int64_t host = json_int(json_get(port->json, "hostPort"), 0);
    int64_t other_host = json_int(json_get(other->json, "hostPort"), 0);

    if (json_int(json_get(port->json, "containerPort"), 0) !=
            json_int(json_get(other->json, "containerPort"), 0) ||
        !streq(json_get_string(port->json, "protocol"), json_get_string(other->json, "protocol")))
        return;
    if (streq(ip, other_ip) && host == other_host)
        say(to, "%s: duplicate port definition with %s", port->path, other->path);
    else if (!host || !other_host)
        say(to, "%s: overlapping port definition with %s", port->path, other->path);
    else if (host == other_host && !*ip != !*other_ip)
        say(to, "%s: dangerously ambiguous port definition with %s", port->path, other->path);
}

static const char *const lists[] = {"initContainers", "containers"};

#define PORTS_MAX 1000 /* that are compared with each other */

static void say_ports(const struct say *to, const struct json *spec)
{
    struct port *ports;
    size_t count = 0, len = 0;

    for (size_t l = 0; l < ARRAY_LEN(lists); l++)
        JSON_EACH(json_get(spec, lists[l]), container)
            count += json_len(json_get(container, "ports"));
    if (count < 2 || count > PORTS_MAX)
        return;
    ports = arena_alloc(to->arena, count * sizeof(*ports));
    for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
        size_t c = 0;

        JSON_EACH(json_get(spec, lists[l]), container) {
            size_t p = 0, at = c++;

            JSON_EACH(json_get(container, "ports"), port) {
                ports[len] = (struct port){
                    arena_printf(to->arena, "%sspec.%s[%zu].ports[%zu]", to->path, lists[l], at, p++), port};
                for (size_t k = 0; k < len; k++)
                    say_port(to, &ports[len], &ports[k]);
                len++;
            }
        }
    }
}

static void say_pod(const struct say *to, const struct json *spec, const struct json *annotations)
{
    say_old_names(to, spec, annotations);
    say_repeated(to, spec, "hostAliases", "ip");
    say_repeated(to, spec, "imagePullSecrets", "name");
    for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
        size_t i = 0;

        JSON_EACH(json_get(spec, lists[l]), container) {
            const char *path = arena_printf(to->arena, "%sspec.%s[%zu]", to->path, lists[l], i++);

            say_fractions(to, path, json_get(container, "resources"));
            say_hidden(to, path, json_get(container, "env"));
        }
    }
    say_ports(to, spec);
}

/* What the name becomes a host name of should fit into one. */
static void say_name(const struct say *to, const struct json *doc, const char *use)
{
    CLEANUP(buf_done) struct buf text = {0};
    const char *msgs[RULE_MSGS_MAX];
    size_t n = rule_dns_label(json_str(json_at(doc, "metadata.name")), msgs);

    for (size_t i = 0; i < n; i++)
        buf_printf(&text, "%s%s", i ? " " : "", msgs[i]);
    if (n)
        say(to,
            "metadata.name: this is used in %s, which can result in surprising behavior; a DNS label is "
            "recommended: [%s]",
            use, text.data);
}

void warnings_pod(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                  struct json *warnings)
{
    struct say to = {.arena = ctx->arena, .warnings = warnings, .path = ""};

    if (old)
        return;
    say_name(&to, doc, "the Pod's hostname");
    say_pod(&to, json_get(doc, "spec"), json_at(doc, "metadata.annotations"));
}

void warnings_job(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                  struct json *warnings)
{
    struct say to = {.arena = ctx->arena, .warnings = warnings, .path = "spec.template."};
    const struct json *spec = json_get(doc, "spec");

    if (old)
        return;
    say_name(&to, doc, "Pod names and hostnames");
    say_pod(&to, json_at(spec, "template.spec"), json_at(spec, "template.metadata.annotations"));
}

/* ---- secrets ---- */

static bool holds_pem(const struct json *value)
{
    CLEANUP(buf_done) struct buf text = {0};

    return buf_base64_decode(&text, json_str(value)) && text.data && strstr(text.data, "-----BEGIN");
}

void warnings_secret(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                     struct json *warnings)
{
    struct say to = {.arena = ctx->arena, .warnings = warnings, .path = ""};
    const struct json *data = json_get(doc, "data");

    (void)old;
    if (!streq(json_get_string(doc, "type"), "kubernetes.io/tls"))
        return;
    if (!holds_pem(json_get(data, "tls.crt")))
        say(&to, "tls: failed to find any PEM data in certificate input");
    else if (!holds_pem(json_get(data, "tls.key")))
        say(&to, "tls: failed to find any PEM data in key input");
}

void warnings_endpoint_slice(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                             struct json *warnings)
{
    struct say to = {.arena = ctx->arena, .warnings = warnings, .path = ""};

    if (!old && streq(json_get_string(doc, "addressType"), "FQDN"))
        say(&to, "spec.addressType: FQDN endpoints are deprecated");
}

/* ---- all kinds ---- */

void dedup_owners(const struct rule_ctx *ctx, struct json *metadata)
{
    CLEANUP(buf_done) struct buf repeated = {0};
    struct json *owners = json_get(metadata, "ownerReferences");
    struct say to = {.arena = ctx->arena, .warnings = ctx->warnings, .path = ""};
    struct json *seen = json_new_object(ctx->arena);
    uint32_t kept = 0;

    JSON_EACH(owners, owner) {
        const char *uid = json_string_or(json_get(owner, "uid"), "");

        if (!json_get(seen, uid)) {
            json_set_bool(ctx->arena, seen, uid, true);
            owners->items->v[kept++] = *owner;
        } else if (repeated.len < WARNING_BYTES) {
            buf_printf(&repeated, "%s%s", repeated.len ? ", " : "", uid);
        }
    }
    if (json_is(owners, JSON_ARRAY))
        owners->len = kept;
    if (repeated.len && ctx->warnings)
        say(&to,
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in "
            "1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate "
            "UID(s) observed: %s",
            repeated.data);
}
