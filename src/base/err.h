/* err - why something failed: a code to act on and a sentence to read.
 *
 * What can fail returns 0 or -1 and takes `struct err *err` last. err_set, err_errno and err_prefix
 * fill it and return -1; a NULL err is fine. The sentence has no trailing newline or full stop. */
#pragma once

#define ERR_MSG_MAX 1024

enum err_code {
    ERR_NONE,
    ERR_INVALID,         /* the input is not what it should be */
    ERR_UNAUTHENTICATED, /* who is asking is not known */
    ERR_FORBIDDEN,       /* known, but not allowed */
    ERR_NOT_FOUND,
    ERR_EXISTS,      /* there is one of that name already */
    ERR_CONFLICT,    /* it has changed meanwhile, or the state does not allow this */
    ERR_GONE,        /* too old to be had any more */
    ERR_LIMIT,       /* a named limit is reached */
    ERR_UNSUPPORTED, /* understood, but not offered */
    ERR_TIMEOUT,
    ERR_UNAVAILABLE, /* try again later */
    ERR_SYSTEM,      /* the operating system said no; `sys` has its errno */
    ERR_INTERNAL,    /* our own mistake */
};

struct err {
    enum err_code code;
    int sys; /* errno of ERR_SYSTEM */
    char msg[ERR_MSG_MAX];
};

int err_set(struct err *err, enum err_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* "fmt: strerror(sys)", code ERR_SYSTEM (ERR_NOT_FOUND for ENOENT, ERR_FORBIDDEN for EACCES and EPERM,
 * ERR_EXISTS for EEXIST). */
int err_errno(struct err *err, int sys, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Puts "fmt: " before the sentence that is there. */
int err_prefix(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Lets compilers and analyzers see that these always return -1. */
static inline int err_minus_one_(void)
{
    return -1;
}
#define err_set(...)    (err_set(__VA_ARGS__), err_minus_one_())
#define err_errno(...)  (err_errno(__VA_ARGS__), err_minus_one_())
#define err_prefix(...) (err_prefix(__VA_ARGS__), err_minus_one_())
