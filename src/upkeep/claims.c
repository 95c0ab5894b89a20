/* Claims that nobody uses. Since when is written on the claim, so that it counts over restarts; the owner is
 * told once, and where the lab has set so the claim is deleted later. Used is what a pod or a Job names that
 * is not over. */
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "control/util.h"
#include "notify/inbox.h"
#include "objects/kind.h"
#include "upkeep/internal.h"

#define CLAIMS_TURN 100 /* that are written in one look */
#define DAY_SEC     INT64_C(86400)

static void add_volumes(struct map *used, const char *ns, const struct json *pod_spec)
{
    JSON_EACH(json_get(pod_spec, "volumes"), it) {
        const char *claim = json_at_string(it, "persistentVolumeClaim.claimName");
        CLEANUP(free) char *key = claim ? mem_printf("%s/%s", ns, claim) : NULL;

        if (key)
            map_set(used, str_from(key), used);
    }
}

static struct map *used_claims(const struct store *store)
{
    static const struct {
        int kind;
        const char *spec;
    } users[] = {{KIND_POD, "spec"}, {KIND_JOB, "spec.template.spec"}};
    struct map *used = map_new();

    for (size_t i = 0; i < ARRAY_LEN(users); i++)
        OBJECTS_EACH(store_list(store, users[i].kind, NULL), it) {
            CLEANUP(arena_done) struct arena arena = {0};
            const struct json *doc = object_doc_once(*it, &arena);

            if (!prune_finished_at(*it, doc))
                add_volumes(used, (*it)->ns, json_at(doc, users[i].spec));
        }
    return used;
}

/* arg: the time, or NULL to take it away. */
static bool edit_since(void *arg, struct arena *arena, struct json *doc)
{
    if (arg)
        annotation_set(arena, doc, UNUSED_ANNOTATION, arg);
    else
        json_remove(json_at(doc, "metadata.annotations"), UNUSED_ANNOTATION);
    return true;
}

static void set_since(struct upkeep *upkeep, const struct object *claim, char *since)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure, .manager = "berth"};
    struct written written = {0};

    if (registry_edit_object(upkeep->config.registry, &write, claim, edit_since, since, &written) < 0)
        log_debug("%s/%s: %s", claim->ns, claim->name, failure.message ? failure.message : "not changed");
}

/* True: just now, for the first time. */
static bool tell_owner(struct upkeep *upkeep, const struct object *claim, const struct json *doc,
                       const char *since)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct upkeep_policy *policy = &upkeep->config.policy;
    const char *text = arena_printf(&arena, "the claim has not been used since %s", since);

    if (policy->claim_delete_sec)
        text = arena_printf(&arena, "%s; it is deleted with its data after %lld days without use", text,
                            (long long)(policy->claim_delete_sec / DAY_SEC));
    if (!inbox_tell(upkeep->config.inbox, &(struct inbox_item){.user = work_user(doc),
                                                               .kind = INBOX_NOTICE,
                                                               .job = claim->uid,
                                                               .ns = claim->ns,
                                                               .name = claim->name,
                                                               .text = text,
                                                               .once = since,
                                                               .at_ms = clock_now() / NSEC_PER_MSEC}))
        return false;
    registry_event(upkeep->config.registry, claim, "Warning", "UnusedClaim", "%s", text);
    return true;
}

static void delete_claim(struct upkeep *upkeep, const struct object *claim)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure, .manager = "berth"};
    struct delete_options options = {.uid = claim->uid};
    struct written written = {0};

    log_info("claim %s/%s was not used for too long: deleted", claim->ns, claim->name);
    if (registry_delete(upkeep->config.registry, &write, claim->kind, claim->ns, claim->name, &options,
                        &written) < 0)
        log_warn("claim %s/%s: %s", claim->ns, claim->name,
                 failure.message ? failure.message : "not deleted");
}

/* True: it was written. */
static bool look_at(struct upkeep *upkeep, const struct object *claim, const struct map *used, int64_t now)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct upkeep_policy *policy = &upkeep->config.policy;
    const struct json *doc = object_doc_once(claim, &arena);
    const char *since = annotation_get(doc, UNUSED_ANNOTATION);
    char *key = arena_printf(&arena, "%s/%s", claim->ns, claim->name), text[CLOCK_TEXT_MAX];
    bool in_use = map_get(used, str_from(key));
    int64_t at;

    if (claim->deleting || (in_use && !since))
        return false;
    if (in_use || !since || !clock_parse(str_from(since), &at)) {
        set_since(upkeep, claim, in_use ? NULL : clock_format(now, text));
        return true;
    }
    /* A daemon that was away for long tells, and deletes at a later look. */
    if (policy->claim_warn_sec && clock_after(at, policy->claim_warn_sec) <= now &&
        tell_owner(upkeep, claim, doc, since))
        return false;
    if (!policy->claim_delete_sec || clock_after(at, policy->claim_delete_sec) > now || work_is_retained(doc))
        return false;
    delete_claim(upkeep, claim);
    return true;
}

void claims_look(struct upkeep *upkeep)
{
    CLEANUP(map_free) struct map *used = NULL;
    VEC(struct object *) claims = {0};
    int64_t now = clock_now();
    size_t written = 0;

    if (!upkeep->config.policy.claim_warn_sec && !upkeep->config.policy.claim_delete_sec)
        return;
    used = used_claims(upkeep->store);
    OBJECTS_EACH(store_list(upkeep->store, KIND_PVC, NULL), it)
        vec_push(&claims, object_ref(*it));
    VEC_EACH(&claims, it) {
        if (written < CLAIMS_TURN)
            written += look_at(upkeep, *it, used, now);
        object_unref(*it);
    }
    vec_done(&claims);
}
