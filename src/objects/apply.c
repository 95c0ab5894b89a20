/* How it works: the applied document is laid over the live one; what the manager applied last time but no
 * longer does, and nobody else owns, is taken out again; what then differs from the live object must not
 * belong to another manager, unless forced. The rules, their order and the sentences are those of
 * Kubernetes' structured merge. */
#include "objects/apply_managed.h"
#include "objects/patch.h"

#define LAST_APPLIED     "kubectl.kubernetes.io/last-applied-configuration"
#define LAST_APPLIED_MAX (256 << 10) /* bytes of all annotations */
#define CONFLICTS_SHOWN  100         /* of one answer; the others are counted */
#define PATH_SHOWN       1024 /* bytes of a path: it holds the names of list items, as long as a body */

struct apply {
    const struct apply_request *request;
    struct arena *arena;
    struct walk walk;
    const struct json *live; /* NULL: none */
    const struct json *applied;
    struct managers managers;
    struct manager me;
    struct failure *failure;
};

static int check_applied(struct apply *apply)
{
    const char *version = json_string_or(json_get(apply->applied, "apiVersion"), "");
    const char *wrong;

    if (!json_is(apply->applied, JSON_OBJECT))
        return failure_bad_request(apply->failure, apply->arena,
                                   "error decoding YAML: cannot unmarshal %s into Go value of type "
                                   "map[string]interface {}",
                                   json_type_name(apply->applied));
    if (!streq(version, apply->request->api_version))
        return failure_bad_request(
            apply->failure, apply->arena,
            "Incorrect version specified in apply patch. Specified patch version: %s, expected: %s", version,
            apply->request->api_version);
    if (json_at(apply->applied, "metadata.managedFields") &&
        !json_is(json_at(apply->applied, "metadata.managedFields"), JSON_NULL))
        return failure_bad_request(apply->failure, apply->arena, "metadata.managedFields must be nil");
    wrong = walk_check(&apply->walk, apply->request->type, apply->applied);
    if (wrong)
        return failure_set(apply->failure, apply->arena, 500, NULL, /* as Kubernetes does */
                           "failed to create typed patch object (%s/%s; %s%s, Kind=%s): %s",
                           json_string_or(json_at(apply->applied, "metadata.namespace"), ""),
                           json_string_or(json_at(apply->applied, "metadata.name"), ""),
                           strchr(version, '/') ? "" : "/", version,
                           json_string_or(json_get(apply->applied, "kind"), ""), wrong);
    return 0;
}

/* ---- taking out what is no longer applied ---- */

static struct json named(struct apply *apply, const struct json *set)
{
    return set_with_named(&apply->walk, apply->request->type, set);
}

static struct json named_fields(struct apply *apply, const struct json *doc)
{
    struct json set = walk_fields(&apply->walk, apply->request->type, doc);

    return named(apply, &set);
}

/* metadata itself never goes: it has a name, which is nobody's. */
static void keep_metadata(struct json *gone)
{
    struct json *metadata = json_get(gone, "f:metadata");

    json_remove(metadata, ".");
    if (metadata && metadata->len == 0)
        json_remove(gone, "f:metadata");
}

/* merged without what only `last` had. Everything last had goes first; then what somebody owns is taken
 * back, and at the end whatever last had nothing to do with. */
static struct json prune(struct apply *apply, const struct json *merged, const struct json *last)
{
    const struct schema_type *type = apply->request->type;
    struct arena *arena = apply->arena;
    struct json last_named = named(apply, last), all = named_fields(apply, merged);
    struct json pruned = walk_remove(&apply->walk, type, merged, &last_named);
    struct json kept = named_fields(apply, &pruned), owned = {.type = JSON_OBJECT}, gone;

    for (size_t i = 0; i < apply->managers.len; i++)
        owned = set_combine(arena, &owned, &apply->managers.v[i].set, SET_UNION);
    owned = named(apply, &owned);
    kept = set_combine(arena, &kept, &owned, SET_UNION);
    gone = set_combine(arena, &all, &kept, SET_DIFFERENCE);
    pruned = walk_remove(&apply->walk, type, merged, &gone);

    kept = named_fields(apply, &pruned);
    gone = set_combine(arena, &all, &kept, SET_DIFFERENCE);
    gone = set_combine(arena, &gone, &last_named, SET_INTERSECTION);
    keep_metadata(&gone);
    pruned = walk_remove(&apply->walk, type, merged, &gone);
    /* what lost its last member was removed, also where it is applied as {} */
    return walk_merge(&apply->walk, type, &pruned, apply->applied);
}

/* ---- conflicts ---- */

struct conflicts {
    struct apply *apply;
    const struct manager *with;
    const struct json *allowed; /* fields that do not count; NULL: all do */
    struct json *causes;
    struct buf lines; /* "- .x" */
    size_t count;
    const char *first; /* path */
};

static const char *manager_text(struct apply *apply, const struct manager *manager)
{
    return arena_printf(apply->arena, "\"%s\"%s%s%s%s%s", manager->name,
                        *manager->subresource ? " with subresource \"" : "", manager->subresource,
                        *manager->subresource ? "\"" : "", manager->applied ? "" : " using ",
                        manager->applied ? "" : manager->api_version);
}

static void add_conflict(void *arg, const char *path)
{
    struct conflicts *conflicts = arg;
    struct arena *arena = conflicts->apply->arena;
    struct json *cause;

    if (conflicts->count >= CONFLICTS_SHOWN) {
        conflicts->count++;
        return;
    }
    path = arena_strndup(arena, path, utf8_valid_len((struct str){path, strnlen(path, PATH_SHOWN)}));
    cause = json_push_object(arena, conflicts->causes);
    json_set_string(arena, cause, "reason", "FieldManagerConflict");
    json_set_string(arena, cause, "message",
                    arena_printf(arena, "conflict with %s", manager_text(conflicts->apply, conflicts->with)));
    json_set_string(arena, cause, "field", path);
    buf_printf(&conflicts->lines, "\n- %s", path);
    if (!conflicts->count++)
        conflicts->first = path;
}

/* Fields of others that would change. 409 when there are any. */
static int check_conflicts(struct apply *apply, const struct json *changed, const struct json *allowed)
{
    struct conflicts conflicts = {.apply = apply, .causes = json_new_array(apply->arena)};
    const struct manager *mine = managers_find(&apply->managers, &apply->me), *only = NULL;
    struct arena *arena = apply->arena;

    for (size_t i = 0; i < apply->managers.len; i++) {
        const struct manager *m = &apply->managers.v[i];
        struct json set = set_combine(arena, &m->set, changed, SET_INTERSECTION);

        if (allowed)
            set = set_combine(arena, &set, allowed, SET_DIFFERENCE);
        if (m == mine || set_is_empty(&set))
            continue;
        if (conflicts.count)
            buf_putc(&conflicts.lines, '\n');
        buf_printf(&conflicts.lines, "conflicts with %s:", manager_text(apply, m));
        only = conflicts.with = m;
        set_each_path(&set, add_conflict, &conflicts);
    }
    if (conflicts.count > CONFLICTS_SHOWN)
        buf_printf(&conflicts.lines, "\nand %zu more", conflicts.count - CONFLICTS_SHOWN);
    if (conflicts.count == 1)
        failure_set(apply->failure, arena, 409, "Conflict",
                    "Apply failed with 1 conflict: conflict with %s: %s", manager_text(apply, only),
                    conflicts.first);
    else if (conflicts.count)
        failure_set(apply->failure, arena, 409, "Conflict", "Apply failed with %zu conflicts: %s",
                    conflicts.count, conflicts.lines.data);
    if (conflicts.count)
        apply->failure->causes = conflicts.causes;
    buf_done(&conflicts.lines);
    return conflicts.count ? -1 : 0;
}

/* Fields that the last client-side apply set and that are still as it set them: kubectl may take those from
 * itself. False: there are none. */
static bool from_last_applied(struct apply *apply, struct json *ret)
{
    const struct json *note = json_get(json_at(apply->live, "metadata.annotations"), LAST_APPLIED);
    struct comparison difference;
    struct json *doc;

    if (!streq(apply->request->manager, "kubectl") || !json_is(note, JSON_STRING) ||
        json_parse(json_str(note), apply->arena, &doc, NULL, NULL) < 0 || !json_is(doc, JSON_OBJECT) ||
        !streq(json_get_string(doc, "apiVersion"), apply->request->api_version))
        return false;
    *ret = walk_fields(&apply->walk, apply->request->type, doc);
    walk_compare(&apply->walk, apply->request->type, doc, apply->live, &difference);
    *ret = set_combine(apply->arena, ret, &difference.modified, SET_DIFFERENCE);
    *ret = set_combine(apply->arena, ret, &difference.added, SET_DIFFERENCE);
    *ret = set_combine(apply->arena, ret, &difference.removed, SET_DIFFERENCE);
    return true;
}

/* ---- the whole ---- */

/* An object that carries the annotation of client-side apply keeps it current. */
static void update_last_applied(struct apply *apply, struct json *doc)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct json *annotations = json_at(doc, "metadata.annotations"), *note, *copy;

    note = json_get(annotations, LAST_APPLIED);
    if (!streq(apply->request->manager, "kubectl") || !json_str(note).len)
        return;
    copy = json_copy(apply->arena, apply->applied);
    json_remove(json_at(copy, "metadata.annotations"), LAST_APPLIED);
    json_write_sorted(&text, copy);
    buf_putc(&text, '\n');
    if (text.len > LAST_APPLIED_MAX)
        json_remove(annotations, LAST_APPLIED);
    else
        *note = json_of_str(apply->arena, buf_view(&text));
}

static bool same_but_managers(const struct json *a, const struct json *b, struct arena *arena)
{
    struct json *x = a ? json_copy(arena, a) : NULL, *y = json_copy(arena, b);

    json_remove(json_get(x, "metadata"), "managedFields");
    json_remove(json_get(y, "metadata"), "managedFields");
    return json_equal(x, y);
}

static int apply_run(struct apply *apply, struct json **ret)
{
    const struct schema_type *type = apply->request->type;
    struct arena *arena = apply->arena;
    struct json merged = walk_merge(&apply->walk, type, apply->live, apply->applied), changed, allowed;
    struct json set = walk_fields(&apply->walk, type, apply->applied);
    struct manager *mine = managers_find(&apply->managers, &apply->me);
    struct json last = mine ? mine->set : (struct json){.type = JSON_OBJECT};
    bool known = mine != NULL;
    struct comparison difference;

    if (!mine)
        mine = managers_add(&apply->managers, apply->me);
    mine->set = set;
    mine->wrote = true;
    mine->api_version = apply->me.api_version;
    if (!set_is_empty(&last))
        merged = prune(apply, &merged, &last);
    walk_compare(&apply->walk, type, apply->live, &merged, &difference);
    changed = set_combine(arena, &difference.modified, &difference.added, SET_UNION);
    if (!apply->request->force) {
        bool some = from_last_applied(apply, &allowed);

        if (check_conflicts(apply, &changed, some ? &allowed : NULL) < 0)
            return -1;
    }
    managers_lose(&apply->managers, mine, &changed);
    managers_lose(&apply->managers, mine, &difference.removed);
    *ret = json_copy(arena, &merged); /* it shared with live and applied until here */
    update_last_applied(apply, *ret);
    if (!known || !json_equal(&last, &set) || !same_but_managers(apply->live, *ret, arena))
        mine->time = apply->request->now;
    managers_write(&apply->managers, *ret);
    return 0;
}

int patch_apply_check(const struct apply_request *request, struct arena *arena, const struct json *applied,
                      struct failure *failure)
{
    struct apply apply = {
        .request = request, .arena = arena, .walk = {.arena = arena}, .applied = applied, .failure = failure};
    int r = check_applied(&apply);

    walk_done(&apply.walk);
    return r;
}

int patch_apply(const struct apply_request *request, struct arena *arena, const struct json *live,
                const struct json *applied, struct json **ret, struct failure *failure)
{
    const char *ignored = *request->subresource ? "spec" : "status";
    struct apply apply = {
        .request = request,
        .arena = arena,
        .walk = {.arena = arena, .ignored = ignored},
        .live = live,
        .managers = {.arena = arena},
        .me = {.name = request->manager,
               .api_version = request->api_version,
               .subresource = request->subresource,
               .time = request->now,
               .applied = true,
               .set = {.type = JSON_OBJECT}},
        .failure = failure,
    };
    struct json *copy = json_copy(arena, applied);
    int r;

    json_remove(copy, ignored); /* written elsewhere: not this request's to say */
    apply.applied = copy;
    r = check_applied(&apply);
    if (r == 0) {
        managers_read(&apply.managers, json_at(live, "metadata.managedFields"));
        if (live && !apply.managers.len)
            managers_adopt(&apply.managers, &apply.walk, request->type, request->api_version, request->now,
                           live);
        r = apply_run(&apply, ret);
    }
    walk_done(&apply.walk);
    return r;
}
