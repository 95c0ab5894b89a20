/* metrics - histograms, and numbers as Prometheus reads them (its text format, version 0.0.4).
 *
 * Whoever knows something keeps it in plain counters and histograms, which cost a few additions an event and
 * allocate nothing; whoever is asked for all of it writes them out, a family at a time:
 *
 *     metrics_family(&metrics, "berth_commits_total", METRIC_COUNTER, "Transactions that were written.");
 *     metrics_count(&metrics, NULL, stats.commits);
 *
 * A family's samples follow its head at once; of each only the labels differ. */
#pragma once

#include "base/buf.h"

#define HISTOGRAM_BUCKETS_MAX 18

/* Upper bounds in nanoseconds, ascending. */
struct histogram_scale {
    size_t len; /* at most HISTOGRAM_BUCKETS_MAX */
    int64_t bounds[HISTOGRAM_BUCKETS_MAX];
};
extern const struct histogram_scale histogram_latency; /* 100 us to 10 s */
extern const struct histogram_scale histogram_wait;    /* 1 s to a week */

/* Zero-initialised is empty. */
struct histogram {
    uint64_t in[HISTOGRAM_BUCKETS_MAX + 1]; /* the last: above all bounds */
    uint64_t count;
    int64_t sum; /* nanoseconds; stays where it would overflow */
};
void histogram_add(struct histogram *histogram, const struct histogram_scale *scale, int64_t ns);

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

/* Where they are written. */
struct metrics {
    struct buf *out;
    const char *name; /* of the present family */
};
/* name: of the family, help: one line; both live as long as the samples are written. */
void metrics_family(struct metrics *metrics, const char *name, enum metric_type type, const char *help);

/* Values are anybody's text. The list ends with a NULL name; a NULL list: no labels. */
struct metric_label {
    const char *name, *value;
};
#define METRIC_LABELS(...) ((const struct metric_label[]){__VA_ARGS__, {NULL, NULL}})

void metrics_count(struct metrics *metrics, const struct metric_label *labels, uint64_t value);
void metrics_gauge(struct metrics *metrics, const struct metric_label *labels, double value);
void metrics_histogram(struct metrics *metrics, const struct metric_label *labels,
                       const struct histogram *histogram, const struct histogram_scale *scale);
