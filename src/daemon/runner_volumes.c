/* Which volumes a claim could get, without reading all there are: most are bound to somebody else. */
#include "base/mem.h"
#include "daemon/runner_internal.h"

static const char *claim_uid(const struct object *volume)
{
    return json_string_or(json_at(object_doc(volume), "spec.claimRef.uid"), "");
}

static void bound_remove(struct runner *runner, const char *claim, const struct object *volume)
{
    const char *name = map_get(runner->bound_volumes, str_from(claim));

    if (streq(name, volume->name))
        free(map_remove(runner->bound_volumes, str_from(claim)));
}

void runner_volume_noted(struct runner *runner, const struct object *volume, const struct object *before,
                         bool deleted)
{
    const char *claim = claim_uid(volume);

    if (before)
        bound_remove(runner, claim_uid(before), volume);
    map_remove(runner->open_volumes, str_from(volume->uid));
    if (deleted)
        bound_remove(runner, claim, volume);
    else if (*claim)
        free(map_set(runner->bound_volumes, str_from(claim), mem_strdup(volume->name)));
    else
        map_set(runner->open_volumes, str_from(volume->uid), runner);
}

static int by_name(const void *a, const void *b)
{
    const struct object *const *left = a, *const *right = b;

    return strcmp((*left)->name, (*right)->name);
}

/* A name that the claim has decides; else those without a claim, in an order that is always the same. */
void runner_volumes_for(struct runner *runner, const struct object *claim, struct pvc_view *view)
{
    struct arena *arena = &runner->arena;
    const char *wanted = json_string_or(json_at(object_doc(claim), "spec.volumeName"), ""),
               *name = *wanted ? wanted : map_get(runner->bound_volumes, str_from(claim->uid));
    const struct object *named = name ? store_get(runner->store, KIND_PV, "", name) : NULL, **found;
    struct str key;
    void *value;
    size_t at = 0;

    found = arena_alloc(arena, (map_len(runner->open_volumes) + 1) * sizeof(found[0]));
    view->volumes = found;
    if (named)
        found[view->volume_count++] = named;
    while (!*wanted && map_next(runner->open_volumes, &at, &key, &value)) {
        char uid[64];
        const struct object *volume;

        snprintf(uid, sizeof(uid), "%.*s", STR_ARG(key));
        volume = store_by_uid(runner->store, uid);
        if (volume)
            found[view->volume_count++] = volume;
    }
    qsort(found, view->volume_count, sizeof(found[0]), by_name);
}

void runner_volumes_done(struct runner *runner)
{
    struct str key;
    void *value;
    size_t at = 0;

    while (map_next(runner->bound_volumes, &at, &key, &value))
        free(value);
    map_free(runner->bound_volumes);
    map_free(runner->open_volumes);
}
