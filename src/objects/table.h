/* table - the rows kubectl prints: Table answers of lists, gets and watches. */
#pragma once

#include "objects/kind.h"

enum table_include { TABLE_METADATA, TABLE_NONE, TABLE_OBJECT };

/* In a cell's JSON text, MARK time MARK (RFC 3339 between two equal marks) stands for the age of that time,
 * or for the time left until then, filled in when rows are written, so that cells can be kept with the
 * object. Text that comes from users never holds these bytes: JSON escapes them. */
#define TABLE_AGE_MARK   '\x01'
#define TABLE_UNTIL_MARK '\x02'

/* Starts {"kind":"Table",…,"metadata":META,"columnDefinitions":[…],"rows":[ ; columns null after the first
 * event of a watch. */
void table_begin(struct buf *out, const struct kind *kind, struct str list_metadata, bool columns);
/* Appends one row (callers put the commas). Cells are cached in object->cache. */
void table_row(struct buf *out, const struct object *object, enum table_include include, int64_t now);
void table_end(struct buf *out);
/* Cell helpers for rows of column tables. */
void cell_string(struct buf *out, const char *s);      /* NULL: "<none>" */
void cell_age(struct buf *out, const char *rfc3339);   /* NULL: "<unknown>" */
void cell_until(struct buf *out, const char *rfc3339); /* "2h5m", "0s" once past; NULL: "<unknown>" */
