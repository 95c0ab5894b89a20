/* object - one stored state of a Kubernetes object: its document as text, and what lists and watches
 * ask of it. Never changed after it is made; holders share it.
 *
 * The text starts {"kind":"Pod","apiVersion":"v1","metadata":{…} so that lists (items without kind and
 * apiVersion) and Table rows (metadata alone) are slices of it. */
#pragma once

#include "base/cleanup.h"
#include "base/json.h"

struct kind;
struct object_doc;

struct object {
    const struct kind *kind;
    int64_t rv;     /* resourceVersion */
    const char *ns; /* "" for cluster-scoped kinds */
    const char *name;
    const char *uid;
    const char *text; /* the document, NUL-terminated */
    size_t text_len;
    uint32_t body_at;           /* in text: where `"metadata":` starts */
    uint32_t meta_at, meta_len; /* in text: the value of metadata, with its braces */
    bool deleting;              /* has a deletionTimestamp */
    /* the rest is object.c's */
    unsigned refs;
    uint32_t label_count;
    uint32_t owner_count;
    uint32_t controller;      /* which of owners has `controller: true`, from 1; 0: none */
    const struct str *labels; /* key, value, key, value, …; sorted by key */
    const struct str *fields; /* values of kind->fields, same order */
    const struct str *owners; /* uids of ownerReferences */
    struct str maker; /* who made it, as the registry noted (OWNER_ANNOTATION); .s NULL: nobody is noted */
    void *cache;      /* Table cells, made on first use; freed with free() */
    struct object_doc *doc; /* the kept document, see object_doc.h */
};

/* doc needs metadata.{name, uid}, and resourceVersion unless it is for a dry run's answer; kind and
 * apiVersion are put first and set from kind. */
struct object *object_new(const struct kind *kind, struct arena *arena, struct json *doc);
/* From stored text as object_new made it. ERR_INVALID: it is not such a text. */
int object_parse(const struct kind *kind, struct str text, struct object **ret, struct err *err);
struct object *object_ref(const struct object *object); /* not thread-safe: one thread holds all references */
void object_unref(struct object *object);               /* NULL is fine */
DEFINE_CLEANUP(struct object *, object_unref);

/* The document as a fresh tree in arena, free to change. Who only reads takes object_doc. */
struct json *object_json(const struct object *object, struct arena *arena);

/* Whether child is part of owner: made by its controller (`controller: true`), in the same namespace, and for
 * the same person. A reference alone is anybody's to write, in any namespace. */
bool object_controls(const struct object *owner, const struct object *child);

struct str object_label(const struct object *object, const char *key); /* {NULL, 0} when absent */
struct str object_field(const struct object *object, size_t i);        /* of kind->fields */
