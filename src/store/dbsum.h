/* dbsum - a checksum for each row of the database: a disk that gives back something else than was written is
 * noticed before anybody acts on it. CRC-32 over the row's columns in the order of the table; whole numbers
 * as eight bytes, texts with a zero byte behind them. */
#pragma once

#include "base/str.h"

#include <sqlite3.h>
#include <stdint.h>

uint32_t dbsum_int(uint32_t sum, int64_t value);
uint32_t dbsum_text(uint32_t sum, struct str text);

/* Makes row_sum(column, ...) and new_id() known to SQL, for migrations. */
void dbsum_functions(sqlite3 *sql);
