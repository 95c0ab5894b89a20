/* registry - every write and read of objects goes through here: decoding is done, rules are applied
 * (defaults, validation, admission, immutability, ownership of fields), revisions are given, the store is
 * told. The API, the controllers and the engines all use these calls, so a rule holds for everybody.
 *
 * Which writes are checked, and which are trusted:
 *
 *                              others' (who)   Berth's create   Berth's edit (registry_edit_object)
 *   types and unknown fields   checked         checked          types, where it changes content
 *   names, labels, annotations checked         checked          checked
 *   content: spec, data …      checked         checked          checked as a whole, where it changes
 *   fields that cannot change  checked         -                trusted: nodeName, volumeName, claimRef …
 *   status                     by /status      replaced         trusted
 *   admission                  asked           asked            asked
 *   label user                 refused         the owner's      trusted
 *   label priority             checked         trusted          trusted
 *
 * "Content" is all but metadata and status. An edit that leaves content as it is passes even where what is
 * stored would be refused today. Deletion marks (deletionTimestamp, finalizers) are written unchecked.
 * Whether somebody may write at all is asked before, by access_check (access.h).
 *
 * Calls change memory at once; whoever answers a client does so through store_defer (see store.h). */
#pragma once

#include "objects/failure.h"
#include "objects/kind.h"
#include "objects/patch.h"
#include "registry/identity.h"
#include "store/store.h"

struct registry;

struct registry *registry_new(struct store *store);
void registry_free(struct registry *registry);
struct store *registry_store(const struct registry *registry);

enum field_validation { FIELDS_IGNORE, FIELDS_WARN, FIELDS_STRICT };

struct write {
    const struct identity *who; /* with whose rights; NULL: Berth itself */
    const struct identity *by;  /* who asks for it, where that is an admin who acts for who; NULL: who does */
    const char *manager;        /* field manager; NULL: "berth" */
    const char *subresource;    /* "" or "status"; NULL: "" */
    enum field_validation validation;
    bool dry_run;
    uint32_t copies;         /* dry run of a create: as if for so many at once; 0: one */
    bool force;              /* apply: take over conflicting fields */
    bool applied;            /* the registry's own: managedFields are right already */
    bool patched;            /* the registry's own: the document is a patched one */
    bool space_to_come;      /* with dry_run: the namespace need not be there yet */
    bool keep_generation;    /* a change of spec that metadata.generation does not count (binding) */
    int64_t now;             /* wall clock; 0: registry asks the clock */
    struct arena *arena;     /* for everything made on the way; outlives the call's results */
    struct json *warnings;   /* array that gets warning texts; NULL: not wanted */
    const char *duplicates;  /* repeated members the parser found ("spec.x,…"); NULL: none */
    struct failure *failure; /* filled on -1 */
};

static inline const struct identity *write_asker(const struct write *write)
{
    return write->by ? write->by : write->who;
}

/* What is stored afterwards; borrowed until control returns to the loop. A dry run has made its object for
 * the answer alone: written_done releases it (and is fine, if needless, after other writes). */
struct written {
    const struct object *object;
    struct object *dry;
    bool created; /* update and apply that made it */
    bool deleted; /* delete: it is gone already (else it is on its way) */
};

void written_done(struct written *written);
static inline void written_done_cleanup_(struct written *written)
{
    written_done(written);
}

/* doc: metadata.namespace may be absent; ns is the request's ("" for cluster-scoped kinds). doc is changed.
 */
int registry_create(struct registry *registry, const struct write *write, const struct kind *kind,
                    const char *ns, struct json *doc, struct written *ret);
int registry_update(struct registry *registry, const struct write *write, const struct kind *kind,
                    const char *ns, const char *name, struct json *doc, struct written *ret);
int registry_patch(struct registry *registry, const struct write *write, const struct kind *kind,
                   const char *ns, const char *name, enum patch_type type, struct json *patch,
                   struct written *ret);

enum propagation { PROPAGATE_DEFAULT, PROPAGATE_BACKGROUND, PROPAGATE_FOREGROUND, PROPAGATE_ORPHAN };
struct delete_options {
    bool has_grace;
    int64_t grace_sec;
    enum propagation propagation;
    const char *uid; /* preconditions; NULL: none */
    const char *resource_version;
};
int registry_delete(struct registry *registry, const struct write *write, const struct kind *kind,
                    const char *ns, const char *name, const struct delete_options *options,
                    struct written *ret);

/* For controllers and engines: changes an object by a function that edits its document in place; the table
 * above says what is checked. edit returns false to leave it as it is. ERR: failure NotFound when it is gone,
 * Invalid or BadRequest when the edit has made something of it that nobody could create. */
typedef bool (*registry_edit)(void *arg, struct arena *arena, struct json *doc);
int registry_edit_object(struct registry *registry, const struct write *write, const struct object *object,
                         registry_edit edit, void *arg, struct written *ret);

/* A name that starts with base and ends in five random letters. In the arena. */
char *object_generate_name(struct arena *arena, const char *base);

/* Admission asked of every create and update before it is stored; registered by the controllers. Returns -1
 * with failure to refuse. May change doc (LimitRange defaults). */
typedef int (*registry_admit)(void *arg, const struct write *write, const struct kind *kind, const char *ns,
                              struct json *doc, const struct object *old);
void registry_add_admission(struct registry *registry, registry_admit admit, void *arg);

/* fn is called when a person (write->who) has an object deleted, before it is marked or gone; not for dry
 * runs. One listener; NULL: none. */
void registry_on_delete(struct registry *registry,
                        void (*fn)(void *arg, const struct write *write, const struct object *object),
                        void *arg);

/* fn is called before an object goes from the store, whoever had it deleted; not for dry runs. What it writes
 * becomes durable together with that. One listener; NULL: none. */
void registry_on_drop(struct registry *registry, void (*fn)(void *arg, const struct object *object),
                      void *arg);

/* Records an event about an object (count goes up for a repeated one). type "Normal" or "Warning". */
void registry_event(struct registry *registry, const struct object *about, const char *type,
                    const char *reason, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
