/* One look goes: take stock of the pods; see whether the job is to end (a condition from before, the
 * failure policy, the back-off limit, the deadline); if so delete what runs, else make or delete pods
 * until as many run as should; count what has finished; write the status.
 *
 * A job ends in two steps, as Kubernetes has it: first the condition that says it will (FailureTarget,
 * SuccessCriteriaMet), and when its last pod is really gone the one that says it has (Failed, Complete). */
#include "control/job.h"

#include "control/util.h"
#include "objects/names.h"

#include <stdlib.h>

#define COUNTS_MAX 50 /* pods counted in one look; their updates and deletions must fit in the effects */

struct look {
    const struct job_view *view;
    struct effects *effects;
    struct arena *arena;
    struct json *doc, *spec, *status;
    bool indexed, per_index, only_replace_failed;
    int64_t completions; /* -1: any success will do */
    int64_t parallelism, backoff_limit;
    const struct json *policy;
    int64_t active, ready, terminating;
    int64_t succeeded, failed; /* with those that are not in the status yet */
    struct index_set done, failed_indexes;
    bool *counted;    /* of view->pods: finished and counted in this look */
    bool *dropped;    /* deleted without being counted */
    bool *failed_now; /* finished and failed, still tracked */
    const char *end_reason, *end_message;
    enum { GO_ON, END_SUCCESS, END_FAILURE } end;
};

static void end_with(struct look *look, int end, const char *reason, const char *message)
{
    look->end = end;
    look->end_reason = reason;
    look->end_message = message;
}

/* A Job that was stored when more was allowed has none: it ends, see check_end. */
static bool too_many_indexes(const struct look *look)
{
    return look->indexed && look->completions > JOB_INDEXES_MAX;
}

static int indexes(const struct look *look)
{
    return look->indexed && look->completions > 0 && !too_many_indexes(look) ? (int)look->completions : 0;
}

static bool is_active(const struct job_pod *pod)
{
    return !pod->object->deleting && (pod->phase == POD_PENDING || pod->phase == POD_RUNNING);
}

static bool is_terminating(const struct job_pod *pod)
{
    return pod->object->deleting && pod->phase != POD_SUCCEEDED && pod->phase != POD_FAILED;
}

/* A pod that is deleted counts as failed at once, unless the job waits for it to really end. */
static bool is_failed(const struct look *look, const struct job_pod *pod)
{
    return pod->phase == POD_FAILED || (!look->only_replace_failed && is_terminating(pod));
}

static bool valid_index(const struct look *look, const struct job_pod *pod)
{
    return !look->indexed || (pod->index >= 0 && pod->index < indexes(look));
}

static enum pod_failure_action failure_of(const struct look *look, const struct job_pod *pod,
                                          const char **message)
{
    if (pod->preempted)
        return POD_FAILURE_IGNORE;
    return look->policy ? job_pod_failure(look->policy, pod->object, look->arena, message)
                        : POD_FAILURE_COUNT;
}

/* ---- taking stock ---- */

static void look_init(struct look *look, const struct job_view *view, struct effects *effects)
{
    size_t flags = view->pod_count + 1;

    *look = (struct look){.view = view, .effects = effects, .arena = effects->arena};
    look->doc = object_json(view->job, look->arena);
    look->spec = json_get(look->doc, "spec");
    look->status = json_need_object(look->arena, look->doc, "status");
    look->indexed = streq(json_get_string(look->spec, "completionMode"), "Indexed");
    look->completions = json_int(json_get(look->spec, "completions"), -1);
    look->parallelism = json_int(json_get(look->spec, "parallelism"), 1);
    look->backoff_limit = json_int(json_get(look->spec, "backoffLimit"), 6);
    look->per_index = look->indexed && json_get(look->spec, "backoffLimitPerIndex");
    look->policy = json_get(look->spec, "podFailurePolicy");
    look->only_replace_failed = streq(
        json_string_or(json_get(look->spec, "podReplacementPolicy"), look->policy ? "Failed" : ""), "Failed");
    look->counted = arena_zalloc(look->arena, flags * sizeof(bool));
    look->dropped = arena_zalloc(look->arena, flags * sizeof(bool));
    look->failed_now = arena_zalloc(look->arena, flags * sizeof(bool));
}

static bool index_used_up(const struct look *look, const struct job_pod *pod, enum pod_failure_action action)
{
    return action == POD_FAILURE_FAIL_INDEX ||
           (action == POD_FAILURE_COUNT &&
            pod->index_failures >= json_int(json_get(look->spec, "backoffLimitPerIndex"), 0));
}

/* One failed pod that is not counted yet. */
static void tally_failed(struct look *look, size_t i)
{
    const struct job_pod *pod = &look->view->pods[i];
    const char *message = NULL;
    enum pod_failure_action action = failure_of(look, pod, &message);

    look->failed_now[i] = true;
    if (action != POD_FAILURE_IGNORE)
        look->failed++;
    if (action == POD_FAILURE_FAIL_JOB && look->end == GO_ON)
        end_with(look, END_FAILURE, "PodFailurePolicy", message);
    if (look->per_index && index_used_up(look, pod, action))
        index_set_add(&look->failed_indexes, pod->index);
}

static void tally(struct look *look)
{
    int size = indexes(look);

    look->succeeded = json_int(json_get(look->status, "succeeded"), 0);
    look->failed = json_int(json_get(look->status, "failed"), 0);
    index_set_read(&look->done, look->arena, size, json_get_string(look->status, "completedIndexes"));
    index_set_read(&look->failed_indexes, look->arena, size, json_get_string(look->status, "failedIndexes"));
    for (size_t i = 0; i < look->view->pod_count; i++) {
        const struct job_pod *pod = &look->view->pods[i];

        look->active += is_active(pod);
        look->ready += is_active(pod) && pod->ready;
        look->terminating += is_terminating(pod);
        if (!pod->tracked || !valid_index(look, pod))
            continue;
        if (pod->phase == POD_SUCCEEDED) {
            look->succeeded++;
            index_set_add(&look->done, pod->index);
        } else if (is_failed(look, pod)) {
            tally_failed(look, i);
        }
    }
    if (look->indexed)
        look->succeeded = look->done.count;
}

/* ---- is it to end? ---- */

static bool suspended(const struct look *look)
{
    return json_bool(json_get(look->spec, "suspend"));
}

/* With restartPolicy OnFailure it is the containers that fail again and again, in the same pods. */
static bool too_many_restarts(const struct look *look)
{
    int64_t restarts = 0;

    if (!streq(json_at_string(look->spec, "template.spec.restartPolicy"), "OnFailure"))
        return false;
    for (size_t i = 0; i < look->view->pod_count; i++)
        if (look->view->pods[i].phase == POD_PENDING || look->view->pods[i].phase == POD_RUNNING)
            restarts += look->view->pods[i].restarts;
    return look->backoff_limit == 0 ? restarts > 0 : restarts >= look->backoff_limit;
}

static void check_deadline(struct look *look)
{
    const struct json *limit = json_get(look->spec, "activeDeadlineSeconds");
    int64_t start = time_of(json_get(look->status, "startTime"), 0), end;

    if (!limit || !start || suspended(look))
        return;
    end = clock_after(start, json_int(limit, 0));
    if (look->view->now >= end)
        end_with(look, END_FAILURE, "DeadlineExceeded", "Job was active longer than specified deadline");
    else
        effect_wake(look->effects, end);
}

static void check_indexes(struct look *look)
{
    const struct json *max = json_get(look->spec, "maxFailedIndexes");

    if (!look->per_index || look->end != GO_ON)
        return;
    if (max && look->failed_indexes.count > json_int(max, 0))
        end_with(look, END_FAILURE, "MaxFailedIndexesExceeded",
                 "Job has exceeded the specified maximal number of failed indexes");
    else if (look->failed_indexes.count > 0 &&
             look->failed_indexes.count + look->done.count >= look->completions)
        end_with(look, END_FAILURE, "FailedIndexes", "Job has failed indexes");
}

static void check_success_policy(struct look *look)
{
    int at = 0;

    if (!look->indexed || look->end != GO_ON)
        return;
    JSON_EACH(json_at(look->spec, "successPolicy.rules"), rule) {
        const struct json *count = json_get(rule, "succeededCount");
        const char *wanted = json_get_string(rule, "succeededIndexes");
        struct index_set set = look->done;
        int have = look->done.count;

        if (wanted) {
            index_set_read(&set, look->arena, look->done.size, wanted);
            have = 0;
            for (int i = 0; i < set.size; i++)
                have += set.has[i] && look->done.has[i];
        }
        if ((wanted && set.count > 0 && have == set.count) ||
            (count && have >= json_int(count, 0) && have > 0)) {
            end_with(look, END_SUCCESS, "SuccessPolicy",
                     arena_printf(look->arena, "Matched rules at index %d", at));
            return;
        }
        at++;
    }
}

static void check_end(struct look *look)
{
    const struct json *met = condition_find(look->status, "SuccessCriteriaMet");
    const struct json *target = condition_find(look->status, "FailureTarget");

    if (streq(json_get_string(met, "status"), "True"))
        end_with(look, END_SUCCESS, json_get_string(met, "reason"), json_get_string(met, "message"));
    else if (streq(json_get_string(target, "status"), "True"))
        end_with(look, END_FAILURE, json_get_string(target, "reason"), json_get_string(target, "message"));
    if (look->end != GO_ON)
        return;
    if (too_many_indexes(look))
        end_with(look, END_FAILURE, "TooManyCompletions",
                 arena_printf(look->arena, "An Indexed Job has at most %d completions", JOB_INDEXES_MAX));
    else if (look->failed > look->backoff_limit || too_many_restarts(look))
        end_with(look, END_FAILURE, "BackoffLimitExceeded", "Job has reached the specified backoff limit");
    else
        check_deadline(look);
    check_indexes(look);
    check_success_policy(look);
}

/* ---- making and deleting pods ---- */

static void release(struct look *look, const struct object *pod)
{
    struct json *doc = object_json(pod, look->arena);

    finalizer_remove(doc, JOB_TRACKING_FINALIZER);
    effect_update(look->effects, pod, doc);
}

/* One that is not counted by now never will be. */
static void delete_pod(struct look *look, size_t i)
{
    const struct job_pod *pod = &look->view->pods[i];

    if (pod->tracked && !look->counted[i]) {
        release(look, pod->object);
        look->dropped[i] = true;
    }
    effect_delete(look->effects, pod->object);
    effect_event(look->effects, "Normal", "SuccessfulDelete",
                 arena_printf(look->arena, "Deleted pod: %s", pod->object->name));
    look->active--;
    look->ready -= pod->ready;
    look->terminating += pod->scheduled; /* others are gone at once */
}

static bool has_room(const struct look *look, size_t more)
{
    return effects_room(look->effects) >= more + 16; /* status, conditions' events, wakes */
}

/* Earlier stages first: not scheduled, pending, not ready, newest. */
static int removal_order(const struct job_pod *a, const struct job_pod *b)
{
    if (a->scheduled != b->scheduled)
        return a->scheduled - b->scheduled;
    if (a->phase != b->phase)
        return (int)a->phase - (int)b->phase;
    if (a->ready != b->ready)
        return a->ready - b->ready;
    return a->object->rv < b->object->rv ? 1 : -1;
}

static int by_removal_order(const void *a, const void *b)
{
    return removal_order(*(const struct job_pod *const *)a, *(const struct job_pod *const *)b);
}

/* Active pods with the same index twice, or one that the job does not have: to be deleted. */
static size_t surplus_indexes(struct look *look, const struct job_pod **ret)
{
    const struct job_pod **kept = arena_zalloc(look->arena, ((size_t)indexes(look) + 1) * sizeof(*kept));
    size_t len = 0;

    for (size_t i = 0; i < look->view->pod_count; i++) {
        const struct job_pod *pod = &look->view->pods[i];

        if (!is_active(pod))
            continue;
        if (!valid_index(look, pod)) {
            ret[len++] = pod;
        } else if (!kept[pod->index]) {
            kept[pod->index] = pod;
        } else {
            bool first = removal_order(pod, kept[pod->index]) < 0;

            ret[len++] = first ? pod : kept[pod->index];
            kept[pod->index] = first ? kept[pod->index] : pod;
        }
    }
    return len;
}

/* At least `surplus` active pods go; true when any did. */
static bool delete_surplus(struct look *look, int64_t surplus)
{
    const struct job_pod **going = arena_zalloc(look->arena, (look->view->pod_count + 1) * sizeof(*going));
    bool *there = arena_zalloc(look->arena, look->view->pod_count + 1);
    size_t len = 0, chosen = 0;

    if (indexes(look))
        chosen = len = surplus_indexes(look, going);
    for (size_t j = 0; j < chosen; j++)
        there[going[j] - look->view->pods] = true;
    if (surplus > (int64_t)chosen) {
        for (size_t i = 0; i < look->view->pod_count; i++)
            if (is_active(&look->view->pods[i]) && !there[i])
                going[len++] = &look->view->pods[i];
        qsort(going + chosen, len - chosen, sizeof(*going), by_removal_order);
        chosen = (size_t)surplus < len ? (size_t)surplus : len;
    }
    for (size_t j = 0; j < chosen && has_room(look, 3); j++)
        delete_pod(look, (size_t)(going[j] - look->view->pods));
    return chosen > 0;
}

static int64_t backoff_after(int64_t failures)
{
    int64_t sec = JOB_BACKOFF_SEC;

    for (int64_t i = 1; i < failures && sec < JOB_BACKOFF_MAX_SEC; i++)
        sec *= 2;
    return failures == 0 ? 0 : (sec < JOB_BACKOFF_MAX_SEC ? sec : JOB_BACKOFF_MAX_SEC) * NSEC_PER_SEC;
}

/* What has failed: of one index, or of all since the last success. */
struct failures {
    int64_t count, last;
    int of_index; /* of the index, with those of pods that are gone */
};

static void add_failure(struct failures *failures, const struct job_pod *pod)
{
    failures->count++;
    if (pod->index_failures + 1 > failures->of_index)
        failures->of_index = pod->index_failures + 1;
    if (pod->finished_at > failures->last)
        failures->last = pod->finished_at;
}

static int64_t start_after(const struct failures *failures, bool of_index)
{
    int64_t count = failures->count;

    if (of_index && failures->of_index > count)
        count = failures->of_index;
    return failures->last + backoff_after(count);
}

/* When the next pod of a Job may be made that counts failures of all its pods together. */
static int64_t next_start(const struct look *look)
{
    struct failures failures = {0};
    int64_t success = 0;

    for (size_t i = 0; i < look->view->pod_count; i++) {
        const struct job_pod *pod = &look->view->pods[i];

        if (pod->phase == POD_SUCCEEDED && pod->finished_at > success)
            success = pod->finished_at;
    }
    for (size_t i = 0; i < look->view->pod_count; i++) {
        const struct job_pod *pod = &look->view->pods[i];

        if (!pod->preempted && is_failed(look, pod) && pod->finished_at > success)
            add_failure(&failures, pod);
    }
    return start_after(&failures, false);
}

static bool name_taken(const struct look *look, const char *name)
{
    for (size_t i = 0; i < look->view->pod_count; i++)
        if (streq(look->view->pods[i].object->name, name))
            return true;
    return false;
}

static void create_pod(struct look *look, int index, int failures, unsigned nonce)
{
    char *name;

    do {
        name = job_pod_name(look->arena, look->doc, index, look->view->now, nonce);
        nonce += 1000003;
    } while (name_taken(look, name));
    effect_create(look->effects, kind_by_id(KIND_POD), look->view->job->ns,
                  job_pod_document(look->arena, look->doc, name, index, look->per_index ? failures : -1));
    effect_event(look->effects, "Normal", "SuccessfulCreate",
                 arena_printf(look->arena, "Created pod: %s", name));
    look->active++;
}

static void create_indexed(struct look *look, int64_t count)
{
    size_t size = (size_t)indexes(look) + 1;
    bool *busy = arena_zalloc(look->arena, size);
    struct failures *failures = look->per_index ? arena_zalloc(look->arena, size * sizeof(*failures)) : NULL;
    int64_t wake = 0;

    for (size_t i = 0; i < look->view->pod_count; i++) {
        const struct job_pod *pod = &look->view->pods[i];

        if (!valid_index(look, pod))
            continue;
        if (is_active(pod) || (look->only_replace_failed && is_terminating(pod)))
            busy[pod->index] = true;
        if (failures && !pod->preempted && is_failed(look, pod))
            add_failure(&failures[pod->index], pod);
    }
    for (int i = 0; i < indexes(look) && count > 0 && has_room(look, 2); i++) {
        int64_t at = failures ? start_after(&failures[i], true) : 0;

        if (busy[i] || look->done.has[i] || look->failed_indexes.has[i])
            continue;
        if (at > look->view->now) {
            wake = !wake || at < wake ? at : wake;
            continue;
        }
        create_pod(look, i, failures ? failures[i].of_index : 0, (unsigned)i);
        count--;
    }
    if (wake)
        effect_wake(look->effects, wake);
}

static void create_pods(struct look *look, int64_t count)
{
    int64_t at;

    if (look->view->no_creates)
        return;
    if (!look->per_index && (at = next_start(look)) > look->view->now) {
        effect_wake(look->effects, at);
        return;
    }
    if (count > JOB_CREATES_MAX) {
        count = JOB_CREATES_MAX;
        effect_wake(look->effects, look->view->now);
    }
    if (look->indexed) {
        create_indexed(look, count);
        return;
    }
    for (int64_t i = 0; i < count && has_room(look, 2); i++)
        create_pod(look, -1, 0, (unsigned)i);
}

static void manage(struct look *look)
{
    int64_t want;

    if (suspended(look)) {
        delete_surplus(look, look->active);
        return;
    }
    if (look->completions < 0) {
        want = look->succeeded > 0 ? look->active : look->parallelism;
    } else {
        want = look->completions - look->succeeded;
        if (look->per_index)
            want -= look->failed_indexes.count;
        want = want > look->parallelism ? look->parallelism : want;
        want = want < 0 ? 0 : want;
    }
    if (delete_surplus(look, look->active > want ? look->active - want : 0))
        return; /* pods are deleted or made in one look, not both */
    want -= look->active + (look->only_replace_failed ? look->terminating : 0);
    if (want > 0)
        create_pods(look, want);
}

/* ---- counting and status ---- */

static void count_pods(struct look *look)
{
    int64_t succeeded = json_int(json_get(look->status, "succeeded"), 0);
    int64_t failed = json_int(json_get(look->status, "failed"), 0);
    size_t done = 0;

    for (size_t i = 0; i < look->view->pod_count && done < COUNTS_MAX && has_room(look, 1); i++) {
        const struct job_pod *pod = &look->view->pods[i];
        bool success = pod->phase == POD_SUCCEEDED;
        const char *message;

        if (!pod->tracked || look->dropped[i] ||
            !(success || look->failed_now[i] || look->end != GO_ON || look->view->job->deleting))
            continue;
        if (success && valid_index(look, pod))
            succeeded++;
        else if (valid_index(look, pod) && (look->failed_now[i] || look->end == END_FAILURE) &&
                 failure_of(look, pod, &message) != POD_FAILURE_IGNORE)
            failed++;
        look->counted[i] = true;
        release(look, pod->object);
        done++;
    }
    if (look->indexed)
        succeeded = look->done.count;
    if (succeeded > 0)
        json_set_int(look->arena, look->status, "succeeded", succeeded);
    if (failed > 0)
        json_set_int(look->arena, look->status, "failed", failed);
}

static bool all_counted(const struct look *look)
{
    for (size_t i = 0; i < look->view->pod_count; i++)
        if (look->view->pods[i].tracked && !look->counted[i] && !look->dropped[i])
            return false;
    return true;
}

static void set_condition(struct look *look, const char *type, const char *status, const char *reason,
                          const char *message)
{
    if (condition_set(look->arena, look->status, type, status, reason, message, look->view->now))
        time_set(look->arena, condition_find(look->status, type), "lastProbeTime", look->view->now);
}

static void finish(struct look *look)
{
    bool success = look->end == END_SUCCESS;

    set_condition(look, success ? "SuccessCriteriaMet" : "FailureTarget", "True", look->end_reason,
                  look->end_message);
    if (look->terminating > 0 || look->active > 0 || !all_counted(look))
        return; /* its pods wake it again */
    set_condition(look, success ? "Complete" : "Failed", "True", look->end_reason, look->end_message);
    if (success) {
        time_set(look->arena, look->status, "completionTime", look->view->now);
        effect_event(look->effects, "Normal", "Completed", "Job completed");
    } else {
        effect_event(look->effects, "Warning", look->end_reason, look->end_message);
    }
    if (json_get(look->spec, "ttlSecondsAfterFinished"))
        effect_wake(look->effects, clock_after(look->view->now,
                                               json_int(json_get(look->spec, "ttlSecondsAfterFinished"), 0)));
}

static void note_suspension(struct look *look)
{
    if (suspended(look)) {
        if (condition_is(look->status, "Suspended", "True"))
            return;
        set_condition(look, "Suspended", "True", "JobSuspended", "Job suspended");
        effect_event(look->effects, "Normal", "Suspended", "Job suspended");
    } else if (condition_is(look->status, "Suspended", "True")) {
        set_condition(look, "Suspended", "False", "JobResumed", "Job resumed");
        effect_event(look->effects, "Normal", "Resumed", "Job resumed");
        time_set(look->arena, look->status, "startTime", look->view->now);
    }
}

static void write_status(struct look *look)
{
    const struct json *before = json_get(object_json(look->view->job, look->arena), "status");
    struct json *status = look->status;

    if (look->active > 0)
        json_set_int(look->arena, status, "active", look->active);
    else
        json_remove(status, "active");
    json_set_int(look->arena, status, "ready", look->ready);
    json_set_int(look->arena, status, "terminating", look->terminating);
    json_set_object(look->arena, status, "uncountedTerminatedPods");
    if (look->indexed && look->done.count > 0)
        json_set_string(look->arena, status, "completedIndexes", index_set_write(&look->done, look->arena));
    if (look->per_index)
        json_set_string(look->arena, status, "failedIndexes",
                        index_set_write(&look->failed_indexes, look->arena));
    if (!json_equal(before, status))
        effect_update_status(look->effects, look->view->job, look->doc);
}

/* ---- finished jobs ---- */

static void look_finished(struct look *look, const struct json *condition)
{
    const struct json *ttl = json_get(look->spec, "ttlSecondsAfterFinished");
    int64_t end;

    for (size_t i = 0; i < look->view->pod_count && has_room(look, 1); i++)
        if (look->view->pods[i].tracked)
            release(look, look->view->pods[i].object);
    if (!ttl || look->view->job->deleting)
        return;
    end = clock_after(time_of(json_get(condition, "lastTransitionTime"), look->view->now), json_int(ttl, 0));
    if (end <= look->view->now)
        effect_delete(look->effects, look->view->job);
    else
        effect_wake(look->effects, end);
}

static const struct json *finished(const struct json *status)
{
    if (condition_is(status, "Complete", "True"))
        return condition_find(status, "Complete");
    return condition_is(status, "Failed", "True") ? condition_find(status, "Failed") : NULL;
}

/* Those that are not counted yet wait for the next look. */
static void delete_active(struct look *look)
{
    for (size_t i = 0; i < look->view->pod_count && has_room(look, 3); i++)
        if (is_active(&look->view->pods[i]) && (look->counted[i] || !look->view->pods[i].tracked))
            delete_pod(look, i);
}

void job_look(const struct job_view *view, struct effects *effects)
{
    struct look look;
    const struct json *ended;
    const char *manager;

    look_init(&look, view, effects);
    manager = json_get_string(look.spec, "managedBy");
    if (manager && !streq(manager, "kubernetes.io/job-controller"))
        return;
    if ((ended = finished(look.status)) != NULL) {
        look_finished(&look, ended);
        return;
    }
    tally(&look);
    if (!json_get(look.status, "startTime") && !suspended(&look))
        time_set(look.arena, look.status, "startTime", view->now);
    check_end(&look);
    if (look.end == GO_ON && !view->job->deleting) {
        manage(&look);
        if (look.completions < 0 ? look.succeeded > 0 : look.succeeded >= look.completions) {
            if (look.active == 0)
                end_with(&look, END_SUCCESS, "CompletionsReached",
                         "Reached expected number of succeeded pods");
        }
        if (look.end == GO_ON)
            note_suspension(&look);
    }
    count_pods(&look);
    if (look.end != GO_ON) {
        delete_active(&look);
        finish(&look);
    }
    write_status(&look);
    if (!has_room(&look, 1))
        effect_wake(effects, view->now);
}

void job_orphan_look(const struct object *pod, struct effects *effects)
{
    struct json *doc = object_json(pod, effects->arena);

    if (finalizer_remove(doc, JOB_TRACKING_FINALIZER))
        effect_update(effects, pod, doc);
}
