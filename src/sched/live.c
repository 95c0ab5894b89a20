/* Workloads live in an array whose places are reused; the book (book.h) keeps their order and the space. User
 * names and selectors are interned for good, as the book points at them. A decision changes the space as it
 * goes; it is copied before and put back after, which is a few kilobytes. */
#include "sched/live.h"

#include "base/break.h"
#include "base/map.h"
#include "base/mem.h"
#include "sched/book.h"

#include <stdlib.h>

#define HEAD_LEAST_MS 60000 /* a large job at the head is not told to start sooner */

struct live {
    VEC(struct workload) jobs;
    VEC(struct forecast) forecasts;
    VEC(uint32_t) free_places;
    struct map *by_id;
    struct map *texts; /* interned */
    struct arena arena;
    struct sched_view view;
    struct book book;
    struct cluster cluster;
    uint32_t head; /* the job with a bound; SCHED_NONE: none has */
};

struct live *live_new(const struct sched_policy *policy, const struct cluster *cluster,
                      const struct sched_options *options, const struct usage *usage)
{
    struct live *live = NEW(struct live);

    live->by_id = map_new();
    live->texts = map_new();
    live->cluster = *cluster;
    live->head = SCHED_NONE;
    live->view = (struct sched_view){.cluster = &live->cluster, .usage = usage, .options = *options};
    book_init(&live->book, policy, &live->view, 0);
    order_build(&live->book);
    return live;
}

static void job_free(struct workload *w)
{
    free((char *)w->name);
    free((struct slot *)w->placement.v);
    free((struct slot *)w->claim.v);
    *w = (struct workload){.phase = PHASE_CANCELLED};
}

void live_free(struct live *live)
{
    if (!live)
        return;
    VEC_EACH(&live->jobs, w)
        job_free(w);
    vec_done(&live->jobs);
    vec_done(&live->forecasts);
    vec_done(&live->free_places);
    map_free(live->by_id);
    map_free(live->texts);
    arena_done(&live->arena);
    book_done(&live->book);
    free(live);
}

static struct str id_key(const uint64_t *id)
{
    return (struct str){(const char *)id, sizeof(*id)};
}

uint32_t live_find(const struct live *live, uint64_t id)
{
    return (uint32_t)(uintptr_t)map_get(live->by_id, id_key(&id)) - 1;
}

int64_t live_ordinal(const struct live *live, uint64_t id)
{
    return live_ordinal_at(live, live_find(live, id));
}

int64_t live_ordinal_at(const struct live *live, uint32_t job)
{
    return job < live->book.jobs.len ? live->book.jobs.v[job].ordinal : 0;
}

int64_t live_milli_at(const struct live *live, uint32_t job)
{
    return job < live->book.jobs.len ? live->book.jobs.v[job].milli : 0;
}

uint32_t live_running(const struct live *live, size_t i)
{
    return i < live->book.running.len ? live->book.running.v[i].job : SCHED_NONE;
}

const struct sched_view *live_view(const struct live *live)
{
    return &live->view;
}

static const char *intern(struct live *live, const char *text)
{
    char *known;

    if (!text)
        return NULL;
    known = map_get(live->texts, str_from(text));
    if (!known) {
        known = arena_strdup(&live->arena, text);
        map_set(live->texts, str_from(text), known);
    }
    return known;
}

static void set_placement(struct placement *at, struct placement to)
{
    struct slot *copy = to.len ? mem_dup(to.v, sizeof(*to.v) * to.len) : NULL;

    free((struct slot *)at->v);
    *at = (struct placement){copy, to.len};
}

static struct labels copy_selector(struct live *live, struct labels from)
{
    struct label *v;

    if (from.len == 0)
        return (struct labels){0};
    v = arena_alloc(&live->arena, sizeof(*v) * from.len);
    for (size_t i = 0; i < from.len; i++)
        v[i] = (struct label){intern(live, from.v[i].key), intern(live, from.v[i].value)};
    return (struct labels){v, from.len};
}

static bool same_selector(struct labels a, struct labels b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (!streq(a.v[i].key, b.v[i].key) || !streq(a.v[i].value, b.v[i].value))
            return false;
    return true;
}

static void show(struct live *live)
{
    live->view.jobs = live->jobs.v;
    live->view.job_count = (uint32_t)live->jobs.len;
    live->view.forecasts = live->forecasts.v;
}

static uint32_t new_place(struct live *live, uint64_t id)
{
    uint32_t job;

    if (live->free_places.len > 0) {
        job = vec_pop(&live->free_places);
    } else {
        job = (uint32_t)live->jobs.len;
        vec_push(&live->jobs, (struct workload){.phase = PHASE_CANCELLED});
        vec_push(&live->forecasts, (struct forecast){0});
    }
    live->forecasts.v[job].points = 0;
    map_set(live->by_id, id_key(&id), (void *)(uintptr_t)(job + 1));
    show(live);
    return job;
}

/* ---- events ---- */

static void lose_head(struct live *live)
{
    uint32_t job = live->head;

    live->head = SCHED_NONE;
    if (job == SCHED_NONE || live->jobs.v[job].bound_ms == 0)
        return;
    live->jobs.v[job].bound_ms = 0;
    order_change(&live->book, job, false);
}

/* The head is kept against others, not against what its own user wants before it. */
static void yield_head(struct live *live, uint32_t job)
{
    if (live->head != SCHED_NONE && live->head != job && phase_is_waiting(live->jobs.v[job].phase) &&
        order_own(&live->book, job, live->head))
        lose_head(live);
}

static bool is_same_rank(const struct workload *a, const struct workload *b)
{
    return a->priority == b->priority && streq(a->user, b->user);
}

static int add(struct live *live, const struct live_event *event, struct err *err)
{
    const struct workload *from = &event->workload;
    const char *fault = demand_fault(&from->demand);
    uint32_t job = live_find(live, from->id);
    struct workload w = *from;

    if (from->id == 0 || fault)
        return err_set(err, ERR_INVALID, "workload: %s", fault ? fault : "has no id");
    if (phase_is_over(from->phase) || phase_holds(from->phase) != (from->placement.len > 0))
        return err_set(err, ERR_INVALID, "workload: phase and placement do not agree");
    if (job == SCHED_NONE && map_len(live->by_id) >= LIVE_JOBS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d jobs", LIVE_JOBS_MAX);
    w.placement = w.claim = (struct placement){0};
    set_placement(&w.placement, from->placement);
    set_placement(&w.claim, from->claim);
    w.name = mem_strdup(from->name);
    w.resizing = w.claim.len > 0 && (w.resizing || phase_holds(w.phase));
    w.bound_ms =
        job != SCHED_NONE && phase_is_waiting(w.phase) && !w.blocked && is_same_rank(&live->jobs.v[job], &w)
            ? live->jobs.v[job].bound_ms
            : 0;
    w.user = intern(live, from->user);
    w.selector = copy_selector(live, from->selector);
    if (job == SCHED_NONE)
        job = new_place(live, from->id);
    else
        book_use(&live->book, job, -1);
    job_free(&live->jobs.v[job]);
    live->jobs.v[job] = w;
    book_use(&live->book, job, 1);
    order_change(&live->book, job, false);
    yield_head(live, job);
    return 0;
}

static int step(const struct workload *w, enum change change, enum phase *ret, struct err *err)
{
    if (!lifecycle_next(w->phase, change, ret))
        return err_set(err, ERR_CONFLICT, "job '%s' is %s: cannot be %s", w->name ? w->name : "",
                       phase_name(w->phase), change_name(change));
    return 0;
}

/* A restart on a number of GPUs that nobody has measured, of a job that was measured on another. */
static bool is_probe(const struct live *live, uint32_t job, uint32_t gpus)
{
    const struct forecast *f = &live->forecasts.v[job];
    const struct workload *w = &live->jobs.v[job];

    return w->restarts > 0 && demand_elastic(&w->demand) && f->points > 0 && f->tried != 0 &&
           !forecast_tried(f, gpus);
}

static int place(struct live *live, uint32_t job, const struct live_event *event, struct err *err)
{
    struct workload *w = &live->jobs.v[job];
    enum phase next = w->phase;

    if (step(w, CHANGE_PLACE, &next, err) < 0)
        return -1;
    if (!space_fits(&live->book.space, &w->demand, event->slots))
        return err_set(err, ERR_INVALID, "job '%s': its place is not free", w->name ? w->name : "");
    w->restarts += w->phase == PHASE_PREEMPTED;
    w->phase = next;
    w->started_ms = w->saved_ms = w->bound_ms = 0;
    live->head = live->head == job ? SCHED_NONE : live->head;
    w->probes += is_probe(live, job, event->slots.len);
    w->resizing = false;
    set_placement(&w->placement, event->slots);
    set_placement(&w->claim, (struct placement){0});
    book_use(&live->book, job, 1);
    order_change(&live->book, job, false);
    return 0;
}

static int runs(struct live *live, uint32_t job, const struct live_event *event, struct err *err)
{
    struct workload *w = &live->jobs.v[job];

    if (step(w, CHANGE_START, &w->phase, err) < 0)
        return -1;
    w->refused = false;
    if (w->started_ms == 0)
        w->started_ms = event->at_ms ? event->at_ms : -1; /* a simulation begins at 0, which says "not yet" */
    order_change(&live->book, job, false);
    return 0;
}

static int ask_stop(struct live *live, uint32_t job, const struct live_event *event, struct err *err)
{
    struct workload *w = &live->jobs.v[job];

    w->stop_by_ms = event->stop_by_ms;
    return step(w, CHANGE_ASK_STOP, &w->phase, err);
}

static int unask(struct live *live, uint32_t job, const struct live_event *event, struct err *err)
{
    struct workload *w = &live->jobs.v[job];

    (void)event;
    if (step(w, workload_runs(w) ? CHANGE_UNASK_STOP : CHANGE_UNASK_EARLY, &w->phase, err) < 0)
        return -1;
    w->stop_by_ms = 0;
    set_placement(&w->claim, (struct placement){0});
    w->resizing = false;
    order_change(&live->book, job, false);
    return 0;
}

static enum change stop_change(const struct workload *w, enum change said)
{
    if (said != CHANGE_PLACE)
        return said;
    return w->phase == PHASE_STOPPING   ? CHANGE_STOPPED
           : w->phase == PHASE_STARTING ? CHANGE_GIVE_BACK
                                        : CHANGE_LOST;
}

static int stopped(struct live *live, uint32_t job, const struct live_event *event, struct err *err)
{
    struct workload *w = &live->jobs.v[job];
    enum phase next = w->phase;

    if (step(w, stop_change(w, event->change), &next, err) < 0)
        return -1;
    if (!phase_is_waiting(next))
        return err_set(err, ERR_CONFLICT, "job '%s' would be %s: it does not wait", w->name ? w->name : "",
                       phase_name(next));
    book_use(&live->book, job, -1);
    las_stopped(&live->view.options, w, event->at_ms);
    w->attained_gpu_ms = workload_attained(w, event->at_ms);
    w->phase = next;
    w->started_ms = w->saved_ms = w->stop_by_ms = 0;
    set_placement(&w->placement, (struct placement){0});
    order_change(&live->book, job, false);
    return 0;
}

static int claim(struct live *live, uint32_t job, const struct live_event *event, struct err *err)
{
    if (event->slots.len > 0 && !space_exists(&live->book.space, event->slots))
        return err_set(err, ERR_INVALID, "a claim on a card that does not exist");
    set_placement(&live->jobs.v[job].claim, event->slots);
    live->jobs.v[job].resizing = event->slots.len > 0 && phase_holds(live->jobs.v[job].phase);
    order_change(&live->book, job, false);
    return 0;
}

static int epoch(struct live *live, uint32_t job, const struct live_event *event, struct err *err)
{
    struct workload *w = &live->jobs.v[job];

    (void)err;
    if (event->epochs_done > w->epochs_done)
        w->epochs_done = event->epochs_done;
    w->saved_ms = event->at_ms;
    order_epoch(&live->book, job);
    return 0;
}

static int relabel(struct live *live, uint32_t job, const struct live_event *event, struct err *err)
{
    (void)err;
    live->jobs.v[job].priority = event->priority;
    live->jobs.v[job].user = intern(live, event->user);
    order_change(&live->book, job, false);
    if (job == live->head)
        lose_head(live);
    yield_head(live, job);
    return 0;
}

static int block(struct live *live, uint32_t job, const struct live_event *event, struct err *err)
{
    (void)err;
    live->jobs.v[job].blocked = event->blocked;
    order_change(&live->book, job, false);
    if (event->blocked && job == live->head)
        lose_head(live);
    return 0;
}

static int change(struct live *live, uint32_t job, const struct live_event *event, struct err *err)
{
    struct workload *w = &live->jobs.v[job];
    const struct workload *to = &event->workload;
    const char *fault = demand_fault(&to->demand);

    if (fault)
        return err_set(err, ERR_INVALID, "workload: %s", fault);
    book_use(&live->book, job, -1);
    w->demand = to->demand;
    book_use(&live->book, job, 1);
    if (!same_selector(w->selector, to->selector)) /* the arena only grows */
        w->selector = copy_selector(live, to->selector);
    w->keep = to->keep;
    w->asked = to->asked;
    w->resumable = to->resumable;
    w->refused = to->refused;
    w->epochs_total = to->epochs_total;
    w->not_before_ms = to->not_before_ms;
    order_change(&live->book, job, false);
    return 0;
}

static int end(struct live *live, uint32_t job, const struct live_event *event, struct err *err)
{
    (void)err;
    if (job == live->head)
        live->head = SCHED_NONE;
    book_use(&live->book, job, -1);
    order_change(&live->book, job, true);
    map_remove(live->by_id, id_key(&event->id));
    job_free(&live->jobs.v[job]);
    vec_push(&live->free_places, job);
    return 0;
}

static int (*const handlers[])(struct live *, uint32_t, const struct live_event *, struct err *) = {
    [LIVE_PLACE] = place, [LIVE_RUNS] = runs,       [LIVE_ASK_STOP] = ask_stop, [LIVE_UNASK] = unask,
    [LIVE_CLAIM] = claim, [LIVE_STOPPED] = stopped, [LIVE_EPOCH] = epoch,       [LIVE_RELABEL] = relabel,
    [LIVE_BLOCK] = block, [LIVE_CHANGE] = change,   [LIVE_END] = end,
};

int live_apply(struct live *live, const struct live_event *event, struct err *err)
{
    uint32_t job;

    live->book.now = event->at_ms;
    if (event->type == LIVE_ADD)
        return add(live, event, err);
    job = live_find(live, event->id);
    if (job == SCHED_NONE)
        return err_set(err, ERR_NOT_FOUND, "no job %llu", (unsigned long long)event->id);
    return handlers[event->type](live, job, event, err);
}

int live_forecast(struct live *live, uint64_t id, const struct forecast *forecast, struct err *err)
{
    const struct sched_policy *policy = live->book.policy;
    uint32_t job = live_find(live, id);

    if (job == SCHED_NONE)
        return err_set(err, ERR_NOT_FOUND, "no job %llu", (unsigned long long)id);
    live->forecasts.v[job] = *forecast;
    /* Its key does not depend on it, or is made anew before the next decision. */
    if (!policy->is.forecasts || (policy->timed && phase_holds(live->jobs.v[job].phase)))
        order_epoch(&live->book, job);
    else
        order_change(&live->book, job, false);
    return 0;
}

void live_pairs(struct live *live, sched_pair_fn pair, void *of)
{
    live->view.pair = pair;
    live->view.pair_of = of;
}

void live_usage(struct live *live, const char *user)
{
    order_usage(&live->book, user);
}

void live_cluster(struct live *live, const struct cluster *cluster)
{
    const struct sched_policy *policy = live->book.policy;
    int64_t now = live->book.now;

    book_done(&live->book);
    live->cluster = *cluster;
    book_init(&live->book, policy, &live->view, now);
    order_build(&live->book);
    for (uint32_t job = 0; job < live->jobs.len; job++)
        if (phase_is_over(live->jobs.v[job].phase))
            live->book.jobs.v[job].user = SCHED_NONE;
}

/* ---- deciding ---- */

static void decide(struct live *live, int64_t now_ms, struct plan *plan, bool explain, bool looks)
{
    struct book *book = &live->book;
    struct space kept = book->space;
    size_t nodes = sizeof(*kept.nodes) * (kept.node_count + 1),
           cards = sizeof(*kept.cards) * (kept.card_count + 1);

    book->space.nodes = mem_dup(kept.nodes, nodes);
    book->space.cards = mem_dup(kept.cards, cards);
    book->now = now_ms;
    book->explains = explain;
    book_decide(book, plan);
    if (explain)
        explain_waits(book, plan);
    if (book->policy->looked && looks)
        VEC_EACH(&book->running, key)
            book->policy->looked(&live->view.options, &live->jobs.v[key->job], now_ms);
    free(book->space.nodes);
    free(book->space.cards);
    book->space = kept;
}

/* A large job that has come to the head stays there. It is told when it will start if things are as they
 * seem, and bound to start within twice that. */
static void keep_head(struct live *live)
{
    struct book *book = &live->book;
    int64_t wait = book->fits_ms - book->now;

    if (rule_broken("5") || book->head == SCHED_NONE || !book->hold_known ||
        live->jobs.v[book->head].refused || live->jobs.v[book->head].bound_ms > 0 || wait > REST_MAX_MS)
        return;
    lose_head(live);
    live->head = book->head;
    live->jobs.v[book->head].bound_ms = book->now + 2 * (wait > HEAD_LEAST_MS ? wait : HEAD_LEAST_MS);
    order_change(book, book->head, false);
}

void live_decide(struct live *live, int64_t now_ms, struct plan *plan)
{
    decide(live, now_ms, plan, false, true);
    keep_head(live);
}

void live_try(struct live *live, int64_t now_ms, struct plan *plan)
{
    decide(live, now_ms, plan, false, false);
}

uint64_t live_held_for(const struct live *live)
{
    uint32_t job = live->book.held_for.job;

    return job == SCHED_NONE || job >= live->jobs.len ? 0 : live->jobs.v[job].id;
}

int64_t live_turn_ms(const struct live *live, int64_t now_ms)
{
    const struct book *book = &live->book;
    int64_t next = INT64_MAX;

    if (book->policy->next_ms)
        VEC_EACH(&book->running, key) {
            int64_t at = book->policy->next_ms(book, key->job);

            next = at > now_ms && at < next ? at : next;
        }
    return next;
}

void live_plan(struct live *live, int64_t now_ms, struct plan *plan)
{
    decide(live, now_ms, plan, true, false);
}

static uint64_t digest(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
    return hash ^ hash >> 31;
}

static uint64_t digest_job(uint64_t hash, const struct workload *w)
{
    const uint64_t numbers[] = {
        w->id,       (uint64_t)w->phase, (uint64_t)w->priority,   w->epochs_done,        w->attained_gpu_ms,
        w->restarts, w->claim.len,       (uint64_t)w->started_ms, (uint64_t)w->saved_ms, w->blocked,
        w->resumable};

    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        hash = digest(hash, numbers[i]);
    for (uint32_t i = 0; i < w->placement.len; i++)
        hash = digest(digest(hash, w->placement.v[i].node), w->placement.v[i].card);
    for (const char *s = w->user; s && *s; s++)
        hash = digest(hash, (unsigned char)*s);
    return hash;
}

uint64_t live_digest(const struct live *live)
{
    CLEANUP(walk_done) struct walk walk = {.book = &live->book};
    const struct space *space = &live->book.space;
    const struct key *key;
    uint64_t hash = 0xcbf29ce484222325ULL;

    VEC_EACH(&live->jobs, w)
        hash = digest_job(hash, w);
    for (uint32_t i = 0; i < space->card_count; i++)
        hash = digest(hash, (uint64_t)space->cards[i].used);
    if (live->book.policy->timed) /* their queues are as of the last decision */
        return hash;
    while ((key = walk_next(&walk)))
        hash = digest(hash, key->job);
    VEC_EACH(&live->book.running, runs)
        hash = digest(hash, runs->job);
    return hash;
}
