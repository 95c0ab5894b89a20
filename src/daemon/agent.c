/* The daemon whose data lie in /var/lib/berth has /run/berth, cgroup /berth and bridge berth0; any other (of
 * tests, say) has names of its own, made from its folder, so that they do not meet. */
#include "daemon/agent.h"

#include "backup/backup.h"
#include "base/clock.h"
#include "base/log.h"
#include "control/util.h"
#include "daemon/run_dir.h"
#include "engine/local/local.h"
#include "gpu/cdi.h"
#include "gpu/gpu.h"
#include "image/image.h"
#include "loop/loop.h"
#include "objects/names.h"
#include "podnet/podnet.h"
#include "registry/registry.h"
#include "runtime/runtime.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#define LOG_MODULE    "agent"
#define SYSTEM_DATA   "/var/lib/berth"
#define LEASE_NS      "kube-node-lease"
#define LEASE_SEC     40
#define RENEW_SEC     10
#define HEARTBEAT_SEC 300 /* of the Node's condition, when nothing else changes */
#define IMAGES_SHOWN  50
#define SPARE_NETS    4

struct agent {
    struct loop *loop;
    struct registry *registry;
    struct runtime *rt;
    struct images *images;
    struct podnet *net;
    struct gpus *gpus;
    struct cdi *cdi;
    struct engine *engine;
    struct loop_timer *timer;
    char *node_name, host_ip[INET_ADDRSTRLEN];
    char *cgroup; /* all containers are below it */
    char *run_dir;
    char *text;     /* what was found, in words */
    char *repaired; /* what had to be made again last */
    int64_t repaired_at;
    char *warning;     /* why it is not the usual OCI runtime; NULL: it is */
    int64_t heartbeat; /* of the Node, monotonic */
    bool disk_short, memory_short;
};

/* ---- the Node ---- */

static void set_images(struct agent *agent, struct arena *arena, struct json *status)
{
    CLEANUP(free) struct images_entry *entries = NULL;
    size_t len = images_list(agent->images, &entries);
    struct json *list = json_set_array(arena, status, "images");

    for (size_t i = 0; i < len && list->len < IMAGES_SHOWN; i++) {
        struct json *out;

        if (!entries[i].name)
            continue;
        out = json_push_object(arena, list);
        json_push_string(arena, json_set_array(arena, out, "names"), entries[i].name);
        json_set_int(arena, out, "sizeBytes", entries[i].image->size);
    }
}

static void set_cards(struct agent *agent, struct arena *arena, struct json *status, const char *key)
{
    size_t count = agent->engine->ops->capacity(agent->engine, NULL, 0);

    if (count)
        json_set_string(arena, json_need_object(arena, status, key), GPU_RESOURCE,
                        arena_printf(arena, "%zu", count));
}

static void set_pressure(struct agent *agent, struct arena *arena, struct json *status, int64_t now)
{
    static const char *const types[][5] = {
        {"MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available",
         "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"},
        {"DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure", "KubeletHasDiskPressure",
         "kubelet has disk pressure"},
        {"PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available", "", ""},
    };
    const bool is_short[] = {agent->memory_short, agent->disk_short, false};

    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        condition_set(arena, status, types[i][0], is_short[i] ? "True" : "False",
                      types[i][is_short[i] ? 3 : 1], types[i][is_short[i] ? 4 : 2], now);
}

/* What the queue has to know of each card. */
static void set_cards_note(struct agent *agent, struct arena *arena, struct json *doc)
{
    struct json *list = json_new_array(arena);
    struct json *notes = json_need_object(arena, json_need_object(arena, doc, "metadata"), "annotations");
    CLEANUP(buf_done) struct buf text = {0};
    struct engine_card cards[GPU_CARDS_MAX];
    size_t count = agent->engine->ops->capacity(agent->engine, cards, ARRAY_LEN(cards));

    for (size_t i = 0; i < count && i < ARRAY_LEN(cards); i++) {
        struct json *out = json_push_object(arena, list);

        json_set_int(arena, out, "index", (int64_t)i);
        json_set_string(arena, out, "uuid", cards[i].uuid);
        json_set_string(arena, out, "model", cards[i].model);
        json_set_int(arena, out, "mib", cards[i].mib);
        json_set_bool(arena, out, "declared", cards[i].declared);
        if (cards[i].failed)
            json_set_bool(arena, out, "failed", true);
    }
    json_write(&text, list);
    if (list->len)
        json_set(arena, notes, NODE_CARDS_ANNOTATION, json_of_str(arena, buf_view(&text)));
    else
        json_remove(notes, NODE_CARDS_ANNOTATION);
}

static bool edit_node(void *arg, struct arena *arena, struct json *doc)
{
    struct agent *agent = arg;
    struct json *status = json_need_object(arena, doc, "status"), *addresses = json_get(status, "addresses");
    const char *damage = agent_damage(agent);
    int64_t now = clock_now();

    set_pressure(agent, arena, status, now);
    condition_set(arena, status, "NetworkUnavailable", damage ? "True" : "False",
                  damage ? "NetworkDamaged" : "NetworkReady", damage ? damage : "the pods' network is set up",
                  now);
    condition_set(arena, status, "Ready", "True", "KubeletReady", "the node agent is running", now);
    JSON_EACH(json_get(status, "conditions"), it)
        time_set(arena, it, "lastHeartbeatTime", now);
    set_cards(agent, arena, status, "capacity");
    set_cards(agent, arena, status, "allocatable");
    set_cards_note(agent, arena, doc);
    JSON_EACH(addresses, it)
        if (streq(json_get_string(it, "type"), "InternalIP"))
            json_set_string(arena, it, "address", agent->host_ip);
    set_images(agent, arena, status);
    return true;
}

static void update_node(struct agent *agent)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure, .manager = "berth"};
    const struct object *node = store_get(registry_store(agent->registry), KIND_NODE, "", agent->node_name);
    struct written written;

    agent->heartbeat = clock_monotonic();
    if (node && registry_edit_object(agent->registry, &write, node, edit_node, agent, &written) < 0)
        log_warn("node '%s': %s", agent->node_name, failure.message);
}

/* ---- what others remove ---- */

void agent_repaired(struct agent *agent, const char *reason, const char *fmt, ...)
{
    const struct object *node =
        agent ? store_get(registry_store(agent->registry), KIND_NODE, "", agent->node_name) : NULL;
    CLEANUP(buf_done) struct buf text = {0};
    va_list ap;

    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    log_warn("%s", text.data);
    if (!agent)
        return;
    free(agent->repaired);
    agent->repaired = mem_strdup(text.data);
    agent->repaired_at = clock_now();
    if (node)
        registry_event(agent->registry, node, "Warning", reason, "%s", text.data);
}

const char *agent_last_repair(const struct agent *agent, int64_t *time)
{
    if (agent && time)
        *time = agent->repaired_at;
    return agent ? agent->repaired : NULL;
}

const char *agent_damage(const struct agent *agent)
{
    return agent ? podnet_trouble(agent->net) : NULL;
}

static void agent_on_mended(void *arg, const char *sentence, bool failed)
{
    struct agent *agent = arg;

    agent_repaired(agent, failed ? "NetworkDamaged" : "NetworkRepaired", "%s%s",
                   failed ? "the pods' network is damaged: " : "", sentence);
    update_node(agent);
}

static bool edit_off(void *arg, struct arena *arena, struct json *doc)
{
    return condition_set(arena, json_need_object(arena, doc, "status"), "Ready", "False", "NoNodeAgent",
                         arena_printf(arena, "no node agent is running on this machine: %s", (char *)arg),
                         clock_now());
}

void agent_say_off(struct registry *registry, const char *node_name, const char *why)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure, .manager = "berth"};
    const struct object *node = store_get(registry_store(registry), KIND_NODE, "", node_name);
    struct written written;

    if (node && registry_edit_object(registry, &write, node, edit_off, (void *)(uintptr_t)why, &written) < 0)
        log_warn("node '%s': %s", node_name, failure.message);
}

static void fill_lease(struct agent *agent, struct arena *arena, struct json *doc)
{
    struct json *spec = json_need_object(arena, doc, "spec");
    char time[CLOCK_TEXT_MAX];

    json_set_string(arena, spec, "holderIdentity", agent->node_name);
    json_set_int(arena, spec, "leaseDurationSeconds", LEASE_SEC);
    json_set_string(arena, spec, "renewTime", clock_format_micro(clock_now(), time));
}

static bool edit_lease(void *arg, struct arena *arena, struct json *doc)
{
    fill_lease(arg, arena, doc);
    return true;
}

static void renew_lease(struct agent *agent)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure, .manager = "berth"};
    const struct object *lease =
        store_get(registry_store(agent->registry), KIND_LEASE, LEASE_NS, agent->node_name);
    struct written written;
    int result;

    if (lease) {
        result = registry_edit_object(agent->registry, &write, lease, edit_lease, agent, &written);
    } else {
        struct json *doc = json_new_object(&arena);

        json_set_string(&arena, json_set_object(&arena, doc, "metadata"), "name", agent->node_name);
        fill_lease(agent, &arena, doc);
        result = registry_create(agent->registry, &write, kind_by_id(KIND_LEASE), LEASE_NS, doc, &written);
    }
    if (result < 0)
        log_warn("lease '%s': %s", agent->node_name, failure.message);
}

static void agent_on_timer(void *arg)
{
    struct agent *agent = arg;

    bool disk, memory;

    renew_lease(agent);
    agent->engine->ops->pressure(agent->engine, &disk, &memory);
    if (disk != agent->disk_short || memory != agent->memory_short ||
        clock_monotonic() - agent->heartbeat >= HEARTBEAT_SEC * NSEC_PER_SEC) {
        agent->disk_short = disk;
        agent->memory_short = memory;
        update_node(agent);
    }
    loop_timer_set(agent->timer, RENEW_SEC * NSEC_PER_SEC);
}

/* ---- the parts ---- */

/* Eight hex digits that are always the same for a folder (FNV-1a). */
static char *own_suffix(const char *text)
{
    uint32_t hash = 2166136261U;

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619U;
    return mem_printf("%08x", hash);
}

char *agent_log_dir(const char *data_dir)
{
    return mem_printf("%s/logs", data_dir);
}

char *agent_run_dir(const char *data_dir)
{
    CLEANUP(free) char *suffix = streq(data_dir, SYSTEM_DATA) ? NULL : own_suffix(data_dir);

    return suffix ? mem_printf("/run/berth-%s", suffix) : mem_strdup("/run/berth");
}

static int open_runtime(struct agent *agent, const struct daemon_config *config, const char *run_dir,
                        const char *suffix, struct err *err)
{
    CLEANUP(free) char *state = mem_printf("%s/containers", run_dir);
    char *cgroup = agent->cgroup = suffix ? mem_printf("/berth-%s", suffix) : mem_strdup("/berth");
    struct runtime_config runtime = {.state_dir = state,
                                     .run_dir = run_dir,
                                     .cgroup_parent = cgroup,
                                     .oci_runtime = config->oci_runtime,
                                     .favor_changes = !config->slow_cgroups};
    const char *shim = getenv("BERTH_SHIM");

    runtime.shim_path = shim;
    return runtime_open(agent->loop, &runtime, &agent->rt, &agent->warning, err);
}

size_t agent_registries(const struct daemon_config *config, struct images_registry *ret)
{
    size_t n = 0;

    VEC_EACH(&config->registries, it)
        ret[n++] = (struct images_registry){.host = it->host,
                                            .insecure = it->insecure,
                                            .ca_file = it->ca_file,
                                            .mirror = it->mirror,
                                            .mirror_insecure = it->mirror_insecure};
    return n;
}

static int open_images(struct agent *agent, const struct daemon_config *config, const char *run_dir,
                       struct err *err)
{
    CLEANUP(free) char *dir = mem_printf("%s/images", config->data_dir);
    struct images_config images = {.run_dir = run_dir, .gc_interval_sec = 3600};

    struct images_registry *registries = mem_zalloc((config->registries.len + 1) * sizeof(*registries));
    int result;

    images.helper = getenv("BERTH_IMAGE_HELPER");
    images.stall_sec = config->image_stall_sec;
    images.gc_days = config->image_days;
    images.gc_high_percent = config->image_disk_percent;
    if (config->image_disk_percent > 0)
        images.gc_low_percent = config->image_disk_percent - 10;
    images.registries = registries;
    images.registries_len = agent_registries(config, registries);
    result = images_open(dir, agent->loop, &images, &agent->images, err);
    free(registries);
    return result;
}

struct images *agent_images(struct agent *agent)
{
    return agent ? agent->images : NULL;
}

static int open_net(struct agent *agent, const struct daemon_config *config, const char *run_dir,
                    const char *suffix, struct err *err)
{
    static const enum podnet_mode modes[] = {[CONFIG_NETWORK_AUTO] = PODNET_AUTO,
                                             [CONFIG_NETWORK_BRIDGE] = PODNET_BRIDGE,
                                             [CONFIG_NETWORK_SLIRP] = PODNET_SLIRP,
                                             [CONFIG_NETWORK_HOST] = PODNET_HOST};
    CLEANUP(free) char *bridge = suffix ? mem_printf("bth%s", suffix) : NULL;
    CLEANUP(free) char *subnet_file = mem_printf("%s/pod-subnet", config->data_dir);
    struct podnet_config net = {.bridge = bridge,
                                .subnet_file = subnet_file,
                                .run_dir = run_dir,
                                .mode = modes[config->network],
                                .spares = SPARE_NETS};

    if (podnet_open(agent->loop, &net, &agent->net, err) < 0)
        return -1;
    podnet_on_mended(agent->net, agent_on_mended, agent);
    if (podnet_warning(agent->net))
        log_warn("network: %s", podnet_warning(agent->net));
    return 0;
}

static int open_cards(struct agent *agent, const struct daemon_config *config, struct err *err)
{
    CLEANUP(buf_done) struct buf declared = {0};
    struct gpu_config gpu = {0};

    VEC_EACH(&config->gpus, it)
        buf_printf(&declared, "%s1x%lld", declared.len ? "," : "", (long long)*it);
    gpu.declared = declared.data;
    if (gpu_open(&gpu, &agent->gpus, err) < 0 || cdi_load(NULL, &agent->cdi, err) < 0)
        return -1;
    if (*cdi_warnings(agent->cdi))
        log_warn("CDI: %s", cdi_warnings(agent->cdi));
    return 0;
}

/* The address by which others reach this machine: that of the default route. Nothing is sent. */
static void find_address(char text[INET_ADDRSTRLEN])
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(9)};
    socklen_t len = sizeof(addr);
    CLEANUP(fd_close) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    snprintf(text, INET_ADDRSTRLEN, "127.0.0.1");
    inet_pton(AF_INET, "192.0.2.1", &addr.sin_addr);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 &&
        getsockname(fd, (struct sockaddr *)&addr, &len) == 0)
        inet_ntop(AF_INET, &addr.sin_addr, text, INET_ADDRSTRLEN);
}

static int open_engine(struct agent *agent, const struct daemon_config *config, struct err *err)
{
    const char **admins = mem_zalloc((config->admins.len + 1) * sizeof(*admins));
    CLEANUP(free) char *log_dir = agent_log_dir(config->data_dir);
    struct local_config local = {.loop = agent->loop,
                                 .registry = agent->registry,
                                 .runtime = agent->rt,
                                 .images = agent->images,
                                 .net = agent->net,
                                 .node_name = agent->node_name,
                                 .data_dir = config->data_dir,
                                 .log_dir = log_dir,
                                 .run_dir = agent->run_dir,
                                 .host_ip = agent->host_ip,
                                 .admins = admins,
                                 .gpus = agent->gpus,
                                 .cdi = agent->cdi,
                                 .cgroup = agent->cgroup,
                                 .project_first = config->project_first,
                                 .project_last = config->project_last,
                                 .project_off = config->project_off,
                                 .keep_unknown = BACKUP_KEEP_NAME};
    int result;

    for (size_t i = 0; i < config->admins.len; i++)
        admins[i] = config->admins.v[i];
    result = local_engine_new(&local, &agent->engine, err);
    free(admins);
    return result;
}

static int open_all(struct agent *agent, const struct daemon_config *config, struct err *err)
{
    CLEANUP(free) char *suffix = streq(config->data_dir, SYSTEM_DATA) ? NULL : own_suffix(config->data_dir);
    CLEANUP(free) char *run_dir = agent_run_dir(config->data_dir);

    if (run_dir_make(run_dir, err) < 0)
        return -1;
    agent->run_dir = mem_strdup(run_dir);
    if (open_runtime(agent, config, run_dir, suffix, err) < 0)
        return err_prefix(err, "runtime");
    if (open_images(agent, config, run_dir, err) < 0)
        return err_prefix(err, "images");
    if (open_net(agent, config, run_dir, suffix, err) < 0)
        return err_prefix(err, "network");
    if (open_cards(agent, config, err) < 0)
        return err_prefix(err, "cards");
    return open_engine(agent, config, err);
}

int agent_new(struct loop *loop, struct registry *registry, const struct daemon_config *config,
              struct agent **ret, struct err *err)
{
    CLEANUP(agent_free) struct agent *agent = NEW(struct agent);

    agent->loop = loop;
    agent->registry = registry;
    agent->node_name = mem_strdup(config->node_name);
    if (geteuid() != 0)
        return err_set(err, ERR_UNSUPPORTED, "containers need root, and berthd runs as uid %u",
                       (unsigned)geteuid());
    find_address(agent->host_ip);
    if (open_all(agent, config, err) < 0)
        return -1;
    agent->timer = loop_timer_new(loop, agent_on_timer, agent);
    loop_timer_set(agent->timer, RENEW_SEC * NSEC_PER_SEC);
    update_node(agent);
    renew_lease(agent);
    agent->text = mem_printf("%s, %s, %s; cards: %s; claims: %s", runtime_oci_path(agent->rt),
                             runtime_cgroups_text(agent->rt), podnet_mode_text(agent->net),
                             gpu_source(agent->gpus), agent->engine->ops->claims_text(agent->engine));
    log_info("node agent: %s", agent->text);
    if (agent->warning)
        log_warn("%s; using %s", agent->warning, runtime_oci_path(agent->rt));
    *ret = TAKE_PTR(agent);
    return 0;
}

void agent_free(struct agent *agent)
{
    if (!agent)
        return;
    loop_timer_free(agent->timer);
    engine_close(agent->engine);
    runtime_free(agent->rt);
    podnet_free(agent->net);
    images_free(agent->images);
    engine_free(agent->engine);
    if (agent->run_dir)
        run_dir_leave(agent->run_dir);
    free(agent->run_dir);
    cdi_free(agent->cdi);
    gpu_close(agent->gpus);
    free(agent->node_name);
    free(agent->cgroup);
    free(agent->text);
    free(agent->warning);
    free(agent->repaired);
    free(agent);
}

struct engine *agent_engine(const struct agent *agent)
{
    return agent ? agent->engine : NULL;
}

const char *agent_text(const struct agent *agent)
{
    return agent->text;
}

const char *agent_warning(const struct agent *agent)
{
    return agent ? agent->warning : NULL;
}

const struct podnet *agent_network(const struct agent *agent)
{
    return agent->net;
}

bool agent_short_of_memory(const struct agent *agent)
{
    return agent->memory_short;
}

struct podnet *agent_net(struct agent *agent)
{
    return agent ? agent->net : NULL;
}
