/* What the store's tests share: a store in a temporary folder, objects made from a few words. */
#pragma once

#include "base/arena.h"
#include "objects/kind.h"
#include "store/store.h"

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h> /* needs the others before it */
/* clang-format on */

struct fixture {
    struct loop *loop;
    struct store *store;
    char dir[64];
    char path[96];
};

static inline void fixture_open(struct fixture *f)
{
    struct err err = {0};

    f->loop = loop_new();
    if (store_open(f->path, f->loop, &f->store, &err) < 0)
        fail_msg("%s", err.msg);
}

static inline void fixture_close(struct fixture *f)
{
    store_close(f->store);
    loop_free(f->loop);
    f->store = NULL;
    f->loop = NULL;
}

static inline void fixture_reopen(struct fixture *f)
{
    fixture_close(f);
    fixture_open(f);
}

static inline int fixture_setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    snprintf(f->dir, sizeof(f->dir), "/tmp/berth-store-XXXXXX");
    if (!mkdtemp(f->dir))
        return -1;
    snprintf(f->path, sizeof(f->path), "%s/berth.db", f->dir);
    fixture_open(f);
    *state = f;
    return 0;
}

static inline int fixture_teardown(void **state)
{
    struct fixture *f = *state;
    char file[128];

    fixture_close(f);
    for (const char *const *suffix = (const char *const[]){"", "-wal", "-shm", "-mark", NULL}; *suffix;
         suffix++) {
        snprintf(file, sizeof(file), "%s%s", f->path, *suffix);
        unlink(file);
    }
    rmdir(f->dir);
    free(f);
    return 0;
}

/* owner: uid, or NULL. pad: bytes of filler, for sizes. */
static inline struct object *make_object(int kind, int64_t rv, const char *ns, const char *name,
                                         const char *uid, const char *owner, size_t pad)
{
    struct arena arena = {0};
    struct json *doc = json_new_object(&arena), *meta, *refs;
    struct object *object;
    char *text = arena_zalloc(&arena, pad + 1);

    meta = json_set_object(&arena, doc, "metadata");
    json_set_string(&arena, meta, "name", name);
    if (*ns)
        json_set_string(&arena, meta, "namespace", ns);
    json_set_string(&arena, meta, "uid", uid ? uid : arena_printf(&arena, "uid-%d-%s-%s", kind, ns, name));
    json_set_string(&arena, meta, "resourceVersion", arena_printf(&arena, "%lld", (long long)rv));
    if (owner) {
        refs = json_set_array(&arena, meta, "ownerReferences");
        json_set_string(&arena, json_push_object(&arena, refs), "uid", owner);
    }
    memset(text, 'x', pad);
    json_set_string(&arena, json_set_object(&arena, doc, "data"), "filler", text);
    object = object_new(kind_by_id(kind), &arena, doc);
    arena_done(&arena);
    return object;
}

static inline int64_t put(struct fixture *f, const char *ns, const char *name)
{
    int64_t rv = store_next_revision(f->store);

    store_put(f->store, make_object(KIND_CONFIG_MAP, rv, ns, name, NULL, NULL, 10));
    return rv;
}

static inline int64_t put_owned(struct fixture *f, const char *name, const char *owner)
{
    int64_t rv = store_next_revision(f->store);

    store_put(f->store, make_object(KIND_CONFIG_MAP, rv, "default", name, NULL, owner, 10));
    return rv;
}

static inline int64_t drop(struct fixture *f, const char *ns, const char *name)
{
    int64_t rv = store_next_revision(f->store);

    store_remove(f->store, make_object(KIND_CONFIG_MAP, rv, ns, name, NULL, NULL, 10));
    return rv;
}

/* Runs the loop until everything is durable. */
static inline void settle(struct fixture *f)
{
    do
        assert_int_equal(loop_turn(f->loop, 10, NULL), 0);
    while (!store_durable(f->store));
    assert_int_equal(loop_turn(f->loop, 0, NULL), 0);
}
