/* `berth history`: finished jobs, newest first, or all of them as a trace that `berth simulate` reads. */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/cli.h"

#include <stdlib.h>

#define PAGE_JOBS   500
#define HISTORY_MAX 1000000 /* jobs of one export */

static double number(const struct json *value, double fallback)
{
    if (json_is(value, JSON_INT))
        return (double)value->integer;
    return json_is(value, JSON_REAL) ? value->real : fallback;
}

/* Seconds since 1970 of a time; negative: it is none. */
static double seconds_of(const struct json *value)
{
    int64_t t;

    if (!json_is(value, JSON_STRING) || !clock_parse((struct str){value->string, value->len}, &t))
        return -1;
    return (double)t / (double)NSEC_PER_SEC;
}

static const char *query(struct cli *cli, const struct args *args)
{
    static const char *const names[] = {"user", "state", "from", "to"};
    CLEANUP(buf_done) struct buf buf = {0};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *value = args_get(args, names[i]);

        if (!value)
            continue;
        buf_printf(&buf, "&%s=", names[i]);
        buf_url_encode(&buf, str_from(value));
    }
    return arena_strdup(&cli->arena, buf.data ? buf.data : "");
}

/* Pages of the answer into one array; a negative limit: all there are. */
static int fetch(struct cli *cli, const struct args *args, int64_t limit, struct json *jobs)
{
    const char *more = query(cli, args), *after = NULL;

    for (;;) {
        CLEANUP(buf_done) struct buf target = {0};
        struct reply reply;
        int64_t page = limit < 0 || limit > PAGE_JOBS ? PAGE_JOBS : limit;
        int code;

        buf_printf(&target, "/v1/history?limit=%lld%s", (long long)page, more);
        if (after) {
            buf_puts(&target, "&after=");
            buf_url_encode(&target, str_from(after));
        }
        code = cli_get(cli, target.data, &reply);
        if (code != CLI_OK)
            return code;
        for (size_t i = 0; json_item(json_get(reply.doc, "jobs"), i); i++)
            json_push(&cli->arena, jobs, *json_item(json_get(reply.doc, "jobs"), i));
        if (limit >= 0 && (limit -= page) <= 0)
            return CLI_OK;
        if (!json_is(json_get(reply.doc, "next"), JSON_STRING) || jobs->len >= HISTORY_MAX)
            return CLI_OK;
        after = json_get(reply.doc, "next")->string;
    }
}

static void csv_cell(struct buf *buf, const struct json *value)
{
    const char *s = json_is(value, JSON_STRING) ? value->string : "";

    if (!strpbrk(s, ",\"\n\r")) {
        buf_puts(buf, s);
        return;
    }
    buf_putc(buf, '"');
    for (; *s; s++) {
        if (*s == '"')
            buf_putc(buf, '"');
        buf_putc(buf, *s == '\n' || *s == '\r' ? ' ' : *s);
    }
    buf_putc(buf, '"');
}

/* What ran on GPUs, oldest first, times from the first submission on. */
static size_t write_trace(const struct json *jobs, struct buf *buf)
{
    double first = -1;
    size_t count = 0;

    for (size_t i = 0; i < jobs->len; i++) {
        double at = seconds_of(json_get(json_item(jobs, i), "submitted"));

        if (at >= 0 && (first < 0 || at < first))
            first = at;
    }
    buf_puts(buf, "job,submit_s,gpus,duration_s,user,gpus_min,gpus_max,epochs,mem_mib,priority\n");
    for (size_t i = jobs->len; i-- > 0;) {
        const struct json *job = json_item(jobs, i);
        double at = seconds_of(json_get(job, "submitted")), ran = number(json_get(job, "ranSeconds"), 0);
        int gpus = (int)number(json_get(job, "gpus"), 0), epochs;
        int low = (int)number(json_get(job, "gpusMin"), gpus),
            high = (int)number(json_get(job, "gpusMax"), gpus);

        if (at < 0 || ran <= 0 || gpus < 1)
            continue;
        epochs = (int)number(json_get(job, "epochsTotal"), 1);
        csv_cell(buf, json_get(job, "name"));
        buf_printf(buf, ",%.3f,%d,%.3f,", at - first, gpus, ran);
        csv_cell(buf, json_get(job, "user"));
        buf_printf(buf, ",%d,%d,%d,%d,%d\n", low >= 1 && low <= gpus ? low : gpus, high >= gpus ? high : gpus,
                   epochs > 0 ? epochs : 1, (int)number(json_get(job, "memoryMiB"), 0),
                   (int)number(json_get(job, "priority"), 0));
        count++;
    }
    return count;
}

static int export_trace(const struct json *jobs, const char *path)
{
    CLEANUP(buf_done) struct buf buf = {0};
    size_t count = write_trace(jobs, &buf);
    struct err err = {0};

    if (streq(path, "-")) {
        (void)fwrite(buf.data, 1, buf.len, stdout);
        return CLI_OK;
    }
    if (file_write_atomic(path, buf_view(&buf), 0644, &err) < 0)
        return cli_fail(CLI_FAILED, "%s", err.msg);
    (void)fprintf(stderr, "%zu jobs written to %s\n", count, path);
    return CLI_OK;
}

int verb_history(struct cli *cli, const struct args *args)
{
    static const struct column columns[] = {
        {"NAME", "name", CELL_TEXT},           {"USER", "user", CELL_TEXT},
        {"STATE", "state", CELL_TEXT},         {"GPUS", "gpus", CELL_TEXT},
        {"SUBMITTED", "submitted", CELL_TEXT}, {"WAITED S", "waitedSeconds", CELL_TEXT},
        {"RAN S", "ranSeconds", CELL_TEXT},    {"GPU H", "gpuHours", CELL_TEXT},
        {"RESTARTS", "restarts", CELL_TEXT},
    };
    const char *path = args_get(args, "export"), *last = args_get(args, "limit");
    struct json *jobs = json_new_array(&cli->arena);
    enum output output = OUTPUT_TABLE;
    struct err err = {0};
    int64_t limit = path ? -1 : 50;
    int code;

    if (output_from(args, &output, &err) < 0)
        return cli_usage_error(args->verb, "%s", err.msg);
    if (last && (!str_to_int(str_from(last), &limit) || limit < 1 || limit > HISTORY_MAX))
        return cli_usage_error(args->verb, "--limit %s: 1 to %d", last, HISTORY_MAX);
    code = fetch(cli, args, limit, jobs);
    if (code != CLI_OK)
        return code;
    if (path)
        return export_trace(jobs, path);
    if (output == OUTPUT_JSON || output == OUTPUT_YAML)
        print_doc(jobs, output, stdout);
    else
        print_columns(cli, jobs, columns, ARRAY_LEN(columns), stdout);
    return CLI_OK;
}
