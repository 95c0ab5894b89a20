/* How it works: sets are combined node by node. A node under construction has "." for belonging to the
 * set; set_attach hangs it up in the written form, where a lone "." is {} and nothing is left out. */
#include "objects/apply_set.h"

#include "objects/apply_walk.h"

void walk_done(struct walk *walk)
{
    buf_done(&walk->scratch);
}

bool set_has(const struct json *node)
{
    return node && (node->len == 0 || json_get_str(node, STR(".")));
}

void set_mark(struct arena *arena, struct json *node)
{
    json_set_str(arena, node, STR("."), (struct json){.type = JSON_OBJECT});
}

void set_attach(struct arena *arena, struct json *parent, struct str key, const struct json *node)
{
    if (node->len == 0)
        return;
    if (node->len == 1 && node->members->v[0].key_len == 1 && node->members->v[0].key[0] == '.')
        json_set_str(arena, parent, key, (struct json){.type = JSON_OBJECT});
    else
        json_set_str(arena, parent, key, *node);
}

static bool op_holds(enum set_op op, bool a, bool b)
{
    return op == SET_UNION ? a || b : op == SET_DIFFERENCE ? a && !b : a && b;
}

static struct json combine(struct arena *arena, const struct json *a, const struct json *b, enum set_op op,
                           bool root)
{
    struct json node = {.type = JSON_OBJECT};

    if (!root && op_holds(op, set_has(a), set_has(b)))
        set_mark(arena, &node);
    JSON_EACH_MEMBER(a, member) {
        struct str key = {member->key, member->key_len};
        const struct json *other = b ? json_get_str(b, key) : NULL;
        struct json below;

        if (str_is(key, ".") || (!other && op == SET_INTERSECTION))
            continue;
        if (!other) {
            json_set_str(arena, &node, key, member->value);
            continue;
        }
        below = combine(arena, &member->value, other, op, false);
        set_attach(arena, &node, key, &below);
    }
    if (op == SET_UNION)
        JSON_EACH_MEMBER(b, member) {
            struct str key = {member->key, member->key_len};

            if (!str_is(key, ".") && !json_get_str(a, key))
                json_set_str(arena, &node, key, member->value);
        }
    return node;
}

struct json set_combine(struct arena *arena, const struct json *a, const struct json *b, enum set_op op)
{
    return combine(arena, a, b, op, true);
}

bool set_is_valid(const struct json *tree)
{
    if (!json_is(tree, JSON_OBJECT))
        return false;
    JSON_EACH_MEMBER(tree, member) {
        struct str key = {member->key, member->key_len};

        if (!str_is(key, ".") && !str_starts(key, "f:") && !str_starts(key, "k:") && !str_starts(key, "v:") &&
            !str_starts(key, "i:"))
            return false;
        if (!set_is_valid(&member->value))
            return false;
    }
    return true;
}

static struct json with_named(struct walk *walk, struct typing typing, const struct json *set, bool mark)
{
    struct json node = {.type = JSON_OBJECT};

    if (mark)
        set_mark(walk->arena, &node);
    JSON_EACH_MEMBER(set, member) {
        struct str key = {member->key, member->key_len}, name = {member->key + 2, member->key_len - 2};
        struct json below;
        bool named = false;

        if (str_is(key, "."))
            continue;
        if (member->value.len == 0) {
            json_set_str(walk->arena, &node, key, member->value);
            continue;
        }
        if (key.s[0] == 'f')
            named = typing_names(typing, name);
        below = with_named(walk, key.s[0] == 'f' ? typing_member(walk, typing, name) : typing_item(typing),
                           &member->value, named || set_has(&member->value));
        set_attach(walk->arena, &node, key, &below);
    }
    return node;
}

struct json set_with_named(struct walk *walk, const struct schema_type *type, const struct json *set)
{
    return with_named(walk, typing_root(type), set, false);
}

/* ---- paths as text ---- */

static void add_value(struct buf *out, struct str text)
{
    buf_str(out, text);
}

/* `k:{"name":"c"}` as `[name="c"]` */
static void add_key(struct buf *out, struct str text)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *key;
    bool first = true;

    buf_putc(out, '[');
    if (json_parse(text, &arena, &key, NULL, NULL) < 0)
        add_value(out, text);
    else
        JSON_EACH_MEMBER(key, member) {
            if (!first)
                buf_putc(out, ',');
            first = false;
            buf_add(out, member->key, member->key_len);
            buf_putc(out, '=');
            json_write(out, &member->value);
        }
    buf_putc(out, ']');
}

static void add_element(struct buf *out, struct str key)
{
    struct str rest = {key.s + 2, key.len - 2};

    switch (key.s[0]) {
    case 'f':
        buf_putc(out, '.');
        buf_str(out, rest);
        break;
    case 'k':
        add_key(out, rest);
        break;
    case 'v':
        buf_puts(out, "[=");
        buf_str(out, rest);
        buf_putc(out, ']');
        break;
    default:
        buf_putc(out, '[');
        buf_str(out, rest);
        buf_putc(out, ']');
    }
}

static void each_path(const struct json *set, struct buf *path, void (*each)(void *arg, const char *path),
                      void *arg)
{
    JSON_EACH_MEMBER(set, member) {
        struct str key = {member->key, member->key_len};
        size_t len = path->len;

        if (str_is(key, "."))
            continue;
        add_element(path, key);
        if (set_has(&member->value))
            each(arg, path->data);
        each_path(&member->value, path, each, arg);
        path->len = len;
    }
}

void set_each_path(const struct json *set, void (*each)(void *arg, const char *path), void *arg)
{
    CLEANUP(buf_done) struct buf path = {0};

    each_path(set, &path, each, arg);
}
