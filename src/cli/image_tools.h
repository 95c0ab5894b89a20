/* image_tools - what build, push, login and submit share: skopeo and buildah with the caller's passwords and
 * the daemon's registries, and archives on their way to the daemon. */
#pragma once

#include "cli/tool.h"

/* The names of files, in a folder of mode 0700 that goes at the end. */
struct image_tools {
    const char *dir, *auth, *registries_conf;
    const char *cert_dir;   /* for --cert-dir; NULL: no registry has a CA of its own */
    const char *push_to;    /* where submit pushes; NULL: nowhere */
    const struct json *doc; /* the daemon's answer */
};
/* Asks the daemon. An exit code, after saying what is wrong. */
int image_tools_open(struct cli *cli, struct image_tools *ret);
void image_tools_done(struct image_tools *tools); /* also when SIGINT, SIGTERM or SIGHUP ends us */
/* Where an image may be packed: a file on disk that goes at the end. NULL after saying why there is none. */
const char *image_tools_archive(struct cli *cli);

/* The registry of a name: "lab:5000" of "lab:5000/me/net:v2", "docker.io" of "net". In the arena. */
const char *image_host_of(struct cli *cli, const char *name);
/* "net" → "docker.io/library/net:latest": what buildah calls it, too. */
const char *image_full_name(struct cli *cli, const char *name);
/* The daemon's settings for a registry; NULL: none. */
const struct json *image_registry(const struct image_tools *tools, const char *host);

/* buildah's arguments up to its verb, NULL-ended, with room for more. */
void buildah_args(struct cli *cli, const struct image_tools *tools, const char **argv);

/* An archive (or the folder of an OCI layout) to the daemon's images, with a line for each layer. Returns an
 * exit code. */
int image_upload(struct cli *cli, const char *path, const char *name);
/* Prints a pull's or import's lines as they come; the last one decides. On a terminal, which may ask for all
 * of them (progress=1), a layer's line is written over until it is there. */
struct image_lines {
    struct buf rest;
    bool tty, ok, failed;
};
struct image_lines image_lines_new(void);
int image_lines_take(void *lines, struct str data);
int image_build(struct cli *cli, struct image_tools *tools, const struct args *args, const char *dir,
                const char *name);
int image_hand_over(struct cli *cli, struct image_tools *tools, const char *name);
int image_push(struct cli *cli, struct image_tools *tools, const char *name, const char *dest);
