/* How it works: the failure_* functions fill in the pieces of a Status; the field_* functions collect
 * causes {reason, message, field}, whose messages leave the path out, and field_errors_finish makes the
 * sentence of them. A message that repeats is said once, as Kubernetes' aggregates do. */
#include "objects/failure.h"

#include <ctype.h>

static char *arena_vprintf(struct arena *arena, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));
static char *arena_vprintf(struct arena *arena, const char *fmt, va_list ap)
{
    CLEANUP(buf_done) struct buf text = {0};

    buf_vprintf(&text, fmt, ap);
    return arena_strndup(arena, text.data ? text.data : "", text.len);
}

int(failure_set)(struct failure *failure, struct arena *arena, int code, const char *reason, const char *fmt,
                 ...)
{
    va_list ap;

    va_start(ap, fmt);
    *failure = (struct failure){.code = code, .reason = reason, .message = arena_vprintf(arena, fmt, ap)};
    va_end(ap);
    return -1;
}

int(failure_generic)(struct failure *failure, struct arena *arena, int code, const char *reason,
                     const char *message)
{
    failure_set(failure, arena, code, reason, "%s", message);
    failure->bare_details = true;
    return -1;
}

int(failure_bad_request)(struct failure *failure, struct arena *arena, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    *failure =
        (struct failure){.code = 400, .reason = "BadRequest", .message = arena_vprintf(arena, fmt, ap)};
    va_end(ap);
    return -1;
}

static const struct {
    int code;
    const char *reason;
} statuses[] = {
    [ERR_NONE] = {500, "InternalError"},
    [ERR_INVALID] = {400, "BadRequest"},
    [ERR_UNAUTHENTICATED] = {401, "Unauthorized"},
    [ERR_FORBIDDEN] = {403, "Forbidden"},
    [ERR_NOT_FOUND] = {404, "NotFound"},
    [ERR_EXISTS] = {409, "AlreadyExists"},
    [ERR_CONFLICT] = {409, "Conflict"},
    [ERR_GONE] = {410, "Expired"},
    [ERR_LIMIT] = {413, "RequestEntityTooLarge"},
    [ERR_UNSUPPORTED] = {405, "MethodNotAllowed"},
    [ERR_TIMEOUT] = {504, "Timeout"},
    [ERR_UNAVAILABLE] = {503, "ServiceUnavailable"},
    [ERR_SYSTEM] = {500, "InternalError"},
    [ERR_INTERNAL] = {500, "InternalError"},
};

static void add_cause(struct json **causes, struct arena *arena, const char *reason, const char *message,
                      const char *field)
{
    struct json *cause;

    if (!*causes)
        *causes = json_new_array(arena);
    cause = json_push_object(arena, *causes);
    if (reason)
        json_set_string(arena, cause, "reason", reason);
    json_set_string(arena, cause, "message", message);
    if (field)
        json_set_string(arena, cause, "field", field);
}

int failure_from_err(struct failure *failure, struct arena *arena, const struct err *err)
{
    enum err_code code = (size_t)err->code < ARRAY_LEN(statuses) ? err->code : ERR_INTERNAL;

    if (statuses[code].code != 500)
        return failure_set(failure, arena, statuses[code].code, statuses[code].reason, "%s", err->msg);
    failure_set(failure, arena, 500, "InternalError", "Internal error occurred: %s", err->msg);
    add_cause(&failure->causes, arena, NULL, err->msg, NULL);
    return -1;
}

/* "pods", "jobs.batch" */
static const char *resource(struct arena *arena, const char *group, const char *plural)
{
    return group && *group ? arena_printf(arena, "%s.%s", plural, group) : plural;
}

static int with_details(struct failure *failure, struct arena *arena, const char *group, const char *kind,
                        const char *name)
{
    failure->group = group && *group ? arena_strdup(arena, group) : NULL;
    failure->kind = kind && *kind ? arena_strdup(arena, kind) : NULL;
    failure->name = name && *name ? arena_strdup(arena, name) : NULL;
    return -1;
}

int failure_not_found(struct failure *failure, struct arena *arena, const char *group, const char *plural,
                      const char *name)
{
    failure_set(failure, arena, 404, "NotFound", "%s \"%s\" not found", resource(arena, group, plural), name);
    return with_details(failure, arena, group, plural, name);
}

int failure_exists(struct failure *failure, struct arena *arena, const char *group, const char *plural,
                   const char *name)
{
    failure_set(failure, arena, 409, "AlreadyExists", "%s \"%s\" already exists",
                resource(arena, group, plural), name);
    return with_details(failure, arena, group, plural, name);
}

int failure_conflict(struct failure *failure, struct arena *arena, const char *group, const char *plural,
                     const char *name, const char *why)
{
    failure_set(failure, arena, 409, "Conflict", "Operation cannot be fulfilled on %s \"%s\": %s",
                resource(arena, group, plural), name, why);
    return with_details(failure, arena, group, plural, name);
}

int failure_forbidden(struct failure *failure, struct arena *arena, const char *group, const char *plural,
                      const char *name, const char *why)
{
    const char *what = resource(arena, group, plural);

    if (!what || !*what)
        failure_set(failure, arena, 403, "Forbidden", "forbidden: %s", why);
    else if (!name || !*name)
        failure_set(failure, arena, 403, "Forbidden", "%s is forbidden: %s", what, why);
    else
        failure_set(failure, arena, 403, "Forbidden", "%s \"%s\" is forbidden: %s", what, name, why);
    return with_details(failure, arena, group, plural, name);
}

void failure_concerns(struct failure *failure, struct arena *arena, const char *group, const char *kind,
                      const char *name)
{
    if (failure->code == 422 && !failure->kind && !failure->name && !failure->bare_details)
        with_details(failure, arena, group, kind, name);
}

/* The cause that a sentence is. kubectl puts the field before it, so there is one wherever there is an
 * object. */
static struct json *cause_of_message(const struct failure *failure, struct arena *arena)
{
    static const char path[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.[]";
    const char *message = failure->message ? failure->message : "", *field = failure->kind ? "spec" : NULL;
    size_t len = strspn(message, path);
    struct json *causes = NULL;

    if (len && starts_with(message + len, ": ")) {
        field = arena_strndup(arena, message, len);
        message += len + strlen(": ");
    }
    add_cause(&causes, arena, "FieldValueInvalid", message, field);
    return causes;
}

struct json *failure_to_json(const struct failure *failure, struct arena *arena)
{
    struct json *status = json_new_object(arena), *details, *causes = failure->causes;

    json_set_string(arena, status, "kind", "Status");
    json_set_string(arena, status, "apiVersion", "v1");
    json_set_object(arena, status, "metadata");
    json_set_string(arena, status, "status", "Failure");
    json_set_string(arena, status, "message", failure->message ? failure->message : "");
    if (failure->reason && *failure->reason)
        json_set_string(arena, status, "reason", failure->reason);
    details = json_new_object(arena);
    if (failure->name)
        json_set_string(arena, details, "name", failure->name);
    if (failure->group)
        json_set_string(arena, details, "group", failure->group);
    if (failure->kind)
        json_set_string(arena, details, "kind", failure->kind);
    if (failure->uid)
        json_set_string(arena, details, "uid", failure->uid);
    if (failure->code == 422 && !json_len(causes) && !failure->bare_details)
        causes = cause_of_message(failure, arena);
    if (json_len(causes))
        json_set(arena, details, "causes", *causes);
    if (failure->retry_after)
        json_set_int(arena, details, "retryAfterSeconds", failure->retry_after);
    if (details->len || failure->bare_details)
        json_set(arena, status, "details", *details);
    json_set_int(arena, status, "code", failure->code);
    return status;
}

/* The way Go's %q writes it. Characters above ASCII stand for themselves. */
static void quote(struct buf *out, struct str s)
{
    static const char escaped[] = "\aa\bb\tt\nn\vv\ff\rr\"\"\\\\";

    buf_putc(out, '"');
    for (const char *p = s.s, *end = s.s + s.len; p < end; p++) {
        const char *e = *p ? strchr(escaped, *p) : NULL;

        if (e && (e - escaped) % 2 == 0)
            buf_printf(out, "\\%c", e[1]);
        else if ((unsigned char)*p < ' ' || *p == '\x7f')
            buf_printf(out, "\\x%02x", (unsigned char)*p);
        else
            buf_putc(out, *p);
    }
    buf_putc(out, '"');
}

static void add_value(struct buf *out, const struct json *value)
{
    if (!value || value->type == JSON_NULL)
        buf_puts(out, "\"null\"");
    else if (value->type == JSON_STRING)
        quote(out, json_str(value));
    else
        json_write(out, value);
}

/* Counts one more; false when there are enough already, and nothing is to be made of this one. */
static bool count_error(struct field_errors *errors)
{
    return errors->count++ < FIELD_ERRORS_MAX;
}

/* No more than FIELD_TEXT_MAX bytes, whole characters; what is cut off is marked. */
static const char *clip(struct arena *arena, struct str text)
{
    if (text.len <= FIELD_TEXT_MAX)
        return arena_strndup(arena, text.s, text.len);
    text.len = utf8_valid_len((struct str){text.s, FIELD_TEXT_MAX});
    return arena_printf(arena, "%.*s...", STR_ARG(text));
}

/* "Invalid value: VALUE: detail"; value and detail are left out where NULL or empty. */
static void add_error(struct field_errors *errors, const char *path, const char *reason, const char *type,
                      const char *value, const char *detail)
{
    bool has_detail = detail && *detail;

    add_cause(&errors->causes, errors->arena, reason,
              arena_printf(errors->arena, "%s%s%s%s%s", type, value ? ": " : "", value ? value : "",
                           has_detail ? ": " : "", has_detail ? detail : ""),
              clip(errors->arena, str_from(path)));
}

static const char *value_text(struct arena *arena, const struct json *value)
{
    CLEANUP(buf_done) struct buf text = {0};

    add_value(&text, value);
    return clip(arena, buf_view(&text));
}

static const char *detail_text(struct arena *arena, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));
static const char *detail_text(struct arena *arena, const char *fmt, va_list ap)
{
    CLEANUP(buf_done) struct buf text = {0};

    buf_vprintf(&text, fmt, ap);
    return clip(arena, buf_view(&text));
}

void field_message(struct field_errors *errors, const char *path, const char *reason, const char *fmt, ...)
{
    va_list ap;

    if (!count_error(errors))
        return;
    va_start(ap, fmt);
    add_cause(&errors->causes, errors->arena, reason, detail_text(errors->arena, fmt, ap),
              clip(errors->arena, str_from(path)));
    va_end(ap);
}

void field_invalid(struct field_errors *errors, const char *path, const struct json *value, const char *fmt,
                   ...)
{
    va_list ap;

    if (!count_error(errors))
        return;
    va_start(ap, fmt);
    add_error(errors, path, "FieldValueInvalid", "Invalid value", value_text(errors->arena, value),
              detail_text(errors->arena, fmt, ap));
    va_end(ap);
}

void field_required(struct field_errors *errors, const char *path, const char *fmt, ...)
{
    va_list ap;

    if (!count_error(errors))
        return;
    va_start(ap, fmt);
    add_error(errors, path, "FieldValueRequired", "Required value", NULL,
              detail_text(errors->arena, fmt, ap));
    va_end(ap);
}

void field_forbidden(struct field_errors *errors, const char *path, const char *fmt, ...)
{
    va_list ap;

    if (!count_error(errors))
        return;
    va_start(ap, fmt);
    add_error(errors, path, "FieldValueForbidden", "Forbidden", NULL, detail_text(errors->arena, fmt, ap));
    va_end(ap);
}

void field_duplicate(struct field_errors *errors, const char *path, const struct json *value)
{
    if (count_error(errors))
        add_error(errors, path, "FieldValueDuplicate", "Duplicate value", value_text(errors->arena, value),
                  NULL);
}

void field_not_found(struct field_errors *errors, const char *path, const struct json *value)
{
    if (count_error(errors))
        add_error(errors, path, "FieldValueNotFound", "Not found", value_text(errors->arena, value), NULL);
}

void field_unsupported(struct field_errors *errors, const char *path, const struct json *value,
                       const char *const *choices)
{
    CLEANUP(buf_done) struct buf detail = {0};

    if (!count_error(errors))
        return;
    for (const char *const *choice = choices; choice && *choice; choice++) {
        buf_puts(&detail, choice == choices ? "supported values: " : ", ");
        quote(&detail, str_from(*choice));
    }
    add_error(errors, path, "FieldValueNotSupported", "Unsupported value", value_text(errors->arena, value),
              detail.data);
}

void field_too_long(struct field_errors *errors, const char *path, int max)
{
    if (count_error(errors))
        add_error(errors, path, "FieldValueTooLong", "Too long", NULL,
                  arena_printf(errors->arena, "may not be more than %d bytes", max));
}

void field_too_many(struct field_errors *errors, const char *path, int actual, int max)
{
    if (count_error(errors))
        add_error(errors, path, "FieldValueTooMany", "Too many", arena_printf(errors->arena, "%d", actual),
                  arena_printf(errors->arena, "must have at most %d items", max));
}

int field_errors_finish(const struct field_errors *errors, struct failure *failure, const char *group,
                        const char *kind, const char *name)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct arena *arena = errors->arena;
    struct json *said;
    size_t count = 0;

    if (!json_len(errors->causes))
        return 0;
    said = json_new_object(arena);
    JSON_EACH(errors->causes, cause) {
        const char *line =
            arena_printf(arena, "%s: %s", json_get_string(cause, "field"), json_get_string(cause, "message"));

        if (json_get(said, line))
            continue;
        json_set(arena, said, line, json_of_bool(true));
        if (count++)
            buf_puts(&text, ", ");
        buf_puts(&text, line);
    }
    if (errors->count > FIELD_ERRORS_MAX)
        buf_printf(&text, ", and %zu more", errors->count - FIELD_ERRORS_MAX);
    failure_set(failure, arena, 422, "Invalid", "%s \"%s\" is invalid: %s%s%s", resource(arena, group, kind),
                name ? name : "", count > 1 ? "[" : "", text.data, count > 1 ? "]" : "");
    with_details(failure, arena, group, kind, name);
    failure->causes = errors->causes;
    return -1;
}
