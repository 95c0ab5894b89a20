/* kube - the Kubernetes API: discovery, objects, lists, watches, reviews. */
#pragma once

#include "api/call.h"
#include "objects/selector.h"
#include "objects/table.h"

/* Where a request points. */
struct route {
    const struct kind *kind;
    const struct subresource *sub; /* NULL: the object itself */
    const char *ns;                /* "": cluster-scoped, or all namespaces */
    const char *name;              /* "": the collection */
    bool published;                /* Jobs as v1 (objects/lenient.h): put right, and answered as v1 */
};

/* True when the path is the Kubernetes API's (and the call has been or will be answered). */
bool kube_serves(const struct call *call); /* its path is the Kubernetes API's */
bool kube_handle(struct call *call);
void kube_end_watches(struct api *api);
size_t kube_watches(const struct api *api); /* that are open */

/* The form an answer shall have. */
enum form { FORM_JSON, FORM_YAML, FORM_TABLE, FORM_PARTIAL };
/* -1: 406. */
int accept_form(struct call *call, enum form *ret);
/* -1: includeObject is none that a Table has. ret may be NULL. */
int table_include_of(struct call *call, enum form form, enum table_include *ret);
int revision_too_large(struct call *call, int64_t revision); /* -1, with the 504 */

/* body.c: request bodies as documents. */
int body_decode(struct call *call, const struct kind *kind, struct json **ret, const char **duplicates);
int body_write(struct call *call, struct write *ret, const struct route *route, const char *default_manager);
int body_delete_options(struct call *call, struct delete_options *ret, bool *dry_run);

/* object.c: one object. */
void object_reply(struct call *call, int status, const struct object *object, enum form form);
void object_get(struct call *call, const struct route *route);
void object_create(struct call *call, const struct route *route);
void object_update(struct call *call, const struct route *route);
void object_patch(struct call *call, const struct route *route);
void object_delete(struct call *call, const struct route *route);

/* collection.c */
int list_selector(struct call *call, const struct route *route, struct selector **ret);
void collection_list(struct call *call, const struct route *route);
void collection_delete(struct call *call, const struct route *route);

/* watch.c */
void watch_begin(struct call *call, const struct route *route);

/* pod.c: binding, eviction, log, exec, attach, portforward; true when it was one of them. */
bool pod_subresource(struct call *call, const struct route *route);
/* POST …/bindings: the pod is named in the body. */
void pod_binding(struct call *call, const struct route *route);

/* review.c: kinds that are asked, not stored. */
void review_handle(struct call *call, const struct route *route);

/* metrics.c: what pods and nodes use now. */
void metrics_handle(struct call *call, const struct route *route);
