/* buf - bytes that grow. Zero-initialised is empty; buf_done releases. data is NUL-terminated after
 * every call that adds, so it can be read as a C string; len does not count that NUL. */
#pragma once

#include "base/cleanup.h"
#include "base/str.h"

#include <stdarg.h>

struct buf {
    char *data;
    size_t len, cap;
};

void buf_done(struct buf *buf); /* leaves an empty, usable buf */
static inline void buf_done_cleanup_(struct buf *buf)
{
    buf_done(buf);
}

/* Room for `more` bytes at data + len; the caller writes them and adds to len. */
char *buf_reserve(struct buf *buf, size_t more);
void buf_add(struct buf *buf, const void *data, size_t len);
void buf_str(struct buf *buf, struct str s);
void buf_puts(struct buf *buf, const char *s);
void buf_putc(struct buf *buf, char c);
void buf_int(struct buf *buf, int64_t n);
void buf_printf(struct buf *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *buf, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
void buf_clear(struct buf *buf);            /* empty, keeps the memory */
void buf_drop(struct buf *buf, size_t len); /* removes len bytes from the front */
char *buf_take(struct buf *buf);            /* the bytes as a heap string (never NULL); buf is empty then */
static inline struct str buf_view(const struct buf *buf)
{
    return (struct str){buf->data ? buf->data : "", buf->len};
}

void buf_base64(struct buf *buf, struct str raw);
/* ERR-less: false when text is no base64 (standard alphabet, padded; line breaks are skipped). */
bool buf_base64_decode(struct buf *buf, struct str text);
void buf_url_encode(struct buf *buf, struct str raw);             /* all but unreserved characters */
bool buf_url_decode(struct buf *buf, struct str text, bool plus); /* false: bad %-escape or %00 */
