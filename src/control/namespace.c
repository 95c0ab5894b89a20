/* A namespace that is being deleted keeps spec.finalizers until it is empty. Its content is deleted as
 * anybody would; what has a grace period or finalizers of its own takes its time, and each object that
 * goes brings the next look. */
#include "control/namespace.h"

#include "control/util.h"

static void look_alive(const struct namespace_view *view, struct effects *effects)
{
    struct json *doc;

    if (view->has_account)
        return;
    doc = json_new_object(effects->arena);
    json_set_string(effects->arena, json_set_object(effects->arena, doc, "metadata"), "name", "default");
    effect_create(effects, kind_by_id(KIND_SERVICE_ACCOUNT), view->ns->name, doc);
}

static void note_remaining(const struct namespace_view *view, struct json *doc, struct effects *effects)
{
    struct json *status = json_need_object(effects->arena, doc, "status");
    bool changed = condition_set(effects->arena, status, "NamespaceContentRemaining", "True",
                                 "SomeResourcesRemain", "Some resources are remaining", view->now);

    if (!streq(json_get_string(status, "phase"), "Terminating")) {
        json_set_string(effects->arena, status, "phase", "Terminating");
        changed = true;
    }
    if (changed)
        effect_update_status(effects, view->ns, doc);
}

void namespace_look(const struct namespace_view *view, struct effects *effects)
{
    struct json *doc;

    if (!view->ns->deleting) {
        look_alive(view, effects);
        return;
    }
    doc = object_json(view->ns, effects->arena);
    if (view->total == 0) {
        struct json *list = json_at(doc, "spec.finalizers");

        if (string_list_has(list, "kubernetes")) {
            string_list_remove(list, "kubernetes");
            effect_update(effects, view->ns, doc);
        }
        return;
    }
    for (size_t i = 0; i < view->content_count && !effects->more; i++) {
        if (view->content[i]->deleting)
            continue;
        if (effects_room(effects) > 4)
            effect_delete(effects, view->content[i]);
        else
            effects->more = true;
    }
    note_remaining(view, doc, effects);
}
