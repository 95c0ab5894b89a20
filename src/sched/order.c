/* The order of the queue. Each user's jobs are in the user's own order (CPU-only first, higher priority,
 * earlier submission, name); a job's ordinal is the sum of the GPUs up to and including it. The policy makes
 * a key of that; both queues are kept sorted by it.
 *
 * Under a policy whose keys depend on ordinals one change moves all later jobs of that user. There the queue
 * is kept as one list for each user and the sorted heads of these lists: a change makes one list anew, and
 * who looks at the queue (walk_next) merges as many of them as it reads. Under all other policies the queue
 * is one array, and a change moves one key. */
#include "base/mem.h"
#include "sched/pace.h"

#include <math.h>

/* ---- interning ---- */

static uint64_t mix_in(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
    return hash ^ hash >> 29;
}

static uint64_t mix_text(uint64_t hash, const char *s)
{
    for (; s && *s; s++)
        hash = (hash ^ (unsigned char)*s) * 0x100000001b3ULL;
    return mix_in(hash, s != NULL);
}

static uint64_t hash_selector(struct labels selector)
{
    uint64_t hash = selector.len;

    for (size_t i = 0; i < selector.len; i++)
        hash = mix_text(mix_text(hash, selector.v[i].key), selector.v[i].value);
    return hash;
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

struct wanted {
    const struct workload *w;
    uint64_t (*hash)(const struct book *book, uint32_t index); /* of what is there */
    bool (*same)(const struct book *book, uint32_t index, const struct workload *w);
};

/* The place of what equals `wanted` in the table, or a free one. */
static uint32_t *hash_find(const struct book *book, struct hash *table, uint64_t hash,
                           const struct wanted *wanted)
{
    uint32_t at;

    if (table->len * 2 >= table->size) {
        struct hash more = {.size = table->size ? table->size * 2 : 64};

        more.slots = mem_zalloc(sizeof(*more.slots) * more.size);
        for (uint32_t i = 0; i < table->size; i++)
            if (table->slots[i]) {
                uint32_t to = (uint32_t)wanted->hash(book, table->slots[i] - 1) & (more.size - 1);

                while (more.slots[to])
                    to = (to + 1) & (more.size - 1);
                more.slots[to] = table->slots[i];
                more.len++;
            }
        free(table->slots);
        *table = more;
    }
    at = (uint32_t)hash & (table->size - 1);
    while (table->slots[at] && !wanted->same(book, table->slots[at] - 1, wanted->w))
        at = (at + 1) & (table->size - 1);
    return &table->slots[at];
}

static uint64_t user_hash(const struct book *book, uint32_t index)
{
    return mix_text(1, book->users.v[index].name);
}

static bool user_same(const struct book *book, uint32_t index, const struct workload *w)
{
    return streq(book->users.v[index].name, w->user);
}

static uint32_t user_of(struct book *book, const struct workload *w)
{
    struct wanted wanted = {w, user_hash, user_same};
    uint32_t *place = hash_find(book, &book->user_hash, mix_text(1, w->user), &wanted);

    if (!*place) {
        struct book_user user = {.name = w->user, .step = usage_step(book->view->usage, w->user)};

        vec_push(&book->users, user);
        *place = (uint32_t)book->users.len;
        book->user_hash.len++;
    }
    return *place - 1;
}

static uint64_t set_hash(const struct book *book, uint32_t index)
{
    return hash_selector(book->sets.v[index].selector);
}

static bool set_same(const struct book *book, uint32_t index, const struct workload *w)
{
    return same_selector(book->sets.v[index].selector, w->selector);
}

static uint32_t set_of(struct book *book, const struct workload *w)
{
    struct wanted wanted = {w, set_hash, set_same};
    uint32_t *place = hash_find(book, &book->set_hash, hash_selector(w->selector), &wanted);

    if (!*place) {
        const struct cluster *cluster = book->view->cluster;
        struct node_set set = {w->selector, mem_zalloc(cluster->node_count + 1), 0};

        for (uint32_t n = 0; n < cluster->node_count; n++)
            set.count += set.may[n] = labels_match(cluster->nodes[n].labels, w->selector);
        vec_push(&book->sets, set);
        *place = (uint32_t)book->sets.len;
        book->set_hash.len++;
    }
    return *place - 1;
}

static uint64_t hash_demand(const struct demand *d, struct labels selector)
{
    uint64_t hash = hash_selector(selector);

    hash = mix_in(hash, (uint64_t)d->min_gpus << 32 | d->unit_gpus);
    hash = mix_in(hash, (uint64_t)d->mib << 1 | d->exclusive);
    return mix_in(mix_in(hash, (uint64_t)d->each.cpu_milli), (uint64_t)d->each.mem_mib);
}

static uint64_t shape_hash(const struct book *book, uint32_t index)
{
    return hash_demand(&book->shapes.v[index].demand, book->shapes.v[index].selector);
}

static bool shape_same(const struct book *book, uint32_t index, const struct workload *w)
{
    const struct demand *a = &book->shapes.v[index].demand, *b = &w->demand;

    return a->min_gpus == b->min_gpus && a->unit_gpus == b->unit_gpus && a->mib == b->mib &&
           a->exclusive == b->exclusive && a->each.cpu_milli == b->each.cpu_milli &&
           a->each.mem_mib == b->each.mem_mib && same_selector(book->shapes.v[index].selector, w->selector);
}

static uint32_t shape_of(struct book *book, const struct workload *w)
{
    struct wanted wanted = {w, shape_hash, shape_same};
    uint32_t *place = hash_find(book, &book->shape_hash, hash_demand(&w->demand, w->selector), &wanted);

    if (!*place) {
        struct shape shape = {.demand = w->demand, .selector = w->selector, .about = SCHED_NONE};

        shape.nodes = set_of(book, w);
        shape.never = why_never(book, &shape);
        vec_push(&book->shapes, shape);
        *place = (uint32_t)book->shapes.len;
        book->shape_hash.len++;
    }
    return *place - 1;
}

/* ---- sorting ---- */

int key_cmp_names(const struct book *book, const struct key *a, const struct key *b)
{
    if (a->job == b->job)
        return 0;
    const struct workload *v = book_job(book, a->job), *w = book_job(book, b->job);
    int names = v->name && w->name ? strcmp(v->name, w->name) : (v->name != NULL) - (w->name != NULL);

    return names ? names : (v->id > w->id) - (v->id < w->id);
}

static bool keys_sorted(const struct book *book, const struct key *v, size_t len)
{
    for (size_t i = 1; i < len; i++)
        if (key_cmp(book, &v[i - 1], &v[i]) > 0)
            return false;
    return true;
}

static void merge(const struct book *book, const struct key *a, size_t a_len, const struct key *b,
                  size_t b_len, struct key *to)
{
    while (a_len && b_len)
        if (key_cmp(book, a, b) <= 0)
            *to++ = *a++, a_len--;
        else
            *to++ = *b++, b_len--;
    memcpy(to, a_len ? a : b, (a_len ? a_len : b_len) * sizeof(*to));
}

#define RUN 8

static void keys_sort(const struct book *book, struct key *v, size_t len)
{
    CLEANUP(free) struct key *room = NULL;
    struct key *from = v, *to;

    if (len < 2 || keys_sorted(book, v, len))
        return;
    for (size_t start = 0; start < len; start += RUN)
        for (size_t i = start + 1; i < len && i < start + RUN; i++) {
            struct key one = v[i];
            size_t k = i;

            for (; k > start && key_cmp(book, &one, &v[k - 1]) < 0; k--)
                v[k] = v[k - 1];
            v[k] = one;
        }
    room = mem_alloc(sizeof(*v) * len);
    to = room;
    for (size_t width = RUN; width < len; width *= 2) {
        struct key *swap = from;

        for (size_t i = 0; i < len; i += 2 * width) {
            size_t a = len - i < width ? len - i : width;
            size_t b = len - i - a < width ? len - i - a : width;

            merge(book, from + i, a, from + i + a, b, to + i);
        }
        from = to;
        to = swap;
    }
    if (from != v)
        memcpy(v, from, sizeof(*v) * len);
}

/* ---- ordinals ---- */

/* Where a job stands among its user's. */
static struct key own_key(const struct book *book, uint32_t job)
{
    const struct workload *w = book_job(book, job);
    uint32_t user = book->jobs.v[job].user;

    return (struct key){
        {user, w->demand.max_gpus > 0, -(int64_t)w->priority, w->submit_ms}, job, user, 0, false};
}

bool order_own(const struct book *book, uint32_t job, uint32_t other)
{
    struct key a = own_key(book, job), b = own_key(book, other);

    return a.user == b.user && key_cmp(book, &a, &b) < 0;
}

/* What a waiting job will take, or when a running one will end. */
static void read_length(struct book *book, uint32_t job)
{
    const struct workload *w = book_job(book, job);
    struct book_job *of = &book->jobs.v[job];
    struct forecast room;
    const struct forecast *f;

    of->end_holds_ms = INT64_MIN;
    of->rest_ms = phase_holds(w->phase) ? 0 : book_rest_ms(book, job, w->demand.min_gpus);
    if (!workload_runs(w)) /* its end moves until it does */
        return;
    f = book_forecast_as_of(book, job, &room);
    of->end_ms = forecast_end(f, workload_gpus(w), false, book_since_ms(w, f), book->now).at_ms;
    of->end_holds_ms = forecast_end_holds(f, workload_gpus(w), book_since_ms(w, f), book->now);
}

void order_epoch(struct book *book, uint32_t job)
{
    read_length(book, job);
    pace_changed(book, job);
}

void order_ends(struct book *book)
{
    VEC_EACH(&book->running, key)
        if (book->jobs.v[key->job].end_holds_ms < book->now)
            read_length(book, key->job);
}

static int waiting_step(const struct book *book, uint32_t job)
{
    const struct forecast *f = book->view->forecasts ? &book->view->forecasts[job] : NULL;
    int64_t rest = book->jobs.v[job].rest_ms;

    if (!phase_is_waiting(book_job(book, job)->phase))
        return 0;
    return length_step_ms(
        (f && f->points > 0 && f->measured) || rest < UNSURE_S * 1000 ? rest : (int64_t)UNSURE_S * 1000);
}

static void read_job(struct book *book, uint32_t job)
{
    const struct workload *w = book_job(book, job);
    uint32_t mib = book->smallest_card, user = user_of(book, w), shape = shape_of(book, w);

    if (!demand_whole(&w->demand)) {
        mib = w->demand.mib <= book->smallest_card
                  ? mib
                  : cluster_smallest_card(book->view->cluster, w->demand.mib);
        if (phase_holds(w->phase) && space_exists(&book->space, w->placement) &&
            w->placement.v[0].card != SLOT_CPU)
            mib = book->view->cluster->nodes[w->placement.v[0].node].gpus[w->placement.v[0].card].mem_mib;
    }
    book->jobs.v[job].shape = shape;
    book->jobs.v[job].user = user;
    book->jobs.v[job].milli = demand_milli(&w->demand, w->demand.min_gpus, mib);
    book->jobs.v[job].queued = false;
    read_length(book, job);
    pace_changed(book, job);
    book->jobs.v[job].priority = w->priority;
    book->jobs.v[job].submit_ms = w->submit_ms;
    book->jobs.v[job].cpu_only = w->demand.max_gpus == 0;
    book->jobs.v[job].bound = w->bound_ms > 0 && phase_is_waiting(w->phase);
    book->jobs.v[job].waits = phase_is_waiting(w->phase) && !w->blocked && w->demand.max_gpus > 0;
    book->jobs.v[job].step = waiting_step(book, job);
}

/* And how long each counts as: of one user, a short job does not go before one of higher priority. */
static void sum_ordinals(struct book *book, const struct book_user *user)
{
    int64_t sum = 0;
    int longest = 0, floor = 0;
    int32_t priority = INT32_MAX;

    VEC_EACH(&user->jobs, job) {
        struct book_job *of = &book->jobs.v[*job];
        int64_t ordinal = user->name ? sum += of->milli : of->milli;
        int step;

        floor = of->priority != priority && user->name ? longest : floor;
        priority = of->priority;
        step = of->waits && of->step < floor ? floor : of->step;
        longest = of->waits && step > longest ? step : longest;
        if (book->policy->by_user)
            of->queued &= of->ordinal == ordinal && of->rank_step == step;
        of->ordinal = ordinal;
        of->rank_step = step;
    }
}

/* A key comes into the queue (1) or leaves it (-1). */
static void count_key(struct book *book, const struct key *key, int times)
{
    uint32_t *at = &book->jobs.v[key->job].special;

    book->shapes.v[key->shape].waiting += (uint32_t)times;
    book->queued += (uint32_t)times;
    if (!key->special)
        return;
    if (times > 0) {
        vec_push(&book->specials, key->job);
        *at = (uint32_t)book->specials.len;
    } else {
        uint32_t last = vec_pop(&book->specials);

        if (last != key->job) {
            book->specials.v[*at - 1] = last;
            book->jobs.v[last].special = *at;
        }
        *at = 0;
    }
}

static void push_key(struct book *book, uint32_t job)
{
    const struct workload *w = book_job(book, job);
    struct key key = {.job = job, .user = book->jobs.v[job].user, .shape = book->jobs.v[job].shape};

    key.special = w->claim.len > 0 || w->not_before_ms > 0 || w->blocked || w->asked || w->bound_ms > 0;
    book->policy->key(book, job, key.k);
    memcpy(book->jobs.v[job].k, key.k, sizeof(key.k));
    book->jobs.v[job].queued = true;
    if (phase_holds(w->phase)) {
        vec_push(&book->running, key);
        book->jobs.v[job].where = WHERE_RUNNING;
        return;
    }
    if (book->policy->by_user)
        vec_push(&book->users.v[key.user].queue, key);
    else
        vec_push(&book->waiting, key);
    book->jobs.v[job].where = WHERE_WAITING;
    count_key(book, &key, 1);
}

void book_use(struct book *book, uint32_t job, int times)
{
    const struct workload *w = book_job(book, job);

    if (phase_holds(w->phase))
        space_use(&book->space, &w->demand, w->placement, times);
}

void order_build(struct book *book)
{
    vec_reserve(&book->jobs, book->view->job_count + 1);
    vec_reserve(&book->scratch, book->view->job_count + 1);
    memset(book->jobs.v, 0, sizeof(*book->jobs.v) * book->view->job_count);
    book->jobs.len = book->view->job_count;
    for (uint32_t job = 0; job < book->view->job_count; job++)
        if (!phase_is_over(book_job(book, job)->phase)) {
            read_job(book, job);
            vec_push(&book->scratch, own_key(book, job));
            book_use(book, job, 1);
        }
    keys_sort(book, book->scratch.v, book->scratch.len);
    VEC_EACH(&book->scratch, key)
        vec_push(&book->users.v[key->user].jobs, key->job);
    VEC_EACH(&book->users, user)
        sum_ordinals(book, user);
    for (uint32_t job = 0; job < book->view->job_count; job++)
        if (!phase_is_over(book_job(book, job)->phase))
            push_key(book, job);
    keys_sort(book, book->waiting.v, book->waiting.len);
    keys_sort(book, book->running.v, book->running.len);
    VEC_EACH(&book->users, user) {
        keys_sort(book, user->queue.v, user->queue.len);
        if (user->queue.len > 0)
            vec_push(&book->heads, user->queue.v[0]);
    }
    keys_sort(book, book->heads.v, book->heads.len);
}

/* ---- changes ---- */

/* The place of a key among sorted ones. It is looked for from `hint` on in growing
 * steps: keys of one user that are looked for after each other are not far from each other. */
static size_t place_of(const struct book *book, const struct key *v, size_t len, const struct key *key,
                       size_t hint)
{
    size_t low = 0;

    if (hint < len) {
        size_t step = 1;

        if (key_cmp(book, &v[hint], key) < 0) {
            for (low = hint + 1; low + step < len && key_cmp(book, &v[low + step], key) < 0; step *= 2)
                low += step;
            len = low + step < len ? low + step : len;
        } else {
            for (len = hint; len > step && key_cmp(book, &v[len - step], key) >= 0; step *= 2)
                len -= step;
            low = len > step ? len - step : 0;
        }
    }
    while (low < len) {
        size_t mid = low + (len - low) / 2;

        if (key_cmp(book, &v[mid], key) < 0)
            low = mid + 1;
        else
            len = mid;
    }
    return low;
}

/* Notes where the job's key is, if it is in that queue: by its old key, or, when that has changed under it
 * (time, a new name), by looking at all. */
static void note_place(struct book *book, const struct key *v, size_t len, uint32_t job, enum where where)
{
    struct key key = {.job = job};
    size_t at;

    if (book->jobs.v[job].where != where)
        return;
    memcpy(key.k, book->jobs.v[job].k, sizeof(key.k));
    at = place_of(book, v, len, &key, book->places.len ? book->places.v[book->places.len - 1] : len / 2);
    if (at == len || v[at].job != job)
        for (at = 0; at < len && v[at].job != job; at++)
            ;
    if (at < len)
        vec_push(&book->places, (uint32_t)at);
    book->jobs.v[job].where = WHERE_NONE;
}

static int place_cmp(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Notes where the user's keys that are out of date stand, and that of `job`. */
static void find_old(struct book *book, const struct key *v, size_t len, uint32_t user, uint32_t job,
                     enum where where)
{
    book->places.len = 0;
    if (job != SCHED_NONE)
        note_place(book, v, len, job, where);
    VEC_EACH(&book->users.v[user].jobs, one)
        if (!book->jobs.v[*one].queued)
            note_place(book, v, len, *one, where);
    for (size_t i = 1; i < book->places.len; i++)
        if (book->places.v[i - 1] > book->places.v[i]) {
            qsort(book->places.v, book->places.len, sizeof(*book->places.v), place_cmp);
            break;
        }
    for (size_t i = 0; i < book->places.len && where == WHERE_WAITING; i++)
        count_key(book, &v[book->places.v[i]], -1);
}

/* What lies between two places moves as a whole. */
struct segment {
    size_t from, to;
    int64_t shift;
};

/* Takes the keys at book->places out of the first `len`, which are sorted, and puts those of `fresh`, which
 * are, too, where they belong. A key that moves a little way moves only what it passes. */
static size_t keys_replace(struct book *book, struct key *v, size_t len, const struct key *fresh,
                           size_t count)
{
    size_t outs = book->places.len, out = 0, in = 0, at = 0;
    VEC(struct segment) segments = {0};
    CLEANUP(free) size_t *into = mem_alloc(sizeof(*into) * (count + 1));

    for (size_t i = 0; i < count; i++)
        into[i] = place_of(book, v, len, &fresh[i], i ? into[i - 1] : len / 2);
    while (at < len || out < outs || in < count) {
        size_t next = len;

        if (out < outs && book->places.v[out] < next)
            next = book->places.v[out];
        if (in < count && into[in] < next)
            next = into[in];
        if (next > at && in != out)
            vec_push(&segments, (struct segment){at, next, (int64_t)in - (int64_t)out});
        at = next;
        if (in < count && into[in] == at) {
            into[in] = at + in - out;
            in++;
        } else if (out < outs && book->places.v[out] == at) {
            out++;
            at++;
        }
    }
    VEC_EACH(&segments, one)
        if (one->shift < 0)
            memmove(&v[(int64_t)one->from + one->shift], &v[one->from], sizeof(*v) * (one->to - one->from));
    for (size_t i = segments.len; i-- > 0;)
        if (segments.v[i].shift > 0)
            memmove(&v[(int64_t)segments.v[i].from + segments.v[i].shift], &v[segments.v[i].from],
                    sizeof(*v) * (segments.v[i].to - segments.v[i].from));
    for (size_t i = 0; i < count; i++)
        v[into[i]] = fresh[i];
    vec_done(&segments);
    return len - outs + count;
}

/* The keys from `old` on are new: they take the places of those that are out of date. */
static size_t keys_renew(struct book *book, struct key *v, size_t old, size_t len)
{
    size_t fresh = len - old;

    if (fresh == 0 && book->places.len == 0)
        return len;
    keys_sort(book, v + old, fresh);
    vec_reserve(&book->scratch, fresh + 1);
    if (fresh > 0)
        memcpy(book->scratch.v, v + old, sizeof(*v) * fresh);
    return keys_replace(book, v, old, book->scratch.v, fresh);
}

/* The place of a user's first key among the heads, as it was put there. */
static size_t head_place(const struct book *book, const struct key *head)
{
    size_t at = place_of(book, book->heads.v, book->heads.len, head, book->heads.len / 2);

    if (at == book->heads.len || book->heads.v[at].user != head->user) /* it was renamed meanwhile */
        for (at = 0; book->heads.v[at].user != head->user; at++)
            ;
    return at;
}

/* The head of a user's list was `old` (NULL: the list was empty). */
static void renew_head(struct book *book, const struct book_user *user, const struct key *old)
{
    const struct key *head = user->queue.len > 0 ? &user->queue.v[0] : NULL;
    size_t at;

    if (old) {
        at = head_place(book, old);
        vec_remove(&book->heads, at);
    }
    if (head) {
        at = place_of(book, book->heads.v, book->heads.len, head, book->heads.len / 2);
        vec_insert(&book->heads, at, *head);
    }
}

/* Takes `job` out of the user's list, gives the others that are out of date their new keys, and puts in what
 * is new. */
static void renew_list(struct book *book, uint32_t index, uint32_t job)
{
    struct book_user *user = &book->users.v[index];
    struct key head = user->queue.len > 0 ? user->queue.v[0] : (struct key){.job = SCHED_NONE};
    size_t kept = 0;

    VEC_EACH(&user->queue, key) {
        struct book_job *of = &book->jobs.v[key->job];

        if (key->job == job) {
            count_key(book, key, -1);
            of->where = WHERE_NONE;
            continue;
        }
        if (!of->queued) {
            book->policy->key(book, key->job, key->k);
            memcpy(of->k, key->k, sizeof(of->k));
            of->queued = true;
        }
        user->queue.v[kept++] = *key;
    }
    user->queue.len = kept;
    keys_sort(book, user->queue.v, kept);
    if (job != SCHED_NONE && book->jobs.v[job].user == index && !phase_holds(book_job(book, job)->phase)) {
        struct key key;
        size_t at;

        push_key(book, job);
        key = vec_pop(&user->queue);
        at = place_of(book, user->queue.v, kept, &key, kept);
        vec_insert(&user->queue, at, key);
    }
    renew_head(book, user, head.job != SCHED_NONE ? &head : NULL);
}

/* The user's ordinals are summed up again; what that changes, and `job`, get new places. */
static void rerank(struct book *book, uint32_t user, uint32_t job)
{
    size_t running = book->running.len, waiting = book->waiting.len, places;

    sum_ordinals(book, &book->users.v[user]);
    find_old(book, book->running.v, running, user, job, WHERE_RUNNING);
    if (book->policy->by_user) {
        renew_list(book, user, job);
        VEC_EACH(&book->users.v[user].jobs, one)
            if (!book->jobs.v[*one].queued)
                push_key(book, *one);
        book->running.len = keys_renew(book, book->running.v, running, book->running.len);
        return;
    }
    places = book->places.len;
    vec_reserve(&book->kept_places, places + 1);
    if (places > 0)
        memcpy(book->kept_places.v, book->places.v, sizeof(*book->places.v) * places);
    find_old(book, book->waiting.v, waiting, user, job, WHERE_WAITING);
    VEC_EACH(&book->users.v[user].jobs, one)
        if (!book->jobs.v[*one].queued)
            push_key(book, *one);
    book->waiting.len = keys_renew(book, book->waiting.v, waiting, book->waiting.len);
    vec_reserve(&book->places, places + 1);
    if (places > 0)
        memcpy(book->places.v, book->kept_places.v, sizeof(*book->places.v) * places);
    book->places.len = places;
    book->running.len = keys_renew(book, book->running.v, running, book->running.len);
}

static void forget(struct book *book, uint32_t user, uint32_t job)
{
    struct book_user *of = &book->users.v[user];

    for (size_t i = 0; i < of->jobs.len; i++)
        if (of->jobs.v[i] == job) {
            vec_remove(&of->jobs, i);
            return;
        }
}

void order_change(struct book *book, uint32_t job, bool gone)
{
    uint32_t old = SCHED_NONE, user;
    struct book_user *of;
    struct key key;
    size_t at = 0;

    while (book->jobs.len <= job)
        vec_push(&book->jobs, (struct book_job){.user = SCHED_NONE});
    old = book->jobs.v[job].user;
    if (old != SCHED_NONE)
        forget(book, old, job);
    if (gone) {
        book->jobs.v[job].user = SCHED_NONE;
        pace_changed(book, job);
        rerank(book, old, job);
        return;
    }
    read_job(book, job);
    user = book->jobs.v[job].user;
    of = &book->users.v[user];
    key = own_key(book, job);
    for (size_t end = of->jobs.len; at < end;) {
        size_t mid = at + (end - at) / 2;
        struct key other = own_key(book, of->jobs.v[mid]);

        if (key_cmp(book, &other, &key) < 0)
            at = mid + 1;
        else
            end = mid;
    }
    vec_insert(&of->jobs, at, job);
    if (old != SCHED_NONE && old != user)
        rerank(book, old, job);
    rerank(book, user, job);
}

void order_usage(struct book *book, const char *name)
{
    VEC_EACH(&book->users, user)
        if (streq(user->name, name)) {
            user->step = usage_step(book->view->usage, name);
            VEC_EACH(&user->jobs, job)
                book->jobs.v[*job].queued = false;
            rerank(book, (uint32_t)(user - book->users.v), SCHED_NONE);
        }
}

void order_time(struct book *book)
{
    VEC_EACH(&book->running, key)
        book->policy->key(book, key->job, key->k);
    keys_sort(book, book->running.v, book->running.len);
    if (!book->policy->timed_waiting)
        return;
    VEC_EACH(&book->waiting, key)
        book->policy->key(book, key->job, key->k);
    keys_sort(book, book->waiting.v, book->waiting.len);
}

/* ---- reading the queue ---- */

static bool is_before(const struct book *book, const struct cursor *a, const struct cursor *b)
{
    for (int i = 0; i < 2; i++)
        if (a->k[i] != b->k[i])
            return a->k[i] < b->k[i];
    return key_cmp(book, a->at, b->at) < 0;
}

static void cursor_set(struct cursor *cursor, const struct key *at)
{
    cursor->at = at;
    memcpy(cursor->k, at->k, sizeof(cursor->k));
}

static void cursors_up(struct walk *walk, size_t at)
{
    struct cursor one = walk->cursors.v[at];

    for (; at > 0 && is_before(walk->book, &one, &walk->cursors.v[(at - 1) / 2]); at = (at - 1) / 2)
        walk->cursors.v[at] = walk->cursors.v[(at - 1) / 2];
    walk->cursors.v[at] = one;
}

static void cursors_down(struct walk *walk)
{
    struct cursor one = walk->cursors.v[0];
    size_t at = 0;

    for (size_t child; (child = 2 * at + 1) < walk->cursors.len; at = child) {
        if (child + 1 < walk->cursors.len &&
            is_before(walk->book, &walk->cursors.v[child + 1], &walk->cursors.v[child]))
            child++;
        if (!is_before(walk->book, &walk->cursors.v[child], &one))
            break;
        walk->cursors.v[at] = walk->cursors.v[child];
    }
    walk->cursors.v[at] = one;
}

/* The next of the lists that were begun. */
static const struct key *next_begun(struct walk *walk)
{
    struct cursor *first = &walk->cursors.v[0];
    const struct key *key = first->at;

    if (key + 1 == first->end)
        *first = vec_pop(&walk->cursors);
    else
        cursor_set(first, key + 1);
    if (walk->cursors.len > 1)
        cursors_down(walk);
    return key;
}

const struct key *walk_next(struct walk *walk)
{
    const struct book *book = walk->book;
    const struct book_user *user;

    if (!book->policy->by_user)
        return walk->at < book->waiting.len ? &book->waiting.v[walk->at++] : NULL;
    if (walk->at == book->heads.len ||
        (walk->cursors.len > 0 && key_cmp(book, walk->cursors.v[0].at, &book->heads.v[walk->at]) < 0))
        return walk->cursors.len > 0 ? next_begun(walk) : NULL;
    user = &book->users.v[book->heads.v[walk->at++].user];
    if (user->queue.len > 1) {
        vec_push(&walk->cursors, (struct cursor){.end = user->queue.v + user->queue.len});
        cursor_set(&walk->cursors.v[walk->cursors.len - 1], &user->queue.v[1]);
        cursors_up(walk, walk->cursors.len - 1);
    }
    return &user->queue.v[0];
}

void order_flat(struct book *book)
{
    CLEANUP(walk_done) struct walk walk = {.book = book};
    const struct key *key;

    if (!book->policy->by_user)
        return;
    vec_reserve(&book->waiting, book->queued + 1);
    book->waiting.len = 0;
    while ((key = walk_next(&walk)))
        vec_push(&book->waiting, *key);
}
