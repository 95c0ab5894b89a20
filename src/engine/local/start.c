/* From a pulled image and a container's spec to what the runtime is told. Everything that is refused here
 * (a user who may not, a key that is missing) is shown as the container's waiting reason and tried again. */
#include "base/file.h"
#include "engine/local/internal.h"
#include "objects/names.h"
#include "objects/quantity.h"
#include "podnet/files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define CPU_MILLI_MAX  INT64_C(1000000) /* more has the greatest weight there is */
#define HOST_VIEW_NSEC (1000 * INT64_C(1000000))
#define CONFIG_ERROR   "CreateContainerConfigError"
#define CREATE_ERROR   "CreateContainerError"
#define DEFAULT_PATH   "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* What one start works on; all in the pod's scratch arena. */
struct start_work {
    struct local_run *run;
    struct local_pod *pod;
    const struct ctr *ctr;
    const struct json *spec, *security;
    struct arena *arena;
    const struct image_config *config;
    struct image_host *host; /* of `image: host` */
    char *rootfs;
    const char *dir;
    struct env_list env;
    struct cdi_edits edits; /* of its cards */
    struct mounts mounts;
    struct runtime_spec out;
    gid_t groups[IMAGE_GROUPS_MAX * 2];
    char id[160], home[1024], hostname[PODNET_HOSTNAME_MAX + 1];
    bool cluster; /* an admin's pod that runs as CLUSTER_USER_ID says */
    const char *reason;
    struct err *err;
};

/* A file beside what the container writes to its root. */
static char *beside_root(const struct local_run *run, const char *name)
{
    const struct local_pod *pod = run->pod;
    const char *dir = image_mount_dir(pod->engine->images, pod->facts.ctrs[run->at].id);

    return dir ? mem_printf("%s/%s", dir, name) : NULL;
}

char *start_message_path(const struct local_run *run)
{
    return beside_root(run, "termination-log");
}

char *start_signal_path(const struct local_run *run)
{
    return beside_root(run, "stop-signal");
}

char *start_log_path(const struct local_pod *pod, const char *container, int restarts)
{
    return mem_printf("%s/logs/%s/%d.log", pod->dir, container, restarts);
}

static const struct json *setting(const struct start_work *s, const char *key)
{
    const struct json *own = json_get(s->security, key);

    return own ? own : json_get(json_at(s->pod->doc, "spec.securityContext"), key);
}

/* ---- root ---- */

/* Of `image: host`: what is mounted on this machine and what is hidden. Looked up again after a second: it
 * takes the longer the more containers there are. NULL: err. */
static struct image_host *host_view(struct local_engine *engine, struct err *err)
{
    const char *hide[] = {engine->data_dir, NULL};

    if (engine->host_view && loop_now(engine->loop) - engine->host_view_at < HOST_VIEW_NSEC)
        return engine->host_view;
    image_host_free(TAKE_PTR(engine->host_view));
    if (image_host_new(engine->images, hide, &engine->host_view, err) < 0)
        return NULL;
    engine->host_view_at = loop_now(engine->loop);
    return engine->host_view;
}

/* Takes the root of a container away, with what was written there. A process that may still have it open
 * keeps its folder from being used again. */
static void unmount_root(struct local_pod *pod, const char *id)
{
    struct local_engine *engine = pod->engine;
    CLEANUP(free) char *dir = mem_strdup(image_mount_dir(engine->images, id));
    bool alone = !pause_wanted(pod) && !json_bool(json_at(pod->doc, "spec.hostPID"));

    if (dir && !(alone && image_spare(engine->images, id)))
        slot_give(engine, dir, image_unmount(engine->images, id, true, NULL) == 0 && alone);
}

static int mount_root(struct start_work *s)
{
    struct local_engine *engine = s->pod->engine;
    struct image_mount_spec spec = {.image = s->run->image, .id = s->id, .owner = work_rights(s->pod->doc)};
    CLEANUP(free) char *slot = NULL;

    s->reason = CREATE_ERROR;
    unmount_root(s->pod, s->id);
    slot = slot_take(engine, s->err);
    if (!slot)
        return -1;
    spec.dir = slot;
    if (image_mount(engine->images, &spec, &s->rootfs, s->err) < 0) {
        slot_give(engine, slot, false);
        return -1;
    }
    s->run->mounted = true;
    s->dir = image_mount_dir(engine->images, s->id);
    if (!streq(s->dir, slot)) /* a spare one, with a slot of its own */
        slot_give(engine, slot, true);
    if (s->run->image) {
        s->config = &s->run->image->config;
        return 0;
    }
    s->host = host_view(s->pod->engine, s->err);
    if (!s->host)
        return -1;
    s->config = &s->host->config;
    return 0;
}

static void add_mount(struct start_work *s, const char *source, const char *target, const char *type,
                      unsigned flags, const char *options)
{
    vec_push(&s->mounts.v,
             (struct runtime_mount){
                 .source = source, .target = target, .type = type, .flags = flags, .options = options});
}

/* What lies below a path that is hidden is hidden with it. */
static bool hidden(const struct image_host *host, const char *path)
{
    for (size_t i = 0; i < host->masked_len; i++) {
        size_t len = strlen(host->masked[i]);

        if (strncmp(path, host->masked[i], len) == 0 && path[len] == '/')
            return true;
    }
    return false;
}

static void add_host_view(struct start_work *s)
{
    struct stat st;

    if (!s->host)
        return;
    for (size_t i = 0; i < s->host->mounts_len; i++)
        if (!hidden(s->host, s->host->mounts[i].path))
            add_mount(s, s->host->mounts[i].path, s->host->mounts[i].path, NULL,
                      RUNTIME_MOUNT_NOSUID | (s->host->mounts[i].readonly ? RUNTIME_MOUNT_RO : 0), NULL);
    for (size_t i = 0; i < s->host->memory_len; i++)
        if (!hidden(s->host, s->host->memory[i]))
            add_mount(s, "tmpfs", s->host->memory[i], "tmpfs", RUNTIME_MOUNT_NOSUID | RUNTIME_MOUNT_NODEV,
                      "mode=1777");
    for (size_t i = 0; i < s->host->masked_len; i++) {
        bool folder = stat(s->host->masked[i], &st) == 0 && S_ISDIR(st.st_mode);

        if (hidden(s->host, s->host->masked[i]))
            continue;
        if (folder)
            add_mount(s, "tmpfs", s->host->masked[i], "tmpfs", RUNTIME_MOUNT_RO, "size=4k,mode=0755");
        else
            add_mount(s, "/dev/null", s->host->masked[i], NULL, RUNTIME_MOUNT_RO, NULL);
    }
}

/* ---- user ---- */

static void add_group(struct start_work *s, gid_t gid)
{
    if (s->out.groups_len < ARRAY_LEN(s->groups))
        s->groups[s->out.groups_len++] = gid;
}

/* CLUSTER_USER_ID and its sisters, as the labs' guides have them: who the container runs as. */
static const char *cluster_value(const struct start_work *s, const char *name)
{
    const char *value = NULL;

    JSON_EACH(json_get(s->spec, "env"), it)
        if (streq(json_get_string(it, "name"), name))
            value = json_get_string(it, "value");
    return value && *value ? value : NULL;
}

/* NULL: not given. ERR_INVALID: no number. */
static int cluster_id(struct start_work *s, const char *name, const struct json **ret)
{
    const char *text = cluster_value(s, name);
    uint64_t id;

    *ret = NULL;
    if (!text)
        return 0;
    if (!str_to_uint(str_from(text), &id) || id >= UINT32_MAX)
        return err_set(s->err, ERR_INVALID, "%s must be a number, not '%s'", name, text);
    *ret = json_new_int(s->arena, (int64_t)id);
    return 0;
}

static int set_ordinary_user(struct start_work *s)
{
    const struct pod_user *user = &s->pod->user;
    const struct json *uid = setting(s, "runAsUser"), *gid = setting(s, "runAsGroup"), *cluster_uid,
                      *cluster_gid;
    bool allowed;

    if (cluster_id(s, "CLUSTER_USER_ID", &cluster_uid) < 0 ||
        cluster_id(s, "CLUSTER_GROUP_ID", &cluster_gid) < 0)
        return -1;
    if (cluster_uid && json_int(cluster_uid, 0) != user->uid)
        return err_set(s->err, ERR_FORBIDDEN, "CLUSTER_USER_ID %lld is somebody else (yours is %u)",
                       (long long)json_int(cluster_uid, 0), (unsigned)user->uid);
    gid = gid ? gid : cluster_gid;
    allowed = !gid || json_int(gid, 0) == user->gid;
    for (size_t i = 0; i < user->groups_len; i++) {
        add_group(s, user->groups[i]);
        allowed = allowed || json_int(gid, 0) == user->groups[i];
    }
    if ((uid && json_int(uid, 0) != user->uid) || !allowed)
        return err_set(s->err, ERR_FORBIDDEN,
                       "runAsUser, runAsGroup and CLUSTER_GROUP_ID other than one's own are for admins "
                       "(yours are %u:%u)",
                       (unsigned)user->uid, (unsigned)user->gid);
    s->out.uid = user->uid;
    s->out.gid = gid ? (gid_t)json_int(gid, 0) : user->gid;
    snprintf(s->home, sizeof(s->home), "%s", user->home);
    return 0;
}

static int set_admin_user(struct start_work *s)
{
    const struct json *uid = setting(s, "runAsUser"), *gid = setting(s, "runAsGroup");
    const struct json *psc = json_at(s->pod->doc, "spec.securityContext"), *cluster_uid, *cluster_gid;
    const char *text;
    struct image_user user;

    if (cluster_id(s, "CLUSTER_USER_ID", &cluster_uid) < 0 ||
        cluster_id(s, "CLUSTER_GROUP_ID", &cluster_gid) < 0)
        return -1;
    s->cluster = !uid && cluster_uid;
    uid = uid ? uid : cluster_uid;
    gid = gid || !s->cluster ? gid : cluster_gid;
    text = uid ? arena_printf(s->arena, "%lld", (long long)json_int(uid, 0)) : s->config->user;
    if (image_user(s->rootfs, text, &user, s->err) < 0)
        return -1;
    s->out.uid = user.uid;
    s->out.gid = gid ? (gid_t)json_int(gid, 0) : user.gid;
    for (size_t i = 0; i < user.groups_len; i++)
        add_group(s, user.groups[i]);
    if (json_int(json_get(psc, "fsGroup"), 0) > 0)
        add_group(s, (gid_t)json_int(json_get(psc, "fsGroup"), 0));
    JSON_EACH(json_get(psc, "supplementalGroups"), it)
        add_group(s, (gid_t)json_int(it, 0));
    snprintf(s->home, sizeof(s->home), "%s", user.home);
    if (s->cluster && cluster_value(s, "CLUSTER_USER") && (!*s->home || streq(s->home, "/")))
        snprintf(s->home, sizeof(s->home), "/home/%s", cluster_value(s, "CLUSTER_USER"));
    return 0;
}

/* Images know nothing of the people here: the one this container runs as gets an account in it. */
static void add_person(struct start_work *s)
{
    const struct pod_user *user = &s->pod->user;
    struct pod_person person = {.name = user->name,
                                .group = user->group,
                                .home = s->home,
                                .group_lines = user->group_lines,
                                .uid = s->out.uid,
                                .gid = s->out.gid};

    if (s->host || s->out.uid == 0)
        return;
    if (s->cluster) {
        const char *name = cluster_value(s, "CLUSTER_USER"), *group = cluster_value(s, "CLUSTER_GROUP_NAME");

        person.name = name ? name : "";
        person.group = group ? group : "";
    }
    if (*person.name)
        person_add(s->rootfs, &person);
}

static const char *const *string_list(struct start_work *s, const struct json *list)
{
    const char **v = arena_zalloc(s->arena, (json_len(list) + 1) * sizeof(*v));
    size_t n = 0;

    JSON_EACH(list, it)
        v[n++] = json_string_or(it, "");
    return v;
}

static int set_security(struct start_work *s)
{
    bool admin = s->pod->user.admin;
    const struct json *caps = json_get(s->security, "capabilities");
    const struct json *escalate = json_get(s->security, "allowPrivilegeEscalation");
    const char *profile = json_string_or(json_get(setting(s, "seccompProfile"), "type"), "");

    s->reason = CONFIG_ERROR;
    s->out.groups = s->groups;
    if ((admin ? set_admin_user(s) : set_ordinary_user(s)) < 0)
        return -1;
    if (json_bool(setting(s, "runAsNonRoot")) && s->out.uid == 0)
        return err_set(s->err, ERR_FORBIDDEN,
                       "container has runAsNonRoot and image will run as root (pod: \"%s_%s(%s)\", "
                       "container: %s)",
                       s->pod->name, s->pod->ns, s->pod->uid, s->ctr->name);
    s->out.privileged = json_bool(json_get(s->security, "privileged"));
    if (!admin && (s->out.privileged || json_len(json_get(caps, "add"))))
        return err_set(s->err, ERR_FORBIDDEN, "privileged containers and added capabilities are for admins");
    if (!admin &&
        (json_bool(json_at(s->pod->doc, "spec.hostPID")) || json_bool(json_at(s->pod->doc, "spec.hostIPC"))))
        return err_set(s->err, ERR_FORBIDDEN, "hostPID and hostIPC are for admins");
    if (sysctls_read(s->pod, s->arena, &s->out, s->err) < 0)
        return -1;
    s->out.cap_add = string_list(s, json_get(caps, "add"));
    s->out.cap_drop = string_list(s, json_get(caps, "drop"));
    s->out.rootfs_readonly = json_bool(json_get(s->security, "readOnlyRootFilesystem"));
    s->out.no_new_privileges = !admin || (escalate && !json_bool(escalate));
    s->out.seccomp_unconfined = admin && streq(profile, "Unconfined");
    return 0;
}

/* ---- environment and command ---- */

static void set_entry(struct start_work *s, const char *entry)
{
    const char *equal = strchr(entry, '=');

    if (equal)
        env_set(&s->env, s->arena, arena_strndup(s->arena, entry, (size_t)(equal - entry)), equal + 1);
}

static void take_edits(struct start_work *s, const struct cdi_edits *edits)
{
    struct runtime_device *devices = arena_zalloc(s->arena, (edits->devices_len + 1) * sizeof(*devices));
    struct runtime_hook *hooks = arena_zalloc(s->arena, (edits->hooks_len + 1) * sizeof(*hooks));

    for (size_t i = 0; i < edits->env_len; i++)
        set_entry(s, edits->env[i]);
    for (size_t i = 0; i < edits->mounts_len; i++)
        add_mount(s, edits->mounts[i].source, edits->mounts[i].target, edits->mounts[i].type, 0,
                  edits->mounts[i].options);
    for (size_t i = 0; i < edits->devices_len; i++) {
        const struct cdi_device *d = &edits->devices[i];

        devices[i] =
            (struct runtime_device){d->path, d->type, d->major, d->minor, d->mode, d->uid, d->gid, d->access};
    }
    for (size_t i = 0; i < edits->hooks_len; i++) {
        const struct cdi_hook *h = &edits->hooks[i];

        hooks[i] = (struct runtime_hook){h->when, h->path, h->args, h->env, h->timeout_sec};
    }
    for (size_t i = 0; i < edits->gids_len; i++)
        add_group(s, edits->gids[i]);
    s->out.devices = devices;
    s->out.devices_len = edits->devices_len;
    s->out.hooks = hooks;
    s->out.hooks_len = edits->hooks_len;
}

/* Containers without a limit of cards see none. */
static int set_cards(struct start_work *s)
{
    const struct local_engine *engine = s->pod->engine;
    struct cdi_edits edits = {0};
    size_t cards[CARDS_MAX], len = 0;
    enum gpu_way way;

    for (size_t i = 0; i < engine->cards && i < CARDS_MAX; i++)
        if ((s->pod->need.cards >> i & 1) &&
            (s->pod->need.share || json_get(json_at(s->spec, "resources.limits"), GPU_RESOURCE)))
            cards[len++] = i;
    if (!engine->gpus)
        return 0;
    s->reason = CREATE_ERROR;
    if (gpu_edits(engine->gpus, engine->cdi, cards, len, s->arena, &edits, &way, s->err) < 0)
        return -1;
    take_edits(s, &edits);
    s->edits = edits;
    return 0;
}

/* Which cards a container has is not its own to say: the hook of NVIDIA's toolkit gives it what these name.
 */
static void keep_card_env(struct start_work *s)
{
    for (size_t i = 0; i < s->edits.env_len; i++)
        if (starts_with(s->edits.env[i], "NVIDIA_VISIBLE_DEVICES=") ||
            starts_with(s->edits.env[i], "CUDA_VISIBLE_DEVICES="))
            set_entry(s, s->edits.env[i]);
}

static void set_person_env(struct start_work *s)
{
    const struct pod_user *user = &s->pod->user;

    if (s->cluster)
        env_set(&s->env, s->arena, "HOME", s->home);
    if (!*user->name)
        return;
    env_set(&s->env, s->arena, "HOME", s->home);
    env_set(&s->env, s->arena, "USER", user->name);
    env_set(&s->env, s->arena, "CLUSTER_USER", user->name);
    env_set(&s->env, s->arena, "CLUSTER_USER_ID", arena_printf(s->arena, "%u", (unsigned)s->out.uid));
    env_set(&s->env, s->arena, "CLUSTER_GROUP_ID", arena_printf(s->arena, "%u", (unsigned)s->out.gid));
    if (*user->group && s->out.gid == user->gid)
        env_set(&s->env, s->arena, "CLUSTER_GROUP_NAME", user->group);
}

/* Never written into an object: whoever may read the pod could speak for its job. */
static void set_token(struct start_work *s)
{
    struct local_engine *engine = s->pod->engine;
    const char *token = engine->token ? engine->token(engine->token_arg, s->pod->uid, s->arena) : NULL;

    if (token)
        env_set(&s->env, s->arena, "BERTH_TOKEN", token);
}

static int set_env(struct start_work *s)
{
    struct env_world world = pod_world(s->pod);

    env_set(&s->env, s->arena, "PATH", DEFAULT_PATH);
    env_set(&s->env, s->arena, "HOSTNAME", s->out.hostname);
    env_set(&s->env, s->arena, "HOME", s->home);
    for (size_t i = 0; s->config->env && s->config->env[i]; i++)
        set_entry(s, s->config->env[i]);
    set_person_env(s);
    if (s->spec && json_bool(json_get(s->spec, "tty")))
        env_set(&s->env, s->arena, "TERM", "xterm");
    if (set_cards(s) < 0)
        return -1;
    s->reason = CONFIG_ERROR;
    if (env_fill(&s->env, s->arena, s->pod->doc, s->spec, &world, s->err) < 0)
        return -1;
    keep_card_env(s);
    set_token(s);
    s->out.env = s->env.v;
    return 0;
}

static size_t list_len(const char *const *list)
{
    size_t n = 0;

    while (list && list[n])
        n++;
    return n;
}

/* The words with their variables; what they take together is counted in *bytes. */
static int expand_all(struct start_work *s, const struct json *words, const char **v, size_t *n,
                      size_t *bytes)
{
    JSON_EACH(words, it) {
        const char *word = env_expand(s->arena, json_string_or(it, ""), &s->env);

        *bytes += word ? strlen(word) + 1 : ENV_BYTES_MAX;
        if (*bytes > ENV_BYTES_MAX)
            return err_set(s->err, ERR_LIMIT,
                           "the command is too long with what it refers to: an argument may have %d KiB, all "
                           "together %d KiB",
                           ENV_TEXT_MAX >> 10, ENV_BYTES_MAX >> 10);
        v[(*n)++] = word;
    }
    return 0;
}

static int set_command(struct start_work *s)
{
    const struct json *command = json_get(s->spec, "command"), *args = json_get(s->spec, "args");
    const char *const *entry = json_len(command) ? NULL : s->config->entrypoint;
    const char *const *cmd = json_len(command) || json_len(args) ? NULL : s->config->cmd;
    size_t room = json_len(command) + json_len(args) + list_len(entry) + list_len(cmd) + 1, n = 0, bytes = 0;
    const char **v = arena_zalloc(s->arena, room * sizeof(*v));

    for (size_t i = 0; entry && entry[i]; i++)
        v[n++] = entry[i];
    if (expand_all(s, command, v, &n, &bytes) < 0 || expand_all(s, args, v, &n, &bytes) < 0)
        return -1;
    for (size_t i = 0; cmd && cmd[i]; i++)
        v[n++] = cmd[i];
    if (n == 0) {
        s->reason = CREATE_ERROR;
        return err_set(s->err, ERR_INVALID, "no command specified");
    }
    s->out.args = v;
    s->out.cwd = json_string_or(json_get(s->spec, "workingDir"), s->config->workdir);
    return 0;
}

/* ---- the rest ---- */

static int64_t limit(const struct start_work *s, const char *list, const char *name, bool milli)
{
    struct quantity q;

    if (!quantity_from_json(json_get(json_get(json_get(s->spec, "resources"), list), name), &q))
        return 0;
    return milli ? quantity_milli(&q) : quantity_value(&q);
}

static void set_resources(struct start_work *s)
{
    const char *qos = json_string_or(json_at(s->pod->doc, "status.qosClass"), "BestEffort");
    int64_t milli = limit(s, "requests", "cpu", true);
    int64_t shares = (milli < CPU_MILLI_MAX ? milli : CPU_MILLI_MAX) * 1024 / 1000;

    s->out.cpu_milli = limit(s, "limits", "cpu", true);
    s->out.memory_bytes = limit(s, "limits", "memory", false);
    s->out.cpu_shares = shares < 2 ? 2 : shares > 262144 ? 262144 : shares;
    s->out.pids_max = s->pod->engine->pids_max;
    s->out.oom_score_adj = streq(qos, "BestEffort") ? 1000 : streq(qos, "Guaranteed") ? -997 : 500;
}

static void set_namespaces(struct start_work *s)
{
    struct local_pod *pod = s->pod;
    const struct podnet_pod *net = pod->host_network ? NULL : podnet_get(pod->engine->net, pod->uid);
    static const char *const names[] = {"ipc", "uts"};
    struct runtime_ns *of[] = {&s->out.ipc, &s->out.uts};

    s->out.net.mode = RUNTIME_NS_HOST;
    if (net && net->netns) {
        s->out.net.mode = RUNTIME_NS_PATH;
        s->out.net.path = net->netns;
    }
    for (size_t i = 0; i < ARRAY_LEN(names) && sandbox_shares(pod); i++) {
        CLEANUP(free) char *path = runtime_ns_path(pod->engine->rt, pod->uid, names[i]);

        of[i]->mode = RUNTIME_NS_PATH;
        of[i]->path = arena_strdup(s->arena, path);
    }
    if (pod->pause_pid)
        s->out.pid = (struct runtime_ns){
            .mode = RUNTIME_NS_PATH, .path = arena_printf(s->arena, "/proc/%d/ns/pid", (int)pod->pause_pid)};
    if (pod->user.admin && json_bool(json_at(pod->doc, "spec.hostIPC")))
        s->out.ipc = (struct runtime_ns){.mode = RUNTIME_NS_HOST};
    if (pod->user.admin && json_bool(json_at(pod->doc, "spec.hostPID")))
        s->out.pid = (struct runtime_ns){.mode = RUNTIME_NS_HOST};
}

static int add_files(struct start_work *s)
{
    static const char *const files[] = {"hosts", "resolv.conf", "hostname"};
    const char *message = arena_printf(s->arena, "%s/termination-log", s->dir);
    CLEANUP(fd_close) int fd = open(message, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

    s->reason = CREATE_ERROR;
    if (fd < 0 || fchmod(fd, 0666) < 0)
        return err_errno(s->err, errno, "make '%s'", message);
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        add_mount(s, arena_printf(s->arena, "%s/%s", s->pod->etc, files[i]),
                  arena_printf(s->arena, "/etc/%s", files[i]), NULL, 0, NULL);
    s->reason = START_MOUNT_ERROR;
    if (volumes_mount(s->pod, s->spec, &s->mounts, s->err) < 0)
        return -1;
    add_mount(s, message, json_string_or(json_get(s->spec, "terminationMessagePath"), "/dev/termination-log"),
              NULL, 0, NULL);
    s->out.mounts = s->mounts.v.v;
    s->out.mounts_len = s->mounts.v.len;
    return 0;
}

static void set_log(struct start_work *s)
{
    CLEANUP(free) char *path = start_log_path(s->pod, s->ctr->name, s->ctr->restarts);

    s->out.log_path = arena_strdup(s->arena, path);
    s->out.log_max_bytes = LOCAL_LOG_BYTES;
    s->out.log_max_files = LOCAL_LOG_FILES;
}

static int keep_signal(struct start_work *s)
{
    CLEANUP(free) char *path = mem_printf("%s/stop-signal", s->dir);
    CLEANUP(fd_close) int fd = -1;

    if (!s->config->stop_signal || !*s->config->stop_signal) {
        unlink(path); /* that of a container before */
        return 0;
    }
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    s->reason = CREATE_ERROR;
    if (fd < 0 || write(fd, s->config->stop_signal, strlen(s->config->stop_signal)) < 0)
        return err_errno(s->err, errno, "write '%s'", path);
    return 0;
}

static int prepare(struct start_work *s)
{
    if (mount_root(s) < 0 || set_security(s) < 0 || set_env(s) < 0 || set_command(s) < 0)
        return -1;
    set_log(s);
    add_person(s);
    set_resources(s);
    set_namespaces(s);
    add_host_view(s);
    return add_files(s);
}

int start_container(struct local_run *run, const char **reason, struct err *err)
{
    struct local_pod *pod = run->pod;
    struct ctr *ctr = &pod->facts.ctrs[run->at];
    struct start_work s = {.run = run,
                           .pod = pod,
                           .ctr = ctr,
                           .spec = ctr->spec,
                           .security = json_get(ctr->spec, "securityContext"),
                           .arena = &pod->scratch,
                           .reason = CREATE_ERROR,
                           .err = err};
    const char *init = annotation_get(pod->doc, INIT_ANNOTATION);
    int result;

    snprintf(s.id, sizeof(s.id), "%s_%s_%d", pod->uid, ctr->name, ctr->restarts);
    s.mounts.arena = s.arena;
    s.mounts.opens = run->opens;
    s.out.id = s.id;
    podnet_hostname(s.hostname, pod->name, json_at_string(pod->doc, "spec.hostname"));
    s.out.hostname = s.hostname;
    s.out.tty = json_bool(json_get(ctr->spec, "tty"));
    s.out.stdin_open = json_bool(json_get(ctr->spec, "stdin"));
    s.out.stdin_once = json_bool(json_get(ctr->spec, "stdinOnce"));
    s.out.init = streq(init, "true");
    keeper_note(pod);
    result = prepare(&s);
    if (result == 0)
        result = keep_signal(&s);
    if (result == 0) {
        s.out.rootfs = s.rootfs;
        s.reason = CREATE_ERROR;
        snprintf(ctr->id, sizeof(ctr->id), "%s", s.id);
        result = runtime_start(pod->engine->rt, &s.out, &run_events, run, &run->container, err);
    }
    mounts_done(&s.mounts);
    free(s.rootfs);
    arena_reset(&pod->scratch);
    if (result < 0 && run->mounted) {
        unmount_root(pod, s.id);
        run->mounted = false;
    }
    *reason = s.reason;
    return result;
}

static void container_gone(void *arg, const char *sentence)
{
    struct local_pod *pod = arg;

    if (sentence)
        pod_event(pod, "Warning", "FailedCleanup", "%s", sentence);
    sandbox_part_gone(pod);
}

void start_discard(struct local_run *run)
{
    struct local_pod *pod = run->pod;
    const struct ctr *ctr = &pod->facts.ctrs[run->at];

    if (run->container) {
        pod->pending++;
        runtime_remove(TAKE_PTR(run->container), container_gone, pod);
    }
    if (run->mounted)
        unmount_root(pod, ctr->id);
    run->mounted = false;
}
