/* value.c - lists, JSON wrapping, truth, length and names of values. Dicts are in dict.c, comparing in
 * compare.c. */
#include "jinja/value.h"

#include "jinja/objects.h"
#include "jinja/run.h"
#include "jinja/unicode.h"

#include <stdio.h>

struct jv jv_list(struct jlist *list)
{
    return (struct jv){.type = JV_LIST, .list = list};
}

struct jv jv_tuple(struct jlist *list)
{
    return (struct jv){.type = JV_TUPLE, .list = list};
}

struct jv jv_dict(struct jdict *dict)
{
    return (struct jv){.type = JV_DICT, .dict = dict};
}

static struct jv big_from_text(struct run *r, const struct json *json)
{
    struct jv v;

    if (num_parse_int(r, (struct str){json->string, json->len}, 10, &v) <= 0)
        return JV_OF_NONE;
    return v;
}

struct jv jv_from_json(struct run *r, const struct json *json)
{
    struct jlist *list;
    struct jdict *dict;

    switch ((enum json_type)json->type) {
    case JSON_NULL:
        return JV_OF_NONE;
    case JSON_BOOL:
        return JV_OF_BOOL(json->boolean);
    case JSON_INT:
        return JV_OF_INT(json->integer);
    case JSON_BIG:
        return big_from_text(r, json);
    case JSON_REAL:
        return JV_OF_REAL(json->real);
    case JSON_STRING:
        return jv_str((struct str){json->string, json->len});
    case JSON_ARRAY:
        list = RUN_NEW(r, struct jlist);
        list->len = json->len;
        list->src = json->len ? json : NULL;
        return jv_list(list);
    case JSON_OBJECT:
        break;
    }
    dict = RUN_NEW(r, struct jdict);
    dict->len = json->len;
    dict->src = json->len ? json : NULL;
    return jv_dict(dict);
}

struct jlist *list_new(struct run *r, size_t cap)
{
    struct jlist *list = RUN_NEW(r, struct jlist);

    list->cap = (uint32_t)cap;
    list->v = cap ? run_alloc(r, cap * sizeof(*list->v)) : NULL;
    return list;
}

void list_expand(struct run *r, struct jlist *list)
{
    const struct json *src = list->src;

    if (!src)
        return;
    list->src = NULL;
    list->cap = list->len;
    list->v = run_alloc(r, list->len * sizeof(*list->v));
    for (uint32_t i = 0; i < list->len; i++)
        list->v[i] = jv_from_json(r, &src->items->v[i]);
}

void list_push(struct run *r, struct jlist *list, struct jv v)
{
    if (list->src)
        list_expand(r, list);
    if (list->len == list->cap) {
        uint32_t cap = list->cap ? list->cap * 2 : 4;
        struct jv *grown = run_alloc(r, cap * sizeof(*grown));

        if (list->len)
            memcpy(grown, list->v, list->len * sizeof(*grown));
        list->v = grown;
        list->cap = cap;
    }
    list->v[list->len++] = v;
}

struct jv jv_pair(struct run *r, struct jv a, struct jv b)
{
    struct jlist *pair = list_new(r, 2);

    pair->v[0] = a;
    pair->v[1] = b;
    pair->len = 2;
    return jv_tuple(pair);
}

static const char *const type_names[] = {
    [JV_MISSING] = "missing",
    [JV_UNDEF] = "Undefined",
    [JV_NONE] = "NoneType",
    [JV_BOOL] = "bool",
    [JV_INT] = "int",
    [JV_BIG] = "int",
    [JV_FLOAT] = "float",
    [JV_STR] = "str",
    [JV_LIST] = "list",
    [JV_TUPLE] = "tuple",
    [JV_DICT] = "dict",
    [JV_RANGE] = "range",
    [JV_VIEW] = "dict_keys",
    [JV_ITER] = "generator",
    [JV_NS] = "Namespace",
    [JV_LOOP] = "LoopContext",
    [JV_MACRO] = "Macro",
    [JV_METHOD] = "builtin_function_or_method",
    [JV_FUNC] = "function",
    [JV_CYCLER] = "Cycler",
    [JV_JOINER] = "Joiner",
    [JV_MODULE] = "TemplateModule",
    [JV_SELF] = "TemplateReference",
    [JV_BLOCK] = "BlockReference",
    [JV_BYTES] = "bytes",
};

const char *jv_type_name(struct jv v)
{
    switch (v.type) {
    case JV_STR:
        return v.flags & JV_MARKUP ? "Markup" : "str";
    case JV_TUPLE:
        return v.flags & JV_GROUP ? "_GroupTuple" : "tuple";
    case JV_VIEW:
        if (v.flags & JV_SET)
            return "set";
        return v.flags & JV_VIEW_ITEMS    ? "dict_items"
               : v.flags & JV_VIEW_VALUES ? "dict_values"
                                          : "dict_keys";
    case JV_ITER:
        return v.iter->name;
    default:
        return type_names[v.type];
    }
}

const char *jv_object_name(struct jv v)
{
    switch (v.type) {
    case JV_NONE:
        return "None";
    case JV_BOOL:
        return "bool object";
    case JV_INT:
    case JV_BIG:
        return "int object";
    case JV_FLOAT:
        return "float object";
    case JV_STR:
        return v.flags & JV_MARKUP ? "markupsafe.Markup object" : "str object";
    case JV_LIST:
        return "list object";
    case JV_TUPLE:
        return v.flags & JV_GROUP ? "jinja2.filters._GroupTuple object" : "tuple object";
    case JV_DICT:
        return "dict object";
    case JV_RANGE:
        return "range object";
    case JV_NS:
        return "jinja2.utils.Namespace object";
    case JV_CYCLER:
        return "jinja2.utils.Cycler object";
    case JV_JOINER:
        return "jinja2.utils.Joiner object";
    case JV_LOOP:
        return "jinja2.runtime.LoopContext object";
    case JV_MACRO:
        return "jinja2.runtime.Macro object";
    case JV_MODULE:
        return "jinja2.environment.TemplateModule object";
    case JV_SELF:
        return "jinja2.runtime.TemplateReference object";
    case JV_BLOCK:
        return "jinja2.runtime.BlockReference object";
    case JV_UNDEF:
        return "jinja2.runtime.Undefined object";
    case JV_VIEW:
        return v.flags & JV_SET           ? "set object"
               : v.flags & JV_VIEW_ITEMS  ? "dict_items object"
               : v.flags & JV_VIEW_VALUES ? "dict_values object"
                                          : "dict_keys object";
    case JV_METHOD:
        return "builtin_function_or_method object";
    case JV_FUNC:
        return "function object";
    case JV_BYTES:
        return "bytes object";
    default:
        return "generator object";
    }
}

int jv_truth(struct run *r, struct jv v)
{
    switch (v.type) {
    case JV_MISSING:
    case JV_NONE:
        return 0;
    case JV_UNDEF:
        return undef_use(r, v);
    case JV_BOOL:
        return v.b;
    case JV_INT:
        return v.i != 0;
    case JV_FLOAT:
        return v.d != 0;
    case JV_STR:
    case JV_BYTES:
        return v.len != 0;
    case JV_LIST:
    case JV_TUPLE:
        return v.list->len != 0;
    case JV_DICT:
    case JV_VIEW:
        return v.dict->len != 0;
    case JV_RANGE:
        return v.range->len != 0;
    case JV_LOOP: {
        int64_t n = loop_length(r, v.loop);

        return n < 0 ? -1 : n != 0;
    }
    default:
        return 1;
    }
}

int64_t jv_len(struct run *r, struct jv v)
{
    switch (v.type) {
    case JV_STR:
        if (charge(r, v.len / 64) < 0)
            return -1;
        return (int64_t)utf8_count(jv_view(v));
    case JV_BYTES:
        return v.len;
    case JV_LIST:
    case JV_TUPLE:
        return v.list->len;
    case JV_DICT:
    case JV_VIEW:
        return v.dict->len;
    case JV_RANGE:
        return v.range->len;
    case JV_UNDEF:
        return undef_use(r, v);
    case JV_LOOP:
        return loop_length(r, v.loop);
    default:
        return raise(r, JINJA_TYPE_ERROR, "object of type '%s' has no len()", jv_type_name(v));
    }
}

bool jv_same(struct jv a, struct jv b)
{
    if (a.type != b.type)
        return false;
    switch (a.type) {
    case JV_NONE:
        return true;
    case JV_BOOL:
        return a.b == b.b;
    case JV_INT:
        return a.i == b.i && a.i >= -5 && a.i <= 256; /* CPython keeps one object of each of these */
    case JV_FLOAT:
        return false;
    case JV_STR:
        return a.s == b.s && a.len == b.len && a.flags == b.flags;
    case JV_VIEW:
        return false;
    default:
        return a.i == b.i;
    }
}
