/* shareProcessNamespace: a process that does nothing but reap holds the pid namespace that all containers of
 * the pod are in. It is a container of its own, ".pause", which no container of a pod can be called. */
#include "base/clock.h"
#include "base/file.h"
#include "engine/local/internal.h"

#define PAUSE_NAME "_.pause_0"

bool pause_wanted(const struct local_pod *pod)
{
    return json_bool(json_at(pod->doc, "spec.shareProcessNamespace")) &&
           !json_bool(json_at(pod->doc, "spec.hostPID"));
}

bool pause_is(const char *id)
{
    const char *name = strchr(id, '_');

    return name && streq(name, PAUSE_NAME);
}

bool pause_alive(struct local_pod *pod)
{
    CLEANUP(free) char *path = mem_printf("/proc/%d/ns/pid", (int)pod->pause_pid);

    if (!pause_wanted(pod) || (pod->pause_pid && access(path, F_OK) == 0))
        return true;
    pod->pause_pid = 0;
    return false;
}

static void gone(void *arg, const char *sentence)
{
    (void)sentence;
    sandbox_part_gone(arg);
}

void pause_remove(struct local_pod *pod)
{
    pod->pause_pid = 0;
    if (!pod->pause)
        return;
    pod->pending++;
    runtime_remove(TAKE_PTR(pod->pause), gone, pod);
}

static void pause_on_started(void *arg, struct runtime_container *c, pid_t pid, int64_t time)
{
    struct local_pod *pod = arg;

    (void)c;
    (void)time;
    pod->pause_pid = pid;
    sandbox_paused(pod, NULL);
}

/* With it all containers have ended; the sandbox is made anew. */
static void lost(struct local_pod *pod, const char *why)
{
    struct err err = {0};

    err_set(&err, ERR_UNAVAILABLE, "the process that holds the pod's namespace ended%s%s", why ? ": " : "",
            why ? why : "");
    pause_remove(pod);
    sandbox_paused(pod, &err);
}

static void pause_on_exited(void *arg, struct runtime_container *c, const struct runtime_exit *how)
{
    (void)c;
    (void)how;
    lost(arg, NULL);
}

static void pause_on_failed(void *arg, struct runtime_container *c, const char *sentence)
{
    CLEANUP(free) char *why = mem_strdup(sentence);

    (void)c;
    lost(arg, why);
}

static const struct runtime_events events = {pause_on_started, pause_on_exited, pause_on_failed};

int pause_adopt(struct local_pod *pod, const char *id)
{
    if (pod->pause || pod->facts.ended)
        return -1;
    return runtime_adopt(pod->engine->rt, id, &events, pod, &pod->pause, NULL);
}

int pause_make(struct local_pod *pod, struct err *err)
{
    static const char *const args[] = {"/pause", "pause", NULL};
    CLEANUP(free) char *id = mem_printf("%s" PAUSE_NAME, pod->uid);
    CLEANUP(free) char *root = mem_printf("%s/pause", pod->dir);
    CLEANUP(free) char *ipc = runtime_ns_path(pod->engine->rt, pod->uid, "ipc");
    CLEANUP(free) char *uts = runtime_ns_path(pod->engine->rt, pod->uid, "uts");
    struct runtime_mount mount = {.source = runtime_shim_path(pod->engine->rt),
                                  .target = "/pause",
                                  .flags = RUNTIME_MOUNT_RO | RUNTIME_MOUNT_NOSUID};
    const struct podnet_pod *net = pod->host_network ? NULL : podnet_get(pod->engine->net, pod->uid);
    struct runtime_spec spec = {.id = id,
                                .rootfs = root,
                                .args = args,
                                .mounts = &mount,
                                .mounts_len = 1,
                                .uid = pod->user.uid,
                                .gid = pod->user.gid,
                                .no_new_privileges = true,
                                .cpu_shares = 2,
                                .oom_score_adj = -997,
                                .ipc = {RUNTIME_NS_PATH, ipc},
                                .uts = {RUNTIME_NS_PATH, uts},
                                .net = {RUNTIME_NS_HOST, NULL}};

    if (net && net->netns) {
        spec.net.mode = RUNTIME_NS_PATH;
        spec.net.path = net->netns;
    }
    if (dir_make(root, 0755, err) < 0)
        return -1;
    return runtime_start(pod->engine->rt, &spec, &events, pod, &pod->pause, err);
}
