/* What the files of registry share. */
#pragma once

#include "base/vec.h"
#include "objects/object_doc.h"
#include "registry/registry.h"

struct admission {
    registry_admit admit;
    void *arg;
};

struct registry {
    struct store *store;
    VEC(struct admission) admissions;
    uint64_t event_seq;
    void (*on_delete)(void *arg, const struct write *write, const struct object *object);
    void *on_delete_arg;
    void (*on_drop)(void *arg, const struct object *object);
    void *on_drop_arg;
};

/* How much of an object a write may change. */
enum write_scope {
    SCOPE_MAIN,   /* all but status */
    SCOPE_STATUS, /* status alone (and metadata, as Kubernetes allows) */
    SCOPE_ALL,    /* both: Berth's own controllers */
};

int64_t write_now(const struct write *write);
enum write_scope write_scope_of(const struct write *write, const struct kind *kind);

/* apiVersion and kind of doc against the kind, then its fields against the schema. */
int write_decode(const struct write *write, const struct kind *kind, struct json *doc);
int registry_admit_all(struct registry *registry, const struct write *write, const struct kind *kind,
                       const char *ns, struct json *doc, const struct object *old);
struct rule_ctx write_ctx(const struct write *write, const char *name);
/* What is legal but perhaps not meant. */
void write_warn(const struct write *write, const struct kind *kind, const struct rule_ctx *ctx,
                const struct json *doc, const struct json *old);
/* Gives doc the next revision (not on a dry run), stores it, fills ret. */
void registry_commit(struct registry *registry, const struct write *write, const struct kind *kind,
                     struct json *doc, struct written *ret);
/* Removes object; doc is its last state (NULL: as stored). */
void registry_drop(struct registry *registry, const struct write *write, const struct object *object,
                   struct json *doc, struct written *ret);
/* update's second half: doc replaces old. */
int registry_replace(struct registry *registry, const struct write *write, enum write_scope scope,
                     const struct object *old, const struct json *old_doc, struct json *doc,
                     struct written *ret);
/* A change that deletion makes (deletionTimestamp, finalizers): no rules apply. */
void registry_mark(struct registry *registry, const struct write *write, const struct object *old,
                   struct json *doc, struct written *ret);
/* Who owns the fields of this write; time holds CLOCK_TEXT_MAX bytes. */
struct apply_request write_request(const struct write *write, const struct kind *kind, char *time);
/* owner.c: whose work it is. 403 when the label says another name than it may. */
int owner_stamp(struct registry *registry, const struct write *write, const struct kind *kind,
                struct json *doc);
int owner_carry(const struct write *write, const struct kind *kind, struct json *doc, const struct json *old);
/* Who makes something part of an object, or has it wait for it, must be allowed to delete that. 403. */
int owner_check_references(struct registry *registry, const struct write *write, const struct kind *kind,
                           const char *ns, const struct json *doc, const struct json *old);
void owner_check_priority(const struct write *write, const struct kind *kind, const struct json *doc,
                          const struct json *old, struct field_errors *errors);
int registry_missing(const struct write *write, const struct kind *kind, const char *name);
