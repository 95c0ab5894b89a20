/* TLS of the server's connections: OpenSSL on the non-blocking socket itself. TLS 1.2 and later, ALPN
 * http/1.1, client certificates optional, but one that our CA has not signed ends the handshake. */
#include "base/clock.h"
#include "base/mem.h"
#include "net/http_priv.h"
#include "net/tls_bio.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

#define SERIAL_MAX     20         /* bytes, as RFC 5280 has it */
#define TLS_READ_AHEAD (68 << 10) /* bytes OpenSSL reads at once: four full records per system call */

#define TLS_BATCH      (128 << 10) /* bytes of records sent at once */
#define TLS_WRITE_MAX  (1 << 20)   /* bytes written before other connections get their turn */

struct http_tls {
    SSL_CTX *ctx;
    unsigned refs; /* listeners and the maker */
};

static int tls_error(struct err *err, const char *what, const char *path)
{
    char text[256] = "unknown error";
    unsigned long code = ERR_peek_last_error();

    if (code)
        ERR_error_string_n(code, text, sizeof(text));
    ERR_clear_error();
    return err_set(err, ERR_INVALID, "%s '%s': %s", what, path, text);
}

/* http/1.1 when the client offers it. A client that insists on something else is told so. */
static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
                       unsigned in_len, void *arg)
{
    static const unsigned char ours[] = "\x08http/1.1";

    (void)ssl, (void)arg;
    if (SSL_select_next_proto((unsigned char **)out, out_len, ours, sizeof(ours) - 1, in, in_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    return SSL_TLSEXT_ERR_OK;
}

static int load_files(SSL_CTX *ctx, const char *cert_path, const char *key_path, const char *ca_path,
                      struct err *err)
{
    STACK_OF(X509_NAME) * names;

    if (SSL_CTX_use_certificate_chain_file(ctx, cert_path) != 1)
        return tls_error(err, "certificate", cert_path);
    if (SSL_CTX_use_PrivateKey_file(ctx, key_path, SSL_FILETYPE_PEM) != 1)
        return tls_error(err, "key", key_path);
    if (SSL_CTX_check_private_key(ctx) != 1)
        return tls_error(err, "key does not belong to the certificate:", key_path);
    if (!ca_path)
        return 0;
    if (SSL_CTX_load_verify_locations(ctx, ca_path, NULL) != 1 || !(names = SSL_load_client_CA_file(ca_path)))
        return tls_error(err, "CA", ca_path);
    SSL_CTX_set_client_CA_list(ctx, names); /* clients choose their certificate by it */
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    return 0;
}

static int make_ctx(const char *cert_path, const char *key_path, const char *ca_path, SSL_CTX **ret,
                    struct err *err)
{
    static const unsigned char context[] = "berth";
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

    if (!ctx)
        return err_set(err, ERR_INTERNAL, "no TLS context");
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20"); /* of TLS 1.2: nothing with CBC */
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
                                 SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_default_read_buffer_len(ctx, TLS_READ_AHEAD);
    SSL_CTX_set_alpn_select_cb(ctx, choose_alpn, NULL);
    SSL_CTX_set_session_id_context(ctx, context, sizeof(context) - 1);
    /* No resumption: kubectl and most others never come back with a session, and making a ticket is a sixth
     * of a handshake. */
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ctx, 0);
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
    if (load_files(ctx, cert_path, key_path, ca_path, err) < 0) {
        SSL_CTX_free(ctx);
        return -1;
    }
    *ret = ctx;
    return 0;
}

int http_tls_new(const char *cert_path, const char *key_path, const char *ca_path, struct http_tls **ret,
                 struct err *err)
{
    struct http_tls *tls;
    SSL_CTX *ctx;

    if (make_ctx(cert_path, key_path, ca_path, &ctx, err) < 0)
        return -1;
    tls = NEW(struct http_tls);
    *tls = (struct http_tls){.ctx = ctx, .refs = 1};
    *ret = tls;
    return 0;
}

int http_tls_reload(struct http_tls *tls, const char *cert_path, const char *key_path, const char *ca_path,
                    struct err *err)
{
    SSL_CTX *ctx;

    if (make_ctx(cert_path, key_path, ca_path, &ctx, err) < 0)
        return -1;
    SSL_CTX_free(tls->ctx); /* open connections hold it */
    tls->ctx = ctx;
    return 0;
}

struct http_tls *http_tls_ref(struct http_tls *tls)
{
    if (tls)
        tls->refs++;
    return tls;
}

void http_tls_free(struct http_tls *tls)
{
    if (!tls || --tls->refs > 0)
        return;
    SSL_CTX_free(tls->ctx);
    free(tls);
}

void http_tls_attach(struct connection *conn, struct http_tls *tls)
{
    BIO *bio = tls_bio_new(conn->fd);

    conn->peer.tls = true;
    conn->ssl = bio ? SSL_new(tls->ctx) : NULL;
    if (!conn->ssl) {
        BIO_free(bio);
        connection_fail(conn, "no TLS state");
        return;
    }
    SSL_set_bio(conn->ssl, bio, bio);
    SSL_set_accept_state(conn->ssl);
}

/* After a call that returned `result`: what to tell the caller. */
static ssize_t explain(struct connection *conn, int result)
{
    int saved = errno;

    switch (SSL_get_error(conn->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        conn->ssl_wants = EPOLLIN;
        errno = EAGAIN;
        return -1;
    case SSL_ERROR_WANT_WRITE:
        conn->ssl_wants = EPOLLOUT;
        errno = EAGAIN;
        return -1;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_SYSCALL:
        ERR_clear_error();
        errno = saved ? saved : ECONNRESET;
        return -1;
    default:
        ERR_clear_error();
        errno = EPROTO;
        return -1;
    }
}

/* The values of one field of a name, each as a string; nothing when one holds a NUL. */
static bool name_values(const X509_NAME *name, int nid, struct buf *text, size_t *count)
{
    for (int at = -1; (at = X509_NAME_get_index_by_NID(name, nid, at)) >= 0;) {
        unsigned char *utf8 = NULL;
        int len = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
        bool good = len > 0 && !memchr(utf8, '\0', (size_t)len);

        if (good)
            buf_add(text, utf8, (size_t)len + 1); /* with the NUL that OpenSSL adds */
        OPENSSL_free(utf8);
        if (!good)
            return false;
        (*count)++;
    }
    return true;
}

static int64_t time_of(const ASN1_TIME *time)
{
    struct tm tm = {0};

    return ASN1_TIME_to_tm(time, &tm) == 1 ? (int64_t)timegm(&tm) * NSEC_PER_SEC : 0;
}

static bool add_serial(X509 *cert, struct buf *text)
{
    const ASN1_INTEGER *serial = X509_get0_serialNumber(cert);
    const unsigned char *bytes = ASN1_STRING_get0_data(serial);
    int len = ASN1_STRING_length(serial);

    for (int i = 0; i < len; i++)
        buf_printf(text, "%02x", bytes[i]);
    buf_putc(text, '\0');
    return len > 0 && len <= SERIAL_MAX;
}

/* Fills peer.cert_*. A certificate that was verified but has no usable subject is no
 * identity, and the connection is refused rather than taken for an anonymous one. */
static int read_subject(struct connection *conn)
{
    X509 *cert = SSL_get1_peer_certificate(conn->ssl);
    CLEANUP(buf_done) struct buf text = {0};
    const X509_NAME *name;
    const char **orgs, *at;
    size_t cns = 0, org_count = 0;
    bool good;

    if (!cert)
        return 0;
    name = X509_get_subject_name(cert);
    good = SSL_get_verify_result(conn->ssl) == X509_V_OK && name_values(name, NID_commonName, &text, &cns) &&
           cns == 1 && name_values(name, NID_organizationName, &text, &org_count) && add_serial(cert, &text);
    conn->peer.cert_from = time_of(X509_get0_notBefore(cert));
    conn->peer.cert_until = time_of(X509_get0_notAfter(cert));
    X509_free(cert);
    if (!good)
        return -1;
    conn->subject = buf_take(&text);
    conn->peer.cert_cn = at = conn->subject;
    orgs = mem_zalloc((org_count + 1) * sizeof(*orgs));
    for (size_t i = 0; i < org_count; i++)
        orgs[i] = at += strlen(at) + 1;
    conn->peer.cert_orgs = orgs;
    conn->peer.cert_serial = at + strlen(at) + 1;
    return 0;
}

int http_tls_handshake(struct connection *conn)
{
    static const char hint[] = "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\n\r\n"
                               "Client sent an HTTP request to an HTTPS server.\n";
    unsigned long reason;
    int result;

    if (!conn->ssl)
        return -1;
    conn->ssl_wants = 0;
    ERR_clear_error();
    errno = 0;
    result = SSL_accept(conn->ssl);
    if (result == 1)
        return read_subject(conn) < 0 ? -1 : 1;
    reason = ERR_peek_error();
    if (explain(conn, result) < 0 && errno == EAGAIN)
        return 0;
    if (ERR_GET_LIB(reason) == ERR_LIB_SSL && ERR_GET_REASON(reason) == SSL_R_HTTP_REQUEST)
        send(conn->fd, hint, sizeof(hint) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    return -1;
}

ssize_t http_tls_read(struct connection *conn, void *data, size_t len)
{
    int result;

    conn->ssl_wants = 0;
    ERR_clear_error();
    errno = 0;
    result = SSL_read(conn->ssl, data, len > INT32_MAX ? INT32_MAX : (int)len);
    if (result > 0)
        return result;
    result = (int)explain(conn, result);
    if (result < 0 && errno == EAGAIN && conn->ssl_wants == EPOLLIN)
        conn->ssl_wants = 0; /* that is asked for anyway, unless the reader is paused */
    return result;
}

/* One record of the first segment. 1: go on; 0: later; -1: broken. */
static int write_record(struct connection *conn)
{
    const struct segment *first = conn->out.first;
    size_t len = first->buf.len - first->sent;
    int result = SSL_write(conn->ssl, first->buf.data + first->sent, len > INT32_MAX ? INT32_MAX : (int)len);

    if (result > 0) {
        http_output_sent(conn, (size_t)result);
        return 1;
    }
    if (explain(conn, result) < 0 && errno == EAGAIN)
        return 0;
    return -1;
}

int http_tls_send(struct connection *conn)
{
    struct http_server *server = conn->server;
    BIO *bio = SSL_get_wbio(conn->ssl);
    size_t before = conn->out.bytes;
    int more = 1, sent = tls_bio_flush(bio);

    ERR_clear_error();
    errno = 0;
    while (sent > 0 && more > 0 && conn->out.bytes > 0 && before - conn->out.bytes < TLS_WRITE_MAX) {
        tls_bio_batch(bio, &server->records);
        while (more > 0 && conn->out.bytes > 0 && server->records.len < TLS_BATCH)
            more = write_record(conn);
        sent = tls_bio_flush(bio);
    }
    return more < 0 || sent < 0 ? -1 : 0;
}

size_t http_tls_held(const struct connection *conn)
{
    return conn->ssl ? tls_bio_held(SSL_get_wbio(conn->ssl)) : 0;
}

bool http_tls_pending(const struct connection *conn)
{
    return SSL_has_pending(conn->ssl);
}

void http_tls_close(struct connection *conn, bool orderly)
{
    if (!conn->ssl)
        return;
    ERR_clear_error();
    if (orderly)
        SSL_shutdown(conn->ssl);
    ERR_clear_error();
    SSL_free(TAKE_PTR(conn->ssl));
}
