/* library - what training scripts need of the daemon: an address that their containers reach, and the Python
 * library itself, as files that are mounted into them.
 *
 * The address is a plain HTTP listener of its own on the pod network's gateway (port LIBRARY_PORT, another
 * one where that is taken); it answers the library's calls and nothing else. Where pods have no such network,
 * it is on loopback. */
#pragma once

#include "base/cleanup.h"
#include "base/err.h"

#define LIBRARY_PORT 5337

struct api;
struct arena;
struct library;
struct loop;
struct podnet;

/* Writes the files to library_folder. net may be NULL: no pods here. api is borrowed. */
int library_open(struct loop *loop, struct api *api, const struct podnet *net, const char *data_dir,
                 struct library **ret, struct err *err);
/* Lets answers under way finish; as http_server_stop. */
/* Its files again, where somebody has removed them: 1; 0: they are there. */
int library_mend(const char *data_dir, struct err *err);
void library_stop(struct library *library, int timeout_ms, void (*done)(void *arg), void *arg);
unsigned library_conns(const struct library *library); /* that are open */
void library_free(struct library *library);            /* with its connections; NULL is fine */
DEFINE_CLEANUP(struct library *, library_free);

const char *library_url(const struct library *library); /* "http://10.88.0.1:5337"; lives as long as it */
/* Where the files are: below /run, where every user's pods may read them whatever folder the data are in; as
 * an ordinary user DATA/python. malloc'ed; may be asked before library_open. */
char *library_folder(const char *data_dir);

/* Home of a user of this machine who has such a folder in it, or whose file server does not say; NULL: none.
 * In the arena. */
struct looks; /* api/train/look.h */
const char *library_home(struct looks *looks, struct arena *arena, const char *user, const char *folder);
