/* auth.c - credentials. Their text is in buffers only as long as it takes to choose and write it. */
#include "image/auth.h"

#include "base/json.h"

#define USER_MAX 1024

/* "https://index.docker.io/v1/" is "docker.io". */
static void split_key(struct str key, struct str *host, struct str *path)
{
    const char *slash;

    if (str_starts(key, "https://"))
        key = (struct str){key.s + 8, key.len - 8};
    else if (str_starts(key, "http://"))
        key = (struct str){key.s + 7, key.len - 7};
    slash = key.len ? memchr(key.s, '/', key.len) : NULL;
    *host = slash ? (struct str){key.s, (size_t)(slash - key.s)} : key;
    *path = slash ? (struct str){slash + 1, key.len - host->len - 1} : (struct str){"", 0};
    while (path->len > 0 && path->s[path->len - 1] == '/')
        path->len--;
    if (str_is(*path, "v1") || str_is(*path, "v2"))
        *path = (struct str){"", 0};
    if (str_is(*host, "index.docker.io") || str_is(*host, "registry-1.docker.io"))
        *host = STR("docker.io");
}

/* Label by label; "*" for one whole label or a part of one. */
static bool label_fits(struct str pattern, struct str label)
{
    const char *star = pattern.len ? memchr(pattern.s, '*', pattern.len) : NULL;
    size_t before, after;

    if (!star)
        return str_ieq(pattern, label);
    before = (size_t)(star - pattern.s);
    after = pattern.len - before - 1;
    return label.len >= before + after &&
           str_ieq((struct str){pattern.s, before}, (struct str){label.s, before}) &&
           str_ieq((struct str){star + 1, after}, (struct str){label.s + label.len - after, after});
}

static bool host_fits(struct str pattern, struct str host)
{
    struct str a, b;

    for (;;) {
        bool more_a = str_split(&pattern, '.', &a), more_b = str_split(&host, '.', &b);

        if (!more_a || !more_b)
            return more_a == more_b;
        if (!label_fits(a, b))
            return false;
    }
}

/* How well a key fits: 0 not at all, else longer paths win over shorter, exact hosts over patterns. */
static size_t fit(struct str key, const struct image_ref *ref)
{
    struct str host, path;
    bool pattern;

    split_key(key, &host, &path);
    pattern = host.len && memchr(host.s, '*', host.len);
    if (host.len == 0 || !host_fits(host, (struct str){ref->host, strlen(ref->host)}))
        return 0;
    if (path.len > 0 && (strncmp(ref->path, path.s, path.len) != 0 ||
                         (ref->path[path.len] != '\0' && ref->path[path.len] != '/')))
        return 0;
    return 1 + 2 * path.len + (pattern ? 0 : 1);
}

static bool usable(const struct json *entry)
{
    return json_str(json_get(entry, "auth")).len > 0 || json_str(json_get(entry, "identitytoken")).len > 0 ||
           (json_get_string(entry, "username") && json_get_string(entry, "password"));
}

static void write_entry(struct arena *arena, const struct json *entry, const char *host, struct buf *ret)
{
    struct json *doc = json_new_object(arena), *auths = json_set_object(arena, doc, "auths");
    struct json *out = json_set_object(arena, auths, host);
    struct buf pair = {0}, text = {0};
    const char *auth = json_get_string(entry, "auth"), *token = json_get_string(entry, "identitytoken");

    if (!auth || !auth[0]) {
        buf_printf(&pair, "%s:%s", json_string_or(json_get(entry, "username"), ""),
                   json_string_or(json_get(entry, "password"), ""));
        buf_base64(&text, buf_view(&pair));
        auth = text.data;
    }
    json_set_string(arena, out, "auth", auth);
    if (token)
        json_set_string(arena, out, "identitytoken", token);
    json_write(ret, doc);
    buf_done(&pair);
    buf_done(&text);
}

bool auth_choose(struct str text, const struct image_ref *ref, struct buf *ret)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct json *auths, *best = NULL;
    struct json *doc;
    size_t best_fit = 0;

    if (text.len > IMAGE_AUTH_MAX || json_parse(text, &arena, &doc, NULL, NULL) < 0)
        return false;
    auths = json_get(doc, "auths");
    if (!auths)
        auths = doc; /* .dockercfg */
    JSON_EACH_MEMBER(auths, it) {
        size_t n = fit((struct str){it->key, it->key_len}, ref);

        if (n > best_fit && usable(&it->value)) {
            best_fit = n;
            best = &it->value;
        }
    }
    if (best)
        write_entry(&arena, best, ref->host, ret);
    return best != NULL;
}

int auth_edit(struct str text, const char *registry, const char *user, const char *password, struct buf *ret,
              struct err *err)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf pair = {0};
    CLEANUP(buf_done) struct buf encoded = {0};
    CLEANUP(buf_done) struct buf name = {0};
    struct image_ref ref;
    struct json *doc, *auths;

    buf_printf(&name, "%s/x", registry);
    if (image_ref_parse(buf_view(&name), &ref, err) < 0 || !streq(ref.path, "x"))
        if (!streq(registry, "docker.io") && !streq(registry, "index.docker.io"))
            return err_set(err, ERR_INVALID, "'%s' is no registry: write HOST or HOST:PORT", registry);
    if (password && (!user || !user[0] || strchr(user, ':') || strlen(user) > USER_MAX ||
                     strlen(password) > IMAGE_AUTH_MAX / 4))
        return err_set(err, ERR_INVALID, "that is no name of a user for registry '%s'", registry);
    if (json_parse(text, &arena, &doc, NULL, NULL) < 0 || !json_is(doc, JSON_OBJECT))
        doc = json_new_object(&arena);
    auths = json_need_object(&arena, doc, "auths");
    if (!auths)
        auths = json_set_object(&arena, doc, "auths");
    json_remove(auths, ref.host);
    if (password) {
        buf_printf(&pair, "%s:%s", user, password);
        buf_base64(&encoded, buf_view(&pair));
        json_set_string(&arena, json_set_object(&arena, auths, ref.host), "auth", encoded.data);
    }
    json_write(ret, doc);
    return 0;
}
