/* internal - the store's struct and what its files share. Not for other modules. */
#pragma once

#include "base/map.h"
#include "base/vec.h"
#include "image/auth.h"
#include "image/image.h"
#include "image/record.h"
#include "loop/loop.h"

struct job;

/* An image that is here. */
struct stored {
    const struct image *image;
    int64_t used;
    size_t mounts;
};

struct mounted {
    char *id, *dir;
    char image[IMAGE_DIGEST_MAX]; /* "" for the host's root */
    char *owner;                  /* NULL: not known, mounted by an earlier process */
};

/* A root that is mounted and nobody's; see spares.c. */
struct spare {
    char *place, *dir; /* where it is mounted: PLACE/root; its upper folder and so on */
    char *owner;
    char image[IMAGE_DIGEST_MAX];
};

struct image_registry {
    char *host, *ca_file, *mirror;
    bool insecure, mirror_insecure;
};

struct images {
    struct loop *loop;
    char *dir;
    struct images_config config; /* numbers only, with the defaults filled in */
    char *skopeo, *helper, *run_dir;
    char *mounts_dir; /* of mount.c */
    struct image_registry *registries;
    size_t registries_len;
    int lock;
    struct map *stored;       /* id -> struct stored */
    struct map *names;        /* normalised reference -> struct record_name */
    struct map *mounted;      /* container -> struct mounted */
    VEC(struct spare) spares; /* the oldest first */
    unsigned spare_last;
    VEC(struct job *) jobs;           /* in the order they came */
    VEC(struct image_pull *) answers; /* pulls whose answer is known, given in the next turn */
    struct loop_timer *gc_timer, *start_timer;
    int64_t opened, opened_mono; /* the time when the store was opened, by both clocks */
    pid_t remover;               /* 0: none */
    struct loop_child *remover_child;
    VEC(char *) trash;  /* paths to be deleted that no remover has been told yet */
    bool rebooted;      /* since the store was open: layers without an image may not be whole on disk */
    bool plain_overlay; /* the kernel does not take all of our options */
    bool user_xattr;    /* overlayfs' notes in layers are user attributes: trusted ones are refused here */
};

/* ---- image.c ---- */
struct stored *stored_by_id(const struct images *images, const char *id);
/* Reads an image's file, and the name's: what a job has just written. ERR_NOT_FOUND. */
int store_load_image(struct images *images, const char *id, struct err *err);
int store_load_name(struct images *images, const char *name, struct err *err);
void store_touch(struct images *images, struct stored *stored); /* used now */
void store_forget(struct images *images,
                  struct stored *stored);   /* with all its names; gc_sweep is to follow */
bool store_kept(const struct image *image); /* by its label */

/* ---- process.c ---- */
/* Path of a program, for free(); NULL: none. beside_us: looked for where this program is, too. */
char *store_program(const char *given, const char *name, bool beside_us);
/* A child process with those arguments, in its own group; its stdout is *out where out is not NULL. */
int store_spawn(const char *const *argv, int *out, pid_t *ret, struct err *err);
void store_empty_trash(struct images *images); /* starts deleting what is in images->trash */

/* ---- gc.c ---- */
struct gc_item {
    const struct image *image;
    int64_t used;
    bool busy;   /* mounted, kept, just pulled */
    bool remove; /* the answer */
};
/* Which images go: those unused for longer than max_age_ns (< 0: none for age), then the least recently used
 * until that frees need_bytes. Returns the bytes of the layers that then are nobody's. */
/* The time by which images age: wall, unless it has jumped ahead of what has passed since the store was
 * opened. */
int64_t gc_time(int64_t wall, int64_t opened_wall, int64_t ran);
int64_t gc_plan(struct gc_item *items, size_t len, int64_t now, int64_t max_age_ns, int64_t need_bytes);
/* Layers of an image that goes are marked; layers of a pull that failed wait a while for the next try. */
void gc_mark(const struct images *images, const char *digest);
void gc_sweep(struct images *images, struct images_gc *ret); /* moves layers that no image has to the trash */
void gc_timer_start(struct images *images);

/* ---- pull.c ---- */
void jobs_start(struct images *images); /* as many as may run */
void jobs_end(struct images *images);   /* kills all, without callbacks */

/* ---- mount.c ---- */
void mounts_load(struct images *images);
void mounts_free(struct images *images);
bool mount_untouched(const char *upper); /* nothing was written to it */

/* ---- spares.c ---- */
bool spare_keep(struct images *images, const struct mounted *m); /* false: it is not to be kept */
char *spare_take(struct images *images,
                 const struct image_mount_spec *spec); /* its folder, for free(); NULL: none */
void spares_drop(struct images *images, const char *image);
void spares_free(struct images *images);
void spares_mend(struct images *images); /* those whose place is gone are dropped */
