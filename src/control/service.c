#include "control/service.h"

#include "objects/names.h"

#include <arpa/inet.h>

#define RANGE_TEXT "10.96.0.0/16"
#define RANGE_BASE 0x0a600000u
#define FIRST_FREE 10 /* the first ones are for the cluster's own: 10.96.0.1 is the API */

static bool bit_get(const uint8_t *bits, size_t i)
{
    return bits[i / 8] >> (i % 8) & 1;
}

static void bit_set(uint8_t *bits, size_t i)
{
    bits[i / 8] |= (uint8_t)(1u << (i % 8));
}

/* -1: no IPv4 address; -2: out of range. */
static int ip_offset(const char *ip)
{
    struct in_addr addr;
    uint32_t n;

    if (inet_pton(AF_INET, ip, &addr) != 1)
        return -1;
    n = ntohl(addr.s_addr);
    return n - RANGE_BASE < SERVICE_IPS ? (int)(n - RANGE_BASE) : -2;
}

static bool wants_ip(const struct json *spec)
{
    return !streq(json_get_string(spec, "type"), "ExternalName") &&
           !streq(json_get_string(spec, "clusterIP"), "None");
}

static bool wants_node_ports(const struct json *spec)
{
    const char *type = json_get_string(spec, "type");
    const struct json *allocate = json_get(spec, "allocateLoadBalancerNodePorts");

    return streq(type, "NodePort") || (streq(type, "LoadBalancer") && (!allocate || json_bool(allocate)));
}

static int64_t node_port(const struct json *port)
{
    return json_int(json_get(port, "nodePort"), 0);
}

static bool in_port_range(int64_t port)
{
    return port >= SERVICE_PORT_FIRST && port < SERVICE_PORT_FIRST + SERVICE_PORTS;
}

void service_take_ip(struct service_taken *taken, struct str ip)
{
    char text[INET_ADDRSTRLEN] = "";
    int at;

    if (!ip.len || ip.len >= sizeof(text))
        return;
    memcpy(text, ip.s, ip.len);
    at = ip_offset(text);
    if (at >= 0)
        bit_set(taken->ips, (size_t)at);
}

void service_take_ports(struct service_taken *taken, const struct json *spec)
{
    JSON_EACH(json_get(spec, "ports"), port)
        if (in_port_range(node_port(port)))
            bit_set(taken->ports, (size_t)(node_port(port) - SERVICE_PORT_FIRST));
}

bool service_needs_addresses(const struct json *spec, const struct json *old)
{
    const char *ip = json_string_or(json_get(spec, "clusterIP"), "");

    if (!json_is(spec, JSON_OBJECT))
        return false;
    if (wants_ip(spec) && (!*ip || !old || !streq(ip, json_get_string(old, "clusterIP"))))
        return true;
    JSON_EACH(json_get(spec, "ports"), port) {
        bool known = false;

        JSON_EACH(json_get(old, "ports"), was)
            known |= node_port(was) == node_port(port);
        if (node_port(port) ? !known : wants_node_ports(spec))
            return true;
    }
    return false;
}

/* The first that is free from the seed on, going around; -1: none. */
static int pick(const uint8_t *bits, size_t first, size_t end, uint64_t seed)
{
    size_t count = end - first;

    for (size_t i = 0; i < count; i++) {
        size_t at = first + (seed + i) % count;

        if (!bit_get(bits, at))
            return (int)at;
    }
    return -1;
}

static void admit_ip(const struct service_taken *taken, struct arena *arena, struct json *spec, uint64_t seed,
                     struct field_errors *errors)
{
    const char *ip = json_string_or(json_get(spec, "clusterIP"), ""), *text;
    int at = *ip ? ip_offset(ip) : pick(taken->ips, FIRST_FREE, SERVICE_IPS - 1, seed);

    if (*ip && at == -1)
        return; /* no address at all is what the checks after this find */
    if (*ip && at < 0)
        field_invalid(
            errors, "spec.clusterIPs", json_get(spec, "clusterIPs"),
            "failed to allocate IP %s: the provided IP (%s) is not in the valid range. The range of "
            "valid IPs is " RANGE_TEXT,
            ip, ip);
    else if (*ip && bit_get(taken->ips, (size_t)at))
        field_invalid(errors, "spec.clusterIPs", json_get(spec, "clusterIPs"),
                      "failed to allocate IP %s: provided IP is already allocated", ip);
    else if (!*ip && at < 0)
        field_invalid(errors, "spec.clusterIPs", json_get(spec, "clusterIPs"),
                      "failed to allocate a serviceIP: range is full");
    if (*ip || at < 0)
        return;
    text = arena_printf(arena, "10.96.%d.%d", at >> 8, at & 0xff);
    json_set_string(arena, spec, "clusterIP", text);
    json_push_string(arena, json_set_array(arena, spec, "clusterIPs"), text);
}

static void admit_ports(const struct service_taken *taken, struct arena *arena, struct json *spec,
                        uint64_t seed, struct field_errors *errors)
{
    uint8_t bits[SERVICE_PORTS / 8];
    size_t i = 0;

    memcpy(bits, taken->ports, sizeof(bits));
    JSON_EACH(json_get(spec, "ports"), port)
        if (in_port_range(node_port(port)))
            bit_set(bits, (size_t)(node_port(port) - SERVICE_PORT_FIRST));
    JSON_EACH(json_get(spec, "ports"), port) {
        const char *path = arena_printf(arena, "spec.ports[%zu].nodePort", i++);
        int64_t given = node_port(port);
        int at;

        if (given && in_port_range(given) && bit_get(taken->ports, (size_t)(given - SERVICE_PORT_FIRST)))
            field_invalid(errors, path, json_get(port, "nodePort"), "provided port is already allocated");
        if (given || !wants_node_ports(spec) || !json_is(port, JSON_OBJECT))
            continue;
        at = pick(bits, 0, SERVICE_PORTS, seed);
        if (at < 0) {
            const struct json none = json_of_int(0);

            field_invalid(errors, path, &none, "failed to allocate a nodePort: range is full");
            return;
        }
        bit_set(bits, (size_t)at);
        json_set_int(arena, port, "nodePort", SERVICE_PORT_FIRST + at);
    }
}

int service_admit(const struct service_taken *taken, struct arena *arena, struct json *doc, uint64_t seed,
                  struct failure *failure)
{
    struct field_errors errors = {.arena = arena};
    struct json *spec = json_get(doc, "spec");

    if (wants_ip(spec))
        admit_ip(taken, arena, spec, seed, &errors);
    admit_ports(taken, arena, spec, seed, &errors);
    return field_errors_finish(&errors, failure, "", "Service",
                               json_string_or(json_at(doc, "metadata.name"), ""));
}

/* ---- load balancers ---- */

bool service_set_balancer(struct arena *arena, struct json *service, const char *address)
{
    const struct json *spec = json_get(service, "spec"),
                      *now = json_at(service, "status.loadBalancer.ingress");
    struct json *status, *ingress;

    if (json_string_or(json_get(spec, "loadBalancerClass"), "")[0])
        return false;
    if (!streq(json_get_string(spec, "type"), "LoadBalancer"))
        address = NULL;
    if (address ? json_len(now) == 1 && streq(json_at_string(now, "0.ip"), address) : !json_len(now))
        return false;
    status = json_need_object(arena, service, "status");
    status = json_set_object(arena, status, "loadBalancer");
    if (!address)
        return true;
    ingress = json_push_object(arena, json_set_array(arena, status, "ingress"));
    json_set_string(arena, ingress, "ip", address);
    json_set_string(arena, ingress, "ipMode", "VIP");
    return true;
}

/* ---- endpoints ---- */

bool service_is_headless(const struct json *service)
{
    return streq(json_at_string(service, "spec.clusterIP"), "None");
}

static bool selects(const struct json *selector, const struct json *labels)
{
    if (json_len(selector) == 0)
        return false;
    JSON_EACH_MEMBER(selector, it)
        if (!streq(json_get_string(labels, it->key), json_string_or(&it->value, "")))
            return false;
    return true;
}

bool service_selects(const struct json *service, const struct json *pod)
{
    return selects(json_at(service, "spec.selector"), json_at(pod, "metadata.labels"));
}

bool service_pod_ready(const struct json *pod)
{
    JSON_EACH(json_at(pod, "status.conditions"), it)
        if (streq(json_get_string(it, "type"), "Ready"))
            return streq(json_get_string(it, "status"), "True");
    return false;
}

bool service_takes_pod(const struct json *service, const struct json *pod)
{
    if (!service_selects(service, pod) || pod_is_over(pod) ||
        !*json_string_or(json_at(pod, "status.podIP"), ""))
        return false;
    if (json_bool(json_at(service, "spec.publishNotReadyAddresses")))
        return true;
    return service_pod_ready(pod) && !json_at(pod, "metadata.deletionTimestamp");
}

static uint16_t named_port(const struct json *pod, const char *name, const char *protocol)
{
    static const char *const lists[] = {"spec.containers", "spec.initContainers"}; /* of sidecars */

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        JSON_EACH(json_at(pod, lists[i]), container)
            JSON_EACH(json_get(container, "ports"), it)
                if (streq(json_get_string(it, "name"), name) &&
                    streq(json_string_or(json_get(it, "protocol"), "TCP"), protocol))
                    return (uint16_t)json_int(json_get(it, "containerPort"), 0);
    return 0;
}

uint16_t service_target_port(const struct json *port, const struct json *pod)
{
    const struct json *target = json_get(port, "targetPort");
    int64_t n = json_int(target, 0);

    if (json_is(target, JSON_STRING))
        return named_port(pod, json_string_or(target, ""), json_string_or(json_get(port, "protocol"), "TCP"));
    if (n <= 0)
        n = json_int(json_get(port, "port"), 0);
    return n > 0 && n <= UINT16_MAX ? (uint16_t)n : 0;
}
