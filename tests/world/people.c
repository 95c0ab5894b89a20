/* people.c - what people do, through the same calls that the API makes for them. */
#include "base/str.h"
#include "control/util.h"
#include "kubelet.h"
#include "queue/queue.h"
#include "registry/access.h"
#include "store/disk.h"
#include "tasks/tasks.h"
#include "world.h"

#include <inttypes.h>
#include <stdio.h>

static const int kinds_of[JOB_KINDS] = {KIND_POD, KIND_JOB, KIND_TRAINING_JOB, KIND_JOB};

struct identity world_identity(int64_t user)
{
    return (struct identity){.user = story_users[user], .groups = {"system:authenticated"}, .group_count = 1};
}

/* ---- documents ---- */

static void set_pod_spec(struct arena *arena, struct json *spec, const struct act *act)
{
    struct json *container, *limits;

    json_set_string(arena, spec, "restartPolicy", "Never");
    container = json_push_object(arena, json_set_array(arena, spec, "containers"));
    json_set_string(arena, container, "name", "c");
    json_set_string(arena, container, "image", act->fault == FAULT_IMAGE ? "lab/trian:1" : "lab/train:1");
    limits = json_set_object(arena, json_set_object(arena, container, "resources"), "limits");
    json_set_string(arena, limits, "cpu", "1");
    json_set_string(arena, limits, "memory", "1Gi");
    if (act->gpus)
        json_set_int(arena, limits, GPU_RESOURCE, act->gpus);
    if (act->fault == FAULT_SELECTOR)
        json_set_string(arena, json_set_object(arena, spec, "nodeSelector"), "zone", "nowhere");
    if (act->fault == FAULT_CLAIM) {
        struct json *volume = json_push_object(arena, json_set_array(arena, spec, "volumes"));

        json_set_string(arena, volume, "name", "data");
        json_set_string(arena, json_set_object(arena, volume, "persistentVolumeClaim"), "claimName",
                        "never-made");
    }
}

static void set_training_spec(struct arena *arena, struct json *spec, const struct act *act)
{
    json_set_string(arena, spec, "image", act->fault == FAULT_IMAGE ? "lab/trian:1" : "lab/train:1");
    json_push_string(arena, json_set_array(arena, spec, "command"), "train");
    json_set_int(arena, spec, "maxEpochs", act->epochs ? act->epochs : 1);
    if (act->max > 1) {
        json_set_int(arena, spec, "maxGPUs", act->max);
        if (act->min > 1)
            json_set_int(arena, spec, "minGPUs", act->min);
    } else {
        json_set_bool(arena, spec, "singleGPU", true);
    }
    if (act->declared_h)
        json_set_int(arena, spec, "estimatedHours", act->declared_h + 1);
    if (act->mib)
        json_set_int(arena, spec, "estimatedMemoryMiB", act->mib);
    if (act->fault == FAULT_CPU)
        json_set_string(arena, spec, "cpu", "50m");
}

static struct json *make_doc(struct arena *arena, const struct act *act)
{
    struct json *doc = json_new_object(arena), *meta = json_set_object(arena, doc, "metadata"), *spec;

    json_set_string(arena, meta, "name", arena_printf(arena, "job%" PRId64, act->job));
    if (act->priority)
        json_set_string(arena, json_set_object(arena, meta, "labels"), PRIORITY_LABEL,
                        act->priority < 0 ? arena_printf(arena, "0-%" PRId64, -act->priority)
                                          : arena_printf(arena, "%" PRId64, act->priority));
    spec = json_set_object(arena, doc, "spec");
    if (act->kind == JOB_TRAINING) {
        set_training_spec(arena, spec, act);
    } else if (act->kind == JOB_JOB) {
        json_set_int(arena, spec, "backoffLimit", act->retries);
        spec = json_set_object(arena, json_set_object(arena, spec, "template"), "spec");
        set_pod_spec(arena, spec, act);
    } else {
        set_pod_spec(arena, spec, act);
    }
    return doc;
}

/* ---- submitting ---- */

struct receipt {
    struct world *world;
    int64_t job;
    bool before; /* what was so when it was asked for */
};

static void taken(void *arg, const struct err *err)
{
    struct receipt *receipt = arg;
    struct world_job *job = world_job(receipt->world, receipt->job);

    if (err)
        job->refused = true;
    else
        job->acked = true;
    free(receipt);
}

struct submitted {
    int result;
    struct tasks_made made;
};

/* Templates are rendered here, so it is called at once. */
static void note_submitted(void *arg, int result, const struct tasks_made *made)
{
    *(struct submitted *)arg = (struct submitted){result, *made};
}

static int submit_task(struct world *world, const struct act *act, struct arena *arena,
                       struct failure *failure, struct world_job *job)
{
    struct identity who = world_identity(act->user);
    struct write write = {.who = &who, .arena = arena, .failure = failure};
    const char *ns = story_users[act->user], *name = arena_printf(arena, "job%" PRId64, act->job);
    struct json *doc = json_new_object(arena), *values = json_new_object(arena), *spec, *image;
    struct tasks_request request = {.who = &who,
                                    .ns = ns,
                                    .values = values,
                                    .now = clock_now(),
                                    .arena = arena,
                                    .failure = failure,
                                    .warnings = json_new_array(arena)};
    struct written written;
    struct submitted submitted = {0};

    json_set_string(arena, json_set_object(arena, doc, "metadata"), "name", name);
    spec = json_set_object(arena, doc, "spec");
    json_set_string(arena, spec, "taskTemplateName", "single-gpu-task");
    json_set_string(arena, spec, "creator", ns);
    json_set_string(arena, spec, "application", "lab");
    image = json_set_object(arena, json_set_object(arena, spec, "systemValues"), "image");
    json_set_string(arena, image, "repository", "lab/train");
    json_set_string(arena, image, "pullPolicy", "Always");
    if (registry_create(world->registry, &write, kind_by_id(KIND_TASK_DEFINITION), ns, doc, &written) < 0)
        return -1;
    json_set_string(arena, values, "taskDef", name);
    json_set_string(arena, values, "name", name);
    tasks_submit(world->tasks, &request, note_submitted, &submitted);
    if (submitted.result < 0)
        return -1;
    OBJECTS_EACH(store_list(world->store, KIND_JOB, ns), it)
        if (streq((*it)->name, submitted.made.release))
            snprintf(job->uid, sizeof(job->uid), "%s", (*it)->uid);
    return 0;
}

static int submit_object(struct world *world, const struct act *act, struct arena *arena,
                         struct failure *failure, struct world_job *job)
{
    struct identity who = world_identity(act->user);
    struct write write = {.who = &who, .arena = arena, .failure = failure};
    const struct kind *kind = kind_by_id(kinds_of[act->kind]);
    struct written written;

    if (registry_create(world->registry, &write, kind, story_users[act->user], make_doc(arena, act),
                        &written) < 0)
        return -1;
    snprintf(job->uid, sizeof(job->uid), "%s", written.object->uid);
    return 0;
}

static void submit(struct world *world, const struct act *act)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure failure = {0};
    struct world_job *job;
    struct receipt *receipt;

    while (world->jobs.len <= (size_t)act->job)
        vec_push(&world->jobs, (struct world_job){0});
    job = &world->jobs.v[act->job];
    if (job->act.type == ACT_SUBMIT)
        return; /* its number is taken */
    job->act = *act;
    if ((act->kind == JOB_TASK ? submit_task : submit_object)(world, act, &arena, &failure, job) < 0) {
        job->refused = true;
        world->refusals++;
        world_note(world, "job%" PRId64 " is refused: %s", act->job, failure.message);
        return;
    }
    receipt = NEW(struct receipt);
    *receipt = (struct receipt){.world = world, .job = act->job};
    store_defer(world->store, taken, receipt);
    queue_see(world->queue, job->uid);
}

/* ---- the rest ---- */

static void noted(struct world *world, int result, const struct err *err)
{
    if (result < 0)
        world_note(world, "refused: %s", err->msg);
}

static const struct object *object_of(struct world *world, const struct world_job *job)
{
    return job && *job->uid ? store_by_uid(world->store, job->uid) : NULL;
}

/* Its owner is told whether it is cancelled or deleted; who hears nothing, of a daemon that was killed, does
 * not know. */
static void unasked(void *arg, const struct err *err)
{
    struct receipt *receipt = arg;
    struct world_job *job = world_job(receipt->world, receipt->job);

    if (err)
        job->unasked = receipt->before;
    free(receipt);
}

static void unasked_later(struct world *world, struct world_job *job)
{
    struct receipt *receipt = NEW(struct receipt);

    *receipt = (struct receipt){world, job->act.job, job->unasked};
    job->unasked = true;
    store_defer(world->store, unasked, receipt);
}

static void delete_job(struct world *world, struct world_job *job)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure failure = {0};
    struct identity who = world_identity(job->act.user);
    struct write write = {.who = &who, .arena = &arena, .failure = &failure};
    struct delete_options options = {.propagation = PROPAGATE_BACKGROUND};
    const struct object *object = object_of(world, job);
    struct written written;

    if (object && registry_delete(world->registry, &write, object->kind, object->ns, object->name, &options,
                                  &written) == 0)
        unasked_later(world, job);
}

static void relabel(struct world *world, struct world_job *job, const char *key, const char *value)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure failure = {0};
    struct identity who = world_identity(job->act.user);
    struct write write = {.who = &who, .arena = &arena, .failure = &failure};
    const struct object *object = object_of(world, job);
    struct json *patch = json_new_object(&arena);
    struct written written;

    if (!object)
        return;
    json_set_string(&arena, json_set_object(&arena, json_set_object(&arena, patch, "metadata"), "labels"),
                    key, value);
    if (registry_patch(world->registry, &write, object->kind, object->ns, object->name, PATCH_MERGE, patch,
                       &written) < 0)
        world_note(world, "label %s=%s of job%" PRId64 " is refused: %s", key, value, job->act.job,
                   failure.message);
}

static void set_quota(struct world *world, const struct act *act)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure, .manager = "admin"};
    const char *ns = story_users[act->user];
    const struct kind *kind = kind_by_id(KIND_RESOURCE_QUOTA);
    struct delete_options options = {.has_grace = true};
    struct json *doc = json_new_object(&arena);
    struct written written;

    if (act->user >= world->lab.users)
        return;
    if (store_get(world->store, KIND_RESOURCE_QUOTA, ns, "default"))
        registry_delete(world->registry, &write, kind, ns, "default", &options, &written);
    if (act->n <= 0)
        return;
    json_set_string(&arena, json_set_object(&arena, doc, "metadata"), "name", "default");
    json_set_string(&arena, json_set_object(&arena, json_set_object(&arena, doc, "spec"), "hard"), "pods",
                    arena_printf(&arena, "%" PRId64, act->n));
    registry_create(world->registry, &write, kind, ns, doc, &written);
}

static void act_on_job(struct world *world, const struct act *act)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct world_job *job = world_job(world, act->job);
    struct identity who;
    struct err err = {0};
    const char *said;

    if (!job || !*job->uid)
        return;
    who = world_identity(job->act.user);
    switch ((enum act_type)act->type) {
    case ACT_CANCEL:
        if (queue_cancel(world->queue, &who, job->uid, &err) < 0)
            noted(world, -1, &err);
        else
            unasked_later(world, job);
        break;
    case ACT_DELETE:
        delete_job(world, job);
        break;
    case ACT_PRIORITY:
        noted(world, queue_set_priority(world->queue, &who, job->uid, (int32_t)act->priority, &err), &err);
        break;
    case ACT_LABEL:
        if (act->n)
            relabel(world, job, PRIORITY_LABEL, "abc");
        else
            relabel(world, job, USER_LABEL, story_users[act->user]);
        break;
    default:
        if (queue_claim(world->queue, &who, job->uid, &arena, &said, &err) < 0)
            noted(world, -1, &err);
        else
            job->claimed = true;
        break;
    }
}

void people_act(struct world *world, const struct act *act)
{
    CLEANUP(buf_done) struct buf words = {0};

    world->acts++;
    act_words(act, &words);
    world_note(world, "%s", words.data);
    switch ((enum act_type)act->type) {
    case ACT_LAB:
        break;
    case ACT_SUBMIT:
        submit(world, act);
        break;
    case ACT_QUOTA:
        set_quota(world, act);
        break;
    case ACT_NODE:
        kubelet_node(world->kubelet, act);
        break;
    case ACT_CARD:
        kubelet_card(world->kubelet, act);
        break;
    case ACT_CLOCK:
        world->clock.now += act->n * NSEC_PER_MSEC;
        world->jumped_ms = world_ms(world);
        world->kubelet->faults++; /* what lasts is measured anew */
        break;
    case ACT_KILL:
        world->down_ms = act->down_s * 1000;
        store_disk_stop_after(world->disk, (uint64_t)act->n);
        break;
    case ACT_FULL:
        store_disk_fail(world->disk, (unsigned)act->n);
        break;
    default:
        act_on_job(world, act);
        break;
    }
}
