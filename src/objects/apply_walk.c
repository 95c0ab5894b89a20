/* How it works: each walk recurses through one or two values at once, along the schema, and returns its
 * answer for what lies below; the caller hangs it up under the element's name. Items of keyed lists and
 * sets are known by the text of their element; a hashed index over these finds partners and duplicates.
 *
 * On create, Kubernetes compares with the zero value of the Go type, in which metadata, spec, status and
 * required members are there, though empty: their "." is not added. That is what `zero` stands for. */
#include "objects/apply_walk.h"

#include <stdarg.h>

#define UNKNOWN_DEPTH_MAX 32 /* below it, unknown values are owned whole */

static const struct json null_value = {.type = JSON_NULL};
static const struct json empty_object = {.type = JSON_OBJECT};

/* Where in a document a walk is: some fields are nobody's. */
enum level { AT_ROOT, IN_METADATA, ELSEWHERE };

static bool is_nobodys(const struct walk *walk, enum level level, struct str name)
{
    static const char *const metadata[] = {"name",       "namespace",     "creationTimestamp",
                                           "selfLink",   "uid",           "clusterName",
                                           "generation", "managedFields", "resourceVersion"};

    if (level == AT_ROOT)
        return str_is(name, "kind") || str_is(name, "apiVersion") ||
               (walk->ignored && str_is(name, walk->ignored));
    if (level == IN_METADATA)
        for (size_t i = 0; i < ARRAY_LEN(metadata); i++)
            if (str_is(name, metadata[i]))
                return true;
    return false;
}

static enum level level_below(enum level level, struct str name)
{
    return level == AT_ROOT && str_is(name, "metadata") ? IN_METADATA : ELSEWHERE;
}

/* ---- typing ---- */

struct typing typing_root(const struct schema_type *type)
{
    return (struct typing){type ? HOW_MESSAGE : HOW_UNKNOWN, type, NULL};
}

static struct typing typing_of(const struct schema_field *field)
{
    struct typing typing = {HOW_LEAF, NULL, field};

    if (field->shape == SCHEMA_LIST && field->apply == SCHEMA_KEYED && field->apply_keys)
        typing.how = HOW_KEYED;
    else if (field->shape == SCHEMA_LIST && field->apply == SCHEMA_SET)
        typing.how = HOW_SET;
    else if (field->shape == SCHEMA_MAP && field->apply != SCHEMA_ATOMIC)
        typing.how = HOW_MAP;
    else if (field->shape == SCHEMA_ONE && field->base == SCHEMA_MESSAGE && field->apply != SCHEMA_ATOMIC)
        typing = (struct typing){HOW_MESSAGE, field->type, field};
    return typing;
}

/* References are owned whole wherever they stand; of a list's items the field cannot say it. */
static bool is_reference(const struct schema_type *type)
{
    return streq(type->name, "LocalObjectReference") || streq(type->name, "ObjectReference") ||
           streq(type->name, "OwnerReference");
}

struct typing typing_item(struct typing typing)
{
    if (typing.field && typing.field->base == SCHEMA_MESSAGE && !is_reference(typing.field->type))
        return (struct typing){HOW_MESSAGE, typing.field->type, NULL};
    return (struct typing){HOW_LEAF, NULL, NULL};
}

struct typing typing_member(const struct walk *walk, struct typing typing, struct str name)
{
    const struct schema_field *field;

    if (typing.how == HOW_MAP)
        return typing_item(typing);
    field = typing.how == HOW_MESSAGE ? schema_field_find(typing.type, name) : NULL;
    if (field)
        return typing_of(field);
    return (struct typing){walk->depth < UNKNOWN_DEPTH_MAX ? HOW_UNKNOWN : HOW_LEAF, NULL, NULL};
}

bool typing_names(struct typing typing, struct str name)
{
    return typing.how == HOW_MESSAGE && schema_field_find(typing.type, name);
}

static bool fits_object(const struct json *value)
{
    return !value || value->type == JSON_OBJECT || value->type == JSON_NULL;
}

static bool fits_array(const struct json *value)
{
    return !value || value->type == JSON_ARRAY || value->type == JSON_NULL;
}

/* How two values (either may be NULL) are walked: a value of the wrong type is a leaf. */
static enum typing_how how_both(struct typing typing, const struct json *a, const struct json *b)
{
    switch (typing.how) {
    case HOW_MESSAGE:
    case HOW_MAP:
        return fits_object(a) && fits_object(b) ? typing.how : HOW_LEAF;
    case HOW_KEYED:
    case HOW_SET:
        return fits_array(a) && fits_array(b) ? typing.how : HOW_LEAF;
    case HOW_UNKNOWN:
        return fits_object(a) && fits_object(b) && (json_is(a, JSON_OBJECT) || json_is(b, JSON_OBJECT))
                   ? HOW_UNKNOWN
                   : HOW_LEAF;
    default:
        return HOW_LEAF;
    }
}

/* ---- elements of lists ---- */

static struct str field_element(struct walk *walk, struct str name)
{
    buf_clear(&walk->scratch);
    buf_add(&walk->scratch, "f:", 2);
    buf_str(&walk->scratch, name);
    return buf_view(&walk->scratch);
}

/* Keys that are left out have the default that Kubernetes' schemas give them: mostly Go's zero. */
static struct json key_default(const struct schema_field *list, struct str key)
{
    const struct schema_field *field = list->type ? schema_field_find(list->type, key) : NULL;

    if (str_is(key, "protocol"))
        return json_of_string_ref("TCP");
    if (field && field->base == SCHEMA_STRING)
        return json_of_string_ref("");
    if (field && (field->base == SCHEMA_INT32 || field->base == SCHEMA_INT64))
        return json_of_int(0);
    return null_value;
}

/* `k:{"containerPort":80,"protocol":"TCP"}`; keys sorted by name. */
static void keyed_element(struct walk *walk, const struct schema_field *list, const struct json *item)
{
    struct buf *out = &walk->scratch;
    struct str rest = str_from(list->apply_keys), key, keys[8];
    size_t count = 0;

    while (count < ARRAY_LEN(keys) && str_split(&rest, ',', &key)) {
        size_t at = count++;

        for (; at > 0 && str_cmp(key, keys[at - 1]) < 0; at--)
            keys[at] = keys[at - 1];
        keys[at] = key;
    }
    buf_add(out, "k:{", 3);
    for (size_t i = 0; i < count; i++) {
        const struct json *value = json_get_str(item, keys[i]);
        struct json fallback = key_default(list, keys[i]);

        if (i)
            buf_putc(out, ',');
        json_write_string(out, keys[i]);
        buf_putc(out, ':');
        json_write(out, value ? value : &fallback);
    }
    buf_putc(out, '}');
}

static struct str item_element(struct walk *walk, struct typing typing, const struct json *item)
{
    buf_clear(&walk->scratch);
    if (typing.how == HOW_KEYED) {
        keyed_element(walk, typing.field, item);
    } else {
        buf_add(&walk->scratch, "v:", 2);
        json_write(&walk->scratch, item);
    }
    return (struct str){arena_strndup(walk->arena, walk->scratch.data, walk->scratch.len), walk->scratch.len};
}

#define REPEATED (INT64_C(1) << 40)

struct elements {
    struct str *v;
    size_t count;
    struct json index; /* element → place of its first, | REPEATED; not made for a single one */
};

static struct elements elements_of(struct walk *walk, struct typing typing, const struct json *list)
{
    struct elements elements = {.count = json_is(list, JSON_ARRAY) ? list->len : 0,
                                .index = {.type = JSON_OBJECT}};

    elements.v = arena_alloc(walk->arena, (elements.count + 1) * sizeof(*elements.v));
    for (size_t i = 0; i < elements.count; i++)
        elements.v[i] = item_element(walk, typing, &list->items->v[i]);
    for (size_t i = 0; elements.count > 1 && i < elements.count; i++) {
        struct json *there = json_get_str(&elements.index, elements.v[i]);

        if (there)
            there->integer |= REPEATED;
        else
            json_set_str(walk->arena, &elements.index, elements.v[i], json_of_int((int64_t)i));
    }
    return elements;
}

static int64_t element_find(const struct elements *elements, struct str element, bool *repeated)
{
    struct json *there;

    *repeated = false;
    if (elements->count <= 1)
        return elements->count && str_eq(elements->v[0], element) ? 0 : -1;
    there = json_get_str(&elements->index, element);
    if (!there)
        return -1;
    *repeated = there->integer & REPEATED;
    return there->integer & ~REPEATED;
}

/* ---- the fields of a document ---- */

static void fields(struct walk *walk, struct typing typing, const struct json *value, enum level level,
                   struct json *node);

static void list_fields(struct walk *walk, struct typing typing, const struct json *list, struct json *node)
{
    struct elements elements = elements_of(walk, typing, list);
    bool repeated;

    for (size_t i = 0; i < elements.count; i++) {
        struct json below = empty_object;

        if (element_find(&elements, elements.v[i], &repeated) != (int64_t)i)
            continue;
        set_mark(walk->arena, &below);
        if (!repeated)
            fields(walk, typing_item(typing), &list->items->v[i], ELSEWHERE, &below);
        set_attach(walk->arena, node, elements.v[i], &below);
    }
}

static void fields(struct walk *walk, struct typing typing, const struct json *value, enum level level,
                   struct json *node)
{
    enum typing_how how = how_both(typing, value, NULL);

    if (how == HOW_LEAF) {
        set_mark(walk->arena, node);
        return;
    }
    if (how == HOW_KEYED || how == HOW_SET) {
        list_fields(walk, typing, value, node);
        return;
    }
    walk->depth++;
    JSON_EACH_MEMBER(value, member) {
        struct str name = {member->key, member->key_len};
        struct json below = empty_object;

        if (is_nobodys(walk, level, name))
            continue;
        if (member->value.type == JSON_NULL || (member->value.type == JSON_OBJECT && !member->value.len) ||
            !typing_names(typing, name))
            set_mark(walk->arena, &below);
        fields(walk, typing_member(walk, typing, name), &member->value, level_below(level, name), &below);
        set_attach(walk->arena, node, field_element(walk, name), &below);
    }
    walk->depth--;
}

struct json walk_fields(struct walk *walk, const struct schema_type *type, const struct json *doc)
{
    struct json set = empty_object;

    fields(walk, typing_root(type), doc, AT_ROOT, &set);
    return set;
}

/* ---- differences ---- */

enum { ADDED, MODIFIED, REMOVED, SIDES };

static void compare(struct walk *walk, struct typing typing, const struct json *l, const struct json *r,
                    enum level level, bool zero, struct json node[SIDES]);

static void compare_leaf(struct walk *walk, const struct json *l, const struct json *r,
                         struct json node[SIDES])
{
    if (!l)
        set_mark(walk->arena, &node[ADDED]);
    else if (!r)
        set_mark(walk->arena, &node[REMOVED]);
    else if (!json_equal(l, r))
        set_mark(walk->arena, &node[MODIFIED]);
}

static void attach_sides(struct walk *walk, struct json node[SIDES], struct str element,
                         const struct json below[SIDES])
{
    for (int i = 0; i < SIDES; i++)
        if (below[i].len)
            set_attach(walk->arena, &node[i], element, &below[i]);
}

static void compare_item(struct walk *walk, struct typing typing, struct str element, const struct json *l,
                         const struct json *r, int mark, struct json node[SIDES])
{
    struct json below[SIDES] = {empty_object, empty_object, empty_object};

    if (mark < SIDES)
        set_mark(walk->arena, &below[mark]);
    if (l || r)
        compare(walk, typing_item(typing), l, r, ELSEWHERE, false, below);
    attach_sides(walk, node, element, below);
}

static void compare_lists(struct walk *walk, struct typing typing, const struct json *l, const struct json *r,
                          struct json node[SIDES])
{
    struct elements left = elements_of(walk, typing, l), right = elements_of(walk, typing, r);
    bool l_more, r_more;

    for (size_t i = 0; i < left.count; i++) {
        const struct json *lv = json_item(l, i), *rv;
        int64_t at;

        if (element_find(&left, left.v[i], &l_more) != (int64_t)i)
            continue;
        at = element_find(&right, left.v[i], &r_more);
        rv = at < 0 ? NULL : json_item(r, (size_t)at);
        if (l_more && r_more)
            compare_item(walk, typing, left.v[i], NULL, NULL, json_equal(l, r) ? SIDES : MODIFIED, node);
        else if (l_more)
            compare_item(walk, typing, left.v[i], NULL, rv, REMOVED, node);
        else if (r_more)
            compare_item(walk, typing, left.v[i], lv, NULL, ADDED, node);
        else
            compare_item(walk, typing, left.v[i], lv, rv, SIDES, node);
    }
    for (size_t i = 0; i < right.count; i++) {
        if (element_find(&right, right.v[i], &r_more) != (int64_t)i ||
            element_find(&left, right.v[i], &l_more) >= 0)
            continue;
        if (r_more)
            compare_item(walk, typing, right.v[i], NULL, NULL, ADDED, node);
        else
            compare_item(walk, typing, right.v[i], NULL, json_item(r, i), SIDES, node);
    }
}

/* What the zero value of the Go type has for an absent member; NULL: nothing. */
static const struct json *zero_member(struct typing typing, struct str name)
{
    if (typing.how == HOW_MESSAGE && (str_is(name, "metadata") || str_is(name, "spec") ||
                                      str_is(name, "status") || (typing.field && typing.field->required)))
        return &empty_object;
    if (typing.how == HOW_KEYED && typing.field->required)
        return &null_value;
    return NULL;
}

static void compare_members(struct walk *walk, struct typing typing, const struct json *l,
                            const struct json *r, enum level level, bool zero, struct json node[SIDES])
{
    l = l ? l : &empty_object;
    r = r ? r : &empty_object;
    walk->depth++;
    JSON_EACH_MEMBER(l, member) {
        struct str name = {member->key, member->key_len};
        struct json below[SIDES] = {empty_object, empty_object, empty_object};

        if (is_nobodys(walk, level, name))
            continue;
        compare(walk, typing_member(walk, typing, name), &member->value, json_get_str(r, name),
                level_below(level, name), false, below);
        attach_sides(walk, node, field_element(walk, name), below);
    }
    JSON_EACH_MEMBER(r, member) {
        struct str name = {member->key, member->key_len};
        struct json below[SIDES] = {empty_object, empty_object, empty_object};
        struct typing sub;
        const struct json *lv;

        if (is_nobodys(walk, level, name) || json_get_str(l, name))
            continue;
        sub = typing_member(walk, typing, name);
        if (sub.how == HOW_LEAF) { /* most fields of a new object */
            json_set_str(walk->arena, &node[ADDED], field_element(walk, name), empty_object);
            continue;
        }
        lv = zero ? zero_member(sub, name) : NULL;
        compare(walk, sub, lv, &member->value, level_below(level, name), lv != NULL, below);
        attach_sides(walk, node, field_element(walk, name), below);
    }
    walk->depth--;
}

static void compare(struct walk *walk, struct typing typing, const struct json *l, const struct json *r,
                    enum level level, bool zero, struct json node[SIDES])
{
    enum typing_how how = how_both(typing, l, r);

    if (how == HOW_LEAF || (!json_len(l) && !json_len(r))) {
        compare_leaf(walk, l, r, node);
        return;
    }
    if (!l)
        set_mark(walk->arena, &node[ADDED]);
    else if (!r)
        set_mark(walk->arena, &node[REMOVED]);
    if (how == HOW_KEYED || how == HOW_SET)
        compare_lists(walk, typing, l, r, node);
    else
        compare_members(walk, typing, l, r, level, zero, node);
}

void walk_compare(struct walk *walk, const struct schema_type *type, const struct json *before,
                  const struct json *after, struct comparison *ret)
{
    struct json node[SIDES] = {empty_object, empty_object, empty_object};

    compare(walk, typing_root(type), before ? before : &empty_object, after, AT_ROOT, !before, node);
    *ret = (struct comparison){node[ADDED], node[MODIFIED], node[REMOVED]};
}

/* ---- merging ---- */

static struct json merge(struct walk *walk, struct typing typing, const struct json *l, const struct json *r,
                         enum level level);

/* An applied value as it goes into the document: null members say that there is none. */
static struct json without_nulls(struct walk *walk, const struct json *value)
{
    struct json out = {.type = value->type};

    if (value->type != JSON_OBJECT && value->type != JSON_ARRAY)
        return *value;
    JSON_EACH(value, item)
        json_push(walk->arena, &out, without_nulls(walk, item));
    JSON_EACH_MEMBER(value, member)
        if (member->value.type != JSON_NULL)
            json_set_str(walk->arena, &out, (struct str){member->key, member->key_len},
                         without_nulls(walk, &member->value));
    return out;
}

/* Items both have take the place the applied list gives them; the others stay where they are, as far as
 * that goes: the order of Kubernetes' structured merge. */
static struct json merge_lists(struct walk *walk, struct typing typing, const struct json *l,
                               const struct json *r)
{
    struct elements left = elements_of(walk, typing, l), right = elements_of(walk, typing, r);
    struct json out = {.type = JSON_ARRAY};
    size_t *shared = arena_alloc(walk->arena, (right.count + 1) * sizeof(*shared));
    bool *taken = arena_zalloc(walk->arena, right.count + 1);
    size_t shared_count = 0, next = 0, li = 0, ri = 0;
    bool repeated;

    for (size_t i = 0; i < right.count; i++)
        if (element_find(&left, right.v[i], &repeated) >= 0)
            shared[shared_count++] = i;
    while (li < left.count || ri < right.count) {
        int64_t at = li < left.count ? element_find(&right, left.v[li], &repeated) : -1;

        if (li < left.count && ri < right.count && at != (int64_t)ri && at >= 0 && next < shared_count &&
            (int64_t)shared[next] != at) {
            li++; /* its turn comes with the applied list */
            continue;
        }
        if (li < left.count && at < 0) {
            json_push(walk->arena, &out, l->items->v[li++]);
            continue;
        }
        if (li < left.count && (at == (int64_t)ri || taken[at]))
            li++;
        if (ri < right.count) {
            int64_t partner = element_find(&left, right.v[ri], &repeated);

            taken[ri] = true;
            json_push(walk->arena, &out,
                      merge(walk, typing_item(typing), partner < 0 || repeated ? NULL : &l->items->v[partner],
                            &r->items->v[ri], ELSEWHERE));
            if (next < shared_count && shared[next] == ri)
                next++;
            ri++;
        }
    }
    return out;
}

static struct json merge_members(struct walk *walk, struct typing typing, const struct json *l,
                                 const struct json *r, enum level level)
{
    struct json out = {.type = JSON_OBJECT};

    walk->depth++;
    JSON_EACH_MEMBER(l, member) {
        struct str name = {member->key, member->key_len};
        const struct json *rv = json_get_str(r, name);

        if (!rv || (rv->type == JSON_NULL && is_nobodys(walk, level, name)))
            json_set_str(walk->arena, &out, name, member->value);
        else if (rv->type != JSON_NULL)
            json_set_str(
                walk->arena, &out, name,
                merge(walk, typing_member(walk, typing, name), &member->value, rv, level_below(level, name)));
    }
    JSON_EACH_MEMBER(r, member) {
        struct str name = {member->key, member->key_len};

        if (member->value.type != JSON_NULL && !json_get_str(l, name))
            json_set_str(walk->arena, &out, name, without_nulls(walk, &member->value));
    }
    walk->depth--;
    return out;
}

static struct json merge(struct walk *walk, struct typing typing, const struct json *l, const struct json *r,
                         enum level level)
{
    enum typing_how how = how_both(typing, l, r);

    if (how == HOW_LEAF || !l || !json_len(l))
        return without_nulls(walk, r);
    if (r->type == JSON_NULL || !json_len(r))
        return *l;
    if (how == HOW_KEYED || how == HOW_SET)
        return merge_lists(walk, typing, l, r);
    return merge_members(walk, typing, l, r, level);
}

struct json walk_merge(struct walk *walk, const struct schema_type *type, const struct json *live,
                       const struct json *applied)
{
    return merge(walk, typing_root(type), live, applied, AT_ROOT);
}

/* ---- removing ---- */

static struct json remove_from(struct walk *walk, struct typing typing, const struct json *value,
                               const struct json *set);

/* Puts what is left of a value into *ret; false: nothing is. */
static bool left_over(struct walk *walk, struct typing typing, const struct json *value,
                      const struct json *set, struct json *ret)
{
    *ret = *value;
    if (!set)
        return true;
    if (set_has(set))
        return false;
    *ret = remove_from(walk, typing, value, set);
    return ret->len || (value->type != JSON_OBJECT && value->type != JSON_ARRAY);
}

static struct json remove_from(struct walk *walk, struct typing typing, const struct json *value,
                               const struct json *set)
{
    enum typing_how how = how_both(typing, value, NULL);
    struct json out = {.type = value->type}, left;

    if (how == HOW_LEAF)
        return *value;
    if (how == HOW_KEYED || how == HOW_SET) {
        JSON_EACH(value, item)
            if (left_over(walk, typing_item(typing), item,
                          json_get_str(set, item_element(walk, typing, item)), &left))
                json_push(walk->arena, &out, left);
        return out;
    }
    walk->depth++;
    JSON_EACH_MEMBER(value, member) {
        struct str name = {member->key, member->key_len};

        if (left_over(walk, typing_member(walk, typing, name), &member->value,
                      json_get_str(set, field_element(walk, name)), &left))
            json_set_str(walk->arena, &out, name, left);
    }
    walk->depth--;
    return out;
}

struct json walk_remove(struct walk *walk, const struct schema_type *type, const struct json *doc,
                        const struct json *set)
{
    return remove_from(walk, typing_root(type), doc, set);
}

/* ---- checking ---- */

/* Where a check is, up to the document: put together only for messages. A name may be as long as a body. */
struct way {
    const struct way *up; /* NULL: the document */
    enum { WAY_FIELD, WAY_ELEMENT, WAY_INDEX } type;
    struct str name; /* of a field; of an element as it stands in a set */
    size_t index;
};

static void take_path(void *arg, const char *path)
{
    buf_puts(arg, path);
}

static void add_way(struct walk *walk, struct buf *out, const struct way *way)
{
    struct json one = {.type = JSON_OBJECT};

    if (!way)
        return;
    add_way(walk, out, way->up);
    switch (way->type) {
    case WAY_FIELD:
        buf_putc(out, '.');
        buf_str(out, way->name);
        break;
    case WAY_INDEX:
        buf_printf(out, "[%zu]", way->index);
        break;
    case WAY_ELEMENT:
        json_set_str(walk->arena, &one, way->name, empty_object);
        set_each_path(&one, take_path, out);
        break;
    }
}

/* "PATH: what is wrong", in the arena. */
__attribute__((format(printf, 3, 4))) static const char *wrong_at(struct walk *walk, const struct way *way,
                                                                  const char *fmt, ...)
{
    CLEANUP(buf_done) struct buf text = {0};
    va_list ap;

    add_way(walk, &text, way);
    buf_puts(&text, ": ");
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    return arena_strndup(walk->arena, text.data, text.len);
}

static const char *check(struct walk *walk, struct typing typing, const struct json *value,
                         const struct way *way);

static const char *check_item(struct walk *walk, struct typing typing, const struct json *item, size_t at,
                              const struct way *way)
{
    struct str rest, key;

    if (typing.how == HOW_SET) {
        if (item->type == JSON_OBJECT || item->type == JSON_ARRAY || item->type == JSON_NULL)
            return wrong_at(walk, way,
                            "element %zu: associative list without keys has an element "
                            "that's a map type",
                            at);
        return NULL;
    }
    if (item->type != JSON_OBJECT)
        return wrong_at(walk, way, "element %zu: associative list with keys may not have non-map elements",
                        at);
    rest = str_from(typing.field->apply_keys);
    while (str_split(&rest, ',', &key))
        if (!json_get_str(item, key) && key_default(typing.field, key).type == JSON_NULL)
            return wrong_at(walk, way,
                            "element %zu: associative list with keys has an element that omits key "
                            "field \"%.*s\" (and doesn't have default value)",
                            at, STR_ARG(key));
    return NULL;
}

static const char *check_list(struct walk *walk, struct typing typing, const struct json *list,
                              const struct way *way)
{
    struct elements elements;
    const char *wrong = NULL;
    bool repeated;

    for (size_t i = 0; i < list->len && !wrong; i++)
        wrong = check_item(walk, typing, &list->items->v[i], i, way);
    if (wrong)
        return wrong;
    elements = elements_of(walk, typing, list);
    for (size_t i = 0; i < elements.count && !wrong; i++) {
        struct way item = {.up = way, .type = WAY_ELEMENT, .name = elements.v[i]}, alone = item;
        CLEANUP(buf_done) struct buf name = {0};

        alone.up = NULL;
        element_find(&elements, elements.v[i], &repeated);
        if (repeated) {
            add_way(walk, &name, &alone);
            return wrong_at(walk, way, "duplicate entries for key %s", name.data);
        }
        wrong = check(walk, typing_item(typing), &list->items->v[i], &item);
    }
    return wrong;
}

static const char *undeclared(struct walk *walk, const struct way *way)
{
    return wrong_at(walk, way, "field not declared in schema");
}

static const char *check_whole(struct walk *walk, const struct schema_field *field, const struct json *value,
                               const struct way *way);

/* What lies below a value that is owned whole: only that its fields are there to be set. */
static const char *check_members(struct walk *walk, const struct schema_type *type, const struct json *value,
                                 const struct way *way)
{
    const char *wrong = NULL;

    JSON_EACH_MEMBER(value, member) {
        struct way below = {.up = way, .type = WAY_FIELD, .name = {member->key, member->key_len}};
        const struct schema_field *field = schema_field_find(type, below.name);

        if (!field && !type->inline_any)
            wrong = undeclared(walk, &below);
        else if (field && field->base == SCHEMA_MESSAGE)
            wrong = check_whole(walk, field, &member->value, &below);
        if (wrong)
            return wrong;
    }
    return NULL;
}

static const char *check_whole(struct walk *walk, const struct schema_field *field, const struct json *value,
                               const struct way *way)
{
    struct way item = {.up = way, .type = WAY_INDEX};
    const char *wrong = NULL;

    if (field->base != SCHEMA_MESSAGE)
        return NULL;
    if (field->shape == SCHEMA_ONE)
        return check_members(walk, field->type, value, way);
    JSON_EACH(value, it) {
        wrong = check_members(walk, field->type, it, &item);
        if (wrong)
            return wrong;
        item.index++;
    }
    JSON_EACH_MEMBER(value, member) {
        struct way below = {.up = way, .type = WAY_FIELD, .name = {member->key, member->key_len}};

        wrong = check_members(walk, field->type, &member->value, &below);
        if (wrong)
            return wrong;
    }
    return NULL;
}

static const char *check(struct walk *walk, struct typing typing, const struct json *value,
                         const struct way *way)
{
    enum typing_how how = how_both(typing, value, NULL);
    const char *wrong = NULL;

    if (how == HOW_UNKNOWN || value->type == JSON_NULL)
        return NULL;
    if (how == HOW_LEAF)
        return typing.field ? check_whole(walk, typing.field, value, way) : NULL;
    if (how == HOW_KEYED || how == HOW_SET)
        return check_list(walk, typing, value, way);
    JSON_EACH_MEMBER(value, member) {
        struct way below = {.up = way, .type = WAY_FIELD, .name = {member->key, member->key_len}};
        struct typing sub = typing_member(walk, typing, below.name);

        if (how == HOW_MESSAGE && !typing.type->inline_any && !typing_names(typing, below.name))
            wrong = undeclared(walk, &below);
        else if (sub.how != HOW_LEAF || (sub.field && sub.field->base == SCHEMA_MESSAGE))
            wrong = check(walk, sub, &member->value, &below);
        if (wrong)
            return wrong;
    }
    return NULL;
}

const char *walk_check(struct walk *walk, const struct schema_type *type, const struct json *doc)
{
    return check(walk, typing_root(type), doc, NULL);
}
