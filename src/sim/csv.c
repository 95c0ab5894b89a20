/* Lines are read into one buffer of CSV_LINE_MAX, so that a line without an end costs no memory. */
#include "sim/csv.h"

#include "base/mem.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct csv {
    FILE *file;
    char *path;
    const struct csv_column *columns;
    uint32_t count;
    uint32_t rows;
    int32_t place[CSV_COLUMNS_MAX]; /* where the wanted column is in a line; -1: nowhere */
    const char *cells[CSV_COLUMNS_MAX];
    uint32_t cell_count;
    uint32_t width; /* cells of the first line */
    char line[CSV_LINE_MAX];
};

int csv_fault(const struct csv *csv, struct err *err, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return err_set(err, ERR_INVALID, "%s:%u: %s", csv->path, csv->rows, text);
}

/* One cell, in place; returns where the next begins, NULL at the end of the line. */
static char *take_cell(char *at, const char **ret)
{
    char *to = at, *from = at;

    *ret = at;
    if (*from != '"') {
        from += strcspn(from, ",");
        if (*from == '\0')
            return NULL;
        *from = '\0';
        return from + 1;
    }
    for (from++; *from && !(*from == '"' && from[1] != '"'); from++) {
        from += *from == '"';
        *to++ = *from;
    }
    from += *from == '"';
    from += strcspn(from, ",");
    if (*from == '\0') {
        *to = '\0';
        return NULL;
    }
    *to = '\0';
    return from + 1;
}

static int read_line(struct csv *csv, struct err *err)
{
    size_t len;
    char *at = csv->line;

    do {
        int c;

        csv->rows++;
        for (len = 0; (c = getc_unlocked(csv->file)) != EOF && c != '\n'; csv->line[len++] = (char)c)
            if (c == '\0' || len + 2 > sizeof(csv->line))
                return c ? csv_fault(csv, err, "the line is longer than %d bytes", CSV_LINE_MAX - 2)
                         : csv_fault(csv, err, "the line has a NUL byte");
        if (ferror(csv->file))
            return err_errno(err, errno, "read '%s'", csv->path);
        if (c == EOF && len == 0)
            return 0;
        while (len > 0 && csv->line[len - 1] == '\r')
            len--;
        csv->line[len] = '\0';
    } while (len == 0);
    if (csv->rows > CSV_ROWS_MAX)
        return csv_fault(csv, err, "more than %d lines", CSV_ROWS_MAX);
    if (!utf8_valid((struct str){csv->line, len}))
        return csv_fault(csv, err, "the line is not UTF-8 text");
    for (csv->cell_count = 0; at; csv->cell_count++) {
        if (csv->cell_count == CSV_COLUMNS_MAX)
            return csv_fault(csv, err, "more than %d columns", CSV_COLUMNS_MAX);
        at = take_cell(at, &csv->cells[csv->cell_count]);
    }
    return 1;
}

static int find_columns(struct csv *csv, struct err *err)
{
    for (uint32_t i = 0; i < csv->count; i++) {
        csv->place[i] = -1;
        for (uint32_t k = 0; k < csv->cell_count; k++)
            if (streq(csv->cells[k], csv->columns[i].name))
                csv->place[i] = (int32_t)k;
        if (csv->place[i] < 0 && !csv->columns[i].optional)
            return csv_fault(csv, err, "there is no column '%s'", csv->columns[i].name);
    }
    csv->width = csv->cell_count;
    return 0;
}

int csv_open(const char *path, const struct csv_column *columns, uint32_t count, struct csv **ret,
             struct err *err)
{
    CLEANUP(csv_close) struct csv *csv = NEW(struct csv);
    int got;

    csv->path = mem_strdup(path);
    csv->columns = columns;
    csv->count = count;
    csv->file = fopen(path, "re");
    if (!csv->file)
        return err_errno(err, errno, "open '%s'", path);
    got = read_line(csv, err);
    if (got == 0)
        return csv_fault(csv, err, "the file is empty");
    if (got < 0 || find_columns(csv, err) < 0)
        return -1;
    *ret = TAKE_PTR(csv);
    return 0;
}

void csv_close(struct csv *csv)
{
    if (!csv)
        return;
    if (csv->file)
        (void)fclose(csv->file);
    free(csv->path);
    free(csv);
}

int csv_next(struct csv *csv, struct err *err)
{
    int got = read_line(csv, err);

    if (got == 1 && csv->cell_count != csv->width)
        return csv_fault(csv, err, "%u cells where the first line has %u", csv->cell_count, csv->width);
    return got;
}

const char *csv_text(const struct csv *csv, uint32_t column)
{
    return csv->place[column] < 0 ? "" : csv->cells[csv->place[column]];
}

bool csv_has(const struct csv *csv, uint32_t column)
{
    return csv_text(csv, column)[0] != '\0';
}

int csv_number(const struct csv *csv, uint32_t column, double low, double high, double *ret, struct err *err)
{
    const char *name = csv->columns[column].name, *text = csv_text(csv, column);
    char *end = NULL;
    double value = strtod(text, &end);

    if (end == text || *end != '\0')
        return csv_fault(csv, err, "%s: '%.40s' is no number", name, text);
    if (!isfinite(value) || value < low || value > high)
        return csv_fault(csv, err, "%s: %.40s is not in %g..%g", name, text, low, high);
    *ret = value;
    return 0;
}

int csv_uint(const struct csv *csv, uint32_t column, uint32_t low, uint32_t high, uint32_t *ret,
             struct err *err)
{
    double value = 0;

    if (csv_number(csv, column, low, high, &value, err) < 0)
        return -1;
    if (value != floor(value))
        return csv_fault(csv, err, "%s: '%.40s' is no whole number", csv->columns[column].name,
                         csv_text(csv, column));
    *ret = (uint32_t)value;
    return 0;
}
