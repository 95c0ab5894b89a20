/* Where the connections to a service go: Endpoints and slices from pods, and from Endpoints that somebody
 * made. */
#include "control/endpoints.h"
#include "control/service.h"
#include "control_util.h"

#define SERVICE(spec) "{metadata: {name: web, labels: {team: a}}, spec: " spec "}"
#define PLAIN         SERVICE("{selector: {app: web}, ports: [{port: 80, targetPort: 8000, protocol: TCP}]}")

static struct json *pod_doc(struct bench *b, const char *name, const char *ip, const char *more)
{
    struct json *doc = from_yaml(b, more);
    struct json *meta = json_need_object(&b->arena, doc, "metadata");

    json_set_string(&b->arena, meta, "name", name);
    json_set_string(&b->arena, meta, "namespace", "default");
    json_set_string(&b->arena, meta, "uid", arena_printf(&b->arena, "uid-%s", name));
    if (!json_get(meta, "labels"))
        json_set_string(&b->arena, json_set_object(&b->arena, meta, "labels"), "app", "web");
    json_set_string(&b->arena, json_need_object(&b->arena, doc, "status"), "podIP", ip);
    return endpoints_digest(&b->arena, doc);
}

#define READY   "{status: {conditions: [{type: Initialized, status: 'True'}, {type: Ready, status: 'True'}]}}"
#define UNREADY "{status: {conditions: [{type: Ready, status: 'False'}]}}"

static void look(struct bench *b, struct object *service, struct json **pods, size_t count,
                 const struct object *endpoints, const struct object **slices, size_t slice_count)
{
    struct endpoints_view view = {.service = service,
                                  .endpoints = endpoints,
                                  .slices = slices,
                                  .slice_count = slice_count,
                                  .pods = (const struct json *const *)pods,
                                  .pod_count = count};

    b->effects.len = 0;
    endpoints_look(&view, &b->effects);
}

/* "ADDRESS…|NOT READY…|PORTS" of each subset. */
static char *subsets_text(struct bench *b, const struct json *doc)
{
    static const char *const lists[] = {"addresses", "notReadyAddresses"};
    CLEANUP(buf_done) struct buf text = {0};

    JSON_EACH(json_get(doc, "subsets"), subset) {
        buf_puts(&text, text.len ? "; " : "");
        for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
            JSON_EACH(json_get(subset, lists[i]), it)
                buf_printf(&text, "%s ", json_get_string(it, "ip"));
            buf_putc(&text, '|');
        }
        JSON_EACH(json_get(subset, "ports"), it)
            buf_printf(&text, "%s:%lld/%s ", json_string_or(json_get(it, "name"), ""),
                       (long long)json_int(json_get(it, "port"), 0), json_get_string(it, "protocol"));
    }
    return arena_strndup(&b->arena, text.data ? text.data : "", text.len);
}

/* "ADDRESS ready serving terminating; …|PORTS" */
static char *slice_text(struct bench *b, const struct json *doc)
{
    CLEANUP(buf_done) struct buf text = {0};

    JSON_EACH(json_get(doc, "endpoints"), it) {
        const struct json *c = json_get(it, "conditions");

        buf_printf(&text, "%s%s %d%d%d", text.len ? "; " : "", json_at_string(it, "addresses.0"),
                   json_bool(json_get(c, "ready")), json_bool(json_get(c, "serving")),
                   json_bool(json_get(c, "terminating")));
    }
    buf_putc(&text, '|');
    JSON_EACH(json_get(doc, "ports"), it)
        buf_printf(&text, "%s:%lld ", json_string_or(json_get(it, "name"), "?"),
                   (long long)json_int(json_get(it, "port"), 0));
    return arena_strndup(&b->arena, text.data, text.len);
}

static struct json *created(struct bench *b, int kind, size_t nth)
{
    for (size_t i = 0; i < b->effects.len; i++)
        if (b->effects.v[i].type == EFFECT_CREATE && b->effects.v[i].kind->id == kind && nth-- == 0)
            return b->effects.v[i].doc;
    return NULL;
}

struct pod_case {
    const char *what, *service;
    struct {
        const char *name, *ip, *more;
    } pods[4];
    const char *subsets, *slice;
};

static const struct pod_case cases[] = {
    {"ready and others, by address",
     PLAIN,
     {{"b", "10.0.0.10", READY}, {"a", "10.0.0.9", READY}, {"c", "10.0.0.3", UNREADY}},
     "10.0.0.9 10.0.0.10 |10.0.0.3 |:8000/TCP ",
     "10.0.0.3 000; 10.0.0.9 110; 10.0.0.10 110|:8000 "},
    {"nobody", PLAIN, {{0}}, "", "|"},
    {"no address, ended, of others",
     PLAIN,
     {{"a", "", READY},
      {"b", "10.0.0.2", "{status: {phase: Succeeded, conditions: [{type: Ready, status: 'True'}]}}"},
      {"c", "10.0.0.3",
       "{metadata: {labels: {app: db}}, status: {conditions: [{type: Ready, status: 'True'}]}}"}},
     "",
     "|"},
    {"ending: in the slice only",
     PLAIN,
     {{"a", "10.0.0.2",
       "{metadata: {deletionTimestamp: x, labels: {app: web}}, status: {conditions: [{type: Ready, status: "
       "'True'}]}}"}},
     "",
     "10.0.0.2 011|:8000 "},
    {"for those that are not ready as well",
     SERVICE("{selector: {app: web}, clusterIP: None, publishNotReadyAddresses: true}"),
     {{"a", "10.0.0.2", UNREADY}},
     "10.0.0.2 ||",
     "10.0.0.2 100|"},
    {"named ports; one has none of that name",
     SERVICE("{selector: {app: web}, ports: [{name: w, port: 80, targetPort: http, protocol: TCP}]}"),
     {{"a", "10.0.0.2",
       "{spec: {containers: [{}, {ports: [{name: http, containerPort: 81}]}]}, status: {conditions: [{type: "
       "Ready, status: 'True'}]}}"},
      {"b", "10.0.0.3", READY}},
     "10.0.0.2 ||w:81/TCP ",
     "10.0.0.2 110|w:81 "},
};

static void test_addresses_come_from_the_pods(void **state)
{
    struct bench *b = *state;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct object *service = object_from(b, KIND_SERVICE, cases[i].service);
        struct json *pods[4];
        size_t n = 0;

        for (; n < 4 && cases[i].pods[n].name; n++)
            pods[n] = pod_doc(b, cases[i].pods[n].name, cases[i].pods[n].ip, cases[i].pods[n].more);
        look(b, service, pods, n, NULL, NULL, 0);
        if (!streq(subsets_text(b, created(b, KIND_ENDPOINTS, 0)), cases[i].subsets))
            fail_msg("%s: %s", cases[i].what, subsets_text(b, created(b, KIND_ENDPOINTS, 0)));
        if (!streq(slice_text(b, created(b, KIND_ENDPOINT_SLICE, 0)), cases[i].slice))
            fail_msg("%s: %s", cases[i].what, slice_text(b, created(b, KIND_ENDPOINT_SLICE, 0)));
        bench_reset(b);
    }
}

static void test_objects_say_whose_they_are(void **state)
{
    struct bench *b = *state;
    struct object *service =
        object_from(b, KIND_SERVICE, SERVICE("{selector: {app: web}, clusterIP: None, ports: [{port: 1}]}"));
    struct json *pods[] = {
        pod_doc(b, "a", "10.0.0.2",
                "{spec: {hostname: h, subdomain: web, nodeName: node}, status: {conditions: "
                "[{type: Ready, status: 'True'}]}}")};
    const struct json *doc, *at;

    look(b, service, pods, 1, NULL, NULL, 0);
    doc = created(b, KIND_ENDPOINTS, 0);
    assert_string_equal(json_at_string(doc, "metadata.name"), "web");
    assert_string_equal(json_at_string(doc, "metadata.labels.team"), "a");
    assert_non_null(json_get(json_at(doc, "metadata.labels"), "service.kubernetes.io/headless"));
    at = json_at(doc, "subsets.0.addresses.0");
    assert_string_equal(json_get_string(at, "hostname"), "h");
    assert_string_equal(json_get_string(at, "nodeName"), "node");
    assert_string_equal(json_at_string(at, "targetRef.name"), "a");
    doc = created(b, KIND_ENDPOINT_SLICE, 0);
    assert_string_equal(json_at_string(doc, "metadata.generateName"), "web-");
    assert_string_equal(json_at_string(doc, "metadata.ownerReferences.0.uid"), service->uid);
    assert_string_equal(json_get_string(json_at(doc, "metadata.labels"), SLICE_SERVICE), "web");
    assert_string_equal(json_at_string(doc, "endpoints.0.targetRef.uid"), "uid-a");
}

static void test_what_is_right_is_left_alone(void **state)
{
    struct bench *b = *state;
    struct object *service = object_from(b, KIND_SERVICE, PLAIN);
    struct json *pods[] = {pod_doc(b, "a", "10.0.0.2", READY), pod_doc(b, "b", "10.0.0.3", READY)};
    const struct object *endpoints, *slices[2];

    look(b, service, pods, 1, NULL, NULL, 0);
    endpoints = object_of(b, KIND_ENDPOINTS, created(b, KIND_ENDPOINTS, 0));
    slices[0] = object_of(b, KIND_ENDPOINT_SLICE, created(b, KIND_ENDPOINT_SLICE, 0));
    look(b, service, pods, 1, endpoints, slices, 1);
    assert_string_equal(effects_text(b), "");
    look(b, service, pods, 2, endpoints, slices, 1);
    assert_string_equal(effects_text(b), arena_printf(&b->arena, "update web; update %s", slices[0]->name));
    look(b, service, pods, 0, endpoints, slices, 1); /* the slice stays, empty */
    assert_string_equal(effects_text(b), arena_printf(&b->arena, "update web; update %s", slices[0]->name));
    slices[1] =
        object_of(b, KIND_ENDPOINT_SLICE,
                  from_yaml(b, "{metadata: {name: one-more, labels: "
                               "{endpointslice.kubernetes.io/managed-by: "
                               "endpointslice-controller.k8s.io}}, addressType: IPv4, endpoints: []}"));
    look(b, service, pods, 1, endpoints, slices, 2);
    assert_string_equal(effects_text(b), "delete one-more");
}

static void test_a_slice_has_at_most_a_hundred(void **state)
{
    struct bench *b = *state;
    struct object *service = object_from(b, KIND_SERVICE, PLAIN);
    struct json *pods[250];

    for (size_t i = 0; i < ARRAY_LEN(pods); i++)
        pods[i] =
            pod_doc(b, arena_printf(&b->arena, "p%zu", i), arena_printf(&b->arena, "10.0.1.%zu", i), READY);
    look(b, service, pods, ARRAY_LEN(pods), NULL, NULL, 0);
    assert_int_equal(b->effects.len, 4);
    assert_int_equal(json_len(json_get(created(b, KIND_ENDPOINT_SLICE, 0), "endpoints")), 100);
    assert_int_equal(json_len(json_get(created(b, KIND_ENDPOINT_SLICE, 2), "endpoints")), 50);
    assert_int_equal(json_len(json_at(created(b, KIND_ENDPOINTS, 0), "subsets.0.addresses")), 250);
}

static void test_too_many_are_left_out_of_endpoints_and_said(void **state)
{
    struct bench *b = *state;
    struct object *service = object_from(b, KIND_SERVICE, PLAIN);
    struct json **pods = arena_alloc(&b->arena, (ENDPOINTS_MAX + 1) * sizeof(struct json *));

    for (size_t i = 0; i <= ENDPOINTS_MAX; i++)
        pods[i] = pod_doc(b, "p", arena_printf(&b->arena, "10.0.%zu.%zu", i >> 8, i & 255), READY);
    look(b, service, pods, ENDPOINTS_MAX + 1, NULL, NULL, 0);
    assert_int_equal(json_len(json_at(created(b, KIND_ENDPOINTS, 0), "subsets.0.addresses")), ENDPOINTS_MAX);
    assert_string_equal(json_get_string(json_at(created(b, KIND_ENDPOINTS, 0), "metadata.annotations"),
                                        "endpoints.kubernetes.io/over-capacity"),
                        "truncated");
}

static void test_endpoints_of_others_are_kept_and_shown_as_slices(void **state)
{
    struct bench *b = *state;
    struct object *service = object_from(b, KIND_SERVICE, SERVICE("{ports: [{port: 80}]}"));
    const struct object *endpoints =
        object_from(b, KIND_ENDPOINTS,
                    "{metadata: {name: web}, subsets: [{addresses: [{ip: 192.0.2.1}, {ip: '2001:db8::1'}], "
                    "notReadyAddresses: [{ip: 192.0.2.2}], ports: [{port: 5432, protocol: TCP}]}]}");

    look(b, service, NULL, 0, NULL, NULL, 0);
    assert_string_equal(effects_text(b), "");
    look(b, service, NULL, 0, endpoints, NULL, 0);
    assert_null(created(b, KIND_ENDPOINTS, 0));
    assert_string_equal(slice_text(b, created(b, KIND_ENDPOINT_SLICE, 0)),
                        "192.0.2.1 100; 192.0.2.2 000|:5432 ");
    assert_string_equal(slice_text(b, created(b, KIND_ENDPOINT_SLICE, 1)), "2001:db8::1 100|:5432 ");
    assert_string_equal(json_get_string(created(b, KIND_ENDPOINT_SLICE, 1), "addressType"), "IPv6");
}

static void test_a_name_elsewhere_has_none(void **state)
{
    struct bench *b = *state;
    struct object *before = object_from(b, KIND_SERVICE, PLAIN), *service;
    const struct object *endpoints, *slices[1];

    look(b, before, NULL, 0, NULL, NULL, 0);
    endpoints = object_of(b, KIND_ENDPOINTS, created(b, KIND_ENDPOINTS, 0));
    slices[0] = object_of(b, KIND_ENDPOINT_SLICE, created(b, KIND_ENDPOINT_SLICE, 0));
    service = object_from(b, KIND_SERVICE, SERVICE("{type: ExternalName, externalName: x.example}"));
    look(b, service, NULL, 0, endpoints, slices, 1);
    assert_string_equal(effects_text(b), arena_printf(&b->arena, "delete web; delete %s", slices[0]->name));
}

static void test_only_what_matters_is_in_a_digest(void **state)
{
    struct bench *b = *state;
    struct json *a = pod_doc(b, "a", "10.0.0.2", READY);
    struct json *same =
        pod_doc(b, "a", "10.0.0.2",
                "{spec: {nodeSelector: {x: y}}, status: {phase: Running, message: hi, conditions: "
                "[{type: Ready, status: 'True', lastProbeTime: x}]}}");

    assert_true(json_equal(a, same));
    assert_false(json_equal(a, pod_doc(b, "a", "10.0.0.2", UNREADY)));
}

static void test_balancers_have_the_machines_address(void **state)
{
    struct bench *b = *state;
    struct json *doc = from_yaml(b, "{spec: {type: LoadBalancer}, status: {loadBalancer: {}}}");

    assert_true(service_set_balancer(&b->arena, doc, "192.0.2.7"));
    assert_string_equal(json_at_string(doc, "status.loadBalancer.ingress.0.ip"), "192.0.2.7");
    assert_false(service_set_balancer(&b->arena, doc, "192.0.2.7"));
    json_set_string(&b->arena, json_get(doc, "spec"), "type", "NodePort");
    assert_true(service_set_balancer(&b->arena, doc, "192.0.2.7"));
    assert_null(json_at(doc, "status.loadBalancer.ingress"));
    doc = from_yaml(b, "{spec: {type: LoadBalancer, loadBalancerClass: x/y}}");
    assert_false(service_set_balancer(&b->arena, doc, "192.0.2.7"));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_addresses_come_from_the_pods, bench_setup, bench_teardown),
        cmocka_unit_test_setup_teardown(test_objects_say_whose_they_are, bench_setup, bench_teardown),
        cmocka_unit_test_setup_teardown(test_what_is_right_is_left_alone, bench_setup, bench_teardown),
        cmocka_unit_test_setup_teardown(test_a_slice_has_at_most_a_hundred, bench_setup, bench_teardown),
        cmocka_unit_test_setup_teardown(test_too_many_are_left_out_of_endpoints_and_said, bench_setup,
                                        bench_teardown),
        cmocka_unit_test_setup_teardown(test_endpoints_of_others_are_kept_and_shown_as_slices, bench_setup,
                                        bench_teardown),
        cmocka_unit_test_setup_teardown(test_a_name_elsewhere_has_none, bench_setup, bench_teardown),
        cmocka_unit_test_setup_teardown(test_only_what_matters_is_in_a_digest, bench_setup, bench_teardown),
        cmocka_unit_test_setup_teardown(test_balancers_have_the_machines_address, bench_setup,
                                        bench_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
