/* What registries send: the first byte says what the rest is. References must read back as they were written;
 * headers of layers must come out as paths that stay inside. */
#include "image/auth.h"
#include "image/parse.h"
#include "image/record.h"
#include "image/work/skopeo.h"
#include "image/work/unpack.h"

#include <stdint.h>
#include <stdlib.h>

#define ENTRIES_MAX 2000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_ref(struct str text)
{
    struct image_ref ref, again;
    char full[IMAGE_REF_MAX], twice[IMAGE_REF_MAX];

    if (image_ref_parse(text, &ref, NULL) < 0)
        return;
    image_ref_format(&ref, full);
    if (full[0] == '-' || strpbrk(full, " \t\n\"'$;&|\\") ||
        image_ref_parse(str_from(full), &again, NULL) < 0)
        abort();
    image_ref_format(&again, twice);
    if (strcmp(full, twice) != 0)
        abort();
}

static void fuzz_manifest(struct str text)
{
    static const struct image_platform arm = {"linux", "arm", "v7"};
    CLEANUP(image_manifest_done) struct image_manifest manifest = {0};

    if (image_manifest_parse(text, arm, &manifest, NULL) < 0)
        return;
    if (manifest.layers_len > IMAGE_LAYERS_MAX)
        abort();
    for (size_t i = 0; i < manifest.layers_len; i++)
        if (!image_digest_valid(str_from(manifest.layers[i].digest)) || manifest.layers[i].size < 0)
            abort();
}

static void fuzz_config(struct str text)
{
    static const struct image_layer layers[] = {
        {.digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", .size = 1}};
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf record = {0};
    const struct image *image;
    struct json *doc;

    if (image_config_parse(text, image_platform_here(), 1, &arena, &doc, NULL) < 0)
        return;
    record_image_write(&record, layers[0].digest, layers[0].digest, doc,
                       (struct record_layers){(struct image_layer *)(uintptr_t)layers, 1}, 1);
    if (record_image_read(buf_view(&record), &image, NULL) < 0)
        abort();
    image_drop(image);
}

static bool on_entry(void *arg, const struct unpack_entry *entry)
{
    struct str rest = str_from(entry->path), part;

    if (entry->path[0] == '/')
        abort();
    while (str_split(&rest, '/', &part))
        if (str_is(part, "..") || str_is(part, ".") || (part.len == 0 && entry->path[0]))
            abort();
    return ++*(size_t *)arg < ENTRIES_MAX;
}

static void fuzz_layer(struct str data)
{
    struct fail fail = {0};
    size_t count = 0;

    (void)unpack_scan(-1, data, on_entry, &count, &fail);
}

static void fuzz_auth(struct str text)
{
    CLEANUP(buf_done) struct buf chosen = {0};
    CLEANUP(buf_done) struct buf edited = {0};
    struct image_ref ref;
    char sentence[100];

    if (image_ref_parse(STR("lab.example.com:5000/a/b"), &ref, NULL) < 0)
        abort();
    (void)auth_choose(text, &ref, &chosen);
    if (auth_edit(text, "lab:5000", "u", "p", &edited, NULL) < 0)
        abort();
    skopeo_words(text, sentence, sizeof(sentence));
}

static void fuzz_record(struct str text)
{
    const struct image *image;
    struct record_name name;

    if (record_image_read(text, &image, NULL) == 0)
        image_drop(image);
    if (record_name_read(text, &name, NULL) == 0)
        record_name_done(&name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const kinds[])(struct str) = {fuzz_ref,   fuzz_manifest, fuzz_config,
                                                fuzz_layer, fuzz_auth,     fuzz_record};
    struct str rest = {(const char *)data + 1, size - 1};

    if (size < 1 || data[0] < 'a' || (size_t)(data[0] - 'a') >= sizeof(kinds) / sizeof(kinds[0]))
        return 0;
    kinds[data[0] - 'a'](rest);
    return 0;
}
