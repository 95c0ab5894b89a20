#include "net/test/certs.h"

#include "base/test/test.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>

static FILE *open_file(const char *dir, const char *name, const char *suffix, const char *mode)
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s%s", dir, name, suffix);
    file = fopen(path, mode);
    assert_non_null(file);
    return file;
}

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *extension;

    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(extension);
    X509_add_ext(cert, extension, -1);
    X509_EXTENSION_free(extension);
}

static void add_name(X509_NAME *name, const char *field, const char *value)
{
    assert_int_equal(
        X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8, (const unsigned char *)value, -1, -1, 0), 1);
}

void certs_make(const char *dir, const char *name, const char *issuer, const char *cn,
                const char *const *orgs)
{
    static long serial = 1;
    EVP_PKEY *key = EVP_EC_gen("P-256"), *ca_key = key;
    X509 *cert = X509_new(), *ca = cert;
    X509_NAME *subject = X509_get_subject_name(cert);
    FILE *file;

    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), serial++);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    if (cn)
        add_name(subject, "CN", cn);
    for (; orgs && *orgs; orgs++)
        add_name(subject, "O", *orgs);
    if (issuer) {
        file = open_file(dir, issuer, ".pem", "re");
        ca = PEM_read_X509(file, NULL, NULL, NULL);
        fclose(file);
        file = open_file(dir, issuer, ".key", "re");
        ca_key = PEM_read_PrivateKey(file, NULL, NULL, NULL);
        fclose(file);
    }
    X509_set_issuer_name(cert, X509_get_subject_name(ca));
    add_extension(cert, ca, NID_basic_constraints, issuer ? "critical,CA:FALSE" : "critical,CA:TRUE");
    if (issuer) {
        add_extension(cert, ca, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
        add_extension(cert, ca, NID_ext_key_usage, "serverAuth,clientAuth");
    }
    assert_true(X509_sign(cert, ca_key, EVP_sha256()) > 0);
    file = open_file(dir, name, ".pem", "we");
    PEM_write_X509(file, cert);
    fclose(file);
    file = open_file(dir, name, ".key", "we");
    PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL);
    fclose(file);
    if (issuer) {
        X509_free(ca);
        EVP_PKEY_free(ca_key);
    }
    X509_free(cert);
    EVP_PKEY_free(key);
}
