/* Annotations that are not everybody's to write, on an object or on the template of its pods. berth.dev/keep
 * makes a job that nobody displaces: admins alone may set it. Which cards a pod has, that it was asked to
 * go, and when it is tried again are Berth's own word: what others write there counts for nothing. */
#include "queue/internal.h"
#include "registry/access.h"

static const char *const places[] = {"metadata", "spec.template.metadata", "spec.jobTemplate.metadata",
                                     "spec.jobTemplate.spec.template.metadata"};
static const char *const own_words[] = {CARDS_ANNOTATION, STOP_ANNOTATION, RETRY_ANNOTATION};

/* As it was, or not at all. */
static void leave_own_words(const struct write *write, struct json *doc, const struct json *before)
{
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        struct json *now = json_get(json_at(doc, places[i]), "annotations");
        const struct json *was = json_get(json_at(before, places[i]), "annotations");

        for (size_t k = 0; k < ARRAY_LEN(own_words); k++) {
            const struct json *value = json_get(was, own_words[k]);

            if (value && json_at(doc, places[i]))
                json_set(write->arena, json_need_object(write->arena, json_at(doc, places[i]), "annotations"),
                         own_words[k], *value);
            else if (now)
                json_remove(now, own_words[k]);
        }
    }
}

static const char *kept(const struct json *meta)
{
    return json_string_or(json_get(json_get(meta, "annotations"), KEEP_ANNOTATION), "");
}

static int admit(void *arg, const struct write *write, const struct kind *kind, const char *ns,
                 struct json *doc, const struct object *old)
{
    const struct json *before = old ? object_json(old, write->arena) : NULL;

    (void)arg;
    (void)kind;
    (void)ns;
    if (!write->who)
        return 0;
    leave_own_words(write, doc, before);
    if (access_is_admin(write_asker(write)))
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        const char *now = kept(json_at(doc, places[i]));

        if (*now && !streq(now, kept(json_at(before, places[i]))))
            return failure_set(write->failure, write->arena, 403, "Forbidden",
                               "annotation %s: only admins may set it", KEEP_ANNOTATION);
    }
    return 0;
}

void keep_guard(struct registry *registry)
{
    registry_add_admission(registry, admit, NULL);
}
