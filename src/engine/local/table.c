/* The engine as others see it: engine.h's operations. */
#include "engine/local/internal.h"

static struct local_engine *local_of(struct engine *engine)
{
    return (struct local_engine *)engine; /* its first member */
}

static const struct local_engine *local_of_const(const struct engine *engine)
{
    return (const struct local_engine *)engine;
}

static bool table_holds(const struct engine *engine, const char *pod_uid)
{
    const struct local_pod *pod = local_find(local_of_const(engine), pod_uid);

    return pod && pod->sandbox != SANDBOX_GONE && (pod->sandbox != SANDBOX_NONE || !pod->facts.ended);
}

static const struct pod_ops *table_pod_ops(struct engine *engine)
{
    return &local_of(engine)->pod_ops;
}

static bool table_last_line(const struct engine *engine, const char *pod_uid, const char *container,
                            char ret[ENGINE_LINE_MAX])
{
    return keeper_last_line(local_of_const(engine), pod_uid, container, ret);
}

static void table_keep_logs(struct engine *engine, engine_keep_fn fn, void *arg)
{
    local_of(engine)->keep = fn;
    local_of(engine)->keep_arg = arg;
}

static void table_tokens(struct engine *engine, engine_token_fn fn, void *arg)
{
    local_of(engine)->token = fn;
    local_of(engine)->token_arg = arg;
}

static bool table_account(struct engine *engine, const char *user, void (*fn)(void *arg), void *arg,
                          char why[ENGINE_LINE_MAX])
{
    local_of(engine)->account_fn = fn;
    local_of(engine)->account_arg = arg;
    return accounts_check(local_of(engine), user, why);
}

static size_t table_capacity(const struct engine *engine, struct engine_card *ret, size_t max)
{
    const struct local_engine *local = local_of_const(engine);

    for (size_t i = 0; i < local->cards && i < max; i++) {
        const struct gpu_card *card = gpu_at(local->gpus, i);

        ret[i] =
            (struct engine_card){card->uuid, card->name, card->memory_mib, card->declared, !card->healthy};
    }
    return local->cards;
}

static void table_measure(struct engine *engine, engine_sample_fn fn, void *arg)
{
    sample_start(local_of(engine), fn, arg);
}

static bool table_limit(struct engine *engine, const char *pod_uid, uint32_t card, int64_t mib)
{
    return sample_limit(local_of(engine), pod_uid, card, mib);
}

static void table_pressure(const struct engine *engine, bool *disk, bool *memory)
{
    *disk = local_of_const(engine)->disk_short;
    *memory = local_of_const(engine)->memory_short;
}

static const char *table_claims_text(const struct engine *engine)
{
    return local_of_const(engine)->claims_text;
}

static void table_shut_down(struct engine *engine, void (*fn)(void *arg), void *arg)
{
    shutdown_begin(local_of(engine), fn, arg);
}

static void table_close(struct engine *engine)
{
    local_close(local_of(engine));
}

static void table_free(struct engine *engine)
{
    local_free(local_of(engine));
}

const struct engine_ops local_ops = {
    .name = "local",
    .holds = table_holds,
    .pod_ops = table_pod_ops,
    .last_line = table_last_line,
    .keep_logs = table_keep_logs,
    .tokens = table_tokens,
    .account = table_account,
    .capacity = table_capacity,
    .measure = table_measure,
    .limit = table_limit,
    .pressure = table_pressure,
    .claims_text = table_claims_text,
    .shut_down = table_shut_down,
    .close = table_close,
    .free = table_free,
};
