/* skopeo - talking to registries through it: manifests by `skopeo inspect --raw`, blobs by its image proxy,
 * which streams them to us. Nothing of it touches the disk, and every byte is counted and hashed by us. */
#pragma once

#include "base/buf.h"
#include "image/work/work.h"

/* The words of an error without skopeo's framing, and what they mean. */
enum image_fail skopeo_words(struct str errors, char *sentence, size_t size);

/* The manifest or index as the registry has it, and its digest. reference: without "docker://". */
int skopeo_manifest(const struct work *work, const char *reference, struct buf *ret,
                    char digest[IMAGE_DIGEST_MAX], struct fail *fail);

struct skopeo_proxy;
/* An image, by repository and digest. */
int skopeo_proxy_open(const struct work *work, const char *reference, struct skopeo_proxy **ret,
                      struct fail *fail);
void skopeo_proxy_free(struct skopeo_proxy *proxy); /* NULL is fine */
DEFINE_CLEANUP(struct skopeo_proxy *, skopeo_proxy_free);
/* All bytes of a blob go to take; then its size and digest are checked. take returns -1 with fail set. */
int skopeo_proxy_blob(struct skopeo_proxy *proxy, const struct image_blob *blob,
                      int (*take)(void *arg, const char *data, size_t len, struct fail *fail), void *arg,
                      struct fail *fail);
