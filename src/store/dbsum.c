#include "store/dbsum.h"

#include <stdio.h>
#include <zlib.h>

uint32_t dbsum_int(uint32_t sum, int64_t value)
{
    unsigned char bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)value >> (8 * i));
    return (uint32_t)crc32(sum, bytes, sizeof(bytes));
}

uint32_t dbsum_text(uint32_t sum, struct str text)
{
    sum = (uint32_t)crc32_z(sum, (const unsigned char *)(text.s ? text.s : ""), text.len);
    return (uint32_t)crc32(sum, (const unsigned char *)"", 1);
}

static void row_sum(sqlite3_context *context, int count, sqlite3_value **values)
{
    uint32_t sum = 0;

    for (int i = 0; i < count; i++) {
        if (sqlite3_value_type(values[i]) == SQLITE_INTEGER) {
            sum = dbsum_int(sum, sqlite3_value_int64(values[i]));
        } else {
            const char *text = sqlite3_value_blob(values[i]);

            sum = dbsum_text(sum, (struct str){text, (size_t)sqlite3_value_bytes(values[i])});
        }
    }
    sqlite3_result_int64(context, sum);
}

static void new_id(sqlite3_context *context, int count, sqlite3_value **values)
{
    unsigned char b[16];
    char id[37];

    (void)count;
    (void)values;
    sqlite3_randomness(sizeof(b), b);
    b[6] = (b[6] & 0x0f) | 0x40;
    b[8] = (b[8] & 0x3f) | 0x80;
    snprintf(id, sizeof(id), "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
             b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
    sqlite3_result_text(context, id, -1, SQLITE_TRANSIENT);
}

void dbsum_functions(sqlite3 *sql)
{
    sqlite3_create_function(sql, "row_sum", -1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL, row_sum, NULL,
                            NULL);
    sqlite3_create_function(sql, "new_id", 0, SQLITE_UTF8, NULL, new_id, NULL, NULL);
}
