/* globals.c - the functions every template has: cycler, dict, joiner, namespace, range. */
#include "jinja/bigint.h"
#include "jinja/methods.h"
#include "jinja/run.h"

static int global_cycler(struct run *r, struct call *c, struct jv *ret)
{
    struct jcycler *cycler = RUN_NEW(r, struct jcycler);

    if (c->nkw)
        return raise(r, JINJA_TYPE_ERROR, "Cycler.__init__() got an unexpected keyword argument '%.*s'",
                     STR_ARG(jv_view(c->kwname[0])));
    if (!c->npos)
        return raise(r, JINJA_PYTHON_RUNTIME_ERROR, "at least one item has to be provided");
    cycler->items = list_new(r, c->npos);
    for (uint32_t i = 0; i < c->npos; i++)
        list_push(r, cycler->items, c->pos[i]);
    *ret = (struct jv){.type = JV_CYCLER, .cycler = cycler};
    return 0;
}

static int global_dict(struct run *r, struct call *c, struct jv *ret)
{
    struct jdict *dict = dict_new(r, c->nkw);

    *ret = jv_dict(dict);
    return dict_update(r, dict, c, "dict");
}

static int global_joiner(struct run *r, struct call *c, struct jv *ret)
{
    struct jjoiner *joiner = RUN_NEW(r, struct jjoiner);

    joiner->sep = c->a[0].type == JV_MISSING ? JV_LIT(", ") : c->a[0];
    *ret = (struct jv){.type = JV_JOINER, .joiner = joiner};
    return 0;
}

static int global_namespace(struct run *r, struct call *c, struct jv *ret)
{
    struct jdict *dict = dict_new(r, c->nkw);

    *ret = (struct jv){.type = JV_NS, .dict = dict};
    return dict_update(r, dict, c, "dict");
}

static int range_arg(struct run *r, struct jv v, int64_t *ret)
{
    if (v.type == JV_UNDEF && !r->strict)
        return raise(r, JINJA_TYPE_ERROR, "'Undefined' object cannot be interpreted as an integer");
    return to_index(r, v, ret);
}

static int global_range(struct run *r, struct call *c, struct jv *ret)
{
    struct jrange *range = RUN_NEW(r, struct jrange);
    bool one = c->a[1].type == JV_MISSING;

    range->step = 1;
    if (range_arg(r, c->a[0], one ? &range->stop : &range->start) < 0 ||
        (!one && range_arg(r, c->a[1], &range->stop) < 0) ||
        (c->a[2].type != JV_MISSING && range_arg(r, c->a[2], &range->step) < 0))
        return -1;
    if (range->step == 0)
        return raise(r, JINJA_VALUE_ERROR, "range() arg 3 must not be zero");
    if (range->step > 0 && range->start < range->stop)
        range->len = (range->stop - range->start - 1) / range->step + 1;
    if (range->step < 0 && range->start > range->stop)
        range->len = (range->start - range->stop - 1) / -range->step + 1;
    if ((uint64_t)range->len > r->limits->range_items)
        return raise(r, JINJA_OVERFLOW_ERROR,
                     "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%llu).",
                     (unsigned long long)r->limits->range_items);
    *ret = (struct jv){.type = JV_RANGE, .range = range};
    return 0;
}

static const struct native globals[] = {
    {"cycler", global_cycler, "*", 0},
    {"dict", global_dict, "*", 0},
    {"joiner", global_joiner, "sep", 0},
    {"namespace", global_namespace, "*", 0},
    {"range", global_range, "/start stop step", 1},
};

const struct native *global_find(struct str name)
{
    return native_find(globals, ARRAY_LEN(globals), name);
}
