/* record.c - the store's files. An image in memory is one block: the public struct, a count of its holders,
 * and the arena that all its strings live in. */
#include "image/record.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "image/sum.h"

#include <stdio.h>

struct image_held {
    struct image image;
    struct arena arena;
    int holders;
};

/* ---- paths ---- */

char *record_layer_path(const char *dir, const char *digest, const char *below)
{
    return mem_printf("%s/layers/%s%s", dir, sum_hex(digest), below);
}

char *record_image_path(const char *dir, const char *id)
{
    return mem_printf("%s/images/%s.json", dir, sum_hex(id));
}

char *record_name_path(const char *dir, const char *name)
{
    char digest[IMAGE_DIGEST_MAX];

    sum_of(str_from(name), digest);
    return mem_printf("%s/names/%s.json", dir, sum_hex(digest));
}

/* ---- layers ---- */

bool record_layer_here(const char *dir, const char *digest, int64_t *unpacked)
{
    CLEANUP(free) char *path = record_layer_path(dir, digest, "/meta.json");
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};
    struct json *doc;

    if (!unpacked)
        return access(path, F_OK) == 0;
    if (file_read(path, RECORD_FILE_MAX, &text, NULL) < 0)
        return false;
    /* Complete by its rename, so it is here even when nobody can read its sizes. */
    *unpacked = json_parse(buf_view(&text), &arena, &doc, NULL, NULL) < 0
                    ? 0
                    : json_int(json_get(doc, "unpacked"), 0);
    return true;
}

void record_layer_meta(struct buf *buf, const char *digest, int64_t size, int64_t unpacked, int64_t files)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc = json_new_object(&arena);

    json_set_string(&arena, doc, "digest", digest);
    json_set_int(&arena, doc, "size", size);
    json_set_int(&arena, doc, "unpacked", unpacked);
    json_set_int(&arena, doc, "files", files);
    json_write(buf, doc);
    buf_putc(buf, '\n');
}

/* ---- images ---- */

void record_image_write(struct buf *buf, const char *id, const char *digest, const struct json *doc,
                        struct record_layers layers, int64_t now)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *out = json_new_object(&arena), *list, *one;
    struct image_platform here = image_platform_here();
    int64_t created = 0;
    struct json *config = json_get(doc, "config");

    clock_parse(str_from(json_string_or(json_get(doc, "created"), "")), &created);
    json_set_string(&arena, out, "id", id);
    json_set_string(&arena, out, "digest", digest);
    json_set_string(&arena, out, "platform", arena_printf(&arena, "%s/%s", here.os, here.arch));
    json_set_int(&arena, out, "created", created);
    json_set_int(&arena, out, "pulled", now);
    list = json_set_array(&arena, out, "layers");
    for (size_t i = 0; i < layers.len; i++) {
        one = json_push_object(&arena, list);
        json_set_string(&arena, one, "digest", layers.v[i].digest);
        json_set_int(&arena, one, "size", layers.v[i].size);
        json_set_int(&arena, one, "unpacked", layers.v[i].unpacked);
    }
    if (json_is(config, JSON_OBJECT))
        json_set(&arena, out, "config", *config);
    json_write(buf, out);
    buf_putc(buf, '\n');
}

static int read_layers(const struct json *list, struct image_held *held, struct err *err)
{
    struct image_layer *layers;
    size_t len = 0;

    if (json_len(list) > IMAGE_LAYERS_MAX)
        return err_set(err, ERR_INVALID, "too many layers");
    layers = arena_zalloc(&held->arena, (json_len(list) + 1) * sizeof(*layers));
    JSON_EACH(list, it) {
        struct str digest = json_str(json_get(it, "digest"));

        if (!image_digest_valid(digest))
            return err_set(err, ERR_INVALID, "a layer has no digest");
        memcpy(layers[len].digest, digest.s, digest.len + 1);
        layers[len].size = json_int(json_get(it, "size"), 0);
        layers[len].unpacked = json_int(json_get(it, "unpacked"), 0);
        held->image.size += layers[len].size;
        held->image.unpacked += layers[len].unpacked;
        len++;
    }
    held->image.layers = layers;
    held->image.layers_len = len;
    return 0;
}

static int read_image(struct str text, struct image_held *held, struct err *err)
{
    struct image *image = &held->image;
    struct json *doc;

    if (json_parse(text, &held->arena, &doc, NULL, err) < 0)
        return -1;
    image->id = json_get_string(doc, "id");
    image->digest = json_get_string(doc, "digest");
    image->platform = json_string_or(json_get(doc, "platform"), "");
    image->created = json_int(json_get(doc, "created"), 0);
    image->pulled = json_int(json_get(doc, "pulled"), 0);
    if (!image_digest_valid(str_from(image->id)) || !image_digest_valid(str_from(image->digest)))
        return err_set(err, ERR_INVALID, "no digests");
    if (read_layers(json_get(doc, "layers"), held, err) < 0)
        return -1;
    return image_config_decode(json_get(doc, "config"), &held->arena, &image->config, err);
}

int record_image_read(struct str text, const struct image **ret, struct err *err)
{
    struct image_held *held = NEW(struct image_held);

    held->holders = 1;
    if (read_image(text, held, err) < 0) {
        image_drop(&held->image);
        return -1;
    }
    *ret = &held->image;
    return 0;
}

static struct image_held *held_of(const struct image *image)
{
    return (struct image_held *)(uintptr_t)image; /* its first member */
}

const struct image *image_hold(const struct image *image)
{
    held_of(image)->holders++;
    return image;
}

void image_drop(const struct image *image)
{
    struct image_held *held = held_of(image);

    if (!held || --held->holders > 0)
        return;
    arena_done(&held->arena);
    free(held);
}

/* ---- names ---- */

void record_name_done(struct record_name *name)
{
    free(name->name);
    *name = (struct record_name){0};
}

void record_name_write(struct buf *buf, const struct record_name *name)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc = json_new_object(&arena);

    json_set_string(&arena, doc, "name", name->name);
    json_set_string(&arena, doc, "id", name->id);
    json_set_string(&arena, doc, "digest", name->digest);
    json_set_int(&arena, doc, "pulled", name->pulled);
    json_write(buf, doc);
    buf_putc(buf, '\n');
}

int record_name_read(struct str text, struct record_name *ret, struct err *err)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct image_ref ref;
    struct str id, digest;
    struct json *doc;

    if (json_parse(text, &arena, &doc, NULL, err) < 0)
        return -1;
    id = json_str(json_get(doc, "id"));
    digest = json_str(json_get(doc, "digest"));
    if (!image_digest_valid(id) || !image_digest_valid(digest))
        return err_set(err, ERR_INVALID, "no digests");
    if (image_ref_parse(json_str(json_get(doc, "name")), &ref, err) < 0)
        return -1;
    *ret = (struct record_name){
        .name = mem_strdup(json_get_string(doc, "name")),
        .pulled = json_int(json_get(doc, "pulled"), 0),
    };
    memcpy(ret->id, id.s, id.len);
    memcpy(ret->digest, digest.s, digest.len);
    return 0;
}
