/* certs - a certificate authority for a test, in a temporary folder. */
#pragma once

#include "base/err.h"

/* Makes dir/NAME.pem and dir/NAME.key. issuer NULL: a CA of its own; else signed by dir/ISSUER.key.
 * Valid for localhost and 127.0.0.1, as server and client. orgs is NULL-terminated or NULL. */
void certs_make(const char *dir, const char *name, const char *issuer, const char *cn,
                const char *const *orgs);
