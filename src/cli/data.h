/* data - files between here and the daemon's machine: the connection, and copying over it. The protocol is in
 * machine/files.h. */
#pragma once

#include "cli/cli.h"

#include <openssl/evp.h>

#define DATA_BLOCK     (256 << 10)
#define DATA_DEPTH_MAX 64

struct data {
    struct cli *cli;
    struct buf input;
    char *block; /* DATA_BLOCK bytes */
    bool tty;
    int64_t files, bytes, skipped; /* moved, and what was there already */
    int64_t left_out;              /* told of, one line each */
    int64_t begun;                 /* bytes of this file that an earlier try has moved */
    int64_t shown_ns;
};

/* data_wire.c; exit statuses, and what went wrong has been said */
int data_open(struct cli *cli, struct data *ret);
void data_close(struct data *data);
int data_broken(const struct err *err); /* says that the connection ended */
int data_fill(struct data *data);       /* reads more into input */
int data_send(struct data *data, const struct json *request);
int data_answer(struct data *data, struct json **ret);
struct json *data_request(struct data *data, const char *op, const char *path);
int data_ask(struct data *data, const char *op, const char *path, struct json **ret);
/* The entries of a folder; of all below it, too. */
int data_list(struct data *data, const char *path, bool deep, struct json *items);

/* A name as a terminal can show it: no control characters. In the arena. */
const char *data_shown(struct cli *cli, const char *name);
const char *data_size(struct cli *cli, int64_t bytes); /* "12.0 MB"; in the arena */
/* "NAME  3.1 MB of 12.0 MB" and more words: written over on a terminal; elsewhere only the last state is
 * told.
 */
void data_show(struct data *data, const char *name, const char *words, int64_t done, int64_t total,
               bool last);
void data_leave_out(struct data *data, const char *name, const char *why);

/* SHA-256 under way. */
EVP_MD_CTX *data_sum_new(void);
const char *data_sum_text(struct data *data, EVP_MD_CTX *sum);
/* Up to max bytes from where fd stands; how many there were. name: for the progress. */
int64_t data_sum_add(struct data *data, EVP_MD_CTX *sum, int fd, int64_t max, const char *name);

/* data_copy.c */
int data_put(struct data *data, const char *local, const char *remote);
int data_get_file(struct data *data, const char *remote, const char *local, int64_t size);
int data_get_folder(struct data *data, const char *remote, const char *local);
