#include "sched/pace.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

#define RIGID_GPUS 0.5 /* power of the gang's size in the order of rigid jobs: 0 is SRTF, 1 is SRSF */
#define ONE_BY_ONE 16  /* rows that are moved one by one; when more have changed, all are sorted */

void pace_changed(struct book *book, uint32_t job)
{
    if (!book->policy->paced)
        return;
    while (book->paces.len <= job)
        vec_push(&book->paces, (struct pace){.known = false});
    book->paces.v[job].known = false;
    vec_push(&book->paces_changed, job);
}

static void trim(const struct book *book, const struct workload *w, const struct forecast *f,
                 struct pace *pace)
{
    uint32_t now = workload_gpus(w);

    while (pace->points > 1 && pace->hull[pace->points - 1].gpus > book->space.card_count)
        pace->points--;
    if (w->probes >= book->view->options.probes_max && f->tried)
        while (pace->points > 1 && pace->hull[pace->points - 1].gpus > now &&
               !forecast_tried(f, pace->hull[pace->points - 1].gpus))
            pace->points--;
}

const struct pace *pace_of(struct book *book, uint32_t job)
{
    const struct workload *w = book_job(book, job);
    struct pace *pace = &book->paces.v[job];
    struct forecast room;
    const struct forecast *f;

    if (pace->known)
        return pace;
    f = book_forecast_as_of(book, job, &room);
    pace->known = true;
    pace->measured = f->measured;
    pace->work_s = f->work_s;
    pace->as_of_ms = workload_runs(w) ? f->as_of_ms : 0;
    pace->rate = forecast_rate(f, workload_gpus(w));
    pace->rate_min = forecast_rate(f, w->demand.min_gpus ? w->demand.min_gpus : 1);
    pace->overrun = f->overrun;
    pace->allowed_s = f == &room ? forecast_allowed_s(w, f) : 0;
    pace->shared = f->shared;
    pace->points = forecast_hull(f, pace->hull);
    trim(book, w, f, pace);
    return pace;
}

double pace_work_s(const struct pace *pace, int64_t now)
{
    double left;

    if (pace->as_of_ms == 0 || pace->as_of_ms >= now)
        return pace->work_s;
    left = pace->work_s - (double)(now - pace->as_of_ms) / 1000 * pace->rate;
    return left > pace->work_s / 100 ? left : pace->work_s / 100;
}

int64_t pace_rest_ms(const struct book *book, uint32_t job)
{
    const struct pace *pace = &book->paces.v[job];

    if (!pace->known)
        return book_rest_ms(book, job, book_job(book, job)->demand.min_gpus);
    return ms_of_s(pace->rate_min > 0 ? pace_work_s(pace, book->now) / pace->rate_min : INFINITY);
}

float pace_overrun(const struct book *book, const struct pace *pace, uint32_t job)
{
    return pace->allowed_s > 0 ? forecast_overrun(book_job(book, job), pace->allowed_s, book->now)
                               : pace->overrun;
}

/* ---- those that wait ---- */

int pace_row_cmp(const struct pace_row *a, const struct pace_row *b)
{
    if (a->work_s != b->work_s)
        return a->work_s > b->work_s ? -1 : 1;
    return (a->job > b->job) - (a->job < b->job);
}

struct pace_row pace_row_of(struct book *book, uint32_t job)
{
    const struct workload *w = book_job(book, job);
    const struct pace *pace = pace_of(book, job);
    struct pace_row row = {.job = job,
                           .shape = book->jobs.v[job].shape,
                           .work_s = pace->work_s,
                           .special = book->jobs.v[job].special > 0,
                           .measured = pace->measured,
                           .elastic = demand_elastic(&w->demand),
                           .cpu_only = w->demand.max_gpus == 0,
                           .submit_ms = w->submit_ms};

    if (pace->points == 0)
        return row;
    row.gpus = pace->hull[0].gpus;
    row.alone_s = pace->work_s / pace->hull[pace->points - 1].rate;
    row.left_s = pace->work_s / pace->hull[0].rate;
    row.first = (double)pace->hull[0].rate / pace->hull[0].gpus;
    row.claim = pace_overrun(book, pace, job);
    row.gang = pow(pace->hull[0].gpus, RIGID_GPUS);
    row.had_s = (double)w->attained_gpu_ms / 1000 / (w->demand.min_gpus ? w->demand.min_gpus : 1);
    return row;
}

static bool has_row(const struct book *book, uint32_t job)
{
    return book->jobs.v[job].where == WHERE_WAITING &&
           (book->paces.v[job].points > 0 || book_job(book, job)->demand.max_gpus == 0);
}

static size_t row_place(const struct book *book, const struct pace_row *row)
{
    size_t low = 0, high = book->rows.len;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (pace_row_cmp(&book->rows.v[mid], row) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static void remove_row(struct book *book, uint32_t job)
{
    struct pace *pace = &book->paces.v[job];
    size_t at = row_place(book, &(struct pace_row){.work_s = pace->row_work_s, .job = job});

    vec_remove(&book->rows, at);
    pace->in_rows = false;
}

static int row_cmp(const void *a, const void *b)
{
    return pace_row_cmp(a, b);
}

/* Takes out all that has changed. */
static void drop_changed(struct book *book)
{
    size_t to = 0;

    VEC_EACH(&book->paces_changed, job)
        book->paces.v[*job].in_rows = false;
    VEC_EACH(&book->rows, row)
        if (book->paces.v[row->job].in_rows)
            book->rows.v[to++] = *row;
    book->rows.len = to;
}

/* The first `old` are sorted; so are all of them after that. */
static void merge_rows(struct book *book, size_t old)
{
    size_t len = book->rows.len, a = old, b = len - old;
    CLEANUP(free) struct pace_row *fresh = mem_dup(book->rows.v + old, sizeof(*fresh) * b);

    qsort(fresh, b, sizeof(*fresh), row_cmp);
    while (b > 0)
        if (a > 0 && pace_row_cmp(&book->rows.v[a - 1], &fresh[b - 1]) > 0)
            a--, book->rows.v[--len] = book->rows.v[a];
        else
            book->rows.v[--len] = fresh[--b];
}

void pace_rows(struct book *book)
{
    bool all = book->paces_changed.len > ONE_BY_ONE;
    size_t old;

    if (all)
        drop_changed(book);
    old = book->rows.len;
    VEC_EACH(&book->paces_changed, job) {
        struct pace *pace = &book->paces.v[*job];
        struct pace_row row;
        size_t at = book->rows.len;

        if (pace->in_rows && all) /* it is there twice */
            continue;
        if (pace->in_rows)
            remove_row(book, *job);
        if (book->jobs.v[*job].where != WHERE_WAITING)
            continue;
        row = pace_row_of(book, *job);
        if (!has_row(book, *job))
            continue;
        pace->in_rows = true;
        pace->row_work_s = row.work_s;
        if (!all)
            at = row_place(book, &row);
        vec_insert(&book->rows, at, row);
    }
    if (all && book->rows.len > old)
        merge_rows(book, old);
    book->paces_changed.len = 0;
}
