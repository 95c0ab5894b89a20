/* Services on this machine: from the Service objects and the pods of this node to what podnet is told, and to
 * the names in the pods' /etc/hosts. Changes are gathered for a moment; nothing is done where the result is
 * the same as before.
 *
 * Names are in /etc/hosts and not in a name server of our own: they work with every resolver, cost nothing,
 * and go on while the daemon does not run. */
#include "base/clock.h"
#include "base/log.h"
#include "control/service.h"
#include "engine/local/internal.h"
#include "objects/names.h"
#include "objects/object_doc.h"

#include <arpa/inet.h>

#define LOG_MODULE      "services"
#define GATHER_NSEC     (10 * NSEC_PER_MSEC)
#define NAMES_BYTES_MAX (256 << 10) /* of the names in a pod's /etc/hosts */

/* One look. */
struct services_look {
    struct local_engine *engine;
    struct arena arena;
    VEC(struct podnet_service) ports;
    VEC(const struct object *) owners; /* of ports */
    struct buf text;                   /* all of it, to compare */
    struct buf refused;                /* as services_refused */
    struct buf
        names; /* lines "ADDRESS NAMESPACE SERVICE HOST MAKER", HOST "-" for none, MAKER may be empty */
};

static void add_name(struct services_look *look, const char *ip, const struct object *service,
                     const char *host)
{
    if (look->names.len < NAMES_BYTES_MAX)
        buf_printf(&look->names, "%s %s %s %s %.*s\n", ip, service->ns, service->name, host,
                   STR_ARG(service->maker));
}

/* ---- one service ---- */

static void add_headless(struct services_look *look, const struct object *object, const struct json *service)
{
    struct str key;
    void *value;
    size_t at = 0;

    while (map_next(look->engine->pods, &at, &key, &value)) {
        const struct local_pod *pod = value;
        const char *host = json_at_string(pod->doc, "spec.hostname");
        bool named = streq(json_at_string(pod->doc, "spec.subdomain"), object->name);

        if (pod->object && streq(pod->ns, object->ns) && service_takes_pod(service, pod->doc))
            add_name(look, json_at_string(pod->doc, "status.podIP"), object,
                     named ? (host ? host : pod->name) : "-");
    }
}

static void add_endpoints(struct services_look *look, const char *ns, const struct json *service,
                          const struct json *port, struct podnet_service *out)
{
    struct podnet_endpoint *list =
        arena_zalloc(&look->arena, (map_len(look->engine->pods) + 1) * sizeof(*list));
    struct str key;
    void *value;
    size_t at = 0;

    while (map_next(look->engine->pods, &at, &key, &value)) {
        const struct local_pod *pod = value;
        struct podnet_endpoint to = {0};

        to.pod = pod->uid;
        if (!pod->object || !streq(pod->ns, ns) || !service_takes_pod(service, pod->doc) ||
            inet_pton(AF_INET, json_at_string(pod->doc, "status.podIP"), &to.ip) != 1)
            continue;
        to.port = service_target_port(port, pod->doc);
        if (to.port)
            list[out->len++] = to;
    }
    out->endpoints = list;
}

static int by_address(const void *a, const void *b)
{
    const struct podnet_endpoint *left = a, *right = b;
    int order = memcmp(&left->ip, &right->ip, sizeof(left->ip));

    if (order || left->port != right->port)
        return order ? order : left->port - right->port;
    return strcmp(left->pod, right->pod); /* without a bridge all have one address */
}

static void add_port(struct services_look *look, const struct object *object, const struct json *service,
                     const struct json *port)
{
    const char *protocol = json_string_or(json_get(port, "protocol"), "TCP");
    struct podnet_service out = {
        .proto = streq(protocol, "UDP") ? PODNET_UDP : PODNET_TCP,
        .port = (uint16_t)json_int(json_get(port, "port"), 0),
        .node_port = (uint16_t)json_int(json_get(port, "nodePort"), 0),
        .sticky = streq(json_at_string(service, "spec.sessionAffinity"), "ClientIP"),
    };

    if (streq(protocol, "SCTP") ||
        inet_pton(AF_INET, json_string_or(json_at(service, "spec.clusterIP"), ""), &out.ip) != 1)
        return;
    add_endpoints(look, object->ns, service, port, &out);
    if (out.len) /* pods are in no order */
        qsort((void *)(uintptr_t)out.endpoints, out.len, sizeof(*out.endpoints), by_address);
    buf_printf(&look->text, "%s/%s %08x %d %u %u %d:", object->ns, object->name, out.ip.s_addr, out.proto,
               out.port, out.node_port, out.sticky);
    for (size_t i = 0; i < out.len; i++)
        buf_printf(&look->text, " %08x.%u %s", out.endpoints[i].ip.s_addr, out.endpoints[i].port,
                   out.endpoints[i].pod);
    buf_putc(&look->text, '\n');
    vec_push(&look->ports, out);
    vec_push(&look->owners, object);
}

/* Once for each service: its name and address lead nowhere. */
static void say_no_address(struct local_engine *engine, const struct object *service)
{
    if (map_get(engine->services_told, str_from(service->uid)))
        return;
    map_set(engine->services_told, str_from(service->uid), engine);
    registry_event(engine->registry, service, "Warning", "NoClusterAddress",
                   "Its address and name are not served on this machine, node ports are: pods have %s",
                   podnet_mode_text(engine->net));
}

static void add_service(struct services_look *look, const struct object *object)
{
    const struct json *service = object_json(object, &look->arena);
    const char *ip = json_string_or(json_at(service, "spec.clusterIP"), "");
    struct in_addr addr;

    if (service_is_headless(service)) {
        if (podnet_mode(look->engine->net) != PODNET_SLIRP) /* where a pod's address is every pod's */
            add_headless(look, object, service);
        return;
    }
    if (inet_pton(AF_INET, ip, &addr) != 1 || json_len(json_at(service, "spec.selector")) == 0)
        return;
    if (podnet_has_services(look->engine->net))
        add_name(look, ip, object, "-");
    else
        say_no_address(look->engine, object);
    JSON_EACH(json_at(service, "spec.ports"), port)
        add_port(look, object, service, port);
}

/* ---- what podnet is told ---- */

static void refused(void *arg, size_t at, const struct err *err)
{
    struct services_look *look = arg;
    const struct object *service = look->owners.v[at];

    buf_printf(&look->refused, "%s%s/%s\n", look->refused.len ? "" : "\n", service->ns, service->name);
    registry_event(look->engine->registry, service, "Warning",
                   err->code == ERR_UNSUPPORTED ? "NodePortNotServed" : "NodePortTaken", "%s", err->msg);
}

static bool replace(char **kept, const struct buf *now)
{
    const char *text = now->len ? now->data : "";

    if (streq(*kept ? *kept : "", text))
        return false;
    free(*kept);
    *kept = mem_strdup(text);
    return true;
}

/* ---- load balancers ---- */

static bool has_its_ports(const struct local_engine *engine, const struct object *service)
{
    CLEANUP(free) char *line = mem_printf("\n%s/%s\n", service->ns, service->name);

    return !engine->services_off && !strstr(engine->services_refused ? engine->services_refused : "", line);
}

static bool has_node_ports(const struct json *service)
{
    JSON_EACH(json_at(service, "spec.ports"), port)
        if (json_int(json_get(port, "nodePort"), 0))
            return true;
    return false;
}

static bool edit_balancer(void *arg, struct arena *arena, struct json *service)
{
    return service_set_balancer(arena, service, has_node_ports(service) ? arg : NULL);
}

/* The machine's address is what a service of type LoadBalancer gets, with the node ports there. */
static void show_balancer(struct local_engine *engine, const struct object *service)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure, .manager = "berth"};
    struct written written;

    if (registry_edit_object(engine->registry, &write, service, edit_balancer,
                             has_its_ports(engine, service) ? engine->host_ip : NULL, &written) < 0)
        log_warn("service '%s/%s': %s", service->ns, service->name, failure.message);
}

static bool may_be_balancer(const struct object *service)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct json *doc = object_doc_once(service, &arena);

    return streq(json_at_string(doc, "spec.type"), "LoadBalancer") ||
           json_len(json_at(doc, "status.loadBalancer.ingress")) > 0;
}

static void show_balancers(struct local_engine *engine)
{
    VEC(const struct object *) found = {0}; /* writing moves what the store lists */

    OBJECTS_EACH(store_list(engine->store, KIND_SERVICE, NULL), it)
        if (!(*it)->deleting && may_be_balancer(*it))
            vec_push(&found, *it);
    VEC_EACH(&found, it)
        show_balancer(engine, *it);
    vec_done(&found);
}

/* ---- all of them ---- */

/* Everything at once; what podnet refuses is noted. */
static void tell_podnet(struct services_look *look)
{
    struct local_engine *engine = look->engine;
    struct err err = {0};

    engine->services_off =
        podnet_services(engine->net, look->ports.v, look->ports.len, refused, look, &err) < 0;
    if (engine->services_off)
        log_warn("%s", err.msg);
    replace(&engine->services_refused, &look->refused);
}

static void look_at_all(void *arg)
{
    struct local_engine *engine = arg;
    struct services_look look = {.engine = engine};

    OBJECTS_EACH(store_list(engine->store, KIND_SERVICE, NULL), it)
        add_service(&look, *it);
    if (replace(&engine->services_text, &look.text) || engine->services_again)
        tell_podnet(&look);
    engine->services_again = false;
    show_balancers(engine);
    if (replace(&engine->service_names, &look.names)) {
        struct str key;
        void *value;
        size_t at = 0;

        while (map_next(engine->pods, &at, &key, &value))
            sandbox_write_hosts(value);
    }
    vec_done(&look.ports);
    vec_done(&look.owners);
    buf_done(&look.text);
    buf_done(&look.refused);
    buf_done(&look.names);
    arena_done(&look.arena);
}

void services_soon(struct local_engine *engine)
{
    if (engine->closed || loop_timer_active(engine->services_timer) ||
        (!engine->services_text && !store_count(engine->store, KIND_SERVICE, NULL)))
        return;
    loop_timer_set(engine->services_timer, GATHER_NSEC);
}

static void services_on_service(void *arg, const struct store_event *event)
{
    struct local_engine *engine = arg;

    if (event->op == STORE_DELETED)
        map_remove(engine->services_told, str_from(event->object->uid));
    services_soon(engine);
}

void services_start(struct local_engine *engine)
{
    engine->services_timer = loop_timer_new(engine->loop, look_at_all, engine);
    engine->services_told = map_new();
    engine->services_again = true; /* an earlier daemon may have left some */
    store_watch(engine->store, KIND_SERVICE, NULL, store_revision(engine->store), services_on_service, NULL,
                engine, &engine->service_watch, NULL);
    loop_timer_set(engine->services_timer, 0);
}

void services_stop(struct local_engine *engine)
{
    store_unwatch(engine->service_watch);
    loop_timer_free(engine->services_timer);
    free(engine->services_text);
    free(engine->service_names);
    free(engine->services_refused);
    map_free(TAKE_PTR(engine->services_told));
    engine->service_watch = NULL;
    engine->services_timer = NULL;
    engine->services_text = engine->service_names = engine->services_refused = NULL;
}

/* ---- names ---- */

/* "PREFIX", "PREFIX.NS", "PREFIX.NS.svc", "PREFIX.NS.svc.cluster.local". The first two may be names of real
 * machines: only those get them whose service it is. */
static void add_forms(struct buf *out, struct str prefix, struct str ns, bool own)
{
    static const char *const ends[] = {".svc", ".svc.cluster.local"};

    if (own)
        buf_printf(out, "\t%.*s\t%.*s.%.*s", STR_ARG(prefix), STR_ARG(prefix), STR_ARG(ns));
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        buf_printf(out, "\t%.*s.%.*s%s", STR_ARG(prefix), STR_ARG(ns), ends[i]);
}

/* Its own, or an admin's, of the pod's namespace. */
static bool is_own(const struct local_pod *pod, struct str ns, struct str maker)
{
    return str_is(ns, pod->ns) && (!maker.len || str_is(maker, work_rights(pod->doc)));
}

void services_hosts(const struct local_pod *pod, struct buf *out)
{
    const struct local_engine *engine = pod->engine;
    struct str rest = str_from(engine->service_names ? engine->service_names : ""), line;

    if (rest.len)
        buf_puts(out, "\n# Services.\n");
    while (str_split(&rest, '\n', &line)) {
        struct str ip, ns, name, host;

        if (!str_split(&line, ' ', &ip) || !str_split(&line, ' ', &ns) || !str_split(&line, ' ', &name) ||
            !str_split(&line, ' ', &host))
            continue;
        buf_printf(out, "%.*s", STR_ARG(ip));
        if (!str_is(host, "-")) {
            CLEANUP(buf_done) struct buf own = {0};

            buf_printf(&own, "%.*s.%.*s", STR_ARG(host), STR_ARG(name));
            add_forms(out, buf_view(&own), ns, is_own(pod, ns, line));
        }
        add_forms(out, name, ns, is_own(pod, ns, line));
        buf_putc(out, '\n');
    }
}
