#include "base/metrics.h"

#include "base/clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define US 1000

const struct histogram_scale histogram_latency = {
    16,
    {100 * US, 250 * US, 500 * US, NSEC_PER_MSEC, 2500 * US, 5 * NSEC_PER_MSEC, 10 * NSEC_PER_MSEC,
     25 * NSEC_PER_MSEC, 50 * NSEC_PER_MSEC, 100 * NSEC_PER_MSEC, 250 * NSEC_PER_MSEC, 500 * NSEC_PER_MSEC,
     NSEC_PER_SEC, 2500 * NSEC_PER_MSEC, 5 * NSEC_PER_SEC, 10 * NSEC_PER_SEC},
};

const struct histogram_scale histogram_wait = {
    14,
    {NSEC_PER_SEC, 5 * NSEC_PER_SEC, 15 * NSEC_PER_SEC, 60 * NSEC_PER_SEC, 300 * NSEC_PER_SEC,
     900 * NSEC_PER_SEC, 1800 * NSEC_PER_SEC, 3600 * NSEC_PER_SEC, 7200 * NSEC_PER_SEC, 14400 * NSEC_PER_SEC,
     43200 * NSEC_PER_SEC, 86400 * NSEC_PER_SEC, 259200 * NSEC_PER_SEC, 604800 * NSEC_PER_SEC},
};

void histogram_add(struct histogram *histogram, const struct histogram_scale *scale, int64_t ns)
{
    size_t at = 0;

    if (ns < 0) /* clocks were set back */
        ns = 0;
    while (at < scale->len && ns > scale->bounds[at])
        at++;
    histogram->in[at == scale->len ? HISTOGRAM_BUCKETS_MAX : at]++;
    histogram->count++;
    histogram->sum = histogram->sum > INT64_MAX - ns ? INT64_MAX : histogram->sum + ns;
}

void metrics_family(struct metrics *metrics, const char *name, enum metric_type type, const char *help)
{
    static const char *const types[] = {
        [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_HISTOGRAM] = "histogram"};

    metrics->name = name;
    buf_printf(metrics->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, types[type]);
}

static void put_value_text(struct buf *out, const char *text)
{
    size_t left = strlen(text), n;

    for (const char *p = text; left; p += n, left -= n) {
        n = utf8_len((const unsigned char *)p, left);
        if (n == 0)
            buf_putc(out, '?'), n = 1;
        else if (*p == '\n')
            buf_puts(out, "\\n");
        else if (*p == '"' || *p == '\\')
            buf_printf(out, "\\%c", *p);
        else
            buf_add(out, p, n);
    }
}

/* "NAMEsuffix{a="b",le="0.5"} " */
static void put_head(struct metrics *metrics, const char *suffix, const struct metric_label *labels,
                     const char *le)
{
    struct buf *out = metrics->out;
    bool any = false;

    buf_printf(out, "%s%s", metrics->name, suffix);
    for (; labels && labels->name; labels++, any = true) {
        buf_printf(out, "%s%s=\"", any ? "," : "{", labels->name);
        put_value_text(out, labels->value ? labels->value : "");
        buf_putc(out, '"');
    }
    if (le)
        buf_printf(out, "%sle=\"%s\"", any ? "," : "{", le);
    buf_puts(out, any || le ? "} " : " ");
}

void metrics_count(struct metrics *metrics, const struct metric_label *labels, uint64_t value)
{
    put_head(metrics, "", labels, NULL);
    buf_printf(metrics->out, "%" PRIu64 "\n", value);
}

static void put_number(struct buf *out, double value)
{
    if (isnan(value))
        buf_puts(out, "NaN");
    else if (isinf(value))
        buf_puts(out, value > 0 ? "+Inf" : "-Inf");
    else
        buf_printf(out, "%.15g", value);
}

void metrics_gauge(struct metrics *metrics, const struct metric_label *labels, double value)
{
    put_head(metrics, "", labels, NULL);
    put_number(metrics->out, value);
    buf_putc(metrics->out, '\n');
}

void metrics_histogram(struct metrics *metrics, const struct metric_label *labels,
                       const struct histogram *histogram, const struct histogram_scale *scale)
{
    uint64_t below = 0;
    char bound[32];

    for (size_t i = 0; i < scale->len; i++) {
        below += histogram->in[i];
        snprintf(bound, sizeof(bound), "%.15g", (double)scale->bounds[i] / NSEC_PER_SEC);
        put_head(metrics, "_bucket", labels, bound);
        buf_printf(metrics->out, "%" PRIu64 "\n", below);
    }
    put_head(metrics, "_bucket", labels, "+Inf");
    buf_printf(metrics->out, "%" PRIu64 "\n", histogram->count);
    put_head(metrics, "_sum", labels, NULL);
    put_number(metrics->out, (double)histogram->sum / NSEC_PER_SEC);
    buf_putc(metrics->out, '\n');
    put_head(metrics, "_count", labels, NULL);
    buf_printf(metrics->out, "%" PRIu64 "\n", histogram->count);
}
