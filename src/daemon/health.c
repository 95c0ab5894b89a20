/* A check reads facts and writes a verdict; it asks nobody who could take long. A new one is a row of
 * checks[] and a row in docs/monitoring.md. */
#include "daemon/health.h"

#include "api/audit.h"
#include "base/clock.h"
#include "base/disk.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "daemon/agent.h"
#include "daemon/backup_service.h"
#include "daemon/certificates.h"
#include "daemon/library.h"
#include "daemon/probe.h"
#include "podnet/podnet.h"
#include "queue/queue.h"
#include "store/store.h"

#include <sys/resource.h>
#include <unistd.h>

#define DAY_SEC            INT64_C(86400)
#define WAIT_FAIL_SEC      10          /* a commit that takes longer is a disk that does not answer */
#define DISK_FAIL_BYTES    (200 << 20) /* less is free than this, and than DISK_FAIL_PERCENT: it is full */
#define DISK_FAIL_PERCENT  2
#define FILES_FAIL         1000 /* inodes */
#define SERVER_WARN_DAYS   14   /* it should have been renewed long before */
#define AUTHORITY_DAYS     60
#define DESCRIPTOR_PERCENT 80
#define REPAIR_WARN_SEC    DAY_SEC

struct health {
    struct health_config config;
    struct probe *probe;
    int64_t started; /* nanoseconds since 1970 */
};

/* What a check found: nothing is wrong, unless it says so. */
struct look {
    const struct health *health;
    const struct health_config *config;
    struct arena *arena;
    struct api_check *check;
};

#define SAY(look, state_, fix_, ...)                                                                         \
    do {                                                                                                     \
        (look)->check->state = (state_);                                                                     \
        (look)->check->fix = (fix_);                                                                         \
        (look)->check->text = arena_printf((look)->arena, __VA_ARGS__);                                      \
    } while (0)

/* ---- the checks ---- */

static void check_store(struct look *look)
{
    struct store_stats stats;
    char age[CLOCK_TEXT_MAX];

    store_stats(look->config->store, &stats);
    if (stats.waiting_ns > WAIT_FAIL_SEC * NSEC_PER_SEC)
        SAY(look, API_CHECK_FAIL, "look at the disk of the data folder: dmesg, iostat -x 1",
            "nothing has been written for %lld s although changes wait: the disk does not answer",
            (long long)(stats.waiting_ns / NSEC_PER_SEC));
    else if (stats.trouble)
        SAY(look, API_CHECK_FAIL,
            arena_printf(look->arena, "make room or repair the disk of %s; berthd goes on by itself",
                         look->config->config->data_dir),
            "the last write failed %s ago, changes are refused: %s",
            clock_age(clock_now() - stats.trouble_at, age), stats.trouble);
}

static void check_disk(struct look *look)
{
    const struct probe_facts *facts = probe_facts(look->health->probe);
    const char *dir = look->config->config->data_dir;
    const char *fix =
        arena_printf(look->arena, "make room on the disk of %s: berth image gc; delete old claims", dir);
    int64_t late = probe_late(look->health->probe);

    if (late)
        SAY(look, API_CHECK_FAIL, "look at the disk of the data folder: dmesg, iostat -x 1",
            "the disk of %s has not answered for %lld s", dir, (long long)late);
    else if (facts->disk_free < 0)
        return;
    else if (facts->disk_free < DISK_FAIL_BYTES &&
             facts->disk_free < facts->disk_bytes / 100 * DISK_FAIL_PERCENT)
        SAY(look, API_CHECK_FAIL, fix, "the disk of %s is full: %lld MiB are free", dir,
            (long long)(facts->disk_free >> 20));
    else if (facts->files > 0 && facts->files_free < FILES_FAIL)
        SAY(look, API_CHECK_FAIL, fix, "the disk of %s has room for only %lld more files", dir,
            (long long)facts->files_free);
    else if (facts->disk_free < disk_keep(facts->disk_bytes))
        SAY(look, API_CHECK_WARN, fix,
            "the disk of %s is short: %lld MiB are free; images are not pulled, and below %lld MiB pods are "
            "evicted",
            dir, (long long)(facts->disk_free >> 20), (long long)(disk_mark(facts->disk_bytes) >> 20));
}

static void check_runtime(struct look *look)
{
    if (look->config->config->agent == AGENT_OFF)
        look->check->text = "off by configuration";
    else if (!look->config->agent)
        SAY(look, API_CHECK_WARN, "docs/pods.md says what running pods needs; then restart berthd",
            "no pods run on this machine: %s",
            starts_with(look->config->agent_text, "off: ") ? look->config->agent_text + 5
                                                           : look->config->agent_text);
    else if (agent_warning(look->config->agent))
        SAY(look, API_CHECK_WARN, "install crun, then restart berthd: running pods go on", "%s",
            agent_warning(look->config->agent));
}

static void check_network(struct look *look)
{
    const struct podnet *net = look->config->agent ? agent_network(look->config->agent) : NULL;

    if (net && podnet_trouble(net))
        SAY(look, API_CHECK_FAIL, "kubectl get events says since when; docs/network.md says what it needs",
            "the pods' network is damaged and could not be repaired: %s", podnet_trouble(net));
    else if (net && podnet_warning(net))
        SAY(look, API_CHECK_WARN, "docs/network.md says what it needs", "%s", podnet_warning(net));
}

/* What others removed under a running daemon was made again; who does that should be found. */
static void check_repairs(struct look *look)
{
    const char *repair = NULL;
    char age[CLOCK_TEXT_MAX];
    int64_t at = 0;

    if (look->config->agent)
        repair = agent_last_repair(look->config->agent, &at);
    if (repair && clock_now() - at < REPAIR_WARN_SEC * NSEC_PER_SEC)
        SAY(look, API_CHECK_WARN,
            "find out who removes it: a firewall's reload, a cleaner of temporary files", "%s ago: %s",
            clock_age(clock_now() - at, age), repair);
}

static void check_pressure(struct look *look)
{
    if (look->config->agent && agent_short_of_memory(look->config->agent))
        SAY(look, API_CHECK_WARN, "give pods memory limits (docs/pods.md), or end some of them",
            "the machine is short of memory: pods are being evicted");
}

static void check_gpus(struct look *look)
{
    uint32_t failed = look->config->queue ? queue_failed_cards(look->config->queue) : 0;

    if (failed)
        SAY(look, API_CHECK_WARN, "nvidia-smi -q; a reset or a reboot may bring them back",
            "%u GPU%s not answer, and get no work", failed, failed == 1 ? " does" : "s do");
}

static void check_backup(struct look *look)
{
    const char *trouble = look->config->backups ? backup_service_trouble(look->config->backups) : NULL;

    if (look->config->config->backup_hours <= 0)
        look->check->text = "off by configuration";
    else if (trouble)
        SAY(look, API_CHECK_WARN, "see berthd's log; berth backup FILE makes one now", "%s", trouble);
}

static void check_certificate(struct look *look)
{
    const struct certificates *certificates = look->config->certificates;
    int64_t server, authority, now = clock_now();

    if (!certificates)
        return;
    certificates_ends(certificates, &server, &authority);
    server = (server - now) / NSEC_PER_SEC;
    authority = (authority - now) / NSEC_PER_SEC;
    if (server <= 0 || authority <= 0)
        SAY(look, API_CHECK_FAIL,
            "berthd's log says why it was not renewed (systemctl reload berthd tries again)",
            "the %s's certificate has expired: no client trusts this server",
            authority <= 0 ? "authority" : "server");
    else if (server < SERVER_WARN_DAYS * DAY_SEC && server < authority)
        SAY(look, API_CHECK_WARN,
            "berthd's log says why it was not renewed (systemctl reload berthd tries again)",
            "the server's certificate ends in %lld days", (long long)(server / DAY_SEC));
    else if (authority < AUTHORITY_DAYS * DAY_SEC)
        SAY(look, API_CHECK_WARN,
            "plan a day: stop berthd, move DATA/pki away, start it with --accept-loss, hand out new "
            "kubeconfigs",
            "the certificate authority ends in %lld days", (long long)(authority / DAY_SEC));
}

static void check_descriptors(struct look *look)
{
    const struct probe_facts *facts = probe_facts(look->health->probe);
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && facts->descriptors >= 0 &&
        (rlim_t)facts->descriptors > limit.rlim_cur / 100 * DESCRIPTOR_PERCENT)
        SAY(look, API_CHECK_WARN, "raise LimitNOFILE of berthd.service, then restart it",
            "%lld of %lld descriptors are open", (long long)facts->descriptors, (long long)limit.rlim_cur);
}

static void check_audit(struct look *look)
{
    if (look->config->audit && audit_in_trouble(look->config->audit))
        SAY(look, API_CHECK_WARN, "make room, or set auditLog to another disk",
            "the audit log cannot be written: entries are lost");
}

static const struct {
    const char *name;
    void (*run)(struct look *look);
} checks[] = {
    {"store", check_store},
    {"disk", check_disk},
    {"runtime", check_runtime},
    {"network", check_network},
    {"repairs", check_repairs},
    {"memory", check_pressure},
    {"gpus", check_gpus},
    {"backup", check_backup},
    {"certificate", check_certificate},
    {"audit", check_audit},
    {"descriptors", check_descriptors},
};

size_t health_checks(const struct health *health, struct arena *arena, struct api_check *ret, size_t max)
{
    size_t count = 0;

    for (; health && count < ARRAY_LEN(checks) && count < max; count++) {
        struct look look = {health, &health->config, arena, &ret[count]};

        ret[count] = (struct api_check){.name = checks[count].name, .text = ""};
        checks[count].run(&look);
    }
    return count;
}

/* ---- numbers ---- */

int64_t health_memory(void)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct str rest, field = {0};
    int64_t pages;

    if (file_read("/proc/self/statm", 4096, &text, NULL) < 0)
        return -1;
    rest = buf_view(&text);
    for (int i = 0; i < 2 && str_split(&rest, ' ', &field); i++)
        ;
    return str_to_int(field, &pages) ? pages * sysconf(_SC_PAGESIZE) : -1;
}

static void gauge(struct metrics *metrics, const char *name, const char *help, double value)
{
    metrics_family(metrics, name, METRIC_GAUGE, help);
    if (value >= 0)
        metrics_gauge(metrics, NULL, value);
}

static void put_process(const struct health *health, struct metrics *metrics)
{
    struct rusage used;
    struct rlimit limit;

    gauge(metrics, "process_resident_memory_bytes", "Resident memory of berthd.", (double)health_memory());
    gauge(metrics, "process_open_fds", "Open descriptors of berthd.",
          (double)probe_facts(health->probe)->descriptors);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        gauge(metrics, "process_max_fds", "How many it may have.", (double)limit.rlim_cur);
    if (getrusage(RUSAGE_SELF, &used) == 0) {
        metrics_family(metrics, "process_cpu_seconds_total", METRIC_COUNTER, "Processor time of berthd.");
        metrics_gauge(metrics, NULL,
                      (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                          (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    }
    gauge(metrics, "process_start_time_seconds", "When berthd was started, in seconds since 1970.",
          (double)health->started / NSEC_PER_SEC);
    gauge(metrics, "berth_http_connections", "Open connections.",
          http_server_conns(health->config.server) + library_conns(health->config.library));
}

static void put_disk(const struct probe_facts *facts, struct metrics *metrics)
{
    gauge(metrics, "berth_disk_bytes", "Size of the data folder's file system.", (double)facts->disk_bytes);
    gauge(metrics, "berth_disk_free_bytes", "What is free of it.", (double)facts->disk_free);
    metrics_family(metrics, "berth_database_bytes", METRIC_GAUGE, "Size of the database on disk, by file.");
    if (facts->database_bytes >= 0)
        metrics_gauge(metrics, METRIC_LABELS({"file", "database"}), (double)facts->database_bytes);
    if (facts->journal_bytes >= 0)
        metrics_gauge(metrics, METRIC_LABELS({"file", "journal"}), (double)facts->journal_bytes);
}

static void put_times(const struct health_config *config, struct metrics *metrics)
{
    int64_t last = backup_service_last(config->backups), server, authority;

    gauge(metrics, "berth_backup_last_timestamp_seconds",
          "When the newest backup was made, in seconds since 1970; absent: there is none yet.",
          last ? (double)last / NSEC_PER_SEC : -1);
    metrics_family(metrics, "berth_certificate_end_timestamp_seconds", METRIC_GAUGE,
                   "When a certificate ends, in seconds since 1970.");
    if (!config->certificates)
        return;
    certificates_ends(config->certificates, &server, &authority);
    metrics_gauge(metrics, METRIC_LABELS({"of", "server"}), (double)server / NSEC_PER_SEC);
    metrics_gauge(metrics, METRIC_LABELS({"of", "authority"}), (double)authority / NSEC_PER_SEC);
}

static void put_checks(const struct health *health, struct metrics *metrics)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct api_check found[API_CHECKS_MAX];
    size_t count = health_checks(health, &arena, found, API_CHECKS_MAX);

    metrics_family(metrics, "berth_check", METRIC_GAUGE,
                   "What /readyz?verbose tells: 0 all is well, 1 a warning, 2 it failed.");
    for (size_t i = 0; i < count; i++)
        metrics_gauge(metrics, METRIC_LABELS({"check", found[i].name}), found[i].state);
}

void health_metrics(const struct health *health, struct metrics *metrics)
{
    if (!health)
        return;
    put_process(health, metrics);
    put_disk(probe_facts(health->probe), metrics);
    put_times(&health->config, metrics);
    put_checks(health, metrics);
}

struct health *health_new(const struct health_config *config)
{
    struct health *health = NEW(struct health);

    health->config = *config;
    health->started = clock_now();
    health->probe = probe_new(config->loop, config->config->data_dir);
    return health;
}

void health_free(struct health *health)
{
    if (!health)
        return;
    probe_free(health->probe);
    free(health);
}
