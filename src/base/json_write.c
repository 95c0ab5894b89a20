/* json_write.c - trees to JSON text. Whatever the tree holds, the text is valid JSON: bytes that are no
 * UTF-8 become U+FFFD, numbers that JSON has not (NaN, infinite, a BIG that is none) and values nested
 * deeper than JSON_DEPTH_MAX become null. */
#include "base/json.h"
#include "base/json_build.h"
#include "base/mem.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum order { AS_IS, SORTED };

struct writer {
    struct buf *buf;
    int indent; /* < 0: compact */
    enum order order;
};

/* Without the closing NUL, which write_tree adds. */
static inline void put(struct buf *buf, char c)
{
    if (buf->cap - buf->len < 2)
        buf_reserve(buf, 1);
    buf->data[buf->len++] = c;
}

/* --- numbers --- */

static locale_t c_locale;

static void c_locale_make(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c_locale)
        abort();
}

static locale_t c_locale_get(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, c_locale_make);
    return c_locale;
}

double json_strtod(const char *s)
{
    return strtod_l(s, NULL, c_locale_get());
}

size_t json_real_text(double d, char *text)
{
    locale_t old = uselocale(c_locale_get());
    int n = 0;

    /* Every text of up to 15 digits survives in a double, except among the smallest ones. */
    for (int digits = fabs(d) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
        n = snprintf(text, JSON_REAL_MAX, "%.*g", digits, d);
        if (json_strtod(text) == d)
            break;
    }
    uselocale(old);
    if (!strpbrk(text, ".e")) {
        memcpy(text + n, ".0", 3);
        n += 2;
    }
    return (size_t)n;
}

static void write_real(struct buf *buf, double d)
{
    char text[JSON_REAL_MAX];

    if (!isfinite(d))
        buf_puts(buf, "null");
    else
        buf_add(buf, text, json_real_text(d, text));
}

static bool is_whole_number(struct str s)
{
    size_t i = s.len && s.s[0] == '-';

    if (i == s.len || (s.s[i] == '0' && s.len > i + 1))
        return false;
    for (; i < s.len; i++)
        if (s.s[i] < '0' || s.s[i] > '9')
            return false;
    return true;
}

static void write_big(struct buf *buf, struct str s)
{
    if (is_whole_number(s))
        buf_str(buf, s);
    else
        buf_puts(buf, "null");
}

/* --- strings --- */

#define ONES  UINT64_C(0x0101010101010101)
#define HIGHS UINT64_C(0x8080808080808080)

/* Bytes that cannot be copied as they are: quote, backslash, controls, and non-ASCII, which is checked. */
static bool special(unsigned char c)
{
    return c < 0x20 || c >= 0x80 || c == '"' || c == '\\';
}

/* Whether one of eight bytes is special. */
static inline bool word_special(uint64_t x)
{
    uint64_t quote = x ^ (ONES * '"'), slash = x ^ (ONES * '\\');

    return ((x | (x - ONES * 0x20) | (quote - ONES) | (slash - ONES)) & HIGHS) != 0;
}

/* How many bytes at the start of s need no escape. */
static inline size_t plain_run(const char *s, size_t len)
{
    size_t i = 0;

#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), space = _mm_set1_epi8(0x20);

    for (; len - i >= 16; i += 16) {
        __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(s + i));
        /* signed: controls and non-ASCII are both below 0x20 */
        __m128i hit = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(x, quote), _mm_cmpeq_epi8(x, slash)),
                                   _mm_cmplt_epi8(x, space));
        unsigned mask = (unsigned)_mm_movemask_epi8(hit);

        if (mask)
            return i + (size_t)__builtin_ctz(mask);
    }
#endif
    for (uint64_t word; len - i >= 8; i += 8) {
        memcpy(&word, s + i, 8);
        if (word_special(word))
            break;
    }
    while (i < len && !special((unsigned char)s[i]))
        i++;
    return i;
}

/* Writes the special character at p, at most 6 bytes; returns how many bytes of the text it takes. */
static size_t write_special(char **to, const unsigned char *p, size_t left)
{
    static const char hex[] = "0123456789abcdef";
    static const char shorts[0x5d] = {
        ['"'] = '"', ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't',
    };
    size_t n = 1;

    if (*p >= 0x80) {
        n = utf8_len(p, left);
        memcpy(*to, n ? (const char *)p : "\xef\xbf\xbd", n ? n : 3);
        *to += n ? n : 3;
        return n ? n : 1;
    }
    *(*to)++ = '\\';
    if (shorts[*p]) {
        *(*to)++ = shorts[*p];
        return n;
    }
    memcpy(*to, "u00", 3);
    (*to)[3] = hex[*p >> 4];
    (*to)[4] = hex[*p & 15];
    *to += 5;
    return n;
}

void json_write_string(struct buf *buf, struct str s)
{
    char *to = buf_reserve(buf, s.len + 2);
    size_t i;

    *to++ = '"';
    i = plain_run(s.s, s.len);
    if (i)
        memcpy(to, s.s, i);
    to += i;
    while (i < s.len) {
        size_t run;

        buf->len = (size_t)(to - buf->data);
        to = buf_reserve(buf, s.len - i + 8); /* 6 for this one, 1 for the quote */
        i += write_special(&to, (const unsigned char *)s.s + i, s.len - i);
        if (i == s.len)
            break;
        run = plain_run(s.s + i, s.len - i);
        memcpy(to, s.s + i, run);
        to += run;
        i += run;
    }
    *to++ = '"';
    *to = '\0';
    buf->len = (size_t)(to - buf->data);
}

/* --- arrays and objects --- */

static void write_value(const struct writer *w, const struct json *value, int depth);

static void write_line(const struct writer *w, int depth)
{
    size_t spaces = (size_t)depth * (size_t)w->indent;
    char *at = buf_reserve(w->buf, spaces + 1);

    at[0] = '\n';
    memset(at + 1, ' ', spaces);
    at[spaces + 1] = '\0';
    w->buf->len += spaces + 1;
}

static inline void new_line(const struct writer *w, int depth)
{
    if (w->indent >= 0)
        write_line(w, depth);
}

static void write_array(const struct writer *w, const struct json *value, int depth)
{
    put(w->buf, '[');
    for (uint32_t i = 0; i < value->len; i++) {
        if (i)
            put(w->buf, ',');
        new_line(w, depth + 1);
        write_value(w, &value->items->v[i], depth + 1);
    }
    if (value->len)
        new_line(w, depth);
    put(w->buf, ']');
}

static void write_member(const struct writer *w, const struct json_member *member, bool first, int depth)
{
    if (!first)
        put(w->buf, ',');
    new_line(w, depth + 1);
    json_write_string(w->buf, (struct str){member->key, member->key_len});
    put(w->buf, ':');
    if (w->indent >= 0)
        put(w->buf, ' ');
    write_value(w, &member->value, depth + 1);
}

static int compare_members(const void *a, const void *b)
{
    const struct json_member *x = *(const struct json_member *const *)a;
    const struct json_member *y = *(const struct json_member *const *)b;

    return str_cmp((struct str){x->key, x->key_len}, (struct str){y->key, y->key_len});
}

static void write_sorted(const struct writer *w, const struct json *value, int depth)
{
    const struct json_member *few[32];
    const size_t size = sizeof(few) / ARRAY_LEN(few);
    CLEANUP(free) void *many = value->len > ARRAY_LEN(few) ? mem_alloc(value->len * size) : NULL;
    const struct json_member **v = many ? many : few;

    for (uint32_t i = 0; i < value->len; i++)
        v[i] = &value->members->v[i];
    qsort(v, value->len, size, compare_members);
    for (uint32_t i = 0; i < value->len; i++)
        write_member(w, v[i], i == 0, depth);
}

static void write_object(const struct writer *w, const struct json *value, int depth)
{
    put(w->buf, '{');
    if (w->order == SORTED && value->len > 1)
        write_sorted(w, value, depth);
    else
        for (uint32_t i = 0; i < value->len; i++)
            write_member(w, &value->members->v[i], i == 0, depth);
    if (value->len)
        new_line(w, depth);
    put(w->buf, '}');
}

static void write_value(const struct writer *w, const struct json *value, int depth)
{
    switch ((enum json_type)value->type) {
    case JSON_STRING:
        json_write_string(w->buf, (struct str){value->string, value->len});
        return;
    case JSON_OBJECT:
        if (depth == JSON_DEPTH_MAX)
            break;
        write_object(w, value, depth);
        return;
    case JSON_ARRAY:
        if (depth == JSON_DEPTH_MAX)
            break;
        write_array(w, value, depth);
        return;
    case JSON_BOOL:
        buf_puts(w->buf, value->boolean ? "true" : "false");
        return;
    case JSON_INT:
        buf_int(w->buf, value->integer);
        return;
    case JSON_BIG:
        write_big(w->buf, (struct str){value->string, value->len});
        return;
    case JSON_REAL:
        write_real(w->buf, value->real);
        return;
    case JSON_NULL:
        break;
    }
    buf_add(w->buf, "null", 4);
}

static void write_tree(struct buf *buf, const struct json *value, int indent, enum order order)
{
    static const struct json null = {.type = JSON_NULL};

    write_value(&(struct writer){buf, indent, order}, value ? value : &null, 0);
    *buf_reserve(buf, 0) = '\0';
}

void json_write(struct buf *buf, const struct json *value)
{
    write_tree(buf, value, -1, AS_IS);
}

void json_write_pretty(struct buf *buf, const struct json *value, int indent)
{
    write_tree(buf, value, indent < 0 ? 0 : indent, AS_IS);
}

void json_write_sorted(struct buf *buf, const struct json *value)
{
    write_tree(buf, value, -1, SORTED);
}
