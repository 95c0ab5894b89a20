/* Defaults of pods and of the pod templates in jobs. What a Pod gets beyond a template (requests copied from
 * limits, service links, host ports) is in defaults_pod; what the server decides when a pod is created
 * (status, tolerations, account) in prepare_pod. */
#include "base/clock.h"
#include "objects/names.h"
#include "objects/rules.h"

#define EVICT_AFTER_SEC      300 /* of a pod whose node is gone */
#define FILE_MODE_DEFAULT    0644
#define TOKEN_EXPIRY_SEC     3600
#define APP_ARMOR_ANNOTATION "container.apparmor.security.beta.kubernetes.io/" /* … the container's name */

static bool absent(const struct json *value)
{
    return !value || value->type == JSON_NULL;
}

void default_string(struct arena *arena, struct json *object, const char *key, const char *value)
{
    const struct json *now = json_get(object, key);

    if (absent(now) || (now->type == JSON_STRING && now->len == 0))
        json_set_string(arena, object, key, value);
}

void default_int(struct arena *arena, struct json *object, const char *key, int64_t value)
{
    if (absent(json_get(object, key)))
        json_set_int(arena, object, key, value);
}

void default_count(struct arena *arena, struct json *object, const char *key, int64_t value)
{
    if (json_int(json_get(object, key), 0) == 0)
        json_set_int(arena, object, key, value);
}

void default_bool(struct arena *arena, struct json *object, const char *key, bool value)
{
    if (absent(json_get(object, key)))
        json_set_bool(arena, object, key, value);
}

void default_quantities(struct arena *arena, struct json *list)
{
    JSON_EACH_MEMBER(list, member) {
        CLEANUP(buf_done) struct buf text = {0};

        if (member->value.type == JSON_STRING || member->value.type == JSON_NULL)
            continue;
        json_write(&text, &member->value);
        member->value = json_of_str(arena, buf_view(&text));
    }
}

void default_quantities_missing(struct arena *arena, struct json *list, const struct json *from)
{
    JSON_EACH_MEMBER(from, member)
        if (!json_get(list, member->key))
            json_set(arena, list, member->key, member->value);
}

/* "latest" when neither tag nor digest is given; "" with a digest only. */
static struct str image_tag(struct str image)
{
    struct str name = image, part;
    bool digest = false;
    const char *colon;

    for (size_t i = 0; i < image.len && !digest; i++)
        if (image.s[i] == '@') {
            name.len = i;
            digest = true;
        }
    part = name;
    for (size_t i = 0; i < name.len; i++)
        if (name.s[i] == '/')
            part = (struct str){name.s + i + 1, name.len - i - 1};
    if (!part.len)
        return STR("");
    colon = memchr(part.s, ':', part.len);
    if (colon)
        return (struct str){colon + 1, part.len - (size_t)(colon - part.s) - 1};
    return digest ? STR("") : STR("latest");
}

static void defaults_http_get(struct arena *arena, struct json *action)
{
    if (!json_is(action, JSON_OBJECT))
        return;
    default_string(arena, action, "path", "/");
    default_string(arena, action, "scheme", "HTTP");
}

static void defaults_probe(struct arena *arena, struct json *probe)
{
    struct json *grpc = json_get(probe, "grpc");

    if (!json_is(probe, JSON_OBJECT))
        return;
    if (json_is(grpc, JSON_OBJECT) && absent(json_get(grpc, "service")))
        json_set_string(arena, grpc, "service", "");
    defaults_http_get(arena, json_get(probe, "httpGet"));
    default_count(arena, probe, "timeoutSeconds", 1);
    default_count(arena, probe, "periodSeconds", 10);
    default_count(arena, probe, "successThreshold", 1);
    default_count(arena, probe, "failureThreshold", 3);
}

static void defaults_field_ref(struct arena *arena, struct json *ref)
{
    if (json_is(ref, JSON_OBJECT))
        default_string(arena, ref, "apiVersion", "v1");
}

static void defaults_resource_ref(struct arena *arena, struct json *ref)
{
    if (json_is(ref, JSON_OBJECT) && absent(json_get(ref, "divisor")))
        json_set_string(arena, ref, "divisor", "0");
}

static void defaults_container(struct arena *arena, struct json *container)
{
    static const char *const probes[] = {"livenessProbe", "readinessProbe", "startupProbe"};
    struct str image = json_str(json_get(container, "image"));
    struct json *resources;

    if (!json_is(container, JSON_OBJECT))
        return;
    JSON_EACH(json_get(container, "ports"), port)
        if (port->type == JSON_OBJECT)
            default_string(arena, port, "protocol", "TCP");
    JSON_EACH(json_get(container, "env"), env) {
        defaults_field_ref(arena, json_at(env, "valueFrom.fieldRef"));
        defaults_resource_ref(arena, json_at(env, "valueFrom.resourceFieldRef"));
    }
    for (size_t i = 0; i < ARRAY_LEN(probes); i++)
        defaults_probe(arena, json_get(container, probes[i]));
    defaults_http_get(arena, json_at(container, "lifecycle.postStart.httpGet"));
    defaults_http_get(arena, json_at(container, "lifecycle.preStop.httpGet"));
    resources = json_need_object(arena, container, "resources");
    default_quantities(arena, json_get(resources, "limits"));
    default_quantities(arena, json_get(resources, "requests"));
    default_string(arena, container, "terminationMessagePath", "/dev/termination-log");
    default_string(arena, container, "terminationMessagePolicy", "File");
    default_string(arena, container, "imagePullPolicy",
                   str_is(image_tag(image), "latest") ? "Always" : "IfNotPresent");
}

static void defaults_downward_items(struct arena *arena, struct json *items)
{
    JSON_EACH(items, item) {
        defaults_field_ref(arena, json_get(item, "fieldRef"));
        defaults_resource_ref(arena, json_get(item, "resourceFieldRef"));
    }
}

static void defaults_file_mode(struct arena *arena, struct json *source)
{
    if (json_is(source, JSON_OBJECT))
        default_int(arena, source, "defaultMode", FILE_MODE_DEFAULT);
}

static void defaults_volume(struct arena *arena, struct json *volume)
{
    static const char *const with_mode[] = {"secret", "configMap", "downwardAPI", "projected"};
    struct json *host_path, *claim;

    if (!json_is(volume, JSON_OBJECT))
        return;
    if (volume->len == (json_get(volume, "name") ? 1U : 0U))
        json_set_object(arena, volume, "emptyDir");
    for (size_t i = 0; i < ARRAY_LEN(with_mode); i++)
        defaults_file_mode(arena, json_get(volume, with_mode[i]));
    defaults_downward_items(arena, json_at(volume, "downwardAPI.items"));
    JSON_EACH(json_at(volume, "projected.sources"), source) {
        struct json *token = json_get(source, "serviceAccountToken");

        defaults_downward_items(arena, json_at(source, "downwardAPI.items"));
        if (json_is(token, JSON_OBJECT))
            default_int(arena, token, "expirationSeconds", TOKEN_EXPIRY_SEC);
    }
    host_path = json_get(volume, "hostPath");
    if (json_is(host_path, JSON_OBJECT) && absent(json_get(host_path, "type")))
        json_set_string(arena, host_path, "type", "");
    claim = json_at(volume, "ephemeral.volumeClaimTemplate.spec");
    if (json_is(claim, JSON_OBJECT))
        default_string(arena, claim, "volumeMode", "Filesystem");
}

static const char *const container_lists[] = {"initContainers", "containers", "ephemeralContainers"};

void defaults_pod_spec(struct arena *arena, struct json *spec)
{
    const char *account = json_get_string(spec, "serviceAccount");
    const char *account_name = json_get_string(spec, "serviceAccountName");

    if (!json_is(spec, JSON_OBJECT))
        return;
    for (size_t i = 0; i < ARRAY_LEN(container_lists); i++)
        JSON_EACH(json_get(spec, container_lists[i]), container)
            defaults_container(arena, container);
    JSON_EACH(json_get(spec, "volumes"), volume)
        defaults_volume(arena, volume);
    default_string(arena, spec, "restartPolicy", "Always");
    default_int(arena, spec, "terminationGracePeriodSeconds", 30);
    default_string(arena, spec, "dnsPolicy", "ClusterFirst");
    /* Two names of one field: the old one follows the new one. */
    if (account_name && *account_name)
        json_set_string(arena, spec, "serviceAccount", account_name);
    else if (account && *account)
        json_set_string(arena, spec, "serviceAccountName", account);
    json_need_object(arena, spec, "securityContext");
    default_string(arena, spec, "schedulerName", "default-scheduler");
    default_quantities(arena, json_get(spec, "overhead"));
}

static void copy_limits_to_requests(struct arena *arena, struct json *container)
{
    struct json *resources = json_get(container, "resources");
    const struct json *limits = json_get(resources, "limits");

    if (!json_is(limits, JSON_OBJECT))
        return;
    default_quantities_missing(arena, json_need_object(arena, resources, "requests"), limits);
}

static void default_host_ports(struct arena *arena, struct json *container)
{
    JSON_EACH(json_get(container, "ports"), port)
        if (json_is(port, JSON_OBJECT))
            default_count(arena, port, "hostPort", json_int(json_get(port, "containerPort"), 0));
}

/* Members that Go writes whether they are set or not. */
static void default_container_status(struct arena *arena, struct json *status)
{
    static const char *const texts[] = {"image", "imageID"}, *const states[] = {"state", "lastState"};

    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        json_need_object(arena, status, states[i]);
    if (!json_get(status, "ready"))
        json_set_bool(arena, status, "ready", false);
    default_int(arena, status, "restartCount", 0);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (!json_get(status, texts[i]))
            json_set_string(arena, status, texts[i], "");
}

void defaults_pod(const struct rule_ctx *ctx, struct json *doc)
{
    static const char *const status_lists[] = {"containerStatuses", "initContainerStatuses",
                                               "ephemeralContainerStatuses"};
    struct json *spec = json_need_object(ctx->arena, doc, "spec"), *status = json_get(doc, "status");

    if (!spec)
        return;
    defaults_pod_spec(ctx->arena, spec);
    for (size_t i = 0; i < 2; i++)
        JSON_EACH(json_get(spec, container_lists[i]), container) {
            copy_limits_to_requests(ctx->arena, container);
            if (json_bool(json_get(spec, "hostNetwork")))
                default_host_ports(ctx->arena, container);
        }
    default_bool(ctx->arena, spec, "enableServiceLinks", true);
    for (size_t i = 0; json_len(status) && i < ARRAY_LEN(status_lists); i++)
        JSON_EACH(json_get(status, status_lists[i]), container)
            if (json_is(container, JSON_OBJECT))
                default_container_status(ctx->arena, container);
}

/* ---- what the server adds to a new pod ---- */

struct qos_sums {
    struct quantity cpu, memory;
    bool has_cpu, has_memory;
};

static int add_qos(const struct json *list, struct qos_sums *sums)
{
    struct quantity q;
    int found = 0;

    if (quantity_from_json(json_get(list, "cpu"), &q) && q.nanos > 0) {
        quantity_add(&sums->cpu, &q);
        sums->has_cpu = true;
        found++;
    }
    if (quantity_from_json(json_get(list, "memory"), &q) && q.nanos > 0) {
        quantity_add(&sums->memory, &q);
        sums->has_memory = true;
        found++;
    }
    return found;
}

const char *pod_qos_class(const struct json *spec)
{
    struct qos_sums requests = {0}, limits = {0};
    bool guaranteed = true;

    for (size_t i = 0; i < 2; i++)
        JSON_EACH(json_get(spec, container_lists[i]), container) {
            add_qos(json_at(container, "resources.requests"), &requests);
            if (add_qos(json_at(container, "resources.limits"), &limits) != 2)
                guaranteed = false;
        }
    if (!requests.has_cpu && !requests.has_memory && !limits.has_cpu && !limits.has_memory)
        return "BestEffort";
    if (guaranteed && requests.has_cpu && requests.has_memory &&
        quantity_cmp(&requests.cpu, &limits.cpu) == 0 && quantity_cmp(&requests.memory, &limits.memory) == 0)
        return "Guaranteed";
    return "Burstable";
}

/* Whether the pod says itself how long it stays on a node with that taint. */
static bool tolerates(const struct json *tolerations, const char *key)
{
    JSON_EACH(tolerations, toleration) {
        const char *has_key = json_string_or(json_get(toleration, "key"), "");
        const char *effect = json_string_or(json_get(toleration, "effect"), "");

        if ((!*has_key || streq(has_key, key)) && (!*effect || streq(effect, "NoExecute")))
            return true;
    }
    return false;
}

static void add_tolerations(struct arena *arena, struct json *spec)
{
    static const char *const keys[] = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"};

    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        struct json *list = json_get(spec, "tolerations"), *item;

        if (tolerates(list, keys[i]))
            continue;
        if (!json_is(list, JSON_ARRAY))
            list = json_set_array(arena, spec, "tolerations");
        item = json_push_object(arena, list);
        json_set_string(arena, item, "key", keys[i]);
        json_set_string(arena, item, "operator", "Exists");
        json_set_string(arena, item, "effect", "NoExecute");
        json_set_int(arena, item, "tolerationSeconds", EVICT_AFTER_SEC);
    }
}

/* AppArmor profiles were said by annotation once; the field is what counts. */
static void take_app_armor(const struct rule_ctx *ctx, struct json *container, const char *key,
                           const char *value)
{
    struct json *security = json_need_object(ctx->arena, container, "securityContext"), *profile;
    const char *type = NULL;

    if (streq(value, "unconfined"))
        type = "Unconfined";
    else if (streq(value, "runtime/default"))
        type = "RuntimeDefault";
    else if (starts_with(value, "localhost/"))
        type = "Localhost";
    if (!type || !security || json_get(security, "appArmorProfile"))
        return;
    profile = json_set_object(ctx->arena, security, "appArmorProfile");
    json_set_string(ctx->arena, profile, "type", type);
    if (streq(type, "Localhost"))
        json_set_string(ctx->arena, profile, "localhostProfile", value + strlen("localhost/"));
    if (ctx->warnings)
        json_push_string(ctx->arena, ctx->warnings,
                         arena_printf(ctx->arena,
                                      "metadata.annotations[%s]: deprecated since v1.30; use the "
                                      "\"appArmorProfile\" field instead",
                                      key));
}

static void read_app_armor(const struct rule_ctx *ctx, struct json *doc)
{
    JSON_EACH_MEMBER(json_at(doc, "metadata.annotations"), annotation) {
        if (!starts_with(annotation->key, APP_ARMOR_ANNOTATION))
            continue;
        for (size_t i = 0; i < 2; i++)
            JSON_EACH(json_get(json_get(doc, "spec"), container_lists[i]), container)
                if (streq(json_get_string(container, "name"), annotation->key + strlen(APP_ARMOR_ANNOTATION)))
                    take_app_armor(ctx, container, annotation->key, json_string_or(&annotation->value, ""));
    }
}

void prepare_pod(const struct rule_ctx *ctx, struct json *doc, const struct json *old)
{
    struct json *spec = json_get(doc, "spec"), *status;

    if (!json_is(spec, JSON_OBJECT))
        return;
    add_tolerations(ctx->arena, spec);
    if (old)
        return;
    read_app_armor(ctx, doc);
    if (json_int(json_get(spec, "terminationGracePeriodSeconds"), 0) < 0)
        json_set_int(ctx->arena, spec, "terminationGracePeriodSeconds", 1);
    status = json_set_object(ctx->arena, doc, "status");
    json_set_string(ctx->arena, status, "phase", "Pending");
    json_set_string(ctx->arena, status, "qosClass", pod_qos_class(spec));
    if (json_len(json_get(spec, "schedulingGates")))
        pod_set_scheduled(ctx->arena, doc, "SchedulingGated",
                          "Scheduling is blocked due to non-empty scheduling gates", ctx->now);
}
