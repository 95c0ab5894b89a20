/* A sorted array: there are few (tokens, counters), and listing a table is a run of it. */
#include "store/values.h"

static int value_cmp(const struct value *value, const char *table, const char *key)
{
    int cmp = strcmp(value->table, table);

    return cmp ? cmp : strcmp(value->key, key);
}

static size_t place_of(const struct values *values, const char *table, const char *key)
{
    size_t low = 0, high = values->sorted.len;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (value_cmp(&values->sorted.v[mid], table, key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct value *find(const struct values *values, const char *table, const char *key)
{
    size_t at = place_of(values, table, key);

    if (at < values->sorted.len && value_cmp(&values->sorted.v[at], table, key) == 0)
        return &values->sorted.v[at];
    return NULL;
}

static void value_done(struct value *value)
{
    free(value->table);
    free(value->key);
    free(value->data);
}

void values_done(struct values *values)
{
    VEC_EACH(&values->sorted, it)
        value_done(it);
    vec_done(&values->sorted);
}

struct str values_get(const struct values *values, const char *table, const char *key)
{
    const struct value *value = find(values, table, key);

    return value ? (struct str){value->data, value->len} : (struct str){0};
}

void values_set(struct values *values, const char *table, const char *key, struct str data)
{
    struct value *value = find(values, table, key);
    char *copy = data.s ? mem_strndup(data.s, data.len) : NULL; /* first: data may be what is replaced */

    if (!copy) {
        if (value) {
            value_done(value);
            vec_remove(&values->sorted, (size_t)(value - values->sorted.v));
        }
        return;
    }
    if (!value) {
        size_t at = place_of(values, table, key);

        vec_insert(&values->sorted, at, (struct value){mem_strdup(table), mem_strdup(key), NULL, 0});
        value = &values->sorted.v[at];
    }
    free(value->data);
    value->data = copy;
    value->len = data.len;
}

void values_each(const struct values *values, const char *table,
                 void (*fn)(void *arg, const char *key, struct str value), void *arg)
{
    for (size_t i = place_of(values, table, ""); i < values->sorted.len; i++) {
        const struct value *value = &values->sorted.v[i];

        if (strcmp(value->table, table) != 0)
            break;
        fn(arg, value->key, (struct str){value->data, value->len});
    }
}
