/* failure - a refusal as Kubernetes words it: the Status object, and the field errors behind a 422. */
#pragma once

#include "base/json.h"

#include <stdarg.h>

struct failure_cause {
    const char *reason; /* "FieldValueInvalid" */
    const char *message;
    const char *field;
};

/* Zero-initialised is "no failure". Strings live in the arena given to the calls. */
struct failure {
    int code;           /* HTTP status; 0: none */
    const char *reason; /* "NotFound" */
    const char *message;
    const char *name, *group, *kind,
        *uid;            /* details; NULL: left out. kind is the plural, or the Kind in 422 */
    int retry_after;     /* seconds; 0: none */
    bool bare_details;   /* `details: {}` also when there is nothing to put there */
    struct json *causes; /* array of {reason, message, field}; NULL: none */
};

/* All return -1. */
int failure_set(struct failure *failure, struct arena *arena, int code, const char *reason, const char *fmt,
                ...) __attribute__((format(printf, 5, 6)));
int failure_from_err(struct failure *failure, struct arena *arena,
                     const struct err *err); /* one table: code → status, reason */
/* "pods \"x\" not found"; resource is "pods" or "jobs.batch" */
int failure_not_found(struct failure *failure, struct arena *arena, const char *group, const char *plural,
                      const char *name);
int failure_exists(struct failure *failure, struct arena *arena, const char *group, const char *plural,
                   const char *name);
int failure_conflict(struct failure *failure, struct arena *arena, const char *group, const char *plural,
                     const char *name, const char *why);
int failure_forbidden(struct failure *failure, struct arena *arena, const char *group, const char *plural,
                      const char *name, const char *why);
/* 404, 405, 406, 415 of the server itself, not of one kind: details are there and empty. */
int failure_generic(struct failure *failure, struct arena *arena, int code, const char *reason,
                    const char *message);
/* A 422 that says nothing of an object yet is about this one; every other failure stays as it is. */
void failure_concerns(struct failure *failure, struct arena *arena, const char *group, const char *kind,
                      const char *name);
int failure_bad_request(struct failure *failure, struct arena *arena, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Lets compilers and analyzers see that these always return -1. */
#define failure_set(...)         (failure_set(__VA_ARGS__), err_minus_one_())
#define failure_generic(...)     (failure_generic(__VA_ARGS__), err_minus_one_())
#define failure_bad_request(...) (failure_bad_request(__VA_ARGS__), err_minus_one_())

/* The Status object. A 422 always has a cause: kubectl before 1.24 prints nothing else of it. Without one, it
 * is made of the message: "name: missing" is the field `name` and "missing". */
struct json *failure_to_json(const struct failure *failure, struct arena *arena);

/* Field errors of one object, collected and then made one 422:
 *   Pod "x" is invalid: spec.y: Invalid value: "v": detail
 *   Pod "x" is invalid: [spec.a: Required value, spec.b: Forbidden: detail]
 * Values are printed as Kubernetes does (strings quoted, numbers bare, objects as compact JSON). */
#define FIELD_ERRORS_MAX 100       /* that are said; of others only how many there are */
#define FIELD_TEXT_MAX   (8 << 10) /* bytes of a field's path, of its value and of a message */

struct field_errors {
    struct arena *arena;
    struct json *causes; /* as in struct failure; NULL when there are none */
    size_t count;        /* of all, said or not */
};
void field_invalid(struct field_errors *errors, const char *path, const struct json *value, const char *fmt,
                   ...) __attribute__((format(printf, 4, 5)));
void field_required(struct field_errors *errors, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 3, 4))); /* fmt may be "" */
void field_forbidden(struct field_errors *errors, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void field_duplicate(struct field_errors *errors, const char *path, const struct json *value);
void field_not_found(struct field_errors *errors, const char *path, const struct json *value);
/* `Unsupported value: "x": supported values: "a", "b"`; choices is NULL-terminated */
void field_unsupported(struct field_errors *errors, const char *path, const struct json *value,
                       const char *const *choices);
void field_too_long(struct field_errors *errors, const char *path, int max);
void field_too_many(struct field_errors *errors, const char *path, int actual, int max);
/* A message of its own, where the functions above do not word it as Kubernetes does. */
void field_message(struct field_errors *errors, const char *path, const char *reason, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* 0 when there are none; else fills failure with the 422. */
int field_errors_finish(const struct field_errors *errors, struct failure *failure, const char *group,
                        const char *kind, const char *name);
