/* pace - what `berth` reads of every job with every decision, made once and kept until something is learned
 * about the job: how much there is to do and how fast it goes on each size. Those that wait are kept sorted,
 * so that a decision among ten thousand reads one array. Private to sched. */
#pragma once

#include "sched/book.h"

/* Of any job. */
struct pace {
    double work_s;     /* left at as_of_ms */
    int64_t as_of_ms;  /* while it runs; 0: work_s stays as it is */
    double rate;       /* on the GPUs it has */
    double rate_min;   /* on its smallest size */
    double allowed_s;  /* GPU seconds that it declared, when nothing else is known; else 0 */
    double row_work_s; /* by which its row is found */
    float overrun, shared;
    uint32_t points; /* of the hull; 0: it cannot run */
    bool known, measured, in_rows;
    struct curve_point hull[CURVE_MAX];
};

/* Of a job that waits. Most work first, then by number. */
struct pace_row {
    double work_s;
    double alone_s; /* on its largest size */
    double first;   /* speed that its smallest size brings per GPU */
    double claim;   /* forecast.overrun */
    double gang;    /* what the size of a gang counts as in the order of rigid jobs */
    double had_s;   /* time it has had on its smallest size */
    double left_s;  /* on its smallest size */
    uint32_t job, gpus, shape;
    bool special, measured, elastic, cpu_only;
    bool skipped; /* does not take part in this decision */
    int64_t submit_ms;
};

/* Something about the job changed. */
void pace_changed(struct book *book, uint32_t job);
const struct pace *pace_of(struct book *book, uint32_t job);
double pace_work_s(const struct pace *pace, int64_t now); /* played forward */
/* What it still takes on its smallest size. */
int64_t pace_rest_ms(const struct book *book, uint32_t job);
float pace_overrun(const struct book *book, const struct pace *pace, uint32_t job);
struct pace_row pace_row_of(struct book *book, uint32_t job);
int pace_row_cmp(const struct pace_row *a, const struct pace_row *b);
/* Brings book->rows up to date. */
void pace_rows(struct book *book);
