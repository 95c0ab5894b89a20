/* rest - Berth's own addresses under /v1, by a table. */
#pragma once

#include "api/call.h"

bool rest_handle(struct call *call);        /* true when the path is one of ours */
void rest_end_streams(struct api *api);     /* of the queue */
size_t rest_streams(const struct api *api); /* of the queue that are open */
/* {"error", "code", "requestId", "details"} */
struct json *rest_failure(const struct call *call, const struct failure *failure);
void rest_fail(struct call *call);         /* call->failure as that */
void rest_not_allowed(struct call *call);  /* 405, with what is allowed */
bool rest_serves(const struct call *call); /* the path is below /v1 */
void rest_not_found(struct call *call);    /* there is nothing at this path */
void rest_fail_err(struct call *call, const struct err *err);
/* As call_reply_json, for nobody's cache. */
void rest_reply(struct call *call, int status, const struct json *doc);

/* prune.c */
void rest_prune(struct call *call, const char *id);
/* apply.c */
void rest_backup(struct call *call, const char *id);
void rest_apply(struct call *call, const char *id);
/* users.c */
void rest_users_list(struct call *call, const char *id);
void rest_users_add(struct call *call, const char *id);
void rest_users_show(struct call *call, const char *id);
void rest_users_change(struct call *call, const char *id);
void rest_users_remove(struct call *call, const char *id);
int rest_user_name(struct call *call, const char *name, const char **ret);      /* -1: 400 */
int rest_groups(struct call *call, const struct json *list, struct json **ret); /* -1: 400 */
/* credentials.c */
void rest_tokens_list(struct call *call, const char *id);
void rest_tokens_add(struct call *call, const char *id);
void rest_tokens_revoke(struct call *call, const char *id);
void rest_kubeconfig(struct call *call, const char *id);
void rest_certificates_list(struct call *call, const char *id);
void rest_certificates_renew(struct call *call, const char *id);
void rest_certificates_revoke(struct call *call, const char *id);
/* Makes a certificate and adds "kubeconfig" and "certificate" to the answer. family: the entry of the
 * certificate it renews; NULL: it is a new one. */
int rest_write_kubeconfig(struct call *call, const char *user, const struct json *groups, const char *ns,
                          const struct json *family, struct json *answer);

/* queue.c, queue_logs.c, queue_stream.c */
void rest_queue_list(struct call *call, const char *id);
void rest_queue_stream(struct call *call, const char *id);
void rest_queue_show(struct call *call, const char *id);
void rest_queue_why(struct call *call, const char *id);
void rest_queue_logs(struct call *call, const char *id);
void rest_queue_cancel(struct call *call, const char *id);
void rest_queue_priority(struct call *call, const char *id);
void rest_queue_claim(struct call *call, const char *id);
void rest_queue_rerun(struct call *call, const char *id);
void rest_old_state(struct call *call, const char *id);
void rest_old_describe(struct call *call, const char *id);
/* Goes on with fn when it is known which job an address names: at once where that is in memory, else when a
 * thread has looked into the record log. id: what was asked for; last: the last row of a job that is over, in
 * the call's arena; NULL: it is not, or has none. */
typedef void (*rest_job_fn)(struct call *call, const char *id, const char *uid, const struct json *last);
void rest_queue_with(struct call *call, const char *id, rest_job_fn fn);
/* Query "state" as a NULL-terminated list of known states; NULL: not given. */
int rest_states(struct call *call, const char *const **ret);
/* Adds to the answer of a dry run where the first of these objects that would queue would stand. */
void rest_queue_estimate(struct call *call, struct str yaml, const char *ns, struct json *answer);
/* nodes.c */
void rest_nodes(struct call *call, const char *id);
void rest_nodes_timeline(struct call *call, const char *id);
/* history.c */
void rest_history(struct call *call, const char *id);
void rest_usage(struct call *call, const char *id);
/* A time of the query in milliseconds since 1970; fallback when absent. */
int rest_query_time(struct call *call, const char *name, int64_t fallback, int64_t *ret);

/* inbox.c */
void rest_inbox_list(struct call *call, const char *id);
void rest_inbox_seen(struct call *call, const char *id);
void rest_notify_show(struct call *call, const char *id);
void rest_notify_set(struct call *call, const char *id);
void rest_notify_test(struct call *call, const char *id);
/* Whose box is theirs; borrowed. */
const char *rest_inbox_user(const struct identity *who);
/* metrics.c */
void rest_metrics(struct call *call, const char *id);
/* openapi.c */
void rest_openapi(struct call *call, const char *id);
/* tasks.c */
void rest_jobs_list(struct call *call, const char *id);
void rest_jobs_add(struct call *call, const char *id);
void rest_jobs_show(struct call *call, const char *id);
void rest_jobs_delete(struct call *call, const char *id);
void rest_jobs_logs(struct call *call, const char *id);
void rest_jobs_rerun(struct call *call, const char *id);
/* tasks_define.c */
void rest_templates_list(struct call *call, const char *id);
void rest_templates_add(struct call *call, const char *id);
void rest_templates_show(struct call *call, const char *id);
void rest_templates_put(struct call *call, const char *id);
void rest_templates_delete(struct call *call, const char *id);
void rest_definitions_list(struct call *call, const char *id);
void rest_definitions_add(struct call *call, const char *id);
void rest_definitions_show(struct call *call, const char *id);
void rest_definitions_schema(struct call *call, const char *id);
void rest_definitions_put(struct call *call, const char *id);
void rest_definitions_delete(struct call *call, const char *id);
void rest_render(struct call *call, const char *id);

/* The body as one JSON or YAML object. */
int rest_body(struct call *call, struct json **ret);
/* A member of the body. One of another type is refused; one that is absent or null leaves *ret as it was, a
 * string NULL. */
int rest_string(struct call *call, const struct json *doc, const char *key, const char **ret);
int rest_bool(struct call *call, const struct json *doc, const char *key, bool *ret);
int rest_int(struct call *call, const struct json *doc, const char *key, int64_t max,
             int64_t *ret); /* from 1 */
