/* What the files of machine share. */
#pragma once

#include "base/vec.h"
#include "machine/machine.h"

struct machine {
    struct loop *loop;
    struct images *images;
    char *data_dir, *push_to, *files_helper;
    struct images_registry *registries;
    size_t registries_len;
    VEC(struct import *) imports;
    VEC(struct fetch *) fetches;
    VEC(struct relay *) relays;
    struct offload *offload; /* look-ups of users */
    struct offload *writes;  /* of imports */
};

/* The caller as somebody of this operating system. */
struct person {
    uid_t uid;
    gid_t gid;
    gid_t groups[IMAGE_GROUPS_MAX];
    size_t groups_len;
    char name[64], home[1024];
};
/* Whose rights a call has; the rest is person_look_up's. ERR_NOT_FOUND: no account here. ERR_UNSUPPORTED. */
int person_of(const struct call *call, struct person *ret, struct err *err);
void person_look_up(struct person *person); /* asks the directory, which may hang: not from the loop */

/* True, and the call is answered (429), when somebody has as many of these at once as is allowed, or all
 * have.
 */
bool share_used_up(struct call *call, const char *what, size_t own, size_t own_max, size_t all,
                   size_t all_max);

/* NULL for admins: what they build is for everybody. */
const char *machine_owner(const struct call *call);

void images_route(struct machine *machine, struct call *call);
void images_remove_route(struct machine *machine, struct call *call);
void images_gc_route(struct machine *machine, struct call *call);
void fetch_route(struct machine *machine, struct call *call);
void import_route(struct machine *machine, struct call *call);
void logins_route(struct machine *machine, struct call *call);
void logins_add_route(struct machine *machine, struct call *call);
void logins_remove_route(struct machine *machine, struct call *call);
void files_route(struct machine *machine, struct call *call);

void fetches_end(struct machine *machine);
void imports_sweep(struct machine *machine);
void imports_end(struct machine *machine);
void relays_end(struct machine *machine);

/* "layer 2 of 5 sha256:…: done" */
void progress_line(struct buf *out, const struct image_progress *progress);
/* The lines of a pull or an import: a layer when it is there, a large one when it begins, too. */
bool progress_is_news(const struct image_progress *progress);
void result_line(struct buf *out, const struct image_pull_result *result);
