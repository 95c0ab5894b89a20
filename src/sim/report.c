/* Results as JSON and as a table: one row of `fields` is one member and one column. */
#include "sim/sim.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

static const struct {
    const char *key, *title;
    size_t offset;
    int digits;
} fields[] = {
    {"avg_jct_s", "AVG JCT", offsetof(struct sim_result, avg_jct_s), 2},
    {"median_jct_s", "MEDIAN", offsetof(struct sim_result, median_jct_s), 1},
    {"p99_jct_s", "P99", offsetof(struct sim_result, p99_jct_s), 1},
    {"makespan_s", "MAKESPAN", offsetof(struct sim_result, makespan_s), 0},
    {"worst_ftf", "WORST FTF", offsetof(struct sim_result, worst_ftf), 2},
    {"unfair_pct", "UNFAIR %", offsetof(struct sim_result, unfair_pct), 1},
    {"gpu_hours", "GPU H", offsetof(struct sim_result, gpu_hours), 1},
    {"idle_while_waiting_gpu_hours", "IDLE GPU H", offsetof(struct sim_result, idle_while_waiting_gpu_hours),
     1},
    {"restarts_per_job", "RESTARTS", offsetof(struct sim_result, restarts_per_job), 2},
    {"lost_work_s", "LOST GPU S", offsetof(struct sim_result, lost_work_s), 0},
    {"gpu_alloc_pct", "ALLOC %", offsetof(struct sim_result, gpu_alloc_pct), 2},
    {"promise_broken_jobs", "LATE JOBS", offsetof(struct sim_result, promise_jobs), 0},
    {"promise_broken_users", "LATE USERS", offsetof(struct sim_result, promise_users), 0},
    {"promise_broken_s", "LATE S", offsetof(struct sim_result, promise_s), 0},
    {"decision_us_p50", "DECIDE US", offsetof(struct sim_result, decision_us_p50), 1},
    {"decision_us_p99", "P99 US", offsetof(struct sim_result, decision_us_p99), 1},
};

void result_init(struct sim_result *ret, const struct trace *trace, const char *policy,
                 const char *information)
{
    *ret = (struct sim_result){0};
    (void)snprintf(ret->trace, sizeof(ret->trace), "%s", trace->name);
    (void)snprintf(ret->policy, sizeof(ret->policy), "%s", policy);
    (void)snprintf(ret->rules, sizeof(ret->rules), "%s", trace->rules.name);
    (void)snprintf(ret->information, sizeof(ret->information), "%s", information);
}

static double value_of(const struct sim_result *r, size_t field)
{
    double value;

    memcpy(&value, (const char *)r + fields[field].offset, sizeof(value));
    return value;
}

static void put_string(struct buf *buf, const char *s)
{
    buf_putc(buf, '"');
    for (; s && *s; s++) {
        if (*s == '"' || *s == '\\')
            buf_putc(buf, '\\');
        buf_putc(buf, (unsigned char)*s < 32 ? ' ' : *s);
    }
    buf_putc(buf, '"');
}

void report_json(const struct sim_result *results, size_t count, struct buf *buf)
{
    buf_puts(buf, "[");
    for (size_t i = 0; i < count; i++) {
        const struct sim_result *r = &results[i];

        buf_puts(buf, i ? ",\n {\"trace\": " : "\n {\"trace\": ");
        put_string(buf, r->trace);
        buf_puts(buf, ", \"policy\": ");
        put_string(buf, r->policy);
        for (size_t f = 0; f < ARRAY_LEN(fields); f++)
            buf_printf(buf, ", \"%s\": %.*f", fields[f].key, fields[f].digits + 2,
                       isfinite(value_of(r, f)) ? value_of(r, f) : -1);
        buf_printf(buf, ", \"jobs\": %u, \"gpus\": %u, \"wall_s\": %.3f, \"rules\": ", r->jobs, r->gpus,
                   r->wall_s);
        put_string(buf, r->rules);
        buf_puts(buf, ", \"information\": ");
        put_string(buf, r->information);
        buf_puts(buf, "}");
    }
    buf_puts(buf, "\n]\n");
}

void report_table(const struct sim_result *results, size_t count, struct buf *buf)
{
    size_t width = 5, policy = 6;

    for (size_t i = 0; i < count; i++) {
        width = strlen(results[i].trace) > width ? strlen(results[i].trace) : width;
        policy = strlen(results[i].policy) > policy ? strlen(results[i].policy) : policy;
    }
    buf_printf(buf, "%-*s  %-*s", (int)width, "TRACE", (int)policy, "POLICY");
    for (size_t f = 0; f < ARRAY_LEN(fields); f++)
        buf_printf(buf, "  %10s", fields[f].title);
    buf_putc(buf, '\n');
    for (size_t i = 0; i < count; i++) {
        buf_printf(buf, "%-*s  %-*s", (int)width, results[i].trace, (int)policy, results[i].policy);
        for (size_t f = 0; f < ARRAY_LEN(fields); f++)
            if (isfinite(value_of(&results[i], f)))
                buf_printf(buf, "  %10.*f", fields[f].digits, value_of(&results[i], f));
            else
                buf_printf(buf, "  %10s", "-");
        buf_putc(buf, '\n');
    }
}
