/* What the files of tasks share. */
#pragma once

#include "base/map.h"
#include "jinja/jinja.h"
#include "tasks/tasks.h"

#define CALLBACKS_TABLE "callbacks" /* task uid → record, see callbacks.c */
#define SHIPPED_TABLE   "tasks"

struct tasks {
    struct tasks_config config;
    struct registry *registry;
    struct store *store;
    struct renderer *renderer; /* NULL: templates are rendered here */
    struct jinja *env;
    struct jinja_scratch *scratch;
    struct map *compiled; /* template name → struct compiled */
    struct store_watch *watch;
    struct map *dirty; /* uids of tasks to look at; the value is the map itself */
    bool looking;
    struct tasks_life *life;
};

/* render.c */
void render_init(struct tasks *tasks);
void render_done(struct tasks *tasks);
/* A stored template with values; the error names it. The loop waits, so the limits are smaller. */
int render_template(struct tasks *tasks, const struct object *template, const struct json *values,
                    struct arena *arena, struct buf *out, struct failure *failure);
/* The same without waiting; values and failure live until done has been called. */
void render_template_then(struct tasks *tasks, const char *person, const struct object *template,
                          const struct json *values, struct arena *arena, struct failure *failure,
                          tasks_rendered done, void *arg);
int render_check(struct tasks *tasks, const char *name, struct str text, struct arena *arena,
                 struct failure *failure); /* whether it compiles */

/* fill.c */
struct filled {
    const struct object *definition, *template; /* borrowed */
    const char *task_def;                       /* as registered */
    const char *application, *creator;
    struct json *values;    /* what the template gets */
    struct json *hidden;    /* the same, for those who may not read the system's values */
    struct json *shown;     /* the user's values without secrets */
    struct json *callbacks; /* [{"url", "headers"}] with secrets */
};
/* Checks what is required and builds global and configs. spec: of the definition. */
int fill_values(struct tasks *tasks, const struct json *spec, struct json *user, const char *release,
                const char *fallback_creator, bool check_callbacks, struct arena *arena, struct filled *ret,
                struct json *warnings, struct failure *failure);

/* define.c */
int define_admit(void *tasks, const struct write *write, const struct kind *kind, const char *ns,
                 struct json *doc, const struct object *old);

/* callbacks.c */
void callbacks_add(struct tasks *tasks, const struct object *task, const struct json *callbacks,
                   const char *task_def, const char *creator);
/* Headers of an earlier task's callbacks to the same URLs, where the new ones have none. */
void callbacks_inherit(struct tasks *tasks, const char *uid, struct arena *arena, struct json *callbacks);
/* Tells the state of a task ("Running") where it is not the one told last; "Deleted" is the last one. */
void callbacks_state(struct tasks *tasks, const char *uid, const char *state, const char *reason,
                     bool has_run);
struct json *callbacks_show(struct tasks *tasks, const char *uid, struct arena *arena);
/* At start: tasks that went while nobody looked. */
void callbacks_reconcile(struct tasks *tasks);

/* status.c */
void status_init(struct tasks *tasks);
void status_done(struct tasks *tasks);

/* check.c: what rendered objects must be. Adds owner, labels and namespace. */
int check_documents(struct tasks *tasks, const struct tasks_request *request, struct json *docs,
                    struct arena *arena, struct failure *failure);
const struct kind *check_kind(const struct json *doc); /* one of those that tasks may make; NULL: not */
