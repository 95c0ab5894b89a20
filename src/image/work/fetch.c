/* fetch.c - a pull: the manifest (through the index, for this machine), the configuration, the layers that
 * are not here yet. Every document and layer must have the digest by which it was asked for; only what a tag
 * names is the registry's to say. */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "image/sum.h"
#include "image/work/skopeo.h"
#include "image/work/work.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>

#define SAY_EVERY (100 * NSEC_PER_MSEC)

/* ---- documents ---- */

static int get_manifest(const struct work *work, const struct image_blob *wanted, struct buf *text,
                        char digest[IMAGE_DIGEST_MAX], struct fail *fail)
{
    char reference[IMAGE_REF_MAX];
    struct image_ref ref = work->ref;

    if (wanted)
        memcpy(ref.digest, wanted->digest, sizeof(ref.digest));
    image_ref_format(&ref, reference);
    if (skopeo_manifest(work, reference, text, digest, fail) < 0)
        return -1;
    if ((ref.digest[0] && !streq(digest, ref.digest)) || (wanted && (int64_t)text->len != wanted->size))
        return fail_set(fail, IMAGE_FAIL_DIGEST, "registry %s sends a manifest that is not %s",
                        work->ref.host, ref.digest);
    return 0;
}

/* The manifest for this machine: id is its digest, top that of what the name stands for. */
static int resolve(const struct work *work, struct image_manifest *ret, char id[IMAGE_DIGEST_MAX],
                   char top[IMAGE_DIGEST_MAX], bool *here, struct fail *fail)
{
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(image_manifest_done) struct image_manifest index = {0};

    if (get_manifest(work, NULL, &text, top, fail) < 0)
        return -1;
    memcpy(id, top, IMAGE_DIGEST_MAX);
    if (image_manifest_parse(buf_view(&text), work->platform, &index, &fail->err) < 0)
        return -1;
    if (index.is_index) {
        memcpy(id, index.chosen.digest, IMAGE_DIGEST_MAX);
        *here = work_image_here(work, id);
        if (*here)
            return 0;
        buf_clear(&text);
        if (get_manifest(work, &index.chosen, &text, id, fail) < 0 ||
            image_manifest_parse(buf_view(&text), work->platform, ret, &fail->err) < 0)
            return -1;
        if (ret->is_index)
            return fail_set(fail, IMAGE_FAIL_INVALID, "the image's index leads to another index");
        return 0;
    }
    *here = work_image_here(work, id);
    *ret = index;
    index = (struct image_manifest){0};
    return 0;
}

static int take_text(void *arg, const char *data, size_t len, struct fail *fail)
{
    (void)fail;
    buf_add(arg, data, len);
    return 0;
}

/* ---- layers ---- */

struct download {
    const struct layers *layers;
    size_t i;
    int fd;
    int64_t done, next_say;
};

static int take_block(void *arg, const char *data, size_t len, struct fail *fail)
{
    struct download *d = arg;
    const struct image_manifest *manifest = d->layers->manifest;
    int64_t now;

    while (len > 0) {
        ssize_t n = write(d->fd, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(&fail->err, errno, "write layer %s", manifest->layers[d->i].digest);
        data += n;
        len -= (size_t)n;
        d->done += n;
    }
    now = clock_monotonic();
    if (now >= d->next_say) {
        d->next_say = now + SAY_EVERY;
        work_step(d->i + 1, manifest->layers_len, IMAGE_STEP_DOWNLOADING, d->done,
                  manifest->layers[d->i].size, manifest->layers[d->i].digest);
    }
    return 0;
}

static int fetch_layer(struct layers *layers, struct skopeo_proxy *proxy, size_t i, struct fail *fail)
{
    const struct image_blob *blob = &layers->manifest->layers[i];
    CLEANUP(free) char *path = mem_printf("%s/%s.blob", layers->work->job, sum_hex(blob->digest));
    struct download download = {.layers = layers, .i = i};
    CLEANUP(fd_close) int fd = -1;
    bool mine;

    if (layers_claim(layers, i, &mine, fail) < 0)
        return -1;
    if (!mine)
        return 0;
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(&fail->err, errno, "create '%s'", path);
    download.fd = fd;
    work_step(i + 1, layers->manifest->layers_len, IMAGE_STEP_DOWNLOADING, 0, blob->size, blob->digest);
    if (skopeo_proxy_blob(proxy, blob, take_block, &download, fail) < 0)
        return -1;
    return layers_unpack(layers, i, fd, path, fail);
}

static bool repeated(const struct image_manifest *manifest, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (streq(manifest->layers[k].digest, manifest->layers[i].digest))
            return true;
    return false;
}

static int fetch_layers(struct layers *layers, struct skopeo_proxy *proxy, struct fail *fail)
{
    const struct image_manifest *manifest = layers->manifest;

    for (size_t i = 0; i < manifest->layers_len; i++) {
        if (repeated(manifest, i))
            continue;
        if (fetch_layer(layers, proxy, i, fail) < 0)
            return -1;
    }
    return layers_wait(layers, 0, fail);
}

/* ---- all of it ---- */

static int fetch_missing(struct work *work, const struct image_manifest *manifest, const char *id,
                         const char *top, struct fail *fail)
{
    CLEANUP(skopeo_proxy_free) struct skopeo_proxy *proxy = NULL;
    CLEANUP(buf_done) struct buf text = {0};
    struct layers layers = {.work = work, .manifest = manifest};
    char reference[IMAGE_REF_MAX];
    struct image_ref ref = work->ref;
    struct json *config;
    int result;

    if (layers_check_space(&layers, fail) < 0)
        return -1;
    snprintf(ref.digest, sizeof(ref.digest), "%s", id);
    image_ref_format(&ref, reference);
    if (skopeo_proxy_open(work, reference, &proxy, fail) < 0 ||
        skopeo_proxy_blob(proxy, &manifest->config, take_text, &text, fail) < 0)
        return -1;
    if (image_config_parse(buf_view(&text), work->platform, manifest->layers_len, &work->arena, &config,
                           &fail->err) < 0)
        return -1;
    result = fetch_layers(&layers, proxy, fail);
    if (result == 0)
        result = work_record(work, id, top, manifest, config, fail);
    layers_done(&layers);
    return result;
}

int fetch_run(struct work *work, char **ret, struct fail *fail)
{
    CLEANUP(image_manifest_done) struct image_manifest manifest = {0};
    char id[IMAGE_DIGEST_MAX], top[IMAGE_DIGEST_MAX];
    bool here = false;

    if (resolve(work, &manifest, id, top, &here, fail) < 0)
        return -1;
    if ((here ? work_name(work, id, top, fail) : fetch_missing(work, &manifest, id, top, fail)) < 0)
        return -1;
    *ret = mem_strdup(id);
    return 0;
}
