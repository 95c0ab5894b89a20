#include "cli/queue_view.h"

#include "base/buf.h"
#include "base/clock.h"

#include <math.h>
#include <stdlib.h>

const char *job_target(struct cli *cli, const char *id, const char *what)
{
    CLEANUP(buf_done) struct buf target = {0};

    buf_puts(&target, "/v1/queue/");
    buf_url_encode(&target, str_from(id));
    if (what[0])
        buf_printf(&target, "/%s", what);
    return arena_strndup(&cli->arena, target.data, target.len);
}

double view_number(const struct json *value, double fallback)
{
    if (json_is(value, JSON_REAL))
        return value->real;
    return json_is(value, JSON_INT) ? (double)value->integer : fallback;
}

/* ---- cells ---- */

static const char *suffix_of(long n)
{
    static const char *const suffixes[] = {"th", "st", "nd", "rd"};

    return n % 100 / 10 != 1 && n % 10 < 4 ? suffixes[n % 10] : "th";
}

const char *view_ordinal(struct cli *cli, const struct json *job)
{
    double ordinal = view_number(json_get(job, "ordinal"), 0);

    if (ordinal <= 0)
        return "CPU";
    if (ordinal == floor(ordinal) && ordinal < 1e6)
        return arena_printf(&cli->arena, "%ld%s", (long)ordinal, suffix_of((long)ordinal));
    return arena_printf(&cli->arena, "%.3g", ordinal);
}

const char *view_priority(struct cli *cli, const struct json *job)
{
    int64_t priority = json_int(json_get(job, "priority"), 0);

    return priority ? arena_printf(&cli->arena, "%+lld", (long long)priority) : "auto";
}

const char *view_gpus(struct cli *cli, const struct json *job)
{
    int64_t gpus = json_int(json_get(job, "gpus"), 0), mib = json_int(json_get(job, "memoryMiB"), 0);

    if (gpus <= 0)
        return "CPU";
    if (!json_bool(json_get(job, "shared")) || mib <= 0)
        return arena_printf(&cli->arena, "%lld", (long long)gpus);
    if (gpus == 1)
        return arena_printf(&cli->arena, "%lld MiB", (long long)mib);
    return arena_printf(&cli->arena, "%lld x %lld MiB", (long long)gpus, (long long)mib);
}

const char *view_progress(struct cli *cli, const struct json *job)
{
    double progress = view_number(json_get(job, "progress"), -1);

    if (progress < 0)
        return "-";
    return arena_printf(&cli->arena, "%d%% (%lld/%lld)", (int)(progress * 100),
                        (long long)json_int(json_get(job, "epochsDone"), 0),
                        (long long)json_int(json_get(job, "epochsTotal"), 0));
}

const char *view_span(struct cli *cli, double seconds)
{
    char text[CLOCK_TEXT_MAX];

    if (!(seconds >= 0) || seconds > 1e9)
        return "-";
    return arena_strdup(&cli->arena, clock_age((int64_t)seconds * NSEC_PER_SEC, text));
}

static bool time_of(const struct json *value, int64_t *ret)
{
    return json_string(value) && clock_parse(json_str(value), ret);
}

const char *view_age(struct cli *cli, const struct json *time)
{
    int64_t t;

    return time_of(time, &t) ? view_span(cli, (double)(clock_now() - t) / NSEC_PER_SEC) : "-";
}

static const char *ahead(struct cli *cli, int64_t t)
{
    int64_t left = t - clock_now();

    return view_span(cli, left > 0 ? (double)left / NSEC_PER_SEC : 0);
}

const char *view_until(struct cli *cli, const struct json *time, const struct json *low,
                       const struct json *high)
{
    int64_t t, lo, hi;
    const char *first, *last;

    if (!time_of(time, &t))
        return "-";
    if (!time_of(low, &lo) || !time_of(high, &hi))
        return arena_printf(&cli->arena, "in %s", ahead(cli, t));
    first = ahead(cli, lo);
    last = ahead(cli, hi);
    if (streq(first, last))
        return arena_printf(&cli->arena, "in %s", ahead(cli, t));
    return arena_printf(&cli->arena, "in %s (%s to %s)", ahead(cli, t), first, last);
}

static const char *start_or_end(struct cli *cli, const struct json *job)
{
    if (json_is(json_get(job, "position"), JSON_INT))
        return arena_printf(&cli->arena, "starts %s",
                            view_until(cli, json_get(job, "startEstimate"), json_get(job, "startLow"),
                                       json_get(job, "startHigh")));
    return view_until(cli, json_get(job, "eta"), json_get(job, "etaLow"), json_get(job, "etaHigh"));
}

static const char *cards_text(struct cli *cli, const struct json *job)
{
    CLEANUP(buf_done) struct buf text = {0};

    JSON_EACH(json_get(job, "cards"), it)
        buf_printf(&text, "%s%s:%lld", text.len ? "," : "", json_string_or(json_get(it, "node"), ""),
                   (long long)json_int(json_get(it, "index"), 0));
    return text.len ? arena_strndup(&cli->arena, text.data, text.len) : "-";
}

/* ---- the queue ---- */

static const char *position_text(struct cli *cli, const struct json *job)
{
    int64_t position = json_int(json_get(job, "position"), 0);

    return position > 0 ? arena_printf(&cli->arena, "%lld", (long long)position) : "-";
}

static void queue_headers(struct grid *grid, bool wide)
{
    static const char *const names[] = {"POS",        "JOB",   "USER",     "AGE", "GPUS",  "PRIORITY",
                                        "USER'S GPU", "STATE", "PROGRESS", "END", "REASON"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (i + 1 == ARRAY_LEN(names) && wide) {
            grid_add(grid, "CARDS");
            grid_add(grid, "RESTARTS");
            grid_add(grid, "ID");
        }
        grid_add(grid, names[i]);
    }
    grid->columns = grid->cells.len;
}

static void queue_row(struct cli *cli, struct grid *grid, const struct json *job, bool wide)
{
    const char *user = json_get_string(job, "user");

    grid_add(grid, position_text(cli, job));
    grid_add(grid, json_string_or(json_get(job, "name"), ""));
    grid_add(grid, user ? user : "anonymous");
    grid_add(grid, view_age(cli, json_get(job, "submitted")));
    grid_add(grid, view_gpus(cli, job));
    grid_add(grid, view_priority(cli, job));
    grid_add(grid, view_ordinal(cli, job));
    grid_add(grid, json_string_or(json_get(job, "state"), ""));
    grid_add(grid, view_progress(cli, job));
    grid_add(grid, start_or_end(cli, job));
    if (wide) {
        grid_add(grid, cards_text(cli, job));
        grid_add(grid, arena_printf(&cli->arena, "%lld", (long long)json_int(json_get(job, "restarts"), 0)));
        grid_add(grid, json_string_or(json_get(job, "id"), ""));
    }
    grid_add(grid, json_string_or(json_get(job, "reason"), ""));
}

/* Where one group ends: running jobs by ordinal, then all that wait. */
static bool same_group(const struct json *a, const struct json *b)
{
    bool a_waits = json_is(json_get(a, "position"), JSON_INT);
    bool b_waits = json_is(json_get(b, "position"), JSON_INT);

    return a_waits == b_waits &&
           ceil(view_number(json_get(a, "ordinal"), 0)) == ceil(view_number(json_get(b, "ordinal"), 0));
}

static void put_groups(const char *text, const struct json *jobs, FILE *out)
{
    size_t row = 0;

    for (const char *line = text; *line; row++) {
        const char *end = strchrnul(line, '\n');

        if (row >= 2 && !same_group(json_item(jobs, row - 2), json_item(jobs, row - 1)))
            fputs("----\n", out);
        fprintf(out, "%.*s\n", (int)(end - line), line);
        line = *end ? end + 1 : end;
    }
}

static void put_capacity(const struct json *doc, FILE *out)
{
    const struct json *capacity = json_get(doc, "capacity");

    fprintf(out, "Number of GPUs allocated: %.4g of %.4g%s; %lld running, %lld waiting; policy %s\n",
            view_number(json_get(capacity, "gpusUsed"), 0), view_number(json_get(capacity, "gpus"), 0),
            json_bool(json_get(capacity, "declared")) ? " (declared)" : "",
            (long long)json_int(json_get(capacity, "running"), 0),
            (long long)json_int(json_get(capacity, "waiting"), 0),
            json_string_or(json_get(doc, "policy"), "?"));
}

void view_queue(struct cli *cli, const struct json *doc, bool wide, bool groups, FILE *out)
{
    const struct json *jobs = json_get(doc, "jobs");
    struct grid grid = {0};
    CLEANUP(free) char *text = NULL;
    size_t len = 0;
    FILE *lines;

    if (json_len(jobs) > 0) {
        queue_headers(&grid, wide);
        JSON_EACH(jobs, it)
            queue_row(cli, &grid, it, wide);
        lines = open_memstream(&text, &len);
        grid_print(&grid, lines);
        fclose(lines);
        if (groups)
            put_groups(text, jobs, out);
        else
            fputs(text, out);
        grid_done(&grid);
    }
    put_capacity(doc, out);
}

/* ---- the cards ---- */

static const char *share_bar(struct cli *cli, double share)
{
    char bar[11] = "..........";

    if (share < 0)
        return "-";
    for (int i = 0; i < 10 && i < share * 10 - 0.05; i++)
        bar[i] = '#';
    return arena_printf(&cli->arena, "%s %3d%%", bar, (int)(share * 100 + 0.5));
}

static const char *holders(struct cli *cli, const struct json *card)
{
    CLEANUP(buf_done) struct buf text = {0};

    JSON_EACH(json_get(card, "jobs"), it) {
        const char *user = json_get_string(it, "user");

        buf_printf(&text, "%s%s (%s", text.len ? ", " : "", json_string_or(json_get(it, "name"), ""),
                   user ? user : "anonymous");
        if (json_bool(json_get(it, "whole")))
            buf_putc(&text, ')');
        else
            buf_printf(&text, ", %lld MiB)", (long long)json_int(json_get(it, "mib"), 0));
    }
    return text.len ? arena_strndup(&cli->arena, text.data, text.len) : "free";
}

static const char *model_text(struct cli *cli, const struct json *card)
{
    const char *model = json_string_or(json_get(card, "model"), "GPU");

    if (json_bool(json_get(card, "failed")))
        return arena_printf(&cli->arena, "%s (failed)", model);
    return json_bool(json_get(card, "declared")) && !strstr(model, "declared")
               ? arena_printf(&cli->arena, "%s (declared)", model)
               : model;
}

static void card_row(struct cli *cli, struct grid *grid, const struct json *node, const struct json *card)
{
    double total = view_number(json_get(card, "memoryMiB"), 0),
           used = view_number(json_get(card, "usedMiB"), 0);

    grid_add(grid, json_string_or(json_get(node, "name"), ""));
    grid_add(grid, arena_printf(&cli->arena, "%lld", (long long)json_int(json_get(card, "index"), 0)));
    grid_add(grid, model_text(cli, card));
    grid_add(grid, arena_printf(&cli->arena, "%.0f/%.0f MiB", used, total));
    grid_add(grid, share_bar(cli, total > 0 ? used / total : -1));
    grid_add(grid, share_bar(cli, view_number(json_get(card, "utilization"), -1)));
    grid_add(grid, holders(cli, card));
}

void view_nodes(struct cli *cli, const struct json *doc, FILE *out)
{
    static const char *const names[] = {"NODE", "GPU", "MODEL", "RESERVED", "MEMORY", "COMPUTE", "JOBS"};
    struct grid grid = {.columns = ARRAY_LEN(names)};
    const struct json *nodes = json_get(doc, "nodes");
    size_t cards = 0;

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        grid_add(&grid, names[i]);
    JSON_EACH(nodes, node)
        JSON_EACH(json_get(node, "cards"), card) {
            card_row(cli, &grid, node, card);
            cards++;
        }
    if (cards > 0)
        grid_print(&grid, out);
    else
        fputs("no GPUs: declare some with 'berth up --gpus 4x24576'\n", out);
    grid_done(&grid);
    JSON_EACH(nodes, node)
        fprintf(out, "%s: cpu %.1f of %.1f cores reserved, memory %.1f of %.1f GiB%s\n",
                json_string_or(json_get(node, "name"), ""),
                view_number(json_get(node, "cpuMilliUsed"), 0) / 1000,
                view_number(json_get(node, "cpuMilli"), 0) / 1000,
                view_number(json_get(node, "memoryMiBUsed"), 0) / 1024,
                view_number(json_get(node, "memoryMiB"), 0) / 1024,
                json_bool(json_get(node, "ready")) ? "" : " (not ready)");
}
