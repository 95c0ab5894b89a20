/* yaml_scalar.c - types of plain scalars. The order is that of go-yaml v2, which kubectl uses: fixed
 * words first, then whole numbers with any prefix, then floats; everything else is a string. */
#include "base/yaml_scalar.h"

#include "base/json_build.h"
#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define NUMBER_MAX 4096 /* bytes; anything longer is a string */

enum word { WORD_NULL, WORD_TRUE, WORD_FALSE, WORD_NO_JSON };

static const struct {
    const char *text;
    enum word word;
} words[] = {
    {"~", WORD_NULL},        {"null", WORD_NULL},     {"Null", WORD_NULL},     {"NULL", WORD_NULL},
    {"y", WORD_TRUE},        {"Y", WORD_TRUE},        {"yes", WORD_TRUE},      {"Yes", WORD_TRUE},
    {"YES", WORD_TRUE},      {"true", WORD_TRUE},     {"True", WORD_TRUE},     {"TRUE", WORD_TRUE},
    {"on", WORD_TRUE},       {"On", WORD_TRUE},       {"ON", WORD_TRUE},       {"n", WORD_FALSE},
    {"N", WORD_FALSE},       {"no", WORD_FALSE},      {"No", WORD_FALSE},      {"NO", WORD_FALSE},
    {"false", WORD_FALSE},   {"False", WORD_FALSE},   {"FALSE", WORD_FALSE},   {"off", WORD_FALSE},
    {"Off", WORD_FALSE},     {"OFF", WORD_FALSE},     {".inf", WORD_NO_JSON},  {".Inf", WORD_NO_JSON},
    {".INF", WORD_NO_JSON},  {"+.inf", WORD_NO_JSON}, {"+.Inf", WORD_NO_JSON}, {"+.INF", WORD_NO_JSON},
    {"-.inf", WORD_NO_JSON}, {"-.Inf", WORD_NO_JSON}, {"-.INF", WORD_NO_JSON}, {".nan", WORD_NO_JSON},
    {".NaN", WORD_NO_JSON},  {".NAN", WORD_NO_JSON},
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* False: none of the words. */
static bool find_word(struct str text, enum word *ret)
{
    if (text.len == 0) {
        *ret = WORD_NULL;
        return true;
    }
    if (text.len > 5 || !strchr("~nNyYtToOfF.+-", text.s[0]))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (str_is(text, words[i].text)) {
            *ret = words[i].word;
            return true;
        }
    return false;
}

static int digit_value(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

/* The base a whole number is written in, as Go's ParseInt with base 0 sees it; takes the prefix off. */
static int take_base(struct str *s)
{
    char c = s->len > 1 && s->s[0] == '0' ? (char)(s->s[1] | 0x20) : '\0';
    int base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;

    if (base) {
        *s = (struct str){s->s + 2, s->len - 2};
        return base;
    }
    return s->len > 1 && s->s[0] == '0' ? 8 : 10;
}

static struct json big_of(struct arena *arena, bool negative, struct str digits)
{
    char *text = arena_printf(arena, "%s%.*s", negative ? "-" : "", STR_ARG(digits));

    return (struct json){.type = JSON_BIG, .len = (uint32_t)(digits.len + negative), .string = text};
}

/* `s` has no underscores. */
static bool parse_int(struct arena *arena, struct str s, struct json *ret)
{
    bool negative = s.len && s.s[0] == '-', big = false;
    char decimal[24];
    uint64_t n = 0;
    int base;

    if (s.len && (s.s[0] == '-' || s.s[0] == '+'))
        s = (struct str){s.s + 1, s.len - 1};
    base = take_base(&s);
    if (s.len == 0)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        int digit = digit_value(s.s[i]);

        if (digit >= base)
            return false;
        big |=
            __builtin_mul_overflow(n, (uint64_t)base, &n) || __builtin_add_overflow(n, (uint64_t)digit, &n);
    }
    if (big && base != 10)
        return false;
    if (big || n > (uint64_t)INT64_MAX + negative) {
        if (base != 10) {
            s.len = (size_t)snprintf(decimal, sizeof(decimal), "%" PRIu64, n);
            s.s = decimal;
        }
        *ret = big_of(arena, negative, s);
        return true;
    }
    *ret = json_of_int(negative ? (int64_t)(0 - n) : (int64_t)n);
    return true;
}

/* [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)? */
static bool looks_float(struct str s)
{
    size_t i = 0, whole, fraction = 0;

    if (i < s.len && (s.s[i] == '-' || s.s[i] == '+'))
        i++;
    for (whole = 0; i < s.len && is_digit(s.s[i]); i++)
        whole++;
    if (i < s.len && s.s[i] == '.')
        for (i++; i < s.len && is_digit(s.s[i]); i++)
            fraction++;
    if (whole + fraction == 0)
        return false;
    if (i < s.len && (s.s[i] == 'e' || s.s[i] == 'E')) {
        i++;
        if (i < s.len && (s.s[i] == '-' || s.s[i] == '+'))
            i++;
        if (i == s.len)
            return false;
        while (i < s.len && is_digit(s.s[i]))
            i++;
    }
    return i == s.len && is_digit(s.s[s.len - 1] == '.' ? s.s[s.len - 2] : s.s[s.len - 1]);
}

/* Out of range counts as no number, as in go-yaml. `s` is NUL-terminated. */
static bool parse_float(struct str s, struct json *ret)
{
    double d;

    if (!looks_float(s))
        return false;
    d = json_strtod(s.s);
    if (isinf(d))
        return false;
    *ret = json_of_real(d);
    return true;
}

static bool parse_number(struct arena *arena, struct str text, struct json *ret)
{
    char plain[NUMBER_MAX];
    size_t len = 0;

    if (text.len == 0 || text.len >= sizeof(plain) || !(is_digit(text.s[0]) || strchr("+-.", text.s[0])))
        return false;
    if (text.s[0] == '.') { /* go-yaml drops underscores from the others only */
        if (memchr(text.s, '_', text.len))
            return false;
    }
    for (size_t i = 0; i < text.len; i++)
        if (text.s[i] != '_')
            plain[len++] = text.s[i];
    plain[len] = '\0';
    return parse_int(arena, (struct str){plain, len}, ret) || parse_float((struct str){plain, len}, ret);
}

bool yaml_resolve(struct arena *arena, struct str text, struct json *ret)
{
    enum word word;

    if (find_word(text, &word)) {
        if (word == WORD_NO_JSON)
            return false;
        *ret = json_of_bool(word == WORD_TRUE);
        if (word == WORD_NULL)
            ret->type = JSON_NULL;
        return true;
    }
    if (!parse_number(arena, text, ret))
        *ret = json_of_str(arena, text);
    return true;
}

bool yaml_resolve_as(struct arena *arena, const char *type, struct str text, struct json *ret)
{
    struct json value;

    if (!yaml_resolve(arena, text, &value))
        return false;
    if (streq(type, "float") && value.type == JSON_INT)
        value = json_of_real((double)value.integer);
    else if (streq(type, "float") && value.type == JSON_BIG)
        value = json_of_real(json_strtod(value.string));
    *ret = value;
    switch ((enum json_type)value.type) {
    case JSON_NULL:
        return streq(type, "null");
    case JSON_BOOL:
        return streq(type, "bool");
    case JSON_INT:
    case JSON_BIG:
        return streq(type, "int");
    case JSON_REAL:
        return streq(type, "float") && isfinite(value.real);
    default:
        return false;
    }
}

/* Sexagesimal numbers (1:30), dates and times: YAML 1.1 readers such as PyYAML have them. */
static bool looks_time(struct str s)
{
    size_t i = 0, digits;

    if (i < s.len && (s.s[i] == '-' || s.s[i] == '+'))
        i++;
    for (digits = 0; i < s.len && (is_digit(s.s[i]) || s.s[i] == '_'); i++)
        digits++;
    if (digits == 0 || i == s.len)
        return false;
    if (digits == 4 && s.s[i] == '-')
        return i + 1 < s.len && is_digit(s.s[i + 1]);
    if (s.s[i] != ':')
        return false;
    for (; i < s.len; i++)
        if (!is_digit(s.s[i]) && !strchr(":._", s.s[i]))
            return false;
    return true;
}

/* Any text of digits, underscores, signs, points and exponents: more than numbers, never less. */
static bool looks_number(struct str s)
{
    size_t i = 0;

    if (i < s.len && (s.s[i] == '-' || s.s[i] == '+'))
        i++;
    if (i < s.len && s.s[i] == '.')
        i++;
    if (i == s.len || !is_digit(s.s[i]))
        return i > 0 && i < s.len && s.s[i] == '_';
    if (s.s[i] == '0' && i + 1 < s.len && strchr("xXoObB", s.s[i + 1])) {
        for (i += 2; i < s.len; i++)
            if (s.s[i] != '_' && digit_value(s.s[i]) > 15)
                return false;
        return true;
    }
    for (; i < s.len; i++)
        if (!is_digit(s.s[i]) && !strchr("_.eE+-", s.s[i]))
            return false;
    return true;
}

bool yaml_needs_quotes(struct str text)
{
    enum word word;

    return find_word(text, &word) || str_is(text, "=") || str_is(text, "<<") || looks_number(text) ||
           looks_time(text);
}
