/* Tokens are made from a key that the store keeps, so that nothing has to be stored for each job and a token
 * is good for all runs of its job, and of no use for another. */
#include "api/train/train.h"

#include "api/train/internal.h"
#include "base/file.h"
#include "base/mem.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#define KEYS_TABLE "keys"
#define KEY_NAME   "train"

static void load_key(struct train *train)
{
    struct store *store = registry_store(train->config.registry);
    struct str kept = store_value(store, KEYS_TABLE, KEY_NAME);
    CLEANUP(buf_done) struct buf raw = {0};

    if (kept.s && buf_base64_decode(&raw, kept) && raw.len == sizeof(train->key)) {
        memcpy(train->key, raw.data, raw.len);
        return;
    }
    buf_clear(&raw);
    random_bytes(train->key, sizeof(train->key));
    buf_base64(&raw, (struct str){(const char *)train->key, sizeof(train->key)});
    store_value_set(store, KEYS_TABLE, KEY_NAME, buf_view(&raw));
}

struct train *train_new(const struct train_config *config)
{
    struct train *train = NEW(struct train);

    train->config = *config;
    train->config.datasets = mem_strdup(config->datasets ? config->datasets : "datasets");
    train->looks = train_looks_new();
    load_key(train);
    registry_add_admission(config->registry, train_admit, train);
    return train;
}

void train_free(struct train *train)
{
    if (!train)
        return;
    train_looks_free(train->looks);
    free((char *)train->config.datasets);
    OPENSSL_cleanse(train->key, sizeof(train->key));
    free(train);
}

void train_set_queue(struct train *train, struct queue *queue)
{
    train->config.queue = queue;
}

const char *train_token(void *arg, struct arena *arena, const char *job_uid)
{
    const struct train *train = arg;
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int len = 0;
    char *text = arena_alloc(arena, 2 * EVP_MAX_MD_SIZE + 1);

    HMAC(EVP_sha256(), train->key, sizeof(train->key), (const unsigned char *)job_uid, strlen(job_uid),
         digest, &len);
    for (unsigned int i = 0; i < len; i++)
        snprintf(text + (size_t)2 * i, 3, "%02x", digest[i]);
    return text;
}
