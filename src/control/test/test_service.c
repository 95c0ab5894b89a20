/* Addresses of services: which are chosen, which are refused. */
#include "control/service.h"
#include "control_util.h"

struct service_case {
    const char *what;
    const char *there;  /* list of specs */
    const char *wanted; /* spec */
    const char *text;   /* what clusterIP and nodePorts are then, or the refusal */
};

static const struct service_case cases[] = {
    {"an address", "[]", "{type: ClusterIP}", "10.96.0.10"},
    {"the next where that is taken", "[{clusterIP: 10.96.0.10}]", "{type: ClusterIP, clusterIP: ''}",
     "10.96.0.11"},
    {"none for headless ones", "[]", "{type: ClusterIP, clusterIP: None}", "None"},
    {"nor for names elsewhere", "[]", "{type: ExternalName}", ""},
    {"one that is asked for", "[]", "{type: ClusterIP, clusterIP: 10.96.7.7}", "10.96.7.7"},
    {"but not twice", "[{clusterIP: 10.96.7.7}]",
     "{type: ClusterIP, clusterIP: 10.96.7.7, clusterIPs: [10.96.7.7]}",
     "Service \"s\" is invalid: spec.clusterIPs: Invalid value: [\"10.96.7.7\"]: failed to allocate IP "
     "10.96.7.7: provided IP is already allocated"},
    {"nor from elsewhere", "[]", "{type: ClusterIP, clusterIP: 1.2.3.4, clusterIPs: [1.2.3.4]}",
     "Service \"s\" is invalid: spec.clusterIPs: Invalid value: [\"1.2.3.4\"]: failed to allocate IP "
     "1.2.3.4: "
     "the provided IP (1.2.3.4) is not in the valid range. The range of valid IPs is 10.96.0.0/16"},
    {"what is no address is for others to refuse", "[]", "{type: ClusterIP, clusterIP: x}", "x"},
    {"a port for each", "[{clusterIP: 10.96.0.9, ports: [{nodePort: 30001}]}]",
     "{type: NodePort, ports: [{port: 1}, {port: 2}, {port: 3, nodePort: 30002}]}",
     "10.96.0.10 30000 30003 30002"},
    {"no ports where none are wanted", "[]",
     "{type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: 1}]}", "10.96.0.10 0"},
    {"a port that is taken", "[{ports: [{nodePort: 30001}]}]",
     "{type: NodePort, ports: [{port: 1, nodePort: 30001}]}",
     "Service \"s\" is invalid: spec.ports[0].nodePort: Invalid value: 30001: provided port is already "
     "allocated"},
};

static void test_addresses_are_given_once(void **state)
{
    struct bench *b = *state;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(buf_done) struct buf text = {0};
        struct json *doc = from_yaml(b, "{metadata: {name: s}}"), *spec;
        struct service_taken taken = {0};
        struct failure failure = {0};

        spec = json_set(&b->arena, doc, "spec", *from_yaml(b, cases[i].wanted));
        JSON_EACH(from_yaml(b, cases[i].there), there) {
            service_take_ip(&taken, json_str(json_get(there, "clusterIP")));
            service_take_ports(&taken, there);
        }
        if (service_admit(&taken, &b->arena, doc, 0, &failure) < 0) {
            buf_puts(&text, failure.message);
        } else {
            buf_puts(&text, json_string_or(json_get(spec, "clusterIP"), ""));
            JSON_EACH(json_get(spec, "ports"), port)
                buf_printf(&text, " %lld", (long long)json_int(json_get(port, "nodePort"), 0));
        }
        if (!streq(text.data, cases[i].text))
            fail_msg("%s: %s", cases[i].what, text.data);
    }
}

static void test_a_full_range_says_so(void **state)
{
    struct bench *b = *state;
    struct json *doc = from_yaml(b, "{metadata: {name: s}, spec: {type: NodePort, ports: [{port: 1}]}}");
    struct service_taken taken;
    struct failure failure = {0};

    memset(&taken, 0xff, sizeof(taken));
    assert_int_equal(service_admit(&taken, &b->arena, doc, 77, &failure), -1);
    assert_int_equal(failure.code, 422);
    assert_non_null(strstr(failure.message, "failed to allocate a serviceIP: range is full"));
    assert_non_null(strstr(failure.message, "failed to allocate a nodePort: range is full"));
}

static void test_only_changes_need_a_look(void **state)
{
    struct bench *b = *state;
    const struct json *plain = from_yaml(b, "{type: ClusterIP, clusterIP: 10.96.0.10, ports: [{port: 1}]}");
    const struct json *ported =
        from_yaml(b, "{type: NodePort, clusterIP: 10.96.0.10, ports: [{port: 1, nodePort: 30000}]}");
    const struct json *unported = from_yaml(b, "{type: NodePort, clusterIP: 10.96.0.10, ports: [{port: 1}]}");

    assert_true(service_needs_addresses(plain, NULL));
    assert_false(service_needs_addresses(plain, plain));
    assert_false(service_needs_addresses(ported, ported));
    assert_true(service_needs_addresses(ported, plain));
    assert_true(service_needs_addresses(unported, plain));
    assert_false(service_needs_addresses(from_yaml(b, "{type: ExternalName}"), plain));
    assert_false(service_needs_addresses(NULL, NULL));
}

/* One pod, and what makes a service lead to it or not. */
#define POD(status, more)                                                                                    \
    "{metadata: {labels: {app: web, tier: front}" more "}, spec: {containers: [{ports: [{name: http, "       \
    "containerPort: 8000}, {name: dns, protocol: UDP, containerPort: 53}]}]}, status: {" status "}}"
#define READY   "phase: Running, podIP: 10.88.0.2, conditions: [{type: Ready, status: 'True'}]"
#define UNREADY "phase: Running, podIP: 10.88.0.2, conditions: [{type: Ready, status: 'False'}]"

static void test_service_takes_ready_pods_of_its_selector(void **state)
{
    static const struct {
        const char *service, *pod;
        bool takes;
    } rows[] = {
        {"{spec: {selector: {app: web}}}", POD(READY, ""), true},
        {"{spec: {selector: {app: web, tier: front}}}", POD(READY, ""), true},
        {"{spec: {selector: {app: web, tier: back}}}", POD(READY, ""), false},
        {"{spec: {selector: {none: ''}}}", POD(READY, ""), false},
        {"{spec: {selector: {}}}", POD(READY, ""), false},
        {"{spec: {}}", POD(READY, ""), false},
        {"{spec: {selector: {app: web}}}", POD(UNREADY, ""), false},
        {"{spec: {selector: {app: web}}}", POD("phase: Pending", ""), false},
        {"{spec: {selector: {app: web}}}", POD(READY, ", deletionTimestamp: '2026-01-01T00:00:00Z'"), false},
        {"{spec: {selector: {app: web}, publishNotReadyAddresses: true}}", POD(UNREADY, ""), true},
        {"{spec: {selector: {app: web}, publishNotReadyAddresses: true}}",
         POD("phase: Failed, podIP: 10.88.0.2", ""), false},
    };
    struct bench *b = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (service_takes_pod(from_yaml(b, rows[i].service), from_yaml(b, rows[i].pod)) != rows[i].takes)
            fail_msg("%s %s: %d", rows[i].service, rows[i].pod, !rows[i].takes);
}

static void test_target_port_is_a_number_a_name_or_the_port_itself(void **state)
{
    static const struct {
        const char *port;
        uint16_t target;
    } rows[] = {
        {"{port: 80, targetPort: 8080}", 8080},
        {"{port: 80}", 80},
        {"{port: 80, targetPort: http}", 8000},
        {"{port: 80, targetPort: dns}", 0},
        {"{port: 53, targetPort: dns, protocol: UDP}", 53},
        {"{port: 80, targetPort: nothing}", 0},
        {"{port: 80, targetPort: 70000}", 0},
    };
    struct bench *b = *state;
    const struct json *pod = from_yaml(b, POD(READY, ""));

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(service_target_port(from_yaml(b, rows[i].port), pod), rows[i].target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_addresses_are_given_once, bench_setup, bench_teardown),
        cmocka_unit_test_setup_teardown(test_a_full_range_says_so, bench_setup, bench_teardown),
        cmocka_unit_test_setup_teardown(test_only_changes_need_a_look, bench_setup, bench_teardown),
        cmocka_unit_test_setup_teardown(test_service_takes_ready_pods_of_its_selector, bench_setup,
                                        bench_teardown),
        cmocka_unit_test_setup_teardown(test_target_port_is_a_number_a_name_or_the_port_itself, bench_setup,
                                        bench_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
