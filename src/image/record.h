/* record - what lies in a store's folder, and the two kinds of JSON files in it. Shared by the store and its
 * helper; not for other modules.
 *
 *     version            1
 *     boot               in which start of the machine it was last open
 *     lock               held by the process that has the store open
 *     layers/HEX/fs      a layer's files; beside it meta.json with its sizes, and `implied`, the folders that
 * it does not describe images/HEX.json    an image: by the digest of its manifest; its time of change is its
 * last use names/HEX.json     a name: by the sha256 of the normalised reference mounts/ID.json     a
 * container's root file system that is mounted staging/JOB/       a pull under way; locks/HEX: layers being
 * fetched; trash/: being deleted empty/             an empty folder, where overlayfs wants one layer more */
#pragma once

#include "base/json.h"
#include "image/image.h"
#include "image/parse.h"

#define RECORD_VERSION  "1\n"
#define RECORD_FILE_MAX (16 << 20)

/* Paths, for free(). Digests must be valid. */
char *record_layer_path(const char *dir, const char *digest, const char *below); /* below: "" "/fs" … */
char *record_image_path(const char *dir, const char *id);
char *record_name_path(const char *dir, const char *name);

/* Whether a layer is here, and the bytes of its files (unpacked may be NULL). */
bool record_layer_here(const char *dir, const char *digest, int64_t *unpacked);
void record_layer_meta(struct buf *buf, const char *digest, int64_t size, int64_t unpacked, int64_t files);

/* An image's file. doc is its configuration document. */
struct record_layers {
    struct image_layer *v;
    size_t len;
};
void record_image_write(struct buf *buf, const char *id, const char *digest, const struct json *doc,
                        struct record_layers layers, int64_t now);
/* One reference is the caller's. ERR_INVALID: no such file. */
int record_image_read(struct str text, const struct image **ret, struct err *err);

struct record_name {
    char *name;
    char id[IMAGE_DIGEST_MAX];     /* of the image */
    char digest[IMAGE_DIGEST_MAX]; /* what the registry had for the name */
    int64_t pulled;
};
void record_name_done(struct record_name *name);
static inline void record_name_done_cleanup_(struct record_name *name)
{
    record_name_done(name);
}
void record_name_write(struct buf *buf, const struct record_name *name);
int record_name_read(struct str text, struct record_name *ret, struct err *err);
