/* One HTML file with everything inside: the table, and plots as SVG. */
#include "sim/sim.h"

#include <math.h>
#include <stdio.h>

#define PLOT_W 860
#define PLOT_H 260
#define LEFT   60
#define BOTTOM 34

static const char *const colours[] = {"#0b6e99", "#d9730d", "#0f7b6c", "#ad1a72",
                                      "#6940a5", "#9b6829", "#e03e3e", "#64748b"};

static void text(struct buf *buf, const char *s)
{
    for (; *s; s++)
        if (*s == '<')
            buf_puts(buf, "&lt;");
        else if (*s == '&')
            buf_puts(buf, "&amp;");
        else
            buf_putc(buf, *s);
}

struct axes {
    double x_max, y_max;
    bool log_x;
    double x_min;
    const char *x, *y;
};

static double x_at(const struct axes *a, double x)
{
    double part = a->log_x ? log(fmax(x, a->x_min) / a->x_min) / log(a->x_max / a->x_min) : x / a->x_max;

    return LEFT + part * (PLOT_W - LEFT - 10);
}

static double y_at(const struct axes *a, double y)
{
    return PLOT_H - BOTTOM - y / a->y_max * (PLOT_H - BOTTOM - 10);
}

static void span(struct buf *buf, double s)
{
    if (s >= 86400 * 2)
        buf_printf(buf, "%.3g d", s / 86400);
    else if (s >= 7200)
        buf_printf(buf, "%.3g h", s / 3600);
    else if (s >= 120)
        buf_printf(buf, "%.3g min", s / 60);
    else
        buf_printf(buf, "%.3g s", s);
}

static void plot_begin(struct buf *buf, const char *title, const struct axes *a)
{
    buf_printf(buf, "<h2>%s</h2>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", title,
               PLOT_W, PLOT_H, title);
    for (int i = 0; i <= 4; i++) {
        double y = a->y_max * i / 4;
        double x = a->log_x ? a->x_min * pow(a->x_max / a->x_min, i / 4.0) : a->x_max * i / 4;

        buf_printf(buf,
                   "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" class=\"g\"/><text x=\"%d\" y=\"%.1f\" "
                   "text-anchor=\"end\">%.4g</text>\n",
                   LEFT, PLOT_W - 10, y_at(a, y), y_at(a, y), LEFT - 6, y_at(a, y) + 4, y);
        buf_printf(buf, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">", x_at(a, x), PLOT_H - BOTTOM + 16,
                   i == 4 ? "end" : "middle");
        span(buf, x);
        buf_puts(buf, "</text>\n");
    }
    buf_printf(buf, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", PLOT_W / 2, PLOT_H - 2,
               a->x);
    buf_printf(buf,
               "<text x=\"12\" y=\"%d\" transform=\"rotate(-90 12 %d)\" text-anchor=\"middle\">%s</text>\n",
               PLOT_H / 2, PLOT_H / 2, a->y);
}

static void line_begin(struct buf *buf, size_t i)
{
    buf_printf(buf, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"",
               colours[i % ARRAY_LEN(colours)]);
}

static void over_time(struct buf *buf, const struct sim_result *r, size_t count, bool waiting)
{
    struct axes a = {.x = "time", .y = waiting ? "jobs waiting" : "GPUs in use"};

    for (size_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < r[i].sample_count; k++) {
            a.x_max = fmax(a.x_max, r[i].samples[k].at_s);
            a.y_max = fmax(a.y_max, waiting ? r[i].samples[k].waiting : r[i].gpus);
        }
    if (a.x_max <= 0)
        return;
    a.y_max = fmax(a.y_max, 1);
    plot_begin(buf, waiting ? "Queue length" : "GPU occupancy", &a);
    for (size_t i = 0; i < count; i++) {
        line_begin(buf, i);
        for (uint32_t k = 0; k < r[i].sample_count; k++) {
            const struct sim_sample *s = &r[i].samples[k];

            if (k > 0)
                buf_printf(buf, "%.1f,%.1f ", x_at(&a, s->at_s),
                           y_at(&a, waiting ? s[-1].waiting : s[-1].gpus));
            buf_printf(buf, "%.1f,%.1f ", x_at(&a, s->at_s), y_at(&a, waiting ? s->waiting : s->gpus));
        }
        buf_puts(buf, "\"/>\n");
    }
    buf_puts(buf, "</svg>\n");
}

static void cdf(struct buf *buf, const struct sim_result *r, size_t count)
{
    struct axes a = {.log_x = true,
                     .x_min = 1e30,
                     .y_max = 100,
                     .x = "job completion time (logarithmic)",
                     .y = "% of jobs"};

    for (size_t i = 0; i < count; i++) {
        a.x_max = fmax(a.x_max, r[i].jct[100]);
        a.x_min = fmin(a.x_min, fmax(r[i].jct[0], 1));
    }
    if (a.x_max <= a.x_min)
        return;
    plot_begin(buf, "Job completion times", &a);
    for (size_t i = 0; i < count; i++) {
        line_begin(buf, i);
        for (int k = 0; k <= 100; k++)
            buf_printf(buf, "%.1f,%.1f ", x_at(&a, r[i].jct[k]), y_at(&a, k));
        buf_puts(buf, "\"/>\n");
    }
    buf_puts(buf, "</svg>\n");
}

static void legend(struct buf *buf, const struct sim_result *r, size_t count)
{
    buf_puts(buf, "<p>");
    for (size_t i = 0; i < count; i++) {
        buf_printf(buf, "<span class=\"k\"><i style=\"background:%s\"></i>", colours[i % ARRAY_LEN(colours)]);
        text(buf, r[i].policy);
        buf_puts(buf, " on ");
        text(buf, r[i].trace);
        buf_puts(buf, "</span> ");
    }
    buf_puts(buf, "</p>\n");
}

void report_html(const struct sim_result *results, size_t count, const char *command, struct buf *buf)
{
    CLEANUP(buf_done) struct buf table = {0};

    report_table(results, count, &table);
    buf_puts(buf,
             "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>berth simulate</title>\n"
             "<style>body{font:15px system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;"
             "color:#222;background:#fff}pre{overflow-x:auto;background:#f5f5f5;padding:1em;font-size:12px}"
             "svg{width:100%;font:11px system-ui,sans-serif}.g{stroke:#e5e5e5}"
             ".k{margin-right:1.2em;white-space:nowrap}.k i{display:inline-block;width:1em;height:.6em;"
             "margin-right:.3em}@media(prefers-color-scheme:dark){body{background:#161616;color:#ddd}"
             "pre{background:#222}text{fill:#bbb}.g{stroke:#333}}</style>\n<h1>Simulation</h1>\n<p><code>");
    text(buf, command);
    buf_puts(buf, "</code></p>\n<pre>");
    text(buf, table.data ? table.data : "");
    buf_puts(buf, "</pre>\n");
    legend(buf, results, count);
    over_time(buf, results, count, false);
    over_time(buf, results, count, true);
    cdf(buf, results, count);
    buf_puts(buf, "<p>Rules and information:</p>\n<ul>\n");
    for (size_t i = 0; i < count; i++) {
        buf_puts(buf, "<li>");
        text(buf, results[i].policy);
        buf_printf(buf, ": rules %s, information: ", results[i].rules);
        text(buf, results[i].information);
        buf_puts(buf, "</li>\n");
    }
    buf_puts(buf, "</ul>\n</html>\n");
}
