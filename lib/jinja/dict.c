/* dict.c - dicts that keep insertion order: entries in an array, an index of hashes beside it once there
 * are more than a few. Keys compare as Python's: 1, 1.0 and true are one key. */
#include "jinja/run.h"
#include "jinja/value.h"

#define DICT_LINEAR 8 /* entries up to which a scan beats a hash */

struct jdict *dict_new(struct run *r, size_t cap)
{
    struct jdict *dict = RUN_NEW(r, struct jdict);

    dict->cap = (uint32_t)cap;
    dict->v = cap ? run_alloc(r, cap * sizeof(*dict->v)) : NULL;
    return dict;
}

static void index_add(struct jdict *dict, uint64_t hash, uint32_t at)
{
    uint32_t i = (uint32_t)hash & dict->mask;

    while (dict->index[i])
        i = (i + 1) & dict->mask;
    dict->index[i] = at + 1;
}

static void index_build(struct run *r, struct jdict *dict)
{
    uint32_t size = 32;
    uint64_t hash = 0;

    while (size < dict->cap * 2)
        size *= 2;
    if (!dict->index || dict->mask != size - 1) {
        dict->index = run_alloc(r, size * sizeof(*dict->index));
        dict->mask = size - 1;
    }
    memset(dict->index, 0, size * sizeof(*dict->index));
    for (uint32_t i = 0; i < dict->len; i++) {
        (void)jv_hash(r, dict->v[i].key, &hash);
        index_add(dict, hash, i);
    }
}

void dict_expand(struct run *r, struct jdict *dict)
{
    const struct json *src = dict->src;

    if (!src)
        return;
    dict->src = NULL;
    dict->cap = dict->len;
    dict->v = run_alloc(r, dict->len * sizeof(*dict->v));
    for (uint32_t i = 0; i < dict->len; i++) {
        const struct json_member *m = &src->members->v[i];

        dict->v[i].key = jv_str((struct str){m->key, m->key_len});
        dict->v[i].value = jv_from_json(r, &m->value);
    }
    if (dict->len > DICT_LINEAR)
        index_build(r, dict);
}

/* A member that is no container is read straight from the JSON. */
static bool src_get(struct run *r, struct jdict *dict, struct str key, struct jv *ret)
{
    const struct json *src = dict->src;
    const struct json *value = NULL;

    if (src->len <= DICT_LINEAR) {
        const struct json_member *m = src->members->v, *end = m + src->len;

        for (; m < end; m++)
            if (m->key_len == key.len && memcmp(m->key, key.s, key.len) == 0) {
                value = &m->value;
                break;
            }
    } else {
        value = json_get_str(src, key);
    }
    if (!value)
        return false;
    if (value->type == JSON_ARRAY || value->type == JSON_OBJECT) {
        dict_expand(r, dict); /* so that it is wrapped once only */
        return dict_get_str(r, dict, key, ret);
    }
    *ret = jv_from_json(r, value);
    return true;
}

static int64_t find_str(struct jdict *dict, struct str key)
{
    if (!dict->index) {
        for (uint32_t i = 0; i < dict->len; i++)
            if (dict->v[i].key.type == JV_STR && dict->v[i].key.len == key.len &&
                memcmp(dict->v[i].key.s, key.s, key.len) == 0)
                return i;
        return -1;
    }
    for (uint32_t i = (uint32_t)str_hash(key) & dict->mask; dict->index[i]; i = (i + 1) & dict->mask) {
        struct jv k = dict->v[dict->index[i] - 1].key;

        if (k.type == JV_STR && k.len == key.len && memcmp(k.s, key.s, key.len) == 0)
            return dict->index[i] - 1;
    }
    return -1;
}

bool dict_get_str(struct run *r, struct jdict *dict, struct str key, struct jv *ret)
{
    int64_t at;

    if (dict->src)
        return src_get(r, dict, key, ret);
    at = find_str(dict, key);
    if (at < 0)
        return false;
    *ret = dict->v[at].value;
    return true;
}

/* The place of key; -1 not there, -2 raised. */
static int64_t find(struct run *r, struct jdict *dict, struct jv key)
{
    uint64_t hash;
    int same;

    if (key.type == JV_STR) {
        dict_expand(r, dict);
        return find_str(dict, jv_view(key));
    }
    if (jv_hash(r, key, &hash) < 0)
        return -2;
    dict_expand(r, dict);
    if (!dict->index) {
        for (uint32_t i = 0; i < dict->len; i++) {
            same = key.type == JV_STR && dict->v[i].key.type != JV_STR ? 0 : jv_eq(r, dict->v[i].key, key);
            if (same != 0)
                return same < 0 ? -2 : (int64_t)i;
        }
        return -1;
    }
    for (uint32_t i = (uint32_t)hash & dict->mask; dict->index[i]; i = (i + 1) & dict->mask) {
        same = jv_eq(r, dict->v[dict->index[i] - 1].key, key);
        if (same != 0)
            return same < 0 ? -2 : (int64_t)dict->index[i] - 1;
    }
    return -1;
}

int dict_get(struct run *r, struct jdict *dict, struct jv key, struct jv *ret)
{
    int64_t at;

    if (key.type == JV_STR)
        return dict_get_str(r, dict, jv_view(key), ret);
    at = find(r, dict, key);
    if (at < 0)
        return at == -2 ? -1 : 0;
    *ret = dict->v[at].value;
    return 1;
}

int dict_set(struct run *r, struct jdict *dict, struct jv key, struct jv value)
{
    int64_t at = find(r, dict, key);
    uint64_t hash;

    if (at == -2)
        return -1;
    if (at >= 0) {
        dict->v[at].value = value;
        return 0;
    }
    if (dict->len == dict->cap) {
        uint32_t cap = dict->cap ? dict->cap * 2 : 4;
        struct jentry *grown = run_alloc(r, cap * sizeof(*grown));

        if (dict->len)
            memcpy(grown, dict->v, dict->len * sizeof(*grown));
        dict->v = grown;
        dict->cap = cap;
        dict->index = NULL;
    }
    dict->v[dict->len++] = (struct jentry){key, value};
    if (dict->index) {
        (void)jv_hash(r, key, &hash);
        index_add(dict, hash, dict->len - 1);
    } else if (dict->len > DICT_LINEAR) {
        index_build(r, dict);
    }
    return 0;
}

void dict_del_at(struct run *r, struct jdict *dict, uint32_t at)
{
    memmove(&dict->v[at], &dict->v[at + 1], (dict->len - at - 1) * sizeof(*dict->v));
    dict->len--;
    r->fuel -= dict->len;
    if (dict->index)
        index_build(r, dict);
}

int dict_del(struct run *r, struct jdict *dict, struct jv key, struct jv *ret)
{
    int64_t at = find(r, dict, key);

    if (at < 0)
        return at == -2 ? -1 : 0;
    *ret = dict->v[at].value;
    dict_del_at(r, dict, (uint32_t)at);
    return 1;
}

void dict_clear(struct jdict *dict)
{
    *dict = (struct jdict){0};
}

struct jdict *dict_copy(struct run *r, struct jdict *dict)
{
    struct jdict *copy;

    dict_expand(r, dict);
    copy = dict_new(r, dict->len);
    copy->len = dict->len;
    if (dict->len)
        memcpy(copy->v, dict->v, dict->len * sizeof(*copy->v));
    if (copy->len > DICT_LINEAR)
        index_build(r, copy);
    return copy;
}
