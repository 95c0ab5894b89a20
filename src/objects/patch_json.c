/* How it works: each operation finds the container of its path and changes it in place, in the manner of
 * the library Kubernetes uses: `replace` of an absent member adds it, negative places count from the end,
 * a failed operation is a 422 that does not say which. Every operation pays for the values it steps over;
 * a patch that would cost more than WORK_MAX, or copy more than COPY_BYTES_MAX, is refused. */
#include "objects/patch.h"
#include "objects/patch_util.h"

#define WORK_MAX       20000000  /* values visited or moved by one patch */
#define COPY_BYTES_MAX (3 << 20) /* text that "copy" may add, as in Kubernetes */
#define MEMBER_BYTES   4         /* of text, at least: quotes, colon, comma */

struct ctx {
    struct arena *arena;
    struct json *doc;
    int64_t work, copied;
};

/* Depth of a value (1 for scalars), adding its text size to *bytes. -1: too deep or too much work. */
static int measure(struct ctx *ctx, const struct json *value, int depth, int64_t *bytes)
{
    int deepest = depth;

    if (depth > JSON_DEPTH_MAX || ++ctx->work > WORK_MAX)
        return -1;
    *bytes += MEMBER_BYTES + (value->type == JSON_STRING || value->type == JSON_BIG ? value->len : 0);
    JSON_EACH(value, item) {
        int d = measure(ctx, item, depth + 1, bytes);

        if (d < 0)
            return -1;
        deepest = d > deepest ? d : deepest;
    }
    JSON_EACH_MEMBER(value, member) {
        int d = measure(ctx, &member->value, depth + 1, bytes);

        if (d < 0)
            return -1;
        *bytes += member->key_len;
        deepest = d > deepest ? d : deepest;
    }
    return deepest;
}

/* One step of a pointer, with ~0 and ~1 resolved. */
static struct str step_name(struct ctx *ctx, struct str raw)
{
    char *name;
    size_t len = 0;

    if (!raw.len || !memchr(raw.s, '~', raw.len))
        return raw;
    name = arena_strndup(ctx->arena, raw.s, raw.len);
    for (size_t i = 0; i < raw.len; i++) {
        if (raw.s[i] == '~' && i + 1 < raw.len && (raw.s[i + 1] == '0' || raw.s[i + 1] == '1'))
            name[len++] = raw.s[++i] == '0' ? '~' : '/';
        else
            name[len++] = raw.s[i];
    }
    name[len] = 0;
    return (struct str){name, len};
}

/* A place in an array of len items; negative ones count from the end. */
static bool array_place(struct str key, size_t len, size_t *ret)
{
    int64_t n;

    if (key.len > 1 && key.s[0] == '+')
        key = (struct str){key.s + 1, key.len - 1};
    if (!str_to_int(key, &n) || n >= (int64_t)len || n < -(int64_t)len)
        return false;
    *ret = (size_t)(n < 0 ? n + (int64_t)len : n);
    return true;
}

static struct json *child(const struct json *container, struct str key)
{
    size_t at;

    if (json_is(container, JSON_ARRAY))
        return array_place(key, container->len, &at) ? json_item(container, at) : NULL;
    return json_get_str(container, key);
}

struct target {
    struct json *container;
    struct str key;
    int depth; /* of the value at key, where the document is 1 */
};

static int find(struct ctx *ctx, const struct json *pointer, struct target *ret)
{
    struct str rest = json_str(pointer), raw;
    struct json *at = ctx->doc;
    const char *slash = rest.len ? memchr(rest.s, '/', rest.len) : NULL;
    int depth = 2;

    if (!slash)
        return -1;
    rest = (struct str){slash + 1, (size_t)(rest.s + rest.len - slash - 1)};
    for (;; depth++) {
        const char *end = rest.len ? memchr(rest.s, '/', rest.len) : NULL;

        if (++ctx->work > WORK_MAX)
            return -1;
        if (!json_is(at, JSON_OBJECT) && !json_is(at, JSON_ARRAY))
            return -1;
        raw = end ? (struct str){rest.s, (size_t)(end - rest.s)} : rest;
        if (!end)
            break;
        at = child(at, step_name(ctx, raw));
        rest = (struct str){end + 1, rest.len - raw.len - 1};
    }
    *ret = (struct target){at, step_name(ctx, raw), depth};
    return 0;
}

static int add_at(struct ctx *ctx, const struct target *target, struct json value)
{
    int64_t bytes = 0;
    size_t at;

    if (measure(ctx, &value, target->depth, &bytes) < 0)
        return -1;
    if (target->container->type == JSON_OBJECT) {
        json_set_str(ctx->arena, target->container, target->key, value);
        return 0;
    }
    if (str_is(target->key, "-"))
        at = target->container->len;
    else if (!array_place(target->key, (size_t)target->container->len + 1, &at))
        return -1;
    ctx->work += target->container->len - (int64_t)at;
    json_insert(ctx->arena, target->container, at, value);
    return 0;
}

static int remove_at(struct ctx *ctx, const struct target *target)
{
    size_t at;

    ctx->work += target->container->len;
    if (target->container->type == JSON_OBJECT)
        return json_remove_str(target->container, target->key) ? 0 : -1;
    if (!array_place(target->key, target->container->len, &at))
        return -1;
    json_remove_item(target->container, at);
    return 0;
}

static struct json op_value(struct ctx *ctx, const struct json *op)
{
    struct json *value = json_get(op, "value");

    return value ? *json_copy(ctx->arena, value) : (struct json){.type = JSON_NULL};
}

static int op_add(struct ctx *ctx, const struct json *op)
{
    struct target target;

    return find(ctx, json_get(op, "path"), &target) < 0 ? -1 : add_at(ctx, &target, op_value(ctx, op));
}

static int op_remove(struct ctx *ctx, const struct json *op)
{
    struct target target;

    return find(ctx, json_get(op, "path"), &target) < 0 ? -1 : remove_at(ctx, &target);
}

static int op_replace(struct ctx *ctx, const struct json *op)
{
    struct json value = op_value(ctx, op), *old;
    struct target target;
    int64_t bytes = 0;

    if (str_is(json_str(json_get(op, "path")), "")) {
        if (value.type != JSON_OBJECT && value.type != JSON_ARRAY)
            return -1;
        *ctx->doc = value;
        return 0;
    }
    if (find(ctx, json_get(op, "path"), &target) < 0)
        return -1;
    if (target.container->type == JSON_OBJECT)
        return add_at(ctx, &target, value);
    old = child(target.container, target.key);
    if (!old || measure(ctx, &value, target.depth, &bytes) < 0)
        return -1;
    *old = value;
    return 0;
}

static int op_move(struct ctx *ctx, const struct json *op)
{
    struct target from, to;
    struct json *old, value;

    if (find(ctx, json_get(op, "from"), &from) < 0)
        return -1;
    old = child(from.container, from.key);
    if (!old)
        return -1;
    value = *old;
    if (remove_at(ctx, &from) < 0 || find(ctx, json_get(op, "path"), &to) < 0)
        return -1;
    return add_at(ctx, &to, value);
}

static int op_copy(struct ctx *ctx, const struct json *op)
{
    struct target from, to;
    struct json *old;

    if (find(ctx, json_get(op, "from"), &from) < 0 || find(ctx, json_get(op, "path"), &to) < 0)
        return -1;
    old = child(from.container, from.key);
    if (!old)
        return from.container->type == JSON_OBJECT ? add_at(ctx, &to, (struct json){.type = JSON_NULL}) : -1;
    if (measure(ctx, old, to.depth, &ctx->copied) < 0 || ctx->copied > COPY_BYTES_MAX)
        return -1;
    return add_at(ctx, &to, *json_copy(ctx->arena, old));
}

static int op_test(struct ctx *ctx, const struct json *op)
{
    const struct json null = {.type = JSON_NULL};
    const struct json *value = json_get(op, "value"), *there;
    struct target target;

    if (!value)
        value = &null;
    if (str_is(json_str(json_get(op, "path")), ""))
        return json_equal(ctx->doc, value) ? 0 : -1;
    if (find(ctx, json_get(op, "path"), &target) < 0)
        return -1;
    there = child(target.container, target.key);
    if (!there && target.container->type == JSON_OBJECT)
        there = &null;
    return there && json_equal(there, value) ? 0 : -1;
}

static const struct {
    const char *name;
    int (*run)(struct ctx *ctx, const struct json *op);
} operations[] = {
    {"add", op_add},   {"remove", op_remove}, {"replace", op_replace},
    {"move", op_move}, {"copy", op_copy},     {"test", op_test},
};

static int check_op(const struct json *op, struct arena *arena, struct failure *failure)
{
    static const char *const texts[] = {"op", "path", "from"};

    if (!json_is(op, JSON_OBJECT))
        return failure_bad_request(
            failure, arena,
            "error decoding patch: json: cannot unmarshal %s into Go value of type handlers.jsonPatchOp",
            json_type_name(op));
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct json *text = json_get(op, texts[i]);

        if (text && text->type != JSON_STRING && text->type != JSON_NULL)
            return failure_bad_request(failure, arena,
                                       "error decoding patch: json: cannot unmarshal %s into Go struct field "
                                       "jsonPatchOp.%s of type string",
                                       json_type_name(text), texts[i]);
    }
    return 0;
}

static int run_op(struct ctx *ctx, const struct json *op)
{
    struct json *path = json_get(op, "path");

    if (!json_is(path, JSON_STRING))
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(operations); i++)
        if (streq(operations[i].name, json_get_string(op, "op")))
            return ctx->work > WORK_MAX ? -1 : operations[i].run(ctx, op);
    return -1;
}

int patch_json(struct arena *arena, struct json *doc, const struct json *patch, struct failure *failure)
{
    struct ctx ctx = {.arena = arena, .doc = doc};

    if (!json_is(patch, JSON_ARRAY))
        return failure_bad_request(
            failure, arena,
            "error decoding patch: json: cannot unmarshal %s into Go value of type []handlers.jsonPatchOp",
            json_type_name(patch));
    if (patch->len > PATCH_OPS_MAX)
        return failure_set(failure, arena, 413, "RequestEntityTooLarge",
                           "Request entity too large: The allowed maximum operations in a JSON patch is %d, "
                           "got %u",
                           PATCH_OPS_MAX, patch->len);
    JSON_EACH(patch, op)
        if (check_op(op, arena, failure) < 0)
            return -1;
    JSON_EACH(patch, op)
        if (run_op(&ctx, op) < 0)
            return patch_rejected(failure, arena);
    return 0;
}
