/* fail.c */
#include "image/work/fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#undef fail_set
int fail_set(struct fail *fail, enum image_fail kind, const char *fmt, ...)
{
    char text[ERR_MSG_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    fail->kind = kind;
    return err_set(&fail->err, ERR_UNAVAILABLE, "%s", text);
}

enum image_fail fail_kind(const struct fail *fail)
{
    if (fail->kind != IMAGE_FAIL_NONE)
        return fail->kind;
    switch (fail->err.code) {
    case ERR_INVALID:
        return IMAGE_FAIL_INVALID;
    case ERR_UNSUPPORTED:
        return IMAGE_FAIL_PLATFORM;
    case ERR_LIMIT:
        return IMAGE_FAIL_LIMIT;
    default:
        return fail->err.sys == ENOSPC || fail->err.sys == EDQUOT ? IMAGE_FAIL_NO_SPACE : IMAGE_FAIL_OTHER;
    }
}
