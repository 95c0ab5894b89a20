/* filters_lazy.c - filters that are generators: nothing happens, not even an error, until items are drawn. */
#include "jinja/filters.h"

struct lazy {
    struct jlist *pos, *kwname, *kwval; /* the filter's arguments, kept */
    struct getter getter;
    struct jv name; /* of the filter or test to apply; JV_MISSING: truth */
    struct jlist *args;
    struct jdict *seen;
    struct jlist *items; /* slice: all of them */
    int64_t count, at, offset;
    struct jv fill;
    bool attr, reject, opened, has_getter, lower;
    struct jv attribute;
};

static struct lazy *lazy_new(struct run *r, const struct call *c)
{
    struct lazy *z = RUN_NEW(r, struct lazy);

    z->pos = list_new(r, c->npos);
    z->kwname = list_new(r, c->nkw);
    z->kwval = list_new(r, c->nkw);
    for (uint32_t i = 0; i < c->npos; i++)
        list_push(r, z->pos, c->pos[i]);
    for (uint32_t i = 0; i < c->nkw; i++) {
        list_push(r, z->kwname, c->kwname[i]);
        list_push(r, z->kwval, c->kwval[i]);
    }
    return z;
}

/* Opens the source on the first draw. 1 go on, 0 it is falsy: nothing comes. */
static int open_source(struct run *r, struct jiter *it, bool check_truth)
{
    int truth = check_truth ? jv_truth(r, it->source) : 1;

    if (truth <= 0)
        return truth;
    return iter_open(r, it->source, &it->inner) < 0 ? -1 : 1;
}

/* ---- map ---- */

static int map_prepare(struct run *r, struct lazy *z)
{
    if (z->pos->len == 0) {
        struct jv attribute = JV_NULL, fallback = JV_NULL;

        for (uint32_t i = 0; i < z->kwname->len; i++)
            if (str_is(jv_view(z->kwname->v[i]), "attribute"))
                attribute = z->kwval->v[i];
        if (attribute.type == JV_MISSING)
            return raise(r, JINJA_FILTER_ARGUMENT_ERROR, "map requires a filter argument");
        for (uint32_t i = 0; i < z->kwname->len; i++) {
            if (str_is(jv_view(z->kwname->v[i]), "default"))
                fallback = z->kwval->v[i];
            else if (!str_is(jv_view(z->kwname->v[i]), "attribute"))
                return raise(r, JINJA_FILTER_ARGUMENT_ERROR, "Unexpected keyword argument '%.*s'",
                             STR_ARG(jv_view(z->kwname->v[i])));
        }
        z->has_getter = true;
        getter_init(r, attribute, false, &z->getter);
        z->getter.fallback = fallback.type == JV_NONE ? JV_NULL : fallback;
        return 0;
    }
    z->name = z->pos->v[0];
    return 0;
}

static int map_next(struct run *r, struct jiter *it, struct jv *ret)
{
    struct lazy *z = it->state;
    struct jv item;
    struct call c = {0};
    int more;

    if (!z->opened) {
        z->opened = true;
        more = jv_truth(r, it->source);
        if (more <= 0)
            return more;
        if (map_prepare(r, z) < 0 || iter_open(r, it->source, &it->inner) < 0)
            return -1;
    }
    if (!it->inner)
        return 0;
    more = iter_next(r, it->inner, &item);
    if (more <= 0 || charge(r, 1) < 0)
        return more <= 0 ? more : -1;
    if (z->has_getter)
        return getter_get(r, &z->getter, item, ret) < 0 ? -1 : 1;
    c.self = item;
    c.pos = z->pos->v + 1;
    c.npos = z->pos->len - 1;
    c.kwname = z->kwname->v;
    c.kwval = z->kwval->v;
    c.nkw = z->kwname->len;
    if (z->name.type != JV_STR)
        return raise(r, JINJA_RUNTIME_ERROR, "No filter named %s.", repr_brief(r, z->name));
    return filter_call(r, jv_view(z->name), &c, ret) < 0 ? -1 : 1;
}

static int filter_map(struct run *r, struct call *c, struct jv *ret)
{
    *ret = iter_lazy(r, "generator", c->self, map_next, lazy_new(r, c));
    return 0;
}

/* ---- select and its kin ---- */

static int select_prepare(struct run *r, struct lazy *z)
{
    uint32_t used = z->attr;

    if (z->attr) {
        if (z->pos->len == 0)
            return raise(r, JINJA_FILTER_ARGUMENT_ERROR, "Missing parameter for attribute name");
        getter_init(r, z->pos->v[0], false, &z->getter);
    }
    if (z->pos->len > used)
        z->name = z->pos->v[used];
    return 0;
}

static int select_test(struct run *r, struct lazy *z, struct jv item)
{
    struct call c = {0};
    struct jv result;
    uint32_t used = 1 + z->attr;

    if (z->attr && getter_get(r, &z->getter, item, &item) < 0)
        return -1;
    if (z->name.type == JV_MISSING)
        return jv_truth(r, item);
    c.self = item;
    c.pos = z->pos->v + used;
    c.npos = z->pos->len - used;
    c.kwname = z->kwname->v;
    c.kwval = z->kwval->v;
    c.nkw = z->kwname->len;
    if (z->name.type != JV_STR)
        return raise(r, JINJA_RUNTIME_ERROR, "No test named %s.", repr_brief(r, z->name));
    return test_call(r, jv_view(z->name), &c, &result) < 0 ? -1 : jv_truth(r, result);
}

static int select_next(struct run *r, struct jiter *it, struct jv *ret)
{
    struct lazy *z = it->state;
    struct jv item;
    int more, keep;

    if (!z->opened) {
        z->opened = true;
        more = jv_truth(r, it->source);
        if (more <= 0)
            return more;
        if (select_prepare(r, z) < 0 || iter_open(r, it->source, &it->inner) < 0)
            return -1;
    }
    if (!it->inner)
        return 0;
    while ((more = iter_next(r, it->inner, &item)) == 1) {
        keep = charge(r, 1) < 0 ? -1 : select_test(r, z, item);
        if (keep < 0)
            return -1;
        if (keep != z->reject) {
            *ret = item;
            return 1;
        }
    }
    return more;
}

static int filter_select(struct run *r, struct call *c, struct jv *ret)
{
    struct lazy *z = lazy_new(r, c);

    z->attr = str_ends(str_from(c->fn->name), "attr");
    z->reject = c->fn->name[0] == 'r';
    *ret = iter_lazy(r, "generator", c->self, select_next, z);
    return 0;
}

/* ---- unique, batch, slice, items ---- */

static int unique_next(struct run *r, struct jiter *it, struct jv *ret)
{
    struct lazy *z = it->state;
    struct jv key, unused;
    int more, seen;

    if (!it->inner && (more = open_source(r, it, false)) <= 0)
        return more;
    if (!z->seen) {
        z->seen = dict_new(r, 8);
        getter_init(r, z->attribute, z->lower, &z->getter);
    }
    while ((more = iter_next(r, it->inner, ret)) == 1) {
        if (charge(r, 1) < 0 || getter_get(r, &z->getter, *ret, &key) < 0)
            return -1;
        seen = dict_get(r, z->seen, key, &unused);
        if (seen < 0)
            return -1;
        if (!seen)
            return dict_set(r, z->seen, key, JV_OF_NONE) < 0 ? -1 : 1;
    }
    return more;
}

static int filter_unique(struct run *r, struct call *c, struct jv *ret)
{
    struct lazy *z = RUN_NEW(r, struct lazy);
    bool sensitive;

    if (arg_bool(r, c, 0, false, &sensitive) < 0)
        return -1;
    z->lower = !sensitive;
    z->attribute = c->a[1];
    *ret = iter_lazy(r, "generator", c->self, unique_next, z);
    return 0;
}

static int batch_next(struct run *r, struct jiter *it, struct jv *ret)
{
    struct lazy *z = it->state;
    struct jlist *row;
    struct jv item;
    int more = 1;

    if (!it->inner && (more = open_source(r, it, false)) <= 0)
        return more;
    row = list_new(r, 4);
    while ((int64_t)row->len != z->count || row->len == 0) {
        more = iter_next(r, it->inner, &item);
        if (more != 1)
            break;
        list_push(r, row, item);
        if (charge(r, 1) < 0)
            return -1;
    }
    if (more < 0 || row->len == 0)
        return more < 0 ? -1 : 0;
    if (more == 0 && z->fill.type != JV_MISSING && z->fill.type != JV_NONE) {
        if (check_items(r, z->count - row->len) < 0)
            return -1;
        while ((int64_t)row->len < z->count)
            list_push(r, row, z->fill);
    }
    *ret = jv_list(row);
    return 1;
}

static int filter_batch(struct run *r, struct call *c, struct jv *ret)
{
    struct lazy *z = RUN_NEW(r, struct lazy);

    if (c->a[0].type == JV_FLOAT)
        z->count = (int64_t)c->a[0].d == c->a[0].d ? (int64_t)c->a[0].d : -1;
    else if (jv_is_int(c->a[0]) && to_index(r, c->a[0], &z->count) < 0)
        return -1;
    if (!jv_is_number(c->a[0]))
        z->count = -1; /* never equal: one row of all */
    z->fill = c->a[1];
    *ret = iter_lazy(r, "generator", c->self, batch_next, z);
    return 0;
}

static int slice_next(struct run *r, struct jiter *it, struct jv *ret)
{
    struct lazy *z = it->state;
    int64_t per, extra, start, end;
    struct jlist *part;

    if (!z->items) {
        if (iter_list(r, it->source, &z->items) < 0)
            return -1;
        if (to_index(r, z->attribute, &z->count) < 0)
            return -1;
        if (z->count == 0)
            return raise(r, JINJA_ZERO_DIVISION_ERROR, "integer division or modulo by zero");
    }
    if (z->at >= z->count || charge(r, 1) < 0)
        return r->failed ? -1 : 0;
    per = z->items->len / z->count;
    extra = z->items->len % z->count;
    start = z->offset + z->at * per;
    if (z->at < extra)
        z->offset++;
    end = z->offset + (z->at + 1) * per;
    part = list_new(r, (size_t)(end - start) + 1);
    for (int64_t i = start; i < end; i++)
        list_push(r, part, z->items->v[i]);
    if (z->fill.type != JV_MISSING && z->fill.type != JV_NONE && z->at >= extra)
        list_push(r, part, z->fill);
    z->at++;
    *ret = jv_list(part);
    return 1;
}

static int filter_slice(struct run *r, struct call *c, struct jv *ret)
{
    struct lazy *z = RUN_NEW(r, struct lazy);

    z->attribute = c->a[0];
    z->fill = c->a[1];
    *ret = iter_lazy(r, "generator", c->self, slice_next, z);
    return 0;
}

static int items_next(struct run *r, struct jiter *it, struct jv *ret)
{
    if (!it->inner) {
        if (it->source.type == JV_UNDEF)
            return 0;
        if (it->source.type != JV_DICT)
            return raise(r, JINJA_TYPE_ERROR, "Can only get item pairs from a mapping.");
        it->source = (struct jv){.type = JV_VIEW, .flags = JV_VIEW_ITEMS, .dict = it->source.dict};
        if (iter_open(r, it->source, &it->inner) < 0)
            return -1;
    }
    return iter_next(r, it->inner, ret);
}

static int filter_items(struct run *r, struct call *c, struct jv *ret)
{
    *ret = iter_lazy(r, "generator", c->self, items_next, NULL);
    return 0;
}

const struct native lazy_filters[] = {
    {"batch", filter_batch, "linecount fill_with", 1},
    {"items", filter_items, "", 0},
    {"map", filter_map, "*", 0},
    {"reject", filter_select, "*", 0},
    {"rejectattr", filter_select, "*", 0},
    {"select", filter_select, "*", 0},
    {"selectattr", filter_select, "*", 0},
    {"slice", filter_slice, "slices fill_with", 1},
    {"unique", filter_unique, "case_sensitive attribute", 0},
};
const size_t lazy_filters_len = ARRAY_LEN(lazy_filters);
