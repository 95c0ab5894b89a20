/* Whose work an object is. The annotation berth.dev/user says whose rights it has: the maker's, or those of
 * whoever owns what a controller made it for; work of the machine's admin is ADMIN_USER's, and what has no
 * owner does not run. The label `user` of work (pods, Jobs and their templates, TrainingJobs, tasks) shows
 * it, and is Berth's to write. Admins alone may make work for somebody else, by that label: it has that
 * person's rights from then on. A label that an admin changes later moves the work in the queue; what runs
 * goes on as it was started. Both stay as they are on updates that leave them out. */
#include "objects/names.h"
#include "registry/access.h"
#include "registry/internal.h"

#include <ctype.h>

#define NAME_MAX_LEN 63 /* of a label's value */

static const char *const places[] = {"metadata", "spec.template.metadata"};

/* In how many of the places a kind has labels of work. */
static size_t place_count(const struct kind *kind)
{
    switch (kind->id) {
    case KIND_POD:
    case KIND_TRAINING_JOB:
    case KIND_TASK:
        return 1;
    case KIND_JOB:
        return 2;
    default:
        return 0;
    }
}

static const char *label_at(const struct json *doc, const char *place, const char *key)
{
    return json_string_or(json_get(json_get(json_at(doc, place), "labels"), key), "");
}

/* Names with an @ and the like cannot be a label's value: such work has none. */
static bool fits_label(const char *user)
{
    size_t len = strlen(user);

    if (len == 0 || len > NAME_MAX_LEN || !isalnum((unsigned char)user[0]) ||
        !isalnum((unsigned char)user[len - 1]))
        return false;
    return strspn(user, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == len;
}

static struct json *need_place(struct arena *arena, struct json *doc, const char *place)
{
    struct json *spec = json_get(doc, "spec"), *template;

    if (streq(place, "metadata"))
        return json_need_object(arena, doc, "metadata");
    template = json_is(spec, JSON_OBJECT) ? json_get(spec, "template") : NULL;
    return json_is(template, JSON_OBJECT) ? json_need_object(arena, template, "metadata") : NULL;
}

/* A document that lacks the place (a Job without its template) is refused by the rules, later. */
static void write_label(const struct write *write, struct json *doc, const char *place, const char *user)
{
    struct json *meta = need_place(write->arena, doc, place);
    struct json *labels = meta ? json_need_object(write->arena, meta, "labels") : NULL;

    if (labels)
        json_set_string(write->arena, labels, USER_LABEL, user);
}

static void write_labels(const struct write *write, const struct kind *kind, struct json *doc,
                         const char *user)
{
    for (size_t i = 0; i < place_count(kind) && fits_label(user); i++)
        write_label(write, doc, places[i], user);
}

static int refuse(const struct write *write, const struct kind *kind, const struct json *doc,
                  const char *given, const char *owner)
{
    return failure_forbidden(
        write->failure, write->arena, kind->group, kind->plural,
        json_string_or(json_at(doc, "metadata.name"), ""),
        arena_printf(write->arena,
                     "label \"" USER_LABEL "\" must be \"%s\", not \"%s\": Berth writes the name of "
                     "whoever makes the object, and only admins may give it to somebody else",
                     owner, given));
}

/* ---- new objects ---- */

static void set_owner(const struct write *write, struct json *doc, const char *owner)
{
    struct json *annotations = json_at(doc, "metadata.annotations");

    if (owner)
        annotation_set(write->arena, doc, OWNER_ANNOTATION, owner);
    else if (annotations)
        json_remove(annotations, OWNER_ANNOTATION);
}

/* What a controller makes something for. */
static const struct object *made_for(struct registry *registry, const char *ns, const struct json *doc)
{
    const struct object *object = NULL;

    JSON_EACH(json_at(doc, "metadata.ownerReferences"), it)
        if (json_bool(json_get(it, "controller")))
            object = store_by_uid(registry->store, json_string_or(json_get(it, "uid"), ""));
    return object && (streq(object->ns, ns) || !*object->ns) ? object : NULL;
}

/* Made by a controller: it is whose that is what it was made for, whatever a template says. */
static void take_over(struct registry *registry, const struct write *write, const struct kind *kind,
                      struct json *doc)
{
    const struct object *object =
        made_for(registry, json_string_or(json_at(doc, "metadata.namespace"), ""), doc);
    const struct json *owner = object ? object_doc(object) : NULL;

    set_owner(write, doc, work_rights(owner));
    if (owner && (work_owner(owner) || label_get(owner, USER_LABEL)))
        write_labels(write, kind, doc, work_user(owner));
}

/* Names that stand for the machine's admin are nobody else's. */
static int check_name(const struct write *write, const struct kind *kind, const struct json *doc,
                      const char *name, bool admin)
{
    if (admin || (!streq(name, ADMIN_USER) && !starts_with(name, "system:")))
        return 0;
    return failure_forbidden(
        write->failure, write->arena, kind->group, kind->plural,
        json_string_or(json_at(doc, "metadata.name"), ""),
        arena_printf(write->arena, "\"%s\" is the name of the machine's admin, which you are not", name));
}

int owner_stamp(struct registry *registry, const struct write *write, const struct kind *kind,
                struct json *doc)
{
    bool admin = write->who && access_is_admin(write_asker(write)), masters;
    const char *owner, *user = NULL;

    if (!write->who) {
        take_over(registry, write, kind, doc);
        return 0;
    }
    if (check_name(write, kind, doc, write->who->user, access_is_admin(write->who)) < 0)
        return -1;
    masters = identity_in_group(write->who, "system:masters");
    owner = !masters ? write->who->user : place_count(kind) ? ADMIN_USER : NULL;
    for (size_t i = 0; i < place_count(kind); i++) {
        const char *given = label_at(doc, places[i], USER_LABEL);

        if (*given && !admin && !streq(given, owner))
            return refuse(write, kind, doc, given, owner);
        if (*given && !user)
            user = given;
    }
    if (user && !write->by) { /* an admin makes it for somebody, or it is their own name */
        if (check_name(write, kind, doc, user, masters) < 0)
            return -1;
        owner = user;
    }
    set_owner(write, doc, owner);
    if (user || !masters)
        write_labels(write, kind, doc, user ? user : owner);
    return 0;
}

/* ---- updates ---- */

static void carry_owner(const struct write *write, struct json *doc, const struct json *old)
{
    const char *owner = annotation_get(old, OWNER_ANNOTATION);
    struct json *meta = json_get(doc, "metadata");

    set_owner(write, doc, owner);
    if (!owner && json_get(meta, "annotations") && !json_len(json_get(meta, "annotations")))
        json_remove(meta, "annotations");
}

int owner_carry(const struct write *write, const struct kind *kind, struct json *doc, const struct json *old)
{
    const char *owner = annotation_get(old, OWNER_ANNOTATION);

    carry_owner(write, doc, old);
    if (!write->who || access_is_admin(write_asker(write)))
        return 0;
    for (size_t i = 0; i < place_count(kind); i++) {
        const char *was = label_at(old, places[i], USER_LABEL), *now = label_at(doc, places[i], USER_LABEL);

        if (streq(now, was) || (*now && streq(now, owner)))
            continue;
        if (*now)
            return refuse(write, kind, doc, now, *was ? was : owner ? owner : ADMIN_USER);
        write_label(write, doc, places[i], was);
    }
    return 0;
}

/* ---- owners of others ---- */

static bool is_bond(const struct json *ref)
{
    return json_bool(json_get(ref, "controller")) || json_bool(json_get(ref, "blockOwnerDeletion"));
}

static bool had_reference(const struct json *old, const struct json *ref)
{
    JSON_EACH(json_at(old, "metadata.ownerReferences"), it)
        if (json_equal(it, ref))
            return true;
    return false;
}

static bool may_bind(struct registry *registry, const struct write *write, const char *ns,
                     const struct json *ref)
{
    const struct object *owner = store_by_uid(registry->store, json_string_or(json_get(ref, "uid"), ""));

    return owner && streq(owner->ns, ns) &&
           access_allowed(registry, write_asker(write),
                          &(struct access){.verb = "delete",
                                           .kind = owner->kind,
                                           .subresource = "",
                                           .ns = ns,
                                           .name = owner->name,
                                           .path = ""});
}

int owner_check_references(struct registry *registry, const struct write *write, const struct kind *kind,
                           const char *ns, const struct json *doc, const struct json *old)
{
    if (!write->who || access_is_admin(write_asker(write)))
        return 0;
    JSON_EACH(json_at(doc, "metadata.ownerReferences"), it)
        if (is_bond(it) && !had_reference(old, it) && !may_bind(registry, write, ns, it))
            return failure_forbidden(
                write->failure, write->arena, kind->group, kind->plural,
                json_string_or(json_at(doc, "metadata.name"), ""),
                arena_printf(
                    write->arena,
                    "cannot set controller or blockOwnerDeletion in the ownerReference to %s \"%s\": "
                    "it is not in this namespace, or not yours to delete",
                    json_string_or(json_get(it, "kind"), "object"),
                    json_string_or(json_get(it, "name"), "")));
    return 0;
}

/* ---- priority ---- */

void owner_check_priority(const struct write *write, const struct kind *kind, const struct json *doc,
                          const struct json *old, struct field_errors *errors)
{
    for (size_t i = 0; i < place_count(kind) && write->who; i++) {
        const char *text = label_at(doc, places[i], PRIORITY_LABEL);

        if (!streq(text, label_at(old, places[i], PRIORITY_LABEL)) && !priority_is_valid(str_from(text)))
            field_invalid(errors, arena_printf(write->arena, "%s.labels." PRIORITY_LABEL, places[i]),
                          json_new_string(write->arena, text), PRIORITY_RULE);
    }
}
