/* What a template may render to: objects of a few kinds, in the caller's own namespace, that the kernel can
 * start. */
#include "base/mem.h"
#include "objects/object_doc.h"
#include "registry/access.h"
#include "tasks/internal.h"

#define TWIN "%s \"%s\"" /* kind and name: two documents of a task do not share them */

/* What a task may make; in this order they are told to people. */
static const int allowed[] = {KIND_JOB, KIND_TRAINING_JOB, KIND_POD,    KIND_CONFIG_MAP,
                              KIND_PVC, KIND_SECRET,       KIND_SERVICE};

const struct kind *check_kind(const struct json *doc)
{
    const char *api_version = json_get_string(doc, "apiVersion"), *name = json_get_string(doc, "kind");

    for (size_t i = 0; i < ARRAY_LEN(allowed); i++) {
        const struct kind *kind = kind_by_id(allowed[i]);

        if (streq(kind->name, name) && streq(kind_api_version(kind), api_version))
            return kind;
    }
    return NULL;
}

static int refuse_kind(const struct json *doc, size_t place, struct arena *arena, struct failure *failure)
{
    CLEANUP(buf_done) struct buf names = {0};

    for (size_t i = 0; i < ARRAY_LEN(allowed); i++)
        buf_printf(&names, "%s%s", i ? ", " : "", kind_by_id(allowed[i])->name);
    return failure_set(failure, arena, 422, "Invalid",
                       "document %zu: kind \"%s\" of apiVersion \"%s\" cannot be made by a task (only %s)",
                       place, json_string_or(json_get(doc, "kind"), ""),
                       json_string_or(json_get(doc, "apiVersion"), ""), names.data);
}

/* ---- strings that the kernel takes ---- */

struct strings {
    const struct tasks *tasks;
    const char *ns;
    const struct map *docs; /* KIND "NAME" → the document */
    const char *object;     /* "Job \"x\"" */
    struct arena *arena;
    struct failure *failure;
};

/* The length of what a key of a ConfigMap or Secret holds: of this task's, or of one that is there. */
static size_t referenced(const struct strings *s, int kind_id, const struct json *ref)
{
    const char *name = json_string_or(json_get(ref, "name"), ""),
               *key = json_string_or(json_get(ref, "key"), "");
    const struct kind *kind = kind_by_id(kind_id);
    const struct json *value = NULL, *found = NULL;
    const struct object *there;

    found = map_get(s->docs, str_from(arena_printf(s->arena, TWIN, kind->name, name)));
    if (!found && (there = store_get(s->tasks->store, kind_id, s->ns, name)))
        found = object_doc(there);
    value = json_get(json_get(found, "stringData"), key);
    if (value)
        return json_str(value).len;
    value = json_get(json_get(found, "data"), key);
    return kind_id == KIND_SECRET ? json_str(value).len / 4 * 3 : json_str(value).len;
}

static int too_long(const struct strings *s, const char *what, size_t len)
{
    return failure_set(s->failure, s->arena, 422, "Invalid",
                       "%s: %s would be %zu bytes; the kernel takes strings of less than %d bytes (128 KiB)",
                       s->object, what, len, TASKS_STRING_MAX);
}

static int check_env(const struct strings *s, const struct json *env)
{
    const char *name = json_string_or(json_get(env, "name"), "");
    const struct json *from = json_get(env, "valueFrom");
    size_t len = strlen(name) + 2; /* '=' and NUL */

    if (json_get(from, "configMapKeyRef"))
        len += referenced(s, KIND_CONFIG_MAP, json_get(from, "configMapKeyRef"));
    else if (json_get(from, "secretKeyRef"))
        len += referenced(s, KIND_SECRET, json_get(from, "secretKeyRef"));
    else
        len += json_str(json_get(env, "value")).len;
    if (len <= TASKS_STRING_MAX)
        return 0;
    return too_long(s, arena_printf(s->arena, "environment variable %s", name), len);
}

static int check_words(const struct strings *s, const struct json *words)
{
    JSON_EACH(words, it)
        if (json_str(it).len + 1 > TASKS_STRING_MAX)
            return too_long(s, "a word of its command", json_str(it).len + 1);
    return 0;
}

static int check_containers(const struct strings *s, const struct json *containers)
{
    JSON_EACH(containers, container) {
        JSON_EACH(json_get(container, "env"), env)
            if (check_env(s, env) < 0)
                return -1;
        if (check_words(s, json_get(container, "command")) < 0 ||
            check_words(s, json_get(container, "args")) < 0)
            return -1;
    }
    return 0;
}

static int check_strings(const struct strings *s, const struct kind *kind, const struct json *doc)
{
    const struct json *spec = json_get(doc, "spec");

    if (kind->id == KIND_TRAINING_JOB) {
        JSON_EACH(json_get(spec, "env"), env)
            if (check_env(s, env) < 0)
                return -1;
        return check_words(s, json_get(spec, "command")) < 0 ? -1 : check_words(s, json_get(spec, "args"));
    }
    if (kind->id == KIND_JOB)
        spec = json_at(spec, "template.spec");
    else if (kind->id != KIND_POD)
        return 0;
    if (check_containers(s, json_get(spec, "initContainers")) < 0)
        return -1;
    return check_containers(s, json_get(spec, "containers"));
}

/* ---- all of it ---- */

static int check_form(const struct tasks_request *request, const struct json *doc, size_t place,
                      struct arena *arena, struct failure *failure)
{
    const struct kind *kind = check_kind(doc);
    const char *ns, *name;

    if (!json_is(doc, JSON_OBJECT))
        return failure_set(failure, arena, 422, "Invalid", "document %zu is a %s, not an object", place,
                           json_type_name(doc));
    if (!kind)
        return refuse_kind(doc, place, arena, failure);
    ns = json_at_string(doc, "metadata.namespace");
    name = json_string_or(json_at(doc, "metadata.name"), "");
    if (!*name)
        return failure_set(failure, arena, 422, "Invalid", "document %zu: a %s needs metadata.name", place,
                           kind->name);
    if (ns && *ns && !streq(ns, request->ns))
        return failure_set(failure, arena, 422, "Invalid",
                           "document %zu: %s \"%s\" is for namespace \"%s\"; a task makes objects in its own "
                           "namespace (\"%s\") only",
                           place, kind->name, name, ns, request->ns);
    return 0;
}

static int check_one(struct tasks *tasks, const struct tasks_request *request, const struct map *by_name,
                     const struct json *doc, struct arena *arena, struct failure *failure)
{
    const struct kind *kind = check_kind(doc);
    struct strings strings = {tasks, request->ns, by_name, NULL, arena, failure};

    strings.object = arena_printf(arena, TWIN, kind->name, json_at_string(doc, "metadata.name"));
    return check_strings(&strings, kind, doc);
}

/* Finds each document by its kind and name from now on. */
static int check_twins(struct map *by_name, const struct json *docs, struct arena *arena,
                       struct failure *failure)
{
    JSON_EACH(docs, it) {
        const char *key = arena_printf(arena, TWIN, json_string_or(json_get(it, "kind"), ""),
                                       json_string_or(json_at(it, "metadata.name"), ""));

        if (map_set(by_name, str_from(key), it))
            return failure_set(failure, arena, 422, "Invalid", "the template makes %s twice", key);
    }
    return 0;
}

int check_documents(struct tasks *tasks, const struct tasks_request *request, struct json *docs,
                    struct arena *arena, struct failure *failure)
{
    CLEANUP(map_free) struct map *by_name = map_new();
    size_t place = 0;

    if (!json_len(docs))
        return failure_set(failure, arena, 422, "Invalid", "the template rendered to no objects");
    if (json_len(docs) > TASKS_OBJECTS_MAX)
        return failure_set(failure, arena, 422, "Invalid", "the template rendered to more than %d objects",
                           TASKS_OBJECTS_MAX);
    JSON_EACH(docs, it)
        if (check_form(request, it, ++place, arena, failure) < 0)
            return -1;
    if (check_twins(by_name, docs, arena, failure) < 0)
        return -1;
    JSON_EACH(docs, it)
        if (check_one(tasks, request, by_name, it, arena, failure) < 0)
            return -1;
    return 0;
}
