/* How it works: a merge of two trees guided by the schema. The patch is copied first, so that its parts
 * can move into the document and directives can be taken out of it. For each object: $patch and $retainKeys
 * concern the whole; then lists with a $setElementOrder; then nulls; then every other member.
 *
 * Lists that merge (by key, or as sets of scalars) come out in Kubernetes' order: items of the patch keep
 * the order of $setElementOrder, else of the patch; items only the server has keep theirs; the two are
 * interleaved by the live list's order, and what is new comes before server-only items it cannot be
 * compared with. Keys are compared by their JSON text, looked up in a hashed object, so that the cost is
 * linear. */
#include "objects/patch.h"
#include "objects/patch_util.h"

#define DIRECTIVE     "$patch"
#define RETAIN_KEYS   "$retainKeys"
#define ORDER_PREFIX  "$setElementOrder/"
#define DELETE_PREFIX "$deleteFromPrimitiveList/"

struct ctx {
    struct arena *arena;
    struct failure *failure;
    struct buf scratch;
};

static int merge_object(struct ctx *ctx, const struct schema_type *type, struct json *doc,
                        struct json *patch);

/* ---- refusals ---- */

static int bad_request(struct ctx *ctx, const char *what)
{
    return failure_bad_request(ctx->failure, ctx->arena, "%s", what);
}

/* Kubernetes has neither a reason nor a better status for these. */
static int unfit(struct ctx *ctx, const char *before, const struct json *value, const char *after)
{
    CLEANUP(buf_done) struct buf text = {0};

    buf_puts(&text, before);
    if (value)
        patch_go_print(&text, value);
    buf_puts(&text, after);
    return failure_set(ctx->failure, ctx->arena, 500, NULL, "%s", text.data);
}

static int no_merge_key(struct ctx *ctx, const struct json *item, const char *key)
{
    return unfit(ctx, "map: ", item,
                 arena_printf(ctx->arena, " does not contain declared merge key: %s", key));
}

static int bad_type(struct ctx *ctx, const char *expected, const struct json *value)
{
    return unfit(ctx, arena_printf(ctx->arena, "expected a %s, but received a ", expected), NULL,
                 patch_go_type(value));
}

/* ---- directives ---- */

static bool is_directive(const struct json_member *member)
{
    struct str key = {member->key, member->key_len};

    return key.len && key.s[0] == '$' &&
           (str_is(key, DIRECTIVE) || str_is(key, RETAIN_KEYS) || str_starts(key, ORDER_PREFIX) ||
            str_starts(key, DELETE_PREFIX));
}

/* A value that is new to the document: without nulls and directives. False: a directive says to leave it
 * out altogether. */
static bool clean(struct ctx *ctx, struct json *value)
{
    if (value->type == JSON_ARRAY) {
        uint32_t kept = 0;

        JSON_EACH(value, item)
            if (clean(ctx, item))
                value->items->v[kept++] = *item;
        value->len = kept;
    } else if (value->type == JSON_OBJECT) {
        struct json kept = {.type = JSON_OBJECT};
        bool dirty = false;

        if (json_get(value, DIRECTIVE))
            return false;
        JSON_EACH_MEMBER(value, member)
            dirty |= member->value.type == JSON_NULL || is_directive(member) ||
                     member->value.type == JSON_ARRAY || member->value.type == JSON_OBJECT;
        if (!dirty)
            return true;
        JSON_EACH_MEMBER(value, member)
            if (member->value.type != JSON_NULL && !is_directive(member) && clean(ctx, &member->value))
                json_set_str(ctx->arena, &kept, (struct str){member->key, member->key_len}, member->value);
        *value = kept;
    }
    return true;
}

/* ---- lists ---- */

/* What an item of a merging list is known by: its key's value, or itself. NULL when it has none. */
static const struct json *item_id(const struct json *item, const char *key)
{
    return key ? json_get(item, key) : item;
}

static struct str id_text(struct ctx *ctx, const struct json *id)
{
    buf_clear(&ctx->scratch);
    json_write(&ctx->scratch, id);
    return buf_view(&ctx->scratch);
}

/* Places of items by their id; the first of equal ones counts. */
static struct json *list_index(struct ctx *ctx, const struct json *list, const char *key)
{
    struct json *index = json_new_object(ctx->arena);
    int64_t at = 0;

    JSON_EACH(list, item) {
        const struct json *id = item_id(item, key);

        if (id) {
            struct str text = id_text(ctx, id);

            if (!json_get_str(index, text))
                json_set_str(ctx->arena, index, text, json_of_int(at));
        }
        at++;
    }
    return index;
}

static int64_t index_find(struct ctx *ctx, const struct json *index, const struct json *item, const char *key)
{
    const struct json *id = item_id(item, key);

    return id ? json_int(json_get_str(index, id_text(ctx, id)), -1) : -1;
}

static int check_items(struct ctx *ctx, const struct json *list, const char *key)
{
    JSON_EACH(list, item) {
        if (item->type == JSON_ARRAY)
            return patch_rejected(ctx->failure, ctx->arena); /* lists of lists are not supported */
        if (!key && item->type == JSON_OBJECT)
            return unfit(ctx, "list element types are not identical: ", list, "");
        if (key && item->type != JSON_OBJECT)
            return bad_type(ctx, "map[string]interface {}", item);
        if (key && !json_get(item, key) && !json_get(item, DIRECTIVE))
            return no_merge_key(ctx, item, key);
    }
    return 0;
}

struct ranked {
    struct json item;
    int64_t rank;
    size_t seq; /* of equal ranks the earlier first */
};

static int ranked_cmp(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->seq < y->seq ? -1 : 1;
}

/* The items of list in the order Kubernetes gives them: see the top of the file. */
static struct json order_items(struct ctx *ctx, const struct json *list, const struct json *order,
                               const struct json *live, const char *key)
{
    const struct json *wanted = list_index(ctx, order, key), *lived = list_index(ctx, live, key);
    struct ranked *ours = arena_alloc(ctx->arena, (list->len + 1) * sizeof(*ours));
    struct ranked *theirs = arena_alloc(ctx->arena, (list->len + 1) * sizeof(*theirs));
    size_t our_count = 0, their_count = 0, i = 0, j = 0;
    struct json result = {.type = JSON_ARRAY};

    JSON_EACH(list, item) {
        int64_t place = index_find(ctx, wanted, item, key);

        if (place >= 0)
            ours[our_count] = (struct ranked){*item, place, our_count}, our_count++;
        else
            theirs[their_count++] = (struct ranked){*item, index_find(ctx, lived, item, key), 0};
    }
    if (our_count > 1)
        qsort(ours, our_count, sizeof(*ours), ranked_cmp);
    while (i < their_count || j < our_count) {
        bool take_theirs = j >= our_count;

        if (i < their_count && j < our_count) {
            int64_t our_place = index_find(ctx, lived, &ours[j].item, key);

            take_theirs = theirs[i].rank >= 0 && our_place >= 0 && theirs[i].rank < our_place;
        }
        json_push(ctx->arena, &result, take_theirs ? theirs[i++].item : ours[j++].item);
    }
    return result;
}

/* Takes the items with a $patch out of the patch list, and what they delete out of the document's.
 * *replace: the patch list stands for the whole. */
static int take_special_items(struct ctx *ctx, struct json *doc, struct json *patch, const char *key,
                              bool *replace)
{
    struct json deleted = {.type = JSON_OBJECT};
    uint32_t kept = 0;

    *replace = false;
    JSON_EACH(patch, item) {
        const char *directive = json_get_string(item, DIRECTIVE);

        if (!json_get(item, DIRECTIVE)) {
            patch->items->v[kept++] = *item;
        } else if (streq(directive, "delete")) {
            if (!json_get(item, key))
                return no_merge_key(ctx, item, key);
            json_set_str(ctx->arena, &deleted, id_text(ctx, json_get(item, key)), json_of_bool(true));
        } else if (streq(directive, "replace")) {
            *replace = true;
        } else if (streq(directive, "merge")) {
            return unfit(ctx, "merging lists cannot yet be specified in the patch", NULL, "");
        } else {
            return unfit(ctx, "unknown patch type: ", json_get(item, DIRECTIVE), " in map");
        }
    }
    patch->len = kept;
    if (!deleted.len)
        return 0;
    kept = 0;
    JSON_EACH(doc, item) {
        const struct json *id = json_get(item, key);

        if (!id || !json_get_str(&deleted, id_text(ctx, id)))
            doc->items->v[kept++] = *item;
    }
    doc->len = kept;
    return 0;
}

static int merge_keyed(struct ctx *ctx, const struct schema_field *field, struct json *doc,
                       struct json *patch, struct json *merged)
{
    struct json *index;
    bool replace;

    if (take_special_items(ctx, doc, patch, field->patch_key, &replace) < 0)
        return -1;
    *merged = (struct json){.type = JSON_ARRAY};
    if (replace) {
        *doc = *merged;
        clean(ctx, patch);
        *merged = *patch;
        *patch = *doc;
        return 0;
    }
    JSON_EACH(doc, item)
        json_push(ctx->arena, merged, *item);
    index = list_index(ctx, merged, field->patch_key);
    JSON_EACH(patch, item) {
        int64_t at = index_find(ctx, index, item, field->patch_key);

        if (at >= 0) {
            if (merge_object(ctx, field->type, json_item(merged, (size_t)at), item) < 0)
                return -1;
        } else {
            struct json fresh = *json_copy(ctx->arena, item); /* patch still tells the order */

            json_set_str(ctx->arena, index, id_text(ctx, json_get(item, field->patch_key)),
                         json_of_int(merged->len));
            if (clean(ctx, &fresh))
                json_push(ctx->arena, merged, fresh);
        }
    }
    return 0;
}

static void merge_scalars(struct ctx *ctx, const struct json *doc, const struct json *patch,
                          struct json *merged)
{
    struct json *seen = json_new_object(ctx->arena);
    const struct json *lists[] = {doc, patch};

    *merged = (struct json){.type = JSON_ARRAY};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        JSON_EACH(lists[i], item) {
            struct str text = id_text(ctx, item);

            if (json_get_str(seen, text))
                continue;
            json_set_str(ctx->arena, seen, text, json_of_bool(true));
            json_push(ctx->arena, merged, *item);
        }
}

static bool list_merges(const struct schema_field *field)
{
    return field && field->shape == SCHEMA_LIST &&
           ((field->patch == SCHEMA_KEYED && field->patch_key) || field->patch == SCHEMA_SET);
}

static const char *list_key(const struct schema_field *field)
{
    return field->patch == SCHEMA_KEYED ? field->patch_key : NULL;
}

/* Two arrays; order is the $setElementOrder list or NULL. */
static int merge_list(struct ctx *ctx, const struct schema_field *field, struct json *doc, struct json *patch,
                      const struct json *order)
{
    const char *key = list_key(field);
    struct json merged;

    if (check_items(ctx, doc, key) < 0 || check_items(ctx, patch, key) < 0 ||
        (order && check_items(ctx, order, key) < 0))
        return -1;
    if (key) {
        if (merge_keyed(ctx, field, doc, patch, &merged) < 0)
            return -1;
    } else {
        merge_scalars(ctx, doc, patch, &merged);
    }
    *doc = order_items(ctx, &merged, order ? order : patch, doc, key);
    return 0;
}

/* Items of the patch must stand in the order list, in its order. */
static int check_order(struct ctx *ctx, const struct json *patch, const struct json *order, const char *key)
{
    size_t at = 0;

    if (!json_len(patch) || !json_len(order))
        return 0;
    JSON_EACH(patch, item) {
        if (json_get(item, DIRECTIVE))
            continue;
        while (at < order->len && !json_equal(item_id(item, key), item_id(json_item(order, at), key)))
            at++;
        if (at++ >= order->len) {
            CLEANUP(buf_done) struct buf lists = {0};

            buf_puts(&lists, "\n doesn't match $setElementOrder list:\n");
            patch_go_print(&lists, order);
            buf_putc(&lists, '\n');
            return unfit(ctx, "The order in patch list:\n", patch, lists.data);
        }
    }
    return 0;
}

static void delete_from_list(struct ctx *ctx, struct json *doc, const struct json_member *directive)
{
    struct str key = {directive->key + strlen(DELETE_PREFIX), directive->key_len - strlen(DELETE_PREFIX)};
    struct json *list = json_get_str(doc, key), *gone;
    uint32_t kept = 0;

    if (!json_is(list, JSON_ARRAY) || directive->value.type != JSON_ARRAY)
        return;
    gone = list_index(ctx, &directive->value, NULL);
    JSON_EACH(list, item)
        if (item->type == JSON_ARRAY || item->type == JSON_OBJECT || !json_get_str(gone, id_text(ctx, item)))
            list->items->v[kept++] = *item;
    list->len = kept;
}

/* ---- objects ---- */

static int retain_keys(struct ctx *ctx, struct json *doc, const struct json *patch)
{
    const struct json *list = json_get(patch, RETAIN_KEYS);
    struct json kept = {.type = JSON_OBJECT}, *names;

    if (!list)
        return 0;
    if (list->type != JSON_ARRAY)
        return bad_request(ctx, "invalid patch format of retainKeys");
    names = json_new_object(ctx->arena);
    JSON_EACH(list, name)
        if (name->type == JSON_STRING)
            json_set_str(ctx->arena, names, json_str(name), json_of_bool(true));
    JSON_EACH_MEMBER(patch, member)
        if (member->value.type != JSON_NULL && !is_directive(member) &&
            !json_get_str(names, (struct str){member->key, member->key_len}))
            return bad_request(ctx, "invalid patch format of retainKeys");
    JSON_EACH_MEMBER(doc, member) {
        struct str key = {member->key, member->key_len};

        if (json_get_str(names, key))
            json_set_str(ctx->arena, &kept, key, member->value);
    }
    *doc = kept;
    return 0;
}

static int whole_directive(struct ctx *ctx, struct json *doc, struct json *patch, bool *done)
{
    const struct json *directive = json_get(patch, DIRECTIVE);
    const char *name = json_string(directive);

    *done = directive && !streq(name, "merge");
    if (!*done)
        return 0;
    if (streq(name, "replace")) {
        json_remove(patch, DIRECTIVE);
        clean(ctx, patch);
        *doc = *patch;
    } else if (streq(name, "delete")) {
        *doc = (struct json){.type = JSON_OBJECT};
    } else {
        CLEANUP(buf_done) struct buf map = {0};

        buf_puts(&map, " in map: ");
        patch_go_print(&map, patch);
        return unfit(ctx, "unknown patch type: ", directive, map.data);
    }
    return 0;
}

/* What an object is by the schema: a message, or a map whose values are messages, or nothing known. */
struct shape {
    const struct schema_type *type, *values;
};

static struct shape member_shape(struct shape shape, const struct schema_field *field)
{
    if (!field)
        return (struct shape){shape.values, NULL};
    if (field->shape == SCHEMA_MAP)
        return (struct shape){NULL, field->base == SCHEMA_MESSAGE ? field->type : NULL};
    return (struct shape){field->shape == SCHEMA_ONE ? field->type : NULL, NULL};
}

static bool object_merges(const struct schema_field *field)
{
    return !field || field->patch != SCHEMA_ATOMIC ||
           (field->shape == SCHEMA_ONE && field->base != SCHEMA_MESSAGE);
}

static int merge_object_as(struct ctx *ctx, struct shape shape, struct json *doc, struct json *patch);

static int merge_member(struct ctx *ctx, struct shape shape, struct json *doc, const struct json *patch,
                        struct json_member *member)
{
    struct str key = {member->key, member->key_len};
    const struct schema_field *field = shape.type ? schema_field_find(shape.type, key) : NULL;
    struct json *old = json_get_str(doc, key), *value = &member->value;

    if (value->type == JSON_ARRAY && list_merges(field)) {
        struct json *order = json_get(patch, arena_printf(ctx->arena, ORDER_PREFIX "%.*s", STR_ARG(key)));

        if (order && check_order(ctx, value, order, list_key(field)) < 0)
            return -1;
        if (!old && order)
            old = json_set_str(ctx->arena, doc, key, (struct json){.type = JSON_ARRAY});
        if (json_is(old, JSON_ARRAY))
            return merge_list(ctx, field, old, value, order);
    }
    if (json_is(old, JSON_OBJECT) && value->type == JSON_OBJECT && object_merges(field))
        return merge_object_as(ctx, member_shape(shape, field), old, value);
    if (!clean(ctx, value))
        json_remove_str(doc, key);
    else if (old)
        *old = *value;
    else
        json_set_str(ctx->arena, doc, key, *value);
    return 0;
}

/* A $setElementOrder without its list: the live items are put in that order. */
static int reorder(struct ctx *ctx, struct shape shape, struct json *doc, const struct json *patch,
                   const struct json_member *directive)
{
    struct str key = {directive->key + strlen(ORDER_PREFIX), directive->key_len - strlen(ORDER_PREFIX)};
    const struct schema_field *field = shape.type ? schema_field_find(shape.type, key) : NULL;
    struct json *list = json_get_str(doc, key), none = {.type = JSON_ARRAY};

    if (!list_merges(field) || json_get_str(patch, key) || !json_is(list, JSON_ARRAY))
        return 0;
    return merge_list(ctx, field, list, &none, &directive->value);
}

static int merge_object_as(struct ctx *ctx, struct shape shape, struct json *doc, struct json *patch)
{
    bool done;

    if (whole_directive(ctx, doc, patch, &done) < 0)
        return -1;
    if (done)
        return 0;
    if (retain_keys(ctx, doc, patch) < 0)
        return -1;
    patch_remove_nulled(ctx->arena, doc, patch);
    JSON_EACH_MEMBER(patch, member) {
        struct str key = {member->key, member->key_len};

        if (str_starts(key, DELETE_PREFIX))
            delete_from_list(ctx, doc, member);
        if (str_starts(key, ORDER_PREFIX)) {
            if (member->value.type != JSON_ARRAY)
                return bad_type(ctx, "[]interface {}", &member->value);
            if (reorder(ctx, shape, doc, patch, member) < 0)
                return -1;
        }
    }
    JSON_EACH_MEMBER(patch, member)
        if (!is_directive(member) && member->value.type != JSON_NULL &&
            merge_member(ctx, shape, doc, patch, member) < 0)
            return -1;
    return 0;
}

static int merge_object(struct ctx *ctx, const struct schema_type *type, struct json *doc, struct json *patch)
{
    return merge_object_as(ctx, (struct shape){type, NULL}, doc, patch);
}

int patch_strategic(const struct schema_type *type, struct arena *arena, struct json *doc,
                    const struct json *patch, struct failure *failure)
{
    struct ctx ctx = {.arena = arena, .failure = failure};
    int r;

    if (!json_is(patch, JSON_OBJECT))
        return failure_bad_request(
            failure, arena,
            "error decoding patch: json: cannot unmarshal %s into Go value of type map[string]interface {}",
            json_type_name(patch));
    if (!json_is(doc, JSON_OBJECT)) /* as a merge patch has it: on nothing */
        *doc = (struct json){.type = JSON_OBJECT};
    r = merge_object(&ctx, type, doc, json_copy(arena, patch));
    buf_done(&ctx.scratch);
    return r;
}
