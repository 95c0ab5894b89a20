/* unicode - what Python's str knows about characters, from its own tables (gen_unicode.py), and UTF-8.
 * Strings here are valid UTF-8, but for surrogates, which are let through as three bytes. */
#pragma once

#include "base/buf.h"
#include "base/str.h"

enum unicode_flag {
    UNI_ALPHA = 1 << 0,
    UNI_DECIMAL = 1 << 1,
    UNI_DIGIT = 1 << 2,
    UNI_NUMERIC = 1 << 3,
    UNI_LOWER = 1 << 4,
    UNI_UPPER = 1 << 5,
    UNI_TITLE = 1 << 6,
    UNI_SPACE = 1 << 7,
    UNI_PRINT = 1 << 8,
    UNI_CASED = 1 << 9,
    UNI_IGNORABLE = 1 << 10,
    UNI_IDSTART = 1 << 11,
    UNI_IDCONT = 1 << 12,
    UNI_LINE = 1 << 13,
    UNI_ALNUM = UNI_ALPHA | UNI_DECIMAL | UNI_DIGIT | UNI_NUMERIC,
};

enum unicode_case { UNI_TO_UPPER, UNI_TO_LOWER, UNI_TO_TITLE, UNI_TO_FOLD };

#define UNI_SPECIAL 0x200000 /* map values from here on are places in unicode_special */

struct unicode_record {
    uint16_t flags;
    uint8_t decimal;
    int32_t map[4]; /* by enum unicode_case: what to add */
};
extern const struct unicode_record unicode_records[];
extern const char *const unicode_special[];
extern const uint16_t unicode_stage1[], unicode_stage2[];

static inline const struct unicode_record *unicode_of(uint32_t cp)
{
    if (cp > 0x10ffff)
        cp = 0xffff;
    return &unicode_records[unicode_stage2[(size_t)unicode_stage1[cp >> 7] * 128 + (cp & 127)]];
}
static inline bool unicode_is(uint32_t cp, unsigned flags)
{
    return (unicode_of(cp)->flags & flags) != 0;
}

/* The character at *at, which moves behind it; at < end. */
uint32_t utf8_next(const char **at, const char *end);
uint32_t utf8_before(const char *start, const char **at); /* the one before *at; start < *at */
size_t utf8_put(char *to, uint32_t cp);                   /* 1 to 4 bytes */
size_t utf8_count(struct str s);                          /* characters */
/* Where character `index` starts; s.len when there are fewer. */
size_t utf8_offset(struct str s, size_t index);

void unicode_put(struct buf *buf, uint32_t cp);
/* s in another case, added to buf; the sigma rule is Python's. */
void unicode_map(struct buf *buf, struct str s, enum unicode_case to);
void unicode_map_char(struct buf *buf, uint32_t cp, enum unicode_case to);
void unicode_capitalize(struct buf *buf, struct str s);
void unicode_title(struct buf *buf, struct str s);
void unicode_swapcase(struct buf *buf, struct str s);
