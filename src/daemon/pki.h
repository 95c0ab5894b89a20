/* pki - Berth's own certificate authority, in a folder of PEM files.
 *
 *     ca.crt ca.key           the authority (EC P-256, 10 years)
 *     server.crt server.key   what the HTTPS address shows (1 year)
 *
 * Keys are 0600. Client certificates are made on demand and kept nowhere: CN is the user, each O a
 * group, as Kubernetes reads them. Times are nanoseconds since 1970, as in base/clock.h. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define PKI_CA_DAYS     3650
#define PKI_CERT_DAYS   365
#define PKI_RENEW_DAYS  30 /* the server certificate is replaced when less than this is left */
#define PKI_NAME_MAX    64 /* bytes of CN and of each O (X.520's ub-common-name) */
#define PKI_GROUPS_MAX  32
#define PKI_ALTNAME_MAX 253
#define PKI_SKEW_SEC    300 /* certificates are valid a little before now: clocks differ */
#define PKI_SERIAL_MAX  41  /* bytes of a serial number in hex, with the NUL */

struct pki;

/* Reads the folder, and makes what is missing, expired soon, or does not fit: the folder itself (0700), the
 * authority, the server certificate. The server certificate is for localhost, this machine's name,
 * 127.0.0.1, ::1, kubernetes, kubernetes.default and extra_names (DNS names or addresses).
 * ERR_INVALID: an extra name is neither. ERR_CONFLICT: the authority's files do not fit each other, or it has
 * expired; it is never replaced silently, since all clients would stop trusting this daemon. */
int pki_open(const char *dir, const char *const *extra_names, size_t extra_count, int64_t now,
             struct pki **ret, struct err *err);
void pki_free(struct pki *pki); /* NULL is fine */
DEFINE_CLEANUP(struct pki *, pki_free);

/* Borrowed; live as long as pki. */
const char *pki_ca_pem(const struct pki *pki);
const char *pki_ca_path(const struct pki *pki);
const char *pki_server_cert_path(const struct pki *pki);
const char *pki_server_key_path(const struct pki *pki);

/* When the server's and the authority's certificate end. */
int64_t pki_server_until(const struct pki *pki);
int64_t pki_ca_until(const struct pki *pki);

/* Makes the server certificate anew where it ends soon, or its files do not fit; for a daemon that runs on.
 * *ret: whether it did. The authority is only warned about. */
int pki_renew_server(struct pki *pki, int64_t now, bool *ret, struct err *err);

/* A certificate and its key, both PEM. */
struct pki_pair {
    struct buf cert, key;
    char serial[PKI_SERIAL_MAX];
    int64_t until; /* nanoseconds since 1970 */
};
void pki_pair_done(struct pki_pair *pair); /* wipes the key */
static inline void pki_pair_done_cleanup_(struct pki_pair *pair)
{
    pki_pair_done(pair);
}

/* A client certificate for a year, or until `until` (0: no end of its own). ERR_INVALID: user or a group is
 * empty, longer than PKI_NAME_MAX, or holds control characters. ERR_LIMIT: more than PKI_GROUPS_MAX groups.
 */
int pki_issue_client(const struct pki *pki, const char *user, const char *const *groups, size_t group_count,
                     int64_t now, int64_t until, struct pki_pair *ret, struct err *err);
