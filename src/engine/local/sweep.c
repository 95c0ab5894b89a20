/* At start: containers of pods that are known are taken up, everything else that an earlier engine left is
 * removed: containers, root mounts, namespaces, addresses, folders. */
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "engine/local/internal.h"

#include <dirent.h>
#include <sys/mount.h>
#include <unistd.h>

#define LOG_MODULE "engine"
#define UID_LEN    36

static struct local_pod *pod_of_id(const struct local_engine *engine, const char *id)
{
    char uid[UID_LEN + 1];

    if (strnlen(id, UID_LEN) < UID_LEN)
        return NULL;
    memcpy(uid, id, UID_LEN);
    uid[UID_LEN] = '\0';
    return local_find(engine, uid);
}

/* Before networks that nobody has are removed. */
static void rescue_all(struct local_engine *engine)
{
    struct str key;
    void *value;
    size_t at = 0;

    while (map_next(engine->pods, &at, &key, &value)) {
        struct local_pod *pod = value;

        for (size_t i = 0; i < pod->facts.len; i++)
            pod->etc_torn |= pod->runs[i].container != NULL;
        if (pod->etc_torn)
            sandbox_rescue(pod);
    }
}

static void adopt_all(struct local_engine *engine)
{
    char **ids = NULL;
    size_t len = 0;
    struct err err = {0};

    runtime_rescue(engine->rt);
    if (runtime_list(engine->rt, &ids, &len, &err) < 0)
        log_warn("%s", err.msg);
    for (size_t i = 0; i < len; i++) {
        struct local_pod *pod = pod_of_id(engine, ids[i]);

        if (pod && ids[i][UID_LEN] == '_')
            pod_adopt(pod, ids[i]);
    }
    runtime_list_free(ids, len);
}

/* Containers that should run and of which there is no trace. */
static void miss_all(struct local_engine *engine)
{
    struct str key;
    void *value;
    size_t at = 0;

    while (map_next(engine->pods, &at, &key, &value)) {
        struct local_pod *pod = value;

        for (size_t i = 0; i < pod->facts.len; i++)
            if (pod->facts.ctrs[i].state == CTR_RUNNING && !pod->runs[i].container) {
                ctr_exited(&pod->facts.ctrs[i], 137, 0, "ContainerStatusUnknown",
                           "The container could not be located when the node agent started", 0, clock_now());
                if (pod->facts.policy == RESTART_NEVER)
                    facts_fail(&pod->facts, "NodeReboot", "The machine was started anew while the pod ran");
            }
    }
}

/* Containers whose pod the database does not have. */
static size_t count_unknown(const struct local_engine *engine)
{
    char **ids = NULL;
    size_t len = 0, unknown = 0;

    if (runtime_list(engine->rt, &ids, &len, NULL) < 0)
        return 0;
    for (size_t i = 0; i < len; i++)
        if (!pod_of_id(engine, ids[i])) {
            log_warn("container %s runs, but its pod is not known", ids[i]);
            unknown++;
        }
    runtime_list_free(ids, len);
    return unknown;
}

/* A database that was restored, or has lost something, says nothing about what it does not know: all of that
 * is left as it is. */
static bool keeps_unknown(const struct local_engine *engine, const char *file)
{
    CLEANUP(free) char *path = file ? mem_printf("%s/%s", engine->data_dir, file) : NULL;

    if (!path || access(path, F_OK) < 0)
        return false;
    if (count_unknown(engine) == 0) {
        unlink(path);
        return false;
    }
    log_warn("these containers go on; to have the next start end them, remove '%s'", path);
    return true;
}

static bool keep_id(void *arg, const char *id)
{
    const struct local_engine *engine = arg;
    const struct local_pod *pod = pod_of_id(engine, id);

    if (strlen(id) > UID_LEN && id[UID_LEN] == '_')
        return runtime_get(engine->rt, id) != NULL;
    return pod && !pod->facts.ended && !pod->stale;
}

static void cleaned(void *arg, const char *sentence)
{
    (void)arg;
    if (sentence)
        log_warn("cleaning up: %s", sentence);
}

static void remove_networks(struct local_engine *engine)
{
    const struct podnet_pod *net;
    VEC(char *) ids = {0};
    size_t at = 0;

    while ((net = podnet_next(engine->net, &at)))
        if (!keep_id(engine, net->id))
            vec_push(&ids, mem_strdup(net->id));
    VEC_EACH(&ids, it) {
        podnet_remove(engine->net, *it, NULL, NULL);
        free(*it);
    }
    vec_done(&ids);
}

/* What is mounted below a folder that is to go. */
static void unmount_below(const char *dir)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct str rest, line, field;
    size_t len = strlen(dir);

    if (file_read("/proc/self/mountinfo", 16 << 20, &text, NULL) < 0)
        return;
    rest = buf_view(&text);
    while (str_split(&rest, '\n', &line)) {
        for (int i = 0; i < 5 && str_split(&line, ' ', &field); i++)
            continue;
        if (field.len > len && memcmp(field.s, dir, len) == 0 && field.s[len] == '/') {
            CLEANUP(free) char *path = mem_strndup(field.s, field.len);

            umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
        }
    }
}

void sweep_folder(struct local_engine *engine, const char *path)
{
    unmount_below(path);
    sandbox_remove_tree(engine, path);
}

static void remove_folders(struct local_engine *engine, const char *above)
{
    CLEANUP(free) char *pods = mem_printf("%s/pods", above);
    DIR *dir = opendir(pods);
    const struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        CLEANUP(free) char *path = mem_printf("%s/%s", pods, entry->d_name);

        if (trash_is(entry->d_name) || (entry->d_name[0] != '.' && !local_find(engine, entry->d_name) &&
                                        !keeper_take(engine, entry->d_name)))
            sweep_folder(engine, path);
    }
    if (dir)
        closedir(dir);
}

/* Folders of claims that were being removed. Others stay, even where no volume is known by their name: it may
 * be one that was told to be retained, or of a database that has been lost. */
static void remove_volumes(struct local_engine *engine)
{
    CLEANUP(free) char *volumes = mem_printf("%s/volumes", engine->data_dir);
    DIR *dir = opendir(volumes);
    const struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        CLEANUP(free) char *path = mem_printf("%s/%s", volumes, entry->d_name);

        if (trash_is(entry->d_name))
            sandbox_remove_tree(engine, path);
    }
    if (dir)
        closedir(dir);
}

void sweep_start(struct local_engine *engine, const char *keep_unknown)
{
    adopt_all(engine);
    rescue_all(engine);
    miss_all(engine);
    if (keeps_unknown(engine, keep_unknown)) {
        release_sweep(engine);
        return;
    }
    runtime_cleanup(engine->rt, keep_id, cleaned, engine);
    images_sweep(engine->images, keep_id, engine);
    slots_sweep(engine);
    remove_networks(engine);
    release_sweep(engine);
    remove_folders(engine, engine->data_dir);
    remove_folders(engine, engine->run_dir);
    remove_volumes(engine);
}
