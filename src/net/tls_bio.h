/* tls_bio - the socket below OpenSSL, as OpenSSL's own but without SIGPIPE, and able to collect records
 * so that many leave with one system call. */
#pragma once

#include "base/buf.h"

#include <openssl/bio.h>

BIO *tls_bio_new(int fd); /* borrows fd; NULL: no memory */

/* Records are collected in *batch, which is empty and outlives the next tls_bio_flush. */
void tls_bio_batch(BIO *bio, struct buf *batch);
/* Ends collecting and sends. 1: all has left. 0: the socket is full, the rest is kept for the next call.
 * -1: the connection is broken. */
int tls_bio_flush(BIO *bio);
size_t tls_bio_held(BIO *bio); /* bytes kept by tls_bio_flush */
