/* Services. */
#include "objects/rules.h"

#define NODE_PORT_MIN 30000
#define NODE_PORT_MAX 32767

static bool is_headless(const struct json *spec)
{
    return streq(json_at_string(spec, "clusterIPs.0"), "None") ||
           streq(json_get_string(spec, "clusterIP"), "None");
}

static bool is_external(const struct json *spec)
{
    const char *type = json_string_or(json_get(spec, "type"), "");

    return streq(type, "LoadBalancer") || streq(type, "NodePort") ||
           (streq(type, "ClusterIP") && json_len(json_get(spec, "externalIPs")));
}

static void check_port_item(struct field_errors *errors, const char *path, const struct json *port,
                            bool need_name, struct json *names)
{
    static const char *const protocols[] = {"SCTP", "TCP", "UDP", NULL};
    const struct json *name = json_get(port, "name"), *app = json_get(port, "appProtocol");
    const char *name_path = AT(errors, "%s.name", path);

    if (json_str(name).len) {
        check_text(errors, name_path, name, rule_dns_label);
        if (json_get(names, json_string(name)))
            field_duplicate(errors, name_path, name);
        json_set_bool(errors->arena, names, json_string(name), true);
    } else if (need_name) {
        field_required(errors, name_path, "%s", "");
    }
    check_port(errors, AT(errors, "%s.port", path), json_get(port, "port"));
    check_one_of(errors, AT(errors, "%s.protocol", path), json_get(port, "protocol"), protocols);
    check_port_or_name(errors, AT(errors, "%s.targetPort", path), json_get(port, "targetPort"));
    if (json_present(app))
        check_text(errors, AT(errors, "%s.appProtocol", path), app, rule_qualified_name);
}

static void check_service_ports(struct field_errors *errors, const struct json *spec)
{
    const struct json *ports = json_get(spec, "ports");
    struct json *names = json_new_object(errors->arena), *taken = json_new_object(errors->arena);
    bool cluster_only = streq(json_get_string(spec, "type"), "ClusterIP");
    size_t i = 0;

    if (!json_len(ports) && !is_headless(spec) && !streq(json_get_string(spec, "type"), "ExternalName"))
        field_required(errors, "spec.ports", "%s", "");
    JSON_EACH(ports, port) {
        const char *path = AT(errors, "spec.ports[%zu]", i++);
        const char *protocol = json_string_or(json_get(port, "protocol"), "TCP");
        long long number = json_int(json_get(port, "port"), 0);
        long long node_port = json_int(json_get(port, "nodePort"), 0);
        const char *key = AT(errors, "%s/%lld", protocol, number);
        const char *node_key = AT(errors, "node %s/%lld", protocol, node_port);

        check_port_item(errors, path, port, json_len(ports) > 1, names);
        if (node_port && cluster_only)
            field_forbidden(errors, AT(errors, "%s.nodePort", path),
                            "may not be used when `type` is 'ClusterIP'");
        else if (node_port && (node_port < NODE_PORT_MIN || node_port > NODE_PORT_MAX))
            field_invalid(errors, AT(errors, "%s.nodePort", path), json_get(port, "nodePort"),
                          "provided port is not in the valid range. The range of valid ports is %d-%d",
                          NODE_PORT_MIN, NODE_PORT_MAX);
        if (node_port && json_get(taken, node_key))
            field_duplicate(errors, AT(errors, "%s.nodePort", path), json_get(port, "nodePort"));
        if (json_get(taken, key))
            field_duplicate(errors, path, port);
        json_set_bool(errors->arena, taken, key, true);
        json_set_bool(errors->arena, taken, node_key, true);
    }
}

static void check_by_type(struct field_errors *errors, const struct json *spec)
{
    static const char *const not_external_name[] = {"clusterIPs", "ipFamilies", "ipFamilyPolicy"};
    const char *type = json_string_or(json_get(spec, "type"), "");
    struct str name = json_str(json_get(spec, "externalName"));

    if ((streq(type, "LoadBalancer") || streq(type, "NodePort")) && is_headless(spec)) {
        const struct json none = json_of_string_ref("None");

        field_invalid(errors, "spec.clusterIPs[0]", &none, "may not be set to 'None' for %s services", type);
    }
    if (!streq(type, "ExternalName"))
        return;
    for (size_t i = 0; i < ARRAY_LEN(not_external_name); i++)
        if (json_present(json_get(spec, not_external_name[i])) &&
            !(i < 2 && !json_len(json_get(spec, not_external_name[i]))))
            field_forbidden(errors, AT(errors, "spec.%s", not_external_name[i]),
                            "may not be set for ExternalName services");
    if (name.len && name.s[name.len - 1] == '.')
        name.len--;
    if (name.len)
        check_str(errors, "spec.externalName", name, rule_dns_subdomain);
    else
        field_required(errors, "spec.externalName", "%s", "");
}

static void check_cluster_ips(struct field_errors *errors, const struct json *spec)
{
    static const char *const families[] = {"IPv4", "IPv6", NULL};
    static const char *const policies[] = {"PreferDualStack", "RequireDualStack", "SingleStack", NULL};
    const struct json *ip = json_get(spec, "clusterIP"), *ips = json_get(spec, "clusterIPs");
    size_t i = 0, k = 0;

    if (streq(json_get_string(spec, "type"), "ExternalName"))
        return;
    if (json_str(ip).len && !json_len(ips))
        field_required(errors, "spec.clusterIPs", "%s", "");
    else if (json_str(ip).len && !json_equal(json_item(ips, 0), ip))
        field_invalid(errors, "spec.clusterIPs", ips, "first value must match `clusterIP`");
    else if (!json_str(ip).len && json_len(ips))
        field_invalid(errors, "spec.clusterIPs", ips, "must be empty when `clusterIP` is not specified");
    JSON_EACH(json_get(spec, "ipFamilies"), family)
        check_one_of(errors, AT(errors, "spec.ipFamilies[%zu]", i++), family, families);
    if (json_present(json_get(spec, "ipFamilyPolicy")))
        check_one_of(errors, "spec.ipFamilyPolicy", json_get(spec, "ipFamilyPolicy"), policies);
    JSON_EACH(ips, address) {
        size_t at = k++;

        if (at == 0 && streq(json_string(address), "None")) {
            if (json_len(ips) > 1)
                field_invalid(errors, "spec.clusterIPs", ips, "'None' must be the first and only value");
            continue;
        }
        check_ip(errors, AT(errors, "spec.clusterIPs[%zu]", at), address);
    }
    if (json_len(ips) > 2)
        field_invalid(errors, "spec.clusterIPs", ips, "may only hold up to 2 values");
}

static void check_traffic(struct field_errors *errors, const struct json *spec)
{
    static const char *const policies[] = {"Cluster", "Local", NULL};
    static const char *const affinities[] = {"ClientIP", "None", NULL};
    const struct json *external = json_get(spec, "externalTrafficPolicy");
    const struct json *internal = json_get(spec, "internalTrafficPolicy");
    const struct json *timeout = json_at(spec, "sessionAffinityConfig.clientIP.timeoutSeconds");

    check_one_of(errors, "spec.sessionAffinity", json_get(spec, "sessionAffinity"), affinities);
    if (json_present(timeout) && (json_int(timeout, 0) <= 0 || json_int(timeout, 0) > 86400))
        field_invalid(errors, "spec.sessionAffinityConfig.clientIP.timeoutSeconds", timeout,
                      "must be greater than 0 and less than 86400");
    if (is_external(spec))
        check_one_of(errors, "spec.externalTrafficPolicy", external, policies);
    else if (json_str(external).len)
        field_invalid(errors, "spec.externalTrafficPolicy", external,
                      "may only be set for externally-accessible services");
    if (json_present(internal))
        check_one_of(errors, "spec.internalTrafficPolicy", internal, policies);
    if (json_present(json_get(spec, "allocateLoadBalancerNodePorts")) &&
        !streq(json_get_string(spec, "type"), "LoadBalancer"))
        field_forbidden(errors, "spec.allocateLoadBalancerNodePorts",
                        "may only be used when `type` is 'LoadBalancer'");
}

static void check_service_update(struct field_errors *errors, const struct json *spec, const struct json *old)
{
    const struct json *ips = json_get(spec, "clusterIPs"), *before = json_get(old, "clusterIPs");
    size_t i = 0;

    if (streq(json_get_string(spec, "type"), "ExternalName") ||
        streq(json_get_string(old, "type"), "ExternalName") || (is_headless(spec) && is_headless(old)))
        return;
    if (json_len(before) && !json_len(ips)) {
        field_invalid(errors, "spec.clusterIPs[0]", ips, "primary clusterIP can not be unset");
        return;
    }
    JSON_EACH(before, ip) {
        size_t at = i++;

        if (at < json_len(ips) && !json_equal(json_item(ips, at), ip))
            field_invalid(errors, AT(errors, "spec.clusterIPs[%zu]", at), ips, "may not change once set");
    }
}

void validate_service(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                      struct field_errors *errors)
{
    static const char *const types[] = {"ClusterIP", "ExternalName", "LoadBalancer", "NodePort", NULL};
    const struct json *spec = json_get(doc, "spec");
    size_t i = 0;

    (void)ctx;
    if (old)
        check_service_update(errors, spec, json_get(old, "spec"));
    check_by_type(errors, spec);
    check_service_ports(errors, spec);
    check_labels(errors, "spec.selector", json_get(spec, "selector"));
    check_cluster_ips(errors, spec);
    JSON_EACH(json_get(spec, "externalIPs"), ip)
        check_outside_ip(errors, AT(errors, "spec.externalIPs[%zu]", i++), ip);
    check_one_of(errors, "spec.type", json_get(spec, "type"), types);
    check_traffic(errors, spec);
}
