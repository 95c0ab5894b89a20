/* Endpoints and EndpointSlices. What is there already may stay as it is, whatever later rules say. */
#include "objects/rules.h"

#include <arpa/inet.h>

#define ENDPOINTS_MAX 1000 /* of one slice */
#define ADDRESSES_MAX 100  /* of one endpoint */
#define PORTS_MAX     20000
#define HINTS_MAX     8

static const char *const protocols[] = {"SCTP", "TCP", "UDP", NULL};

static bool is_link_local(const char *ip)
{
    struct in6_addr six;

    if (inet_pton(AF_INET6, ip, &six) == 1)
        return IN6_IS_ADDR_LINKLOCAL(&six);
    return starts_with(ip, "169.254.");
}

bool check_outside_ip(struct field_errors *errors, const char *path, const struct json *value)
{
    const char *ip = json_string_or(value, "");

    if (!check_ip(errors, path, value))
        return false;
    if (streq(ip, "0.0.0.0") || streq(ip, "::"))
        field_invalid(errors, path, value, "may not be unspecified (%s)", ip);
    else if (starts_with(ip, "127.") || streq(ip, "::1"))
        field_invalid(errors, path, value, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    else if (is_link_local(ip))
        field_invalid(errors, path, value, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    else if (starts_with(ip, "224.0.0.") || starts_with(ip, "ff02:"))
        field_invalid(errors, path, value,
                      "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    else
        return true;
    return false;
}

/* ---- endpoints ---- */

static void check_address(struct field_errors *errors, const char *path, const struct json *address)
{
    const struct json *ip = json_get(address, "ip"), *node = json_get(address, "nodeName"),
                      *host = json_get(address, "hostname"), none = json_of_string_ref("");
    const char *ip_path = AT(errors, "%s.ip", path);

    ip = json_present(ip) ? ip : &none;
    if (check_ip(errors, ip_path, ip))
        check_outside_ip(errors, ip_path, ip);
    else
        field_invalid(errors, ip_path, ip, "must be a valid IP address");
    if (json_str(host).len)
        check_text(errors, AT(errors, "%s.hostname", path), host, rule_dns_label);
    if (json_present(node))
        check_text(errors, AT(errors, "%s.nodeName", path), node, rule_dns_subdomain);
}

static void check_endpoint_port(struct field_errors *errors, const char *path, const struct json *port,
                                bool need_name)
{
    const struct json *name = json_get(port, "name"), *app = json_get(port, "appProtocol");

    if (json_str(name).len)
        check_text(errors, AT(errors, "%s.name", path), name, rule_dns_label);
    else if (need_name)
        field_required(errors, AT(errors, "%s.name", path), "%s", "");
    check_port(errors, AT(errors, "%s.port", path), json_get(port, "port"));
    check_one_of(errors, AT(errors, "%s.protocol", path), json_get(port, "protocol"), protocols);
    if (json_present(app))
        check_text(errors, AT(errors, "%s.appProtocol", path), app, rule_qualified_name);
}

static void check_subset(struct field_errors *errors, const char *path, const struct json *subset)
{
    static const char *const lists[] = {"addresses", "notReadyAddresses"};
    const struct json *ports = json_get(subset, "ports");
    size_t i = 0;

    if (!json_len(json_get(subset, lists[0])) && !json_len(json_get(subset, lists[1])))
        field_required(errors, path, "must specify `addresses` or `notReadyAddresses`");
    for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
        size_t at = 0;

        JSON_EACH(json_get(subset, lists[k]), address)
            check_address(errors, AT(errors, "%s.%s[%zu]", path, lists[k], at++), address);
    }
    JSON_EACH(ports, port)
        check_endpoint_port(errors, AT(errors, "%s.ports[%zu]", path, i++), port, json_len(ports) > 1);
}

void validate_endpoints(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                        struct field_errors *errors)
{
    const struct json *subsets = json_get(doc, "subsets");
    size_t i = 0;

    (void)ctx;
    if (old && semantic_equal(subsets, json_get(old, "subsets")))
        return;
    JSON_EACH(subsets, subset)
        check_subset(errors, AT(errors, "subsets[%zu]", i++), subset);
}

/* ---- slices ---- */

static void check_slice_address(struct field_errors *errors, const char *list, size_t at, const char *type,
                                const struct json *address)
{
    const char *path = AT(errors, "%s[%zu]", list, at), *text = json_string_or(address, "");
    bool six = strchr(text, ':') != NULL;

    if (streq(type, "FQDN")) {
        check_text(errors, path, address, rule_dns_subdomain);
        if (json_str(address).len && !strchr(text, '.'))
            field_invalid(errors, path, address,
                          "should be a domain with at least two segments separated by dots");
        return;
    }
    if (check_outside_ip(errors, path, address) && six != streq(type, "IPv6"))
        field_invalid(errors, list, address, "must be an %s address", type);
}

static void check_hints(struct field_errors *errors, const char *path, const struct json *hints)
{
    static const struct {
        const char *key;
        text_rule *rule;
    } lists[] = {{"forZones", rule_label_value}, {"forNodes", rule_dns_subdomain}};

    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        const struct json *list = json_get(hints, lists[i].key);
        struct json *names = json_new_object(errors->arena);
        size_t at = 0;

        if (json_len(list) > HINTS_MAX) {
            field_too_many(errors, AT(errors, "%s.%s", path, lists[i].key), (int)json_len(list), HINTS_MAX);
            return;
        }
        JSON_EACH(list, it) {
            const char *where = AT(errors, "%s.%s[%zu].name", path, lists[i].key, at++);
            const struct json *name = json_get(it, "name");

            if (json_get(names, json_string_or(name, "")))
                field_duplicate(errors, where, name);
            json_set_bool(errors->arena, names, json_string_or(name, ""), true);
            check_text(errors, where, name, lists[i].rule);
        }
    }
}

static void check_slice_endpoint(struct field_errors *errors, const char *path, const char *type,
                                 const struct json *endpoint)
{
    const struct json *addresses = json_get(endpoint, "addresses"), *node = json_get(endpoint, "nodeName"),
                      *host = json_get(endpoint, "hostname");
    const char *list = AT(errors, "%s.addresses", path);
    size_t at = 0;

    if (!json_len(addresses))
        field_required(errors, list, "must contain at least 1 address");
    else if (json_len(addresses) > ADDRESSES_MAX)
        field_too_many(errors, list, (int)json_len(addresses), ADDRESSES_MAX);
    JSON_EACH(addresses, address)
        check_slice_address(errors, list, at++, type, address);
    if (json_present(node))
        check_text(errors, AT(errors, "%s.nodeName", path), node, rule_dns_subdomain);
    check_labels(errors, AT(errors, "%s.deprecatedTopology", path), json_get(endpoint, "deprecatedTopology"));
    if (json_present(host))
        check_text(errors, AT(errors, "%s.hostname", path), host, rule_dns_label);
    check_hints(errors, AT(errors, "%s.hints", path), json_get(endpoint, "hints"));
}

static void check_slice_ports(struct field_errors *errors, const struct json *ports)
{
    struct json *names = json_new_object(errors->arena);
    size_t i = 0;

    if (json_len(ports) > PORTS_MAX) {
        field_too_many(errors, "ports", (int)json_len(ports), PORTS_MAX);
        return;
    }
    JSON_EACH(ports, port) {
        const char *path = AT(errors, "ports[%zu]", i++);
        const struct json *name = json_get(port, "name"), *app = json_get(port, "appProtocol");

        if (json_str(name).len)
            check_text(errors, AT(errors, "%s.name", path), name, rule_dns_label);
        if (json_get(names, json_string_or(name, "")))
            field_duplicate(errors, AT(errors, "%s.name", path), name);
        json_set_bool(errors->arena, names, json_string_or(name, ""), true);
        check_one_of(errors, AT(errors, "%s.protocol", path), json_get(port, "protocol"), protocols);
        if (json_present(app))
            check_text(errors, AT(errors, "%s.appProtocol", path), app, rule_qualified_name);
    }
}

void validate_endpoint_slice(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                             struct field_errors *errors)
{
    static const char *const types[] = {"FQDN", "IPv4", "IPv6", NULL};
    const struct json *type = json_get(doc, "addressType"), *endpoints = json_get(doc, "endpoints");
    size_t i = 0;

    (void)ctx;
    check_one_of(errors, "addressType", type, types);
    check_slice_ports(errors, json_get(doc, "ports"));
    if (json_len(endpoints) > ENDPOINTS_MAX)
        field_too_many(errors, "endpoints", (int)json_len(endpoints), ENDPOINTS_MAX);
    else if (!old || !semantic_equal(endpoints, json_get(old, "endpoints")))
        JSON_EACH(endpoints, endpoint)
            check_slice_endpoint(errors, AT(errors, "endpoints[%zu]", i++), json_string_or(type, ""),
                                 endpoint);
    if (old)
        check_immutable(errors, "addressType", type, json_get(old, "addressType"));
}
