/* The document is built as a value tree and written by yaml_write, so names need no quoting here. */
#include "daemon/kubeconfig.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/yaml.h"

#include <openssl/crypto.h>

static void set_data(struct arena *arena, struct json *object, const char *key, const char *pem)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (!pem)
        return;
    buf_base64(&text, str_from(pem));
    json_set_string(arena, object, key, text.data);
    OPENSSL_cleanse(text.data, text.len);
}

/* Adds {name: NAME, WHAT: {}} to doc.LIST and returns the inner object. */
static struct json *add_entry(struct arena *arena, struct json *doc, const char *list, const char *what,
                              const char *name)
{
    struct json *entry = json_push_object(arena, json_set_array(arena, doc, list));

    json_set_string(arena, entry, "name", name);
    return json_set_object(arena, entry, what);
}

void kubeconfig_write(struct buf *buf, const struct kubeconfig *config)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc = json_new_object(&arena), *part;
    const char *context = arena_printf(&arena, "%s@%s", config->user, config->cluster);

    json_set_string(&arena, doc, "apiVersion", "v1");
    json_set_string(&arena, doc, "kind", "Config");

    part = add_entry(&arena, doc, "clusters", "cluster", config->cluster);
    json_set_string(&arena, part, "server", config->server);
    set_data(&arena, part, "certificate-authority-data", config->ca_pem);

    part = add_entry(&arena, doc, "users", "user", config->user);
    set_data(&arena, part, "client-certificate-data", config->cert_pem);
    set_data(&arena, part, "client-key-data", config->key_pem);
    if (config->token)
        json_set_string(&arena, part, "token", config->token);

    part = add_entry(&arena, doc, "contexts", "context", context);
    json_set_string(&arena, part, "cluster", config->cluster);
    json_set_string(&arena, part, "user", config->user);
    if (config->ns)
        json_set_string(&arena, part, "namespace", config->ns);

    json_set_string(&arena, doc, "current-context", context);
    yaml_write(buf, doc);
}
