/* unicode.c - case mapping as CPython does it: one character at a time, with the table's multi-character
 * results, and a final sigma where only case-ignorable characters stand before the end of a word. */
#include "jinja/unicode.h"

uint32_t utf8_next(const char **at, const char *end)
{
    const unsigned char *p = (const unsigned char *)*at;
    size_t left = (size_t)(end - *at);

    if (p[0] < 0x80) {
        *at += 1;
        return p[0];
    }
    if (p[0] < 0xe0 && left >= 2) {
        *at += 2;
        return (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f);
    }
    if (p[0] < 0xf0 && left >= 3) {
        *at += 3;
        return (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
    }
    if (left >= 4) {
        *at += 4;
        return (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3f) << 12 | (uint32_t)(p[2] & 0x3f) << 6 |
               (p[3] & 0x3f);
    }
    *at += 1;
    return 0xfffd;
}

uint32_t utf8_before(const char *start, const char **at)
{
    const char *p = *at - 1, *end = *at;

    while (p > start && ((unsigned char)*p & 0xc0) == 0x80)
        p--;
    *at = p;
    return utf8_next(&p, end);
}

size_t utf8_put(char *to, uint32_t cp)
{
    if (cp < 0x80) {
        to[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        to[0] = (char)(0xc0 | cp >> 6);
        to[1] = (char)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp < 0x10000) {
        to[0] = (char)(0xe0 | cp >> 12);
        to[1] = (char)(0x80 | (cp >> 6 & 0x3f));
        to[2] = (char)(0x80 | (cp & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | cp >> 18);
    to[1] = (char)(0x80 | (cp >> 12 & 0x3f));
    to[2] = (char)(0x80 | (cp >> 6 & 0x3f));
    to[3] = (char)(0x80 | (cp & 0x3f));
    return 4;
}

size_t utf8_count(struct str s)
{
    size_t n = 0;

    for (size_t i = 0; i < s.len; i++)
        n += ((unsigned char)s.s[i] & 0xc0) != 0x80;
    return n;
}

size_t utf8_offset(struct str s, size_t index)
{
    for (size_t i = 0; i < s.len; i++) {
        if (((unsigned char)s.s[i] & 0xc0) == 0x80)
            continue;
        if (index-- == 0)
            return i;
    }
    return s.len;
}

void unicode_put(struct buf *buf, uint32_t cp)
{
    buf->len += utf8_put(buf_reserve(buf, 4), cp);
}

void unicode_map_char(struct buf *buf, uint32_t cp, enum unicode_case to)
{
    int32_t map = unicode_of(cp)->map[to];

    if (map >= UNI_SPECIAL)
        buf_puts(buf, unicode_special[map - UNI_SPECIAL]);
    else
        unicode_put(buf, cp + (uint32_t)map);
}

/* Whether the sigma between `before` and `after` ends a word. */
static bool is_final_sigma(struct str s, const char *before, const char *after)
{
    const char *end = s.s + s.len;
    uint32_t cp = 0;

    do {
        if (before == s.s)
            return false;
        cp = utf8_before(s.s, &before);
    } while (unicode_is(cp, UNI_IGNORABLE));
    if (!unicode_is(cp, UNI_CASED))
        return false;
    while (after < end) {
        cp = utf8_next(&after, end);
        if (!unicode_is(cp, UNI_IGNORABLE))
            return !unicode_is(cp, UNI_CASED);
    }
    return true;
}

static void put_lower(struct buf *buf, struct str s, const char *before, const char *after, uint32_t cp)
{
    if (cp == 0x3a3)
        unicode_put(buf, is_final_sigma(s, before, after) ? 0x3c2 : 0x3c3);
    else
        unicode_map_char(buf, cp, UNI_TO_LOWER);
}

/* to: upper, lower or fold. */
void unicode_map(struct buf *buf, struct str s, enum unicode_case to)
{
    const char *at = s.s, *end = s.s + s.len;

    buf_reserve(buf, s.len);
    while (at < end) {
        const char *before = at;
        uint32_t cp;

        if ((unsigned char)*at < 0x80) { /* most text: no tables, no calls */
            char *out = buf_reserve(buf, (size_t)(end - at));
            char first = to == UNI_TO_UPPER ? 'a' : 'A';

            for (; at < end && (unsigned char)*at < 0x80; at++)
                *out++ = *at >= first && *at < first + 26 ? (char)(*at ^ 0x20) : *at;
            buf->len += (size_t)(at - before);
            continue;
        }
        cp = utf8_next(&at, end);
        if (to == UNI_TO_LOWER)
            put_lower(buf, s, before, at, cp);
        else
            unicode_map_char(buf, cp, to);
    }
}

void unicode_capitalize(struct buf *buf, struct str s)
{
    const char *at = s.s, *end = s.s + s.len;

    while (at < end) {
        const char *before = at;
        uint32_t cp = utf8_next(&at, end);

        if (before == s.s)
            unicode_map_char(buf, cp, UNI_TO_TITLE);
        else
            put_lower(buf, s, before, at, cp);
    }
}

void unicode_title(struct buf *buf, struct str s)
{
    const char *at = s.s, *end = s.s + s.len;
    bool inside = false;

    while (at < end) {
        const char *before = at;
        uint32_t cp = utf8_next(&at, end);

        if (inside)
            put_lower(buf, s, before, at, cp);
        else
            unicode_map_char(buf, cp, UNI_TO_TITLE);
        inside = unicode_is(cp, UNI_CASED);
    }
}

void unicode_swapcase(struct buf *buf, struct str s)
{
    const char *at = s.s, *end = s.s + s.len;

    while (at < end) {
        const char *before = at;
        uint32_t cp = utf8_next(&at, end);

        if (unicode_is(cp, UNI_UPPER))
            put_lower(buf, s, before, at, cp);
        else if (unicode_is(cp, UNI_LOWER))
            unicode_map_char(buf, cp, UNI_TO_UPPER);
        else
            unicode_put(buf, cp);
    }
}
