/* rules_order.c - who gets cards, who loses them, and when: rules 1 to 5. */
#include "base/str.h"
#include "control/util.h"
#include "rules_internal.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const not_said = "(nothing)";

/* ---- at the moment somebody is asked to stop ---- */

static bool same_user(struct rules *rules, const struct row *a, const struct row *b)
{
    return world_job(rules->world, a->job)->act.user == world_job(rules->world, b->job)->act.user;
}

/* 1: nobody is displaced for work that cannot start now. */
static void check_displaced(struct rules *rules, const struct row *row, const struct track *track)
{
    const struct row *by = track->stop.by ? row_of(&rules->now, track->stop.by) : NULL;
    const struct track *other = by ? track_of(rules, by->job) : NULL;

    if (by && phase_is_waiting(by->phase) && other->seen && other->blocked && !same_user(rules, row, by) &&
        /* whose quota it would free */ !could_start(rules, by) &&
        !(world_job(rules->world, by->job)->act.fault == FAULT_IMAGE && other->tries == 0))
        world_broken(rules->world, "1-displaced",
                     "job%" PRId64 " is stopped for job%" PRId64 ", which cannot start now (%s)", row->job,
                     by->job, by->reason);
}

/* 2: nothing starts and stops in one instant, and a minimum run is kept. */
static void check_instant(struct rules *rules, const struct row *row, const struct track *track)
{
    int64_t now = rules->now.at_ms, least = rules->world->lab.min_run_s * 1000;
    const struct world_job *by = world_job(rules->world, track->stop.by);
    const struct world_job *job = world_job(rules->world, row->job);

    if (job->unasked || (by && by->claimed))
        return;
    if (now - track->placed_ms < 1000)
        world_broken(rules->world, "2-instant", "job%" PRId64 " is placed and stopped within %" PRId64 " ms",
                     row->job, now - track->placed_ms);
    else if (track->runs_ms && now - track->runs_ms + 1000 < least)
        world_broken(rules->world, "2-instant",
                     "job%" PRId64 " is stopped after %" PRId64 " s of a minimum run of %" PRId64 " s",
                     row->job, (now - track->runs_ms) / 1000, least / 1000);
}

/* 3 and section 3 of the issue: what cannot resume goes only when its place was claimed. */
static void check_bare(struct rules *rules, const struct row *row, const struct track *track)
{
    const struct world_job *by = world_job(rules->world, track->stop.by);

    if (!resumes(rules, row) && streq(track->stop.kind, "preempt") && !(by && by->claimed))
        world_broken(rules->world, "3-bare",
                     "job%" PRId64 " cannot resume and is stopped for job%" PRId64
                     ", whose owner never asked",
                     row->job, track->stop.by);
}

/* 4: a shrink takes what is needed, not more: by those that wait and, where it is for nobody of them, by
 * elastic jobs to which the cards are worth more. */
static void check_shrink(struct rules *rules, const struct row *row, const struct track *track)
{
    int64_t need = 0;

    if (!streq(track->stop.kind, "resize") || !track->stop.to || track->stop.to >= track->gpus)
        return;
    for (size_t i = 0; i < rules->now.len; i++) {
        const struct row *other = &rules->now.rows[i];

        if (phase_is_waiting(other->phase))
            need += other->gpus_min;
        else if (!track->stop.by && other->job != row->job && other->gpus_max > other->gpus)
            need += other->gpus_max - other->gpus;
    }
    if (track->gpus - track->stop.to > need)
        world_broken(rules->world, "4-shrink",
                     "job%" PRId64 " shrinks from %" PRId64 " to %" PRId64 " GPUs; %" PRId64
                     " are waited for",
                     row->job, track->gpus, track->stop.to, need);
}

void rules_check_stop(struct rules *rules, const struct row *row, struct track *track)
{
    if (!streq(track->stop.kind, "preempt") && !streq(track->stop.kind, "resize"))
        return;
    if (rules->unsure_ms + RULE_LAG_MS > rules->now.at_ms)
        return;
    check_displaced(rules, row, track);
    check_instant(rules, row, track);
    check_bare(rules, row, track);
    check_shrink(rules, row, track);
}

/* ---- at the moment somebody gets cards ---- */

/* A larger job is before it, and free cards gather for that one. */
static bool behind_larger(struct rules *rules, const struct row *row)
{
    for (size_t i = 0; i < rules->now.len; i++) {
        const struct row *other = &rules->now.rows[i];

        if (phase_is_waiting(other->phase) && other->position && other->position < row->position &&
            other->gpus_min > 1 && track_of(rules, other->job)->waits_ms)
            return true;
    }
    return false;
}

/* 2: no job starts on cards that an earlier one waits for and could use now. */
static void check_order(struct rules *rules, const struct row *row)
{
    const struct row *was = row_of(&rules->before, row->job);

    for (size_t i = 0; i < rules->now.len; i++) {
        const struct row *other = &rules->now.rows[i], *before = row_of(&rules->before, other->job);
        const struct track *track = track_of(rules, other->job);
        bool first;

        if (!phase_is_waiting(other->phase) || !before || !before->position || !track->waits_ms ||
            rules->now.at_ms - track->waits_ms < RULE_LAG_MS || !whole_cards(rules, other) ||
            other->ordinal > row->ordinal)
            continue;
        /* First GPUs come before later ones. Within these the order goes by length and by what users have
         * used of late, which change as jobs run. A large job that is at the head stays there. */
        first = other->ordinal <= 1 && row->ordinal > 1 &&
                (!was || !was->position || before->position < was->position);
        if (first && !behind_larger(rules, other) && fits(rules, other, row))
            world_broken(rules->world, "2-order",
                         "job%" PRId64 " (ordinal %.1f, position %" PRId64
                         ") starts on cards that job%" PRId64 " (ordinal %.1f, position %" PRId64
                         ") could use and waits for",
                         row->job, row->ordinal, was ? was->position : 0, other->job, other->ordinal,
                         before->position);
    }
}

void rules_check_start(struct rules *rules, const struct row *row, struct track *track)
{
    if (!rules->before.valid || rules->unsure_ms + RULE_LAG_MS > rules->now.at_ms)
        return;
    if (track->resize_to) {
        if (row->gpus < track->resize_to)
            world_broken(rules->world, "2-shrink",
                         "job%" PRId64 " was to go on with %" PRId64 " GPUs and starts on %" PRId64, row->job,
                         track->resize_to, row->gpus);
        track->resize_to = 0;
        return;
    }
    if (whole_cards(rules, row))
        check_order(rules, row);
}

/* 2: a shrinking job keeps what it shrinks to: it goes on as soon as it has stopped. */
void rules_check_resize(struct rules *rules, const struct row *row, struct track *track)
{
    if (track->resize_to && (!phase_is_waiting(row->phase) || !could_start(rules, row)))
        track->resize_to = 0;
    if (track->resize_to && rules->now.at_ms - track->resize_ms > RULE_LAG_MS)
        world_broken(rules->world, "2-shrink",
                     "job%" PRId64 " stopped to go on with %" PRId64 " GPUs, and still waits after %" PRId64
                     " s: %s",
                     row->job, track->resize_to, (rules->now.at_ms - track->resize_ms) / 1000, row->reason);
}

/* ---- while time goes by ---- */

/* Nothing but itself keeps it from starting. */
static bool could_be_next(struct rules *rules, const struct row *row)
{
    for (size_t i = 0; i < rules->now.len; i++)
        if (rules->now.rows[i].phase == PHASE_STOPPING ||
            (phase_is_waiting(rules->now.rows[i].phase) && track_of(rules, rules->now.rows[i].job)->waits_ms))
            return false;
    return fits(rules, row, NULL);
}

/* 1: what cannot start says why, and holds no card past the documented time. */
static void check_held(struct rules *rules, const struct row *row, struct track *track)
{
    const struct world_job *job = world_job(rules->world, row->job);
    bool stuck = false;
    int64_t now = rules->now.at_ms;

    VEC_EACH(&rules->world->kubelet->boxes, it)
        stuck = stuck || ((*it)->job == row->job && (*it)->state == BOX_STUCK &&
                          node_works(rules->world, (*it)->node));
    if (!stuck || !row->card_count) {
        track->held_ms = 0;
    } else if (!track->held_ms) {
        track->held_ms = now;
    } else if (track->placed_ms > track->held_ms) {
        track->held_ms = track->placed_ms;
    } else if (now - track->held_ms > RULE_STUCK_MS + RULE_SLACK_MS) {
        world_broken(rules->world, "1-held",
                     "job%" PRId64 " cannot start and holds %zu cards for %" PRId64 " s (%s)", row->job,
                     row->card_count, (now - track->held_ms) / 1000, row->reason);
    }
    if (phase_is_waiting(row->phase) && now - track->since_ms > RULE_LAG_MS &&
        now - rules->unsure_ms > RULE_LAG_MS &&
        (job->act.fault == FAULT_CPU || job->act.fault == FAULT_SELECTOR || job->act.fault == FAULT_CLAIM) &&
        could_be_next(rules, row) && !strstr(row->reason, "cannot") && node_works(rules->world, 0))
        world_broken(rules->world, "1-says", "job%" PRId64 " cannot start, and its reason is '%s'", row->job,
                     *row->reason ? row->reason : not_said);
}

/* How long a job may take to stop: its minimum run, two epochs within bounds, TERM to KILL. */
static int64_t stop_bound(struct rules *rules, const struct row *row)
{
    const struct world *world = rules->world;
    const struct world_job *job = world_job(rules->world, row->job);
    int64_t stop = job->act.epoch_s * 2 * 1100;

    stop = stop > world->lab.stop_s * 1000 ? stop : world->lab.stop_s * 1000;
    stop = stop < RULE_STOP_MAX_MS ? stop : RULE_STOP_MAX_MS;
    return world->lab.min_run_s * 1000 + stop + RULE_GRACE_MS + RULE_SLACK_MS;
}

/* Somebody is stopping for it already, and has the time to. */
static bool is_served(struct rules *rules, const struct row *row)
{
    for (size_t i = 0; i < rules->now.len; i++) {
        const struct row *other = &rules->now.rows[i];
        const struct track *its = track_of(rules, other->job);

        if (other->phase != PHASE_STOPPING || !world_job(rules->world, other->job))
            continue;
        if (rules->now.at_ms - its->since_ms < stop_bound(rules, other) &&
            (its->stop.by == row->job || strstr(row->reason, "has stopped")))
            return true;
    }
    return false;
}

static bool in_last_epoch(struct rules *rules, const struct row *row)
{
    const struct world_job *job = world_job(rules->world, row->job);

    return job->act.kind == JOB_TRAINING && job->saved + 1 >= (job->act.epochs ? job->act.epochs : 1);
}

/* Who stops elsewhere frees nothing that another could use. */
static bool cards_work(const struct world *world, const struct row *row)
{
    for (size_t i = 0; i < row->card_count; i++)
        if (node_works(world, row->cards[i].node) &&
            !world->kubelet->nodes[row->cards[i].node].failed[row->cards[i].card])
            return true;
    return false;
}

/* 3: while a startable first-GPU job waits, no later GPU of anybody that may be displaced goes on past its
 * minimum run and its stop time. */
static void check_promise(struct rules *rules, const struct row *row, struct track *track)
{
    int64_t now = rules->now.at_ms;
    bool bare = false, others = false, named = false;

    if (!track->first_ms || row->gpus_min != 1 || !whole_cards(rules, row) || rules->world->lab.ask ||
        is_served(rules, row))
        return;
    for (size_t i = 0; i < rules->now.len; i++) {
        const struct row *other = &rules->now.rows[i];
        const struct track *its = track_of(rules, other->job);
        int64_t both;

        if (!other->card_count || !whole_cards(rules, other) || other->ordinal <= 1 ||
            other->job == row->job || !cards_work(rules->world, other))
            continue;
        if (!resumes(rules, other)) {
            const struct world_job *job = world_job(rules->world, other->job);
            char name[32];

            snprintf(name, sizeof(name), "job%" PRId64, other->job);
            bare = bare || job->act.kind == JOB_POD;
            named = named || strstr(row->reason, name);
            continue;
        }
        others = true;
        if (!its->later_ms || in_last_epoch(rules, other))
            continue;
        both = now - (track->first_ms > its->later_ms ? track->first_ms : its->later_ms);
        if (both > stop_bound(rules, other))
            world_broken(rules->world, "3-first",
                         "job%" PRId64 " (first GPU) waits for %" PRId64 " s while job%" PRId64
                         " (ordinal %.1f) goes on: %s",
                         row->job, both / 1000, other->job, other->ordinal, row->reason);
    }
    if (!bare || others || named || strstr(row->reason, "make room") || strstr(row->reason, "stopped"))
        track->nameless_ms = 0;
    else if (!track->nameless_ms)
        track->nameless_ms = now;
    else if (now - track->nameless_ms > RULE_LAG_MS)
        world_broken(rules->world, "3-names",
                     "only bare pods are in the way of job%" PRId64 ", and it does not say which: %s",
                     row->job, row->reason);
}

/* The first in the order that could start. */
static const struct row *head_of(struct rules *rules)
{
    const struct row *head = NULL;

    for (size_t i = 0; i < rules->now.len; i++) {
        const struct row *row = &rules->now.rows[i];

        if (row->position && track_of(rules, row->job)->waits_ms && (!head || row->position < head->position))
            head = row;
    }
    return head;
}

/* A script that heard its stop is saving: what it goes on with is kept for it. */
static bool someone_leaves(const struct rules *rules)
{
    VEC_EACH(&rules->world->kubelet->boxes, it)
        if ((*it)->state == BOX_LEAVING)
            return true;
    return false;
}

/* Somebody stops for it: where that is its own user's, a quota that is full now is not full then. */
static bool is_waited_for(struct rules *rules, int64_t job)
{
    for (size_t i = 0; i < rules->now.len; i++)
        if (rules->now.rows[i].phase == PHASE_STOPPING &&
            track_of(rules, rules->now.rows[i].job)->stop.by == job)
            return true;
    return false;
}

/* Cards are kept for one before it in the order that could not start now: one that somebody makes room for,
 * or one that cannot be pulled, which nobody knows before it was tried. */
static bool behind_kept(struct rules *rules, const struct row *head)
{
    for (size_t i = 0; i < rules->now.len; i++) {
        const struct row *row = &rules->now.rows[i];
        const struct world_job *job = world_job(rules->world, row->job);

        if (!job || !phase_is_waiting(row->phase) || !row->position || row->position >= head->position)
            continue;
        if ((job->act.fault == FAULT_IMAGE && track_of(rules, row->job)->tries == 0) ||
            is_waited_for(rules, row->job))
            return true;
    }
    return false;
}

/* 4: no card idles longer than a few seconds while waiting work fits it. */
static void check_idle(struct rules *rules, const struct row *head)
{
    int64_t now = rules->now.at_ms;

    for (size_t i = 0; i < rules->now.len; i++) {
        struct track *track = track_of(rules, rules->now.rows[i].job);

        if (&rules->now.rows[i] != head)
            track->fits_ms = 0;
    }
    if (!head)
        return;
    if (someone_leaves(rules) || behind_kept(rules, head) || !fits(rules, head, NULL) ||
        (head->gpus_min > 0 && !whole_cards(rules, head))) {
        track_of(rules, head->job)->fits_ms = 0;
        return;
    }
    if (!track_of(rules, head->job)->fits_ms)
        track_of(rules, head->job)->fits_ms = now;
    if (now - track_of(rules, head->job)->fits_ms > RULE_LAG_MS)
        world_broken(rules->world, "4-idle",
                     "job%" PRId64 " is the first in the order and fits free cards for %" PRId64 " s: %s",
                     head->job, (now - track_of(rules, head->job)->fits_ms) / 1000, head->reason);
}

static int64_t left_ms(const struct world_job *job, int64_t gpus)
{
    return (job->act.epochs - job->saved) * job->act.epoch_s * 1000 / (gpus ? gpus : 1);
}

/* 4, elastic work: cards that a long elastic job could use do not stay free. */
static void check_growth(struct rules *rules, const struct row *head)
{
    int64_t now = rules->now.at_ms;

    for (size_t i = 0; i < rules->now.len; i++) {
        const struct row *row = &rules->now.rows[i];
        const struct world_job *job = world_job(rules->world, row->job);
        struct track *track = track_of(rules, row->job);

        if (head || row->phase != PHASE_RUNNING || row->gpus >= row->gpus_max || !row->card_count || !job ||
            job->act.kind != JOB_TRAINING || job->act.fault || job->act.mib || job->saved < 3 ||
            left_ms(job, row->gpus) < RULE_GROW_LEFT_MS || free_cards(rules, row->cards[0].node, NULL) == 0) {
            track->grows_ms = 0;
            continue;
        }
        if (!track->grows_ms)
            track->grows_ms = now;
        else if (now - track->grows_ms > RULE_GROW_MS + 3 * job->act.epoch_s * 1000)
            world_broken(rules->world, "4-grow",
                         "job%" PRId64 " runs on %" PRId64 " of up to %" PRId64
                         " GPUs beside free ones for %" PRId64 " s, with %" PRId64 " h to go",
                         row->job, row->gpus, row->gpus_max, (now - track->grows_ms) / 1000,
                         left_ms(job, row->gpus) / 3600000);
    }
}

/* 5: a large job at the head starts within what its estimate stated; jobs that came by meanwhile must be done
 * by then. */
static void check_large(struct rules *rules, const struct row *head)
{
    int64_t now = rules->now.at_ms;
    struct track *track;

    for (size_t i = 0; i < rules->now.len; i++)
        if (&rules->now.rows[i] != head)
            track_of(rules, rules->now.rows[i].job)->head_ms = 0;
    if (!head || head->gpus_min < 2)
        return;
    track = track_of(rules, head->job);
    if (!track->head_ms) {
        track->head_ms = now;
        track->head_bound_ms = 0;
    }
    if (!track->head_bound_ms && head->start_high)
        track->head_bound_ms =
            now + (head->start_high - rules->now.wall_ms) * RULE_LARGE_FACTOR + RULE_LARGE_MS;
    if (!track->head_bound_ms || now < track->head_bound_ms)
        return;
    for (size_t i = 0; i < rules->now.len; i++) {
        const struct row *other = &rules->now.rows[i];
        const struct track *its = track_of(rules, other->job);

        if (phase_holds(other->phase) && other->card_count && its->placed_ms > track->head_ms)
            world_broken(rules->world, "5-large",
                         "job%" PRId64 " needs %" PRId64 " GPUs and is first for %" PRId64
                         " s, longer than it was told, while job%" PRId64 ", which came later, runs",
                         head->job, head->gpus_min, (now - track->head_ms) / 1000, other->job);
    }
}

void rules_check_waits(struct rules *rules)
{
    const struct row *head = head_of(rules);

    for (size_t i = 0; i < rules->now.len; i++) {
        const struct row *row = &rules->now.rows[i];
        struct track *track = track_of(rules, row->job);

        if (!world_job(rules->world, row->job))
            continue;
        check_held(rules, row, track);
        if (phase_is_waiting(row->phase))
            check_promise(rules, row, track);
    }
    check_idle(rules, head);
    check_growth(rules, head);
    check_large(rules, head);
}
