/* str - a borrowed run of bytes, and the few string questions that C lacks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct str {
    const char *s; /* not NUL-terminated in general */
    size_t len;
};

#define STR(literal) ((struct str){"" literal, sizeof(literal) - 1})
#define STR_ARG(str) (int)(str).len, (str).s /* for "%.*s" */

static inline struct str str_from(const char *s)
{
    return (struct str){s, s ? strlen(s) : 0};
}

static inline bool str_eq(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.s, b.s, a.len) == 0);
}

static inline bool str_is(struct str a, const char *b)
{
    return str_eq(a, str_from(b));
}

static inline bool streq(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

int str_cmp(struct str a, struct str b);  /* by bytes, then by length */
bool str_ieq(struct str a, struct str b); /* ASCII case folded */
bool str_starts(struct str s, const char *prefix);
bool str_ends(struct str s, const char *suffix);
bool starts_with(const char *s, const char *prefix);
bool ends_with(const char *s, const char *suffix);
struct str str_trim(struct str s); /* without spaces and tabs at both ends */

/* Takes what stands before `sep` off *rest; false when *rest is used up. "a,,b" gives a, "", b. */
bool str_split(struct str *rest, char sep, struct str *ret);

/* Whole-string numbers: no sign prefix "+", no spaces, no leftovers. False when it is none or too large. */
bool str_to_int(struct str s, int64_t *ret);
bool str_to_uint(struct str s, uint64_t *ret);

bool utf8_valid(struct str s);
size_t utf8_valid_len(struct str s); /* bytes before the first that is no UTF-8 */
/* Bytes of the character at p (left > 0 bytes are there); 0 when it is no UTF-8. */
size_t utf8_len(const unsigned char *p, size_t left);

/* Keyed hash (one random key per process): safe for keys that come from outside. */
uint64_t str_hash(struct str s);
/* For tests that must repeat themselves: this key instead, before the first map is made. */
void str_hash_use(uint64_t key);
