/* What a pod's containers share: network, ipc and uts namespaces, files in /etc, volumes. Made again at every
 * start of the daemon (each part is content with what is there already), removed when the pod is over. */
#include "base/clock.h"
#include "base/file.h"
#include "engine/local/internal.h"
#include "podnet/files.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define CLUSTER_DOMAIN   "cluster.local"
#define PRIVILEGED_PORTS 1024

extern char **environ;

/* ---- files ---- */

static int write_file(const struct local_pod *pod, const char *name, struct str text, struct err *err)
{
    CLEANUP(free) char *path = mem_printf("%s/%s", pod->etc, name);
    /* In place: containers that run have this very file mounted. Cut at the end, so that they never find it
     * empty. */
    CLEANUP(fd_close) int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ssize_t n = fd < 0 ? -1 : write(fd, text.s, text.len);

    if (n < 0 || ftruncate(fd, n) < 0)
        return err_errno(err, errno, "write '%s'", path);
    return (size_t)n == text.len ? 0 : err_errno(err, ENOSPC, "write '%s'", path);
}

/* Containers that run have the files of their time mounted, also when those were removed here and made again.
 * Nothing that a container can do leads elsewhere: the file has no name, and lies where ours do. */
static void write_mounted(const struct local_pod *pod, const char *name, struct str text)
{
    struct open_how how = {.flags = O_WRONLY | O_NOFOLLOW | O_CLOEXEC,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    CLEANUP(free) char *path = mem_printf("etc/%s", name);
    struct stat ours, theirs;

    if (stat(pod->etc, &ours) < 0)
        return;
    for (size_t i = 0; i < pod->facts.len; i++) {
        pid_t pid = pod->runs[i].container ? runtime_pid(pod->engine->rt, pod->facts.ctrs[i].id) : 0;
        CLEANUP(free) char *root = mem_printf("/proc/%d/root", (int)pid);
        CLEANUP(fd_close) int dir = pid ? open(root, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
        CLEANUP(fd_close)
        int fd = dir < 0 ? -1 : (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));

        if (fd >= 0 && fstat(fd, &theirs) == 0 && S_ISREG(theirs.st_mode) && theirs.st_nlink == 0 &&
            theirs.st_uid == 0 && theirs.st_dev == ours.st_dev &&
            write(fd, text.s, text.len) == (ssize_t)text.len)
            (void)!ftruncate(fd, (off_t)text.len);
    }
}

static const char *const *strings(struct arena *arena, const struct json *list)
{
    const char **v = arena_zalloc(arena, (json_len(list) + 1) * sizeof(*v));
    size_t n = 0;

    JSON_EACH(list, it)
        v[n++] = json_string_or(it, "");
    return v;
}

static int write_hosts(struct local_pod *pod, const char *hostname, struct err *err)
{
    const struct json *aliases = json_at(pod->doc, "spec.hostAliases");
    struct podnet_host_alias *list = arena_zalloc(&pod->scratch, (json_len(aliases) + 1) * sizeof(*list));
    CLEANUP(buf_done) struct buf host = {0}, text = {0}, fqdn = {0};
    struct podnet_hosts hosts = {
        .ip = *pod->facts.pod_ip ? pod->facts.pod_ip : NULL, .hostname = hostname, .aliases = list};

    JSON_EACH(aliases, it) {
        list[hosts.aliases_len].ip = json_string_or(json_get(it, "ip"), "");
        list[hosts.aliases_len++].names = strings(&pod->scratch, json_get(it, "hostnames"));
    }
    podnet_fqdn(&fqdn, hostname, json_at_string(pod->doc, "spec.subdomain"), pod->ns, CLUSTER_DOMAIN);
    if (pod->host_network && file_read("/etc/hosts", 1 << 20, &host, NULL) == 0)
        hosts.host_file = host.data;
    hosts.fqdn = fqdn.len ? fqdn.data : NULL;
    if (podnet_hosts_file(&text, &hosts, err) < 0)
        return -1;
    services_hosts(pod, &text);
    if (pod->etc_torn)
        write_mounted(pod, "hosts", buf_view(&text));
    return write_file(pod, "hosts", buf_view(&text), err);
}

void sandbox_write_hosts(struct local_pod *pod)
{
    char hostname[PODNET_HOSTNAME_MAX + 1];
    struct err err = {0};

    if (pod->sandbox != SANDBOX_READY)
        return;
    podnet_hostname(hostname, pod->name, json_at_string(pod->doc, "spec.hostname"));
    if (write_hosts(pod, hostname, &err) < 0)
        pod_event(pod, "Warning", "FailedHosts", "%s", err.msg);
    arena_reset(&pod->scratch);
}

static int write_resolv(struct local_pod *pod, struct err *err)
{
    const struct json *config = json_at(pod->doc, "spec.dnsConfig"), *options = json_get(config, "options");
    struct podnet_dns_option *list = arena_zalloc(&pod->scratch, (json_len(options) + 1) * sizeof(*list));
    struct podnet_dns dns = {.nameservers = strings(&pod->scratch, json_get(config, "nameservers")),
                             .searches = strings(&pod->scratch, json_get(config, "searches")),
                             .options = list};
    CLEANUP(buf_done) struct buf host = {0}, text = {0};
    bool own = !pod->host_network && podnet_mode(pod->engine->net) != PODNET_HOST;
    const char *fallback = podnet_nameserver(pod->engine->net);

    JSON_EACH(options, it) {
        list[dns.options_len].name = json_string_or(json_get(it, "name"), "");
        list[dns.options_len++].value = json_get_string(it, "value");
    }
    if (podnet_dns_policy(json_at_string(pod->doc, "spec.dnsPolicy"), &dns.policy, err) < 0 ||
        podnet_host_resolv("", &host, err) < 0 ||
        podnet_resolv_conf(&text, buf_view(&host), &dns, own, fallback, err) < 0)
        return -1;
    return write_file(pod, "resolv.conf", buf_view(&text), err);
}

/* One container that is never started again can have namespaces of its own, which come and go with it. */
bool sandbox_shares(const struct local_pod *pod)
{
    return pod->facts.len > 1 || pod->facts.policy != RESTART_NEVER || pause_wanted(pod);
}

static int make_files(struct local_pod *pod, struct err *err)
{
    CLEANUP(free) char *text = NULL;
    char hostname[PODNET_HOSTNAME_MAX + 1];

    podnet_hostname(hostname, pod->name, json_at_string(pod->doc, "spec.hostname"));
    if (dir_make(pod->etc, 0755, err) < 0 || write_hosts(pod, hostname, err) < 0 ||
        write_resolv(pod, err) < 0)
        return -1;
    if (sandbox_shares(pod) && runtime_ns_pin(pod->engine->rt, pod->uid, hostname, err) < 0)
        return -1;
    text = mem_printf("%s\n", hostname);
    return write_file(pod, "hostname", str_from(text), err);
}

/* ---- ports ---- */

static int publish_one(struct local_pod *pod, const struct json *port, struct err *err)
{
    int64_t host = json_int(json_get(port, "hostPort"), 0);
    struct podnet_port out = {.proto =
                                  streq(json_get_string(port, "protocol"), "UDP") ? PODNET_UDP : PODNET_TCP,
                              .host_port = (uint16_t)host,
                              .pod_port = (uint16_t)json_int(json_get(port, "containerPort"), 0)};
    const char *ip = json_string_or(json_get(port, "hostIP"), "");

    if (host <= 0 || pod->host_network)
        return 0;
    if (host < PRIVILEGED_PORTS && !pod->user.admin)
        return err_set(err, ERR_FORBIDDEN, "hostPort %d: ports below %d are for admins", (int)host,
                       PRIVILEGED_PORTS);
    if (*ip && inet_pton(AF_INET, ip, &out.host_ip) != 1)
        return err_set(err, ERR_INVALID, "hostIP %s is no IPv4 address", ip);
    return podnet_publish(pod->engine->net, pod->uid, &out, err);
}

static int publish(struct local_pod *pod, struct err *err)
{
    for (size_t i = 0; i < pod->facts.len; i++)
        JSON_EACH(json_get(pod->facts.ctrs[i].spec, "ports"), it)
            if (publish_one(pod, it, err) < 0)
                return -1;
    return 0;
}

/* ---- making it ---- */

/* Waiting reasons: somebody has to put it right; the machine refused. */
#define CONFIG_ERROR  "CreateContainerConfigError"
#define SANDBOX_ERROR "CreatePodSandboxError"

static void not_yet(struct local_pod *pod, const char *reason, const char *waiting, const struct err *err)
{
    pod_event(pod, "Warning", reason, "%s", err->msg);
    facts_no_sandbox(&pod->facts, waiting, err->msg);
    pod->sandbox = SANDBOX_NONE;
    pod->volumes_retry = clock_now() + LOCAL_RETRY_SEC * NSEC_PER_SEC;
    pod_queue(pod);
}

void sandbox_not_yet(struct local_pod *pod, const struct err *err)
{
    if (pod->sandbox == SANDBOX_NONE)
        not_yet(pod, "FailedCreatePodSandBox", CONFIG_ERROR, err);
}

/* All but the process that holds its namespaces. */
static void last_part(struct local_pod *pod)
{
    struct err err = {0};

    if (pause_wanted(pod) && !pod->pause_pid) {
        pod->sandbox = SANDBOX_PAUSE;
        if (!pod->pause && pause_make(pod, &err) < 0)
            not_yet(pod, "FailedCreatePodSandBox", SANDBOX_ERROR, &err);
    } else {
        pod->sandbox = SANDBOX_READY;
        facts_sandbox_ready(&pod->facts);
    }
}

void sandbox_volumes(struct local_pod *pod, const struct err *err)
{
    if (pod->sandbox != SANDBOX_VOLUMES) /* it was given up meanwhile */
        return;
    if (err)
        not_yet(pod, "FailedMount", CONFIG_ERROR, err);
    else
        last_part(pod);
    pod_queue(pod);
}

static void finish(struct local_pod *pod)
{
    struct err err = {0};
    int writing;

    if (make_files(pod, &err) < 0 || publish(pod, &err) < 0)
        not_yet(pod, "FailedCreatePodSandBox", SANDBOX_ERROR, &err);
    else if ((writing = volumes_prepare(pod, &err)) < 0)
        not_yet(pod, "FailedMount", CONFIG_ERROR, &err);
    else if (writing)
        pod->sandbox = SANDBOX_VOLUMES;
    else
        last_part(pod);
    arena_reset(&pod->scratch);
}

void sandbox_paused(struct local_pod *pod, const struct err *err)
{
    if (!err && pod->sandbox == SANDBOX_PAUSE) {
        pod->sandbox = SANDBOX_READY;
        facts_sandbox_ready(&pod->facts);
        pod_queue(pod);
    } else if (err && (pod->sandbox == SANDBOX_PAUSE || pod->sandbox == SANDBOX_READY)) {
        not_yet(pod, "SandboxChanged", SANDBOX_ERROR, err);
    }
}

static void net_added(void *arg, const struct podnet_pod *net, const struct err *err)
{
    struct local_pod *pod = arg;

    pod->pending--;
    if (pod->sandbox != SANDBOX_NET) /* it was given up meanwhile */
        return;
    if (err) {
        not_yet(pod, "FailedCreatePodSandBox", SANDBOX_ERROR, err);
        return;
    }
    snprintf(pod->facts.pod_ip, sizeof(pod->facts.pod_ip), "%s", net->ip_text);
    finish(pod);
    pod_queue(pod);
}

void sandbox_make(struct local_pod *pod)
{
    struct err err = {0};

    if (pod->sandbox != SANDBOX_NONE || pod->volumes_retry > clock_now() || !turn_take(pod))
        return;
    if (user_find(pod, &err) < 0) {
        not_yet(pod, "FailedCreatePodSandBox", SANDBOX_ERROR, &err);
        return;
    }
    if (!pod->user_known)
        return;
    if (pod->host_network) {
        snprintf(pod->facts.pod_ip, sizeof(pod->facts.pod_ip), "%s", pod->engine->host_ip);
        finish(pod);
        pod_queue(pod);
        return;
    }
    pod->sandbox = SANDBOX_NET;
    pod->pending++;
    podnet_add(pod->engine->net, pod->uid, net_added, pod);
}

/* ---- what others remove ---- */

/* A process that is in its namespaces; 0: none runs. */
static pid_t some_process(const struct local_pod *pod)
{
    pid_t pid = pod->pause_pid;

    for (size_t i = 0; i < pod->facts.len && !pid; i++)
        if (pod->runs[i].container)
            pid = runtime_pid(pod->engine->rt, pod->facts.ctrs[i].id);
    return pid;
}

bool sandbox_rescue(struct local_pod *pod)
{
    struct local_engine *engine = pod->engine;
    bool pins = sandbox_shares(pod) && !runtime_ns_pinned(engine->rt, pod->uid);
    bool lost_net = !pod->host_network && podnet_mode(engine->net) == PODNET_BRIDGE &&
                    !podnet_whole(engine->net, pod->uid);
    pid_t pid = pins || lost_net ? some_process(pod) : 0;
    struct err err = {0};

    if (pid && ((pins && runtime_ns_repin(engine->rt, pod->uid, pid, &err) < 0) ||
                (lost_net && podnet_rescue(engine->net, pod->uid, pid, pod->facts.pod_ip, &err) < 0)))
        pod_event(pod, "Warning", "FailedRepair", "%s", err.msg);
    return pid != 0;
}

/* Its network is gone, and none of its processes is there that would hold it: it gets another one. */
static bool lost_all(struct local_pod *pod)
{
    struct err err = {0};

    if (pod->host_network || podnet_mode(pod->engine->net) != PODNET_BRIDGE || pod->pause ||
        podnet_whole(pod->engine->net, pod->uid))
        return false;
    for (size_t i = 0; i < pod->facts.len; i++)
        if (pod->runs[i].container)
            return false;
    podnet_remove(pod->engine->net, pod->uid, NULL, NULL);
    err_set(&err, ERR_UNAVAILABLE, "the pod's network namespace was removed and is being made again");
    not_yet(pod, "SandboxChanged", SANDBOX_ERROR, &err);
    return true;
}

bool sandbox_mend(struct local_pod *pod)
{
    CLEANUP(free)
    char *hosts = mem_printf("%s/hosts", pod->etc), *resolv = mem_printf("%s/resolv.conf", pod->etc);
    struct err err = {0};
    bool changed;

    if (pod->sandbox != SANDBOX_READY)
        return false;
    if (lost_all(pod))
        return true;
    changed = sandbox_rescue(pod);
    if (access(hosts, F_OK) == 0 && access(resolv, F_OK) == 0)
        return changed;
    pod->etc_torn = true;
    if (make_files(pod, &err) < 0)
        pod_event(pod, "Warning", "FailedRepair", "%s", err.msg);
    arena_reset(&pod->scratch);
    return true;
}

/* ---- the end ---- */

static const char *const etc_files[] = {"hosts", "resolv.conf", "hostname"};

static void remove_etc(const struct local_pod *pod)
{
    for (size_t i = 0; i < ARRAY_LEN(etc_files); i++) {
        CLEANUP(free) char *path = mem_printf("%s/%s", pod->etc, etc_files[i]);

        unlink(path);
    }
    rmdir(pod->etc);
}

/* emptyDirs end with the containers; logs stay as long as the pod, and with that all goes. */
static void remove_contents(struct local_pod *pod)
{
    CLEANUP(free) char *volumes = mem_printf("%s/volumes", pod->dir);

    if (pod->object && !pod->facts.deleting)
        sandbox_remove_tree(pod->engine, volumes);
}

void sandbox_make_room(struct local_pod *pod)
{
    volumes_remove(pod);
    remove_contents(pod);
}

void sandbox_part_gone(struct local_pod *pod)
{
    pod->pending--;
    if (pod->sandbox != SANDBOX_LEAVING || pod->pending)
        return;
    pod->sandbox = SANDBOX_GONE;
    remove_etc(pod);
    remove_contents(pod);
    pod_queue(pod);
}

static void net_gone(void *arg, const struct err *err)
{
    (void)err;
    sandbox_part_gone(arg);
}

/* Its containers may have changed their network, or something else may still be in it. */
static bool rules_network(const struct local_pod *pod)
{
    bool rules = pause_wanted(pod) || json_bool(json_at(pod->doc, "spec.hostPID")) ||
                 json_len(json_at(pod->doc, "spec.securityContext.sysctls"));

    for (size_t i = 0; i < pod->facts.len; i++) {
        const struct json *security = json_get(pod->facts.ctrs[i].spec, "securityContext");

        rules |=
            json_bool(json_get(security, "privileged")) || json_len(json_at(security, "capabilities.add"));
    }
    return rules;
}

void sandbox_leave(struct local_pod *pod, bool forget)
{
    if (pod->sandbox != SANDBOX_GONE && pod->sandbox != SANDBOX_LEAVING) {
        pod->sandbox = SANDBOX_LEAVING;
        pod->facts.sandbox = false;
        pod->pending++; /* held until all are asked */
        for (size_t i = 0; i < pod->facts.len; i++) {
            run_free(&pod->runs[i]);
            start_discard(&pod->runs[i]);
        }
        if (!pod->host_network) {
            pod->pending++;
            (rules_network(pod) ? podnet_remove : podnet_leave)(pod->engine->net, pod->uid, net_gone, pod);
        }
        pause_remove(pod);
        if (sandbox_shares(pod))
            runtime_ns_unpin(pod->engine->rt, pod->uid);
        volumes_remove(pod);
        sandbox_part_gone(pod);
    }
    if (pod->sandbox == SANDBOX_GONE && forget)
        sandbox_remove_tree(pod->engine, pod->dir);
}
