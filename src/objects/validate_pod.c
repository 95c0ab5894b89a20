/* Pods and the pod templates of jobs: what is in the spec beside containers and volumes, and what may change
 * once a pod exists. */
#include "objects/rules.h"

#define DNS_NAMESERVERS_MAX 3
#define DNS_SEARCHES_MAX    32

static void check_names_in_spec(const struct pod_check *check)
{
    static const struct {
        const char *key;
        text_rule *rule;
    } names[] = {
        {"serviceAccountName", rule_dns_subdomain},
        {"nodeName", rule_dns_subdomain},
        {"hostname", rule_dns_label},
        {"subdomain", rule_dns_label},
        {"priorityClassName", rule_dns_subdomain},
        {"runtimeClassName", rule_dns_subdomain},
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const struct json *value = json_get(check->spec, names[i].key);

        if (json_str(value).len)
            check_text(check->errors, AT(check->errors, "%s.%s", check->path, names[i].key), value,
                       names[i].rule);
    }
}

static void check_pod_security(const struct pod_check *check)
{
    static const char *const ids[] = {"fsGroup", "runAsUser", "runAsGroup"};
    static const char *const policies[] = {"Always", "OnRootMismatch", NULL};
    struct field_errors *errors = check->errors;
    const struct json *security = json_get(check->spec, "securityContext");
    const char *path = AT(errors, "%s.securityContext", check->path);
    size_t i = 0;

    for (size_t k = 0; k < ARRAY_LEN(ids); k++)
        check_range(errors, AT(errors, "%s.%s", path, ids[k]), json_get(security, ids[k]), 0, INT32_MAX);
    JSON_EACH(json_get(security, "supplementalGroups"), group)
        check_range(errors, AT(errors, "%s.supplementalGroups[%zu]", path, i++), group, 0, INT32_MAX);
    if (json_present(json_get(security, "fsGroupChangePolicy")))
        check_one_of(errors, AT(errors, "%s.fsGroupChangePolicy", path),
                     json_get(security, "fsGroupChangePolicy"), policies);
    if (json_bool(json_get(check->spec, "hostPID")) &&
        json_bool(json_get(check->spec, "shareProcessNamespace")))
        field_invalid(errors, AT(errors, "%s.shareProcessNamespace", path),
                      json_get(check->spec, "shareProcessNamespace"),
                      "ShareProcessNamespace and HostPID cannot both be enabled");
}

static void check_host_network(const struct pod_check *check)
{
    const struct json zero = json_of_int(0);
    size_t c = 0;

    if (!json_bool(json_get(check->spec, "hostNetwork")))
        return;
    JSON_EACH(json_get(check->spec, "containers"), container) {
        size_t p = 0, index = c++;

        JSON_EACH(json_get(container, "ports"), port) {
            const struct json *host = json_get(port, "hostPort");
            size_t at = p++;

            if ((check->is_pod || json_int(host, 0)) &&
                json_int(host, 0) != json_int(json_get(port, "containerPort"), 0))
                field_invalid(
                    check->errors,
                    AT(check->errors, "%s.containers[%zu].ports[%zu].hostPort", check->path, index, at),
                    host ? host : &zero, "must match `containerPort` when `hostNetwork` is true");
        }
    }
}

static void check_dns_config(const struct pod_check *check)
{
    struct field_errors *errors = check->errors;
    const struct json *config = json_get(check->spec, "dnsConfig");
    const struct json *servers = json_get(config, "nameservers"), *searches = json_get(config, "searches");
    const char *path = AT(errors, "%s.dnsConfig", check->path);
    size_t i = 0;

    if (streq(json_get_string(check->spec, "dnsPolicy"), "None")) {
        if (!json_present(config))
            field_required(errors, path, "must provide `dnsConfig` when `dnsPolicy` is None");
        else if (!json_len(servers))
            field_required(errors, AT(errors, "%s.nameservers", path),
                           "must provide at least one DNS nameserver when `dnsPolicy` is None");
    }
    if (json_len(servers) > DNS_NAMESERVERS_MAX)
        field_invalid(errors, AT(errors, "%s.nameservers", path), servers,
                      "must not have more than %d nameservers", DNS_NAMESERVERS_MAX);
    if (json_len(searches) > DNS_SEARCHES_MAX)
        field_invalid(errors, AT(errors, "%s.searches", path), searches,
                      "must not have more than %d search paths", DNS_SEARCHES_MAX);
    JSON_EACH(servers, server)
        check_ip(errors, AT(errors, "%s.nameservers[%zu]", path, i++), server);
    i = 0;
    JSON_EACH(json_get(config, "options"), option) {
        size_t at = i++;

        if (!json_str(json_get(option, "name")).len)
            field_required(errors, AT(errors, "%s.options[%zu]", path, at), "must not be empty");
    }
}

static void check_host_aliases(const struct pod_check *check)
{
    struct field_errors *errors = check->errors;
    size_t i = 0;

    JSON_EACH(json_get(check->spec, "hostAliases"), alias) {
        const char *path = AT(errors, "%s.hostAliases[%zu]", check->path, i++);
        size_t k = 0;

        check_ip(errors, AT(errors, "%s.ip", path), json_get(alias, "ip"));
        JSON_EACH(json_get(alias, "hostnames"), name)
            check_text(errors, AT(errors, "%s.hostnames[%zu]", path, k++), name, rule_dns_subdomain);
    }
}

static void check_gates(const struct pod_check *check)
{
    struct field_errors *errors = check->errors;
    struct json *seen = json_new_object(errors->arena);
    size_t i = 0, k = 0;

    JSON_EACH(json_get(check->spec, "readinessGates"), gate)
        check_text(errors, AT(errors, "%s.readinessGates[%zu].conditionType", check->path, i++),
                   json_get(gate, "conditionType"), rule_qualified_name);
    JSON_EACH(json_get(check->spec, "schedulingGates"), gate) {
        const char *path = AT(errors, "%s.schedulingGates[%zu]", check->path, k++);
        const struct json *name = json_get(gate, "name");

        check_text(errors, path, name, rule_qualified_name);
        if (json_get(seen, json_string_or(name, "")))
            field_duplicate(errors, path, name);
        json_set_bool(errors->arena, seen, json_string_or(name, ""), true);
    }
}

static void check_scalars(const struct pod_check *check)
{
    static const char *const restart[] = {"Always", "OnFailure", "Never", NULL};
    static const char *const dns[] = {"ClusterFirstWithHostNet", "ClusterFirst", "Default", "None", NULL};
    static const char *const preemption[] = {"PreemptLowerPriority", "Never", NULL};
    static const char *const systems[] = {"linux", "windows", NULL};
    struct field_errors *errors = check->errors;
    const struct json *spec = check->spec, *policy = json_get(spec, "preemptionPolicy");

    check_one_of(errors, AT(errors, "%s.restartPolicy", check->path), json_get(spec, "restartPolicy"),
                 restart);
    check_one_of(errors, AT(errors, "%s.dnsPolicy", check->path), json_get(spec, "dnsPolicy"), dns);
    check_range(errors, AT(errors, "%s.activeDeadlineSeconds", check->path),
                json_get(spec, "activeDeadlineSeconds"), 1, INT32_MAX);
    if (json_present(policy))
        check_one_of(errors, AT(errors, "%s.preemptionPolicy", check->path), policy, preemption);
    if (json_present(json_get(spec, "os")))
        check_one_of(errors, AT(errors, "%s.os", check->path), json_at(spec, "os.name"), systems);
}

void check_pod_spec(struct field_errors *errors, const char *path, const struct json *spec, bool is_pod)
{
    struct pod_check check = {.errors = errors, .path = path, .spec = spec, .is_pod = is_pod};

    check_volumes(&check);
    check_containers(&check);
    check_host_network(&check);
    check_scalars(&check);
    check_labels(errors, AT(errors, "%s.nodeSelector", path), json_get(spec, "nodeSelector"));
    check_pod_security(&check);
    check_affinity(errors, AT(errors, "%s.affinity", path), json_get(spec, "affinity"));
    check_dns_config(&check);
    check_gates(&check);
    check_spread(errors, AT(errors, "%s.topologySpreadConstraints", path),
                 json_get(spec, "topologySpreadConstraints"));
    check_names_in_spec(&check);
    check_tolerations(errors, AT(errors, "%s.tolerations", path), json_get(spec, "tolerations"));
    check_host_aliases(&check);
}

/* ---- changes ---- */

#define POD_UPDATES                                                                                          \
    "pod updates may not change fields other than `spec.containers[*].image`,"                               \
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "     \
    "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "         \
    "previously negative)\n"

static bool check_same_containers(struct field_errors *errors, const struct json *spec,
                                  const struct json *old, const char *key)
{
    if (json_len(json_get(spec, key)) == json_len(json_get(old, key)))
        return true;
    field_forbidden(errors, AT(errors, "spec.%s", key), "pod updates may not add or remove containers");
    return false;
}

static bool check_deadline_update(struct field_errors *errors, const struct json *spec,
                                  const struct json *old)
{
    const struct json *now = json_get(spec, "activeDeadlineSeconds");
    const struct json *before = json_get(old, "activeDeadlineSeconds");

    if (!json_present(now)) {
        if (json_present(before))
            field_invalid(errors, "spec.activeDeadlineSeconds", now,
                          "must not update from a positive integer to nil value");
        return true;
    }
    if (!check_range(errors, "spec.activeDeadlineSeconds", now, 0, INT32_MAX))
        return false;
    if (json_present(before) && json_int(before, 0) < json_int(now, 0)) {
        field_invalid(errors, "spec.activeDeadlineSeconds", now,
                      "must be less than or equal to previous value");
        return false;
    }
    return true;
}

/* Tolerations may be added, and how long existing ones last may change. */
static void check_toleration_update(struct field_errors *errors, const struct json *now,
                                    const struct json *before)
{
    JSON_EACH(before, old) {
        bool found = false;

        JSON_EACH(now, toleration) {
            struct json *same = json_copy(errors->arena, toleration);
            struct json *was = json_copy(errors->arena, old);

            json_remove(same, "tolerationSeconds");
            json_remove(was, "tolerationSeconds");
            found |= semantic_equal(same, was);
        }
        if (!found) {
            field_forbidden(errors, "spec.tolerations",
                            "existing toleration can not be modified except its tolerationSeconds");
            return;
        }
    }
}

static void check_gate_update(struct field_errors *errors, const struct json *now, const struct json *before)
{
    size_t i = 0;

    JSON_EACH(now, gate) {
        const char *name = json_string_or(json_get(gate, "name"), "");
        size_t at = i++;
        bool known = false;

        JSON_EACH(before, old)
            known |= streq(json_get_string(old, "name"), name);
        if (!known)
            field_forbidden(errors, AT(errors, "spec.schedulingGates[%zu].name", at),
                            "only deletion is allowed, but found new scheduling gate '%s'", name);
    }
}

static void copy_member(struct arena *arena, struct json *to, const struct json *from, const char *key)
{
    const struct json *value = json_get(from, key);

    if (value)
        json_set(arena, to, key, *json_copy(arena, value));
    else
        json_remove(to, key);
}

/* A pod that is held by gates may still be steered: node selectors can be added, node affinity set. */
static void allow_steering(struct field_errors *errors, struct json *munged, const struct json *old)
{
    const struct json *now = json_get(munged, "nodeSelector"), *before = json_get(old, "nodeSelector");
    struct json *affinity;

    JSON_EACH_MEMBER(before, label)
        if (!json_equal(json_get(now, label->key), &label->value)) {
            field_invalid(errors, "spec.nodeSelector", now,
                          "only additions to spec.nodeSelector are allowed (no mutations or deletions)");
            break;
        }
    copy_member(errors->arena, munged, old, "nodeSelector");
    affinity = json_get(munged, "affinity");
    if (json_is(affinity, JSON_OBJECT))
        copy_member(errors->arena, affinity, json_get(old, "affinity"), "nodeAffinity");
    else if (json_get(json_get(old, "affinity"), "nodeAffinity"))
        copy_member(errors->arena, munged, old, "affinity");
}

void check_pod_update(struct field_errors *errors, const struct json *spec, const struct json *old)
{
    static const char *const lists[] = {"containers", "initContainers"};
    static const char *const free_keys[] = {"activeDeadlineSeconds", "schedulingGates", "tolerations"};
    struct json *munged;

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        if (!check_same_containers(errors, spec, old, lists[i]))
            return;
    if (!check_deadline_update(errors, spec, old))
        return;
    check_toleration_update(errors, json_get(spec, "tolerations"), json_get(old, "tolerations"));
    check_gate_update(errors, json_get(spec, "schedulingGates"), json_get(old, "schedulingGates"));
    munged = json_copy(errors->arena, spec);
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        const struct json *before = json_get(old, lists[i]);
        size_t at = 0;

        JSON_EACH(json_get(munged, lists[i]), container)
            copy_member(errors->arena, container, json_item(before, at++), "image");
    }
    for (size_t i = 0; i < ARRAY_LEN(free_keys); i++)
        copy_member(errors->arena, munged, old, free_keys[i]);
    if (json_int(json_get(old, "terminationGracePeriodSeconds"), 0) < 0 &&
        json_int(json_get(munged, "terminationGracePeriodSeconds"), 0) == 1)
        copy_member(errors->arena, munged, old, "terminationGracePeriodSeconds");
    if (json_len(json_get(old, "schedulingGates")))
        allow_steering(errors, munged, old);
    if (!semantic_equal(munged, old))
        field_forbidden(errors, "spec", POD_UPDATES);
}

/* A token is of an account. */
static void check_tokens(struct field_errors *errors, const struct json *spec)
{
    size_t v = 0;

    if (json_str(json_get(spec, "serviceAccountName")).len)
        return;
    JSON_EACH(json_get(spec, "volumes"), volume) {
        size_t s = 0, index = v++;

        JSON_EACH(json_at(volume, "projected.sources"), source) {
            size_t at = s++;

            if (json_present(json_get(source, "serviceAccountToken")))
                field_forbidden(
                    errors,
                    AT(errors, "spec.volumes[%zu].projected.sources[%zu].serviceAccountToken", index, at),
                    "must not be specified when serviceAccountName is not set");
        }
    }
}

void validate_pod(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                  struct field_errors *errors)
{
    const struct json *spec = json_get(doc, "spec");

    (void)ctx;
    check_pod_spec(errors, "spec", spec, true);
    check_tokens(errors, spec);
    if (old) {
        check_pod_update(errors, spec, json_get(old, "spec"));
        return;
    }
    if (json_len(json_get(spec, "ephemeralContainers")))
        field_forbidden(errors, "spec.ephemeralContainers", "cannot be set on create");
    if (json_str(json_get(spec, "nodeName")).len && json_len(json_get(spec, "schedulingGates")))
        field_forbidden(errors, "spec.nodeName", "cannot be set until all schedulingGates have been cleared");
}
