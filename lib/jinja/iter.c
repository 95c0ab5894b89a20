/* iter.c - drawing items from values one by one. */
#include "jinja/objects.h"
#include "jinja/run.h"
#include "jinja/unicode.h"

bool jv_is_iterable(struct jv v)
{
    switch (v.type) {
    case JV_UNDEF:
    case JV_STR:
    case JV_BYTES:
    case JV_LIST:
    case JV_TUPLE:
    case JV_DICT:
    case JV_RANGE:
    case JV_VIEW:
    case JV_ITER:
    case JV_LOOP:
        return true;
    default:
        return false;
    }
}

struct jv jv_iter(struct jiter *it)
{
    return (struct jv){.type = JV_ITER, .iter = it};
}

static void over_dict(struct run *r, struct jiter *it, struct jdict *dict, enum iter_kind kind)
{
    dict_expand(r, dict);
    it->kind = kind;
    it->dict = dict;
    it->seen_len = dict->len;
    it->name = kind == ITER_KEYS     ? "dict_keyiterator"
               : kind == ITER_VALUES ? "dict_valueiterator"
                                     : "dict_itemiterator";
}

static int loop_draw(struct run *r, struct jiter *it, struct jv *ret)
{
    struct jv item;
    int more = loop_next(r, it->state, &item);

    if (more == 1)
        *ret = jv_pair(r, item, (struct jv){.type = JV_LOOP, .loop = it->state});
    return more;
}

static int inner_draw(struct run *r, struct jiter *it, struct jv *ret)
{
    return iter_next(r, it->inner, ret);
}

int iter_init(struct run *r, struct jv v, struct jiter *it)
{
    *it = (struct jiter){.name = "generator"};
    switch (v.type) {
    case JV_LIST:
    case JV_TUPLE:
        list_expand(r, v.list);
        it->kind = ITER_LIST;
        it->list = v.list;
        it->name = v.type == JV_LIST ? "list_iterator" : "tuple_iterator";
        return 0;
    case JV_STR:
        it->kind = ITER_STR;
        it->str = jv_view(v);
        it->name = "str_iterator";
        return 0;
    case JV_DICT:
        over_dict(r, it, v.dict, ITER_KEYS);
        return 0;
    case JV_VIEW:
        over_dict(r, it, v.dict,
                  v.flags & JV_VIEW_ITEMS    ? ITER_ITEMS
                  : v.flags & JV_VIEW_VALUES ? ITER_VALUES
                                             : ITER_KEYS);
        return 0;
    case JV_RANGE:
        it->kind = ITER_RANGE;
        it->at = v.range->start;
        it->left = v.range->len;
        it->step = v.range->step;
        it->name = "range_iterator";
        return 0;
    case JV_UNDEF:
        it->kind = ITER_EMPTY;
        return undef_use(r, v);
    case JV_ITER: /* draws from the same iterator */
        it->kind = ITER_LAZY;
        it->next = inner_draw;
        it->inner = v.iter;
        return 0;
    case JV_LOOP:
        it->kind = ITER_LAZY;
        it->next = loop_draw;
        it->state = v.loop;
        return 0;
    case JV_BYTES:
        it->kind = ITER_RANGE; /* empty: bytes are not looked into */
        return 0;
    default:
        return raise(r, JINJA_TYPE_ERROR, "'%s' object is not iterable", jv_type_name(v));
    }
}

int iter_open(struct run *r, struct jv v, struct jiter **ret)
{
    if (v.type == JV_ITER) {
        *ret = v.iter;
        return 0;
    }
    *ret = run_alloc(r, sizeof(**ret));
    return iter_init(r, v, *ret);
}

struct jv iter_lazy(struct run *r, const char *name, struct jv source,
                    int (*next)(struct run *, struct jiter *, struct jv *), void *state)
{
    struct jiter *it = RUN_NEW(r, struct jiter);

    it->kind = ITER_LAZY;
    it->name = name;
    it->source = source;
    it->next = next;
    it->state = state;
    return jv_iter(it);
}

static int next_entry(struct run *r, struct jiter *it, struct jv *ret)
{
    const struct jentry *e;

    if (it->dict->len != it->seen_len)
        return raise(r, JINJA_PYTHON_RUNTIME_ERROR, "dictionary changed size during iteration");
    if (it->at >= it->dict->len)
        return 0;
    e = &it->dict->v[it->at++];
    *ret = it->kind == ITER_KEYS ? e->key : it->kind == ITER_VALUES ? e->value : jv_pair(r, e->key, e->value);
    return 1;
}

static int next_char(struct jiter *it, struct jv *ret)
{
    const char *start = it->str.s + it->at, *p = start, *end = it->str.s + it->str.len;

    if (start >= end)
        return 0;
    (void)utf8_next(&p, end);
    it->at += p - start;
    *ret = jv_str((struct str){start, (size_t)(p - start)});
    return 1;
}

int iter_next(struct run *r, struct jiter *it, struct jv *ret)
{
    int more;

    if (it->done)
        return 0;
    switch (it->kind) {
    case ITER_LIST:
        if (it->at < it->list->len) {
            *ret = it->list->v[it->at++];
            return 1;
        }
        break;
    case ITER_REVERSED:
        if (it->at > 0 && it->at <= it->list->len) {
            *ret = it->list->v[--it->at];
            return 1;
        }
        break;
    case ITER_STR:
        if (next_char(it, ret))
            return 1;
        break;
    case ITER_KEYS:
    case ITER_VALUES:
    case ITER_ITEMS:
        more = next_entry(r, it, ret);
        if (more != 0)
            return more;
        break;
    case ITER_RANGE:
        if (it->left > 0) {
            *ret = JV_OF_INT(it->at);
            it->at = (int64_t)((uint64_t)it->at + (uint64_t)it->step); /* past the last it may not fit */
            it->left--;
            return 1;
        }
        break;
    case ITER_EMPTY:
        break;
    case ITER_LAZY:
        if (run_enter(r) < 0)
            return -1;
        more = it->next(r, it, ret);
        run_leave(r);
        if (more != 0)
            return more;
        break;
    }
    it->done = true;
    return 0;
}

int iter_list(struct run *r, struct jv v, struct jlist **ret)
{
    struct jlist *list;
    struct jiter it;
    struct jv item;
    int more;

    if (v.type == JV_LIST || v.type == JV_TUPLE) {
        list_expand(r, v.list);
        if (check_items(r, v.list->len) < 0)
            return -1;
        list = list_new(r, v.list->len);
        list->len = v.list->len;
        if (list->len)
            memcpy(list->v, v.list->v, list->len * sizeof(*list->v));
        *ret = list;
        return 0;
    }
    if (iter_init(r, v, &it) < 0)
        return -1;
    list = list_new(r, 0);
    while ((more = iter_next(r, &it, &item)) == 1) {
        list_push(r, list, item);
        if (charge(r, 1) < 0)
            return -1;
    }
    *ret = list;
    return more;
}
