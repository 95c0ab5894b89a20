/* berth status. */
#include "base/clock.h"
#include "cli/cli.h"

#include <inttypes.h>

/* Rows of the answer that are shown as they are. */
static const struct {
    const char *title, *key;
} fields[] = {{"version", "version"}, {"http", "http"},   {"https", "https"},       {"socket", "socket"},
              {"data", "dataDir"},    {"agent", "agent"}, {"revision", "revision"}, {"backup", "lastBackup"}};

/* What is not well; all of it, with what to do, is in `berth doctor`. */
static void print_checks(const struct json *checks)
{
    bool any = false;

    JSON_EACH(checks, it) {
        const char *state = json_string_or(json_get(it, "state"), "ok");

        if (streq(state, "ok"))
            continue;
        any = true;
        cli_say(stdout, "%-10s %s: %s\n", streq(state, "fail") ? "failed" : "warning",
                json_string_or(json_get(it, "name"), "?"), json_string_or(json_get(it, "text"), ""));
    }
    if (any)
        puts("           what to do: berth doctor");
}

static void print_size(int64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    double size = (double)bytes;
    size_t unit = 0;

    for (; size >= 1024 && unit + 1 < ARRAY_LEN(units); unit++)
        size /= 1024;
    printf("%.*f %s\n", unit ? 1 : 0, size, units[unit]);
}

/* What is kept of what was: "logs       12, 3.4 MiB". */
static void print_kept(const struct json *kept)
{
    JSON_EACH_MEMBER(kept, it) {
        const struct json *count = json_get(&it->value, "count");

        printf("%-10s ", it->key);
        if (count)
            printf("%" PRId64 ", ", json_int(count, 0));
        print_size(json_int(json_get(&it->value, "bytes"), 0));
    }
}

static void print_status(const struct json *doc)
{
    const struct json *objects = json_get(doc, "objects");
    char age[CLOCK_TEXT_MAX];

    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        const struct json *value = json_get(doc, fields[i].key);

        if (json_string(value))
            printf("%-10s %s\n", fields[i].title, json_string(value));
        else if (json_is(value, JSON_INT))
            printf("%-10s %" PRId64 "\n", fields[i].title, json_int(value, 0));
    }
    printf("%-10s %s\n", "uptime", clock_age(json_int(json_get(doc, "uptimeSec"), 0) * NSEC_PER_SEC, age));
    printf("%-10s ", "memory");
    print_size(json_int(json_get(doc, "residentBytes"), 0));
    printf("%-10s ", "store");
    print_size(json_int(json_get(doc, "storeBytes"), 0));
    print_kept(json_get(doc, "kept"));
    printf("%-10s", "objects");
    JSON_EACH_MEMBER(objects, it)
        printf(" %s=%" PRId64, it->key, json_int(&it->value, 0));
    puts(json_len(objects) ? "" : " none");
    print_checks(json_get(doc, "checks"));
}

int verb_status(struct cli *cli, const struct args *args)
{
    enum output output;
    struct reply reply;
    struct err err = {0};
    int code;

    if (output_from(args, &output, &err) < 0)
        return cli_usage_error(args->verb, "%s", err.msg);
    code = cli_get(cli, "/v1/status", &reply);
    if (code != CLI_OK)
        return code;
    if (output == OUTPUT_TABLE)
        print_status(reply.doc);
    else
        print_doc(reply.doc, output, stdout);
    return CLI_OK;
}
