/* rows[] is the whole configuration. A row's setter takes text; the file's values are turned into the same
 * text first (a list into "a,b", a mapping into "k=v,k=v", `off` and `no`, which YAML reads as false, into
 * "off"), so that a flag and a key cannot differ in what they accept. */
#include "daemon/config.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/yaml.h"
#include "daemon/config_images.h"
#include "daemon/config_notify.h"
#include "daemon/config_upkeep.h"
#include "daemon/config_users.h"
#include "notify/policy.h"
#include "sched/sched.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <sys/un.h>

#define CONFIG_SECONDS_MAX      86400
#define CONFIG_PROJECT_MAX      4294967294 /* ids of projects have 32 bits */
#define CONFIG_HALF_LIFE_MAX    87600
#define CONFIG_BACKUP_HOURS_MAX 8760
#define ROOT_DATA_DIR           "/var/lib/berth"
#define ROOT_SOCKET             "/run/berth/berth.sock"

struct row {
    const char *flag, *key;
    const char *arg; /* for the help; NULL: the flag takes none */
    const char *help;
    int (*set)(struct daemon_config *config, const char *text, struct err *err);
    enum { SCALAR, LIST, LIST_OR_MAP } shape; /* what the file may have there */
};

/* ---- values ---- */

static int set_text(char **member, const char *text, struct err *err)
{
    if (!text[0])
        return err_set(err, ERR_INVALID, "must not be empty");
    free(*member);
    *member = mem_strdup(text);
    return 0;
}

static int set_path(char **member, const char *text, struct err *err)
{
    char cwd[PATH_MAX] = "";
    size_t len = strlen(text);

    if (len == 0)
        return err_set(err, ERR_INVALID, "must not be empty");
    while (len > 1 && text[len - 1] == '/')
        len--;
    if (text[0] != '/' && !getcwd(cwd, sizeof(cwd)))
        return err_errno(err, errno, "ask for the current folder");
    free(*member);
    *member = text[0] == '/' ? mem_strndup(text, len) : mem_printf("%s/%.*s", cwd, (int)len, text);
    return 0;
}

static bool is_off(const char *text)
{
    return streq(text, "off") || streq(text, "false") || streq(text, "no");
}

static int set_bool(bool *member, const char *text, struct err *err)
{
    bool on = streq(text, "on") || streq(text, "true") || streq(text, "yes");

    if (!on && !is_off(text))
        return err_set(err, ERR_INVALID, "must be on or off, not '%s'", text);
    *member = on;
    return 0;
}

/* The host and the port of "127.0.0.1:5336", "[::1]:5336" or ":5336". */
static bool split_address(const char *text, struct str *host, uint64_t *port)
{
    const char *colon = strrchr(text, ':');

    if (!colon || !str_to_uint(str_from(colon + 1), port) || *port > 65535)
        return false;
    *host = (struct str){text, (size_t)(colon - text)};
    if (str_starts(*host, "[") && str_ends(*host, "]"))
        *host = (struct str){text + 1, host->len - 2};
    else if (memchr(host->s, ':', host->len))
        return false;
    return true;
}

static int set_address(char **member, const char *text, struct err *err)
{
    struct str host;
    uint64_t port;

    if (is_off(text)) {
        free(*member);
        *member = NULL;
        return 0;
    }
    if (!split_address(text, &host, &port))
        return err_set(err, ERR_INVALID, "must be HOST:PORT, [IPV6]:PORT, :PORT or off, not '%s'", text);
    return set_text(member, text, err);
}

static bool is_loopback(const char *address)
{
    struct str host;
    uint64_t port;

    return split_address(address, &host, &port) &&
           (str_is(host, "localhost") || str_is(host, "::1") || str_starts(host, "127."));
}

static int set_data(struct daemon_config *config, const char *text, struct err *err)
{
    return set_path(&config->data_dir, text, err);
}

static int set_http(struct daemon_config *config, const char *text, struct err *err)
{
    return set_address(&config->http, text, err);
}

static int set_http_insecure(struct daemon_config *config, const char *text, struct err *err)
{
    return set_bool(&config->http_insecure, text, err);
}

static int set_https(struct daemon_config *config, const char *text, struct err *err)
{
    return set_address(&config->https, text, err);
}

static int set_socket(struct daemon_config *config, const char *text, struct err *err)
{
    return set_path(&config->socket, text, err);
}

/* "4", "4x24576" or several of these. */
static int set_gpus(struct daemon_config *config, const char *text, struct err *err)
{
    struct str rest = str_from(text), part, count;

    config->gpus.len = 0;
    while (str_split(&rest, ',', &part)) {
        uint64_t n, mib = CONFIG_GPU_MIB;

        part = str_trim(part);
        str_split(&part, 'x', &count);
        if (!str_to_uint(count, &n) || (part.s && !str_to_uint(part, &mib)) || mib == 0 || mib > INT32_MAX)
            return err_set(err, ERR_INVALID,
                           "must be N or NxMIB (4x24576: four cards of 24576 MiB), not '%s'", text);
        if (n > CONFIG_GPUS_MAX - config->gpus.len)
            return err_set(err, ERR_LIMIT, "more than %d cards", CONFIG_GPUS_MAX);
        while (n-- > 0)
            vec_push(&config->gpus, (int64_t)mib);
    }
    return 0;
}

/* Letters, digits, '-', '_', '.', beginning and ending with a letter or digit. */
static bool label_name_valid(struct str s)
{
    if (s.len == 0 || s.len > 63 || !isalnum((unsigned char)s.s[0]) ||
        !isalnum((unsigned char)s.s[s.len - 1]))
        return false;
    for (size_t i = 0; i < s.len; i++)
        if (!isalnum((unsigned char)s.s[i]) && !strchr("-_.", s.s[i]))
            return false;
    return true;
}

static bool label_key_valid(struct str key)
{
    const char *slash = key.len ? memchr(key.s, '/', key.len) : NULL;
    size_t prefix = slash ? (size_t)(slash - key.s) : 0;

    if (!slash)
        return label_name_valid(key);
    for (size_t i = 0; i < prefix; i++)
        if (!isalnum((unsigned char)key.s[i]) && !strchr("-.", key.s[i]))
            return false;
    return prefix > 0 && prefix <= 253 && label_name_valid((struct str){slash + 1, key.len - prefix - 1});
}

static void clear_labels(struct daemon_config *config)
{
    VEC_EACH(&config->node_labels, it) {
        free(it->key);
        free(it->value);
    }
    config->node_labels.len = 0;
}

static int set_labels(struct daemon_config *config, const char *text, struct err *err)
{
    struct str rest = str_from(text), value, key;

    clear_labels(config);
    while (rest.len > 0 && str_split(&rest, ',', &value)) {
        value = str_trim(value);
        str_split(&value, '=', &key);
        if (!label_key_valid(key) || !value.s || (value.len > 0 && !label_name_valid(value)))
            return err_set(err, ERR_INVALID, "must be KEY=VALUE,... as Kubernetes labels are, not '%s'",
                           text);
        if (config->node_labels.len >= CONFIG_LIST_MAX)
            return err_set(err, ERR_LIMIT, "more than %d labels", CONFIG_LIST_MAX);
        vec_push(&config->node_labels,
                 (struct config_label){mem_strndup(key.s, key.len),
                                       mem_strndup(value.len ? value.s : "", value.len)});
    }
    return 0;
}

static int set_node_name(struct daemon_config *config, const char *text, struct err *err)
{
    size_t len = strlen(text);

    if (len == 0 || len > 253 || len != strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-.") ||
        !isalnum((unsigned char)text[0]) || !isalnum((unsigned char)text[len - 1]))
        return err_set(err, ERR_INVALID, "must be lower-case letters, digits, '-' and '.', not '%s'", text);
    return set_text(&config->node_name, text, err);
}

/* The place of text in NULL-terminated names, or -1 with an error that lists them. */
static int choose(const char *const *names, const char *text, struct err *err)
{
    CLEANUP(buf_done) struct buf list = {0};

    for (int i = 0; names[i]; i++) {
        if (streq(names[i], text))
            return i;
        buf_printf(&list, "%s%s", i ? ", " : "", names[i]);
    }
    return err_set(err, ERR_INVALID, "must be one of %s, not '%s'", list.data, text);
}

static int set_log_level(struct daemon_config *config, const char *text, struct err *err)
{
    static const char *const names[] = {[LOG_LEVEL_ERROR] = "error",
                                        [LOG_LEVEL_WARN] = "warn",
                                        [LOG_LEVEL_INFO] = "info",
                                        [LOG_LEVEL_DEBUG] = "debug",
                                        NULL};
    int level = choose(names, text, err);

    if (level < 0)
        return -1;
    config->log_level = (enum log_level)level;
    return 0;
}

static int set_anonymous(struct daemon_config *config, const char *text, struct err *err)
{
    static const char *const names[] = {
        [ANONYMOUS_NONE] = "none", [ANONYMOUS_QUEUE] = "queue", [ANONYMOUS_LOOPBACK] = "loopback", NULL};
    int choice = choose(names, is_off(text) ? "none" : text, err);

    if (choice < 0)
        return -1;
    config->anonymous = (enum config_anonymous)choice;
    return 0;
}

/* "/berth": one or more segments of plain characters. */
static int set_path_prefix(struct daemon_config *config, const char *text, struct err *err)
{
    size_t len = strlen(text);

    while (len > 0 && text[len - 1] == '/')
        len--;
    if (text[0] != '/' || strstr(text, "//") || strstr(text, "/.") ||
        strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/_.~-") != strlen(text) ||
        starts_with(text, "/v1") || starts_with(text, "/api"))
        return err_set(err, ERR_INVALID, "must be a path such as /berth, not '%s'", text);
    free(config->path_prefix);
    config->path_prefix = len ? mem_strndup(text, len) : NULL;
    return 0;
}

#define CLEAR_STRINGS(vec)                                                                                   \
    do {                                                                                                     \
        VEC_EACH(vec, string_)                                                                               \
            free(*string_);                                                                                  \
        (vec)->len = 0;                                                                                      \
    } while (0)

#define SET_STRINGS(vec, text, err)                                                                          \
    do {                                                                                                     \
        struct str rest_ = str_from(text), part_;                                                            \
                                                                                                             \
        CLEAR_STRINGS(vec);                                                                                  \
        while (rest_.len > 0 && str_split(&rest_, ',', &part_)) {                                            \
            part_ = str_trim(part_);                                                                         \
            if (part_.len == 0)                                                                              \
                return err_set(err, ERR_INVALID, "has an empty entry");                                      \
            if ((vec)->len >= CONFIG_LIST_MAX)                                                               \
                return err_set(err, ERR_LIMIT, "more than %d entries", CONFIG_LIST_MAX);                     \
            vec_push(vec, mem_strndup(part_.s, part_.len));                                                  \
        }                                                                                                    \
    } while (0)

static int set_extra_names(struct daemon_config *config, const char *text, struct err *err)
{
    SET_STRINGS(&config->extra_names, text, err);
    return 0;
}

static int set_admins(struct daemon_config *config, const char *text, struct err *err)
{
    SET_STRINGS(&config->admins, text, err);
    return 0;
}

static int set_callback_allow(struct daemon_config *config, const char *text, struct err *err)
{
    struct policy *policy;

    SET_STRINGS(&config->callback_allow, text, err);
    if (policy_new((const char *const *)config->callback_allow.v, config->callback_allow.len, &policy, err) <
        0)
        return -1;
    policy_free(policy);
    return 0;
}

static int set_callback_ca(struct daemon_config *config, const char *text, struct err *err)
{
    return set_path(&config->callback_ca, text, err);
}

static int set_agent(struct daemon_config *config, const char *text, struct err *err)
{
    static const char *const names[] = {
        [AGENT_AUTO] = "auto", [AGENT_OFF] = "off", [AGENT_ON] = "on", [AGENT_ON + 1] = NULL};
    int choice = choose(names, is_off(text) ? "off" : streq(text, "true") ? "on" : text, err);

    if (choice < 0)
        return -1;
    config->agent = (enum config_agent)choice;
    return 0;
}

static int set_quick_cgroups(struct daemon_config *config, const char *text, struct err *err)
{
    bool quick;

    if (set_bool(&quick, text, err) < 0)
        return -1;
    config->slow_cgroups = !quick;
    return 0;
}

static int set_oci_runtime(struct daemon_config *config, const char *text, struct err *err)
{
    if (!*text || (strchr(text, '/') && *text != '/'))
        return err_set(err, ERR_INVALID, "must be crun, runc or an absolute path, not '%s'", text);
    free(config->oci_runtime);
    config->oci_runtime = mem_strdup(text);
    return 0;
}

/* ---- the queue ---- */

static int set_policy(struct daemon_config *config, const char *text, struct err *err)
{
    CLEANUP(buf_done) struct buf names = {0};

    if (sched_policy_find(text))
        return set_text(&config->policy, text, err);
    for (const struct sched_policy *const *p = sched_policies; *p; p++)
        buf_printf(&names, "%s%s", names.len ? ", " : "", sched_policy_name(*p));
    return err_set(err, ERR_INVALID, "must be one of %s, not '%s'", names.data, text);
}

static int set_preemption(struct daemon_config *config, const char *text, struct err *err)
{
    static const char *const names[] = {[CONFIG_PREEMPTION_AUTO] = "auto",
                                        [CONFIG_PREEMPTION_ASK] = "ask",
                                        [CONFIG_PREEMPTION_OFF] = "off",
                                        NULL};
    int choice = choose(names, is_off(text) ? "off" : text, err);

    if (choice < 0)
        return -1;
    config->preemption = (enum config_preemption)choice;
    return 0;
}

static int set_network(struct daemon_config *config, const char *text, struct err *err)
{
    static const char *const names[] = {[CONFIG_NETWORK_AUTO] = "auto",
                                        [CONFIG_NETWORK_BRIDGE] = "bridge",
                                        [CONFIG_NETWORK_SLIRP] = "slirp",
                                        [CONFIG_NETWORK_HOST] = "host",
                                        NULL};
    int choice = choose(names, text, err);

    if (choice < 0)
        return -1;
    config->network = (enum config_network)choice;
    return 0;
}

static int set_seconds(int64_t *member, const char *text, int64_t min, struct err *err)
{
    int64_t n;

    if (!str_to_int(str_from(text), &n) || n < min || n > CONFIG_SECONDS_MAX)
        return err_set(err, ERR_INVALID, "must be seconds, %lld to %d, not '%s'", (long long)min,
                       CONFIG_SECONDS_MAX, text);
    *member = n;
    return 0;
}

/* "FIRST-LAST" or "off". */
static int set_project_ids(struct daemon_config *config, const char *text, struct err *err)
{
    struct str rest = str_from(text), part;
    int64_t ids[2] = {0};
    size_t n = 0;

    config->project_off = is_off(text);
    if (config->project_off)
        return 0;
    while (n < 2 && str_split(&rest, '-', &part))
        if (!str_to_int(part, &ids[n++]))
            ids[0] = 0;
    if (n != 2 || rest.len || ids[0] < 1 || ids[1] < ids[0] || ids[1] > CONFIG_PROJECT_MAX)
        return err_set(err, ERR_INVALID, "must be off or FIRST-LAST, ids from 1 to %u, not '%s'",
                       (unsigned)CONFIG_PROJECT_MAX, text);
    config->project_first = (uint32_t)ids[0];
    config->project_last = (uint32_t)ids[1];
    return 0;
}

static int set_min_run(struct daemon_config *config, const char *text, struct err *err)
{
    return set_seconds(&config->min_run_sec, text, 0, err);
}

static int set_stop_wait(struct daemon_config *config, const char *text, struct err *err)
{
    return set_seconds(&config->stop_wait_sec, text, 1, err);
}

static int set_start_wait(struct daemon_config *config, const char *text, struct err *err)
{
    return set_seconds(&config->start_wait_sec, text, 1, err);
}

static int set_stuck_wait(struct daemon_config *config, const char *text, struct err *err)
{
    return set_seconds(&config->stuck_wait_sec, text, 1, err);
}

static int set_claim_notice(struct daemon_config *config, const char *text, struct err *err)
{
    return set_seconds(&config->claim_notice_sec, text, 1, err);
}

static int set_displace_pods(struct daemon_config *config, const char *text, struct err *err)
{
    return set_bool(&config->displace_pods, text, err);
}

static int set_half_life(struct daemon_config *config, const char *text, struct err *err)
{
    int64_t hours;

    if (!str_to_int(str_from(text), &hours) || hours < 1 || hours > CONFIG_HALF_LIFE_MAX)
        return err_set(err, ERR_INVALID, "must be hours, 1 to %d, not '%s'", CONFIG_HALF_LIFE_MAX, text);
    config->half_life_hours = (double)hours;
    return 0;
}

/* ---- the table ---- */

static int set_backup_dir(struct daemon_config *config, const char *text, struct err *err)
{
    return set_path(&config->backup_dir, text, err);
}

static int set_backup_hours(struct daemon_config *config, const char *text, struct err *err)
{
    int64_t n = 0;

    if (!is_off(text) && (!str_to_int(str_from(text), &n) || n < 1 || n > CONFIG_BACKUP_HOURS_MAX))
        return err_set(err, ERR_INVALID, "must be hours, 1 to %d, or off, not '%s'", CONFIG_BACKUP_HOURS_MAX,
                       text);
    config->backup_hours = n;
    return 0;
}

static int set_backup_keep(struct daemon_config *config, const char *text, struct err *err)
{
    int64_t n;

    if (!str_to_int(str_from(text), &n) || n < 1 || n > CONFIG_LIST_MAX)
        return err_set(err, ERR_INVALID, "must be a number, 1 to %d, not '%s'", CONFIG_LIST_MAX, text);
    config->backup_keep = (int)n;
    return 0;
}

static int set_metrics_users(struct daemon_config *config, const char *text, struct err *err)
{
    return set_bool(&config->metrics_users, text, err);
}

static const struct row rows[] = {
    {"data", "data", "DIR", "where everything is kept", set_data, SCALAR},
    {"http", "http", "ADDR|off", "plain HTTP: page, REST (" CONFIG_HTTP_DEFAULT ")", set_http, SCALAR},
    {"http-insecure", "httpInsecure", NULL, "let plain HTTP leave this machine", set_http_insecure, SCALAR},
    {"https", "https", "ADDR|off", "HTTPS: kubectl, page, REST (" CONFIG_HTTPS_DEFAULT ")", set_https,
     SCALAR},
    {"socket", "socket", "PATH", "unix socket, identity is the caller's uid", set_socket, SCALAR},
    {"gpus", "gpus", "N|NxMIB,...", "declare GPUs: 4x24576 is four cards of 24576 MiB", set_gpus, LIST},
    {"agent", "agent", "auto|on|off", "run pods on this machine (auto: as root, where it can)", set_agent,
     SCALAR},
    {"oci-runtime", "ociRuntime", "NAME|PATH", "what starts containers (crun, else runc)", set_oci_runtime,
     SCALAR},
    {"quick-cgroups", "quickCgroups", "true|false",
     "have this machine favour changes of cgroups: containers start sooner (true)", set_quick_cgroups,
     SCALAR},
    {"registries", "registries", "HOST=OPT,...", "registries: insecure, ca:/FILE, mirror:HOST",
     config_set_registries, LIST_OR_MAP},
    {"push-to", "pushTo", "HOST[/PATH]", "where berth submit pushes images (nowhere)", config_set_push_to,
     SCALAR},
    {"image-days", "imageDays", "N|off", "images unused for so long go (30)", config_set_image_days, SCALAR},
    {"image-stall", "imageStall", "SECONDS", "a pull without progress fails (60)", config_set_image_stall,
     SCALAR},
    {"image-disk", "imageDisk", "PERCENT|off", "unused images go when the disk is fuller (85)",
     config_set_image_disk, SCALAR},
    {"network", "network", "auto|bridge|slirp|host", "how pods reach the network (auto: the best that works)",
     set_network, SCALAR},
    {"project-ids", "projectIds", "FIRST-LAST|off", "project quotas that limit claims (2000000-2065535)",
     set_project_ids, SCALAR},
    {"node-labels", "nodeLabels", "K=V,...", "labels of this machine's Node", set_labels, LIST_OR_MAP},
    {"node-name", "nodeName", "NAME", "name of this machine's Node (the host name)", set_node_name, SCALAR},
    {"extra-names", "extraNames", "NAME,...", "more names and addresses for the certificate", set_extra_names,
     LIST},
    {"admins", "admins", "USER,...", "users who may do everything", set_admins, LIST},
    {"user-quota", "userQuota", "RESOURCE=N,...|off", "limits of new users' namespaces (docs/users.md)",
     config_set_user_quota, LIST_OR_MAP},
    {"user-tokens", "userTokens", "N", "tokens that one user may have (100)", config_set_user_tokens, SCALAR},
    {"namespace-size", "namespaceSize", "MIB", "of the objects of one namespace together (64)",
     config_set_space_mib, SCALAR},
    {"audit", "audit", "changes|all|off", "what is written down of who did what (changes)", config_set_audit,
     SCALAR},
    {"audit-log", "auditLog", "FILE", "where (DATA/audit.log)", config_set_audit_log, SCALAR},
    {"audit-size", "auditSize", "MIB", "at that size the file is put aside (10)", config_set_audit_size,
     SCALAR},
    {"audit-files", "auditFiles", "N", "so many are kept, the one that is written included (5)",
     config_set_audit_files, SCALAR},
    {"anonymous", "anonymous", "none|queue|loopback",
     "who may read the queue without a name: nobody, everybody, callers on this machine (loopback)",
     set_anonymous, SCALAR},
    {"metrics-users", "metricsUsers", "BOOL", "tell users' names in /metrics (false)", set_metrics_users,
     SCALAR},
    {"path-prefix", "pathPrefix", "PATH", "serve everything below this path, too: /berth", set_path_prefix,
     SCALAR},
    {"policy", "policy", "NAME", "order of the queue: fair, fifo, srtf, las, pressure, berth (fair)",
     set_policy, SCALAR},
    {"preemption", "preemption", "auto|ask|off", "who may displace running jobs (auto)", set_preemption,
     SCALAR},
    {"min-run", "minRun", "SECONDS", "jobs are left alone so long after their start (120)", set_min_run,
     SCALAR},
    {"stop-wait", "stopWait", "SECONDS",
     "how long, at least, a training job may take to its epoch's end (60)", set_stop_wait, SCALAR},
    {"start-wait", "startWait", "SECONDS",
     "a job on GPUs that starts without progress gives them back after that (1800)", set_start_wait, SCALAR},
    {"stuck-wait", "stuckWait", "SECONDS",
     "likewise a job that its node cannot start, say for want of its image (120)", set_stuck_wait, SCALAR},
    {"claim-notice", "claimNotice", "SECONDS",
     "time between the notice to a pod's owner and its stop for a claim (300)", set_claim_notice, SCALAR},
    {"displace-pods", "displacePods", "BOOL",
     "displace pods that nothing starts again without a claim, too (false)", set_displace_pods, SCALAR},
    {"usage-half-life", "usageHalfLife", "HOURS", "how fast used GPU time is forgotten (168)", set_half_life,
     SCALAR},
    {"callback-allow", "callbackAllow", "NET,...",
     "networks callbacks may go to beside public ones: private, loopback, all, 10.1.0.0/16",
     set_callback_allow, LIST},
    {"callback-ca", "callbackCa", "FILE", "authorities for callbacks over HTTPS (the system's)",
     set_callback_ca, SCALAR},
    {"notify-sendmail", "notifySendmail", "PATH|off", "program that sends mail (/usr/sbin/sendmail)",
     config_set_notify_sendmail, SCALAR},
    {"notify-from", "notifyFrom", "ADDRESS", "From address of mails (berth@HOST)", config_set_notify_from,
     SCALAR},
    {"notify-domain", "notifyDomain", "DOMAIN|off", "users without settings get mail at USER@DOMAIN (off)",
     config_set_notify_domain, SCALAR},
    {"notify-kinds", "notifyKinds", "KIND,...|all", "kinds sent by default (all but succeeded and resized)",
     config_set_notify_kinds, LIST},
    {"notify-commands", "notifyCommands", "true|false", "users may set a command to run (false)",
     config_set_notify_commands, SCALAR},
    {"backup-dir", "backupDir", "DIR", "where backups go (DATA/backups)", set_backup_dir, SCALAR},
    {"backup-hours", "backupHours", "N|off", "hours between two backups (24)", set_backup_hours, SCALAR},
    {"backup-keep", "backupKeep", "N", "so many of them are kept (7)", set_backup_keep, SCALAR},
    {"finished-days", "finishedDays", "N|off", "finished work leaves the store after so many days (7)",
     config_set_finished_days, SCALAR},
    {"finished-count", "finishedCount", "N|off", "so much finished work of a namespace stays (200)",
     config_set_finished_count, SCALAR},
    {"finished-size", "finishedSize", "MIB|off", "of all finished work together (8)",
     config_set_finished_size, SCALAR},
    {"history-days", "historyDays", "N|off", "records of the history go after so many days (730)",
     config_set_history_days, SCALAR},
    {"history-size", "historySize", "MIB|off", "past that size of the database the oldest go (2048)",
     config_set_history_size, SCALAR},
    {"log-days", "logDays", "N|off", "logs of finished work go after so many days (90)", config_set_log_days,
     SCALAR},
    {"log-size", "logSize", "MIB|off", "past that size of all the oldest go (4096)", config_set_log_size,
     SCALAR},
    {"idle-warn", "idleWarn", "HOURS|off", "owners of GPUs that are not used for so long are told (4)",
     config_set_idle_warn, SCALAR},
    {"idle-stop", "idleStop", "HOURS|off", "work that uses its GPUs not for so long is cancelled (off)",
     config_set_idle_stop, SCALAR},
    {"claim-warn", "claimWarn", "DAYS|off", "owners of claims that are not used for so long are told (90)",
     config_set_claim_warn, SCALAR},
    {"claim-delete", "claimDelete", "DAYS|off", "claims that are not used for so long are deleted (off)",
     config_set_claim_delete, SCALAR},
    {"event-minutes", "eventMinutes", "N|off", "events go after so many minutes (60)",
     config_set_event_minutes, SCALAR},
    {"log-level", "logLevel", "LEVEL", "error, warn, info or debug (info)", set_log_level, SCALAR},
};
#define ROW_DATA   0
#define FLAG_FIRST 256 /* what getopt returns for the first: past the characters that it returns itself */

enum {
    OPT_CONFIG = ARRAY_LEN(rows),
    OPT_CHECK,
    OPT_PRINT,
    OPT_ACCEPT_LOSS,
    OPT_RESTORE,
    OPT_VERSION,
    OPT_HELP,
    OPT_COUNT
};

void config_usage(FILE *out)
{
    fputs("Usage: berthd [OPTIONS]\n"
          "\n"
          "The Berth daemon: serves the Kubernetes API, the REST API and the page from one data folder.\n"
          "\n"
          "Options (each can stand in the config file, too; flags win):\n",
          out);
    for (const struct row *row = rows; row < rows + ARRAY_LEN(rows); row++)
        fprintf(out, "  --%-13s %-12s %s\n", row->flag, row->arg ? row->arg : "", row->help);
    fputs("  --config        FILE         config file, YAML (" CONFIG_SYSTEM_FILE " or DATA/berthd.yaml)\n"
          "  --check-config               read the configuration, say whether it is valid, and exit\n"
          "  --print-config               print a config file with every key, commented out, and exit\n"
          "  --accept-loss                start although stored data is damaged or missing; what is left is "
          "used\n"
          "  --restore       FILE         put a backup into the data folder, and exit ('berth restore')\n"
          "  --version                    print the version\n"
          "  --help                       print this\n"
          "\n"
          "Documentation: man berthd, docs/configuration.md\n",
          out);
}

void config_print(FILE *out)
{
    fputs("# Configuration of berthd: every setting there is, with its default in brackets (man berthd).\n"
          "# Take the # away from what you set. Whether it is valid:  berthd --check-config\n"
          "# Then:  systemctl restart berthd  (jobs go on)\n",
          out);
    for (const struct row *row = rows; row < rows + ARRAY_LEN(rows); row++)
        fprintf(out, "\n# %s\n#%s: %s\n", row->help, row->key, row->arg ? row->arg : "true|false");
}

/* Single-letter changes that make b of a (Levenshtein). */
static size_t distance(const char *a, const char *b)
{
    size_t row[64], len = strlen(b);

    if (len >= ARRAY_LEN(row))
        return SIZE_MAX;
    for (size_t j = 0; j <= len; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];

        row[0] = i + 1;
        for (size_t j = 1; j <= len; j++) {
            size_t best = diagonal + (tolower((unsigned char)a[i]) != tolower((unsigned char)b[j - 1]));

            diagonal = row[j];
            best = best < row[j] + 1 ? best : row[j] + 1;
            row[j] = best < row[j - 1] + 1 ? best : row[j - 1] + 1;
        }
    }
    return row[len];
}

/* The flag (or key) nearest to text, or NULL when none is near. */
static const char *nearest(const char *text, bool flags)
{
    const char *best = NULL;
    size_t best_distance = strlen(text) / 3 + 2;

    for (const struct row *row = rows; row < rows + ARRAY_LEN(rows); row++) {
        const char *name = flags ? row->flag : row->key;
        size_t d = distance(text, name);

        if (d < best_distance) {
            best = name;
            best_distance = d;
        }
    }
    return best;
}

/* ---- flags ---- */

/* One value per row (NULL: not given) and of OPT_CONFIG; borrowed from argv. */
struct flags {
    const char *value[OPT_COUNT];
    enum config_action action;
};

static int bad_flag(const char *arg, int code, struct err *err)
{
    const char *name = arg ? arg + strspn(arg, "-") : "", *near;
    char word[64];

    snprintf(word, sizeof(word), "%.*s", (int)strcspn(name, "="), name);
    near = nearest(word, true);
    if (code == ':')
        return err_set(err, ERR_INVALID, "%s needs a value", arg);
    if (near && !streq(near, word))
        return err_set(err, ERR_INVALID, "unknown option '%s': did you mean --%s?", arg, near);
    return err_set(err, ERR_INVALID, "unknown option '%s': see berthd --help", arg);
}

static int read_flags(int argc, char **argv, struct flags *ret, struct err *err)
{
    struct option options[OPT_COUNT + 1] = {
        [OPT_CONFIG] = {"config", required_argument, NULL, 0},
        [OPT_CHECK] = {"check-config", no_argument, NULL, 0},
        [OPT_PRINT] = {"print-config", no_argument, NULL, 0},
        [OPT_ACCEPT_LOSS] = {"accept-loss", no_argument, NULL, 0},
        [OPT_RESTORE] = {"restore", required_argument, NULL, 0},
        [OPT_VERSION] = {"version", no_argument, NULL, 0},
        [OPT_HELP] = {"help", no_argument, NULL, 0},
    };
    int opt;

    for (int i = 0; i < (int)ARRAY_LEN(rows); i++)
        options[i] = (struct option){rows[i].flag, rows[i].arg ? required_argument : no_argument, NULL, 0};
    for (int i = 0; i < OPT_COUNT; i++)
        options[i].val = FLAG_FIRST + i;
    optind = 0; /* GNU: start afresh, also after an earlier parse */
    opterr = 0;
    while ((opt = getopt_long(argc, argv, "+:h", options, NULL)) != -1) {
        if (opt == '?' || opt == ':')
            return bad_flag(argv[optind - 1], opt, err);
        if (opt == FLAG_FIRST + OPT_VERSION || opt == FLAG_FIRST + OPT_HELP || opt == 'h') {
            ret->action = opt == FLAG_FIRST + OPT_VERSION ? CONFIG_VERSION : CONFIG_HELP;
            return 0;
        }
        if (opt == FLAG_FIRST + OPT_PRINT) {
            ret->action = CONFIG_PRINT;
            return 0;
        }
        ret->value[opt - FLAG_FIRST] = optarg ? optarg : "on";
    }
    if (optind < argc)
        return err_set(err, ERR_INVALID, "unexpected argument '%s': see berthd --help", argv[optind]);
    return 0;
}

static int apply_flags(const struct flags *flags, struct daemon_config *config, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (flags->value[i] && rows[i].set(config, flags->value[i], err) < 0)
            return err_prefix(err, "--%s", rows[i].flag);
    return 0;
}

/* ---- the file ---- */

static int add_scalar(struct buf *text, const struct json *value, bool in_list, struct err *err)
{
    struct str s = json_str(value);

    if (json_is(value, JSON_BOOL))
        buf_puts(text, json_bool(value) ? "on" : "off");
    else if (json_is(value, JSON_INT))
        buf_int(text, json_int(value, 0));
    else if (!s.s)
        return err_set(err, ERR_INVALID, "must be text, not %s", json_type_name(value));
    else if (memchr(s.s, '\0', s.len) || (in_list && memchr(s.s, ',', s.len)))
        return err_set(err, ERR_INVALID, "has an entry with a comma in it");
    else
        buf_str(text, s);
    return 0;
}

/* The text a flag would have for this value. */
static int value_text(const struct row *row, const struct json *value, struct buf *text, struct err *err)
{
    buf_puts(text, "");
    if (row->shape == LIST_OR_MAP && json_is(value, JSON_OBJECT)) {
        JSON_EACH_MEMBER(value, it) {
            buf_printf(text, "%s%s=", text->len ? "," : "", it->key);
            if (add_scalar(text, &it->value, true, err) < 0)
                return -1;
        }
        return 0;
    }
    if (row->shape == SCALAR || !json_is(value, JSON_ARRAY))
        return add_scalar(text, value, false, err);
    JSON_EACH(value, it) {
        if (text->len)
            buf_putc(text, ',');
        if (add_scalar(text, it, true, err) < 0)
            return -1;
    }
    return 0;
}

static int apply_member(const struct json_member *member, struct daemon_config *config, struct err *err)
{
    CLEANUP(buf_done) struct buf text = {0};
    const char *near = nearest(member->key, false);

    for (const struct row *row = rows; row < rows + ARRAY_LEN(rows); row++) {
        if (!streq(row->key, member->key))
            continue;
        if (value_text(row, &member->value, &text, err) < 0 || row->set(config, text.data, err) < 0)
            return err_prefix(err, "%s", row->key);
        return 0;
    }
    if (near)
        return err_set(err, ERR_INVALID, "unknown key '%s': did you mean '%s'?", member->key, near);
    return err_set(err, ERR_INVALID, "unknown key '%s'", member->key);
}

static int apply_file(const char *path, struct daemon_config *config, struct err *err)
{
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *docs, *doc;

    if (file_read(path, CONFIG_FILE_MAX, &text, err) < 0)
        return -1;
    if (yaml_parse(buf_view(&text), &arena, &docs, NULL, err) < 0)
        return err_prefix(err, "%s", path);
    doc = json_item(docs, 0);
    if (json_len(docs) > 1 || (doc && !json_is(doc, JSON_OBJECT) && !json_is(doc, JSON_NULL)))
        return err_set(err, ERR_INVALID, "%s: must be one mapping of settings", path);
    JSON_EACH_MEMBER(doc, it)
        if (apply_member(it, config, err) < 0)
            return err_prefix(err, "%s", path);
    config->file = mem_strdup(path);
    return 0;
}

static int apply_default_file(const struct config_env *env, const struct flags *flags,
                              struct daemon_config *config, struct err *err)
{
    CLEANUP(free) char *beside = mem_printf("%s/berthd.yaml", config->data_dir);

    if (env->uid == 0 && !flags->value[ROW_DATA] && access(env->system_file, F_OK) == 0)
        return apply_file(env->system_file, config, err);
    if (access(beside, F_OK) == 0)
        return apply_file(beside, config, err);
    return 0;
}

/* ---- the whole ---- */

struct config_env config_env_real(void)
{
    static char host[HOST_NAME_MAX + 1];

    if (gethostname(host, sizeof(host) - 1) < 0)
        host[0] = '\0';
    return (struct config_env){.uid = geteuid(),
                               .home = getenv("HOME"),
                               .xdg_data_home = getenv("XDG_DATA_HOME"),
                               .host_name = host,
                               .system_file = CONFIG_SYSTEM_FILE};
}

/* A host name as a Node may be called: lower case, '-' for what is not allowed. */
static char *node_name_from(const char *host)
{
    char *name = mem_strdup(host && host[0] ? host : "localhost");
    size_t len = strlen(name);

    for (char *p = name; *p; p++)
        *p = isalnum((unsigned char)*p) || *p == '.' ? (char)tolower((unsigned char)*p) : '-';
    while (len > 1 && !isalnum((unsigned char)name[len - 1]))
        name[--len] = '\0';
    if (!isalnum((unsigned char)name[0]))
        name[0] = 'n';
    return name;
}

static void set_defaults(const struct config_env *env, struct daemon_config *config)
{
    config->http = mem_strdup(CONFIG_HTTP_DEFAULT);
    config->https = mem_strdup(CONFIG_HTTPS_DEFAULT);
    config->log_level = LOG_LEVEL_INFO;
    config->anonymous = ANONYMOUS_LOOPBACK;
    config->backup_hours = CONFIG_BACKUP_HOURS;
    config->backup_keep = CONFIG_BACKUP_KEEP;
    config_upkeep_defaults(config);
    if (env->uid == 0)
        config->data_dir = mem_strdup(ROOT_DATA_DIR);
    else if (env->xdg_data_home && env->xdg_data_home[0] == '/')
        config->data_dir = mem_printf("%s/berth", env->xdg_data_home);
    else if (env->home && env->home[0] == '/')
        config->data_dir = mem_printf("%s/.local/share/berth", env->home);
}

/* What follows from other settings, and what must fit together. */
static int finish(const struct config_env *env, struct daemon_config *config, struct err *err)
{
    if (!config->socket)
        config->socket = env->uid == 0 && streq(config->data_dir, ROOT_DATA_DIR)
                             ? mem_strdup(ROOT_SOCKET)
                             : mem_printf("%s/berth.sock", config->data_dir);
    if (strlen(config->socket) >= sizeof(((struct sockaddr_un *)0)->sun_path))
        return err_set(err, ERR_INVALID, "the socket path '%s' is too long: give a shorter one with --socket",
                       config->socket);
    if (!config->user_quota_set && config_set_user_quota(config, CONFIG_USER_QUOTA, err) < 0)
        return -1;
    if (!config->user_tokens)
        config->user_tokens = CONFIG_USER_TOKENS;
    if (!config->space_mib)
        config->space_mib = CONFIG_SPACE_MIB;
    if (!config->node_name)
        config->node_name = node_name_from(env->host_name);
    if (config->upkeep.claim_delete_sec &&
        (!config->upkeep.claim_warn_sec || config->upkeep.claim_delete_sec <= config->upkeep.claim_warn_sec))
        return err_set(err, ERR_INVALID,
                       "claimDelete must be more than claimWarn: owners are told before their data goes");
    if (config->http && !is_loopback(config->http) && !config->http_insecure)
        return err_set(
            err, ERR_INVALID,
            "--http %s would offer plain HTTP to other machines: use --https, or say --http-insecure",
            config->http);
    return 0;
}

static int load(const struct config_env *env, const struct flags *flags, struct daemon_config *config,
                struct err *err)
{
    const char *data = flags->value[ROW_DATA], *file = flags->value[OPT_CONFIG];

    set_defaults(env, config);
    if (data && set_data(config, data, err) < 0) /* early: the file may lie there */
        return err_prefix(err, "--data");
    if (file ? apply_file(file, config, err) < 0
             : config->data_dir && apply_default_file(env, flags, config, err) < 0)
        return -1;
    if (apply_flags(flags, config, err) < 0)
        return -1;
    if (!config->data_dir)
        return err_set(err, ERR_INVALID, "no data folder: set HOME or give --data");
    return finish(env, config, err);
}

int config_load(const struct config_env *env, int argc, char **argv, struct daemon_config *ret,
                struct err *err)
{
    struct daemon_config config = {.action = CONFIG_RUN, .min_run_sec = -1};
    struct flags flags = {.action = CONFIG_RUN};
    bool loads;

    if (read_flags(argc, argv, &flags, err) < 0)
        return -1;
    config.action = flags.action == CONFIG_RUN && flags.value[OPT_CHECK] ? CONFIG_CHECK : flags.action;
    config.accept_loss = flags.value[OPT_ACCEPT_LOSS];
    if (flags.value[OPT_RESTORE]) {
        config.action = config.action == CONFIG_RUN ? CONFIG_RESTORE : config.action;
        config.restore = mem_strdup(flags.value[OPT_RESTORE]);
    }
    loads = config.action != CONFIG_HELP && config.action != CONFIG_VERSION;
    if (loads && load(env, &flags, &config, err) < 0) {
        config_done(&config);
        return -1;
    }
    *ret = config;
    return 0;
}

void config_done(struct daemon_config *config)
{
    clear_labels(config);
    CLEAR_STRINGS(&config->extra_names);
    CLEAR_STRINGS(&config->admins);
    CLEAR_STRINGS(&config->callback_allow);
    vec_done(&config->gpus);
    vec_done(&config->node_labels);
    vec_done(&config->extra_names);
    vec_done(&config->admins);
    vec_done(&config->callback_allow);
    free(config->callback_ca);
    free(config->backup_dir);
    free(config->restore);
    free(config->file);
    free(config->data_dir);
    free(config->http);
    free(config->https);
    free(config->socket);
    config_images_done(config);
    config_users_done(config);
    config_notify_done(config);
    free(config->node_name);
    free(config->path_prefix);
    free(config->policy);
    free(config->oci_runtime);
    *config = (struct daemon_config){.action = CONFIG_RUN};
}
