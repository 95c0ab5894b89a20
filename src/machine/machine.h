/* machine - what of this machine is offered under /v1 beside objects: its images, passwords for registries,
 * and files, each with the rights of the one who asks.
 *
 *   GET    /v1/images                     names, sizes, last use
 *   DELETE /v1/images?name=N[&local=1]    takes a name away; local: only of what was built or imported here
 *   POST   /v1/images/pull?name=N         text/plain: a line for each layer, then "ok ID" or "fail WHY"
 *   POST   /v1/images/gc                  collects now (admins)
 *   GET    /v1/images/import?name=N       upgrade to MACHINE_PROTOCOL: an archive in frames, then as above
 *   GET    /v1/logins[?secrets=1]         registries and whose password is known
 *   POST   /v1/logins                     {registry, user, password, machine}
 *   DELETE /v1/logins?registry=R
 *   GET    /v1/files                      upgrade to MACHINE_PROTOCOL: berth-files (files.h) as the caller
 *
 * A frame is four bytes of length, highest first, and that many bytes; the one of length 0 is the last. */
#pragma once

#include "api/call.h"
#include "image/image.h"

#define MACHINE_PROTOCOL  "berth-stream"
#define MACHINE_FRAME_MAX (1 << 20)
/* Imports at once: of one user, of all. */
#define IMPORTS_PERSON_MAX 4
#define IMPORTS_MAX        16
/* Pulls that somebody watches. */
#define FETCHES_PERSON_MAX 16
#define FETCHES_MAX        128
/* Connections to /v1/files at once: of one user, of all. */
#define FILES_PERSON_MAX 16
#define FILES_MAX        256

struct machine;

struct machine_config {
    struct loop *loop;
    struct images *images; /* borrowed; NULL: no node agent here */
    const char *data_dir;
    const struct images_registry *registries; /* copied */
    size_t registries_len;
    const char *push_to; /* where `berth submit` pushes: "lab:5000/jobs"; NULL: nowhere */
};

struct machine *machine_new(const struct machine_config *config);
/* Ends what is under way; before the images and after the HTTP server. NULL is fine. */
void machine_free(struct machine *machine);

/* A hook of the API: true when the path is one of these. */
bool machine_handle(void *machine, struct call *call);
