/* csv - tables with a line of column names, read a row at a time. Plain CSV: commas, "quotes" around cells
 * that have one, CRLF or LF. What is wrong with a file is said in one sentence that begins "FILE:LINE: ". */
#pragma once

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"

#include <stdint.h>

#define CSV_LINE_MAX    (64 << 10) /* bytes of one line */
#define CSV_COLUMNS_MAX 64
#define CSV_ROWS_MAX    2000000

struct csv;

/* One column that is wanted. */
struct csv_column {
    const char *name;
    bool optional;
};

/* Opens the file and reads its first line; cells are numbered as `columns` are. */
int csv_open(const char *path, const struct csv_column *columns, uint32_t count, struct csv **ret,
             struct err *err);
void csv_close(struct csv *csv); /* NULL is fine */
DEFINE_CLEANUP(struct csv *, csv_close);
/* 1: a row, 0: the end, -1: an error. */
int csv_next(struct csv *csv, struct err *err);
const char *csv_text(const struct csv *csv, uint32_t column); /* "" when absent; until the next row */
bool csv_has(const struct csv *csv, uint32_t column); /* the file has that column, and the row fills it */
/* A finite number in [low, high]; -1 with a sentence otherwise. */
int csv_number(const struct csv *csv, uint32_t column, double low, double high, double *ret, struct err *err);
int csv_uint(const struct csv *csv, uint32_t column, uint32_t low, uint32_t high, uint32_t *ret,
             struct err *err);
/* "FILE:LINE: " before a sentence about this row. */
int csv_fault(const struct csv *csv, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
