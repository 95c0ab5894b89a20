/* What people ask of jobs. */
#include "control/util.h"
#include "queue/internal.h"
#include "registry/access.h"

static int check(struct queue *queue, const struct identity *who, const char *uid, const struct object **ret,
                 struct err *err)
{
    *ret = store_by_uid(queue->store, uid);
    if (!*ret)
        return err_set(err, ERR_NOT_FOUND, "there is no job '%s'", uid);
    if (!queue_may(queue, who, uid, true))
        return err_set(err, ERR_FORBIDDEN, "'%s' is not yours: only its owner and admins may do that",
                       (*ret)->name);
    return 0;
}

int queue_check_change(struct queue *queue, const struct identity *who, const char *uid, struct err *err)
{
    const struct object *object;

    return check(queue, who, uid, &object, err);
}

static int delete_object(struct queue *queue, const struct identity *who, const struct object *object,
                         struct err *err)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure, .manager = "berth", .who = who};
    struct delete_options options = {.propagation = PROPAGATE_BACKGROUND, .uid = object->uid};
    struct written written;

    if (registry_delete(queue->registry, &write, object->kind, object->ns, object->name, &options, &written) <
        0)
        return err_set(err, ERR_CONFLICT, "%s", failure.message);
    return 0;
}

int queue_cancel(struct queue *queue, const struct identity *who, const char *uid, struct err *err)
{
    const struct object *object;
    struct unit *unit = unit_find(queue, uid);
    CLEANUP(free) char *reason = mem_printf("cancelled by %s", who ? who->user : "Berth");

    if (check(queue, who, uid, &object, err) < 0)
        return -1;
    if (phase_is_over(row_phase(queue, uid)))
        return err_set(err, ERR_CONFLICT, "job '%s' is over", object->name);
    if (object->kind->id != KIND_TRAINING_JOB) {
        log_info("%s/%s: %s", object->ns, object->name, reason);
        return delete_object(queue, who, object, err);
    }
    if (!unit)
        return err_set(err, ERR_CONFLICT, "job '%s' is over", object->name);
    return queue_step(queue, &(struct life_event){.type = LIFE_CANCEL, .id = unit->id, .text = reason}, err);
}

static bool edit_priority(void *arg, struct arena *arena, struct json *doc)
{
    int64_t value = *(const int64_t *)arg;
    struct json *labels = json_need_object(arena, json_need_object(arena, doc, "metadata"), "labels");

    json_set_string(arena, labels, "priority",
                    value < 0 ? arena_printf(arena, "0-%lld", (long long)-value)
                              : arena_printf(arena, "%lld", (long long)value));
    return true;
}

/* What was just written is heard of now, not when the watch tells. */
static void look_at_row(struct queue *queue, const char *uid)
{
    unit_list units = {0};

    row_units(queue, uid, &units);
    VEC_EACH(&units, it)
        queue_dirty(queue, (*it)->uid);
    vec_done(&units);
}

int queue_set_priority(struct queue *queue, const struct identity *who, const char *uid, int64_t priority,
                       struct err *err)
{
    const struct object *object;

    if (check(queue, who, uid, &object, err) < 0)
        return -1;
    if (priority > PRIORITY_MAX || priority < -PRIORITY_MAX)
        return err_set(err, ERR_INVALID, "priority: must be a whole number between %d and %d", -PRIORITY_MAX,
                       PRIORITY_MAX);
    if (edit_object(queue, object, edit_priority, &priority, NULL) < 0)
        return err_set(err, ERR_CONFLICT, "'%s' could not be changed", object->name);
    look_at_row(queue, uid);
    return 0;
}

static bool edit_claim(void *arg, struct arena *arena, struct json *doc)
{
    char text[CLOCK_TEXT_MAX];

    annotation_set(arena, doc, CLAIM_ANNOTATION, clock_format(*(const int64_t *)arg, text));
    return true;
}

/* Names of those that the plan stops for it, and whether it gets their place or starts. */
static bool add_stops(struct queue *queue, const struct unit *unit, int64_t now, struct buf *names)
{
    const struct plan *plan = life_plan(queue->life, now);
    const struct sched_view *view = live_view(life_live(queue->life));
    bool any = false;

    VEC_EACH(&plan->actions, it) {
        const struct workload *w = &view->jobs[it->job];

        if (w->id == unit->id && (it->type == ACTION_START || it->type == ACTION_CLAIM))
            any = true;
        if (it->by == SCHED_NONE || view->jobs[it->by].id != unit->id)
            continue;
        any = true;
        buf_printf(names, "%s'%s'", names->len ? ", " : "", w->name);
        if (w->user)
            buf_printf(names, " (%s)", w->user);
    }
    return any;
}

/* Whether a claim that stops nobody now will do so by itself: later, or since somebody is stopping already.
 */
static bool will_do(struct queue *queue, const struct unit *unit, int64_t now)
{
    const struct wait *wait = life_wait(queue->life, unit->life, now);

    return wait && (wait->reason == WAIT_PROTECTED || wait->reason == WAIT_VICTIM);
}

/* What a claim of the unit does; *what is empty when it is nothing. */
static void claim_unit(struct queue *queue, struct unit *unit, struct arena *arena, struct buf *what,
                       const char **why)
{
    CLEANUP(buf_done) struct buf names = {0}, reason = {0};
    int64_t now = queue_now(queue);
    bool any;

    *why = blocked_why(queue, unit, arena);
    if (*why)
        return;
    (void)life_step(queue->life, &(struct life_event){.type = LIFE_CLAIM, .id = unit->id}, now,
                    &queue->effects, NULL);
    any = add_stops(queue, unit, now, &names);
    life_why(queue->life, unit->life, now, &reason);
    if (names.len)
        buf_printf(what, "%sasked to stop for it: %s", what->len ? "; " : "", names.data);
    else if (any)
        buf_printf(what, "%snobody has to stop for it", what->len ? "; " : "");
    else if (will_do(queue, unit, now))
        buf_printf(what, "%snobody is asked to stop yet: %s", what->len ? "; " : "", reason.data);
    else
        *why = arena_strdup(arena, reason.data ? reason.data : "");
}

int queue_claim(struct queue *queue, const struct identity *who, const char *uid, struct arena *arena,
                const char **ret, struct err *err)
{
    CLEANUP(buf_done) struct buf what = {0};
    const struct object *object;
    const char *why = NULL;
    unit_list units = {0};
    int64_t now = queue_now(queue) * NSEC_PER_MSEC;

    if (check(queue, who, uid, &object, err) < 0)
        return -1;
    if (!phase_is_waiting(row_phase(queue, uid)))
        return err_set(err, ERR_CONFLICT, "job '%s' is not waiting: there is nothing to claim", object->name);
    if (queue->config.preemption == PREEMPTION_OFF)
        return err_set(err, ERR_CONFLICT, "preemption is off on this server: jobs wait until others end");
    row_units(queue, uid, &units);
    VEC_EACH(&units, it)
        if ((*it)->life && phase_is_waiting(unit_w(*it)->phase))
            claim_unit(queue, *it, arena, &what, &why);
    if (!what.len) {
        VEC_EACH(&units, it)
            (void)queue_step(queue, &(struct life_event){.type = LIFE_UNCLAIM, .id = (*it)->id}, NULL);
        vec_done(&units);
        return err_set(err, ERR_CONFLICT, "there is nothing that '%s' could claim%s%s", object->name,
                       why ? ": " : "", why ? why : "");
    }
    vec_done(&units);
    if (edit_object(queue, object, edit_claim, &now, NULL) < 0)
        return err_set(err, ERR_CONFLICT, "'%s' could not be changed", object->name);
    queue_soon(queue);
    *ret = arena_strndup(arena, what.data, what.len);
    return 0;
}

/* ---- again ---- */

static struct json *without_server_fields(struct arena *arena, const struct json *doc)
{
    static const char *const kept[] = {"labels", "annotations"};
    struct json *out = json_new_object(arena), *meta = json_set_object(arena, out, "metadata");
    const char *name = json_string_or(json_at(doc, "metadata.name"), "job");

    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        if (json_get(json_get(doc, "metadata"), kept[i]))
            json_set(arena, meta, kept[i], *json_copy(arena, json_get(json_get(doc, "metadata"), kept[i])));
    json_remove(json_get(meta, "annotations"), CLAIM_ANNOTATION);
    json_remove(json_get(meta, "annotations"), STOP_ANNOTATION);
    json_remove(json_get(meta, "annotations"), CARDS_ANNOTATION);
    json_remove(json_get(meta, "annotations"), RETRY_ANNOTATION);
    json_remove(json_get(meta, "annotations"), "kubectl.kubernetes.io/last-applied-configuration");
    json_set_string(arena, meta, "name", object_generate_name(arena, arena_printf(arena, "%s-", name)));
    json_set(arena, out, "spec", *json_copy(arena, json_get(doc, "spec")));
    return out;
}

int queue_rerun(struct queue *queue, const struct identity *who, const char *uid, struct arena *arena,
                const char **ret, struct err *err)
{
    const struct object *object;
    struct failure failure = {0};
    struct write write = {.arena = arena, .failure = &failure, .manager = "berth", .who = who};
    struct identity owner;
    struct written written;
    const struct json *old;
    struct json *doc;

    if (check(queue, who, uid, &object, err) < 0)
        return -1;
    old = object_json(object, arena);
    write.who = who ? identity_again(who, work_rights(old), &owner) : NULL;
    write.by = who;
    if (who && !write.who)
        return err_set(err, ERR_CONFLICT, "nothing says whose job '%s' is: it cannot be run again",
                       object->name);
    doc = without_server_fields(arena, old);
    if (who && !access_is_admin(who)) /* an admin's word about that job, not about its copies */
        json_remove(json_at(doc, "metadata.annotations"), KEEP_ANNOTATION);
    if (object->kind->id == KIND_JOB) {
        json_remove(json_get(doc, "spec"), "selector");
        json_remove(json_at(doc, "spec.template.metadata"), "labels");
        json_remove(json_at(doc, "metadata"), "labels");
        if (json_at(old, "metadata.labels.user"))
            json_set_string(arena, json_need_object(arena, json_get(doc, "metadata"), "labels"), "user",
                            json_at_string(old, "metadata.labels.user"));
    }
    if (object->kind->id == KIND_POD)
        json_remove(json_get(doc, "spec"), "nodeName");
    if (registry_create(queue->registry, &write, object->kind, object->ns, doc, &written) < 0)
        return err_set(err, failure.code == 403 ? ERR_FORBIDDEN : ERR_INVALID, "%s", failure.message);
    *ret = arena_strdup(arena, written.object->uid);
    return 0;
}

/* ---- what if ---- */

#define DRY_UID "00000000-0000-0000-0000-000000000000"

int queue_dry_run(struct queue *queue, const struct identity *who, const struct json *doc,
                  struct arena *arena, struct json **ret, struct err *err)
{
    const char *kind_name = json_string_or(json_get(doc, "kind"), "TrainingJob");
    const struct kind *kind = streq(kind_name, "Pod") ? kind_by_id(KIND_POD) : kind_by_id(KIND_TRAINING_JOB);
    struct json *copy = json_copy(arena, doc), *meta = json_need_object(arena, copy, "metadata");
    static const char *const copied[] = {"position", "startEstimate", "startLow", "startHigh"};
    CLEANUP(object_unref) struct object *object = NULL;
    struct json *out = json_new_object(arena), *row;
    CLEANUP(life_effects_done) struct life_effects unused = {0};
    struct life_desc desc;
    struct unit *unit;
    char time[CLOCK_TEXT_MAX];

    json_set_string(arena, meta, "uid", DRY_UID);
    json_set_string(arena, meta, "resourceVersion", "1");
    json_set_string(arena, meta, "creationTimestamp", clock_format(queue_now(queue) * NSEC_PER_MSEC, time));
    if (!json_get(meta, "name"))
        json_set_string(arena, meta, "name", "job");
    if (who && !json_get(json_get(meta, "labels"), "user") && access_is_known(who))
        json_set_string(arena, json_need_object(arena, meta, "annotations"), OWNER_ANNOTATION, who->user);
    json_remove(copy, "status");
    object = object_new(kind, arena, copy);
    if (kind->id == KIND_POD && !pod_queues(copy, object))
        return err_set(err, ERR_INVALID, "it would not queue here");
    unit = unit_need(queue, object);
    if (kind->id == KIND_POD)
        unit_describe_pod(queue, unit, object, copy, arena, &desc);
    else
        unit_describe_training(queue, unit, object, copy, arena, &desc);
    if (life_step(queue->life, &(struct life_event){.type = LIFE_SUBMIT, .desc = &desc}, queue_now(queue),
                  &unused, err) < 0) {
        unit_drop(queue, unit);
        return -1;
    }
    unit->life = life_find(queue->life, unit->id);
    row = row_json(queue, who, DRY_UID, arena);
    (void)life_step(queue->life, &(struct life_event){.type = LIFE_LEAVE, .id = unit->id}, queue_now(queue),
                    &unused, NULL);
    unit_drop(queue, unit);
    if (!row)
        return err_set(err, ERR_INTERNAL, "it could not be placed");
    row_copy(arena, out, row, copied, ARRAY_LEN(copied));
    json_set(arena, out, "job", *row);
    *ret = out;
    return 0;
}

/* ---- ports ---- */

bool queue_port_taken(struct queue *queue, uint16_t port, struct arena *arena, const char **name)
{
    UNITS_EACH(queue, it)
        for (size_t i = 0; i < it->ports.len; i++)
            if (it->ports.v[i] == port) {
                *name = arena_strdup(arena, it->name);
                return true;
            }
    return false;
}
