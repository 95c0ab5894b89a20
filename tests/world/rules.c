/* rules.c - looks at the lab after every event, and remembers what rules need to know about the past. */
#include "base/str.h"
#include "control/util.h"
#include "objects/object_doc.h"
#include "rules_internal.h"
#include "store/disk.h"

#include <inttypes.h>
#include <stdio.h>

struct rules *rules_new(struct world *world)
{
    struct rules *rules = NEW(struct rules);

    rules->world = world;
    rules->writes = UINT64_MAX;
    return rules;
}

void rules_free(struct rules *rules)
{
    if (!rules)
        return;
    arena_done(&rules->now.arena);
    arena_done(&rules->before.arena);
    VEC_EACH(&rules->tracks, it)
        free(*it);
    vec_done(&rules->tracks);
    vec_done(&rules->end_errors);
    free(rules);
}

void rules_set_only(struct rules *rules, const char *rule)
{
    rules->only = rule;
}

bool rules_wanted(const struct rules *rules, const char *rule)
{
    if (rules->only)
        return starts_with(rule, rules->only);
    return !rules_known_broken(rule);
}

uint64_t rules_looks(const struct rules *rules)
{
    return rules->looks;
}

unsigned rules_end_errors(const struct rules *rules, int *ret, unsigned max)
{
    unsigned count = rules->end_errors.len < max ? (unsigned)rules->end_errors.len : max;

    for (unsigned i = 0; i < count; i++)
        ret[i] = rules->end_errors.v[i];
    return count;
}

struct track *track_of(struct rules *rules, int64_t job)
{
    while (rules->tracks.len <= (size_t)job)
        vec_push(&rules->tracks, NEW(struct track));
    return rules->tracks.v[job];
}

const struct row *row_of(const struct look *look, int64_t job)
{
    for (size_t i = 0; i < look->len; i++)
        if (look->rows[i].job == job)
            return &look->rows[i];
    return NULL;
}

const struct row *row_by_uid(const struct look *look, const char *uid)
{
    for (size_t i = 0; i < look->len; i++)
        if (streq(look->rows[i].uid, uid))
            return &look->rows[i];
    return NULL;
}

/* ---- reading rows ---- */

static int64_t ms_of(const struct json *doc, const char *key)
{
    return time_of(json_get(doc, key), 0) / NSEC_PER_MSEC;
}

static double real_of(const struct json *value)
{
    return json_is(value, JSON_REAL) ? value->real : (double)json_int(value, 0);
}

static void read_cards(const struct json *doc, struct row *ret)
{
    JSON_EACH(json_get(doc, "cards"), it) {
        const char *node = json_string_or(json_get(it, "node"), "lab0");

        if (ret->card_count < ROW_CARDS_MAX)
            ret->cards[ret->card_count++] = (struct row_card){
                node[3] - '0', json_int(json_get(it, "index"), 0), json_int(json_get(it, "mib"), 0)};
    }
}

static void read_row(const struct json *doc, struct row *ret)
{
    *ret = (struct row){.job = world_number(json_string_or(json_get(doc, "name"), "")),
                        .uid = json_string_or(json_get(doc, "id"), ""),
                        .reason = json_string_or(json_get(doc, "reason"), ""),
                        .position = json_int(json_get(doc, "position"), 0),
                        .ordinal = real_of(json_get(doc, "ordinal")),
                        .gpus = json_int(json_get(doc, "gpus"), 0),
                        .gpus_min = json_int(json_get(doc, "gpusMin"), 0),
                        .gpus_max = json_int(json_get(doc, "gpusMax"), 0),
                        .eta = ms_of(doc, "eta"),
                        .start = ms_of(doc, "startEstimate"),
                        .start_high = ms_of(doc, "startHigh")};
    phase_find(json_string_or(json_get(doc, "state"), ""), &ret->phase);
    read_cards(doc, ret);
}

static void take_look(struct rules *rules)
{
    struct world *world = rules->world;
    struct look swap = rules->before, *look = &rules->now;
    const struct json *list;

    rules->before = rules->now;
    *look = swap;
    arena_reset(&look->arena);
    list = json_get(queue_list_json(world->queue, NULL, &(struct queue_filter){0}, &look->arena), "jobs");
    look->rows = arena_zalloc(&look->arena, (json_len(list) + 1) * sizeof(*look->rows));
    look->len = 0;
    JSON_EACH(list, it)
        read_row(it, &look->rows[look->len++]);
    look->at_ms = world_ms(world);
    look->wall_ms = world->clock.now / NSEC_PER_MSEC;
    look->changes = world->kubelet->changes;
    look->acts = world->acts;
    look->valid = true;
}

/* ---- what is so ---- */

bool node_works(const struct world *world, int64_t node)
{
    return world->kubelet->nodes[node].back_ms == 0;
}

int64_t free_cards(const struct rules *rules, int64_t node, const struct row *also)
{
    const struct world *world = rules->world;
    bool taken[ROW_CARDS_MAX] = {0};
    int64_t count = 0;

    if (!node_works(world, node))
        return 0;
    for (size_t i = 0; i < rules->now.len; i++) {
        const struct row *row = &rules->now.rows[i];

        for (size_t k = 0; k < row->card_count && row != also; k++)
            if (row->cards[k].node == node && row->cards[k].card < ROW_CARDS_MAX)
                taken[row->cards[k].card] = true;
    }
    VEC_EACH(&world->kubelet->boxes, it) /* of jobs that are over, too */
        for (size_t k = 0; k < (*it)->card_count; k++)
            if ((*it)->node == node && (*it)->state != BOX_ENDED && (*it)->cards[k].card < ROW_CARDS_MAX &&
                !(also && also->job == (*it)->job))
                taken[(*it)->cards[k].card] = true;
    for (int64_t i = 0; i < world->lab.gpus; i++)
        count += !taken[i] && !world->kubelet->nodes[node].failed[i];
    return count;
}

bool fits(const struct rules *rules, const struct row *row, const struct row *also)
{
    for (int64_t node = 0; node < rules->world->lab.nodes; node++)
        if (node_works(rules->world, node) && free_cards(rules, node, also) >= row->gpus_min)
            return true;
    return false;
}

bool whole_cards(struct rules *rules, const struct row *row)
{
    const struct world_job *job = world_job(rules->world, row->job);

    return job && row->gpus_min > 0 && job->act.mib == 0;
}

bool resumes(struct rules *rules, const struct row *row)
{
    const struct world_job *job = world_job(rules->world, row->job);

    return job && (job->act.kind == JOB_TRAINING || (job->act.kind == JOB_JOB && job->act.retries > 0));
}

/* As the quota counts: pods that are not over. */
static bool count_quota(struct world *world, const char *ns)
{
    const struct object *quota = store_get(world->store, KIND_RESOURCE_QUOTA, ns, "default");
    int64_t hard = 0, used = 0;

    if (!quota)
        return false;
    str_to_int(json_str(json_at(object_doc(quota), "spec.hard.pods")), &hard);
    OBJECTS_EACH(store_list(world->store, KIND_POD, ns), it)
        used += !pod_is_over(object_doc(*it));
    return used >= hard;
}

static bool quota_is_full(struct rules *rules, int64_t user)
{
    if (rules->quota_look[user] != rules->looks) {
        rules->quota_look[user] = rules->looks;
        rules->quota_full[user] = count_quota(rules->world, story_users[user]);
    }
    return rules->quota_full[user];
}

bool could_start(struct rules *rules, const struct row *row)
{
    struct world *world = rules->world;
    const struct world_job *job = world_job(world, row->job);
    int64_t most = 0;

    if (!job || job->act.fault == FAULT_CPU || job->act.fault == FAULT_SELECTOR ||
        job->act.fault == FAULT_CLAIM || job->act.fault == FAULT_IMAGE)
        return false;
    for (int64_t node = 0; node < world->lab.nodes; node++) {
        int64_t count = 0;

        for (int64_t i = 0; i < world->lab.gpus && node_works(world, node); i++)
            count += !world->kubelet->nodes[node].failed[i];
        most = count > most ? count : most;
    }
    /* A run over several nodes needs as many pods; which nodes those are is the scheduler's. */
    if (row->gpus_min > most || (world->lab.nodes > 1 && starts_with(row->reason, "cannot start") &&
                                 store_count(world->store, KIND_RESOURCE_QUOTA, NULL)))
        return false;
    return job->act.kind != JOB_TRAINING || !quota_is_full(rules, job->act.user);
}

/* ---- following jobs ---- */

static const struct json *stop_doc(struct rules *rules, const struct row *row, struct arena *arena,
                                   int64_t *to)
{
    struct world *world = rules->world;
    const struct object *object = store_by_uid(world->store, row->uid);
    const struct json *doc = object ? object_doc(object) : NULL;
    struct json *stop = NULL;
    const char *text;

    *to = (int64_t)json_len(json_at(doc, "status.reserved"));
    if (json_at(doc, "status.stop"))
        return json_at(doc, "status.stop");
    text = annotation_get(doc, STOP_ANNOTATION);
    if (!text && object && object->kind->id == KIND_JOB)
        VEC_EACH(&world->kubelet->boxes, it) {
            const struct object *pod = (*it)->job == row->job ? store_by_uid(world->store, (*it)->uid) : NULL;

            if (pod && !text)
                text = annotation_get(object_doc(pod), STOP_ANNOTATION);
        }
    if (text)
        json_parse(str_from(text), arena, &stop, NULL, NULL);
    return stop;
}

static void read_stop(struct rules *rules, const struct row *row, struct stop_seen *ret)
{
    CLEANUP(arena_done) struct arena arena = {0};
    int64_t to = 0;
    const struct json *stop = stop_doc(rules, row, &arena, &to);
    const char *by = json_get_string(stop, "by");
    const struct row *other = by ? row_by_uid(&rules->now, by) : NULL;

    *ret = (struct stop_seen){0};
    snprintf(ret->kind, sizeof(ret->kind), "%s",
             stop ? json_string_or(json_get(stop, "kind"), "preempt") : "");
    ret->by = other ? other->job : world_number(json_string_or(json_get(stop, "byName"), ""));
    ret->to = streq(ret->kind, "resize") ? to : 0;
}

static void phase_changed(struct rules *rules, const struct row *row, struct track *track)
{
    enum phase was = track->phase;
    int64_t now = rules->now.at_ms;
    bool held = track->seen && phase_holds(was);

    track->tries += was == PHASE_STARTING && phase_is_waiting(row->phase);
    track->phase = row->phase;
    track->since_ms = now;
    if (phase_holds(row->phase) && !held) {
        track->placed_ms = now;
        rules_check_start(rules, row, track);
    }
    track->runs_ms = row->phase == PHASE_RUNNING    ? (track->runs_ms ? track->runs_ms : now)
                     : row->phase == PHASE_STOPPING ? track->runs_ms
                                                    : 0;
    if (row->phase == PHASE_STOPPING) {
        read_stop(rules, row, &track->stop);
        rules_check_stop(rules, row, track);
    } else if (row->phase == PHASE_PREEMPTED) {
        bool resize = streq(track->stop.kind, "resize");

        track->preempted += !resize;
        track->resized += resize;
        track->resize_to = resize ? track->stop.to : 0;
        track->resize_ms = resize ? now : 0;
        track->stop = (struct stop_seen){0};
    } else {
        track->stop = (struct stop_seen){0};
    }
}

/* The end that was told when two epochs were done counts, where the job then went on undisturbed. */
static void follow_end(struct rules *rules, const struct row *row, struct track *track)
{
    const struct world_job *job = world_job(rules->world, row->job);

    if (row->phase != PHASE_RUNNING || !job || job->act.kind != JOB_TRAINING || job->act.fault) {
        track->told_end = 0;
    } else if (!track->told_at && job->saved == 2 && row->eta > rules->now.wall_ms + 60000) {
        track->told_at = rules->now.at_ms;
        track->told_end = row->eta - rules->now.wall_ms + rules->now.at_ms;
    }
}

static void follow(struct rules *rules, const struct row *row)
{
    struct track *track = track_of(rules, row->job);
    int64_t now = rules->now.at_ms;
    bool can = could_start(rules, row);

    if (track->over)
        world_broken(rules->world, "6-ends", "job%" PRId64 " is in the queue again after it had ended",
                     row->job);
    if (!track->seen || track->phase != row->phase)
        phase_changed(rules, row, track);
    track->seen = true;
    if (!phase_is_waiting(row->phase) || !can || rules->unsure_ms == now)
        track->waits_ms = 0;
    else if (!track->waits_ms)
        track->waits_ms = now;
    if (!track->waits_ms || row->ordinal > 1)
        track->first_ms = 0;
    else if (!track->first_ms)
        track->first_ms = now;
    if (!track->runs_ms || row->ordinal <= 1)
        track->later_ms = 0;
    else if (!track->later_ms)
        track->later_ms = now;
    rules_check_resize(rules, row, track);
    rules_check_shown(rules, row, track);
    follow_end(rules, row, track);
    track->blocked = !can && phase_is_waiting(row->phase);
    track->gpus = row->gpus;
}

static void find_end(struct rules *rules, int64_t job)
{
    struct track *track = track_of(rules, job);
    const struct world_job *of = world_job(rules->world, job);

    if (row_of(&rules->now, job))
        return;
    track->over = true;
    track->told = of && rules_was_told(rules, of);
    if (track->told_end && rules->before.valid && of && of->saved >= of->act.epochs)
        vec_push(&rules->end_errors,
                 (int)((rules->now.at_ms - track->told_end) * 100 / (track->told_end - track->told_at)));
    track->runs_ms = track->waits_ms = 0;
}

/* Also of those that ended while nobody could look. */
static void find_ends(struct rules *rules)
{
    for (size_t i = 0; i < rules->before.len && rules->before.valid; i++)
        find_end(rules, rules->before.rows[i].job);
    for (size_t job = 1; job < rules->tracks.len && !rules->before.valid; job++)
        if (rules->tracks.v[job]->seen && !rules->tracks.v[job]->over)
            find_end(rules, (int64_t)job);
}

/* The daemon was away, or nothing could be written: what lasts begins anew. */
static void begin_anew(struct rules *rules)
{
    VEC_EACH(&rules->tracks, at) {
        struct track *it = *at;

        it->waits_ms = it->held_ms = it->fits_ms = it->grows_ms = it->unlike_ms = it->nameless_ms =
            it->differs_ms = 0;
        it->head_ms = it->head_bound_ms = 0;
        it->resize_to = 0;
        it->first_ms = it->later_ms = 0;
        it->slides = 0;
    }
    rules->now.valid = rules->before.valid = false;
    rules->unsure_ms = world_ms(rules->world);
}

/* Something is so that may be so for a few seconds only. */
static bool something_lasts(const struct rules *rules)
{
    VEC_EACH(&rules->tracks, at) {
        const struct track *it = *at;

        if (!it->over && (it->unlike_ms || it->differs_ms || it->fits_ms || it->nameless_ms || it->resize_to))
            return true;
    }
    return false;
}

void rules_look(struct rules *rules)
{
    struct world *world = rules->world;
    int64_t now = world_ms(world);

    if (!world->up || store_disk_stopped(world->disk)) {
        if (rules->now.valid)
            begin_anew(rules);
        return;
    }
    if (world->kills + store_disk_failures(world->disk) + world->kubelet->faults != rules->kills) {
        rules->kills = world->kills + store_disk_failures(world->disk) + world->kubelet->faults;
        begin_anew(rules);
    }
    if (!store_durable(world->store) ||
        (world->writes == rules->writes && world->kubelet->changes == rules->changes &&
         now - rules->looked_ms < (something_lasts(rules) ? RULE_LAG_MS : RULE_LOOK_MS)))
        return;
    rules->writes = world->writes;
    rules->changes = world->kubelet->changes;
    rules->looked_ms = now;
    rules->looks++;
    take_look(rules);
    find_ends(rules);
    for (size_t i = 0; i < rules->now.len; i++)
        if (rules->now.rows[i].job > 0)
            follow(rules, &rules->now.rows[i]);
    rules_check_truth(rules);
    rules_check_waits(rules);
    rules_check_slides(rules);
}

void rules_print(const struct rules *rules)
{
    for (size_t i = 0; i < rules->now.len; i++) {
        const struct row *row = &rules->now.rows[i];

        printf("    job%-4" PRId64 " %-9s position %" PRId64 ", ordinal %.1f, %" PRId64 " GPUs (%" PRId64
               " to %" PRId64 ")",
               row->job, phase_name(row->phase), row->position, row->ordinal, row->gpus, row->gpus_min,
               row->gpus_max);
        for (size_t k = 0; k < row->card_count; k++)
            printf(" lab%" PRId64 "/%" PRId64, row->cards[k].node, row->cards[k].card);
        printf(": %s\n", row->reason);
    }
}

bool rules_all_over(struct rules *rules)
{
    return rules->world->up && rules->now.valid && rules->now.len == 0 &&
           rules->world->next == rules->world->story.acts.len;
}
