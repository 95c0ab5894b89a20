/* A name without a kind is looked for where it is most likely: a pod, a job, then what the queue knows (which
 * also knows other namespaces), then a task. */
#include "cli/target.h"

#include "cli/queue_view.h"
#include "objects/names.h"

static const struct {
    const char *word;
    enum kind { ANY, POD, JOB, TRAINING, TASK } kind;
} kinds[] = {
    {"pod", POD},
    {"pods", POD},
    {"po", POD},
    {"job", JOB},
    {"jobs", JOB},
    {"job.batch", JOB},
    {"jobs.batch", JOB},
    {"trainingjob", TRAINING},
    {"trainingjobs", TRAINING},
    {"trainingjob.berth.dev", TRAINING},
    {"trainingjobs.berth.dev", TRAINING},
    {"task", TASK},
    {"tasks", TASK},
};

/* What is looked for, and how far. */
struct search {
    struct cli *cli;
    const char *ns;
    bool ns_given; /* by the user: then nothing elsewhere is meant */
    bool whole;
    bool quiet; /* refusals are as good as nothing there */
    struct target *ret;
};

void target_path(struct buf *out, const char *ns, const char *pod, const char *sub)
{
    buf_puts(out, "/api/v1/namespaces/");
    buf_url_encode(out, str_from(ns));
    buf_puts(out, "/pods/");
    buf_url_encode(out, str_from(pod));
    if (sub[0])
        buf_printf(out, "/%s?", sub);
}

void target_param(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, "%s%s=", out->data[out->len - 1] == '?' ? "" : "&", name);
    buf_url_encode(out, str_from(value));
}

static bool kind_of(struct str word, enum kind *ret)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (str_is(word, kinds[i].word)) {
            *ret = kinds[i].kind;
            return true;
        }
    return false;
}

/* [NS/][KIND/]NAME */
static bool read_word(struct cli *cli, const char *word, struct search *s, enum kind *kind, const char **name)
{
    struct str rest = str_from(word), part[3];
    size_t len = 0;

    while (len < ARRAY_LEN(part) && str_split(&rest, '/', &part[len]))
        if (part[len++].len == 0)
            return false;
    if (rest.s && rest.len > 0)
        return false;
    *kind = ANY;
    if (len == 3 || (len == 2 && !kind_of(part[0], kind))) {
        s->ns = arena_strndup(&cli->arena, part[0].s, part[0].len);
        s->ns_given = true;
    }
    if (len == 3 && !kind_of(part[1], kind))
        return false;
    if (len > 0)
        *name = arena_strndup(&cli->arena, part[len - 1].s, part[len - 1].len);
    return len > 0;
}

/* ---- one kind each: CLI_OK, CLI_NOT_FOUND without a word, or another code after saying why ---- */

static int ask(struct search *s, const char *path, struct reply *ret)
{
    int code = cli_ask(s->cli, &(struct call){.method = "GET", .target = path}, ret);

    if (code != CLI_OK || reply_exit(ret) == CLI_OK)
        return code;
    return ret->status == 404 || s->quiet ? CLI_NOT_FOUND
                                          : cli_fail(reply_exit(ret), "%s", reply_message(s->cli, ret));
}

static int find_pod(struct search *s, const char *name)
{
    CLEANUP(buf_done) struct buf path = {0};
    struct reply reply;
    int code;

    target_path(&path, s->ns, name, "");
    code = ask(s, path.data, &reply);
    if (code == CLI_OK)
        *s->ret =
            (struct target){.ns = s->ns, .pod = name, .phase = json_at_string(reply.doc, "status.phase")};
    return code;
}

/* Whether a is the better one of two pods of a job: one that runs, of the newest run, of rank 0. */
static bool is_better(const struct json *a, const struct json *b)
{
    bool a_runs = streq(json_at_string(a, "status.phase"), "Running");
    bool b_runs = streq(json_at_string(b, "status.phase"), "Running");
    int newer = strcmp(json_string_or(json_at(a, "metadata.creationTimestamp"), ""),
                       json_string_or(json_at(b, "metadata.creationTimestamp"), ""));
    const struct json *a_labels = json_at(a, "metadata.labels"), *b_labels = json_at(b, "metadata.labels");

    if (a_runs != b_runs)
        return a_runs;
    if (newer != 0)
        return newer > 0;
    return strcmp(json_string_or(json_get(a_labels, RANK_LABEL), ""),
                  json_string_or(json_get(b_labels, RANK_LABEL), "")) < 0;
}

/* Of the pods with that label those that belong to it. */
static int find_pod_of(struct search *s, const char *selector, const char *kind, const char *name)
{
    CLEANUP(buf_done) struct buf path = {0};
    const struct json *best = NULL;
    struct reply reply;
    int code;

    buf_puts(&path, "/api/v1/namespaces/");
    buf_url_encode(&path, str_from(s->ns));
    buf_puts(&path, "/pods?labelSelector=");
    buf_url_encode(&path, str_from(selector));
    code = cli_get(s->cli, path.data, &reply);
    if (code != CLI_OK)
        return code;
    JSON_EACH(json_get(reply.doc, "items"), it)
        JSON_EACH(json_at(it, "metadata.ownerReferences"), owner)
            if (json_bool(json_get(owner, "controller")) && streq(json_get_string(owner, "kind"), kind) &&
                streq(json_get_string(owner, "name"), name) && (!best || is_better(it, best)))
                best = it;
    if (!best && s->whole)
        return CLI_NOT_FOUND; /* what its pods wrote may have been kept */
    if (!best)
        return cli_fail(CLI_FAILED, "%s '%s' has no pod now", streq(kind, "Job") ? "job" : "training job",
                        name);
    *s->ret = (struct target){.ns = s->ns,
                              .pod = json_at_string(best, "metadata.name"),
                              .phase = json_at_string(best, "status.phase")};
    return CLI_OK;
}

static int find_job(struct search *s, const char *name)
{
    CLEANUP(buf_done) struct buf path = {0};
    struct reply reply;
    int code;

    buf_puts(&path, "/apis/batch/v1/namespaces/");
    buf_url_encode(&path, str_from(s->ns));
    buf_puts(&path, "/jobs/");
    buf_url_encode(&path, str_from(name));
    code = ask(s, path.data, &reply);
    return code == CLI_OK
               ? find_pod_of(s, arena_printf(&s->cli->arena, "batch.kubernetes.io/job-name=%s", name), "Job",
                             name)
               : code;
}

/* What the queue knows by this name or id; kind ANY: whatever it is. */
static int find_queued(struct search *s, enum kind wanted, const char *name)
{
    struct reply reply;
    int code = ask(s, job_target(s->cli, name, ""), &reply);
    const char *kind, *ns, *real;

    if (code != CLI_OK)
        return code;
    kind = json_get_string(reply.doc, "kind");
    ns = json_get_string(reply.doc, "namespace");
    real = json_get_string(reply.doc, "name");
    if (!kind || !ns || !real || (s->ns_given && !streq(ns, s->ns)))
        return CLI_NOT_FOUND;
    s->ns = ns;
    if (!streq(kind, "TrainingJob")) {
        if (wanted != ANY && (wanted != JOB || !streq(kind, "Job")))
            return CLI_NOT_FOUND;
        code = streq(kind, "Job") ? find_job(s, real) : find_pod(s, real);
        if (code != CLI_NOT_FOUND || !s->whole) /* else: its pods have gone, its log may be there */
            return code;
    } else if (!s->whole) {
        return find_pod_of(s, RUN_LABEL, kind, real);
    }
    *s->ret = (struct target){.ns = ns, .row = json_get_string(reply.doc, "id")};
    return CLI_OK;
}

/* A job whose pods have gone may have a log that was kept. */
static int find_job_or_log(struct search *s, const char *name)
{
    int code = find_job(s, name);

    return code == CLI_NOT_FOUND && s->whole ? find_queued(s, JOB, name) : code;
}

static int find_object(struct search *s, const char *kind, const char *name)
{
    if (streq(kind, "Job"))
        return find_job(s, name);
    if (streq(kind, "TrainingJob"))
        return find_queued(s, TRAINING, name);
    return streq(kind, "Pod") ? find_pod(s, name) : CLI_NOT_FOUND;
}

static int find_task(struct search *s, const char *id)
{
    CLEANUP(buf_done) struct buf path = {0};
    struct reply reply;
    int code;

    buf_puts(&path, "/v1/jobs/");
    buf_url_encode(&path, str_from(id));
    if (s->ns_given) {
        buf_puts(&path, "?namespace=");
        buf_url_encode(&path, str_from(s->ns));
    }
    code = ask(s, path.data, &reply);
    if (code != CLI_OK)
        return code;
    s->ns = json_string_or(json_get(reply.doc, "namespace"), s->ns);
    if (s->whole) {
        *s->ret = (struct target){.ns = s->ns, .task = id};
        return CLI_OK;
    }
    JSON_EACH(json_get(reply.doc, "objects"), it) {
        code = find_object(s, json_string_or(json_get(it, "kind"), ""),
                           json_string_or(json_get(it, "name"), ""));
        if (code != CLI_NOT_FOUND)
            return code;
    }
    return cli_fail(CLI_FAILED, "task '%s' has no pod now", id);
}

static int find_any(struct search *s, const char *name)
{
    const char *ns = s->ns;
    int code = find_pod(s, name);

    if (code == CLI_NOT_FOUND)
        code = find_job(s, name);
    s->quiet = true;
    if (code == CLI_NOT_FOUND)
        code = find_queued(s, ANY, name);
    if (code == CLI_NOT_FOUND)
        code = find_task(s, name);
    s->ns = ns;
    return code;
}

int target_find(struct cli *cli, const struct args *args, const char *word, bool whole, struct target *ret)
{
    static const char *const names[] = {"pod, job, training job or task", "pod", "job", "training job",
                                        "task"};
    struct search s = {.cli = cli, .ns_given = args_has(args, "namespace"), .whole = whole, .ret = ret};
    const char *name = NULL;
    enum kind kind = ANY;
    int code = CLI_OK;

    if (!read_word(cli, word, &s, &kind, &name))
        return cli_usage_error(args->verb,
                               "'%s' is no [NAMESPACE/]NAME, pod/NAME, job/NAME, trainingjob/NAME or "
                               "task/ID",
                               word);
    if (!s.ns)
        s.ns = cli_namespace(cli, args, &code);
    if (!s.ns)
        return code;
    code = kind == POD        ? find_pod(&s, name)
           : kind == JOB      ? find_job_or_log(&s, name)
           : kind == TRAINING ? find_queued(&s, TRAINING, name)
           : kind == TASK     ? find_task(&s, name)
                              : find_any(&s, name);
    return code == CLI_NOT_FOUND
               ? cli_fail(code, "there is no %s '%s' in namespace '%s'", names[kind], name, s.ns)
               : code;
}

int target_find_live(struct cli *cli, const struct args *args, const char *word, struct target *ret)
{
    int code = target_find(cli, args, word, false, ret);

    if (code == CLI_OK && pod_phase_is_over(ret->phase))
        return cli_fail(CLI_FAILED,
                        "pod '%s' has ended (%s): nothing can be run in it, its output is in 'berth logs'",
                        ret->pod, ret->phase);
    return code;
}
