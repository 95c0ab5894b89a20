/* yaml_quoted.c - decodes the inside of quoted scalars. libfyaml 0.7.12 finds where they end, but garbles
 * some: single-quoted text with two escaped quotes in a row ('a''''b', with a leak of memory from six on),
 * double-quoted text with an escaped backslash before an escaped line break. Line ends are LF here. */
#include "base/yaml_scalar.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Skips blanks and line breaks; counts the breaks. */
static size_t skip_breaks(struct str raw, size_t at, size_t *breaks)
{
    for (; at < raw.len && (is_blank(raw.s[at]) || raw.s[at] == '\n'); at++)
        *breaks += raw.s[at] == '\n';
    return at;
}

/* Line breaks at `at`: one is a space, n are n - 1 newlines. Blanks around them go, but not what stands
 * before `keep`, which was written with an escape. */
static size_t fold(struct buf *out, size_t keep, struct str raw, size_t at)
{
    size_t breaks = 0;

    while (out->len > keep && is_blank(out->data[out->len - 1]))
        out->len--;
    at = skip_breaks(raw, at, &breaks);
    if (breaks == 1)
        buf_putc(out, ' ');
    for (size_t i = 1; i < breaks; i++)
        buf_putc(out, '\n');
    return at;
}

void yaml_single_quoted(struct str raw, struct buf *out)
{
    size_t start = out->len;

    for (size_t i = 0; i < raw.len;) {
        if (raw.s[i] == '\n') {
            i = fold(out, start, raw, i);
            continue;
        }
        buf_putc(out, raw.s[i]);
        i += raw.s[i] == '\'' ? 2 : 1;
    }
}

static void put_utf8(struct buf *out, uint32_t c)
{
    char text[4];
    size_t n = 0;

    if (c < 0x80) {
        text[n++] = (char)c;
    } else if (c < 0x800) {
        text[n++] = (char)(0xc0 | c >> 6);
    } else if (c < 0x10000) {
        text[n++] = (char)(0xe0 | c >> 12);
        text[n++] = (char)(0x80 | (c >> 6 & 63));
    } else {
        text[n++] = (char)(0xf0 | c >> 18);
        text[n++] = (char)(0x80 | (c >> 12 & 63));
        text[n++] = (char)(0x80 | (c >> 6 & 63));
    }
    if (c >= 0x80)
        text[n++] = (char)(0x80 | (c & 63));
    buf_add(out, text, n);
}

/* Exactly `digits` hexadecimal digits at `at`. */
static bool take_hex(struct str raw, size_t at, size_t digits, uint32_t *ret)
{
    uint32_t n = 0;

    if (at > raw.len || raw.len - at < digits)
        return false;
    for (size_t i = at; i < at + digits; i++) {
        int c = (unsigned char)raw.s[i] | 0x20;

        if (raw.s[i] >= '0' && raw.s[i] <= '9')
            n = n << 4 | (uint32_t)(raw.s[i] - '0');
        else if (c >= 'a' && c <= 'f')
            n = n << 4 | (uint32_t)(c - 'a' + 10);
        else
            return false;
    }
    *ret = n;
    return true;
}

/* \xXX, \uXXXX, \UXXXXXXXX at `at`, and pairs of \u surrogates as JSON has them. 0 when it is wrong. */
static size_t hex_escape(struct str raw, size_t at, struct buf *out)
{
    size_t digits = raw.s[at + 1] == 'x' ? 2 : raw.s[at + 1] == 'u' ? 4 : 8;
    size_t next = at + 2 + digits;
    uint32_t c, low;

    if (!take_hex(raw, at + 2, digits, &c))
        return 0;
    if (c >= 0xd800 && c < 0xdc00 && next + 1 < raw.len && raw.s[next] == '\\' && raw.s[next + 1] == 'u' &&
        take_hex(raw, next + 2, 4, &low) && low >= 0xdc00 && low < 0xe000) {
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        next += 6;
    }
    if ((c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
        return 0;
    put_utf8(out, c);
    return next;
}

/* The escape at `at`; returns what follows it, or 0 when it is wrong. */
static size_t escape(struct str raw, size_t at, struct buf *out)
{
    static const uint16_t plain[128] = {
        ['a'] = '\a',  ['b'] = '\b', ['t'] = '\t', ['\t'] = '\t',  ['n'] = '\n',   ['v'] = '\v',
        ['f'] = '\f',  ['r'] = '\r', ['e'] = 0x1b, [' '] = ' ',    ['"'] = '"',    ['/'] = '/',
        ['\\'] = '\\', ['N'] = 0x85, ['_'] = 0xa0, ['L'] = 0x2028, ['P'] = 0x2029,
    };
    size_t breaks = 0;
    unsigned char c;

    if (at + 1 >= raw.len)
        return 0;
    c = (unsigned char)raw.s[at + 1];
    if (c == 'x' || c == 'u' || c == 'U')
        return hex_escape(raw, at, out);
    if (c == '\n') { /* the first break goes, each further one stays */
        at = skip_breaks(raw, at + 1, &breaks);
        for (size_t i = 1; i < breaks; i++)
            buf_putc(out, '\n');
        return at;
    }
    if (c != '0' && (c >= 128 || !plain[c]))
        return 0;
    put_utf8(out, c == '0' ? 0 : plain[c]);
    return at + 2;
}

bool yaml_double_quoted(struct str raw, struct buf *out)
{
    size_t keep = out->len;

    for (size_t i = 0; i < raw.len;) {
        if (raw.s[i] == '\\') {
            i = escape(raw, i, out);
            if (i == 0)
                return false;
            keep = out->len;
        } else if (raw.s[i] == '\n') {
            i = fold(out, keep, raw, i);
        } else {
            buf_putc(out, raw.s[i++]);
        }
    }
    return true;
}
