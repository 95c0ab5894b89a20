/* buf.c - growing bytes. Capacity doubles; one byte beyond len always holds the closing NUL. */
#include "base/buf.h"

#include "base/mem.h"

#include <stdio.h>

#define BUF_FIRST 64

void buf_done(struct buf *buf)
{
    free(buf->data);
    *buf = (struct buf){0};
}

static void __attribute__((noinline)) grow(struct buf *buf, size_t more)
{
    size_t need, cap = buf->cap ? buf->cap : BUF_FIRST;

    if (__builtin_add_overflow(buf->len, more, &need) || need >= SIZE_MAX / 2)
        abort();
    while (cap <= need)
        cap *= 2;
    buf->data = mem_realloc(buf->data, cap);
    buf->cap = cap;
}

char *buf_reserve(struct buf *buf, size_t more)
{
    if (buf->cap - buf->len <= more)
        grow(buf, more);
    return buf->data + buf->len;
}

void buf_add(struct buf *buf, const void *data, size_t len)
{
    char *at = buf_reserve(buf, len);

    if (len)
        memcpy(at, data, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void buf_str(struct buf *buf, struct str s)
{
    buf_add(buf, s.s, s.len);
}

void buf_puts(struct buf *buf, const char *s)
{
    buf_add(buf, s, strlen(s));
}

void buf_putc(struct buf *buf, char c)
{
    char *at = buf_reserve(buf, 1);

    at[0] = c;
    at[1] = '\0';
    buf->len++;
}

void buf_int(struct buf *buf, int64_t n)
{
    uint64_t u = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    char digits[24], *at = digits + sizeof(digits);

    do {
        *--at = (char)('0' + u % 10);
        u /= 10;
    } while (u);
    if (n < 0)
        *--at = '-';
    buf_add(buf, at, (size_t)(digits + sizeof(digits) - at));
}

void buf_vprintf(struct buf *buf, const char *fmt, va_list ap)
{
    size_t room = buf->cap > buf->len ? buf->cap - buf->len : 0;
    va_list again;
    int n;

    va_copy(again, ap);
    n = vsnprintf(room ? buf->data + buf->len : NULL, room, fmt, ap);
    if (n < 0)
        abort(); /* a format mistake of ours */
    if ((size_t)n >= room)
        vsnprintf(buf_reserve(buf, (size_t)n), (size_t)n + 1, fmt, again);
    va_end(again);
    buf->len += (size_t)n;
}

void buf_printf(struct buf *buf, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    buf_vprintf(buf, fmt, ap);
    va_end(ap);
}

void buf_clear(struct buf *buf)
{
    buf->len = 0;
    if (buf->data)
        buf->data[0] = '\0';
}

void buf_drop(struct buf *buf, size_t len)
{
    if (len >= buf->len) {
        buf_clear(buf);
        return;
    }
    memmove(buf->data, buf->data + len, buf->len - len);
    buf->len -= len;
    buf->data[buf->len] = '\0';
}

char *buf_take(struct buf *buf)
{
    char *data = buf->data ? buf->data : mem_strndup("", 0);

    *buf = (struct buf){0};
    return data;
}

void buf_base64(struct buf *buf, struct str raw)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = (const unsigned char *)raw.s;
    char *at = buf_reserve(buf, (raw.len + 2) / 3 * 4);
    size_t left = raw.len;

    for (; left >= 3; left -= 3, p += 3) {
        uint32_t n = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];

        *at++ = digits[n >> 18];
        *at++ = digits[n >> 12 & 63];
        *at++ = digits[n >> 6 & 63];
        *at++ = digits[n & 63];
    }
    if (left) {
        uint32_t n = (uint32_t)p[0] << 16 | (left == 2 ? (uint32_t)p[1] << 8 : 0);

        *at++ = digits[n >> 18];
        *at++ = digits[n >> 12 & 63];
        *at++ = left == 2 ? digits[n >> 6 & 63] : '=';
        *at++ = '=';
    }
    *at = '\0';
    buf->len = (size_t)(at - buf->data);
}

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Strict: padding only at the end and only as much as needed, unused bits zero. */
bool buf_base64_decode(struct buf *buf, struct str text)
{
    size_t start = buf->len, chars = 0, pads = 0;
    uint32_t bits = 0;
    char *at = buf_reserve(buf, text.len / 4 * 3 + 3);

    for (size_t i = 0; i < text.len; i++) {
        int digit = base64_digit(text.s[i]);

        if (text.s[i] == '\n' || text.s[i] == '\r')
            continue;
        if (text.s[i] == '=')
            pads++;
        else if (digit < 0 || pads)
            goto bad;
        bits = bits << 6 | (digit < 0 ? 0 : (uint32_t)digit);
        if (++chars % 4 == 0) {
            if (pads > 2 || (pads == 1 && (bits & 0xff)) || (pads == 2 && (bits & 0xffff)))
                goto bad;
            *at++ = (char)(bits >> 16);
            if (pads < 2)
                *at++ = (char)(bits >> 8);
            if (pads < 1)
                *at++ = (char)bits;
            bits = 0;
        }
    }
    if (chars % 4 || pads > 2)
        goto bad;
    buf->len = (size_t)(at - buf->data);
    buf->data[buf->len] = '\0';
    return true;
bad:
    buf->len = start;
    buf->data[start] = '\0';
    return false;
}

static bool unreserved(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void buf_url_encode(struct buf *buf, struct str raw)
{
    static const char hex[] = "0123456789ABCDEF";
    char *at = buf_reserve(buf, raw.len * 3);

    for (size_t i = 0; i < raw.len; i++) {
        unsigned char c = (unsigned char)raw.s[i];

        if (unreserved(c)) {
            *at++ = (char)c;
            continue;
        }
        *at++ = '%';
        *at++ = hex[c >> 4];
        *at++ = hex[c & 15];
    }
    *at = '\0';
    buf->len = (size_t)(at - buf->data);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool buf_url_decode(struct buf *buf, struct str text, bool plus)
{
    size_t start = buf->len;
    char *at = buf_reserve(buf, text.len);

    for (size_t i = 0; i < text.len; i++) {
        int high, low;

        if (text.s[i] != '%') {
            *at++ = plus && text.s[i] == '+' ? ' ' : text.s[i];
            continue;
        }
        high = i + 1 < text.len ? hex_digit(text.s[i + 1]) : -1;
        low = i + 2 < text.len ? hex_digit(text.s[i + 2]) : -1;
        if (high < 0 || low < 0 || (high | low) == 0) {
            buf->data[start] = '\0';
            return false;
        }
        *at++ = (char)(high << 4 | low);
        i += 2;
    }
    *at = '\0';
    buf->len = (size_t)(at - buf->data);
    return true;
}
