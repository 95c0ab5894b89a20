/* renderer - templates are rendered by processes of their own (berth-render), which are used again for the
 * next render and killed when one does not end: a hole in a limit costs one render, not the daemon.
 *
 * Renders of one person come one after another; RENDERER_AT_ONCE run at a time. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "jinja/jinja.h"

#define RENDERER_AT_ONCE    2
#define RENDERER_PERSON_MAX 128  /* renders of one person that wait */
#define RENDERER_MAX        1024 /* of all */
#define RENDERER_KILL_MS                                                                                     \
    5000 /* from its start; berth-render's own limits are far below, but so may its share of                 \
            the processor be */

struct loop;
struct renderer;

/* What is to be rendered, and how it ended. */
struct render_job {
    unsigned flags; /* of enum render_flags */
    struct buf name, text, values;
    struct buf out;
    bool failed;              /* error says why, or err where there was no answer */
    struct jinja_error error; /* kind JINJA_OK: none */
    struct err err;           /* ERR_LIMIT: it was killed; ERR_SYSTEM: it cannot be started */
};
struct render_job *render_job_new(const char *name, struct str text, const struct json *values,
                                  unsigned flags);
void render_job_free(struct render_job *job); /* NULL is fine */

/* program: the path of berth-render. */
struct renderer *renderer_new(struct loop *loop, const char *program);
/* No callback comes any more. NULL is fine. */
void renderer_free(struct renderer *renderer);

typedef void (*renderer_done)(void *arg, struct render_job *job); /* job is the callee's then */
/* Takes the job over. ERR_LIMIT: too many wait already; the job stays the caller's. */
int renderer_start(struct renderer *renderer, const char *person, struct render_job *job, renderer_done done,
                   void *arg, struct err *err);
/* Waits for it. For renders that are RENDER_BRIEF or the start's. */
void renderer_wait(struct renderer *renderer, struct render_job *job);
