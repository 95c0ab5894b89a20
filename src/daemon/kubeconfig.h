/* kubeconfig - the file that tells kubectl where the server is and who asks. Everything is embedded,
 * so that the file works wherever it is copied. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct kubeconfig {
    const char *cluster;  /* name of the cluster entry, e.g. "berth" */
    const char *server;   /* "https://127.0.0.1:5443" */
    const char *ca_pem;   /* NULL: the system's authorities (or plain HTTP) */
    const char *user;     /* name of the user entry; the context is user@cluster */
    const char *ns;       /* namespace of the context; NULL: default */
    const char *cert_pem; /* client certificate and key, or ... */
    const char *key_pem;
    const char *token; /* ... a bearer token; NULL where not used */
};

/* Adds the YAML text to buf. */
void kubeconfig_write(struct buf *buf, const struct kubeconfig *config);
