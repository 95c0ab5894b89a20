/* Containers and init containers of pods: names, images, ports, environment, mounts, resources, probes,
 * hooks and security settings. */
#include "objects/rules.h"

#include <ctype.h>

static const char *const protocols[] = {"SCTP", "TCP", "UDP", NULL};

static void check_ports(struct field_errors *errors, const char *path, const struct json *ports)
{
    struct json *names = json_new_object(errors->arena);
    size_t i = 0;

    JSON_EACH(ports, port) {
        const char *at = AT(errors, "%s[%zu]", path, i++);
        const struct json *name = json_get(port, "name"), *number = json_get(port, "containerPort");
        struct str text = json_str(name);

        if (text.len && check_text(errors, AT(errors, "%s.name", at), name, rule_port_name)) {
            if (json_get_str(names, text))
                field_duplicate(errors, AT(errors, "%s.name", at), name);
            json_set_str(errors->arena, names, text, json_of_bool(true));
        }
        if (!json_int(number, 0))
            field_required(errors, AT(errors, "%s.containerPort", at), "%s", "");
        else
            check_port(errors, AT(errors, "%s.containerPort", at), number);
        if (json_int(json_get(port, "hostPort"), 0))
            check_port(errors, AT(errors, "%s.hostPort", at), json_get(port, "hostPort"));
        check_one_of(errors, AT(errors, "%s.protocol", at), json_get(port, "protocol"), protocols);
    }
}

/* Two containers of a pod share its network: a host port can be taken once. */
static void check_host_ports(struct field_errors *errors, const char *path, const struct json *containers)
{
    struct json *taken = json_new_object(errors->arena);
    size_t c = 0;

    JSON_EACH(containers, container) {
        size_t p = 0, at = c++;

        JSON_EACH(json_get(container, "ports"), port) {
            long long number = json_int(json_get(port, "hostPort"), 0);
            size_t index = p++;
            struct json text;
            const char *key;

            if (!number)
                continue;
            key = AT(errors, "%s/%s/%lld", json_string_or(json_get(port, "protocol"), "TCP"),
                     json_string_or(json_get(port, "hostIP"), ""), number);
            text = json_of_string_ref(key);
            if (json_get(taken, key))
                field_duplicate(errors, AT(errors, "%s[%zu].ports[%zu].hostPort", path, at, index), &text);
            json_set_bool(errors->arena, taken, key, true);
        }
    }
}

/* ---- environment ---- */

static void check_key_ref(struct field_errors *errors, const char *path, const struct json *ref)
{
    const struct json *key = json_get(ref, "key");

    check_text(errors, AT(errors, "%s.name", path), json_get(ref, "name"), rule_dns_subdomain);
    if (check_required(errors, AT(errors, "%s.key", path), key))
        check_text(errors, AT(errors, "%s.key", path), key, rule_config_key);
}

/* "metadata.labels['KEY']": what stands between the quotes, if that is the form. */
static bool subscript(struct str text, const char *of, struct str *ret)
{
    size_t len = strlen(of);

    if (!str_starts(text, of) || text.len < len + 4 || memcmp(text.s + len, "['", 2) != 0 ||
        !str_ends(text, "']"))
        return false;
    *ret = (struct str){text.s + len + 2, text.len - len - 4};
    return true;
}

static void check_field_ref(struct field_errors *errors, const char *path, const struct json *ref)
{
    static const char *const fields[] = {
        "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
        "status.hostIP", "status.hostIPs",     "status.podIP", "status.podIPs", NULL};
    const struct json *field = json_get(ref, "fieldPath");
    const char *at = AT(errors, "%s.fieldPath", path);
    struct str text = json_str(field), key;

    if (!check_required(errors, at, field))
        return;
    if (subscript(text, "metadata.annotations", &key) || subscript(text, "metadata.labels", &key)) {
        check_str(errors, path, key, rule_qualified_name);
        return;
    }
    for (const char *const *known = fields; *known; known++)
        if (str_is(text, *known))
            return;
    if (str_is(text, "metadata.labels") || str_is(text, "metadata.annotations"))
        field_unsupported(errors, at, field, fields);
    else
        field_invalid(errors, at, field, "error converting fieldPath: field label not supported: %s",
                      json_string(field));
}

static void check_resource_ref(struct field_errors *errors, const char *path, const struct json *ref)
{
    static const char *const resources[] = {"limits.cpu",
                                            "limits.ephemeral-storage",
                                            "limits.memory",
                                            "requests.cpu",
                                            "requests.ephemeral-storage",
                                            "requests.memory",
                                            NULL};
    const struct json *resource = json_get(ref, "resource");
    struct str text = json_str(resource);

    if (!check_required(errors, AT(errors, "%s.resource", path), resource) ||
        str_starts(text, "limits.hugepages-") || str_starts(text, "requests.hugepages-"))
        return;
    check_one_of(errors, AT(errors, "%s.resource", path), resource, resources);
}

static const struct {
    const char *key;
    void (*check)(struct field_errors *errors, const char *path, const struct json *ref);
} env_sources[] = {
    {"fieldRef", check_field_ref},
    {"resourceFieldRef", check_resource_ref},
    {"configMapKeyRef", check_key_ref},
    {"secretKeyRef", check_key_ref},
};

static void check_value_from(struct field_errors *errors, const char *path, const struct json *env)
{
    const struct json *from = json_get(env, "valueFrom"), empty = json_of_string_ref("");
    int found = 0;

    if (!json_present(from))
        return;
    for (size_t i = 0; i < ARRAY_LEN(env_sources); i++) {
        const struct json *ref = json_get(from, env_sources[i].key);

        if (!json_present(ref))
            continue;
        found++;
        env_sources[i].check(errors, AT(errors, "%s.%s", path, env_sources[i].key), ref);
    }
    if (!found)
        field_invalid(errors, path, &empty,
                      "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or "
                      "`secretKeyRef`");
    else if (json_str(json_get(env, "value")).len)
        field_invalid(errors, path, &empty, "may not be specified when `value` is not empty");
    else if (found > 1)
        field_invalid(errors, path, &empty, "may not have more than one field specified at a time");
}

void check_env(struct field_errors *errors, const char *path, const struct json *vars)
{
    size_t i = 0;

    JSON_EACH(vars, env) {
        const struct json *name = json_get(env, "name");
        size_t at = i++;

        if (!json_str(name).len)
            field_required(errors, AT(errors, "%s[%zu].name", path, at), "%s", "");
        else
            check_text(errors, AT(errors, "%s[%zu].name", path, at), name, rule_env_name);
        if (json_present(json_get(env, "valueFrom")))
            check_value_from(errors, AT(errors, "%s[%zu].valueFrom", path, at), env);
    }
}

static void check_env_from(struct field_errors *errors, const char *path, const struct json *vars)
{
    static const char *const refs[] = {"configMapRef", "secretRef"};
    const struct json empty = json_of_string_ref("");
    size_t i = 0;

    JSON_EACH(vars, source) {
        const char *at = AT(errors, "%s[%zu]", path, i++);
        int found = 0;

        if (json_str(json_get(source, "prefix")).len)
            check_text(errors, AT(errors, "%s.prefix", at), json_get(source, "prefix"), rule_env_name);
        for (size_t k = 0; k < ARRAY_LEN(refs); k++) {
            const struct json *ref = json_get(source, refs[k]);

            if (!json_present(ref))
                continue;
            found++;
            if (check_required(errors, AT(errors, "%s.%s.name", at, refs[k]), json_get(ref, "name")))
                check_text(errors, AT(errors, "%s.%s.name", at, refs[k]), json_get(ref, "name"),
                           rule_dns_subdomain);
        }
        if (!found)
            field_invalid(errors, path, &empty, "must specify one of: `configMapRef` or `secretRef`");
        else if (found > 1)
            field_invalid(errors, path, &empty, "may not have more than one field specified at a time");
    }
}

/* ---- mounts ---- */

static bool is_block_claim(const struct json *volume)
{
    return json_present(json_get(volume, "persistentVolumeClaim")) ||
           json_present(json_get(volume, "ephemeral"));
}

static void check_devices(const struct pod_check *check, const char *path, const struct json *container,
                          struct json *names, struct json *paths)
{
    struct field_errors *errors = check->errors;
    const struct json empty = json_of_string_ref("");
    size_t i = 0;

    JSON_EACH(json_get(container, "volumeDevices"), device) {
        const char *at = AT(errors, "%s.volumeDevices[%zu]", path, i++);
        const struct json *name = json_get(device, "name"), *where = json_get(device, "devicePath");
        const struct json *volume = json_get(check->volumes, json_string_or(name, ""));

        check_required(errors, AT(errors, "%s.name", at), name);
        if (json_get(names, json_string_or(name, "")))
            field_invalid(errors, AT(errors, "%s.name", at), name, "must be unique");
        if (volume && !is_block_claim(volume))
            field_invalid(errors, AT(errors, "%s.name", at), name,
                          "can only use volume source type of PersistentVolumeClaim or Ephemeral for "
                          "block mode");
        else if (!volume)
            field_not_found(errors, AT(errors, "%s.name", at), name ? name : &empty);
        if (check_required(errors, AT(errors, "%s.devicePath", at), where)) {
            if (json_get(paths, json_string(where)))
                field_invalid(errors, AT(errors, "%s.devicePath", at), where, "must be unique");
            if (has_backsteps(json_str(where)))
                field_invalid(errors, AT(errors, "%s.devicePath", at), where,
                              "can not contain backsteps ('..')");
            json_set_bool(errors->arena, paths, json_string(where), true);
        }
        if (json_str(name).len)
            json_set_bool(errors->arena, names, json_string(name), true);
    }
}

static void check_mount(const struct pod_check *check, const char *path, const char *list,
                        const struct json *mount, const struct json *container)
{
    static const char *const propagations[] = {"Bidirectional", "HostToContainer", "None", NULL};
    struct field_errors *errors = check->errors;
    const struct json *name = json_get(mount, "name"), *sub = json_get(mount, "subPath");
    const struct json *expr = json_get(mount, "subPathExpr");
    const struct json *propagation = json_get(mount, "mountPropagation"), empty = json_of_string_ref("");

    check_required(errors, AT(errors, "%s.name", path), name);
    if (!json_get(check->volumes, json_string_or(name, "")))
        field_not_found(errors, AT(errors, "%s.name", path), name ? name : &empty);
    check_required(errors, AT(errors, "%s.mountPath", path), json_get(mount, "mountPath"));
    if (json_str(sub).len)
        check_descending_path(errors, AT(errors, "%s.subPath", list), sub);
    if (json_str(expr).len) {
        if (json_str(sub).len)
            field_invalid(errors, AT(errors, "%s.subPathExpr", path), expr,
                          "subPathExpr and subPath are mutually exclusive");
        check_descending_path(errors, AT(errors, "%s.subPathExpr", list), expr);
    }
    if (!json_present(propagation))
        return;
    check_one_of(errors, AT(errors, "%s.mountPropagation", list), propagation, propagations);
    if (streq(json_string(propagation), "Bidirectional") &&
        !json_bool(json_at(container, "securityContext.privileged")))
        field_forbidden(errors, AT(errors, "%s.mountPropagation", list),
                        "Bidirectional mount propagation is available only to privileged containers");
}

static void check_mounts(const struct pod_check *check, const char *path, const struct json *container)
{
    struct field_errors *errors = check->errors;
    struct json *points = json_new_object(errors->arena), *devices = json_new_object(errors->arena);
    struct json *device_paths = json_new_object(errors->arena);
    const char *list = AT(errors, "%s.volumeMounts", path);
    size_t i = 0;

    check_devices(check, path, container, devices, device_paths);
    JSON_EACH(json_get(container, "volumeMounts"), mount) {
        const char *at = AT(errors, "%s[%zu]", list, i++);
        const struct json *name = json_get(mount, "name"), *where = json_get(mount, "mountPath");
        struct str point = json_str(where);

        check_mount(check, at, list, mount, container);
        if (point.s && json_get_str(points, point))
            field_invalid(errors, AT(errors, "%s.mountPath", at), where, "must be unique");
        if (point.s)
            json_set_str(errors->arena, points, point, json_of_bool(true));
        if (json_get(devices, json_string_or(name, "")))
            field_invalid(errors, AT(errors, "%s.name", at), name, "must not already exist in volumeDevices");
        if (point.len && json_get_str(device_paths, point))
            field_invalid(errors, AT(errors, "%s.mountPath", at), where,
                          "must not already exist as a path in volumeDevices");
    }
}

/* ---- resources ---- */

static void check_request(struct field_errors *errors, const char *path, const struct json *limits,
                          const struct json_member *request)
{
    struct quantity want, limit;
    char text[QUANTITY_TEXT_MAX];
    struct json shown;

    if (!quantity_from_json(&request->value, &want))
        return;
    if (!quantity_from_json(json_get(limits, request->key), &limit)) {
        if (!resource_allows_overcommit(request->key))
            field_required(errors, AT(errors, "%s.limits", path),
                           "Limit must be set for non overcommitable resources");
        return;
    }
    shown = quantity_json(errors->arena, &want);
    if (quantity_cmp(&want, &limit) != 0 && !resource_allows_overcommit(request->key))
        field_invalid(errors, AT(errors, "%s.requests", path), &shown, "must be equal to %s limit of %s",
                      request->key, quantity_format(&limit, text));
    else if (quantity_cmp(&want, &limit) > 0)
        field_invalid(errors, AT(errors, "%s.requests", path), &shown,
                      "must be less than or equal to %s limit of %s", request->key,
                      quantity_format(&limit, text));
}

static void check_resources(struct field_errors *errors, const char *path, const struct json *resources)
{
    static const char *const lists[] = {"limits", "requests"};
    const struct json *limits = json_get(resources, "limits");
    bool plain = false, huge = false;

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        JSON_EACH_MEMBER(json_get(resources, lists[i]), member) {
            const char *at = AT(errors, "%s.%s[%s]", path, lists[i], member->key);

            check_container_resource_name(errors, at, member->key);
            check_resource_amount(errors, at, member->key, &member->value);
            if (i == 1)
                check_request(errors, path, limits, member);
            plain |= streq(member->key, "cpu") || streq(member->key, "memory");
            huge |= resource_is_huge_page(member->key);
        }
    if (huge && !plain)
        field_forbidden(errors, path, "HugePages require cpu or memory");
}

/* ---- probes and hooks ---- */

static void check_http_get(struct field_errors *errors, const char *path, const struct json *action)
{
    static const char *const schemes[] = {"HTTP", "HTTPS", NULL};

    check_required(errors, AT(errors, "%s.path", path), json_get(action, "path"));
    check_port_or_name(errors, AT(errors, "%s.port", path), json_get(action, "port"));
    check_one_of(errors, AT(errors, "%s.scheme", path), json_get(action, "scheme"), schemes);
    JSON_EACH(json_get(action, "httpHeaders"), header) {
        const struct json *name = json_get(header, "name");
        struct str text = json_str(name);
        bool good = text.len > 0;

        for (size_t i = 0; i < text.len; i++)
            good &= isalnum((unsigned char)text.s[i]) || text.s[i] == '-';
        if (!good)
            field_invalid(errors, AT(errors, "%s.httpHeaders", path), name,
                          "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. "
                          "'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')");
    }
}

static void check_handler(const struct pod_check *check, const char *path, const struct json *handler)
{
    static const char *const kinds_of_handler[] = {"exec", "httpGet", "tcpSocket", "grpc", "sleep"};
    struct field_errors *errors = check->errors;
    long long grace = json_int(json_get(check->spec, "terminationGracePeriodSeconds"), 0);
    int found = 0;

    for (size_t i = 0; i < ARRAY_LEN(kinds_of_handler); i++) {
        const char *key = kinds_of_handler[i];
        const struct json *action = json_get(handler, key);
        const char *at = AT(errors, "%s.%s", path, key);

        if (!json_present(action))
            continue;
        if (found++) {
            field_forbidden(errors, at, "may not specify more than 1 handler type");
        } else if (streq(key, "exec")) {
            if (!json_len(json_get(action, "command")))
                field_required(errors, AT(errors, "%s.command", at), "%s", "");
        } else if (streq(key, "httpGet")) {
            check_http_get(errors, at, action);
        } else if (streq(key, "sleep")) {
            int64_t seconds = json_int(json_get(action, "seconds"), 0);

            if (seconds < 0 || seconds > grace)
                field_invalid(errors, at, json_get(action, "seconds"),
                              "must be non-negative and less than terminationGracePeriodSeconds (%lld)",
                              grace);
        } else {
            check_port_or_name(errors, AT(errors, "%s.port", at), json_get(action, "port"));
        }
    }
    if (!found)
        field_required(errors, path, "must specify a handler type");
}

static void check_probes(const struct pod_check *check, const char *path, const struct json *container)
{
    static const char *const probes[] = {"livenessProbe", "readinessProbe", "startupProbe"};
    static const char *const counts[] = {"initialDelaySeconds", "timeoutSeconds", "periodSeconds",
                                         "successThreshold", "failureThreshold"};
    struct field_errors *errors = check->errors;

    for (size_t i = 0; i < ARRAY_LEN(probes); i++) {
        const struct json *probe = json_get(container, probes[i]);
        const char *at = AT(errors, "%s.%s", path, probes[i]);
        const struct json *grace = json_get(probe, "terminationGracePeriodSeconds");

        if (!json_present(probe))
            continue;
        check_handler(check, at, probe);
        for (size_t k = 0; k < ARRAY_LEN(counts); k++)
            check_not_negative(errors, AT(errors, "%s.%s", at, counts[k]), json_get(probe, counts[k]));
        if (i == 1 && json_present(grace))
            field_invalid(errors, AT(errors, "%s.terminationGracePeriodSeconds", at), grace,
                          "must not be set for readinessProbes");
        else if (json_present(grace) && json_int(grace, 0) <= 0)
            field_invalid(errors, AT(errors, "%s.terminationGracePeriodSeconds", at), grace,
                          "must be greater than 0");
        if (i != 1 && json_int(json_get(probe, "successThreshold"), 1) != 1)
            field_invalid(errors, AT(errors, "%s.successThreshold", at), json_get(probe, "successThreshold"),
                          "must be 1");
    }
}

static void check_hooks(const struct pod_check *check, const char *path, const struct json *container)
{
    static const char *const hooks[] = {"postStart", "preStop"};

    for (size_t i = 0; i < ARRAY_LEN(hooks); i++) {
        const struct json *hook = json_get(json_get(container, "lifecycle"), hooks[i]);

        if (json_present(hook))
            check_handler(check, AT(check->errors, "%s.lifecycle.%s", path, hooks[i]), hook);
    }
}

/* ---- a container ---- */

static void check_security(struct field_errors *errors, const char *path, const struct json *security)
{
    const struct json *escalation = json_get(security, "allowPrivilegeEscalation");

    if (!json_present(security))
        return;
    check_range(errors, AT(errors, "%s.runAsUser", path), json_get(security, "runAsUser"), 0, INT32_MAX);
    check_range(errors, AT(errors, "%s.runAsGroup", path), json_get(security, "runAsGroup"), 0, INT32_MAX);
    if (!json_present(escalation) || json_bool(escalation))
        return;
    if (json_bool(json_get(security, "privileged")))
        field_invalid(errors, path, security,
                      "cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
    JSON_EACH(json_at(security, "capabilities.add"), capability)
        if (streq(json_string(capability), "CAP_SYS_ADMIN"))
            field_invalid(errors, path, security,
                          "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` "
                          "CAP_SYS_ADMIN");
}

static void check_container(const struct pod_check *check, const char *path, const struct json *container)
{
    static const char *const message_policies[] = {"File", "FallbackToLogsOnError", NULL};
    static const char *const pull_policies[] = {"Always", "IfNotPresent", "Never", NULL};
    struct field_errors *errors = check->errors;
    const struct json *name = json_get(container, "name"), *image = json_get(container, "image");
    struct str image_text = json_str(image);

    if (check_required(errors, AT(errors, "%s.name", path), name))
        check_text(errors, AT(errors, "%s.name", path), name, rule_dns_label);
    check_required(errors, AT(errors, "%s.image", path), image);
    if (check->is_pod && image_text.len &&
        (isspace((unsigned char)image_text.s[0]) || isspace((unsigned char)image_text.s[image_text.len - 1])))
        field_invalid(errors, AT(errors, "%s.image", path), image,
                      "must not have leading or trailing whitespace");
    check_one_of(errors, AT(errors, "%s.terminationMessagePolicy", path),
                 json_get(container, "terminationMessagePolicy"), message_policies);
    check_ports(errors, AT(errors, "%s.ports", path), json_get(container, "ports"));
    check_env(errors, AT(errors, "%s.env", path), json_get(container, "env"));
    check_env_from(errors, AT(errors, "%s.envFrom", path), json_get(container, "envFrom"));
    check_mounts(check, path, container);
    check_one_of(errors, AT(errors, "%s.imagePullPolicy", path), json_get(container, "imagePullPolicy"),
                 pull_policies);
    check_resources(errors, AT(errors, "%s.resources", path), json_get(container, "resources"));
    check_security(errors, AT(errors, "%s.securityContext", path), json_get(container, "securityContext"));
}

static void check_name_once(struct field_errors *errors, const char *path, const struct json *container,
                            struct json *names)
{
    const struct json *name = json_get(container, "name");
    struct str text = json_str(name);

    if (!text.s)
        return;
    if (json_get_str(names, text))
        field_duplicate(errors, AT(errors, "%s.name", path), name);
    json_set_str(errors->arena, names, text, json_of_bool(true));
}

static void check_init_container(const struct pod_check *check, const char *path,
                                 const struct json *container)
{
    static const char *const policies[] = {"Always", NULL};
    static const char *const only_sidecars[] = {"lifecycle", "livenessProbe", "readinessProbe",
                                                "startupProbe"};
    struct field_errors *errors = check->errors;
    const struct json *policy = json_get(container, "restartPolicy");

    check_container(check, path, container);
    if (json_present(policy))
        check_one_of(errors, AT(errors, "%s.restartPolicy", path), policy, policies);
    if (streq(json_string(policy), "Always")) {
        check_hooks(check, path, container);
        check_probes(check, path, container);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(only_sidecars); i++)
        if (json_present(json_get(container, only_sidecars[i])))
            field_forbidden(errors, AT(errors, "%s.%s", path, only_sidecars[i]),
                            "may not be set for init containers without restartPolicy=Always");
}

void check_containers(struct pod_check *check)
{
    struct field_errors *errors = check->errors;
    const struct json *containers = json_get(check->spec, "containers");
    struct json *names = json_new_object(errors->arena);
    const char *list = AT(errors, "%s.containers", check->path);
    size_t i = 0;

    if (!json_len(containers))
        field_required(errors, list, "%s", "");
    JSON_EACH(containers, container) {
        const char *path = AT(errors, "%s[%zu]", list, i++);

        check_container(check, path, container);
        check_name_once(errors, path, container, names);
        check_hooks(check, path, container);
        check_probes(check, path, container);
        if (json_present(json_get(container, "restartPolicy")))
            field_forbidden(errors, AT(errors, "%s.restartPolicy", path),
                            "may not be set for non-init containers");
    }
    check_host_ports(errors, list, containers);
    i = 0;
    JSON_EACH(json_get(check->spec, "initContainers"), container) {
        const char *path = AT(errors, "%s.initContainers[%zu]", check->path, i++);

        check_init_container(check, path, container);
        check_name_once(errors, path, container, names);
    }
}
