/* work - what the helper berth-image does for a store: one pull or one import a process.
 *
 * It is told what by JOB/request.json, works in the folder JOB (in the store's staging), says on standard
 * output how it goes, a line at a time (work_say), and ends with "done ID" or "fail KIND SENTENCE". Being
 * killed at any moment is fine: what is in the store by then is complete, what is not lies in JOB. */
#pragma once

#include "base/json.h"
#include "base/vec.h"
#include "image/parse.h"
#include "image/record.h"
#include "image/work/fail.h"

struct work {
    struct arena arena;
    const char *dir;  /* the store */
    const char *job;  /* our folder */
    const char *name; /* normalised reference that the image gets */
    const char *path; /* import: the archive */
    struct image_ref ref;
    struct image_platform platform;
    const char *skopeo;
    const char *auth;            /* path of a docker config.json; NULL: no credentials */
    const char *cert_dir;        /* NULL: the machine's certificates */
    const char *registries_conf; /* of mirrors; NULL: none */
    const struct json *as;       /* import: with whose rights path is read; NULL: root's */
    bool insecure;
    int stall_sec;
    int64_t reserve_bytes, unpacked_max, files_max;
};

int work_load(const char *job, struct work *ret, struct fail *fail);
void work_done(struct work *work);

/* One line to the store; cut at WORK_LINE_MAX, which a pipe takes in one piece. */
#define WORK_LINE_MAX 2048
void work_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Progress of layer `number` of `count`. */
void work_step(size_t number, size_t count, enum image_step step, int64_t done, int64_t total,
               const char *digest);

/* fork and exec of argv[0] with a small environment of its own; -1: none. The child dies with us. */
pid_t work_spawn(const struct work *work, const char *const *argv, int in, int out, int errors,
                 struct fail *fail);
void work_end(pid_t pid); /* kills and reaps; <= 0 is fine */
int work_wait_readable(int fd, const struct work *work, const char *who, struct fail *fail); /* or stalled */

/* ---- layers ---- */

/* Layers are unpacked in processes of their own, some at a time, while the next are being fetched. */
#define LAYERS_AT_ONCE 2
struct layers {
    const struct work *work;
    const struct image_manifest *manifest;
    pid_t running[LAYERS_AT_ONCE];
    VEC(int) locks; /* one for each layer: alone while it is fetched, shared with others until we end */
    bool beside;    /* the last claim is beside somebody else's, who is slow */
};
/* Waits until this process alone may fetch the layer, or another one has: false in *mine then. Who fetches it
 * from another registry is not waited for longer than stall_sec. The store deletes no layer that was claimed
 * while this process lives. */
int layers_claim(struct layers *layers, size_t i, bool *mine, struct fail *fail);
/* Unpacks blob, an open file that was checked, in the background. path: a file to delete then, or NULL. */
int layers_unpack(struct layers *layers, size_t i, int blob, const char *path, struct fail *fail);
int layers_wait(struct layers *layers, size_t at_most, struct fail *fail); /* until so many are running */
void layers_done(struct layers *layers); /* waits for those, lets go of all layers */
/* Whether all bytes still to come fit on the disk. */
int layers_check_space(const struct layers *layers, struct fail *fail);

/* Gives folders that layers do not describe the owner and mode that they have in the layers below. */
int parents_adopt(const struct work *work, const struct image_manifest *manifest, struct fail *fail);
/* The image's file and its name's: the last step. */
int work_record(const struct work *work, const char *id, const char *digest,
                const struct image_manifest *manifest, const struct json *config, struct fail *fail);
int work_name(const struct work *work, const char *id, const char *digest, struct fail *fail);
/* Whether an image's file is here with all its layers. */
bool work_image_here(const struct work *work, const char *id);

/* ---- what is asked for; *id for free() ---- */
int fetch_run(struct work *work, char **id, struct fail *fail);
int import_run(struct work *work, char **id, struct fail *fail);
