/* parse.c - manifests and configurations, OCI's and Docker's (schema 2), which differ in names of types only.
 */
#include "image/parse.h"

#include "base/mem.h"
#include "base/vec.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/utsname.h>

#define INDEX_ENTRIES_MAX 1024
#define CONFIG_LIST_MAX   4096

struct image_platform image_platform_here(void)
{
    static const struct {
        const char *machine, *arch, *variant;
    } table[] = {
        {"x86_64", "amd64", ""},    {"aarch64", "arm64", "v8"}, {"armv7l", "arm", "v7"},
        {"armv6l", "arm", "v6"},    {"i686", "386", ""},        {"i386", "386", ""},
        {"ppc64le", "ppc64le", ""}, {"riscv64", "riscv64", ""}, {"s390x", "s390x", ""},
    };
    struct utsname name;

    if (uname(&name) == 0)
        for (size_t i = 0; i < ARRAY_LEN(table); i++)
            if (streq(name.machine, table[i].machine))
                return (struct image_platform){"linux", table[i].arch, table[i].variant};
    return (struct image_platform){"linux", "unknown", ""};
}

/* ---- manifests ---- */

static int blob_decode(const struct json *doc, const char *what, int64_t max, struct image_blob *ret,
                       struct err *err)
{
    struct str digest = json_str(json_get(doc, "digest"));
    const struct json *size = json_get(doc, "size");

    if (!image_digest_valid(digest))
        return err_set(err, ERR_INVALID, "%s has no sha256 digest", what);
    if (!json_is(size, JSON_INT) || size->integer < 0)
        return err_set(err, ERR_INVALID, "%s has no size", what);
    if (size->integer > max)
        return err_set(err, ERR_LIMIT, "%s is larger than %" PRId64 " bytes", what, max);
    memcpy(ret->digest, digest.s, digest.len);
    ret->digest[digest.len] = '\0';
    ret->size = size->integer;
    return 0;
}

/* How well an entry of an index fits this machine: 0 not at all. */
static int fit(const struct json *entry, struct image_platform here, bool only_one)
{
    const struct json *platform = json_get(entry, "platform");
    const char *variant = json_string_or(json_get(platform, "variant"), "");

    if (!platform)
        return only_one;
    if (!streq(json_get_string(platform, "os"), here.os) ||
        !streq(json_get_string(platform, "architecture"), here.arch))
        return 0;
    if (streq(variant, here.variant))
        return 4;
    if (!variant[0])
        return 3;
    /* armv7 runs armv6 and armv5; amd64 variants above the plain one may or may not run. */
    if (streq(here.arch, "arm"))
        return strcmp(variant, here.variant) < 0 ? 2 : 0;
    return 1;
}

static int decode_index(const struct json *list, struct image_platform here, struct image_manifest *ret,
                        struct err *err)
{
    const struct json *best = NULL;
    int best_fit = 0;

    if (json_len(list) > INDEX_ENTRIES_MAX)
        return err_set(err, ERR_LIMIT, "the image's index has more than %d entries", INDEX_ENTRIES_MAX);
    JSON_EACH(list, it) {
        int n = fit(it, here, json_len(list) == 1);

        if (n > best_fit) {
            best_fit = n;
            best = it;
        }
    }
    if (!best)
        return err_set(err, ERR_UNSUPPORTED, "the image is not made for %s/%s", here.os, here.arch);
    ret->is_index = true;
    return blob_decode(best, "the manifest named by the image's index", IMAGE_MANIFEST_MAX, &ret->chosen,
                       err);
}

static int check_layer_type(const struct json *layer, struct err *err)
{
    struct str type = json_str(json_get(layer, "mediaType"));

    /* Compression is seen from the bytes; a missing type means a plain layer. */
    if (type.len == 0)
        return 0;
    if (str_ends(type, "+encrypted"))
        return err_set(err, ERR_INVALID, "the image has an encrypted layer");
    if (memmem(type.s, type.len, "foreign", 7) || memmem(type.s, type.len, "nondistributable", 16))
        return err_set(err, ERR_INVALID, "the image has a layer that its registry does not hold");
    if (!str_starts(type, "application/vnd.oci.image.layer.v1.tar") &&
        !str_starts(type, "application/vnd.docker.image.rootfs.diff.tar"))
        return err_set(err, ERR_INVALID, "this is no container image but something of type '%.*s'",
                       (int)(type.len < 200 ? type.len : 200), type.s);
    return 0;
}

static int decode_manifest(const struct json *doc, struct image_manifest *ret, struct err *err)
{
    const struct json *layers = json_get(doc, "layers");

    if (!json_is(layers, JSON_ARRAY))
        return err_set(err, ERR_INVALID, "the image's manifest has no layers");
    if (json_len(layers) > IMAGE_LAYERS_MAX)
        return err_set(err, ERR_LIMIT, "the image has more than %d layers", IMAGE_LAYERS_MAX);
    if (blob_decode(json_get(doc, "config"), "the image's configuration", IMAGE_CONFIG_MAX, &ret->config,
                    err) < 0)
        return -1;
    ret->layers = mem_zalloc((json_len(layers) + 1) * sizeof(*ret->layers));
    JSON_EACH(layers, it) {
        if (check_layer_type(it, err) < 0 ||
            blob_decode(it, "a layer of the image", IMAGE_LAYER_MAX, &ret->layers[ret->layers_len], err) < 0)
            return -1;
        ret->layers_len++;
    }
    return 0;
}

int image_manifest_parse(struct str text, struct image_platform platform, struct image_manifest *ret,
                         struct err *err)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(image_manifest_done) struct image_manifest manifest = {0};
    struct json *doc;
    int64_t version;
    int result;

    if (text.len > IMAGE_MANIFEST_MAX)
        return err_set(err, ERR_LIMIT, "the image's manifest is larger than %d bytes", IMAGE_MANIFEST_MAX);
    if (json_parse(text, &arena, &doc, NULL, err) < 0)
        return err_prefix(err, "the image's manifest");
    version = json_int(json_get(doc, "schemaVersion"), 0);
    if (version != 2)
        return err_set(err, ERR_INVALID,
                       version == 1 ? "the image's manifest is of Docker's old schema 1; push it anew"
                                    : "this is no image manifest");
    if (json_is(json_get(doc, "manifests"), JSON_ARRAY))
        result = decode_index(json_get(doc, "manifests"), platform, &manifest, err);
    else
        result = decode_manifest(doc, &manifest, err);
    if (result < 0)
        return -1;
    *ret = manifest;
    manifest = (struct image_manifest){0};
    return 0;
}

void image_manifest_done(struct image_manifest *manifest)
{
    free(manifest->layers);
    *manifest = (struct image_manifest){0};
}

/* ---- configurations ---- */

int image_config_parse(struct str text, struct image_platform platform, size_t layers, struct arena *arena,
                       struct json **ret, struct err *err)
{
    struct image_config unused;
    const char *os, *arch;
    struct json *doc, *diffs;

    if (text.len > IMAGE_CONFIG_MAX)
        return err_set(err, ERR_LIMIT, "the image's configuration is larger than %d bytes", IMAGE_CONFIG_MAX);
    if (json_parse(text, arena, &doc, NULL, err) < 0)
        return err_prefix(err, "the image's configuration");
    if (!json_is(doc, JSON_OBJECT))
        return err_set(err, ERR_INVALID, "the image's configuration is no object");
    os = json_string_or(json_get(doc, "os"), "");
    arch = json_string_or(json_get(doc, "architecture"), "");
    if ((os[0] && !streq(os, platform.os)) || (arch[0] && !streq(arch, platform.arch)))
        return err_set(err, ERR_UNSUPPORTED, "the image is made for %.40s/%.40s, this machine is %s/%s", os,
                       arch, platform.os, platform.arch);
    diffs = json_at(doc, "rootfs.diff_ids");
    if (diffs && json_len(diffs) != layers)
        return err_set(err, ERR_INVALID, "the image's configuration has %zu layers, its manifest %zu",
                       json_len(diffs), layers);
    if (image_config_decode(json_get(doc, "config"), arena, &unused, err) < 0)
        return -1;
    *ret = doc;
    return 0;
}

/* NUL bytes would cut an argument short. */
static int string_decode(const struct json *value, const char *what, const char **ret, struct err *err)
{
    if (!value || json_is(value, JSON_NULL) || (json_is(value, JSON_STRING) && value->len == 0))
        return 0;
    if (!json_is(value, JSON_STRING) || strlen(value->string) != value->len)
        return err_set(err, ERR_INVALID, "the image's %s is no text", what);
    *ret = value->string;
    return 0;
}

static int list_decode(const struct json *value, const char *what, struct arena *arena,
                       const char *const **ret, struct err *err)
{
    const char **list;
    size_t len = 0;

    if (!value || json_is(value, JSON_NULL))
        return 0;
    if (json_is(value, JSON_STRING)) { /* Docker's oldest form of Entrypoint and Cmd */
        list = arena_zalloc(arena, 2 * sizeof(*list));
        *ret = list;
        return string_decode(value, what, &list[0], err);
    }
    if (!json_is(value, JSON_ARRAY))
        return err_set(err, ERR_INVALID, "the image's %s is no list", what);
    if (json_len(value) > CONFIG_LIST_MAX)
        return err_set(err, ERR_LIMIT, "the image's %s has more than %d items", what, CONFIG_LIST_MAX);
    if (json_len(value) == 0)
        return 0;
    list = arena_zalloc(arena, (json_len(value) + 1) * sizeof(*list));
    JSON_EACH(value, it) {
        if (!json_is(it, JSON_STRING) || strlen(it->string) != it->len)
            return err_set(err, ERR_INVALID, "the image's %s has an item that is no text", what);
        list[len++] = it->string;
    }
    *ret = list;
    return 0;
}

static int keys_decode(const struct json *value, const char *what, struct arena *arena,
                       const char *const **ret, struct err *err)
{
    const char **list;
    size_t len = 0;

    if (json_len(value) > CONFIG_LIST_MAX)
        return err_set(err, ERR_LIMIT, "the image's %s has more than %d items", what, CONFIG_LIST_MAX);
    if (!json_is(value, JSON_OBJECT) || json_len(value) == 0)
        return 0;
    list = arena_zalloc(arena, (json_len(value) + 1) * sizeof(*list));
    JSON_EACH_MEMBER(value, it)
        list[len++] = it->key;
    *ret = list;
    return 0;
}

static int labels_decode(const struct json *value, struct arena *arena, struct image_config *ret,
                         struct err *err)
{
    struct image_pair *labels;

    if (!json_is(value, JSON_OBJECT) || json_len(value) == 0)
        return 0;
    if (json_len(value) > CONFIG_LIST_MAX)
        return err_set(err, ERR_LIMIT, "the image has more than %d labels", CONFIG_LIST_MAX);
    labels = arena_zalloc(arena, json_len(value) * sizeof(*labels));
    ret->labels = labels;
    JSON_EACH_MEMBER(value, it)
        labels[ret->labels_len++] = (struct image_pair){it->key, json_string_or(&it->value, "")};
    return 0;
}

int image_config_decode(const struct json *config, struct arena *arena, struct image_config *ret,
                        struct err *err)
{
    struct image_config c = {0};

    if (list_decode(json_get(config, "Env"), "Env", arena, &c.env, err) < 0 ||
        list_decode(json_get(config, "Entrypoint"), "Entrypoint", arena, &c.entrypoint, err) < 0 ||
        list_decode(json_get(config, "Cmd"), "Cmd", arena, &c.cmd, err) < 0 ||
        string_decode(json_get(config, "User"), "User", &c.user, err) < 0 ||
        string_decode(json_get(config, "WorkingDir"), "WorkingDir", &c.workdir, err) < 0 ||
        string_decode(json_get(config, "StopSignal"), "StopSignal", &c.stop_signal, err) < 0 ||
        keys_decode(json_get(config, "ExposedPorts"), "ExposedPorts", arena, &c.ports, err) < 0 ||
        keys_decode(json_get(config, "Volumes"), "Volumes", arena, &c.volumes, err) < 0 ||
        labels_decode(json_get(config, "Labels"), arena, &c, err) < 0)
        return -1;
    *ret = c;
    return 0;
}
