/* Tables are set as kubectl sets them, so that scripts which cut columns work on either. */
#include "base/clock.h"
#include "base/yaml.h"
#include "cli/cli.h"

#include <ctype.h>

#define COLUMN_GAP 3

int output_from(const struct args *args, enum output *ret, struct err *err)
{
    static const struct {
        const char *name;
        enum output output;
    } names[] = {{"wide", OUTPUT_WIDE}, {"json", OUTPUT_JSON}, {"yaml", OUTPUT_YAML}, {"name", OUTPUT_NAME}};
    const char *text = args_get(args, "output"), *words = "";

    *ret = OUTPUT_TABLE;
    if (!text)
        return 0;
    for (const struct cli_option *option = args->verb->options; option && option->name; option++)
        if (option->letter == 'o')
            words = option->words;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (streq(names[i].name, text) && strstr(words, text)) {
            *ret = names[i].output;
            return 0;
        }
    return err_set(err, ERR_INVALID, "-o must be one of %s, not '%s'", words, text);
}

void print_doc(const struct json *doc, enum output output, FILE *out)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (output == OUTPUT_YAML)
        yaml_write(&text, doc);
    else
        json_write_pretty(&text, doc, 4);
    if (text.len && text.data[text.len - 1] != '\n')
        buf_putc(&text, '\n');
    fwrite(text.data, 1, text.len, out);
}

/* ---- grids ---- */

void grid_add(struct grid *grid, const char *cell)
{
    vec_push(&grid->cells, cell ? cell : "<none>");
}

void grid_done(struct grid *grid)
{
    vec_done(&grid->cells);
}

/* Characters, not bytes. */
static size_t width_of(const char *cell)
{
    size_t width = 0;

    for (; *cell; cell++)
        width += ((unsigned char)*cell & 0xc0) != 0x80;
    return width;
}

/* What a user put into an object must not steer the terminal. */
static void put_cell(const char *cell, FILE *out)
{
    for (; *cell; cell++)
        fputc((unsigned char)*cell < ' ' || *cell == 0x7f ? '?' : *cell, out);
}

void grid_print(const struct grid *grid, FILE *out)
{
    VEC(size_t) widths = {0};

    for (size_t i = 0; i < grid->cells.len; i++) {
        size_t column = i % grid->columns, width = width_of(grid->cells.v[i]);

        if (i < grid->columns)
            vec_push(&widths, width);
        else if (width > widths.v[column])
            widths.v[column] = width;
    }
    for (size_t i = 0; i < grid->cells.len; i++) {
        bool last = (i + 1) % grid->columns == 0;

        put_cell(grid->cells.v[i], out);
        if (last)
            fputc('\n', out);
        else
            fprintf(out, "%*s", (int)(widths.v[i % grid->columns] - width_of(grid->cells.v[i]) + COLUMN_GAP),
                    "");
    }
    vec_done(&widths);
}

/* ---- lists ---- */

/* Any value as a cell: text as it is, numbers and others as JSON. */
static const char *cell_text(struct cli *cli, const struct json *value)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (!value || json_is(value, JSON_NULL))
        return "<none>";
    if (json_string(value))
        return json_string(value);
    if (json_is(value, JSON_REAL))
        return arena_printf(&cli->arena, "%.4g", value->real);
    json_write(&text, value);
    return arena_strndup(&cli->arena, text.data, text.len);
}

static const char *cell_list(struct cli *cli, const struct json *value)
{
    CLEANUP(buf_done) struct buf text = {0};

    JSON_EACH(value, it)
        buf_printf(&text, "%s%s", text.len ? "," : "", cell_text(cli, it));
    return text.len ? arena_strndup(&cli->arena, text.data, text.len) : "<none>";
}

static const char *cell_age(struct cli *cli, const struct json *value)
{
    char text[CLOCK_TEXT_MAX];
    int64_t t;

    if (!json_string(value) || !clock_parse(json_str(value), &t))
        return "<none>";
    return arena_strdup(&cli->arena, clock_age(clock_now() - t, text));
}

void print_columns(struct cli *cli, const struct json *items, const struct column *columns, size_t count,
                   FILE *out)
{
    struct grid grid = {.columns = count};

    for (size_t i = 0; i < count; i++)
        grid_add(&grid, columns[i].header);
    JSON_EACH(items, it)
        for (size_t i = 0; i < count; i++) {
            const struct json *value = json_at(it, columns[i].path);

            grid_add(&grid, columns[i].type == CELL_AGE    ? cell_age(cli, value)
                            : columns[i].type == CELL_LIST ? cell_list(cli, value)
                                                           : cell_text(cli, value));
        }
    grid_print(&grid, out);
    grid_done(&grid);
}

static int get_output(struct cli *cli, const struct args *args, const char *target, enum output *output,
                      struct reply *reply)
{
    struct err err = {0};

    if (output_from(args, output, &err) < 0)
        return cli_usage_error(args->verb, "%s", err.msg);
    return cli_get(cli, target, reply);
}

int cli_list(struct cli *cli, const struct args *args, const char *target, const char *key,
             const struct column *columns, size_t count)
{
    enum output output = OUTPUT_TABLE;
    struct reply reply = {0};
    int code = get_output(cli, args, target, &output, &reply);

    if (code != CLI_OK)
        return code;
    if (output != OUTPUT_TABLE)
        print_doc(reply.doc, output, stdout);
    else
        print_columns(cli, json_get(reply.doc, key), columns, count, stdout);
    return CLI_OK;
}

int cli_show(struct cli *cli, const struct args *args, const char *target, enum output fallback)
{
    enum output output = OUTPUT_TABLE;
    struct reply reply = {0};
    int code = get_output(cli, args, target, &output, &reply);

    if (code == CLI_OK)
        print_doc(reply.doc, output == OUTPUT_TABLE ? fallback : output, stdout);
    return code;
}

static const char *upper(struct cli *cli, const char *text)
{
    char *copy = arena_strdup(&cli->arena, text);

    for (char *p = copy; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    return copy;
}

static bool column_shown(const struct json *definition, bool wide)
{
    return wide || json_int(json_get(definition, "priority"), 0) == 0;
}

void print_table(struct cli *cli, const struct json *table, bool wide, bool show_namespace, bool headers,
                 FILE *out)
{
    const struct json *definitions = json_get(table, "columnDefinitions");
    struct grid grid = {.columns = show_namespace};

    if (show_namespace && headers)
        grid_add(&grid, "NAMESPACE");
    JSON_EACH(definitions, it)
        if (column_shown(it, wide)) {
            grid.columns++;
            if (headers)
                grid_add(&grid, upper(cli, json_string_or(json_get(it, "name"), "")));
        }
    JSON_EACH(json_get(table, "rows"), row) {
        size_t column = 0;

        if (show_namespace)
            grid_add(&grid, json_string_or(json_at(row, "object.metadata.namespace"), ""));
        JSON_EACH(definitions, it) {
            const struct json *cell = json_item(json_get(row, "cells"), column++);

            if (column_shown(it, wide))
                grid_add(&grid, cell_text(cli, cell));
        }
    }
    if (grid.columns)
        grid_print(&grid, out);
    grid_done(&grid);
}
