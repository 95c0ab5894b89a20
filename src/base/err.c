/* err.c - fills struct err. Sentences that do not fit are cut at a character border. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Removes an incomplete UTF-8 sequence from the end of a sentence that was cut. */
static void cut_clean(char *msg, size_t len)
{
    size_t i = len;

    while (i > 0 && len - i < 3 && ((unsigned char)msg[i - 1] & 0xc0) == 0x80)
        i--;
    if (i > 0 && ((unsigned char)msg[i - 1] & 0xc0) == 0xc0)
        msg[i - 1] = '\0';
}

static void __attribute__((format(printf, 3, 0))) format(char *msg, size_t size, const char *fmt, va_list ap)
{
    int n = vsnprintf(msg, size, fmt, ap);

    if (n < 0)
        msg[0] = '\0';
    else if ((size_t)n >= size)
        cut_clean(msg, size - 1);
}

static void __attribute__((format(printf, 3, 4))) append(char *msg, size_t size, const char *fmt, ...)
{
    size_t len = strlen(msg);
    va_list ap;

    va_start(ap, fmt);
    format(msg + len, size - len, fmt, ap);
    va_end(ap);
}

int(err_set)(struct err *err, enum err_code code, const char *fmt, ...)
{
    char msg[ERR_MSG_MAX]; /* the arguments may point into err->msg */
    va_list ap;

    if (!err)
        return -1;
    va_start(ap, fmt);
    format(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    err->code = code;
    err->sys = 0;
    memcpy(err->msg, msg, strlen(msg) + 1);
    return -1;
}

static enum err_code code_of(int sys)
{
    switch (sys) {
    case ENOENT:
        return ERR_NOT_FOUND;
    case EACCES:
    case EPERM:
        return ERR_FORBIDDEN;
    case EEXIST:
        return ERR_EXISTS;
    default:
        return ERR_SYSTEM;
    }
}

int(err_errno)(struct err *err, int sys, const char *fmt, ...)
{
    char msg[ERR_MSG_MAX], text[128];
    va_list ap;

    if (!err)
        return -1;
    va_start(ap, fmt);
    format(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    append(msg, sizeof(msg), ": %s", strerror_r(sys, text, sizeof(text)));
    err->code = code_of(sys);
    err->sys = sys;
    memcpy(err->msg, msg, strlen(msg) + 1);
    return -1;
}

int(err_prefix)(struct err *err, const char *fmt, ...)
{
    char msg[ERR_MSG_MAX];
    va_list ap;

    if (!err)
        return -1;
    va_start(ap, fmt);
    format(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    append(msg, sizeof(msg), ": %s", err->msg);
    memcpy(err->msg, msg, strlen(msg) + 1);
    return -1;
}
