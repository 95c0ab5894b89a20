/* The whole of who may do what, in two tables: kinds of objects (the Kubernetes API), and paths (all else).
 * A path that has no row here is not served, so nothing can be reached that was not thought of;
 * tests/e2e/test_matrix.py asks every row as everybody, and holds the answers against
 * tests/e2e/access_matrix.txt. */
#include "registry/access_table.h"

#define READ (VERB_GET | VERB_LIST | VERB_WATCH)

const struct access_grant access_grants[] = {
    {KIND_POD, VERBS_STORED, 0},
    {KIND_JOB, VERBS_STORED, 0},
    {KIND_TRAINING_JOB, VERBS_STORED, 0},
    {KIND_TASK_DEFINITION, VERBS_STORED, 0},
    {KIND_TASK, READ | VERB_DELETE | VERB_DELETE_COLLECTION, 0},
    {KIND_CONFIG_MAP, VERBS_STORED, 0},
    {KIND_SECRET, VERBS_STORED, 0},
    {KIND_PVC, VERBS_STORED, 0},
    {KIND_SERVICE, VERBS_STORED, 0},
    {KIND_ENDPOINTS, VERBS_STORED, 0},
    {KIND_ENDPOINT_SLICE, VERBS_STORED, 0},
    {KIND_EVENT, READ, 0},
    {KIND_RESOURCE_QUOTA, READ, 0},
    {KIND_LIMIT_RANGE, READ, 0},
    {KIND_SERVICE_ACCOUNT, READ, 0},
    {KIND_LEASE, READ, 0},
    {KIND_POD_METRICS, READ, 0},
    {KIND_NAMESPACE, READ, READ},
    {KIND_NODE, READ, READ},
    {KIND_PRIORITY_CLASS, READ, READ},
    {KIND_STORAGE_CLASS, READ, READ},
    {KIND_PV, READ, READ},
    {KIND_TASK_TEMPLATE, READ, READ},
    {KIND_NODE_METRICS, READ, READ},
    {KIND_SELF_SUBJECT_ACCESS_REVIEW, VERB_CREATE, VERB_CREATE},
    {KIND_SELF_SUBJECT_RULES_REVIEW, VERB_CREATE, VERB_CREATE},
    {KIND_SELF_SUBJECT_REVIEW, VERB_CREATE, VERB_CREATE},
};
const size_t access_grant_count = ARRAY_LEN(access_grants);

const struct access_path access_paths[] = {
    {"GET", "/healthz", ACCESS_ANY},
    {"GET", "/livez", ACCESS_ANY},
    {"GET", "/readyz", ACCESS_ANY},
    {"GET", "/version", ACCESS_ANY},
    /* the Kubernetes API: what is no object */
    {"GET", "/api/state", ACCESS_VIEW},
    {"GET", "/api", ACCESS_KNOWN},
    {"GET", "/api/...", ACCESS_KNOWN},
    {"GET", "/apis", ACCESS_KNOWN},
    {"GET", "/apis/...", ACCESS_KNOWN},
    {"GET", "/openapi", ACCESS_KNOWN},
    {"GET", "/openapi/...", ACCESS_KNOWN},
    /* the page */
    {"GET", "/", ACCESS_ANY},
    {"GET", "/index.html", ACCESS_ANY},
    {"GET", "/favicon.ico", ACCESS_ANY},
    {"GET", "/assets/...", ACCESS_ANY},
    {"GET", "/v1/page/session", ACCESS_ANY},
    {"POST", "/v1/page/session", ACCESS_ANY},
    {"DELETE", "/v1/page/session", ACCESS_ANY},
    {"POST", "/v1/page/links", ACCESS_KNOWN},
    {"GET", "/v1/train/options", ACCESS_VIEW},
    /* about the server, users and credentials */
    {"GET", "/v1/openapi.json", ACCESS_ANY},
    {"GET", "/v1/status", ACCESS_KNOWN},
    {"GET", "/metrics", ACCESS_VIEW},
    {"GET", "/v1/access", ACCESS_KNOWN},
    {"GET", "/v1/backup", ACCESS_ADMIN},
    {"POST", "/v1/prune", ACCESS_ADMIN},
    {"GET", "/v1/users", ACCESS_ADMIN},
    {"POST", "/v1/users", ACCESS_ADMIN},
    {"GET", "/v1/users/*", ACCESS_ADMIN},
    {"PATCH", "/v1/users/*", ACCESS_ADMIN},
    {"DELETE", "/v1/users/*", ACCESS_ADMIN},
    {"GET", "/v1/tokens", ACCESS_KNOWN},
    {"POST", "/v1/tokens", ACCESS_KNOWN},
    {"DELETE", "/v1/tokens/*", ACCESS_KNOWN},
    {"POST", "/v1/kubeconfig", ACCESS_KNOWN},
    {"GET", "/v1/certificates", ACCESS_KNOWN},
    {"POST", "/v1/certificates/*/renew", ACCESS_KNOWN},
    {"DELETE", "/v1/certificates/*", ACCESS_KNOWN},
    /* work; whose it is decides as well */
    {"POST", "/v1/apply", ACCESS_USER},
    {"POST", "/v1/train", ACCESS_USER},
    {"POST", "/submit", ACCESS_USER},
    {"GET", "/v1/task-templates", ACCESS_KNOWN},
    {"POST", "/v1/task-templates", ACCESS_ADMIN},
    {"GET", "/v1/task-templates/*", ACCESS_KNOWN},
    {"PUT", "/v1/task-templates/*", ACCESS_ADMIN},
    {"DELETE", "/v1/task-templates/*", ACCESS_ADMIN},
    {"GET", "/v1/task-definitions", ACCESS_KNOWN},
    {"POST", "/v1/task-definitions", ACCESS_USER},
    {"GET", "/v1/task-definitions/**/schema", ACCESS_KNOWN},
    {"GET", "/v1/task-definitions/**", ACCESS_KNOWN},
    {"PUT", "/v1/task-definitions/**", ACCESS_USER},
    {"DELETE", "/v1/task-definitions/**", ACCESS_USER},
    {"GET", "/v1/jobs", ACCESS_KNOWN},
    {"POST", "/v1/jobs", ACCESS_USER},
    {"GET", "/v1/jobs/**/logs", ACCESS_KNOWN},
    {"POST", "/v1/jobs/**/rerun", ACCESS_USER},
    {"GET", "/v1/jobs/**", ACCESS_KNOWN},
    {"DELETE", "/v1/jobs/**", ACCESS_USER},
    {"POST", "/v1/render", ACCESS_KNOWN},
    {"GET", "/v1/queue", ACCESS_VIEW},
    {"GET", "/v1/queue/stream", ACCESS_VIEW},
    {"GET", "/v1/queue/**/why", ACCESS_VIEW},
    {"GET", "/v1/queue/**/logs", ACCESS_KNOWN},
    {"POST", "/v1/queue/**/cancel", ACCESS_USER},
    {"POST", "/v1/queue/**/priority", ACCESS_USER},
    {"POST", "/v1/queue/**/claim", ACCESS_USER},
    {"POST", "/v1/queue/**/rerun", ACCESS_USER},
    {"GET", "/v1/queue/**", ACCESS_VIEW},
    {"GET", "/v1/nodes", ACCESS_VIEW},
    {"GET", "/v1/nodes/timeline", ACCESS_VIEW},
    {"GET", "/v1/history", ACCESS_VIEW},
    {"GET", "/v1/usage", ACCESS_VIEW},
    {"GET", "/describe/**", ACCESS_KNOWN},
    /* one's own inbox, and where it is sent: a command runs as its user */
    {"GET", "/v1/inbox", ACCESS_KNOWN},
    {"POST", "/v1/inbox/seen", ACCESS_KNOWN},
    {"GET", "/v1/notify", ACCESS_KNOWN},
    {"PUT", "/v1/notify", ACCESS_USER},
    {"POST", "/v1/notify/test", ACCESS_USER},
    /* the machine */
    {"GET", "/v1/images", ACCESS_KNOWN},
    {"DELETE", "/v1/images", ACCESS_USER},
    {"POST", "/v1/images/pull", ACCESS_USER},
    {"POST", "/v1/images/gc", ACCESS_ADMIN},
    {"GET", "/v1/images/import", ACCESS_USER},
    {"GET", "/v1/logins", ACCESS_KNOWN},
    {"POST", "/v1/logins", ACCESS_USER},
    {"DELETE", "/v1/logins", ACCESS_USER},
    {"GET", "/v1/files", ACCESS_USER},
    /* the training library: the job's token or pod, or who may change the job */
    {"GET", "/has_to_stop/*", ACCESS_JOB},
    {"POST", "/profiling/*", ACCESS_JOB},
    {"POST", "/end_epoch/*", ACCESS_JOB},
    {"POST", "/signal_end/*", ACCESS_JOB},
    {"POST", "/signal_end_profiling/**", ACCESS_JOB},
    {"POST", "/v1/train/*/log", ACCESS_JOB},
};
const size_t access_path_count = ARRAY_LEN(access_paths);

const char *access_who_name(enum access_who who)
{
    static const char *const names[] = {
        [ACCESS_ANY] = "anybody",  [ACCESS_VIEW] = "viewer or, by setting, anybody",
        [ACCESS_KNOWN] = "viewer", [ACCESS_USER] = "user",
        [ACCESS_ADMIN] = "admin",  [ACCESS_JOB] = "job",
    };

    return names[who];
}

/* The text before the rest of the pattern, with fewer slashes than that many segments. */
static bool match_star(const char *path, size_t segments, const char *rest, struct str *id)
{
    size_t path_len = strlen(path), rest_len = strlen(rest), len, slashes = 0;

    if (path_len <= rest_len || !streq(path + path_len - rest_len, rest))
        return false;
    len = path_len - rest_len;
    for (size_t i = 0; i < len; i++)
        slashes += path[i] == '/';
    *id = (struct str){path, len};
    return slashes < segments && path[0] != '/' && path[len - 1] != '/';
}

bool access_pattern(const char *pattern, const char *path, struct str *id)
{
    const char *star = strchr(pattern, '*');
    size_t len = star ? (size_t)(star - pattern) : strlen(pattern);

    *id = STR("");
    if (!star && len > 4 && streq(pattern + len - 4, "/..."))
        return strncmp(pattern, path, len - 3) == 0;
    if (!star)
        return streq(pattern, path);
    if (strncmp(pattern, path, len) != 0)
        return false;
    return star[1] == '*' ? match_star(path + len, 2, star + 2, id) : match_star(path + len, 1, star + 1, id);
}

const struct access_path *access_path_find(const char *method, const char *path, bool *known)
{
    struct str id;

    *known = false;
    method = strcasecmp(method, "HEAD") == 0 ? "GET" : method;
    for (size_t i = 0; i < access_path_count; i++) {
        if (!access_pattern(access_paths[i].path, path, &id))
            continue;
        *known = true;
        if (strcasecmp(access_paths[i].method, method) == 0)
            return &access_paths[i];
    }
    return NULL;
}

void access_path_methods(const char *path, struct buf *ret)
{
    struct str id;

    for (size_t i = 0; i < access_path_count; i++)
        if (access_pattern(access_paths[i].path, path, &id))
            buf_printf(ret, "%s%s", ret->len ? ", " : "",
                       streq(access_paths[i].method, "GET") ? "GET, HEAD" : access_paths[i].method);
}
