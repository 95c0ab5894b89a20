#include "sched/starts.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

#define STAYS_MAX  6     /* of one card; more count as one */
#define VISITS     60000 /* of nodes and cards; who comes later is counted with the crowd */
#define PLAY_MIN   32    /* jobs that are placed whatever it takes */
#define EXIT_MS    2000  /* from the end of its last epoch until a job has gone */
#define WIDE_LOW   0.3   /* of the time to go: an interval reaches at least from there */
#define WIDE_HIGH  2.6   /* to there (bench/estimates) */
#define FIRST_WIDE 0.4   /* so much of that for the first in the queue */

/* Somebody is on the card until then. */
struct stay {
    struct when until;
    int32_t mib;
};

struct play_card {
    struct stay stays[STAYS_MAX]; /* by until.at_ms */
    uint32_t count;
    int32_t total;
    struct when gap_from; /* nobody needs it then, up to gap_until */
    int64_t gap_until;
};

/* So many thousandths of a GPU are free from then on. */
struct chunk {
    struct when at;
    int64_t milli;
};

/* So much CPU and memory of a node is free again from then on. */
struct leave {
    struct when at;
    uint32_t node;
    struct resources gives;
};

struct claimed {
    uint32_t job;
    struct when start;
};

/* A card of a running job that may not be stopped yet: when it could be free. */
struct young {
    const struct play_card *card;
    const struct key *key;
    struct when free;
    bool extra; /* beyond its smallest size: anybody may have it */
};

/* A place that is looked at: so many cards of a node, ready then. */
struct option {
    struct when ready;
    uint32_t node, cards;
};

enum { NODE_STALE, NODE_FRESH, NODE_GAPS };

struct starts {
    const struct book *book;
    const struct plan *plan;
    uint32_t *actions; /* of each job: index + 1 of what the plan does with it */
    struct play_card *cards;
    struct when *sorted; /* per node, from its card0 on: when whole cards are free, soonest first */
    uint8_t *fresh;      /* per node: whether that is so, NODE_... */
    VEC(struct claimed) claimed;
    VEC(struct young) young;
    VEC(struct option) options;
    VEC(struct leave) leaves; /* by time */
    struct resources *rooms,
        *room; /* of each node: what is free now, and a copy to play with; NULL: not asked yet */
    int64_t visits;
    uint32_t played, asked;
    bool crowd; /* from now on only GPUs are counted */
    VEC(struct chunk) heap;
    int64_t total;
};

static const struct when never = {INT64_MAX, INT64_MAX, INT64_MAX};

static struct when when_max(struct when a, struct when b)
{
    return (struct when){a.at_ms > b.at_ms ? a.at_ms : b.at_ms, a.lo_ms > b.lo_ms ? a.lo_ms : b.lo_ms,
                         a.hi_ms > b.hi_ms ? a.hi_ms : b.hi_ms};
}

static struct when at_once(const struct starts *s)
{
    return (struct when){s->book->now, s->book->now, s->book->now};
}

/* ---- cards ---- */

static struct play_card *card_of(const struct starts *s, const struct slot *slot)
{
    return &s->cards[s->book->space.nodes[slot->node].card0 + slot->card];
}

static void stay_on(struct play_card *card, struct when until, int32_t mib)
{
    uint32_t i = card->count;

    if (i == STAYS_MAX) {
        struct stay *last = &card->stays[--i];

        until = when_max(until, last->until);
        mib += last->mib;
        card->count--;
    }
    for (; i > 0 && card->stays[i - 1].until.at_ms > until.at_ms; i--)
        card->stays[i] = card->stays[i - 1];
    card->stays[i] = (struct stay){until, mib};
    card->count++;
}

static void stay_all(struct starts *s, struct placement at, struct when until)
{
    for (uint32_t i = 0; i < at.len; i++)
        if (at.v[i].card != SLOT_CPU)
            stay_on(card_of(s, &at.v[i]), until, (int32_t)at.v[i].mib);
}

/* When so much of it is free. */
static struct when card_ready(const struct starts *s, const struct play_card *card, int32_t mib)
{
    int32_t free = card->total;

    if (card->total == 0 || mib > card->total)
        return never;
    for (uint32_t i = 0; i < card->count; i++)
        free -= card->stays[i].mib;
    if (free >= mib)
        return at_once(s);
    for (uint32_t i = 0; i < card->count; i++) {
        free += card->stays[i].mib;
        if (free >= mib)
            return card->stays[i].until;
    }
    return card->stays[card->count - 1].until;
}

/* ---- what runs ---- */

/* The end of its epoch, or of the one it will be in at from_ms. */
static struct when epoch_end(const struct workload *w, const struct forecast *f, int64_t from_ms, int64_t now)
{
    struct when ret = forecast_epoch_end(f, workload_gpus(w), false, book_since_ms(w, f), now);
    int64_t more;

    if (ret.at_ms == INT64_MAX)
        return ret;
    more = llround(forecast_seconds(f, workload_gpus(w), false) / fmax(f->epochs, 1) * 1000);
    if (from_ms > ret.at_ms && more > 0) {
        more *= (from_ms - ret.at_ms + more - 1) / more;
        ret = (struct when){ret.at_ms + more, ret.lo_ms + more, ret.hi_ms + more};
    }
    return (struct when){ret.at_ms + EXIT_MS, ret.lo_ms, ret.hi_ms + EXIT_MS};
}

/* When a job that is asked to stop at from_ms has gone: at the end of its epoch, or when it is made to. */
static struct when gone(const struct starts *s, uint32_t job, int64_t from_ms)
{
    const struct workload *w = book_job(s->book, job);
    int64_t now = s->book->now;
    struct forecast room;
    const struct forecast *f = book_forecast_as_of(s->book, job, &room);
    struct when ret = never;

    if (w->can_checkpoint || w->stop_by_ms == 0)
        ret = epoch_end(w, f, from_ms, now);
    if (w->stop_by_ms > 0 && w->stop_by_ms < ret.at_ms)
        ret = (struct when){w->stop_by_ms, ret.lo_ms < w->stop_by_ms ? ret.lo_ms : now, w->stop_by_ms};
    if (w->stop_by_ms > 0 && ret.hi_ms > w->stop_by_ms)
        ret.hi_ms = w->stop_by_ms;
    if (ret.at_ms == INT64_MAX)
        ret = book_end(s->book, job);
    return when_max(ret, (struct when){now, now, now});
}

/* It stops, and goes on elsewhere or on fewer or more cards: what it is going to have is not free between. */
static void stay_resized(struct starts *s, uint32_t job, struct placement to)
{
    struct when out = gone(s, job, 0), until;
    struct forecast room;
    int64_t restart = s->book->view->options.restart_ms;

    stay_all(s, book_job(s->book, job)->placement, out);
    if (to.len == 0)
        return;
    out = (struct when){out.at_ms + restart, out.lo_ms + restart, out.hi_ms + restart};
    until = forecast_end_after(book_forecast_as_of(s->book, job, &room), to.len, out);
    stay_all(s, to, until);
}

/* What the plan does with it. */
static const struct action *action_of(const struct starts *s, uint32_t job, bool claims)
{
    const struct action *action = s->actions[job] ? &s->plan->actions.v[s->actions[job] - 1] : NULL;

    return action && (action->type == ACTION_CLAIM) == claims ? action : NULL;
}

/* One that is protected now, but will have to make room as soon as it may. */
static void add_young(struct starts *s, const struct key *key)
{
    const struct workload *w = book_job(s->book, key->job);
    int64_t from = w->started_ms + s->book->view->options.min_run_ms;
    struct when free;

    if (!s->book->policy->outranks || s->book->view->options.preemption != PREEMPTION_AUTO || w->keep ||
        !w->resumable || workload_in_last_epoch(w) || w->phase != PHASE_RUNNING || from <= s->book->now)
        return;
    free = gone(s, key->job, from);
    for (uint32_t i = 0; i < w->placement.len; i++)
        if (w->placement.v[i].card != SLOT_CPU)
            vec_push(&s->young, (struct young){card_of(s, &w->placement.v[i]), key, free,
                                               demand_elastic(&w->demand) && i >= w->demand.min_gpus});
}

static void add_running(struct starts *s)
{
    VEC_EACH(&s->book->running, key) {
        const struct workload *w = book_job(s->book, key->job);
        const struct action *action = action_of(s, key->job, false);

        if (!space_exists(&s->book->space, w->placement))
            continue;
        if (action)
            stay_resized(s, key->job, (struct placement){action->slots, action->slot_count});
        else if (w->phase == PHASE_STOPPING)
            stay_resized(s, key->job, w->claim);
        else
            stay_all(s, w->placement, book_end(s->book, key->job));
        add_young(s, key);
    }
}

/* ---- what starts ---- */

static struct when play_one(struct starts *s, const struct key *key);

static struct when ends(const struct starts *s, uint32_t job, uint32_t gpus, struct when start)
{
    struct forecast room;

    return forecast_end_after(book_forecast_as_of(s->book, job, &room), gpus ? gpus : 1, start);
}

static bool claims(const struct starts *s, const struct key *key)
{
    return action_of(s, key->job, true) || (key->special && has_claim(s->book, key->job));
}

/* Jobs that start now, then those with a claim: in order, each gets what is free first. Nobody else does. */
static void add_placed(struct starts *s)
{
    VEC_EACH(&s->plan->actions, action)
        if (action->type == ACTION_START)
            stay_all(s, (struct placement){action->slots, action->slot_count},
                     ends(s, action->job, action->slot_count, at_once(s)));
    VEC_EACH(&s->book->waiting, key)
        if (claims(s, key) && book_job(s->book, key->job)->demand.max_gpus > 0 &&
            !action_of(s, key->job, false))
            vec_push(&s->claimed, (struct claimed){key->job, play_one(s, key)});
}

struct starts *starts_new(const struct book *book, const struct plan *plan)
{
    struct starts *s = NEW(struct starts);

    *s = (struct starts){.book = book, .plan = plan};
    s->cards = mem_zalloc(sizeof(*s->cards) * (book->space.card_count + 1));
    s->sorted = mem_alloc(sizeof(*s->sorted) * (book->space.card_count + 1));
    s->fresh = mem_zalloc(book->space.node_count + 1);
    for (uint32_t n = 0; n < book->space.node_count; n++)
        for (uint32_t c = 0; c < book->space.nodes[n].cards && !book->space.nodes[n].closed; c++) {
            uint32_t i = book->space.nodes[n].card0 + c;

            s->cards[i].total = book->space.cards[i].total;
        }
    s->actions = mem_zalloc(sizeof(*s->actions) * (book->jobs.len + 1));
    for (uint32_t i = 0; i < plan->actions.len; i++)
        if (plan->actions.v[i].type != ACTION_UNCLAIM)
            s->actions[plan->actions.v[i].job] = i + 1;
    add_running(s);
    add_placed(s);
    return s;
}

void starts_free(struct starts *s)
{
    if (!s)
        return;
    free(s->actions);
    free(s->cards);
    free(s->sorted);
    free(s->fresh);
    vec_done(&s->claimed);
    vec_done(&s->young);
    vec_done(&s->options);
    vec_done(&s->heap);
    vec_done(&s->leaves);
    free(s->rooms);
    free(s->room);
    free(s);
}

/* ---- one after the other ---- */

static uint32_t unit_of(const struct demand *d)
{
    return d->unit_gpus && d->unit_gpus < d->min_gpus ? d->unit_gpus : d->min_gpus;
}

static int32_t need_of(const struct play_card *card, const struct demand *d)
{
    return demand_whole(d) ? (card->total > (int32_t)d->mib ? card->total : (int32_t)d->mib)
                           : (int32_t)d->mib;
}

static int option_cmp(const void *va, const void *vb)
{
    const struct option *a = va, *b = vb;

    if (a->ready.at_ms != b->ready.at_ms)
        return a->ready.at_ms < b->ready.at_ms ? -1 : 1;
    return a->node != b->node ? (a->node > b->node) - (a->node < b->node)
                              : (a->cards > b->cards) - (a->cards < b->cards);
}

struct seek {
    const struct key *key;
    const struct demand *demand;
    int64_t rest_ms; /* it will run */
    bool gaps;       /* may be in gaps */
};

static bool may_take(const struct starts *s, const struct seek *seek, const struct young *young)
{
    return young->extra || s->book->policy->outranks(s->book, seek->key, young->key);
}

static bool gap_suits(const struct play_card *card, const struct seek *seek)
{
    return card->gap_until - card->gap_from.at_ms >= seek->rest_ms && card->gap_until > card->gap_from.at_ms;
}

static struct when seek_card(struct starts *s, const struct seek *seek, const struct play_card *card)
{
    struct when ready = card_ready(s, card, need_of(card, seek->demand));

    if (seek->gaps && gap_suits(card, seek) && card->gap_from.at_ms < ready.at_ms)
        ready = card->gap_from;
    VEC_EACH(&s->young, it)
        if (it->card == card && it->free.at_ms < ready.at_ms && may_take(s, seek, it))
            ready = it->free;
    return ready;
}

static void sort_node(struct starts *s, const struct seek *seek, uint32_t n, struct when *sorted)
{
    const struct space_node *node = &s->book->space.nodes[n];

    for (uint32_t c = 0; c < node->cards; c++) {
        struct when one = seek_card(s, seek, &s->cards[node->card0 + c]);
        uint32_t i = c;

        for (; i > 0 && sorted[i - 1].at_ms > one.at_ms; i--)
            sorted[i] = sorted[i - 1];
        sorted[i] = one;
    }
    s->visits += node->cards;
}

/* Whether what is kept of the node will do: it is about any job that needs whole cards. */
static bool is_plain(const struct starts *s, const struct seek *seek, uint32_t n)
{
    const struct space_node *node = &s->book->space.nodes[n];

    if (!demand_whole(seek->demand) || seek->demand->mib > 0 || s->young.len > 0)
        return false;
    for (uint32_t c = 0; c < node->cards && seek->gaps && s->fresh[n] != NODE_FRESH; c++)
        if (gap_suits(&s->cards[node->card0 + c], seek))
            return false;
    return true;
}

/* When the node has room for one unit, two, ... */
static void seek_node(struct starts *s, const struct seek *seek, uint32_t n, uint32_t unit, uint32_t most)
{
    const struct space_node *node = &s->book->space.nodes[n];
    struct when room[NODE_GPUS_MAX], *sorted = room;
    struct when ready = at_once(s);

    s->visits++;
    if (is_plain(s, seek, n)) {
        static const struct demand whole = {.min_gpus = 1, .max_gpus = 1};
        struct seek plain = {.key = seek->key, .demand = &whole};

        sorted = &s->sorted[node->card0];
        if (s->fresh[n] == NODE_STALE) {
            sort_node(s, &plain, n, sorted);
            s->fresh[n] = NODE_FRESH;
            for (uint32_t c = 0; c < node->cards; c++)
                if (s->cards[node->card0 + c].gap_until > s->cards[node->card0 + c].gap_from.at_ms)
                    s->fresh[n] = NODE_GAPS;
        }
    } else {
        sort_node(s, seek, n, sorted);
    }
    for (uint32_t c = 0; c < node->cards && c / unit < most && sorted[c].at_ms != INT64_MAX; c++) {
        ready = when_max(ready, sorted[c]);
        if ((c + 1) % unit == 0)
            vec_push(&s->options, (struct option){ready, n, c + 1});
    }
}

/* The soonest place for all its units: options of a node are there with 1, 2, ... units, the times of which
 * grow, so the first of all options are the place. Returns when it is ready. */
static struct when seek_place(struct starts *s, const struct seek *seek, uint32_t units)
{
    const struct book *book = s->book;
    const struct shape *shape = &book->shapes.v[seek->key->shape];
    struct when ready = at_once(s);

    s->options.len = 0;
    for (uint32_t n = 0; n < book->space.node_count; n++)
        if (!book->space.nodes[n].closed && (!shape->selector.len || book->sets.v[shape->nodes].may[n]))
            seek_node(s, seek, n, unit_of(seek->demand), units);
    if (s->options.len < units)
        return never;
    if (units > 1) {
        qsort(s->options.v, s->options.len, sizeof(*s->options.v), option_cmp);
    } else {
        struct option *best = s->options.v;

        VEC_EACH(&s->options, it)
            if (it->ready.at_ms < best->ready.at_ms)
                best = it;
        s->options.v[0] = *best;
    }
    for (uint32_t i = 0; i < units; i++)
        ready = when_max(ready, s->options.v[i].ready);
    return ready;
}

/* Takes the cards of a node that are ready first. */
static void take_cards(struct starts *s, const struct seek *seek, uint32_t n, uint32_t count,
                       struct when start, struct when until)
{
    const struct space_node *node = &s->book->space.nodes[n];
    bool taken[NODE_GPUS_MAX] = {false};

    s->fresh[n] = NODE_STALE;
    for (; count > 0; count--) {
        struct when first = never;
        uint32_t best = 0;
        struct play_card *card;

        for (uint32_t c = 0; c < node->cards; c++) {
            struct when one = taken[c] ? never : seek_card(s, seek, &s->cards[node->card0 + c]);

            if (one.at_ms < first.at_ms) {
                first = one;
                best = c;
            }
        }
        if (first.at_ms == INT64_MAX)
            return;
        taken[best] = true;
        card = &s->cards[node->card0 + best];
        if (seek->gaps && card->gap_until > start.at_ms && card->gap_from.at_ms <= start.at_ms) {
            card->gap_from = until;
            continue;
        }
        if (start.at_ms - first.at_ms > card->gap_until - card->gap_from.at_ms) {
            card->gap_from = first;
            card->gap_until = start.at_ms;
        }
        if (demand_whole(seek->demand))
            card->count = 0; /* all that was there has gone by then */
        stay_on(card, until, need_of(card, seek->demand));
    }
}

/* Whether all cards of a place in gaps are free as long as it runs. */
static bool gaps_hold(struct starts *s, const struct seek *seek, uint32_t units, struct when start)
{
    for (uint32_t i = 0; i < units; i++) {
        const struct space_node *node = &s->book->space.nodes[s->options.v[i].node];

        for (uint32_t c = 0; c < node->cards; c++) {
            const struct play_card *card = &s->cards[node->card0 + c];

            if (card->gap_from.at_ms <= start.at_ms && card->gap_until > start.at_ms &&
                start.at_ms + seek->rest_ms > card->gap_until)
                return false;
        }
    }
    return true;
}

static struct when play_one(struct starts *s, const struct key *key)
{
    const struct workload *w = book_job(s->book, key->job);
    struct seek seek = {key, &w->demand, s->book->jobs.v[key->job].rest_ms, true};
    uint32_t units = demand_units(&w->demand, w->demand.min_gpus), unit = unit_of(&w->demand);
    struct when start = seek_place(s, &seek, units), until;

    if (start.at_ms != INT64_MAX && !gaps_hold(s, &seek, units, start)) {
        seek.gaps = false;
        start = seek_place(s, &seek, units);
    }
    if (start.at_ms == INT64_MAX)
        return start;
    until = ends(s, key->job, w->demand.min_gpus, start);
    for (uint32_t i = 0; i < units; i++) {
        uint32_t count = unit;

        /* Options of one node follow each other: the last of them has all of its cards. */
        for (uint32_t k = 0; k < i; k++)
            if (s->options.v[k].node == s->options.v[i].node)
                count = 0;
        for (uint32_t k = i + 1; k < units && count > 0; k++)
            count += s->options.v[k].node == s->options.v[i].node ? unit : 0;
        take_cards(s, &seek, s->options.v[i].node, count, start, until);
    }
    return start;
}

/* ---- the crowd ---- */

static void chunk_push(struct starts *s, struct when at, int64_t milli)
{
    size_t i = s->heap.len;

    if (milli <= 0)
        return;
    s->total += milli;
    vec_push(&s->heap, (struct chunk){at, milli});
    for (; i > 0 && s->heap.v[(i - 1) / 2].at.at_ms > at.at_ms; i = (i - 1) / 2)
        s->heap.v[i] = s->heap.v[(i - 1) / 2];
    s->heap.v[i] = (struct chunk){at, milli};
}

/* The first chunk has another time, or is replaced by `one`. */
static void chunk_sift(struct starts *s, struct chunk one)
{
    size_t i = 0;

    for (size_t k; (k = 2 * i + 1) < s->heap.len; i = k) {
        k += k + 1 < s->heap.len && s->heap.v[k + 1].at.at_ms < s->heap.v[k].at.at_ms;
        if (s->heap.v[k].at.at_ms >= one.at.at_ms)
            break;
        s->heap.v[i] = s->heap.v[k];
    }
    s->heap.v[i] = one;
}

static struct when later(struct when at, int64_t ms)
{
    return (struct when){at.at_ms + ms, at.lo_ms + ms / 2, at.hi_ms + ms * 2};
}

/* Takes so much; when the last of it is free. */
static struct when chunk_take(struct starts *s, int64_t milli, int64_t used_ms)
{
    struct when at = at_once(s);
    int64_t left = milli;

    if (milli > s->total)
        return never;
    while (left > 0) {
        struct chunk *first = &s->heap.v[0];

        at = when_max(at, first->at);
        if (first->milli > left) {
            first->milli -= left;
            left = 0;
        } else if (first->milli == left && milli == left) {
            chunk_sift(s, (struct chunk){later(at, used_ms), milli}); /* most often: one for one */
            return at;
        } else {
            left -= first->milli;
            s->heap.len--;
            if (s->heap.len > 0)
                chunk_sift(s, s->heap.v[s->heap.len]);
        }
    }
    s->total -= milli;
    chunk_push(s, later(at, used_ms), milli);
    return at;
}

static void gather_crowd(struct starts *s)
{
    s->crowd = true;
    for (uint32_t i = 0; i < s->book->space.card_count; i++) {
        const struct play_card *card = &s->cards[i];

        if (card->total > 0)
            chunk_push(s, card->count ? card->stays[card->count - 1].until : at_once(s), 1000);
    }
}

/* ---- CPU and memory ---- */

static int leave_cmp(const void *va, const void *vb)
{
    const struct leave *a = va, *b = vb;

    return a->at.at_ms != b->at.at_ms ? (a->at.at_ms < b->at.at_ms ? -1 : 1)
                                      : (a->node > b->node) - (a->node < b->node);
}

static void add_leave(struct starts *s, struct when at, uint32_t node, struct resources gives)
{
    if (at.at_ms != INT64_MAX && node < s->book->space.node_count)
        vec_push(&s->leaves, (struct leave){at, node, gives});
}

/* What runs gives back what it has, unit by unit, when it ends. */
static void gather_resources(struct starts *s)
{
    const struct book *book = s->book;

    s->rooms = mem_zalloc(sizeof(*s->rooms) * (book->space.node_count + 1));
    s->room = mem_zalloc(sizeof(*s->room) * (book->space.node_count + 1));
    for (uint32_t n = 0; n < book->space.node_count; n++)
        s->rooms[n] = book->space.nodes[n].free;
    VEC_EACH(&book->running, key) {
        const struct workload *w = book_job(book, key->job);
        uint32_t unit = w->demand.max_gpus ? unit_of(&w->demand) : 1;
        struct when end = book_end(book, key->job);

        for (uint32_t i = 0; i < w->placement.len; i += unit ? unit : 1)
            add_leave(s, end, w->placement.v[i].node, w->demand.each);
    }
    if (s->leaves.len)
        qsort(s->leaves.v, s->leaves.len, sizeof(*s->leaves.v), leave_cmp);
}

static void leave_insert(struct starts *s, struct leave one)
{
    size_t i = s->leaves.len;

    vec_push(&s->leaves, one);
    for (; i > 0 && s->leaves.v[i - 1].at.at_ms > one.at.at_ms; i--)
        s->leaves.v[i] = s->leaves.v[i - 1];
    s->leaves.v[i] = one;
}

/* When a node has so much; it is taken there until the job has ended. */
static struct when play_resources(struct starts *s, const struct key *key)
{
    const struct shape *shape = &s->book->shapes.v[key->shape];
    struct resources need = shape->demand.each;

    if (!s->room)
        gather_resources(s);
    if (s->visits > VISITS)
        return never;
    memcpy(s->room, s->rooms, sizeof(*s->room) * s->book->space.node_count);
    VEC_EACH(&s->leaves, it) {
        struct when start = it->at, until;

        s->visits++;
        s->room[it->node] = resources_add(s->room[it->node], it->gives, 1);
        if (!s->book->sets.v[shape->nodes].may[it->node] || s->book->space.nodes[it->node].closed ||
            !resources_fit(need, s->room[it->node]))
            continue;
        until = ends(s, key->job, shape->demand.min_gpus, start);
        s->rooms[it->node] = resources_add(s->rooms[it->node], need, -1);
        if (until.at_ms != INT64_MAX)
            leave_insert(s, (struct leave){until, it->node, need});
        return start;
    }
    return never;
}

/* What the play does not know (jobs that come first, stops, sizes that change) grows with the time to go. */
static struct when widened(const struct starts *s, struct when start)
{
    double left = (double)(start.at_ms - s->book->now), part = s->asked > 1 ? 1 : FIRST_WIDE;
    int64_t lo = s->book->now + (int64_t)(left * (1 - part * (1 - WIDE_LOW))),
            hi = s->book->now + (int64_t)(left * (1 + part * (WIDE_HIGH - 1)));

    if (start.at_ms == INT64_MAX)
        return start;
    start.lo_ms = start.lo_ms < lo ? start.lo_ms : lo;
    start.hi_ms = start.hi_ms > hi ? start.hi_ms : hi;
    return start;
}

static struct when when_starts(struct starts *s, const struct key *key, enum wait_reason reason)
{
    struct when resources = reason == WAIT_CPU ? play_resources(s, key) : at_once(s);
    const struct book_job *of = &s->book->jobs.v[key->job];
    struct when ret;

    if (wait_is_never(reason) || reason == WAIT_BLOCKED)
        return never;
    if (claims(s, key))
        VEC_EACH(&s->claimed, it)
            if (it->job == key->job)
                return it->start;
    if (of->milli == 0)
        return resources;
    if (!s->crowd && s->played >= PLAY_MIN && s->visits > VISITS)
        gather_crowd(s);
    s->played++;
    ret = when_max(s->crowd ? chunk_take(s, of->milli, of->rest_ms) : play_one(s, key), resources);
    if (ret.at_ms != INT64_MAX && key->special) {
        int64_t from = book_job(s->book, key->job)->not_before_ms;

        ret = when_max(ret, (struct when){from, from, from});
    }
    return ret;
}

struct when starts_next(struct starts *s, const struct key *key, enum wait_reason reason)
{
    s->asked++;
    return widened(s, when_starts(s, key, reason));
}
