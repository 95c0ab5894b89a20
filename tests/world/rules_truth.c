/* rules_truth.c - what is shown, recorded and told is what happened: rules 6 to 8, and that no card is given
 * twice. */
#include "base/str.h"
#include "control/util.h"
#include "notify/inbox.h"
#include "objects/object_doc.h"
#include "rules_internal.h"
#include "script.h"
#include "store/disk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- cards ---- */

static void check_card(struct rules *rules, int64_t node, int64_t card)
{
    int64_t used = 0, whole = 0, boxes = 0;

    VEC_EACH(&rules->world->kubelet->boxes, it)
        for (size_t i = 0; i < (*it)->card_count; i++)
            if (box_alive(*it) && (*it)->node == node && (*it)->cards[i].card == card) {
                boxes++;
                whole += (*it)->cards[i].mib == 0;
                used += (*it)->cards[i].mib;
            }
    if ((whole && boxes > 1) || used > WORLD_CARD_MIB)
        world_broken(rules->world, "0-twice",
                     "card %" PRId64 " of lab%" PRId64 " is used by %" PRId64 " containers (%" PRId64 " MiB)",
                     card, node, boxes, used);
}

/* A job runs once at a time. Pods of a Job are replaced as soon as they are being deleted, as in Kubernetes.
 */
static void check_runs(struct rules *rules)
{
    VEC_EACH(&rules->world->kubelet->boxes, it)
        VEC_EACH(&rules->world->kubelet->boxes, other)
            if (it < other && (*it)->job && (*it)->job == (*other)->job && box_alive(*it) &&
                box_alive(*other) && (*it)->node == (*other)->node &&
                ((*it)->training || (!(*it)->term && !(*other)->term)))
                world_broken(rules->world, "0-twice", "job%" PRId64 " runs twice: %s and %s", (*it)->job,
                             (*it)->name, (*other)->name);
}

/* ---- 7: what is shown is what the node side does ---- */

enum truth { TRUTH_NOTHING, TRUTH_STARTING, TRUTH_RUNNING };

static enum truth truth_of(const struct rules *rules, int64_t job, bool *sure)
{
    enum truth truth = TRUTH_NOTHING;
    bool leaving = false; /* of a Job: the next pod is made meanwhile, and is what counts */

    *sure = true;
    VEC_EACH(&rules->world->kubelet->boxes, it) {
        if ((*it)->job != job)
            continue;
        *sure = *sure && node_works(rules->world, (*it)->node);
        if (box_alive(*it) && (*it)->term && !(*it)->training)
            leaving = true;
        else if (box_alive(*it))
            truth = TRUTH_RUNNING;
        else if ((*it)->state != BOX_ENDED && truth == TRUTH_NOTHING)
            truth = TRUTH_STARTING;
    }
    return truth == TRUTH_NOTHING && leaving ? TRUTH_RUNNING : truth;
}

static bool agrees(enum phase phase, enum truth truth)
{
    switch (phase) {
    case PHASE_PENDING:
    case PHASE_PREEMPTED:
        return truth == TRUTH_NOTHING;
    case PHASE_STARTING:
        return truth != TRUTH_RUNNING;
    case PHASE_RUNNING:
        return truth == TRUTH_RUNNING;
    default:
        return true;
    }
}

/* The object says what the row says. */
static void check_same(struct rules *rules, const struct row *row, struct track *track)
{
    const struct object *object = store_by_uid(rules->world->store, row->uid);
    const struct json *doc;
    int64_t eta, now = rules->now.at_ms;
    bool same;

    if (!object || object->kind->id != KIND_TRAINING_JOB ||
        (object->rv == track->same_rv && row->eta == track->same_eta && !track->differs_ms))
        return;
    track->same_rv = object->rv;
    track->same_eta = row->eta;
    doc = object_doc(object);
    eta = time_of(json_at(doc, "status.eta"), 0) / NSEC_PER_MSEC;
    same = streq(json_string_or(json_at(doc, "status.phase"), "Pending"), phase_name(row->phase)) &&
           (row->phase != PHASE_RUNNING || llabs(eta - row->eta) <= RULE_SLIDE_MS);
    if (same || (rules->world->jumped_ms && now - rules->world->jumped_ms < RULE_CLOCK_MS))
        track->differs_ms = 0;
    else if (!track->differs_ms)
        track->differs_ms = now;
    else if (now - track->differs_ms > RULE_LAG_MS)
        world_broken(
            rules->world, "7-same",
            "job%" PRId64 " is %s in the queue and %s for kubectl, where it ends %" PRId64 " s earlier",
            row->job, phase_name(row->phase), json_at_string(doc, "status.phase"), (row->eta - eta) / 1000);
}

void rules_check_shown(struct rules *rules, const struct row *row, struct track *track)
{
    bool sure;
    enum truth truth = truth_of(rules, row->job, &sure);
    int64_t now = rules->now.at_ms;

    if (!sure || agrees(row->phase, truth)) {
        track->unlike_ms = 0;
    } else if (!track->unlike_ms) {
        track->unlike_ms = now;
    } else if (now - track->unlike_ms > RULE_LAG_MS) {
        static const char *const words[] = {"nothing of it is there", "it is starting", "it runs"};

        world_broken(rules->world, "7-shown", "job%" PRId64 " is shown as %s for %" PRId64 " s, but %s",
                     row->job, phase_name(row->phase), (now - track->unlike_ms) / 1000, words[truth]);
    }
    check_same(rules, row, track);
}

/* 6, between: a Job whose pods may not be tried again does not run again after it failed. */
static void check_retries(struct rules *rules)
{
    VEC_EACH(&rules->world->jobs, it) {
        if (it->act.type != ACT_SUBMIT)
            continue;
        if ((it->act.kind == JOB_POD && it->ran > 1) ||
            ((it->act.kind == JOB_JOB || it->act.kind == JOB_TASK) && it->failed > it->act.retries + 1))
            world_broken(rules->world, "6-ends", "job%" PRId64 " ran %u times (%u failures)", it->act.job,
                         it->ran, it->failed);
    }
}

void rules_check_truth(struct rules *rules)
{
    const struct world *world = rules->world;

    for (int64_t node = 0; node < world->lab.nodes; node++)
        for (int64_t card = 0; card < world->lab.gpus; card++)
            check_card(rules, node, card);
    check_runs(rules);
    check_retries(rules);
}

/* ---- 8: estimates stand still while nothing happens ---- */

/* An epoch that takes longer than others did is news: ends are put off. */
static bool epoch_is_late(const struct rules *rules, int64_t job)
{
    VEC_EACH(&rules->world->kubelet->boxes, it) {
        const struct world_job *of = world_job(rules->world, (*it)->job);

        if (!of || (job && (*it)->job != job))
            continue;
        if (!node_works(rules->world, (*it)->node)) /* nothing is heard of it */
            return true;
        if ((*it)->state == BOX_ENDED)
            continue;
        if (rules->world->jumped_ms > (*it)->epoch_ms) /* by the clock it is, or was */
            return true;
        if ((*it)->unsaid) /* it is, for who has not heard of it */
            return true;
        if (!box_alive(*it)) /* nobody knows when it will run */
            return true;
        if (!(*it)->training || of->act.mib ||
            /* scripts here are not slowed by neighbours, as jobs are */ !(*it)->epoch_ms ||
            (*it)->done < 2 || of->act.fault == FAULT_SILENT ||
            (rules->now.at_ms - (*it)->epoch_ms) * 100 >
                script_epoch_ms(&of->act, (*it)->gpus, (*it)->done) * 85)
            return true;
    }
    return false;
}

/* Somebody waits who is tried again now and then, and nobody knows with what success. */
static bool someone_backs_off(struct rules *rules)
{
    for (size_t i = 0; i < rules->now.len; i++)
        if (phase_is_waiting(rules->now.rows[i].phase) && !could_start(rules, &rules->now.rows[i]))
            return true;
    return false;
}

void rules_check_slides(struct rules *rules)
{
    const struct look *now = &rules->now, *before = &rules->before;

    if (!before->valid || now->changes != before->changes || now->acts != before->acts ||
        now->wall_ms - before->wall_ms != now->at_ms - before->at_ms || now->at_ms == before->at_ms)
        return;
    for (size_t i = 0; i < now->len; i++) {
        const struct row *row = &now->rows[i], *was = row_of(before, row->job);
        struct track *track = track_of(rules, row->job);
        bool slid;

        if (!was || was->phase != row->phase || was->gpus != row->gpus)
            continue;
        slid = row->eta && was->eta > now->wall_ms && row->phase == PHASE_RUNNING &&
               llabs(row->eta - was->eta) > RULE_SLIDE_MS && !epoch_is_late(rules, row->job);
        track->slides = slid ? track->slides + 1 : 0;
        if (track->slides >= RULE_SLIDES)
            world_broken(rules->world, "8-slides",
                         "the end of job%" PRId64 " moves by %.1f s in %.1f s in which nothing happens",
                         row->job, (double)(row->eta - was->eta) / 1000,
                         (double)(now->at_ms - before->at_ms) / 1000);
        if (row->start && was->start > now->wall_ms + RULE_LAG_MS && !epoch_is_late(rules, 0) &&
            !someone_backs_off(rules) && phase_is_waiting(row->phase) && row->position == was->position &&
            llabs(row->start - was->start) > RULE_SLIDE_MS)
            world_broken(rules->world, "8-slides",
                         "the start of job%" PRId64 " moves by %.1f s in %.1f s in which nothing happens",
                         row->job, (double)(row->start - was->start) / 1000,
                         (double)(now->at_ms - before->at_ms) / 1000);
    }
}

/* ---- 6: every acknowledged job ends exactly once, with one record, and its owner is told ---- */

struct ends {
    int count;
    char how[24];
};

static bool count_end(void *arg, const struct record *record)
{
    struct ends *ends = arg;

    ends->count++;
    snprintf(ends->how, sizeof(ends->how), "%s", record->tag);
    return true;
}

bool rules_was_told(struct rules *rules, const struct world_job *job)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct json *box = inbox_list(rules->world->inbox, story_users[job->act.user], false, 0, &arena);

    JSON_EACH(json_get(box, "items"), it) {
        const char *kind = json_string_or(json_get(it, "kind"), "");

        if (streq(json_get_string(it, "job"), job->uid) &&
            (streq(kind, "failed") || streq(kind, "succeeded") || streq(kind, "cancelled") ||
             streq(kind, "preempted")))
            return true;
    }
    return false;
}

static void check_end(struct rules *rules, const struct world_job *job)
{
    struct record_query query = {.type = RECORD_JOB, .job = job->uid};
    struct ends ends = {0};
    struct err err = {0};

    if (store_records(rules->world->store, &query, count_end, &ends, &err) < 0)
        world_broken(rules->world, "6-ends", "%s", err.msg);
    if (job->acked ? ends.count != 1 : ends.count > 1)
        world_broken(rules->world, "6-ends", "job%" PRId64 " has %d records of its end", job->act.job,
                     ends.count);
    else if (job->acked && !job->unasked && !track_of(rules, job->act.job)->told &&
             /* boxes keep the newest */ !rules_was_told(rules, job))
        world_broken(rules->world, "6-told", "job%" PRId64 " ended as %s and its owner was told nothing",
                     job->act.job, ends.how);
}

void rules_end(struct rules *rules)
{
    if (!rules_all_over(rules)) {
        world_broken(rules->world, "6-ends", "%zu jobs never end, the first of them job%" PRId64 " (%s: %s)",
                     rules->now.len, rules->now.len ? rules->now.rows[0].job : 0,
                     rules->now.len ? phase_name(rules->now.rows[0].phase) : "",
                     rules->now.len ? rules->now.rows[0].reason : "");
        return;
    }
    VEC_EACH(&rules->world->jobs, it)
        if (*it->uid && !rules->world->broken_rule)
            check_end(rules, it);
}
