/* The environment is the table of the DL scheduler's guide; scripts and the libraries they use rely on each
 * name in it. Which cards a container sees (CUDA_VISIBLE_DEVICES and its like) is the engine's to say: it
 * knows what the container really gets. */
#include "control/training.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "objects/names.h"

#define HEARTBEAT_MAX   100 /* steps between two profiles */
#define HEARTBEAT_PARTS 10  /* profiles of one epoch, where its steps are known */
#define CPU_MILLI       100 /* weight in the shared pool of cores, for each card */
#define PORT_FIRST      29500
#define PORT_COUNT      2000
#define GRACE_SEC       30
#define IMAGE_HOST      "host"
#define PYTHONPATH_OURS "$(PYTHONPATH):" TRAINING_LIBRARY

struct making {
    struct arena *arena;
    const struct json *job, *spec;
    const struct training_run *run;
    struct json *container, *env, *mounts, *volumes;
};

/* ---- environment ---- */

static const struct json *own_env(const struct making *m, const char *name)
{
    JSON_EACH(json_get(m->spec, "env"), it)
        if (streq(json_get_string(it, "name"), name))
            return it;
    return NULL;
}

static void env(const struct making *m, const char *name, const char *value)
{
    struct json *var = json_push_object(m->arena, m->env);

    json_set_string(m->arena, var, "name", name);
    json_set_string(m->arena, var, "value", value ? value : "");
}

static void env_int(const struct making *m, const char *name, int64_t value)
{
    env(m, name, arena_printf(m->arena, "%lld", (long long)value));
}

/* A default that the job's own env may replace. */
static void env_soft(const struct making *m, const char *name, const char *value)
{
    if (!own_env(m, name))
        env(m, name, value);
}

/* The same for all nodes of a run, seldom the same for two jobs: those without a network of their own share
 * the machine's ports. */
static unsigned master_port(const struct making *m)
{
    uint32_t hash = 2166136261U;

    for (const char *c = json_string_or(json_at(m->job, "metadata.uid"), ""); *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619U;
    return PORT_FIRST + hash % PORT_COUNT * 2;
}

static uint32_t node_count(const struct making *m)
{
    return m->run->node_count ? m->run->node_count : 1;
}

static const char *node_address(const struct making *m, uint32_t i)
{
    const struct training_node *node = &m->run->nodes[i];

    return m->run->node_count < 2 ? "127.0.0.1" : node->address ? node->address : node->name;
}

static const char *tf_config(const struct making *m)
{
    CLEANUP(buf_done) struct buf text = {0};

    buf_puts(&text, "{\"cluster\": {\"worker\": [");
    for (uint32_t i = 0; i < node_count(m); i++)
        buf_printf(&text, "%s\"%s:%u\"", i ? ", " : "", node_address(m, i), master_port(m) + 1);
    buf_printf(&text, "]}, \"task\": {\"type\": \"worker\", \"index\": %u}}", m->run->rank);
    return arena_strndup(m->arena, text.data, text.len);
}

static const char *node_list(const struct making *m)
{
    CLEANUP(buf_done) struct buf text = {0};

    for (uint32_t i = 0; i < m->run->node_count; i++)
        buf_printf(&text, "%s%s", i ? "," : "", m->run->nodes[i].name);
    return arena_strndup(m->arena, text.data ? text.data : "localhost", text.data ? text.len : 9);
}

static int64_t number(const struct making *m, const char *key, int64_t fallback)
{
    return json_int(json_get(m->spec, key), fallback);
}

static int64_t heartbeat(const struct making *m)
{
    int64_t batch = number(m, "batchSize", 1), gpus = m->run->num_gpus ? m->run->num_gpus : 1;
    int64_t each = number(m, "trainingSetSize", 1) / (batch < 1 ? 1 : batch) / gpus / HEARTBEAT_PARTS;

    return each < 1 ? 1 : each > HEARTBEAT_MAX ? HEARTBEAT_MAX : each;
}

static void add_guide_env(const struct making *m)
{
    const struct training_run *run = m->run;

    env_int(m, "MASTER_PORT", master_port(m));
    env_int(m, "WORLD_SIZE", node_count(m));
    env(m, "MASTER_ADDR", node_address(m, 0));
    env_int(m, "NODE_RANK", run->rank);
    env(m, "TF_CONFIG", tf_config(m));
    env(m, "JOB_UUID", json_string_or(json_at(m->job, "metadata.uid"), ""));
    env(m, "JOB_RESTARTED", run->epochs_done > 0 ? "TRUE" : "FALSE");
    env_int(m, "RESERVED_MEM", run->mib ? run->mib : number(m, "estimatedMemoryMiB", 0));
    env_int(m, "EPOCHS_DONE", run->epochs_done);
    if (run->steps_done)
        env_int(m, "BERTH_STEPS_DONE", (int64_t)run->steps_done);
    env_soft(m, "HEARTBEAT_FREQ", arena_printf(m->arena, "%lld", (long long)heartbeat(m)));
    env(m, "NODELIST", node_list(m));
    env_int(m, "NUM_GPUS", run->num_gpus);
    env_int(m, "NUM_NODES", node_count(m));
    env_soft(m, "PL_TORCH_DISTRIBUTED_BACKEND", run->num_gpus ? "nccl" : "gloo");
    env_int(m, "BATCH_SIZE", number(m, "batchSize", 1));
    env_int(m, "EPOCHS_TO_BE_DONE", number(m, "maxEpochs", 1));
    env_int(m, "TRAINING_SET_SIZE", number(m, "trainingSetSize", 1));
}

static bool is_set(const struct making *m, const char *name)
{
    JSON_EACH(m->env, it)
        if (streq(json_get_string(it, "name"), name))
            return true;
    return false;
}

/* "10.88.0.1:5337" of "http://10.88.0.1:5337", for libraries that take a host. */
static const char *host_of(const char *url)
{
    const char *slashes = strstr(url, "://");

    return slashes ? slashes + 3 : url;
}

static void add_berth_env(const struct making *m)
{
    const struct json *path = own_env(m, "PYTHONPATH");
    const char *given = json_get_string(path, "value");

    if (m->run->url) {
        env(m, "BERTH_URL", m->run->url);
        env(m, "BERTH_HOST", host_of(m->run->url));
    }
    env_soft(m, "PYTHONUNBUFFERED", "1");
    /* The image's own path stays in front: an engine that knows it fills it in, for others it is a folder
     * that is not there. */
    if (m->run->library && (!path || given))
        env(m, "PYTHONPATH",
            given ? arena_printf(m->arena, "%s:%s", given, TRAINING_LIBRARY) : PYTHONPATH_OURS);
}

static void add_env(struct making *m)
{
    m->env = json_set_array(m->arena, m->container, "env");
    add_guide_env(m);
    add_berth_env(m);
    JSON_EACH(json_get(m->spec, "env"), it)
        if (!is_set(m, json_string_or(json_get(it, "name"), "")))
            json_push(m->arena, m->env, *it);
}

/* ---- mounts ---- */

static struct json *add_volume(struct making *m, const char *name, const char *at, bool read_only)
{
    struct json *mount = json_push_object(m->arena, m->mounts), *volume;

    json_set_string(m->arena, mount, "name", name);
    json_set_string(m->arena, mount, "mountPath", at);
    if (read_only)
        json_set_bool(m->arena, mount, "readOnly", true);
    volume = json_push_object(m->arena, m->volumes);
    json_set_string(m->arena, volume, "name", name);
    return volume;
}

static void add_folder(struct making *m, const char *name, const char *at, const char *path, const char *type,
                       bool read_only)
{
    struct json *source;

    if (!path || !*path)
        return;
    source = json_set_object(m->arena, add_volume(m, name, at, read_only), "hostPath");
    json_set_string(m->arena, source, "path", path);
    json_set_string(m->arena, source, "type", type);
}

static void add_mounts(struct making *m, struct json *pod_spec)
{
    const char *snapshots = json_get_string(m->spec, "snapshotsDir");
    struct json *memory;

    m->mounts = json_set_array(m->arena, m->container, "volumeMounts");
    m->volumes = json_new_array(m->arena);
    add_folder(m, "custom", "/custom", json_get_string(m->spec, "customDir"), "Directory", false);
    if (snapshots && *snapshots)
        add_folder(m, "snapshots", "/snapshots", snapshots, "DirectoryOrCreate", false);
    else
        json_set_object(m->arena, add_volume(m, "snapshots", "/snapshots", false), "emptyDir");
    add_folder(m, "data", "/data", m->run->datasets, "Directory", false);
    add_folder(m, "berth-library", TRAINING_LIBRARY, m->run->library, "Directory", true);
    /* Data loaders hand batches over in shared memory; 64 MiB, as containers have it, is not enough. */
    memory = json_set_object(m->arena, add_volume(m, "shm", "/dev/shm", false), "emptyDir");
    json_set_string(m->arena, memory, "medium", "Memory");
    json_set(m->arena, pod_spec, "volumes", *m->volumes);
}

/* ---- command, resources, ports ---- */

static void add_command(struct making *m)
{
    const char *script = json_get_string(m->spec, "scriptPath"),
               *custom = json_get_string(m->spec, "customDir");
    const struct json *command = json_get(m->spec, "command"), *args = json_get(m->spec, "args");
    bool host = streq(json_get_string(m->spec, "image"), IMAGE_HOST);
    struct json *list;

    if (json_len(command)) {
        json_set(m->arena, m->container, "command", *command);
    } else if (script && *script) {
        list = json_set_array(m->arena, m->container, "command");
        json_push_string(m->arena, list, host ? "python3" : "python");
        json_push_string(m->arena, list, script);
    }
    if (json_len(args))
        json_set(m->arena, m->container, "args", *args);
    if (custom && *custom && (host || json_len(command)))
        json_set_string(m->arena, m->container, "workingDir", "/custom");
}

/* Cores are a shared pool: a job has a weight by its cards, and a limit only when it asks for one. */
static void add_resources(struct making *m)
{
    uint32_t cards = m->run->node_count ? m->run->nodes[m->run->rank].card_count : 0;
    struct json *resources = json_set_object(m->arena, m->container, "resources");
    struct json *limits = json_set_object(m->arena, resources, "limits"), *requests;
    const struct json *cpu = json_get(m->spec, "cpu"), *memory = json_get(m->spec, "memory");

    if (cards)
        json_set_string(m->arena, limits, GPU_RESOURCE, arena_printf(m->arena, "%u", cards));
    if (cpu)
        json_set(m->arena, limits, "cpu", *cpu);
    if (memory)
        json_set(m->arena, limits, "memory", *memory);
    requests = json_set_object(m->arena, resources, "requests");
    json_set_string(m->arena, requests, "cpu",
                    arena_printf(m->arena, "%um", CPU_MILLI * (cards ? cards : 1)));
    if (memory)
        json_set(m->arena, requests, "memory", *memory);
    if (cards)
        json_set_string(m->arena, requests, GPU_RESOURCE, arena_printf(m->arena, "%u", cards));
}

/* "31346:6006,…"; only the run's first pod has the ports of the node. */
static void add_ports(struct making *m)
{
    struct str rest = json_str(json_get(m->spec, "portMapping")), pair;
    struct json *ports = NULL;

    while (m->run->rank == 0 && rest.len && str_split(&rest, ',', &pair)) {
        struct str left, right = str_trim(pair);
        int64_t node, inside;
        struct json *port;

        if (!str_split(&right, ':', &left) || !str_to_int(left, &node) || !str_to_int(right, &inside))
            continue;
        if (!ports)
            ports = json_set_array(m->arena, m->container, "ports");
        port = json_push_object(m->arena, ports);
        json_set_int(m->arena, port, "containerPort", inside);
        json_set_int(m->arena, port, "hostPort", node);
        json_set_string(m->arena, port, "protocol", "TCP");
    }
}

struct json *training_pod(struct arena *arena, const struct json *trainingjob, const struct training_run *run)
{
    struct json *pod = json_new_object(arena), *spec, *meta;
    struct making m = {.arena = arena, .job = trainingjob, .spec = json_get(trainingjob, "spec"), .run = run};

    json_set_string(arena, pod, "apiVersion", "v1");
    json_set_string(arena, pod, "kind", "Pod");
    meta = json_set_object(arena, pod, "metadata");
    if (run->pod_name)
        json_set_string(arena, meta, "name", run->pod_name);
    /* A script that is PID 1 would not see TERM. */
    json_set_string(arena, json_set_object(arena, meta, "annotations"), INIT_ANNOTATION, "true");
    spec = json_set_object(arena, pod, "spec");
    m.container = json_new_object(arena);
    json_set_string(arena, m.container, "name", "train");
    json_set_string(arena, m.container, "image", json_string_or(json_get(m.spec, "image"), IMAGE_HOST));
    add_command(&m);
    add_env(&m);
    add_mounts(&m, spec);
    add_resources(&m);
    add_ports(&m);
    json_set(arena, spec, "restartPolicy", json_of_string_ref("Never"));
    json_set_int(arena, spec, "terminationGracePeriodSeconds", GRACE_SEC);
    json_set_bool(arena, spec, "enableServiceLinks", false);
    json_push(arena, json_set_array(arena, spec, "containers"), *m.container);
    return pod;
}
