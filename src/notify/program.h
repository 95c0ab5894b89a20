/* program - runs a program for a delivery: input on its stdin, a time limit, its exit status and the last
 * line it wrote. All that may block (looking up an account, the program itself) is in a thread of its own.
 *
 * As a user of this machine it has that user's uid, groups, home and nothing of the daemon's environment, and
 * the limits below. It is never root's. */
#pragma once

#include "base/str.h"
#include "loop/loop.h"

#define PROGRAM_TIMEOUT_SEC 30            /* then it and what it started are killed */
#define PROGRAM_CPU_SEC     10            /* of a user's program */
#define PROGRAM_MEMORY      (4ULL << 30)  /* address space of a user's program, in bytes */
#define PROGRAM_FILE        (64ULL << 20) /* largest file a user's program can write, in bytes */
#define PROGRAM_FILES       256
#define PROGRAM_WHY_MAX     160
#define PROGRAM_ARGS_MAX    8

struct program_spec {
    const char *user;        /* a user of this machine; NULL: as the daemon is */
    const char *const *argv; /* argv[0] is a path; NULL-terminated, at most PROGRAM_ARGS_MAX */
    const char *const *env;  /* "NAME=VALUE" beside PATH, HOME, USER, LOGNAME; NULL-terminated, or NULL */
    struct str input;
    int64_t timeout_sec; /* 0: PROGRAM_TIMEOUT_SEC */
};

struct program_end {
    bool started;              /* false: `why` says why not, and that will not change by itself */
    int status;                /* exit status; -1: a signal or the time limit ended it */
    char why[PROGRAM_WHY_MAX]; /* a sentence for people: how it ended, with its last line */
};
typedef void (*program_fn)(void *arg, const struct program_end *end);

struct program;
/* spec is copied. fn is called once, from the loop, never from inside. */
struct program *program_start(struct loop *loop, const struct program_spec *spec, program_fn fn, void *arg);
/* Kills it; fn is not called any more. Waits for nothing. */
void program_cancel(struct program *program);
