#include "daemon/bootstrap.h"

#include "base/clock.h"
#include "objects/names.h"

#include <sys/sysinfo.h>
#include <sys/utsname.h>

#define NODE_PODS_MAX "500" /* pods this machine takes */

static const struct first_object {
    int kind;
    const char *ns;
    const char *name;
    const char *rest; /* members beside metadata, as JSON */
    const char *annotations;
} first_objects[] = {
    {KIND_NAMESPACE, "", "default", "{}", NULL},
    {KIND_NAMESPACE, "", "kube-system", "{}", NULL},
    {KIND_NAMESPACE, "", "kube-node-lease", "{}", NULL},
    {KIND_PRIORITY_CLASS, "", "system-node-critical",
     "{\"value\":2000001000,\"description\":\"For what a node cannot do without.\"}", NULL},
    {KIND_PRIORITY_CLASS, "", "system-cluster-critical",
     "{\"value\":2000000000,\"description\":\"For what Berth itself cannot do without.\"}", NULL},
    {KIND_STORAGE_CLASS, "", "standard",
     "{\"provisioner\":\"berth.dev/local\",\"reclaimPolicy\":\"Delete\",\"volumeBindingMode\":\"Immediate\","
     "\"allowVolumeExpansion\":true}",
     "{\"storageclass.kubernetes.io/is-default-class\":\"true\"}"},
};

static int make_first(struct registry *registry, const struct first_object *first, struct err *err)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure, .manager = "berth"};
    struct written written;
    struct json *doc, *meta, *annotations;

    if (store_get(registry_store(registry), first->kind, first->ns, first->name))
        return 0;
    if (json_parse(str_from(first->rest), &arena, &doc, NULL, err) < 0)
        return -1;
    meta = json_set_object(&arena, doc, "metadata");
    json_set_string(&arena, meta, "name", first->name);
    if (first->annotations) {
        if (json_parse(str_from(first->annotations), &arena, &annotations, NULL, err) < 0)
            return -1;
        json_set(&arena, meta, "annotations", *annotations);
    }
    if (registry_create(registry, &write, kind_by_id(first->kind), first->ns, doc, &written) < 0)
        return err_set(err, ERR_INTERNAL, "make %s '%s': %s", kind_by_id(first->kind)->singular, first->name,
                       failure.message);
    return 0;
}

int bootstrap_objects(struct registry *registry, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(first_objects); i++)
        if (make_first(registry, &first_objects[i], err) < 0)
            return -1;
    return 0;
}

static void set_resources(struct arena *arena, struct json *status, const char *key,
                          const struct daemon_config *config)
{
    struct json *resources = json_set_object(arena, status, key);
    struct sysinfo info;

    sysinfo(&info);
    json_set_string(arena, resources, "cpu", arena_printf(arena, "%ld", sysconf(_SC_NPROCESSORS_ONLN)));
    json_set_string(arena, resources, "memory",
                    arena_printf(arena, "%lluKi", (unsigned long long)info.totalram * info.mem_unit / 1024));
    json_set_string(arena, resources, "pods", NODE_PODS_MAX);
    if (config->gpus.len)
        json_set_string(arena, resources, GPU_RESOURCE, arena_printf(arena, "%zu", config->gpus.len));
}

static void set_node_info(struct arena *arena, struct json *status)
{
    struct json *info = json_set_object(arena, status, "nodeInfo");
    struct utsname machine;

    uname(&machine);
    json_set_string(arena, info, "machineID", "");
    json_set_string(arena, info, "systemUUID", "");
    json_set_string(arena, info, "bootID", "");
    json_set_string(arena, info, "kernelVersion", machine.release);
    json_set_string(arena, info, "osImage", "Linux");
    json_set_string(arena, info, "containerRuntimeVersion", "berth://" BERTH_VERSION);
    json_set_string(arena, info, "kubeletVersion", "v1.33.0-berth." BERTH_VERSION);
    json_set_string(arena, info, "kubeProxyVersion", "");
    json_set_string(arena, info, "operatingSystem", "linux");
    json_set_string(arena, info, "architecture", streq(machine.machine, "aarch64") ? "arm64" : "amd64");
}

static void set_conditions(struct arena *arena, struct json *status)
{
    struct json *ready = json_push_object(arena, json_set_array(arena, status, "conditions"));
    char time[CLOCK_TEXT_MAX];

    clock_format(clock_now(), time);
    json_set_string(arena, ready, "type", "Ready");
    json_set_string(arena, ready, "status", "False");
    json_set_string(arena, ready, "lastHeartbeatTime", time);
    json_set_string(arena, ready, "lastTransitionTime", time);
    json_set_string(arena, ready, "reason", "NoNodeAgent");
    json_set_string(arena, ready, "message", "no node agent is running on this machine");
}

static void fill_node(struct arena *arena, struct json *doc, const struct daemon_config *config)
{
    struct json *labels = json_need_object(arena, json_need_object(arena, doc, "metadata"), "labels");
    struct json *status, *address;

    json_set_string(arena, labels, "kubernetes.io/hostname", config->node_name);
    json_set_string(arena, labels, "kubernetes.io/os", "linux");
    VEC_EACH(&config->node_labels, it)
        json_set_string(arena, labels, it->key, it->value);
    json_need_object(arena, doc, "spec");
    status = json_set_object(arena, doc, "status");
    set_resources(arena, status, "capacity", config);
    set_resources(arena, status, "allocatable", config);
    set_conditions(arena, status);
    address = json_push_object(arena, json_set_array(arena, status, "addresses"));
    json_set_string(arena, address, "type", "InternalIP");
    json_set_string(arena, address, "address", "127.0.0.1");
    address = json_push_object(arena, json_get(status, "addresses"));
    json_set_string(arena, address, "type", "Hostname");
    json_set_string(arena, address, "address", config->node_name);
    set_node_info(arena, status);
}

static bool edit_node(void *arg, struct arena *arena, struct json *doc)
{
    fill_node(arena, doc, arg);
    return true;
}

int bootstrap_node(struct registry *registry, const struct daemon_config *config, struct err *err)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure, .manager = "berth"};
    const struct object *there = store_get(registry_store(registry), KIND_NODE, "", config->node_name);
    struct written written;
    int result;

    if (there) {
        result = registry_edit_object(registry, &write, there, edit_node, (void *)config, &written);
    } else {
        struct json *doc = json_new_object(&arena);

        json_set_string(&arena, json_set_object(&arena, doc, "metadata"), "name", config->node_name);
        fill_node(&arena, doc, config);
        result = registry_create(registry, &write, kind_by_id(KIND_NODE), "", doc, &written);
    }
    return result == 0 ? 0
                       : err_set(err, ERR_INTERNAL, "make node '%s': %s", config->node_name, failure.message);
}
