/* filters_seq.c - filters over sequences that answer at once. */
#include "jinja/filters.h"
#include "jinja/unicode.h"

/* ---- attributes of items ---- */

static bool all_digits(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.s[i] < '0' || s.s[i] > '9')
            return false;
    return s.len > 0;
}

static void add_parts(struct run *r, struct jlist *parts, struct str path)
{
    struct str one;
    int64_t index;

    if (path.len == 0)
        list_push(r, parts, JV_LIT(""));
    while (str_split(&path, '.', &one))
        list_push(r, parts, all_digits(one) && str_to_int(one, &index) ? JV_OF_INT(index) : jv_str(one));
}

int getter_init(struct run *r, struct jv attribute, bool lower, struct getter *ret)
{
    *ret = (struct getter){.parts = list_new(r, 2), .lower = lower};
    if (attribute.type == JV_STR)
        add_parts(r, ret->parts, jv_view(attribute));
    else if (attribute.type != JV_MISSING && attribute.type != JV_NONE)
        list_push(r, ret->parts, attribute);
    return 0;
}

int lower_case(struct run *r, struct jv v, struct jv *ret)
{
    struct text t;
    uint32_t i = 0;

    *ret = v;
    if (v.type != JV_STR)
        return 0;
    if (charge(r, v.len / TEXT_STEP) < 0)
        return -1;
    while (i < v.len && (unsigned char)v.s[i] < 0x80 && !(v.s[i] >= 'A' && v.s[i] <= 'Z'))
        i++;
    if (i == v.len)
        return 0;
    t = text_begin(r);
    unicode_map(&r->scratch, jv_view(v), UNI_TO_LOWER);
    if (charge(r, v.len / 4) < 0 || text_end(&t, ret) < 0)
        return -1;
    ret->flags = v.flags;
    return 0;
}

int getter_get(struct run *r, const struct getter *g, struct jv item, struct jv *ret)
{
    for (uint32_t i = 0; i < g->parts->len; i++) {
        if (get_item(r, item, g->parts->v[i], &item) < 0)
            return -1;
        if (item.type == JV_UNDEF && g->fallback.type != JV_MISSING)
            item = g->fallback;
    }
    *ret = item;
    return g->lower ? lower_case(r, item, ret) : 0;
}

/* ---- sorting ---- */

struct sorter {
    struct run *r;
    struct jv *items, *keys, *item_tmp, *key_tmp;
    bool reverse;
};

static int merge(struct sorter *s, size_t from, size_t mid, size_t to)
{
    size_t i = from, j = mid, k = from;

    memcpy(s->item_tmp + from, s->items + from, (to - from) * sizeof(struct jv));
    memcpy(s->key_tmp + from, s->keys + from, (to - from) * sizeof(struct jv));
    while (i < mid && j < to) {
        int right = s->reverse ? jv_cmp(s->r, s->key_tmp[i], s->key_tmp[j], CMP_LT)
                               : jv_cmp(s->r, s->key_tmp[j], s->key_tmp[i], CMP_LT);
        size_t take = right > 0 ? j++ : i++;

        if (right < 0 || charge(s->r, 1) < 0)
            return -1;
        s->items[k] = s->item_tmp[take];
        s->keys[k++] = s->key_tmp[take];
    }
    for (; i < mid; i++, k++) {
        s->items[k] = s->item_tmp[i];
        s->keys[k] = s->key_tmp[i];
    }
    for (; j < to; j++, k++) {
        s->items[k] = s->item_tmp[j];
        s->keys[k] = s->key_tmp[j];
    }
    return 0;
}

int sort_values(struct run *r, struct jv *items, struct jv *keys, size_t n, bool reverse)
{
    struct sorter s = {.r = r, .items = items, .keys = keys, .reverse = reverse};

    if (n < 2)
        return 0;
    s.item_tmp = run_alloc(r, n * sizeof(struct jv));
    s.key_tmp = run_alloc(r, n * sizeof(struct jv));
    for (size_t width = 1; width < n; width *= 2)
        for (size_t from = 0; from + width < n; from += 2 * width)
            if (merge(&s, from, from + width, from + 2 * width < n ? from + 2 * width : n) < 0)
                return -1;
    return 0;
}

/* Keys of several attributes, "a,b": a list each, as Jinja2 has it. */
static int multi_key(struct run *r, struct jv item, const struct getter *getters, size_t n, struct jv *ret)
{
    struct jlist *key = list_new(r, n);

    for (size_t i = 0; i < n; i++) {
        if (getter_get(r, &getters[i], item, &key->v[i]) < 0)
            return -1;
        key->len++;
    }
    *ret = jv_list(key);
    return 0;
}

#define SORT_ATTRS_MAX 16

static int filter_sort(struct run *r, struct call *c, struct jv *ret)
{
    struct getter getters[SORT_ATTRS_MAX];
    struct jlist *items, *keys;
    bool reverse, sensitive;
    size_t n = 0;
    struct str rest, one;

    if (arg_bool(r, c, 0, false, &reverse) < 0 || arg_bool(r, c, 1, false, &sensitive) < 0)
        return -1;
    if (c->a[2].type == JV_STR) {
        for (rest = jv_view(c->a[2]); n < SORT_ATTRS_MAX && str_split(&rest, ',', &one); n++)
            getter_init(r, jv_str(one), !sensitive, &getters[n]);
    } else {
        getter_init(r, c->a[2], !sensitive, &getters[n++]);
    }
    if (iter_list(r, c->self, &items) < 0)
        return -1;
    keys = list_new(r, items->len);
    for (uint32_t i = 0; i < items->len; i++)
        if (multi_key(r, items->v[i], getters, n, &keys->v[i]) < 0)
            return -1;
    *ret = jv_list(items);
    return sort_values(r, items->v, keys->v, items->len, reverse);
}

static int filter_dictsort(struct run *r, struct call *c, struct jv *ret)
{
    struct jlist *items, *keys;
    bool sensitive, reverse;
    int by = 0;

    if (arg_bool(r, c, 0, false, &sensitive) < 0 || arg_bool(r, c, 2, false, &reverse) < 0)
        return -1;
    if (c->a[1].type != JV_MISSING) {
        by = c->a[1].type == JV_STR && str_is(jv_view(c->a[1]), "value") ? 1
             : c->a[1].type == JV_STR && str_is(jv_view(c->a[1]), "key") ? 0
                                                                         : -1;
        if (by < 0)
            return raise(r, JINJA_FILTER_ARGUMENT_ERROR, "You can only sort by either \"key\" or \"value\"");
    }
    if (c->self.type == JV_UNDEF)
        return raise_undef(r, c->self);
    if (c->self.type != JV_DICT)
        return raise(r, JINJA_ATTRIBUTE_ERROR, "'%s' object has no attribute 'items'", jv_type_name(c->self));
    dict_expand(r, c->self.dict);
    if (check_items(r, c->self.dict->len) < 0)
        return -1;
    items = list_new(r, c->self.dict->len);
    keys = list_new(r, c->self.dict->len);
    for (uint32_t i = 0; i < c->self.dict->len; i++) {
        struct jentry e = c->self.dict->v[i];
        struct jv key = by ? e.value : e.key;

        list_push(r, items, jv_pair(r, e.key, e.value));
        if (!sensitive && lower_case(r, key, &key) < 0)
            return -1;
        list_push(r, keys, key);
    }
    *ret = jv_list(items);
    return sort_values(r, items->v, keys->v, items->len, reverse);
}

static int filter_min(struct run *r, struct call *c, struct jv *ret)
{
    bool sensitive, is_min = c->fn->name[1] == 'i';
    struct jv item, key, best_key = JV_NULL;
    struct getter g;
    struct jiter it;
    int more;

    if (arg_bool(r, c, 0, false, &sensitive) < 0 || getter_init(r, c->a[1], !sensitive, &g) < 0 ||
        iter_init(r, c->self, &it) < 0)
        return -1;
    *ret = JV_NULL;
    while ((more = iter_next(r, &it, &item)) == 1) {
        int better = 1;

        if (charge(r, 1) < 0 || getter_get(r, &g, item, &key) < 0)
            return -1;
        if (ret->type != JV_MISSING)
            better = jv_cmp(r, key, best_key, is_min ? CMP_LT : CMP_GT);
        if (better < 0)
            return -1;
        if (better) {
            *ret = item;
            best_key = key;
        }
    }
    if (ret->type == JV_MISSING)
        *ret = undef_hint(r, "No aggregated item, sequence was empty.");
    return more;
}

static int filter_groupby(struct run *r, struct call *c, struct jv *ret)
{
    struct jlist *items, *keys, *groups = list_new(r, 4), *group = NULL;
    struct getter g, plain;
    bool sensitive;

    if (arg_bool(r, c, 2, false, &sensitive) < 0 || getter_init(r, c->a[0], !sensitive, &g) < 0)
        return -1;
    g.fallback = c->a[1].type == JV_NONE ? JV_NULL : c->a[1];
    plain = g;
    plain.lower = false;
    if (iter_list(r, c->self, &items) < 0)
        return -1;
    keys = list_new(r, items->len);
    for (uint32_t i = 0; i < items->len; i++)
        if (getter_get(r, &g, items->v[i], &keys->v[i]) < 0)
            return -1;
    if (sort_values(r, items->v, keys->v, items->len, false) < 0)
        return -1;
    for (uint32_t i = 0; i < items->len; i++) {
        int same = i ? jv_eq(r, keys->v[i - 1], keys->v[i]) : 0;
        struct jv key, pair;

        if (same < 0 || getter_get(r, &plain, items->v[i], &key) < 0)
            return -1;
        if (!same) {
            group = list_new(r, 2);
            pair = jv_pair(r, key, jv_list(group));
            pair.flags = JV_GROUP;
            list_push(r, groups, pair);
        }
        list_push(r, group, items->v[i]);
    }
    *ret = jv_list(groups);
    return 0;
}

/* ---- joining, adding, picking ---- */

static int join_items(struct run *r, struct call *c, const struct getter *g, bool escape, struct str sep,
                      struct jv *ret)
{
    struct text t = text_begin(r);
    bool first = true;
    struct jiter it;
    struct jv item;
    int more;

    if (iter_init(r, c->self, &it) < 0)
        return -1;
    while ((more = iter_next(r, &it, &item)) == 1) {
        if (!first)
            buf_add(&r->scratch, sep.s, sep.len);
        first = false;
        if (getter_get(r, g, item, &item) < 0 || (escape && to_escaped(r, item, &item) < 0) ||
            put_str(r, &r->scratch, item) < 0 || text_check(&t) < 0 ||
            charge(r, 1 + (sep.len + jv_text_len(item)) / 64) < 0)
            break;
    }
    if (more < 0 || r->failed) {
        text_drop(&t);
        return -1;
    }
    return text_end(&t, ret);
}

static int filter_join(struct run *r, struct call *c, struct jv *ret)
{
    struct jv sep = c->a[0].type == JV_MISSING ? JV_LIT("") : c->a[0];
    bool escape = false;
    struct jlist *items;
    struct getter g;

    if (getter_init(r, c->a[1], false, &g) < 0)
        return -1;
    if (ctx_escapes(r)) { /* markup among them: all becomes markup */
        if (iter_list(r, c->self, &items) < 0)
            return -1;
        c->self = jv_list(items);
        escape = jv_is_markup(sep);
        for (uint32_t i = 0; i < items->len; i++) {
            if (getter_get(r, &g, items->v[i], &items->v[i]) < 0)
                return -1;
            escape = escape || jv_is_markup(items->v[i]);
        }
        g.parts = list_new(r, 0);
    }
    if (escape ? to_escaped(r, sep, &sep) < 0 : to_str(r, sep, &sep) < 0)
        return -1;
    if (join_items(r, c, &g, escape, jv_view(sep), ret) < 0)
        return -1;
    ret->flags = escape ? JV_MARKUP : 0;
    return 0;
}

static int filter_sum(struct run *r, struct call *c, struct jv *ret)
{
    struct jv total = c->a[1].type == JV_MISSING ? JV_OF_INT(0) : c->a[1], item;
    struct getter g;
    struct jiter it;
    int more;

    if (getter_init(r, c->a[0], false, &g) < 0 || iter_init(r, c->self, &it) < 0)
        return -1;
    if (total.type == JV_STR)
        return raise(r, JINJA_TYPE_ERROR, "sum() can't sum strings [use ''.join(seq) instead]");
    while ((more = iter_next(r, &it, &item)) == 1)
        if (charge(r, 1) < 0 || getter_get(r, &g, item, &item) < 0 ||
            arith(r, ARITH_ADD, total, item, &total) < 0)
            return -1;
    *ret = total;
    return more;
}

static int filter_first(struct run *r, struct call *c, struct jv *ret)
{
    struct jiter it;
    int more;

    if (iter_init(r, c->self, &it) < 0)
        return -1;
    more = iter_next(r, &it, ret);
    if (more == 0)
        *ret = undef_hint(r, "No first item, sequence was empty.");
    return more < 0 ? -1 : 0;
}

/* reversed(v): 1, 0 v cannot be reversed, -1 raised. */
static int reversed(struct run *r, struct jv v, struct jv *ret)
{
    struct jlist *list;
    struct jiter *it;

    switch (v.type) {
    case JV_UNDEF:
        if (undef_use(r, v) < 0)
            return -1;
        break;
    case JV_STR:
    case JV_LIST:
    case JV_TUPLE:
    case JV_DICT:
    case JV_VIEW:
    case JV_RANGE:
        break;
    default:
        return 0;
    }
    if (v.type == JV_LIST)
        list_expand(r, v.list), list = v.list;
    else if (iter_list(r, v, &list) < 0)
        return -1;
    it = RUN_NEW(r, struct jiter);
    it->kind = ITER_REVERSED;
    it->list = list;
    it->at = list->len;
    it->name = v.type == JV_LIST ? "list_reverseiterator" : "reversed";
    *ret = jv_iter(it);
    return 1;
}

static int filter_last(struct run *r, struct call *c, struct jv *ret)
{
    struct jv it;
    int ok = reversed(r, c->self, &it);

    if (ok == 0)
        return raise(r, JINJA_TYPE_ERROR, "'%s' object is not reversible", jv_type_name(c->self));
    if (ok < 0)
        return -1;
    ok = iter_next(r, it.iter, ret);
    if (ok == 0)
        *ret = undef_hint(r, "No last item, sequence was empty.");
    return ok < 0 ? -1 : 0;
}

static int filter_reverse(struct run *r, struct call *c, struct jv *ret)
{
    const struct jv none = JV_OF_NONE, backwards = JV_OF_INT(-1);
    struct jlist *list;
    int ok;

    if (c->self.type == JV_STR)
        return get_slice(r, c->self, none, none, backwards, ret);
    ok = reversed(r, c->self, ret);
    if (ok != 0)
        return ok < 0 ? -1 : 0;
    if (iter_list(r, c->self, &list) < 0) {
        if (r->err->kind == JINJA_TYPE_ERROR) { /* Jinja2 takes any for this one */
            r->failed = false;
            *r->err = (struct jinja_error){0};
            return raise(r, JINJA_FILTER_ARGUMENT_ERROR, "argument must be iterable");
        }
        return -1;
    }
    for (uint32_t i = 0, j = list->len; i + 1 < j; i++, j--) {
        struct jv v = list->v[i];

        list->v[i] = list->v[j - 1];
        list->v[j - 1] = v;
    }
    *ret = jv_list(list);
    return 0;
}

static int filter_length(struct run *r, struct call *c, struct jv *ret)
{
    int64_t n = jv_len(r, c->self);

    *ret = JV_OF_INT(n);
    return n < 0 ? -1 : 0;
}

static int filter_list(struct run *r, struct call *c, struct jv *ret)
{
    struct jlist *list;

    if (iter_list(r, c->self, &list) < 0)
        return -1;
    *ret = jv_list(list);
    return 0;
}

/* No randomness here: the first. */
static int filter_random(struct run *r, struct call *c, struct jv *ret)
{
    int64_t n = jv_len(r, c->self);

    if (n < 0)
        return -1;
    if (n == 0) {
        *ret = undef_hint(r, "No random item, sequence was empty.");
        return 0;
    }
    if (c->self.type != JV_LIST && c->self.type != JV_TUPLE && c->self.type != JV_STR &&
        c->self.type != JV_RANGE)
        return raise(r, JINJA_KEY_ERROR, "0");
    return get_item(r, c->self, JV_OF_INT(0), ret);
}

const struct native seq_filters[] = {
    {"count", filter_length, "", 0},
    {"dictsort", filter_dictsort, "case_sensitive by reverse", 0},
    {"first", filter_first, "", 0},
    {"groupby", filter_groupby, "attribute default case_sensitive", 1},
    {"join", filter_join, "d attribute", 0},
    {"last", filter_last, "", 0},
    {"length", filter_length, "", 0},
    {"list", filter_list, "", 0},
    {"max", filter_min, "case_sensitive attribute", 0},
    {"min", filter_min, "case_sensitive attribute", 0},
    {"random", filter_random, "", 0},
    {"reverse", filter_reverse, "", 0},
    {"sort", filter_sort, "reverse case_sensitive attribute", 0},
    {"sum", filter_sum, "attribute start", 0},
};
const size_t seq_filters_len = ARRAY_LEN(seq_filters);
