/* The pods of a job: what is read of them, what a new one looks like, what their failure means. */
#include "control/job.h"
#include "control/util.h"

#include <stdio.h>
#include <string.h>

#define INDEX_ANNOTATION          "batch.kubernetes.io/job-completion-index"
#define INDEX_FAILURES_ANNOTATION "batch.kubernetes.io/job-index-failure-count"
#define GENERATED_BASE_MAX        58 /* of 63 characters, five are for the suffix */
#define SUFFIX_LEN                5

/* ---- reading ---- */

static enum pod_phase phase_of(const char *text)
{
    static const char *const names[] = {[POD_PENDING] = "Pending",
                                        [POD_RUNNING] = "Running",
                                        [POD_SUCCEEDED] = "Succeeded",
                                        [POD_FAILED] = "Failed"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (streq(text, names[i]))
            return (enum pod_phase)i;
    return POD_PENDING;
}

static int annotation_int(const struct json *doc, const char *key, int fallback)
{
    const struct json *value = json_get(json_at(doc, "metadata.annotations"), key);
    int64_t n;

    return value && str_to_int(json_str(value), &n) && n >= 0 && n < INT32_MAX ? (int)n : fallback;
}

/* When all containers have ended: the last end. 0 when one has not. */
static int64_t containers_end(const struct json *status)
{
    int64_t last = 0;

    JSON_EACH(json_get(status, "containerStatuses"), it) {
        int64_t end = time_of(json_at(it, "state.terminated.finishedAt"), 0);

        if (end == 0)
            return 0;
        last = end > last ? end : last;
    }
    return last;
}

static int64_t finished_at(const struct json *doc)
{
    const struct json *status = json_get(doc, "status"), *meta = json_get(doc, "metadata");
    const struct json *ready = condition_find(status, "Ready");
    int64_t t = containers_end(status);

    if (t)
        return t;
    if (streq(json_get_string(ready, "status"), "False") &&
        (t = time_of(json_get(ready, "lastTransitionTime"), 0)) != 0)
        return t;
    if ((t = time_of(json_get(meta, "deletionTimestamp"), 0)) != 0)
        return clock_after(t, -json_int(json_get(meta, "deletionGracePeriodSeconds"), 0));
    return time_of(json_get(meta, "creationTimestamp"), 0);
}

static int64_t restarts_of(const struct json *statuses)
{
    int64_t sum = 0;

    JSON_EACH(statuses, it)
        if (__builtin_add_overflow(sum, json_int(json_get(it, "restartCount"), 0), &sum))
            return INT64_MAX;
    return sum;
}

void job_pod_read(const struct object *pod, struct job_pod *ret)
{
    const struct json *doc = object_doc(pod);
    const struct json *status = json_get(doc, "status");

    *ret = (struct job_pod){
        .object = pod,
        .phase = phase_of(json_get_string(status, "phase")),
        .ready = condition_is(status, "Ready", "True"),
        .scheduled = json_string_or(json_at(doc, "spec.nodeName"), "")[0] != '\0',
        .tracked = finalizer_has(doc, JOB_TRACKING_FINALIZER),
        .preempted = streq(json_get_string(condition_find(status, "DisruptionTarget"), "reason"),
                           "PreemptionByScheduler") ||
                     streq(json_get_string(status, "reason"), "NodeReboot"),
        .index = annotation_int(doc, INDEX_ANNOTATION, -1),
        .index_failures = annotation_int(doc, INDEX_FAILURES_ANNOTATION, 0),
        .restarts = restarts_of(json_get(status, "containerStatuses")) +
                    restarts_of(json_get(status, "initContainerStatuses")),
        .finished_at = finished_at(doc),
    };
    if (ret->preempted && ret->phase == POD_SUCCEEDED) /* left when told to: its work is not done */
        ret->phase = POD_FAILED;
}

/* ---- sets of indexes ---- */

void index_set_add(struct index_set *set, int index)
{
    if (index < 0 || index >= set->size || set->has[index])
        return;
    set->has[index] = true;
    set->count++;
}

void index_set_read(struct index_set *set, struct arena *arena, int size, const char *text)
{
    struct str rest = str_from(text), part, first;

    *set = (struct index_set){.has = arena_zalloc(arena, (size_t)size + 1), .size = size};
    while (str_split(&rest, ',', &part)) {
        int64_t from, to;

        if (!str_split(&part, '-', &first) || !str_to_int(first, &from))
            continue;
        if (!str_to_int(part, &to))
            to = from;
        for (int64_t i = from; i <= to && i < size; i++)
            index_set_add(set, (int)i);
    }
}

char *index_set_write(const struct index_set *set, struct arena *arena)
{
    CLEANUP(buf_done) struct buf text = {0};

    for (int i = 0; i < set->size; i++) {
        int last = i;

        if (!set->has[i])
            continue;
        while (last + 1 < set->size && set->has[last + 1])
            last++;
        buf_printf(&text, "%s%d", text.len ? "," : "", i);
        if (last > i)
            buf_printf(&text, "%c%d", last == i + 1 ? ',' : '-', last);
        i = last;
    }
    return arena_strndup(arena, text.data ? text.data : "", text.len);
}

/* ---- failure policy ---- */

static bool exit_code_matches(const struct json *rule, int64_t code)
{
    bool listed = false;

    JSON_EACH(json_get(rule, "values"), it)
        listed = listed || json_int(it, -1) == code;
    return listed == streq(json_get_string(rule, "operator"), "In");
}

static const struct json *match_exit_codes(const struct json *statuses, const struct json *rule)
{
    const char *only = json_get_string(rule, "containerName");

    JSON_EACH(statuses, it) {
        int64_t code = json_int(json_at(it, "state.terminated.exitCode"), 0);

        if (code != 0 && (!only || streq(only, json_get_string(it, "name"))) && exit_code_matches(rule, code))
            return it;
    }
    return NULL;
}

static const struct json *match_conditions(const struct json *status, const struct json *patterns)
{
    JSON_EACH(json_get(status, "conditions"), condition)
        JSON_EACH(patterns, pattern)
            if (streq(json_get_string(condition, "type"), json_get_string(pattern, "type")) &&
                streq(json_get_string(condition, "status"),
                      json_string_or(json_get(pattern, "status"), "True")))
                return condition;
    return NULL;
}

static enum pod_failure_action action_of(const char *name)
{
    if (streq(name, "Ignore"))
        return POD_FAILURE_IGNORE;
    if (streq(name, "FailJob"))
        return POD_FAILURE_FAIL_JOB;
    return streq(name, "FailIndex") ? POD_FAILURE_FAIL_INDEX : POD_FAILURE_COUNT;
}

enum pod_failure_action job_pod_failure(const struct json *policy, const struct object *pod,
                                        struct arena *arena, const char **message)
{
    const struct json *status = policy ? json_get(object_doc(pod), "status") : NULL;
    int index = 0;

    JSON_EACH(json_get(policy, "rules"), rule) {
        const struct json *codes = json_get(rule, "onExitCodes"), *hit;
        const char *action = json_get_string(rule, "action");

        if (codes) {
            hit = match_exit_codes(json_get(status, "containerStatuses"), codes);
            if (!hit)
                hit = match_exit_codes(json_get(status, "initContainerStatuses"), codes);
            if (hit)
                *message = arena_printf(
                    arena, "Container %s for pod %s/%s failed with exit code %d matching %s rule at index %d",
                    json_get_string(hit, "name"), pod->ns, pod->name,
                    (int)json_int(json_at(hit, "state.terminated.exitCode"), 0), action, index);
        } else {
            hit = match_conditions(status, json_get(rule, "onPodConditions"));
            if (hit)
                *message = arena_printf(arena, "Pod %s/%s has condition %s matching %s rule at index %d",
                                        pod->ns, pod->name, json_get_string(hit, "type"), action, index);
        }
        if (hit)
            return action_of(action);
        index++;
    }
    return POD_FAILURE_COUNT;
}

/* ---- new pods ---- */

static uint64_t mix(uint64_t hash, const void *data, size_t len)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3); /* FNV-1a: the same in every process */
    return hash;
}

char *job_pod_name(struct arena *arena, const struct json *job, int index, int64_t now, unsigned nonce)
{
    static const char alphabet[] = "bcdfghjklmnpqrstvwxz2456789";
    const char *name = json_string_or(json_at(job, "metadata.name"), "");
    struct str uid = json_str(json_at(job, "metadata.uid"));
    char tail[16] = "-", suffix[SUFFIX_LEN + 1] = "";
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    size_t base = strlen(name);

    if (index >= 0)
        snprintf(tail, sizeof(tail), "-%d-", index);
    if (base + strlen(tail) > GENERATED_BASE_MAX)
        base = GENERATED_BASE_MAX - strlen(tail);
    hash = mix(hash, uid.s, uid.len);
    hash = mix(hash, &now, sizeof(now));
    hash = mix(hash, &index, sizeof(index));
    hash = mix(hash, &nonce, sizeof(nonce));
    hash ^= hash >> 31;
    for (size_t i = 0; i < SUFFIX_LEN; i++, hash /= sizeof(alphabet) - 1)
        suffix[i] = alphabet[hash % (sizeof(alphabet) - 1)];
    return arena_printf(arena, "%.*s%s%s", (int)base, name, tail, suffix);
}

static void add_owner(struct arena *arena, struct json *meta, const struct json *job)
{
    struct json *owner = json_push_object(arena, json_set_array(arena, meta, "ownerReferences"));

    json_set_string(arena, owner, "apiVersion", "batch/v1");
    json_set_string(arena, owner, "kind", "Job");
    json_set_string(arena, owner, "name", json_at_string(job, "metadata.name"));
    json_set_string(arena, owner, "uid", json_at_string(job, "metadata.uid"));
    json_set_bool(arena, owner, "controller", true);
    json_set_bool(arena, owner, "blockOwnerDeletion", true);
}

static void add_index_env(struct arena *arena, struct json *containers)
{
    JSON_EACH(containers, container) {
        struct json *env = json_get(container, "env"), *item;
        bool there = false;

        JSON_EACH(env, it)
            there = there || streq(json_get_string(it, "name"), "JOB_COMPLETION_INDEX");
        if (there)
            continue;
        if (!json_is(env, JSON_ARRAY))
            env = json_set_array(arena, container, "env");
        item = json_push_object(arena, env);
        json_set_string(arena, item, "name", "JOB_COMPLETION_INDEX");
        item = json_set_object(arena, json_set_object(arena, item, "valueFrom"), "fieldRef");
        json_set_string(arena, item, "fieldPath", "metadata.labels['" INDEX_ANNOTATION "']");
    }
}

static void add_index(struct arena *arena, struct json *doc, const struct json *job, int index, int failures)
{
    struct json *meta = json_get(doc, "metadata"), *spec = json_get(doc, "spec");
    const char *text = arena_printf(arena, "%d", index);

    json_set_string(arena, json_need_object(arena, meta, "labels"), INDEX_ANNOTATION, text);
    json_set_string(arena, json_need_object(arena, meta, "annotations"), INDEX_ANNOTATION, text);
    if (failures >= 0)
        json_set_string(arena, json_get(meta, "annotations"), INDEX_FAILURES_ANNOTATION,
                        arena_printf(arena, "%d", failures));
    json_set_string(arena, spec, "hostname",
                    arena_printf(arena, "%s-%d", json_at_string(job, "metadata.name"), index));
    add_index_env(arena, json_get(spec, "initContainers"));
    add_index_env(arena, json_get(spec, "containers"));
}

struct json *job_pod_document(struct arena *arena, const struct json *job, const char *name, int index,
                              int failures)
{
    static const char *const kept[] = {"labels", "annotations", "finalizers"};
    const struct json *template = json_at(job, "spec.template");
    struct json *doc = json_new_object(arena), *meta = json_set_object(arena, doc, "metadata");

    json_set_string(arena, meta, "name", name);
    json_set(arena, meta, "generateName", json_of_str(arena, (struct str){name, strlen(name) - SUFFIX_LEN}));
    json_set_string(arena, meta, "namespace", json_at_string(job, "metadata.namespace"));
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        const struct json *value = json_get(json_get(template, "metadata"), kept[i]);

        if (value)
            json_set(arena, meta, kept[i], *json_copy(arena, value));
    }
    add_owner(arena, meta, job);
    finalizer_add(arena, doc, JOB_TRACKING_FINALIZER);
    json_set(arena, doc, "spec", *json_copy(arena, json_get(template, "spec")));
    if (index >= 0)
        add_index(arena, doc, job, index, failures);
    return doc;
}
