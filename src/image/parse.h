/* parse - what registries say, read with suspicion: digests, manifests, indexes, configurations. Shared by
 * the store and its helper; not for other modules. */
#pragma once

#include "base/json.h"
#include "image/image.h"

#define IMAGE_MANIFEST_MAX (4 << 20)
#define IMAGE_CONFIG_MAX   (8 << 20)
#define IMAGE_LAYER_MAX    (INT64_C(1) << 40) /* bytes of one layer as transferred */

bool image_digest_valid(struct str text); /* "sha256:" and 64 lower-case hex digits */

struct image_platform {
    const char *os, *arch, *variant; /* as Go names them: "linux", "arm64", "v8"; variant may be "" */
};
struct image_platform image_platform_here(void);

struct image_blob {
    char digest[IMAGE_DIGEST_MAX];
    int64_t size;
};

/* An index names the manifest for this machine in `chosen`; a manifest has config and layers. */
struct image_manifest {
    bool is_index;
    struct image_blob chosen;
    struct image_blob config;
    struct image_blob *layers; /* lowest first */
    size_t layers_len;
};
/* ERR_INVALID: no image manifest. ERR_UNSUPPORTED: nothing for that platform. ERR_LIMIT. */
int image_manifest_parse(struct str text, struct image_platform platform, struct image_manifest *ret,
                         struct err *err);
void image_manifest_done(struct image_manifest *manifest);
static inline void image_manifest_done_cleanup_(struct image_manifest *manifest)
{
    image_manifest_done(manifest);
}

/* The image's configuration document; *ret is its tree. Checks that it fits that many layers and this
 * machine. */
int image_config_parse(struct str text, struct image_platform platform, size_t layers, struct arena *arena,
                       struct json **ret, struct err *err);
/* Its member "config", which may be NULL, as the struct; everything lives in the arena. */
int image_config_decode(const struct json *config, struct arena *arena, struct image_config *ret,
                        struct err *err);
