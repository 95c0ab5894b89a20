/* Options are parsed by getopt_long from the rows of the verb and common_options; usage texts come from
 * the same rows. */
#include "base/buf.h"
#include "cli/cli.h"

#include <ctype.h>
#include <getopt.h>

#define OPTIONS_MAX  32  /* of one verb, with the common ones */
#define OPTION_FIRST 256 /* getopt values of rows, past every letter */

const struct cli_option common_options[] = {
    {0, "server", "URL", "unix:PATH, http://HOST:PORT or https://HOST:PORT ($BERTH_SERVER)", NULL},
    {0, "data", "DIR", "the daemon with this data folder", NULL},
    {'h', "help", NULL, "print this", NULL},
    {0, NULL, NULL, NULL, NULL},
};

void args_done(struct args *args)
{
    vec_done(&args->values);
}

/* getopt's two tables and, at the same places, our rows. */
struct getopt_tables {
    struct option options[OPTIONS_MAX + 1];
    const struct cli_option *rows[OPTIONS_MAX];
    size_t count;
};

static void add_rows(struct getopt_tables *tables, struct buf *letters, const struct cli_option *rows)
{
    for (; rows && rows->name && tables->count < OPTIONS_MAX; rows++) {
        size_t i = tables->count++;

        tables->rows[i] = rows;
        tables->options[i] = (struct option){rows->name, rows->arg ? required_argument : no_argument, NULL,
                                             (int)(OPTION_FIRST + i)};
        if (rows->letter)
            buf_printf(letters, "%c%s", rows->letter, rows->arg ? ":" : "");
    }
}

static const struct cli_option *row_of(const struct getopt_tables *tables, int opt)
{
    if (opt >= OPTION_FIRST)
        return tables->rows[opt - OPTION_FIRST];
    for (size_t i = 0; i < tables->count; i++)
        if (tables->rows[i]->letter == opt)
            return tables->rows[i];
    return NULL;
}

/* "-3" is a number, not options: no row has a digit for a letter. What getopt is not to take for options
 * begins with this meanwhile. */
#define NUMBER_MARK '\1'

static void mark_numbers(int argc, char **argv, char from, char to)
{
    for (int i = 1; i < argc && !streq(argv[i], "--"); i++)
        if (argv[i][0] == from && argv[i][1] && argv[i][1 + strspn(argv[i] + 1, "0123456789")] == '\0')
            argv[i][0] = to;
}

static int parse(const struct verb *verb, int argc, char **argv, struct args *ret, struct err *err)
{
    struct getopt_tables tables = {.count = 0};
    CLEANUP(buf_done) struct buf letters = {0};
    char *first[COMMAND_WORDS_MAX];
    int opt, words = 0;

    *ret = (struct args){.verb = verb, .rest = argv + 1, .count = argc - 1};
    if (verb->raw)
        return 0;
    /* ':' first: getopt tells a missing value from an unknown option; '-': words come as they stand */
    buf_puts(&letters, verb->command ? "-:" : ":");
    add_rows(&tables, &letters, verb->options);
    add_rows(&tables, &letters, common_options);
    optind = 0; /* GNU: start afresh */
    opterr = 0;
    while ((opt = getopt_long(argc, argv, letters.data, tables.options, NULL)) != -1) {
        const struct cli_option *row = row_of(&tables, opt);

        if (opt == 1) {
            if (words == verb->command) { /* the first of the command, not ours */
                optind--;
                break;
            }
            first[words++] = optarg;
            continue;
        }
        if (opt == ':')
            return err_set(err, ERR_INVALID, "%s needs a value", argv[optind - 1]);
        if (opt == '?' && optopt && optopt < OPTION_FIRST)
            return err_set(err, ERR_INVALID, "unknown option '-%c'", optopt);
        if (!row)
            return err_set(err, ERR_INVALID, "unknown option '%s'", argv[optind - 1]);
        vec_push(&ret->values, (struct arg_value){row, optarg ? optarg : ""});
    }
    ret->rest = argv + optind - words; /* over options, which have been read */
    ret->count = argc - optind + words;
    for (int i = 0; i < words; i++)
        ret->rest[i] = first[i];
    if (args_has(ret, "help"))
        return 0;
    if (ret->count < verb->min_args)
        return err_set(err, ERR_INVALID, "needs %s", verb->args);
    if (verb->max_args >= 0 && ret->count > verb->max_args)
        return err_set(err, ERR_INVALID, "unexpected argument '%s'", ret->rest[verb->max_args]);
    return 0;
}

int args_parse(const struct verb *verb, int argc, char **argv, struct args *ret, struct err *err)
{
    bool numbers = !verb->raw && !verb->command;
    int result;

    if (numbers)
        mark_numbers(argc, argv, '-', NUMBER_MARK);
    result = parse(verb, argc, argv, ret, err);
    if (numbers)
        mark_numbers(argc, argv, NUMBER_MARK, '-');
    return result;
}

const char *args_get(const struct args *args, const char *name)
{
    const char *value = NULL;

    for (size_t i = 0; i < args->values.len; i++)
        if (streq(args->values.v[i].option->name, name))
            value = args->values.v[i].value;
    return value;
}

bool args_has(const struct args *args, const char *name)
{
    return args_get(args, name) != NULL;
}

/* ---- finding verbs ---- */

const struct verb *verb_find(int argc, char **argv, int *words)
{
    char two[64];

    if (argc < 1)
        return NULL;
    snprintf(two, sizeof(two), "%.30s %.30s", argv[0], argc > 1 ? argv[1] : "");
    for (const struct verb *verb = verbs; verb->name; verb++) {
        *words = strchr(verb->name, ' ') ? 2 : 1;
        if (streq(verb->name, *words == 2 ? two : argv[0]))
            return verb;
    }
    return NULL;
}

bool verb_is_group(const char *word)
{
    size_t len = strlen(word);

    for (const struct verb *verb = verbs; verb->name; verb++)
        if (strncmp(verb->name, word, len) == 0 && verb->name[len] == ' ')
            return true;
    return false;
}

/* Single-letter changes that make b of a (Levenshtein), only the first b_len letters of b. */
static size_t distance(const char *a, const char *b, size_t b_len)
{
    size_t row[64];

    if (b_len >= ARRAY_LEN(row))
        return SIZE_MAX;
    for (size_t j = 0; j <= b_len; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];

        row[0] = i + 1;
        for (size_t j = 1; j <= b_len; j++) {
            size_t best = diagonal + (a[i] != b[j - 1]);

            diagonal = row[j];
            best = best < row[j] + 1 ? best : row[j] + 1;
            row[j] = best < row[j - 1] + 1 ? best : row[j - 1] + 1;
        }
    }
    return row[b_len];
}

const char *verb_nearest(const char *name)
{
    const char *best = NULL;
    size_t best_distance = strlen(name) / 3 + 2;

    for (const struct verb *verb = verbs; verb->name; verb++) {
        size_t whole = distance(name, verb->name, strlen(verb->name));
        size_t first = distance(name, verb->name, strcspn(verb->name, " "));
        size_t d = whole < first ? whole : first;

        if (d < best_distance) {
            best = verb->name;
            best_distance = d;
        }
    }
    return best;
}

/* ---- usage ---- */

static void option_usage(const struct cli_option *options, FILE *out)
{
    for (; options && options->name; options++) {
        CLEANUP(buf_done) struct buf left = {0};

        if (options->letter)
            buf_printf(&left, "-%c, ", options->letter);
        else
            buf_puts(&left, "    ");
        buf_printf(&left, "--%s", options->name);
        if (options->arg)
            buf_printf(&left, " %s", options->arg);
        fprintf(out, "  %-26s %s\n", left.data, options->help);
    }
}

void verb_usage(const struct verb *verb, FILE *out)
{
    if (verb->usage) {
        verb->usage(verb, out);
        return;
    }
    fprintf(out, "Usage: %s%s%s%s%s\n\n%s.\n", verb->link ? "" : "berth ", verb->name,
            verb->options ? " [OPTIONS]" : "", verb->args[0] ? " " : "", verb->args, verb->summary);
    if (verb->detail)
        fprintf(out, "\n%s\n", verb->detail);
    fputs("\nOptions:\n", out);
    option_usage(verb->options, out);
    option_usage(common_options, out);
    if (verb->examples)
        fprintf(out, "\nExamples:\n%s\n", verb->examples);
}

void program_usage(FILE *out)
{
    fputs("Usage: berth VERB [OPTIONS] [ARGUMENTS]\n\nTraining jobs on this machine's GPUs.\n\nVerbs:\n",
          out);
    for (const struct verb *verb = verbs; verb->name; verb++)
        fprintf(out, "  %-16s %s\n", verb->name, verb->summary);
    fputs("\n'berth VERB --help' says more about one. Documentation: man berth, docs/cli.md\n", out);
}
