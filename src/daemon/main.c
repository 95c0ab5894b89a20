/* berthd: ties the parts together and runs them on one loop. Start: configuration, data folder, store,
 * first objects, certificates, listeners, then the ready line. End: no new requests, answers under way
 * leave, everything is durable, done. */
#include "api/api.h"
#include "api/audit.h"
#include "api/train/train.h"
#include "backup/backup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "daemon/agent.h"
#include "daemon/backup_service.h"
#include "daemon/bootstrap.h"
#include "daemon/certificates.h"
#include "daemon/config.h"
#include "daemon/health.h"
#include "daemon/library.h"
#include "daemon/notify_service.h"
#include "daemon/promise.h"
#include "daemon/queue_service.h"
#include "daemon/reserve.h"
#include "daemon/room.h"
#include "daemon/run_watch.h"
#include "daemon/runner.h"
#include "daemon/task_service.h"
#include "engine/engine.h"
#include "machine/machine.h"
#include "net/http.h"
#include "objects/object_doc.h"
#include "queue/queue.h"
#include "upkeep/upkeep.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#define LOG_MODULE       "berthd"

#define WAIT_EXTEND_USEC 60000000 /* systemd waits so much longer each time */
#define STOP_TIMEOUT_MS  700      /* for answers under way, so that the end takes less than a second */

struct daemon {
    struct daemon_config config;
    struct loop *loop;
    struct store *store;
    struct notify_service *notify;
    struct registry *registry;
    struct runner *runner;
    struct agent *agent; /* NULL: off */
    char *agent_text;    /* "on: …", "off: why" */
    struct machine *machine;
    struct train *train;
    struct library *library;
    struct queue_service *queue;
    struct task_service *tasks;
    struct backup_service *backups;
    struct health *health;
    struct upkeep *upkeep;
    struct certificates *certificates;
    struct audit *audit;
    struct reserve *reserve;
    struct room *room;
    struct run_watch *run_watch;
    struct http_server *server;
    struct api *api;
    char *http_url, *https_url, *pid_path;
    const char **names; /* of this machine */
    char host_name[256];
    bool stopping;
    bool failed; /* to start */
    int servers; /* that have still to stop */
    int argc;    /* the command line, for a reload */
    char **argv;
};

/* Tells systemd, where it asked. */
static void notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    CLEANUP(fd_close) int fd = -1;
    size_t len;

    if (!path || (len = strlen(path)) == 0 || len >= sizeof(addr.sun_path))
        return;
    memcpy(addr.sun_path, path, len);
    if (addr.sun_path[0] == '@')
        addr.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&addr,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
}

static void raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static char *data_path(const struct daemon *d, const char *name)
{
    return mem_printf("%s/%s", d->config.data_dir, name);
}

static int make_kubeconfig(void *arg, const char *user, const char *const *groups, const char *ns,
                           int64_t until, struct buf *ret, struct api_certificate *made, struct err *err)
{
    return certificates_kubeconfig(((struct daemon *)arg)->certificates, user, groups, ns, until, ret, made,
                                   err);
}

static void status_members(void *arg, struct arena *arena, struct json *doc)
{
    const struct daemon *d = arg;
    char time[CLOCK_TEXT_MAX];
    int64_t repaired;

    json_set_string(arena, doc, "http", d->http_url);
    json_set_string(arena, doc, "https", d->https_url);
    json_set_string(arena, doc, "socket", d->config.socket);
    json_set_string(arena, doc, "dataDir", d->config.data_dir);
    json_set_string(arena, doc, "node", d->config.node_name);
    json_set_string(arena, doc, "agent", d->agent_text);
    if (agent_warning(d->agent))
        json_set_string(arena, doc, "agentWarning", agent_warning(d->agent));
    if (agent_last_repair(d->agent, &repaired)) {
        json_set_string(arena, doc, "lastRepair", agent_last_repair(d->agent, NULL));
        json_set_string(arena, doc, "lastRepairTime", clock_format(repaired, time));
    }
    if (agent_damage(d->agent))
        json_set_string(arena, doc, "damage", agent_damage(d->agent));
    json_set_int(arena, doc, "pid", getpid());
    json_set_int(arena, doc, "residentBytes", health_memory());
    if (backup_service_last(d->backups))
        json_set_string(arena, doc, "lastBackup", clock_format(backup_service_last(d->backups), time));
    if (backup_service_trouble(d->backups))
        json_set_string(arena, doc, "backupWarning", backup_service_trouble(d->backups));
    json_set(arena, doc, "kept", *upkeep_status(d->upkeep, arena));
}

static size_t run_checks(void *arg, struct arena *arena, struct api_check *ret, size_t max)
{
    return health_checks(((struct daemon *)arg)->health, arena, ret, max);
}

static void write_metrics(void *arg, struct metrics *metrics)
{
    health_metrics(((struct daemon *)arg)->health, metrics);
}

static int write_admin_kubeconfig(struct daemon *d, struct err *err)
{
    CLEANUP(free) char *path = data_path(d, "admin.kubeconfig");

    return certificates_write_admin(d->certificates, path, err);
}

/* With `auto` a machine that cannot run pods is no error: they wait, and say why. */
static int start_agent(struct daemon *d, struct err *err)
{
    struct err why = {0};

    if (d->config.agent == AGENT_OFF) {
        d->agent_text = mem_strdup("off: by configuration");
    } else if (agent_new(d->loop, d->registry, &d->config, &d->agent, &why) == 0) {
        d->agent_text = mem_printf("on: %s", agent_text(d->agent));
    } else if (d->config.agent == AGENT_ON) {
        return err_set(err, why.code, "the node agent cannot start: %s", why.msg);
    } else {
        log_info("node agent off: %s", why.msg);
        d->agent_text = mem_printf("off: %s", why.msg);
        agent_say_off(d->registry, d->config.node_name, why.msg);
    }
    return 0;
}

static int start_queue(struct daemon *d, struct err *err)
{
    struct queue_service_config config = {
        .loop = d->loop,
        .registry = d->registry,
        .config = &d->config,
        .engine = agent_engine(d->agent),
        .inbox = notify_service_inbox(d->notify),
        .train = d->train,
    };

    if (queue_service_new(&config, &d->queue, err) < 0)
        return err_prefix(err, "queue");
    train_set_queue(d->train, queue_service_queue(d->queue));
    queue_set_idle(queue_service_queue(d->queue), d->config.idle_warn_sec * 1000,
                   d->config.idle_stop_sec * 1000);
    return 0;
}

static int open_store(struct daemon *d, struct err *err)
{
    CLEANUP(free) char *path = data_path(d, "berth.db"), *log_dir = agent_log_dir(d->config.data_dir);
    int (*open)(const char *, struct loop *, struct store **, struct err *) =
        d->config.accept_loss ? store_open_lossy : store_open;

    if (dir_make(d->config.data_dir, 0711, err) < 0 || promise_check_folder(&d->config, err) < 0 ||
        open(path, d->loop, &d->store, err) < 0 || promise_check_running(&d->config, d->store, err) < 0 ||
        promise_check_authority(&d->config, d->store, err) < 0)
        return -1;
    promise_accept(&d->config);
    if (notify_service_new(d->loop, d->store, &d->config, &d->notify, err) < 0)
        return -1;
    d->registry = registry_new(d->store);
    d->runner = runner_new(d->loop, d->registry);
    d->room = room_new(d->registry, (size_t)d->config.space_mib << 20);
    d->train = train_new(&(struct train_config){.registry = d->registry});
    if (bootstrap_objects(d->registry, err) < 0 || bootstrap_node(d->registry, &d->config, err) < 0)
        return -1;
    if (task_service_new(d->loop, d->registry, d->notify, &d->tasks, err) < 0)
        return -1;
    runner_set_event_age(d->runner, d->config.event_age_sec);
    if (start_agent(d, err) < 0 || start_queue(d, err) < 0)
        return -1;
    d->upkeep = upkeep_new(&(struct upkeep_config){.loop = d->loop,
                                                   .registry = d->registry,
                                                   .inbox = notify_service_inbox(d->notify),
                                                   .log_dir = log_dir,
                                                   .db_path = path,
                                                   .policy = d->config.upkeep});
    return 0;
}

/* Where clients find the HTTPS address: where it listens on all addresses, a name that the certificate has.
 */
static char *public_url(const struct daemon *d, const char *addr)
{
    const char *port = strrchr(addr, ':');
    char host[256] = "localhost";

    if (!starts_with(addr, "0.0.0.0:") && !starts_with(addr, "[::]:"))
        return mem_printf("https://%s", addr);
    gethostname(host, sizeof(host) - 1);
    return mem_printf("https://%s%s", d->config.extra_names.len ? d->config.extra_names.v[0] : host, port);
}

static void open_machine(struct daemon *d)
{
    struct images_registry *registries = mem_zalloc((d->config.registries.len + 1) * sizeof(*registries));
    struct machine_config config = {.loop = d->loop,
                                    .images = agent_images(d->agent),
                                    .data_dir = d->config.data_dir,
                                    .registries = registries,
                                    .push_to = d->config.push_to};

    config.registries_len = agent_registries(&d->config, registries);
    d->machine = machine_new(&config);
    free(registries);
}

static bool serve_rest(void *arg, struct call *call)
{
    const struct daemon *d = arg;

    return machine_handle(d->machine, call) || train_rest(d->train, call);
}

static int make_backup(void *arg, void (*done)(void *to, int fd, const struct err *err), void *to,
                       struct err *err)
{
    return backup_service_make(((struct daemon *)arg)->backups, done, to, err);
}

static bool serve_library(void *arg, struct call *call)
{
    return train_library(((struct daemon *)arg)->train, call);
}

/* Names under which browsers find this machine. */
static const char **page_names(struct daemon *d)
{
    const char **names = mem_zalloc((d->config.extra_names.len + 3) * sizeof(*names));
    size_t count = 0;

    gethostname(d->host_name, sizeof(d->host_name) - 1);
    names[count++] = d->host_name;
    names[count++] = d->config.node_name;
    VEC_EACH(&d->config.extra_names, it)
        names[count++] = *it;
    return names;
}

static int listen_all(struct daemon *d, struct err *err)
{
    struct api_config api = {
        .loop = d->loop,
        .registry = d->registry,
        .hooks = {.arg = d,
                  .kubeconfig = d->config.https ? make_kubeconfig : NULL,
                  .status = status_members,
                  .checks = run_checks,
                  .metrics = write_metrics,
                  .backup = make_backup,
                  .library = serve_library,
                  .rest = serve_rest},
    };
    CLEANUP(free) char *folder = mem_strdup(d->config.socket);
    char *slash = strrchr(folder, '/');
    size_t n = 0;

    open_machine(d);
    vec_push(&d->config.admins, NULL);
    api.admins = (const char *const *)d->config.admins.v;
    vec_push(&d->config.user_quota, NULL);
    api.user_quota = (const char *const *)d->config.user_quota.v;
    api.user_tokens = (unsigned)d->config.user_tokens;
    api.pod_ops = engine_pod_ops(agent_engine(d->agent));
    api.tasks = task_service_tasks(d->tasks);
    api.queue = queue_service_queue(d->queue);
    api.inbox = notify_service_inbox(d->notify);
    api.deliver = notify_service_deliver(d->notify);
    api.upkeep = d->upkeep;
    api.anonymous = (enum api_anonymous)d->config.anonymous; /* the same order */
    api.metrics_users = d->config.metrics_users;
    api.path_prefix = d->config.path_prefix;
    d->names = page_names(d);
    api.names = d->names;
    api.audit = d->audit;
    d->api = api_new(&api);
    d->server = http_server_new(d->loop,
                                &(struct http_config){.server_name = "berth/" BERTH_VERSION,
                                                      .nosniff = true,
                                                      .admit = api_admit,
                                                      .refused = api_refused},
                                api_handle, d->api);
    if (library_open(d->loop, d->api, agent_net(d->agent), d->config.data_dir, &d->library, err) < 0)
        return err_prefix(err, "the training library's address");
    queue_set_url(queue_service_queue(d->queue), library_url(d->library));
    if (slash && slash != folder) {
        *slash = '\0';
        if (dir_make(folder, 0755, err) < 0)
            return -1;
    }
    if (http_listen_unix(d->server, d->config.socket, 0666, err) < 0)
        return -1;
    if (d->config.http) {
        if (http_listen_tcp(d->server, d->config.http, NULL, err) < 0)
            return -1;
        d->http_url = mem_printf("http://%s", http_server_addr(d->server, n++));
    }
    if (d->config.https) {
        if (http_listen_tcp(d->server, d->config.https, certificates_tls(d->certificates), err) < 0)
            return -1;
        d->https_url = public_url(d, http_server_addr(d->server, n++));
        certificates_set_url(d->certificates, d->https_url);
    }
    return 0;
}

static int open_audit(struct daemon *d, struct err *err)
{
    CLEANUP(free) char *path = data_path(d, "audit.log");
    struct audit_config config = {
        .path = d->config.audit_log ? d->config.audit_log : path,
        .bytes = (size_t)d->config.audit_mib << 20,
        .files = (unsigned)d->config.audit_files,
        .all = d->config.audit == CONFIG_AUDIT_ALL,
    };

    return d->config.audit == CONFIG_AUDIT_OFF ? 0 : audit_open(&config, &d->audit, err);
}

static int write_pid(struct daemon *d, struct err *err)
{
    CLEANUP(free) char *text = mem_printf("%d\n", (int)getpid());

    d->pid_path = data_path(d, "berthd.pid");
    return file_write_atomic(d->pid_path, str_from(text), 0644, err);
}

static void stopped(void *arg)
{
    struct daemon *d = arg;

    if (--d->servers == 0)
        loop_stop(d->loop);
}

static void end(void *arg)
{
    struct daemon *d = arg;

    if (d->stopping)
        return;
    d->stopping = true;
    notify("STOPPING=1");
    run_watch_free(TAKE_PTR(d->run_watch)); /* its socket goes now */
    d->servers = 2;
    http_server_stop(d->server, STOP_TIMEOUT_MS, stopped, d);
    library_stop(d->library, STOP_TIMEOUT_MS, stopped, d);
}

static void on_signal(void *arg, int signo)
{
    log_info("%s: ending", strsignal(signo));
    end(arg);
}

/* Of the configuration, what is kept and for how long counts at once; the rest at the next start. */
static void reload_config(struct daemon *d)
{
    CLEANUP(config_done) struct daemon_config config = {0};
    struct config_env env = config_env_real();
    struct err err = {0};

    if (config_load(&env, d->argc, d->argv, &config, &err) < 0) {
        log_error("the configuration stays as it was: %s", err.msg);
        return;
    }
    d->config.upkeep = config.upkeep;
    d->config.event_age_sec = config.event_age_sec;
    queue_set_idle(queue_service_queue(d->queue), config.idle_warn_sec * 1000, config.idle_stop_sec * 1000);
    upkeep_set_policy(d->upkeep, &config.upkeep);
    runner_set_event_age(d->runner, config.event_age_sec);
    log_info("the settings of what is kept were read again");
}

static void on_reload(void *arg, int signo)
{
    struct daemon *d = arg;

    (void)signo;
    certificates_reload(d->certificates);
    audit_reopen(d->audit);
    reload_config(d);
}

/* The machine goes down (deploy/systemd): pods first. */
static void on_power(void *arg, int signo)
{
    struct daemon *d = arg;

    if (!d->agent) {
        on_signal(arg, signo);
        return;
    }
    log_info("the machine goes down: ending all pods, then myself");
    agent_engine(d->agent)->ops->shut_down(agent_engine(d->agent), end, d);
}

static void on_ready(void *arg, const struct err *failed)
{
    struct daemon *d = arg;

    if (failed) {
        log_error("%s", failed->msg);
        d->failed = true;
        loop_stop(d->loop);
        return;
    }
    printf("berthd " BERTH_VERSION " ready: http %s https %s socket %s\n", d->http_url ? d->http_url : "off",
           d->https_url ? d->https_url : "off", d->config.socket);
    fflush(stdout);
    notify("READY=1");
}

/* A full disk is waited for: who frees it need not start us, too. */
static void wait_for_room(const struct daemon *d)
{
    char text[ERR_MSG_MAX];
    bool said = false;

    while (!reserve_room(d->config.data_dir, text)) {
        CLEANUP(free) char *status = mem_printf("STATUS=%s\nEXTEND_TIMEOUT_USEC=%d", text, WAIT_EXTEND_USEC);

        if (!said)
            log_error("%s", text);
        said = true;
        notify(status);
        sleep(1);
    }
    if (said)
        notify("STATUS=");
}

static int daemon_start(struct daemon *d, struct err *err)
{
    wait_for_room(d);
    d->loop = loop_new();
    if (loop_signal(d->loop, SIGTERM, on_signal, d, err) < 0 ||
        loop_signal(d->loop, SIGINT, on_signal, d, err) < 0 ||
        loop_signal(d->loop, SIGPWR, on_power, d, err) < 0 ||
        loop_signal(d->loop, SIGHUP, on_reload, d, err) < 0)
        return -1;
    if (open_store(d, err) < 0 ||
        certificates_open(d->loop, d->store, &d->config, &d->certificates, err) < 0 ||
        open_audit(d, err) < 0 || listen_all(d, err) < 0 || write_admin_kubeconfig(d, err) < 0 ||
        write_pid(d, err) < 0)
        return -1;
    promise_keep(&d->config, d->store);
    d->run_watch =
        run_watch_new(&(struct run_watch_parts){d->loop, &d->config, d->store, d->agent, d->server});
    d->reserve = reserve_new(d->loop, d->config.data_dir);
    d->backups = backup_service_new(d->loop, d->store, &d->config);
    d->health = health_new(&(struct health_config){.loop = d->loop,
                                                   .store = d->store,
                                                   .config = &d->config,
                                                   .agent = d->agent,
                                                   .agent_text = d->agent_text,
                                                   .queue = queue_service_queue(d->queue),
                                                   .audit = d->audit,
                                                   .backups = d->backups,
                                                   .certificates = d->certificates,
                                                   .server = d->server,
                                                   .library = d->library});
    store_defer(d->store, on_ready, d);
    return 0;
}

static void daemon_done(struct daemon *d)
{
    store_settle(d->store); /* the answers that wait for the disk belong to requests, which go now */
    health_free(d->health);
    run_watch_free(d->run_watch);
    reserve_free(d->reserve);
    api_free(d->api);
    http_server_free(d->server);
    library_free(d->library);
    audit_free(d->audit);
    machine_free(d->machine);
    backup_service_free(d->backups);
    upkeep_free(d->upkeep);
    queue_service_free(d->queue);
    agent_free(d->agent);
    notify_service_stop(d->notify);
    task_service_free(d->tasks);
    runner_free(d->runner);
    registry_free(d->registry);
    room_free(d->room);
    train_free(d->train);
    store_close(d->store);
    notify_service_free(d->notify);
    certificates_free(d->certificates);
    loop_free(d->loop);
    if (d->pid_path)
        unlink(d->pid_path);
    free(d->pid_path);
    free(d->names);
    free(d->agent_text);
    free(d->http_url);
    free(d->https_url);
    config_done(&d->config);
}

static int restore(const struct daemon_config *config)
{
    CLEANUP(free) char *replaced = NULL;
    struct backup_info info = {0};
    char time[CLOCK_TEXT_MAX];
    struct err err = {0};

    if (backup_restore(config->restore, config->data_dir, clock_now(), &info, &replaced, &err) < 0) {
        fprintf(stderr, "berthd: %s\n", err.msg);
        return 1;
    }
    printf("restored the backup of %s of %s: revision %lld, %lld objects\n", info.node,
           clock_format(info.time, time), (long long)info.revision, (long long)info.objects);
    if (replaced)
        printf("what was there is in %s\n", replaced);
    return 0;
}

int main(int argc, char **argv)
{
    struct config_env env = config_env_real();
    struct daemon d = {.argc = argc, .argv = argv};
    struct err err = {0};
    int result;

    if (config_load(&env, argc, argv, &d.config, &err) < 0) {
        fprintf(stderr, "berthd: %s\n", err.msg);
        return 2;
    }
    if (d.config.action == CONFIG_HELP) {
        config_usage(stdout);
        config_done(&d.config);
        return 0;
    }
    if (d.config.action == CONFIG_RESTORE) {
        result = restore(&d.config);
        config_done(&d.config);
        return result;
    }
    if (d.config.action == CONFIG_CHECK) {
        printf("berthd: the configuration is valid (%s)\n", d.config.file ? d.config.file : "no config file");
        config_done(&d.config);
        return 0;
    }
    if (d.config.action == CONFIG_PRINT) {
        config_print(stdout);
        config_done(&d.config);
        return 0;
    }
    if (d.config.action == CONFIG_VERSION) {
        puts("berthd " BERTH_VERSION);
        config_done(&d.config);
        return 0;
    }
    /* Give memory back early: a list of thousands of pods is tens of megabytes for a moment. */
    mallopt(M_MMAP_THRESHOLD, 256 << 10);
    mallopt(M_TRIM_THRESHOLD, 1 << 20);
    mallopt(M_ARENA_MAX, 2);
    umask(022);
    raise_file_limit();
    log_set_level(d.config.log_level);
    if (getenv("BERTH_CHECK_DOCUMENTS")) /* tests: a reader that changes a shared document ends us */
        object_docs_check();
    result = daemon_start(&d, &err);
    if (result == 0)
        result = loop_run(d.loop, &err);
    if (result == 0 && d.failed) {
        err_set(&err, ERR_UNAVAILABLE, "the start could not be written down");
        result = -1;
    }
    if (result < 0)
        fprintf(stderr, "berthd: %s\n", err.msg);
    daemon_done(&d);
    return result < 0 ? 1 : 0;
}
