/* train_options - the options of run-scheduler as a table: what each is called, in the command line, in a
 * POST /v1/train, in the older POST /submit and in a TrainingJob's spec; its type, limits, default and help.
 * The command line, the page and the server all read this table. Pure. */
#pragma once

#include "base/err.h"
#include "base/json.h"

enum train_option_type {
    TRAIN_TEXT,
    TRAIN_INT,
    TRAIN_REAL,
    TRAIN_BOOL,   /* true or false in any case */
    TRAIN_AMOUNT, /* a quantity as Kubernetes writes them: 2, 500m, 4Gi */
    TRAIN_TIME,   /* RFC 3339 */
    TRAIN_ENV,    /* NAME=VALUE, may be given several times */
};

struct train_option {
    const char *name;  /* "image_name"; NULL ends the table */
    const char *older; /* in POST /submit: "dockerImage"; NULL: not there */
    const char *field; /* of the spec: "image" */
    enum train_option_type type;
    const char *arg;      /* what its value is called in usage texts: "IMAGE_NAME" */
    const char *help;     /* one line */
    const char *fallback; /* what holds when it is not given, in words; NULL: nothing */
    int64_t min;          /* TRAIN_INT: least value */
    bool guide;           /* one of run-scheduler's own; false: Berth's addition */
};

extern const struct train_option train_options[];

#define TRAIN_NAME_MAX 52 /* of a job: its pods add to it */

/* By name (underscores or dashes), older name or field; NULL: there is none. */
const struct train_option *train_option_find(struct str name);

/* Puts the option's value into spec. ERR_INVALID names the option, what it must be and what was given. */
int train_option_text(struct arena *arena, struct json *spec, const struct train_option *option,
                      struct str text, struct err *err);
/* The same from a JSON value: of the option's type, or text that reads as one. null leaves spec alone. */
int train_option_json(struct arena *arena, struct json *spec, const struct train_option *option,
                      const struct json *value, struct err *err);

/* Body of POST /v1/train or /submit: options by any of their names, "job_name" (or "name", "jobName"),
 * "namespace" and, as a start, "spec" with fields as they are. Fills name and spec (in arena); name is ""
 * when none is given. ERR_INVALID: a member that is none of these (with the nearest one), or a bad value. */
struct train_request {
    const char *name;     /* as given; train_object_name makes an object's name of it */
    const char *ns;       /* NULL: not given */
    const char *username; /* /submit's; NULL: not given */
    struct json *spec;
    struct json *labels; /* NULL: none */
};
int train_request_read(struct arena *arena, const struct json *body, struct train_request *ret,
                       struct err *err);

/* A name objects may have, made of what people call their experiments: lower case, others to '-', cut to
 * TRAIN_NAME_MAX. "" when nothing is left. In arena. */
const char *train_object_name(struct arena *arena, const char *text);

/* "run-scheduler --image_name host … NAME": how this spec is typed. */
void train_command_line(struct buf *out, const struct json *spec, const char *name);
