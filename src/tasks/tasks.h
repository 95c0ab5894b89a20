/* tasks - the task service: templates (Jinja text that renders to Kubernetes objects), definitions (a
 * template with what is fixed and a description of what is to be filled in), tasks (one run, with its
 * values).
 *
 * All three are objects in the store. A Task owns the objects that were rendered for it, so that deleting it
 * deletes them; its status follows them. Its callbacks (endpoints of type `event`) are kept beside it, in
 * values of the store that no API shows, since their headers are secrets; each change of its state becomes a
 * message of src/notify in the same commit in which it is noted.
 *
 * Rules for templates and definitions are admissions of the registry: they hold for kubectl as for REST. */
#pragma once

#include "notify/notify.h"
#include "notify/policy.h"
#include "registry/registry.h"

#define TASKS_OUTPUT_MAX  (8 << 20) /* bytes a template may render to */
#define TASKS_FUEL        2000000   /* steps of one render */
#define TASKS_WALL_MS     200       /* time of one render */
#define TASKS_OBJECTS_MAX 100       /* objects of one task */
#define TASKS_VALUES_MAX  (1 << 20) /* bytes of filled values, as JSON */
#define TASKS_STRING_MAX                                                                                     \
    (128 << 10)              /* an environment or argument string, with its NUL: the kernel's limit          \
                              */
#define TASKS_RELEASE_MAX 49 /* of global.release: room for what Jobs append to it */

struct tasks;

struct tasks_config {
    struct loop *loop;
    struct registry *registry;
    struct notify *notify;       /* NULL: no callbacks */
    const struct policy *policy; /* for callbacks; NULL with notify alone */
    const char *render_program;  /* berth-render; NULL: templates are rendered in this process. Copied */
};

/* Adds admissions, follows changes. Never NULL. */
struct tasks *tasks_new(const struct tasks_config *config);
void tasks_free(struct tasks *tasks); /* before the registry; NULL is fine */
/* Makes the shipped templates, each once in the life of a store: what an admin deletes stays deleted. */
int tasks_ship(struct tasks *tasks, struct err *err);
/* For notify_config.lost: tells the task's owner by an event. */
void tasks_callback_lost(void *tasks, const char *lane, const char *why);

/* ---- definitions ---- */

/* The guide's form ({"creator", "name", "task_template_name", …}) as an object of kind TaskDefinition. Keys
 * may also be the object's own (taskTemplateName). -1 with failure. */
int tasks_definition_doc(const struct json *form, struct arena *arena, struct json **ret,
                         struct failure *failure);
/* And back: what REST shows. system: with system_values. */
struct json *tasks_definition_form(const struct object *definition, bool system, struct arena *arena);
/* By a name as it was registered, an object's name, or NAMESPACE/NAME: in ns first, then in `default`, then
 * wherever there is exactly one. NULL with failure. Borrowed as from store_get. */
const struct object *tasks_find_definition(struct tasks *tasks, const char *ns, const char *name,
                                           struct arena *arena, struct failure *failure);
/* JSON Schema of what is to be filled in. */
struct json *tasks_schema(const struct object *definition, struct arena *arena);

/* ---- tasks ---- */

struct tasks_request {
    const struct identity *who; /* with whose rights */
    const struct identity *by;  /* who asks, see struct write; NULL: who does */
    const char *ns;
    struct json *values;   /* filled values; `taskDef` names the definition. Changed */
    const char *rerun_of;  /* NULL: a new one */
    const char *rerun_uid; /* whose secrets are taken over */
    bool dry_run;          /* ret_yaml alone */
    int64_t now;
    struct arena *arena;
    struct failure *failure;
    struct json *warnings;
};
struct tasks_made {
    const struct object *task; /* borrowed; NULL with dry_run */
    const char *release;       /* the task's id */
    struct json *objects;      /* [{"apiVersion", "kind", "namespace", "name", "link"}] */
    struct str yaml;           /* what was rendered */
    struct str shown;          /* the same, as the asker may see it: with the system's values or without */
};
/* All objects or none, in one commit. done is called when the template has been rendered, with 0 or -1 and
 * request->failure; at once where templates are rendered in this process. The request and what it points at
 * live until then. */
typedef void (*tasks_submitted)(void *arg, int result, const struct tasks_made *made);
void tasks_submit(struct tasks *tasks, const struct tasks_request *request, tasks_submitted done, void *arg);

/* What REST shows of a task. full: with values, objects and callbacks. */
struct json *tasks_show(struct tasks *tasks, const struct object *task, bool full, struct arena *arena);

/* Text of any template with any values, for a person, whose renders come one after another. done gets 0 and
 * the text, or -1 with failure; arena, values and failure live until then. */
typedef void (*tasks_rendered)(void *arg, int result, struct buf *out);
void tasks_render(struct tasks *tasks, const char *person, struct str text, const struct json *values,
                  bool strict, struct arena *arena, struct failure *failure, tasks_rendered done, void *arg);
/* The YAML documents of a rendered text. 422 with the line and the text around it. */
int tasks_documents(struct str text, struct arena *arena, struct json **ret, struct failure *failure);
