/* json_read.c - JSON text to a tree.
 *
 * The parser works in place: a string stays where it is, its closing quote becomes the NUL and escapes
 * shrink it. json_parse does the same on a copy of the whole text in the arena, which costs less than
 * copying strings one by one. The text is checked to be UTF-8 at first, in one pass. A NUL behind the
 * text ends every scan, so most steps need no bounds check. Children are collected on two scratch stacks
 * and copied to the arena when their array or object ends. */
#include "base/json.h"
#include "base/json_build.h"
#include "base/vec.h"

#include <math.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Where the parser is, for the paths of repeated members. */
struct place {
    const struct place *up;
    struct str key;
    size_t index; /* in an array: key.s is NULL */
};

struct parser {
    struct arena *arena;
    char *end; /* *end is NUL */
    char *line_start;
    size_t line;
    VEC(struct json) items;
    VEC(struct json_member) members;
    struct buf *dups;
    struct err *err;
    int depth;
};

/* Fails with the place in the text; NULL is what every parse function returns then. */
static char *fail(struct parser *p, const char *at, const char *what)
{
    err_set(p->err, ERR_INVALID, "line %zu, column %zu: %s", p->line, (size_t)(at - p->line_start) + 1, what);
    return NULL;
}

static char *fail_char(struct parser *p, const char *at, const char *wanted)
{
    unsigned char c = (unsigned char)*at;

    if (at == p->end)
        err_set(p->err, ERR_INVALID, "line %zu, column %zu: text ends where %s should be", p->line,
                (size_t)(at - p->line_start) + 1, wanted);
    else if (c > 0x20 && c < 0x7f)
        err_set(p->err, ERR_INVALID, "line %zu, column %zu: '%c' where %s should be", p->line,
                (size_t)(at - p->line_start) + 1, c, wanted);
    else
        err_set(p->err, ERR_INVALID, "line %zu, column %zu: byte 0x%02x where %s should be", p->line,
                (size_t)(at - p->line_start) + 1, c, wanted);
    return NULL;
}

static char *skip_space_slow(struct parser *p, char *at)
{
    for (;; at++) {
        if (*at == '\n') {
            p->line++;
            p->line_start = at + 1;
        } else if (*at != ' ' && *at != '\t' && *at != '\r') {
            return at;
        }
    }
}

static inline char *skip_space(struct parser *p, char *at)
{
    if ((unsigned char)*at > ' ')
        return at;
    return skip_space_slow(p, at);
}

/* --- strings --- */

/* The first quote, backslash or control character (the NUL at the end is one). */
static inline char *scan_string(const struct parser *p, char *at)
{
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), control = _mm_set1_epi8(0x1f);

    while (p->end - at >= 16) {
        __m128i x = _mm_loadu_si128((const __m128i *)(const void *)at);
        __m128i hit = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(x, quote), _mm_cmpeq_epi8(x, slash)),
                                   _mm_cmpeq_epi8(_mm_min_epu8(x, control), x));
        unsigned mask = (unsigned)_mm_movemask_epi8(hit);

        if (mask)
            return at + __builtin_ctz(mask);
        at += 16;
    }
#else
    (void)p;
#endif
    while ((unsigned char)*at >= 0x20 && *at != '"' && *at != '\\')
        at++;
    return at;
}

static int hex4(const char *at)
{
    int n = 0;

    for (int i = 0; i < 4; i++) {
        int c = (unsigned char)at[i], digit;

        if (c >= '0' && c <= '9')
            digit = c - '0';
        else if (c >= 'a' && c <= 'f')
            digit = c - 'a' + 10;
        else if (c >= 'A' && c <= 'F')
            digit = c - 'A' + 10;
        else
            return -1;
        n = n << 4 | digit;
    }
    return n;
}

static char *put_utf8(char *to, unsigned c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
        *to++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *to++ = (char)(0xe0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 63));
        *to++ = (char)(0x80 | (c & 63));
    } else {
        *to++ = (char)(0xf0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 63));
        *to++ = (char)(0x80 | (c >> 6 & 63));
        *to++ = (char)(0x80 | (c & 63));
    }
    return to;
}

/* \uXXXX at `at` (its backslash), perhaps with the second half of a surrogate pair. */
static char *unicode_escape(struct parser *p, char *at, char **to)
{
    int c = hex4(at + 2), low;

    if (c < 0)
        return fail(p, at, "\\u needs four hexadecimal digits");
    if (c >= 0xdc00 && c <= 0xdfff)
        return fail(p, at, "second half of a surrogate pair without the first");
    if (c < 0xd800 || c > 0xdbff) {
        *to = put_utf8(*to, (unsigned)c);
        return at + 6;
    }
    low = at[6] == '\\' && at[7] == 'u' ? hex4(at + 8) : -1;
    if (low < 0xdc00 || low > 0xdfff)
        return fail(p, at, "first half of a surrogate pair without the second");
    *to = put_utf8(*to, 0x10000 + (((unsigned)c - 0xd800) << 10) + ((unsigned)low - 0xdc00));
    return at + 12;
}

static char *escape(struct parser *p, char *at, char **to)
{
    static const char plain[256] = {
        ['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
        ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
    };
    char c = plain[(unsigned char)at[1]];

    if (at[1] == 'u')
        return unicode_escape(p, at, to);
    if (!c)
        return fail(p, at, "unknown escape in string");
    *(*to)++ = c;
    return at + 2;
}

/* The rest of a string from its first backslash on; what is decoded moves up behind what is there. */
static char *finish_escaped(struct parser *p, char *start, char *at, struct str *ret)
{
    char *to = at;

    while (*at == '\\') {
        char *next;

        at = escape(p, at, &to);
        if (!at)
            return NULL;
        next = scan_string(p, at);
        memmove(to, at, (size_t)(next - at));
        to += next - at;
        at = next;
    }
    if (*at != '"')
        return fail(p, at, at == p->end ? "string does not end" : "control character in string");
    *to = '\0';
    *ret = (struct str){start, (size_t)(to - start)};
    return at + 1;
}

/* A string whose opening quote is at at[-1]. */
static inline char *parse_string(struct parser *p, char *at, struct str *ret)
{
    char *start = at;

    at = scan_string(p, at);
    if (*at == '"') {
        *at = '\0';
        *ret = (struct str){start, (size_t)(at - start)};
        return at + 1;
    }
    if (*at == '\\')
        return finish_escaped(p, start, at, ret);
    return fail(p, at, at == p->end ? "string does not end" : "control character in string");
}

/* --- numbers --- */

static bool digit(char c)
{
    return (unsigned)(unsigned char)c - '0' < 10;
}

/* Fractions and exponents. Up to 19 digits and a power of ten that doubles hold exactly need one
 * multiplication or division (and give the correctly rounded result); strtod does the others. */
static char *parse_real(struct parser *p, char *start, char *at, struct json *ret)
{
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    bool negative = *start == '-', exp_negative = false;
    uint64_t mantissa = 0;
    int exp = 0, scale = 0, digits = 0;
    double d;

    for (char *q = start + negative; q < at; q++, digits++)
        mantissa = mantissa * 10 + (uint64_t)(*q - '0');
    if (*at == '.') {
        if (!digit(*++at))
            return fail_char(p, at, "a digit");
        for (; digit(*at); at++, digits++, scale--)
            mantissa = mantissa * 10 + (uint64_t)(*at - '0');
    }
    if (*at == 'e' || *at == 'E') {
        at++;
        exp_negative = *at == '-';
        if (*at == '-' || *at == '+')
            at++;
        if (!digit(*at))
            return fail_char(p, at, "a digit");
        for (; digit(*at); at++)
            if (exp < 100000)
                exp = exp * 10 + (*at - '0');
    }
    exp = scale + (exp_negative ? -exp : exp);
    if (digits <= 18 && mantissa <= (UINT64_C(1) << 53) && exp >= -22 && exp <= 22) {
        d = exp < 0 ? (double)mantissa / power[-exp] : (double)mantissa * power[exp];
        d = negative ? -d : d;
    } else {
        d = json_strtod(start);
    }
    if (isinf(d))
        return fail(p, start, "number out of range");
    *ret = json_of_real(d);
    return at;
}

static char *parse_number(struct parser *p, char *at, struct json *ret)
{
    char *start = at;
    bool negative = *at == '-';
    uint64_t n = 0;
    bool big = false;

    at += negative;
    if (!digit(*at))
        return fail_char(p, at, negative ? "a digit" : "a value");
    if (*at == '0' && digit(at[1]))
        return fail(p, at, "number with a leading zero");
    for (; digit(*at); at++) {
        if (at - start >= 18)
            big |= __builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, (uint64_t)(*at - '0'), &n);
        else
            n = n * 10 + (uint64_t)(*at - '0');
    }
    if (*at == '.' || *at == 'e' || *at == 'E')
        return parse_real(p, start, at, ret);
    if (big || n > (uint64_t)INT64_MAX + negative) {
        *ret = json_of_str(p->arena, (struct str){start, (size_t)(at - start)});
        ret->type = JSON_BIG;
        return at;
    }
    *ret = json_of_int(negative ? (int64_t)(0 - n) : (int64_t)n);
    return at;
}

/* --- arrays and objects --- */

static char *parse_value(struct parser *p, char *at, struct json *ret, const struct place *place);

static char *parse_array(struct parser *p, char *at, struct json *ret, const struct place *up)
{
    struct place place = {.up = up};
    size_t base = p->items.len;
    struct json value;

    at = skip_space(p, at);
    if (*at == ']') {
        *ret = (struct json){.type = JSON_ARRAY};
        return at + 1;
    }
    for (;; place.index++) {
        at = parse_value(p, at, &value, &place);
        if (!at)
            return NULL;
        vec_push(&p->items, value);
        at = skip_space(p, at);
        if (*at == ']')
            break;
        if (*at != ',')
            return fail_char(p, at, "',' or ']'");
        at = skip_space(p, at + 1);
    }
    *ret = json_build_array(p->arena, &p->items.v[base], p->items.len - base);
    p->items.len = base;
    return at + 1;
}

struct dup_arg {
    struct parser *p;
    const struct place *up;
    size_t base;
};

static void add_path(struct buf *buf, const struct place *place)
{
    if (!place)
        return;
    add_path(buf, place->up);
    if (!place->key.s) {
        buf_printf(buf, "[%zu]", place->index);
        return;
    }
    if (place->up)
        buf_putc(buf, '.');
    buf_str(buf, place->key);
}

static void add_dup(void *arg, size_t at)
{
    const struct dup_arg *dup = arg;
    const struct json_member *member = &dup->p->members.v[dup->base + at];
    struct place place = {.up = dup->up, .key = {member->key, member->key_len}};

    if (dup->p->dups->len >= JSON_DUPS_BYTES)
        return;
    if (dup->p->dups->len)
        buf_putc(dup->p->dups, ',');
    add_path(dup->p->dups, &place);
}

static char *parse_object(struct parser *p, char *at, struct json *ret, const struct place *up)
{
    struct place place = {.up = up};
    size_t base = p->members.len;
    struct json_member member;

    at = skip_space(p, at);
    if (*at == '}') {
        *ret = (struct json){.type = JSON_OBJECT};
        return at + 1;
    }
    for (;;) {
        if (*at != '"')
            return fail_char(p, at, "a member name in quotes");
        at = parse_string(p, at + 1, &place.key);
        if (!at)
            return NULL;
        at = skip_space(p, at);
        if (*at != ':')
            return fail_char(p, at, "':'");
        at = parse_value(p, skip_space(p, at + 1), &member.value, &place);
        if (!at)
            return NULL;
        member.key = place.key.s;
        member.key_len = (uint32_t)place.key.len;
        vec_push(&p->members, member);
        at = skip_space(p, at);
        if (*at == '}')
            break;
        if (*at != ',')
            return fail_char(p, at, "',' or '}'");
        at = skip_space(p, at + 1);
    }
    *ret = json_build_object(p->arena, &p->members.v[base], p->members.len - base, p->dups ? add_dup : NULL,
                             &(struct dup_arg){p, up, base});
    p->members.len = base;
    return at + 1;
}

static char *parse_nested(struct parser *p, char *at, struct json *ret, const struct place *place)
{
    if (p->depth == JSON_DEPTH_MAX)
        return fail(p, at, "nested too deeply");
    p->depth++;
    at = *at == '{' ? parse_object(p, at + 1, ret, place) : parse_array(p, at + 1, ret, place);
    p->depth--;
    return at;
}

static char *parse_word(struct parser *p, char *at, const char *word, struct json value, struct json *ret)
{
    size_t len = strlen(word);

    if ((size_t)(p->end - at) < len || memcmp(at, word, len) != 0)
        return fail_char(p, at, "a value");
    *ret = value;
    return at + len;
}

static char *parse_value(struct parser *p, char *at, struct json *ret, const struct place *place)
{
    struct str s;

    switch (*at) {
    case '"':
        at = parse_string(p, at + 1, &s);
        if (at)
            *ret = (struct json){.type = JSON_STRING, .len = (uint32_t)s.len, .string = s.s};
        return at;
    case '{':
    case '[':
        return parse_nested(p, at, ret, place);
    case 't':
        return parse_word(p, at, "true", json_of_bool(true), ret);
    case 'f':
        return parse_word(p, at, "false", json_of_bool(false), ret);
    case 'n':
        return parse_word(p, at, "null", (struct json){.type = JSON_NULL}, ret);
    default:
        return parse_number(p, at, ret);
    }
}

/* --- whole texts --- */

static int check_text(struct str text, struct err *err)
{
    size_t valid, line = 1, start = 0;

    if (text.len >= UINT32_MAX)
        return err_set(err, ERR_LIMIT, "JSON text is larger than 4 GiB");
    valid = utf8_valid_len(text);
    if (valid == text.len)
        return 0;
    for (size_t i = 0; i < valid; i++)
        if (text.s[i] == '\n') {
            line++;
            start = i + 1;
        }
    return err_set(err, ERR_INVALID, "line %zu, column %zu: not UTF-8", line, valid - start + 1);
}

static int parse_text(struct parser *p, char *text, struct json **ret)
{
    struct json value;
    char *at = parse_value(p, skip_space(p, text), &value, NULL);

    if (at) {
        at = skip_space(p, at);
        if (at != p->end)
            at = fail_char(p, at, "the end");
    }
    vec_done(&p->items);
    vec_done(&p->members);
    if (!at)
        return -1;
    *ret = arena_alloc(p->arena, sizeof(**ret));
    **ret = value;
    return 0;
}

int json_parse(struct str text, struct arena *arena, struct json **ret, struct buf *dups, struct err *err)
{
    struct parser p = {.arena = arena, .line = 1, .dups = dups, .err = err};
    char *copy;

    if (check_text(text, err) < 0)
        return -1;
    copy = arena_strndup(arena, text.s, text.len);
    p.line_start = copy;
    p.end = copy + text.len;
    return parse_text(&p, copy, ret);
}

int json_parse_in_place(char *text, size_t len, struct arena *arena, struct json **ret, struct err *err)
{
    struct parser p = {.arena = arena, .line = 1, .line_start = text, .end = text + len, .err = err};

    if (check_text((struct str){text, len}, err) < 0)
        return -1;
    text[len] = '\0';
    return parse_text(&p, text, ret);
}
