/* gavel-colocation: how fast two models are on the same GPUs, relative to alone (v100). */
#include "base/mem.h"
#include "sim/csv.h"
#include "sim/trace.h"

#include <math.h>
#include <stdlib.h>

#define PAIR_MODELS_MAX 64

struct pair {
    uint32_t gpus, app_a, batch_a, app_b, batch_b;
    float rel_a, rel_b;
};

struct pairs {
    char *models[PAIR_MODELS_MAX];
    uint32_t count;
    VEC(struct pair) v;
};

uint32_t pairs_app(const struct pairs *pairs, const char *model)
{
    for (uint32_t i = 0; i < pairs->count; i++)
        if (streq(pairs->models[i], model))
            return i;
    return UINT32_MAX;
}

static int intern(struct pairs *pairs, const struct csv *csv, uint32_t column, uint32_t *ret, struct err *err)
{
    *ret = pairs_app(pairs, csv_text(csv, column));
    if (*ret != UINT32_MAX)
        return 0;
    if (pairs->count == PAIR_MODELS_MAX)
        return csv_fault(csv, err, "more than %d models", PAIR_MODELS_MAX);
    *ret = pairs->count;
    pairs->models[pairs->count++] = mem_strdup(csv_text(csv, column));
    return 0;
}

int pairs_load(const char *folder, struct pairs **ret, struct err *err)
{
    enum { GPU, GPUS, MODEL_A, BATCH_A, MODEL_B, BATCH_B, REL_A, REL_B };
    static const struct csv_column columns[] = {{"gpu", 0},     {"gpus", 0},    {"model_a", 0},
                                                {"batch_a", 0}, {"model_b", 0}, {"batch_b", 0},
                                                {"rel_a", 0},   {"rel_b", 0}};
    CLEANUP(csv_close) struct csv *csv = NULL;
    CLEANUP(free) char *path = mem_printf("%s/pairs.csv", folder);
    struct pairs *pairs = NEW(struct pairs);
    int got = -1;

    if (csv_open(path, columns, ARRAY_LEN(columns), &csv, err) == 0)
        while ((got = csv_next(csv, err)) > 0) {
            struct pair pair = {0};
            double a = 0, b = 0;

            got = -1;
            if (csv_uint(csv, GPUS, 1, 4096, &pair.gpus, err) < 0 ||
                intern(pairs, csv, MODEL_A, &pair.app_a, err) < 0 ||
                intern(pairs, csv, MODEL_B, &pair.app_b, err) < 0 ||
                csv_uint(csv, BATCH_A, 0, 10000000, &pair.batch_a, err) < 0 ||
                csv_uint(csv, BATCH_B, 0, 10000000, &pair.batch_b, err) < 0 ||
                csv_number(csv, REL_A, 0, 10, &a, err) < 0 || csv_number(csv, REL_B, 0, 10, &b, err) < 0)
                break;
            pair.rel_a = (float)fmin(a, 1);
            pair.rel_b = (float)fmin(b, 1);
            if (streq(csv_text(csv, GPU), "v100"))
                vec_push(&pairs->v, pair);
        }
    if (got < 0) {
        pairs_free(pairs);
        return -1;
    }
    *ret = pairs;
    return 0;
}

void pairs_free(struct pairs *pairs)
{
    if (!pairs)
        return;
    for (uint32_t i = 0; i < pairs->count; i++)
        free(pairs->models[i]);
    vec_done(&pairs->v);
    free(pairs);
}

double pairs_factor(const struct pairs *pairs, uint32_t gpus, uint32_t app_a, uint32_t batch_a,
                    uint32_t app_b, uint32_t batch_b)
{
    VEC_EACH(&pairs->v, p) {
        if (p->gpus != gpus)
            continue;
        if (p->app_a == app_a && p->app_b == app_b && (p->batch_a == batch_a || p->batch_a == 0) &&
            (p->batch_b == batch_b || p->batch_b == 0))
            return p->rel_b > 0 ? p->rel_a : 0;
        if (p->app_b == app_a && p->app_a == app_b && (p->batch_b == batch_a || p->batch_b == 0) &&
            (p->batch_a == batch_b || p->batch_a == 0))
            return p->rel_a > 0 ? p->rel_b : 0;
    }
    return 0;
}
