/* certificates - the certificates of a daemon that runs: the authority's and the server's, kubeconfigs with
 * client certificates, and renewal. The server's certificate is looked at every hour and made anew when it
 * ends soon; connections from then on get the new one. */
#pragma once

#include "api/api.h"
#include "daemon/config.h"

struct certificates;
struct http_tls;
struct loop;
struct store;

/* *ret NULL where the daemon has no HTTPS address. */
int certificates_open(struct loop *loop, struct store *store, const struct daemon_config *config,
                      struct certificates **ret, struct err *err);
void certificates_free(struct certificates *certificates); /* NULL is fine */
DEFINE_CLEANUP(struct certificates *, certificates_free);
struct http_tls *certificates_tls(const struct certificates *certificates); /* NULL of NULL; borrowed */

/* Where kubeconfigs point; borrowed, until free. */
void certificates_set_url(struct certificates *certificates, const char *https_url);
/* api_hooks.kubeconfig; arg is the certificates. ERR_UNAVAILABLE: there is no HTTPS address. */
int certificates_kubeconfig(void *arg, const char *user, const char *const *groups, const char *ns,
                            int64_t until, struct buf *ret, struct api_certificate *made, struct err *err);
/* The machine's admin's kubeconfig as a file; one that is still good stays as it is. */
int certificates_write_admin(struct certificates *certificates, const char *path, struct err *err);
/* When the server's and the authority's end, nanoseconds since 1970. */
void certificates_ends(const struct certificates *certificates, int64_t *server, int64_t *authority);
/* Renews what ends soon, reads the files again; what is wrong is logged, and the old ones stay. */
void certificates_reload(struct certificates *certificates);
