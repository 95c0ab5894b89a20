/* str.c - questions about runs of bytes. The hash is SipHash-1-3 with a random key of this process. */
#include "base/str.h"

#include "base/break.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/random.h>

int str_cmp(struct str a, struct str b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len ? memcmp(a.s, b.s, len) : 0;

    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static unsigned char lower(unsigned char c)
{
    return c >= 'A' && c <= 'Z' ? (unsigned char)(c + 32) : c;
}

bool str_ieq(struct str a, struct str b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (lower((unsigned char)a.s[i]) != lower((unsigned char)b.s[i]))
            return false;
    return true;
}

bool str_starts(struct str s, const char *prefix)
{
    size_t len = strlen(prefix);

    return len == 0 || (s.len >= len && memcmp(s.s, prefix, len) == 0);
}

bool str_ends(struct str s, const char *suffix)
{
    size_t len = strlen(suffix);

    return len == 0 || (s.len >= len && memcmp(s.s + s.len - len, suffix, len) == 0);
}

bool starts_with(const char *s, const char *prefix)
{
    return s && strncmp(s, prefix, strlen(prefix)) == 0;
}

bool ends_with(const char *s, const char *suffix)
{
    return s && str_ends(str_from(s), suffix);
}

static bool blank(char c)
{
    return c == ' ' || c == '\t';
}

struct str str_trim(struct str s)
{
    while (s.len && blank(s.s[0])) {
        s.s++;
        s.len--;
    }
    while (s.len && blank(s.s[s.len - 1]))
        s.len--;
    return s;
}

/* A used-up rest is {NULL, 0}: an empty one that is not NULL still holds one empty piece. */
bool str_split(struct str *rest, char sep, struct str *ret)
{
    const char *at;

    if (!rest->s)
        return false;
    at = rest->len ? memchr(rest->s, sep, rest->len) : NULL;
    if (!at) {
        *ret = *rest;
        *rest = (struct str){NULL, 0};
        return true;
    }
    *ret = (struct str){rest->s, (size_t)(at - rest->s)};
    *rest = (struct str){at + 1, rest->len - ret->len - 1};
    return true;
}

bool str_to_uint(struct str s, uint64_t *ret)
{
    uint64_t n = 0;

    if (s.len == 0)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        unsigned digit = (unsigned)(unsigned char)s.s[i] - '0';

        if (digit > 9 || __builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, digit, &n))
            return false;
    }
    *ret = n;
    return true;
}

bool str_to_int(struct str s, int64_t *ret)
{
    bool negative = s.len && s.s[0] == '-';
    uint64_t n;

    if (negative) {
        s.s++;
        s.len--;
    }
    if (!str_to_uint(s, &n) || n > (uint64_t)INT64_MAX + negative)
        return false;
    *ret = negative ? (int64_t)(0 - n) : (int64_t)n;
    return true;
}

size_t utf8_len(const unsigned char *p, size_t left)
{
    unsigned char c = p[0];

    if (c < 0x80)
        return 1;
    if (c < 0xc2 || c > 0xf4 || left < 2 || (p[1] & 0xc0) != 0x80)
        return 0;
    if (c < 0xe0)
        return 2;
    if (left < 3 || (p[2] & 0xc0) != 0x80)
        return 0;
    if (c < 0xf0) {
        if ((c == 0xe0 && p[1] < 0xa0) || (c == 0xed && p[1] > 0x9f)) /* overlong; surrogate */
            return 0;
        return 3;
    }
    if (left < 4 || (p[3] & 0xc0) != 0x80)
        return 0;
    if ((c == 0xf0 && p[1] < 0x90) || (c == 0xf4 && p[1] > 0x8f)) /* overlong; above U+10FFFF */
        return 0;
    return 4;
}

size_t utf8_valid_len(struct str s)
{
    size_t i = 0;

    while (i < s.len) {
        uint64_t word, words[4];
        size_t n;

        if (s.len - i >= sizeof(words)) {
            memcpy(words, s.s + i, sizeof(words));
            if (!((words[0] | words[1] | words[2] | words[3]) & UINT64_C(0x8080808080808080))) {
                i += sizeof(words);
                continue;
            }
        }

        if (s.len - i >= sizeof(word)) {
            memcpy(&word, s.s + i, sizeof(word));
            if (!(word & UINT64_C(0x8080808080808080))) {
                i += sizeof(word);
                continue;
            }
        }
        n = utf8_len((const unsigned char *)s.s + i, s.len - i);
        if (n == 0)
            return i;
        i += n;
    }
    return i;
}

bool utf8_valid(struct str s)
{
    return utf8_valid_len(s) == s.len;
}

#ifdef BERTH_BREAK_RULES
const char *rule_to_break;
#endif

static uint64_t hash_key[2];

/* Before main, so that no thread can see half a key. */
static void __attribute__((constructor)) hash_key_init(void)
{
    ssize_t n;

    do
        n = getrandom(hash_key, sizeof(hash_key), 0);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof(hash_key))
        abort();
}

void str_hash_use(uint64_t key)
{
    hash_key[0] = hash_key[1] = key;
}

static inline uint64_t rotl(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotl(v[1], 13) ^ v[0];
    v[0] = rotl(v[0], 32);
    v[2] += v[3];
    v[3] = rotl(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotl(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotl(v[1], 17) ^ v[2];
    v[2] = rotl(v[2], 32);
}

uint64_t str_hash(struct str s)
{
    uint64_t v[4] = {
        hash_key[0] ^ UINT64_C(0x736f6d6570736575),
        hash_key[1] ^ UINT64_C(0x646f72616e646f6d),
        hash_key[0] ^ UINT64_C(0x6c7967656e657261),
        hash_key[1] ^ UINT64_C(0x7465646279746573),
    };
    uint64_t word, last = (uint64_t)s.len << 56;
    size_t i = 0;

    for (; s.len - i >= 8; i += 8) {
        memcpy(&word, s.s + i, 8);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    for (int shift = 0; i < s.len; i++, shift += 8)
        last |= (uint64_t)(unsigned char)s.s[i] << shift;
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    sip_round(v);
    sip_round(v);
    sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
