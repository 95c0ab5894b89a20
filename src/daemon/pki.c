/* All certificates are made by make_cert from one description (struct request); the differences between
 * authority, server and client are rows of usages[]. A key file is written before its certificate, so
 * that after a crash in between the pair does not match and is made again: the server's always, the
 * authority's only while it has no certificate yet. */
#define LOG_MODULE "pki"
#include "daemon/pki.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <time.h>

#define DAY_SEC        (24 * 3600)
#define PEM_FILE_MAX   (64 << 10)
#define CA_COMMON_NAME "Berth CA"
#define CA_WARN_DAYS   60

struct pki {
    X509 *ca;
    EVP_PKEY *ca_key;
    char *ca_pem, *ca_path, *ca_key_path, *server_path, *server_key_path;
    GENERAL_NAMES *names; /* of the server */
    int64_t server_until; /* seconds since 1970 */
};

enum usage { USAGE_CA, USAGE_SERVER, USAGE_CLIENT };

static const struct {
    const char *basic, *key_usage, *extended; /* extended NULL: none */
} usages[] = {
    [USAGE_CA] = {"critical,CA:TRUE,pathlen:0", "critical,keyCertSign,cRLSign", NULL},
    [USAGE_SERVER] = {"critical,CA:FALSE", "critical,digitalSignature", "serverAuth"},
    [USAGE_CLIENT] = {"critical,CA:FALSE", "critical,digitalSignature", "clientAuth"},
};

/* A certificate to be made. */
struct request {
    enum usage usage;
    X509_NAME *subject;
    GENERAL_NAMES *names; /* NULL: none */
    EVP_PKEY *key;
    int64_t now_sec;
    int days;
    int64_t until_sec; /* 0: none but days */
};

DEFINE_CLEANUP(X509 *, X509_free);
DEFINE_CLEANUP(X509_NAME *, X509_NAME_free);
DEFINE_CLEANUP(EVP_PKEY *, EVP_PKEY_free);
DEFINE_CLEANUP(GENERAL_NAMES *, GENERAL_NAMES_free);
DEFINE_CLEANUP(BIO *, BIO_free_all);
DEFINE_CLEANUP(BIGNUM *, BN_free);

static int ssl_error(struct err *err, const char *what)
{
    const char *why = ERR_reason_error_string(ERR_peek_last_error());

    err_set(err, ERR_INTERNAL, "%s: %s", what, why ? why : "OpenSSL failed");
    ERR_clear_error();
    return -1;
}

void pki_pair_done(struct pki_pair *pair)
{
    if (pair->key.data)
        OPENSSL_cleanse(pair->key.data, pair->key.cap);
    buf_done(&pair->key);
    buf_done(&pair->cert);
}

void pki_free(struct pki *pki)
{
    if (!pki)
        return;
    X509_free(pki->ca);
    GENERAL_NAMES_free(pki->names);
    EVP_PKEY_free(pki->ca_key);
    free(pki->ca_pem);
    free(pki->ca_path);
    free(pki->ca_key_path);
    free(pki->server_path);
    free(pki->server_key_path);
    free(pki);
}

const char *pki_ca_pem(const struct pki *pki)
{
    return pki->ca_pem;
}

const char *pki_ca_path(const struct pki *pki)
{
    return pki->ca_path;
}

const char *pki_server_cert_path(const struct pki *pki)
{
    return pki->server_path;
}

const char *pki_server_key_path(const struct pki *pki)
{
    return pki->server_key_path;
}

/* ---- PEM ---- */

static int take_bio(BIO *bio, struct buf *ret)
{
    char *data;
    long len = BIO_get_mem_data(bio, &data);

    if (len <= 0)
        return -1;
    buf_add(ret, data, (size_t)len);
    return 0;
}

static int cert_to_pem(X509 *cert, struct buf *ret, struct err *err)
{
    CLEANUP(BIO_free_all) BIO *bio = BIO_new(BIO_s_mem());

    if (!bio || PEM_write_bio_X509(bio, cert) != 1 || take_bio(bio, ret) < 0)
        return ssl_error(err, "write a certificate");
    return 0;
}

static int key_to_pem(EVP_PKEY *key, struct buf *ret, struct err *err)
{
    /* secure memory where there is some: the bytes are wiped when the BIO goes */
    CLEANUP(BIO_free_all) BIO *bio = BIO_new(BIO_s_secmem());

    if (!bio || PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) != 1 || take_bio(bio, ret) < 0)
        return ssl_error(err, "write a private key");
    return 0;
}

/* ERR_NOT_FOUND: no such file. ERR_INVALID: no certificate in it. */
static int read_cert(const char *path, X509 **ret, struct err *err)
{
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(BIO_free_all) BIO *bio = NULL;

    if (file_read(path, PEM_FILE_MAX, &text, err) < 0)
        return -1;
    bio = BIO_new_mem_buf(text.data ? text.data : "", (int)text.len);
    *ret = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    ERR_clear_error();
    return *ret ? 0 : err_set(err, ERR_INVALID, "'%s' holds no certificate", path);
}

static int read_key(const char *path, EVP_PKEY **ret, struct err *err)
{
    struct pki_pair pair = {0};
    char no_password[] = ""; /* an encrypted key is an error, never a prompt */
    BIO *bio;

    if (file_read(path, PEM_FILE_MAX, &pair.key, err) < 0)
        return -1;
    bio = BIO_new_mem_buf(pair.key.data ? pair.key.data : "", (int)pair.key.len);
    *ret = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, no_password) : NULL;
    BIO_free_all(bio);
    pki_pair_done(&pair);
    ERR_clear_error();
    return *ret ? 0 : err_set(err, ERR_INVALID, "'%s' holds no private key", path);
}

static int write_pair(X509 *cert, EVP_PKEY *key, const char *cert_path, const char *key_path, struct err *err)
{
    CLEANUP(pki_pair_done) struct pki_pair pair = {0};

    if (cert_to_pem(cert, &pair.cert, err) < 0 || key_to_pem(key, &pair.key, err) < 0 ||
        file_write_atomic(key_path, buf_view(&pair.key), 0600, err) < 0 ||
        file_write_atomic(cert_path, buf_view(&pair.cert), 0644, err) < 0)
        return -1;
    return 0;
}

/* ---- making ---- */

static int64_t time_of(const ASN1_TIME *time)
{
    struct tm tm = {0};

    return ASN1_TIME_to_tm(time, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

static bool add_extension(X509 *cert, X509V3_CTX *ctx, int nid, const char *value)
{
    X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, ctx, nid, value);
    bool ok = ext && X509_add_ext(cert, ext, -1) == 1;

    X509_EXTENSION_free(ext);
    return ok;
}

static bool set_serial(X509 *cert)
{
    CLEANUP(BN_free) BIGNUM *serial = BN_new();

    /* 127 random bits: positive in 16 bytes, never guessed, never repeated */
    return serial && BN_rand(serial, 127, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
           BN_to_ASN1_INTEGER(serial, X509_get_serialNumber(cert)) != NULL;
}

static bool set_validity(X509 *cert, const struct request *request, const X509 *issuer)
{
    int64_t until = request->now_sec + (int64_t)request->days * DAY_SEC;

    if (request->until_sec && until > request->until_sec)
        until = request->until_sec;
    if (issuer && until > time_of(X509_get0_notAfter(issuer)))
        until = time_of(X509_get0_notAfter(issuer));
    return ASN1_TIME_set(X509_getm_notBefore(cert), (time_t)(request->now_sec - PKI_SKEW_SEC)) &&
           ASN1_TIME_set(X509_getm_notAfter(cert), (time_t)until);
}

static bool add_extensions(X509 *cert, const struct request *request, X509 *issuer)
{
    X509V3_CTX ctx;

    X509V3_set_ctx(&ctx, issuer ? issuer : cert, cert, NULL, NULL, 0);
    return add_extension(cert, &ctx, NID_basic_constraints, usages[request->usage].basic) &&
           add_extension(cert, &ctx, NID_key_usage, usages[request->usage].key_usage) &&
           (!usages[request->usage].extended ||
            add_extension(cert, &ctx, NID_ext_key_usage, usages[request->usage].extended)) &&
           add_extension(cert, &ctx, NID_subject_key_identifier, "hash") &&
           add_extension(cert, &ctx, NID_authority_key_identifier, "keyid:always") &&
           (!request->names || X509_add1_ext_i2d(cert, NID_subject_alt_name, request->names, 0, 0) == 1);
}

/* issuer NULL: signs itself. */
static int make_cert(const struct request *request, X509 *issuer, EVP_PKEY *issuer_key, X509 **ret,
                     struct err *err)
{
    CLEANUP(X509_free) X509 *cert = X509_new();

    if (!cert || X509_set_version(cert, X509_VERSION_3) != 1 || !set_serial(cert) ||
        !set_validity(cert, request, issuer) || X509_set_subject_name(cert, request->subject) != 1 ||
        X509_set_issuer_name(cert, issuer ? X509_get_subject_name(issuer) : request->subject) != 1 ||
        X509_set_pubkey(cert, request->key) != 1 || !add_extensions(cert, request, issuer) ||
        X509_sign(cert, issuer_key, EVP_sha256()) == 0)
        return ssl_error(err, "make a certificate");
    *ret = TAKE_PTR(cert);
    return 0;
}

static bool add_name(X509_NAME *name, const char *field, const char *value)
{
    return X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8, (const unsigned char *)value, -1, -1, 0) ==
           1;
}

static X509_NAME *common_name(const char *cn)
{
    CLEANUP(X509_NAME_free) X509_NAME *name = X509_NAME_new();

    return name && add_name(name, "CN", cn) ? TAKE_PTR(name) : NULL;
}

/* ---- the names of the server ---- */

static bool dns_name_valid(const char *name)
{
    size_t len = strlen(name);

    if (len == 0 || len > PKI_ALTNAME_MAX || name[0] == '-' || name[0] == '.')
        return false;
    if (starts_with(name, "*."))
        name += 2;
    return name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")] == '\0';
}

static GENERAL_NAME *general_name(int type, const void *data, size_t len)
{
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_STRING *value = ASN1_STRING_type_new(type == GEN_IPADD ? V_ASN1_OCTET_STRING : V_ASN1_IA5STRING);

    if (!name || !value || ASN1_STRING_set(value, data, (int)len) != 1) {
        GENERAL_NAME_free(name);
        ASN1_STRING_free(value);
        return NULL;
    }
    GENERAL_NAME_set0_value(name, type, value);
    return name;
}

/* Adds a DNS name or address unless it is there already. ERR_INVALID: it is neither. */
static int add_alt_name(GENERAL_NAMES *names, const char *text, struct err *err)
{
    unsigned char addr[16];
    GENERAL_NAME *name;

    if (inet_pton(AF_INET, text, addr) == 1)
        name = general_name(GEN_IPADD, addr, 4);
    else if (inet_pton(AF_INET6, text, addr) == 1)
        name = general_name(GEN_IPADD, addr, 16);
    else if (dns_name_valid(text))
        name = general_name(GEN_DNS, text, strlen(text));
    else
        return err_set(err, ERR_INVALID, "'%s' is neither a host name nor an address", text);
    if (!name)
        return ssl_error(err, "make a certificate name");
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++)
        if (GENERAL_NAME_cmp(sk_GENERAL_NAME_value(names, i), name) == 0) {
            GENERAL_NAME_free(name);
            return 0;
        }
    if (sk_GENERAL_NAME_push(names, name) <= 0) {
        GENERAL_NAME_free(name);
        return ssl_error(err, "make a certificate name");
    }
    return 0;
}

static int server_names(const char *const *extra, size_t extra_count, GENERAL_NAMES **ret, struct err *err)
{
    static const char *const fixed[] = {"localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default"};
    CLEANUP(GENERAL_NAMES_free) GENERAL_NAMES *names = GENERAL_NAMES_new();
    char host[HOST_NAME_MAX + 1] = "";

    if (!names)
        return ssl_error(err, "make certificate names");
    for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
        if (add_alt_name(names, fixed[i], err) < 0)
            return -1;
    /* a machine may have a name that no certificate can hold; then it goes without */
    if (gethostname(host, sizeof(host) - 1) == 0 && dns_name_valid(host) &&
        add_alt_name(names, host, err) < 0)
        return -1;
    for (size_t i = 0; i < extra_count; i++)
        if (add_alt_name(names, extra[i], err) < 0)
            return -1;
    *ret = TAKE_PTR(names);
    return 0;
}

static bool same_names(const X509 *cert, GENERAL_NAMES *wanted)
{
    CLEANUP(GENERAL_NAMES_free)
    GENERAL_NAMES *have = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    unsigned char *a = NULL, *b = NULL;
    int a_len = have ? i2d_GENERAL_NAMES(have, &a) : -1, b_len = i2d_GENERAL_NAMES(wanted, &b);
    bool same = a_len > 0 && a_len == b_len && memcmp(a, b, (size_t)a_len) == 0;

    OPENSSL_free(a);
    OPENSSL_free(b);
    return same;
}

/* ---- the folder ---- */

static int ca_create(struct pki *pki, int64_t now_sec, struct err *err)
{
    CLEANUP(X509_NAME_free) X509_NAME *subject = common_name(CA_COMMON_NAME);
    struct request request = {.usage = USAGE_CA, .subject = subject, .now_sec = now_sec, .days = PKI_CA_DAYS};

    pki->ca_key = request.key = EVP_EC_gen("P-256");
    if (!subject || !pki->ca_key)
        return ssl_error(err, "make a key");
    if (make_cert(&request, NULL, pki->ca_key, &pki->ca, err) < 0)
        return -1;
    return write_pair(pki->ca, pki->ca_key, pki->ca_path, pki->ca_key_path, err);
}

static int ca_check(const struct pki *pki, int64_t now_sec, struct err *err)
{
    int64_t left = time_of(X509_get0_notAfter(pki->ca)) - now_sec;

    if (X509_check_private_key(pki->ca, pki->ca_key) != 1) {
        ERR_clear_error();
        return err_set(err, ERR_CONFLICT, "'%s' is not the key of '%s'", pki->ca_key_path, pki->ca_path);
    }
    if (left <= 0)
        return err_set(err, ERR_CONFLICT,
                       "the certificate authority '%s' has expired: move the folder away to make a new one, "
                       "then hand out new kubeconfigs",
                       pki->ca_path);
    if (left < (int64_t)CA_WARN_DAYS * DAY_SEC)
        log_warn("the certificate authority '%s' expires in %lld days", pki->ca_path,
                 (long long)(left / DAY_SEC));
    return 0;
}

static int ca_open(struct pki *pki, int64_t now_sec, struct err *err)
{
    CLEANUP(buf_done) struct buf pem = {0};
    struct err why = {0};

    if (read_cert(pki->ca_path, &pki->ca, &why) == 0) {
        if (read_key(pki->ca_key_path, &pki->ca_key, &why) < 0)
            return err_set(err, ERR_CONFLICT, "the authority's key is missing: %s", why.msg);
        if (ca_check(pki, now_sec, err) < 0)
            return -1;
    } else if (why.code == ERR_NOT_FOUND) {
        if (ca_create(pki, now_sec, err) < 0)
            return -1;
    } else {
        return err_set(err, why.code, "%s", why.msg);
    }
    if (cert_to_pem(pki->ca, &pem, err) < 0)
        return -1;
    pki->ca_pem = buf_take(&pem);
    return 0;
}

static bool server_fits(struct pki *pki, GENERAL_NAMES *names, int64_t now_sec)
{
    CLEANUP(X509_free) X509 *cert = NULL;
    CLEANUP(EVP_PKEY_free) EVP_PKEY *key = NULL;
    bool fits;

    if (read_cert(pki->server_path, &cert, NULL) < 0 || read_key(pki->server_key_path, &key, NULL) < 0)
        return false;
    fits = X509_check_private_key(cert, key) == 1 && X509_verify(cert, pki->ca_key) == 1 &&
           time_of(X509_get0_notBefore(cert)) <= now_sec &&
           time_of(X509_get0_notAfter(cert)) - now_sec >= (int64_t)PKI_RENEW_DAYS * DAY_SEC &&
           same_names(cert, names);
    pki->server_until = time_of(X509_get0_notAfter(cert));
    ERR_clear_error();
    return fits;
}

static int server_make(struct pki *pki, int64_t now_sec, struct err *err)
{
    CLEANUP(X509_NAME_free) X509_NAME *subject = NULL;
    CLEANUP(EVP_PKEY_free) EVP_PKEY *key = NULL;
    CLEANUP(X509_free) X509 *cert = NULL;
    struct request request = {
        .usage = USAGE_SERVER, .names = pki->names, .now_sec = now_sec, .days = PKI_CERT_DAYS};

    request.subject = subject = common_name("berthd");
    request.key = key = EVP_EC_gen("P-256");
    if (!subject || !key)
        return ssl_error(err, "make a key");
    if (make_cert(&request, pki->ca, pki->ca_key, &cert, err) < 0 ||
        write_pair(cert, key, pki->server_path, pki->server_key_path, err) < 0)
        return -1;
    pki->server_until = time_of(X509_get0_notAfter(cert));
    return 0;
}

int64_t pki_server_until(const struct pki *pki)
{
    return pki->server_until * NSEC_PER_SEC;
}

int64_t pki_ca_until(const struct pki *pki)
{
    return time_of(X509_get0_notAfter(pki->ca)) * NSEC_PER_SEC;
}

int pki_renew_server(struct pki *pki, int64_t now, bool *ret, struct err *err)
{
    *ret = !server_fits(pki, pki->names, now / NSEC_PER_SEC);
    return *ret ? server_make(pki, now / NSEC_PER_SEC, err) : 0;
}

int pki_open(const char *dir, const char *const *extra_names, size_t extra_count, int64_t now,
             struct pki **ret, struct err *err)
{
    CLEANUP(pki_free) struct pki *pki = NEW(struct pki);
    int64_t now_sec = now / NSEC_PER_SEC;
    bool made;

    pki->ca_path = mem_printf("%s/ca.crt", dir);
    pki->ca_key_path = mem_printf("%s/ca.key", dir);
    pki->server_path = mem_printf("%s/server.crt", dir);
    pki->server_key_path = mem_printf("%s/server.key", dir);
    if (server_names(extra_names, extra_count, &pki->names, err) < 0 || dir_make(dir, 0700, err) < 0 ||
        ca_open(pki, now_sec, err) < 0 || pki_renew_server(pki, now, &made, err) < 0)
        return -1;
    *ret = TAKE_PTR(pki);
    return 0;
}

/* ---- clients ---- */

static int check_name(const char *what, const char *name, struct err *err)
{
    size_t len = name ? strlen(name) : 0;

    if (len == 0 || len > PKI_NAME_MAX)
        return err_set(err, ERR_INVALID, "%s must have 1 to %d bytes", what, PKI_NAME_MAX);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
            return err_set(err, ERR_INVALID, "%s holds control characters", what);
    if (!utf8_valid(str_from(name)))
        return err_set(err, ERR_INVALID, "%s is not UTF-8", what);
    return 0;
}

static int client_subject(const char *user, const char *const *groups, size_t group_count, X509_NAME **ret,
                          struct err *err)
{
    CLEANUP(X509_NAME_free) X509_NAME *name = X509_NAME_new();

    if (group_count > PKI_GROUPS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d groups", PKI_GROUPS_MAX);
    for (size_t i = 0; i < group_count; i++)
        if (check_name("a group name", groups[i], err) < 0)
            return -1;
        else if (!name || !add_name(name, "O", groups[i]))
            return ssl_error(err, "make a certificate name");
    if (check_name("a user name", user, err) < 0)
        return -1;
    if (!name || !add_name(name, "CN", user))
        return ssl_error(err, "make a certificate name");
    *ret = TAKE_PTR(name);
    return 0;
}

/* As net/http.h tells it of a peer. */
static void write_serial(X509 *cert, char text[PKI_SERIAL_MAX])
{
    const ASN1_INTEGER *serial = X509_get0_serialNumber(cert);
    const unsigned char *bytes = ASN1_STRING_get0_data(serial);

    for (int i = 0; i < ASN1_STRING_length(serial) && 2 * i + 3 <= PKI_SERIAL_MAX; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

int pki_issue_client(const struct pki *pki, const char *user, const char *const *groups, size_t group_count,
                     int64_t now, int64_t until, struct pki_pair *ret, struct err *err)
{
    struct pki_pair pair = {0};
    CLEANUP(X509_NAME_free) X509_NAME *subject = NULL;
    CLEANUP(EVP_PKEY_free) EVP_PKEY *key = NULL;
    CLEANUP(X509_free) X509 *cert = NULL;
    struct request request = {.usage = USAGE_CLIENT, .now_sec = now / NSEC_PER_SEC, .days = PKI_CERT_DAYS};

    request.until_sec = until / NSEC_PER_SEC;
    if (client_subject(user, groups, group_count, &subject, err) < 0)
        return -1;
    request.subject = subject;
    request.key = key = EVP_EC_gen("P-256");
    if (!key)
        return ssl_error(err, "make a key");
    if (make_cert(&request, pki->ca, pki->ca_key, &cert, err) < 0 || cert_to_pem(cert, &pair.cert, err) < 0 ||
        key_to_pem(key, &pair.key, err) < 0) {
        pki_pair_done(&pair);
        return -1;
    }
    write_serial(cert, pair.serial);
    pair.until = time_of(X509_get0_notAfter(cert)) * NSEC_PER_SEC;
    *ret = pair;
    return 0;
}
