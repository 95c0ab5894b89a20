#include "control/training_check.h"

#include "base/arena.h"
#include "base/cleanup.h"
#include "objects/quantity.h"

#include <stdio.h>

#define PORTS_MAX      64
#define PORT_LOW       1024
#define MOUNT_CUSTOM   "/custom"
#define MOUNT_SHOTS    "/snapshots"
#define MOUNT_DATA     "/data"
#define CHECK_PATH_MAX 4096

/* What stands behind `folder/` in path; NULL: it is not in there. */
static const char *below(const char *path, const char *folder)
{
    size_t len = folder ? strlen(folder) : 0;

    while (len && folder[len - 1] == '/')
        len--;
    if (!len || strncmp(path, folder, len) != 0 || path[len] != '/')
        return NULL;
    return path + len + 1;
}

/* ---- the script ---- */

struct mount {
    const char *at, *folder, *option;
};

/* The path on this machine was given instead of the one in the container: the guide's own warning. */
static int check_host_path(const char *script, const struct mount *mounts, size_t len, struct err *err)
{
    for (size_t i = 0; i < len; i++) {
        const char *rest = below(script, mounts[i].folder);

        if (rest && !streq(mounts[i].folder, mounts[i].at))
            return err_set(
                err, ERR_INVALID,
                "--script_path %s is a path of this machine; in the container that folder is %s: give "
                "--script_path %s/%s",
                script, mounts[i].at, mounts[i].at, rest);
    }
    return 0;
}

static int check_mounted(const char *script, const struct mount *mounts, size_t len,
                         const struct training_facts *facts, struct err *err)
{
    for (size_t i = 0; i < len; i++) {
        const char *rest = below(script, mounts[i].at);
        char path[CHECK_PATH_MAX];
        struct err why = {0};

        if (!rest)
            continue;
        if (!mounts[i].folder || !*mounts[i].folder)
            return mounts[i].option ? err_set(err, ERR_INVALID,
                                              "--script_path %s is in %s, where nothing is mounted: add --%s "
                                              "with the folder that has the script",
                                              script, mounts[i].at, mounts[i].option)
                                    : 0;
        snprintf(path, sizeof(path), "%s/%s", mounts[i].folder, rest);
        if (facts->file && facts->file(facts->arg, path, &why) < 0)
            return err_set(err, why.code, "--script_path %s would be %s, but %s", script, path, why.msg);
    }
    return 0;
}

static int check_script(const struct json *spec, const struct training_facts *facts, struct err *err)
{
    const char *script = json_get_string(spec, "scriptPath");
    const char *snapshots = json_get_string(spec, "snapshotsDir");
    const struct mount mounts[] = {
        {MOUNT_CUSTOM, json_get_string(spec, "customDir"), "custom_dir"},
        {MOUNT_SHOTS, snapshots ? snapshots : facts->snapshots, "snapshots_dir"},
        {MOUNT_DATA, facts->datasets, NULL},
    };

    if (!script || !*script)
        return 0;
    if (script[0] != '/')
        return err_set(err, ERR_INVALID,
                       "--script_path '%s' must be a whole path in the container: /custom/%s when it lies in "
                       "--custom_dir",
                       script, script[0] == '.' && script[1] == '/' ? script + 2 : script);
    if (check_host_path(script, mounts, ARRAY_LEN(mounts), err) < 0)
        return -1;
    return check_mounted(script, mounts, ARRAY_LEN(mounts), facts, err);
}

/* ---- folders, sizes, ports ---- */

static int check_folder(const struct json *spec, const char *key, const char *option, bool writable,
                        const struct training_facts *facts, struct err *err)
{
    const char *path = json_get_string(spec, key);

    if (!path || !*path)
        return 0;
    if (path[0] != '/')
        return err_set(err, ERR_INVALID, "--%s '%s' must be a whole path, from / on", option, path);
    if (facts->folder && facts->folder(facts->arg, path, writable, err) < 0)
        return err_prefix(err, "--%s %s", option, path);
    return 0;
}

static int check_sizes(const struct json *spec, const struct training_facts *facts, struct err *err)
{
    int64_t batch = json_int(json_get(spec, "batchSize"), 0),
            set = json_int(json_get(spec, "trainingSetSize"), 0);
    int64_t mib = json_int(json_get(spec, "estimatedMemoryMiB"), 0);
    const struct json *hours = json_get(spec, "estimatedHours");
    double h = json_is(hours, JSON_REAL) ? hours->real : (double)json_int(hours, 2);

    if (batch > 0 && set > 0 && batch > set)
        return err_set(err, ERR_INVALID,
                       "--batch_size %lld is more than --training_set_size %lld: an epoch would have no step",
                       (long long)batch, (long long)set);
    if (facts->room.largest_card_mib && mib > facts->room.largest_card_mib)
        return err_set(
            err, ERR_INVALID,
            "--estimated_memory %lld is more than any GPU here has: at most %u MiB can be asked for",
            (long long)mib, facts->room.largest_card_mib);
    if (json_is(hours, JSON_REAL) || json_is(hours, JSON_INT)) {
        if (h <= 1)
            return err_set(err, ERR_INVALID, "--est_nhours must be more than 1, not %g", h);
    }
    if (json_bool(json_get(spec, "singleGPU")) && json_int(json_get(spec, "maxGPUs"), 1) > 1)
        return err_set(err, ERR_INVALID,
                       "--max_gpus %lld goes against --is_single_gpu true: leave one of them out",
                       (long long)json_int(json_get(spec, "maxGPUs"), 1));
    return 0;
}

/* ---- whether any node could ever run it ---- */

uint32_t training_min_gpus(const struct json *spec)
{
    int64_t min = json_int(json_get(spec, "minGPUs"), 1);

    if (json_is(json_get(spec, "maxGPUs"), JSON_INT) && json_int(json_get(spec, "maxGPUs"), 1) == 0)
        return 0;
    if (min <= 1 || json_bool(json_get(spec, "singleGPU")))
        return 1;
    return min < UINT16_MAX ? (uint32_t)min : UINT16_MAX;
}

static int check_room(const struct json *spec, const struct training_room *room, struct err *err)
{
    uint32_t gpus = training_min_gpus(spec);
    struct quantity q;
    int64_t cpu = quantity_from_json(json_get(spec, "cpu"), &q) ? quantity_milli(&q) : 0;
    int64_t mib = quantity_from_json(json_get(spec, "memory"), &q) ? quantity_value(&q) >> 20 : 0;

    if (!room->known)
        return 0;
    if (gpus > 0 && room->gpus == 0)
        return err_set(
            err, ERR_INVALID,
            "the job asks for %u GPU%s, but there are no GPUs here: ask for none to run it on the CPU "
            "(--gpus 0, maxGPUs: 0), or declare GPUs (berth up --gpus NxMIB)",
            gpus, gpus == 1 ? "" : "s");
    if (gpus > room->gpus)
        return err_set(err, ERR_INVALID, "the job asks for %u GPUs, but there are only %u", gpus, room->gpus);
    if (gpus > 0 && json_int(json_get(spec, "maxGPUs"), 0) > room->gpus)
        return err_set(err, ERR_INVALID,
                       "--max_gpus %lld is more than the %u GPU%s there are: leave it out to use as many as "
                       "become free",
                       (long long)json_int(json_get(spec, "maxGPUs"), 0), room->gpus,
                       room->gpus == 1 ? "" : "s");
    if (cpu > room->cpu_milli)
        return err_set(err, ERR_INVALID, "the job asks for %g CPUs, but the largest node, %s, has %g",
                       (double)cpu / 1000, room->cpu_node, (double)room->cpu_milli / 1000);
    if (mib > room->mem_mib)
        return err_set(err, ERR_INVALID,
                       "the job asks for %.1f GiB of memory, but the largest node, %s, has %.1f GiB",
                       (double)mib / 1024, room->mem_node, (double)room->mem_mib / 1024);
    return 0;
}

static int check_ports(const struct json *spec, const struct training_facts *facts, struct err *err)
{
    struct str rest = json_str(json_get(spec, "portMapping")), pair;
    uint16_t seen[PORTS_MAX];
    size_t len = 0;

    while (rest.len && str_split(&rest, ',', &pair)) {
        struct str left, right = str_trim(pair);
        int64_t node, inside;

        if (!str_split(&right, ':', &left) || !str_to_int(left, &node) || !str_to_int(right, &inside) ||
            node < 1 || node > UINT16_MAX || inside < 1 || inside > UINT16_MAX)
            return err_set(err, ERR_INVALID,
                           "--port_mapping: '%.*s' must be nodePort:containerPort, for example 31346:6006",
                           STR_ARG(pair));
        if (node < PORT_LOW && !facts->low_ports)
            return err_set(
                err, ERR_FORBIDDEN,
                "--port_mapping: ports below %d are the system's: take a node port from %d up instead "
                "of %lld",
                PORT_LOW, PORT_LOW, (long long)node);
        for (size_t i = 0; i < len; i++)
            if (seen[i] == node)
                return err_set(err, ERR_INVALID, "--port_mapping: node port %lld is given twice",
                               (long long)node);
        if (len == PORTS_MAX)
            return err_set(err, ERR_LIMIT, "--port_mapping: %d ports are the most", PORTS_MAX);
        seen[len++] = (uint16_t)node;
        if (facts->port && facts->port(facts->arg, (uint16_t)node, err) < 0)
            return err_prefix(err, "--port_mapping: node port %lld is taken, choose another",
                              (long long)node);
    }
    return 0;
}

/* ---- variables ---- */

/* Those that Berth sets for every run, whatever else is given; option: what sets it instead. */
static const struct {
    const char *name, *option;
} own_variables[] = {
    {"BATCH_SIZE", "--batch_size"},
    {"BERTH_HOST", NULL},
    {"BERTH_STEPS_DONE", NULL},
    {"BERTH_TOKEN", NULL},
    {"BERTH_URL", NULL},
    {"EPOCHS_DONE", NULL},
    {"EPOCHS_TO_BE_DONE", "--max_epochs"},
    {"JOB_RESTARTED", NULL},
    {"JOB_UUID", NULL},
    {"MASTER_ADDR", NULL},
    {"MASTER_PORT", NULL},
    {"NODELIST", NULL},
    {"NODE_RANK", NULL},
    {"NUM_GPUS", "--max_gpus"},
    {"NUM_NODES", NULL},
    {"RESERVED_MEM", "--estimated_memory"},
    {"TF_CONFIG", NULL},
    {"TRAINING_SET_SIZE", "--training_set_size"},
    {"WORLD_SIZE", NULL},
};

static int check_env(const struct json *spec, struct err *err)
{
    JSON_EACH(json_get(spec, "env"), it)
        for (size_t i = 0; i < ARRAY_LEN(own_variables); i++) {
            const char *name = own_variables[i].name, *option = own_variables[i].option;

            if (streq(json_get_string(it, "name"), name))
                return err_set(err, ERR_INVALID, "--env %s: Berth sets this variable itself%s%s", name,
                               option ? "; use " : "", option ? option : "");
        }
    return 0;
}

int training_check(const struct json *spec, const struct training_facts *facts, struct err *err)
{
    if (check_sizes(spec, facts, err) < 0 || check_env(spec, err) < 0 ||
        check_room(spec, &facts->room, err) < 0 ||
        check_folder(spec, "customDir", "custom_dir", false, facts, err) < 0 ||
        check_folder(spec, "snapshotsDir", "snapshots_dir", true, facts, err) < 0)
        return -1;
    return check_script(spec, facts, err) < 0 ? -1 : check_ports(spec, facts, err);
}
