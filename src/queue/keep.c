/* The annotation berth.dev/keep makes a job that nobody displaces: admins alone may set it, on the object or
 * on the template of its pods. */
#include "queue/internal.h"
#include "registry/access.h"

static const char *kept(const struct json *meta)
{
    return json_string_or(json_get(json_get(meta, "annotations"), KEEP_ANNOTATION), "");
}

static int admit(void *arg, const struct write *write, const struct kind *kind, const char *ns,
                 struct json *doc, const struct object *old)
{
    static const char *const places[] = {"metadata", "spec.template.metadata", "spec.jobTemplate.metadata",
                                         "spec.jobTemplate.spec.template.metadata"};
    const struct json *before = old ? object_json(old, write->arena) : NULL;

    (void)arg;
    (void)kind;
    (void)ns;
    if (!write->who || access_is_admin(write->who))
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
