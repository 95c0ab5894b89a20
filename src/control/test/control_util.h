/* What the controllers' tests share: objects from YAML, effects as text. */
#pragma once

#include "base/clock.h"
#include "base/mem.h"
#include "base/vec.h"
#include "base/yaml.h"
#include "control/control.h"
#include "objects/object.h"

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h> /* needs the others before it */
/* clang-format on */

#define NOW_TEXT "2026-01-01T00:10:00Z"

static inline int64_t now_ns(void)
{
    int64_t t = 0;

    assert_true(clock_parse(str_from(NOW_TEXT), &t));
    return t;
}

struct bench {
    struct arena arena;
    struct effects effects;
    VEC(struct object *) objects;
    int64_t rv;
};

static inline int bench_setup(void **state)
{
    struct bench *b = NEW(struct bench);

    b->effects.arena = &b->arena;
    *state = b;
    return 0;
}

static inline void bench_reset(struct bench *b)
{
    VEC_EACH(&b->objects, it)
        object_unref(*it);
    b->objects.len = 0;
    b->effects.len = 0;
    b->rv = 0;
    arena_reset(&b->arena);
}

static inline int bench_teardown(void **state)
{
    struct bench *b = *state;

    bench_reset(b);
    vec_done(&b->objects);
    arena_done(&b->arena);
    free(b);
    return 0;
}

static inline struct json *from_yaml(struct bench *b, const char *yaml)
{
    struct json *doc = NULL;
    struct err err = {0};

    if (yaml_parse_one(str_from(yaml), &b->arena, &doc, &err) < 0)
        fail_msg("%s\n%s", err.msg, yaml);
    return doc;
}

static inline struct object *object_of(struct bench *b, int kind, struct json *doc)
{
    struct json *meta = json_need_object(&b->arena, doc, "metadata");
    struct object *object;
    char text[24];

    if (!json_get(meta, "name"))
        json_set_string(&b->arena, meta, "name", "x");
    if (kind_by_id(kind)->namespaced)
        json_set_string(&b->arena, meta, "namespace", "default");
    if (!json_get(meta, "uid"))
        json_set_string(&b->arena, meta, "uid",
                        arena_printf(&b->arena, "uid-%s", json_get_string(meta, "name")));
    snprintf(text, sizeof(text), "%lld", (long long)++b->rv);
    json_set_string(&b->arena, meta, "resourceVersion", text);
    object = object_new(kind_by_id(kind), &b->arena, doc);
    vec_push(&b->objects, object);
    return object;
}

static inline struct object *object_from(struct bench *b, int kind, const char *yaml)
{
    return object_of(b, kind, from_yaml(b, yaml));
}

/* One word or two for each effect, separated by "; ". Names of new pods end in "?". */
static inline char *effects_text(struct bench *b)
{
    static const char *const verbs[] = {[EFFECT_CREATE] = "create",
                                        [EFFECT_UPDATE_STATUS] = "status",
                                        [EFFECT_UPDATE] = "update",
                                        [EFFECT_DELETE] = "delete"};
    CLEANUP(buf_done) struct buf text = {0};

    for (size_t i = 0; i < b->effects.len; i++) {
        const struct effect *e = &b->effects.v[i];

        buf_puts(&text, text.len ? "; " : "");
        if (e->type == EFFECT_WAKE)
            buf_printf(&text, "wake +%lld", (long long)((e->wake_at - now_ns()) / NSEC_PER_SEC));
        else if (e->type == EFFECT_EVENT)
            buf_printf(&text, "event %s", e->reason);
        else if (e->type == EFFECT_CREATE && e->kind->id == KIND_POD)
            buf_printf(&text, "create %.*s?", (int)strlen(e->name) - 5, e->name);
        else
            buf_printf(&text, "%s %s", verbs[e->type], e->name);
    }
    return arena_strndup(&b->arena, text.data ? text.data : "", text.len);
}

/* The document of the first effect of that type, or NULL. */
static inline struct json *effect_doc(struct bench *b, enum effect_type type)
{
    for (size_t i = 0; i < b->effects.len; i++)
        if (b->effects.v[i].type == type)
            return b->effects.v[i].doc;
    return NULL;
}
