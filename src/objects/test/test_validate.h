/* What the tests of checks share: a document goes through defaults, prepare and checks as a request does, and
 * what is wrong with it comes out as lines "field: message". Documents are JSON with ' for ". */
#pragma once

#include "base/clock.h"
#include "objects/kind.h"

/* cmocka.h wants the others before it */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
/* clang-format on */

#define TEST_UID "11111111-2222-4333-8444-555555555555"

static inline struct json *parse_quoted(struct arena *arena, const char *text)
{
    char *copy = arena_strdup(arena, text);
    struct err err = {0};
    struct json *doc;

    for (char *c = copy; *c; c++)
        if (*c == '\'')
            *c = '"';
    if (json_parse(str_from(copy), arena, &doc, NULL, &err) < 0)
        fail_msg("%s in %s", err.msg, copy);
    return doc;
}

/* The document as it would be stored; old NULL: created. */
static inline struct json *make_ready(struct arena *arena, const struct kind *kind, const char *text,
                                      const struct json *old)
{
    const struct rule_ctx ctx = {.arena = arena, .now = INT64_C(1772366400) * NSEC_PER_SEC, .name = ""};
    struct json *doc = parse_quoted(arena, text), *meta = json_need_object(arena, doc, "metadata");

    json_set_string(arena, meta, "uid", TEST_UID);
    if (kind->namespaced && !json_get(meta, "namespace"))
        json_set_string(arena, meta, "namespace", "team");
    if (kind->defaults)
        kind->defaults(&ctx, doc);
    kind_prepare(kind, &ctx, doc, old);
    return doc;
}

/* Lines "field: message", each once. */
static inline const char *errors_of(struct arena *arena, const struct kind *kind, const struct json *doc,
                                    const struct json *old)
{
    const struct rule_ctx ctx = {.arena = arena, .now = INT64_C(1772366400) * NSEC_PER_SEC, .name = ""};
    struct field_errors errors = {.arena = arena};
    struct json *said = json_new_object(arena);
    CLEANUP(buf_done) struct buf text = {0};

    object_check_metadata(kind, &ctx, doc, old, &errors);
    if (kind->validate)
        kind->validate(&ctx, doc, old, &errors);
    JSON_EACH(errors.causes, cause) {
        const char *line = arena_printf(arena, "%s: %s\n", json_get_string(cause, "field"),
                                        json_get_string(cause, "message"));

        if (!json_get(said, line))
            buf_puts(&text, line);
        json_set_bool(arena, said, line, true);
    }
    return arena_strdup(arena, text.data ? text.data : "");
}

struct create_case {
    int kind;
    const char *doc;
    const char *errors; /* "": it is accepted */
};

static inline void check_creates(const struct create_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        CLEANUP(arena_done) struct arena arena = {0};
        const struct kind *kind = kind_by_id(cases[i].kind);
        const char *errors = errors_of(&arena, kind, make_ready(&arena, kind, cases[i].doc, NULL), NULL);

        if (!streq(errors, cases[i].errors))
            fail_msg("%s\n-- gives --\n%s-- not --\n%s", cases[i].doc, errors, cases[i].errors);
    }
}

/* An object is created from `before` and then replaced by it with merge-patch `change` applied. */
struct update_case {
    int kind;
    const char *before, *change;
    const char *errors;
};

static inline void merge(struct arena *arena, struct json *doc, const struct json *change)
{
    JSON_EACH_MEMBER(change, member) {
        struct json *there = json_get(doc, member->key);

        if (member->value.type == JSON_NULL)
            json_remove(doc, member->key);
        else if (member->value.type == JSON_OBJECT && json_is(there, JSON_OBJECT))
            merge(arena, there, &member->value);
        else
            json_set(arena, doc, member->key, member->value);
    }
}

static inline void check_updates(const struct update_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        CLEANUP(arena_done) struct arena arena = {0};
        const struct rule_ctx ctx = {.arena = &arena, .now = INT64_C(1772366400) * NSEC_PER_SEC, .name = ""};
        const struct kind *kind = kind_by_id(cases[i].kind);
        struct json *old = make_ready(&arena, kind, cases[i].before, NULL);
        struct json *doc = json_copy(&arena, old);
        const char *errors;

        merge(&arena, doc, parse_quoted(&arena, cases[i].change));
        if (kind->defaults)
            kind->defaults(&ctx, doc);
        kind_prepare(kind, &ctx, doc, old);
        errors = errors_of(&arena, kind, doc, old);
        if (!streq(errors, cases[i].errors))
            fail_msg("%s\n-- changed by --\n%s\n-- gives --\n%s-- not --\n%s", cases[i].before,
                     cases[i].change, errors, cases[i].errors);
    }
}
