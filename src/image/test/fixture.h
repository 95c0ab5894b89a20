/* fixture - a store, a private registry on loopback with a password, and images to put into it. */
#pragma once

#include "base/buf.h"
#include "base/test/test.h"
#include "image/image.h"
#include "loop/loop.h"
#include "tar.h"

#include <stdio.h>

#define USER     "lab"
#define PASSWORD "secret-in-no-argv"

extern char fx_top[64];      /* everything of the tests lies below it */
extern char fx_registry[32]; /* "127.0.0.1:PORT"; "" when there is none */

extern char fx_tls_registry[32]; /* after fx_start_tls: empty, without a password */

int fx_start(void);                                   /* -1: cannot; prints why */
void fx_start_tls(const char *cert, const char *key); /* both are made */
void fx_stop(void);
bool fx_has_registry(void);

/* A folder in the OCI layout with one image of those layers; config is the text of its "config" or NULL.
 * multi: behind an index with an entry for another architecture. */
struct fx_layer {
    const struct tar_row *rows;
    size_t len;
    const char *filter;
};
void fx_layout(const char *dir, const struct fx_layer *layers, size_t len, const char *config, bool multi);
void fx_push(const char *dir, const char *name); /* to the registry */
void fx_run(const char *const *argv);            /* must succeed */
char *fx_blob(const char *dir, size_t layer);    /* digest of a layer of the last fx_layout */
void fx_damage(const char *digest);              /* flips a byte of a blob in the registry's storage */

/* A store in fx_top/NAME with the registry set as insecure. change may alter the configuration. */
struct images *fx_open(struct loop *loop, const char *name, void (*change)(struct images_config *config));

struct outcome {
    bool done;
    bool ok, fetched;
    enum image_fail fail;
    char sentence[1024];
    char id[IMAGE_DIGEST_MAX];
    size_t steps, unpacked; /* progress callbacks; layers that were unpacked */
};
extern const struct image_pull_events fx_events; /* arg: struct outcome */
void fx_wait(struct loop *loop, struct outcome *outcome);
/* auth: text of a config.json or NULL. */
struct outcome fx_pull(struct images *images, struct loop *loop, const char *image, enum image_policy policy,
                       const char *auth);
struct outcome fx_import(struct images *images, struct loop *loop, const char *path, const char *name);
const char *fx_auth(const char *password); /* config.json for the registry */
char *fx_name(const char *text);           /* "REGISTRY/text", a few at a time */
size_t fx_count(const char *format, ...) __attribute__((format(printf, 1, 2))); /* entries of a folder */
void fx_idle(struct loop *loop, const char *folder); /* turns until the folder is empty */
