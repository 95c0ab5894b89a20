#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/test/test.h"
#include "base/yaml.h"
#include "daemon/kubeconfig.h"
#include "daemon/pki.h"

#include <fcntl.h>
#include <ftw.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#define DAY (24 * 3600 * NSEC_PER_SEC)
#define NOW (INT64_C(1767323045) * NSEC_PER_SEC) /* 2026-01-02 */

static int unlink_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int make_folder(void **state)
{
    char template[] = "/tmp/berth-pki-XXXXXX";

    *state = mem_strdup(mkdtemp(template));
    return *state ? 0 : -1;
}

static int remove_folder(void **state)
{
    nftw(*state, unlink_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return 0;
}

static struct pki *open_ok(const char *dir, const char *extra, int64_t now)
{
    struct pki *pki = NULL;
    struct err err = {0};

    if (pki_open(dir, &extra, extra ? 1 : 0, now, &pki, &err) < 0)
        fail_msg("%s", err.msg);
    return pki;
}

static X509 *parse_cert(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);

    BIO_free_all(bio);
    assert_non_null(cert);
    return cert;
}

static X509 *read_cert_file(const char *path)
{
    CLEANUP(buf_done) struct buf text = {0};

    assert_int_equal(file_read(path, 1 << 16, &text, NULL), 0);
    return parse_cert(text.data);
}

static mode_t mode_of(const char *dir, const char *name)
{
    CLEANUP(free) char *path = mem_printf("%s/%s", dir, name);
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 0777;
}

static char *server_pem(const struct pki *pki)
{
    CLEANUP(buf_done) struct buf text = {0};

    assert_int_equal(file_read(pki_server_cert_path(pki), 1 << 16, &text, NULL), 0);
    return mem_strdup(text.data);
}

static void test_first_open_makes_authority_and_server_pair_with_private_keys(void **state)
{
    CLEANUP(pki_free) struct pki *pki = open_ok(*state, NULL, NOW);

    assert_int_equal(mode_of(*state, "ca.key"), 0600);
    assert_int_equal(mode_of(*state, "server.key"), 0600);
    assert_non_null(strstr(pki_ca_pem(pki), "BEGIN CERTIFICATE"));
}

static void test_second_open_keeps_authority_and_server_certificate(void **state)
{
    CLEANUP(pki_free) struct pki *first = open_ok(*state, NULL, NOW), *second = NULL;
    CLEANUP(free) char *before = server_pem(first), *after = NULL;

    second = open_ok(*state, NULL, NOW + 300 * DAY);
    after = server_pem(second);
    assert_string_equal(pki_ca_pem(first), pki_ca_pem(second));
    assert_string_equal(before, after);
}

static void test_server_certificate_is_renewed_thirty_days_before_its_end(void **state)
{
    CLEANUP(pki_free) struct pki *first = open_ok(*state, NULL, NOW), *late = NULL;
    CLEANUP(free) char *before = server_pem(first), *after = NULL;

    late = open_ok(*state, NULL, NOW + 336 * DAY);
    after = server_pem(late);
    assert_string_not_equal(before, after);
    assert_string_equal(pki_ca_pem(first), pki_ca_pem(late));
}

static void test_server_certificate_is_renewed_when_its_names_change(void **state)
{
    CLEANUP(pki_free) struct pki *first = open_ok(*state, NULL, NOW), *more = NULL, *same = NULL;
    CLEANUP(free) char *before = server_pem(first), *with = NULL, *again = NULL;

    more = open_ok(*state, "gpu1.lab.example", NOW);
    with = server_pem(more);
    same = open_ok(*state, "gpu1.lab.example", NOW);
    again = server_pem(same);
    assert_string_not_equal(before, with);
    assert_string_equal(with, again);
}

static void test_server_certificate_is_for_local_names_and_extra_addresses(void **state)
{
    CLEANUP(pki_free) struct pki *pki = open_ok(*state, "192.0.2.7", NOW);
    X509 *cert = read_cert_file(pki_server_cert_path(pki)), *ca = parse_cert(pki_ca_pem(pki));

    assert_int_equal(X509_check_host(cert, "localhost", 0, 0, NULL), 1);
    assert_int_equal(X509_check_host(cert, "kubernetes.default", 0, 0, NULL), 1);
    assert_int_equal(X509_check_host(cert, "elsewhere.example", 0, 0, NULL), 0);
    assert_int_equal(X509_check_ip_asc(cert, "127.0.0.1", 0), 1);
    assert_int_equal(X509_check_ip_asc(cert, "::1", 0), 1);
    assert_int_equal(X509_check_ip_asc(cert, "192.0.2.7", 0), 1);
    assert_int_equal(X509_check_purpose(cert, X509_PURPOSE_SSL_SERVER, 0), 1);
    assert_int_equal(X509_check_issued(ca, cert), X509_V_OK);
    X509_free(cert);
    X509_free(ca);
}

static void test_bad_extra_name_is_refused_by_name(void **state)
{
    const char *extra = "bad name,DNS:x";
    struct pki *pki = NULL;
    struct err err = {0};

    assert_int_equal(pki_open(*state, &extra, 1, NOW, &pki, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_string_equal(err.msg, "'bad name,DNS:x' is neither a host name nor an address");
}

static void test_lost_authority_key_is_an_error_not_a_new_authority(void **state)
{
    CLEANUP(free) char *key = mem_printf("%s/ca.key", (char *)*state);
    struct pki *again = NULL;
    struct err err = {0};

    pki_free(open_ok(*state, NULL, NOW));
    assert_int_equal(unlink(key), 0);
    assert_int_equal(pki_open(*state, NULL, 0, NOW, &again, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
}

static void test_expired_authority_is_an_error(void **state)
{
    struct pki *again = NULL;
    struct err err = {0};

    pki_free(open_ok(*state, NULL, NOW));
    assert_int_equal(pki_open(*state, NULL, 0, NOW + 3651 * DAY, &again, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
}

static void test_certificates_never_outlive_the_authority(void **state)
{
    CLEANUP(pki_free) struct pki *old = open_ok(*state, NULL, NOW);
    CLEANUP(pki_free) struct pki *pki = open_ok(*state, NULL, NOW + 3500 * DAY);
    X509 *cert = read_cert_file(pki_server_cert_path(pki)), *ca = parse_cert(pki_ca_pem(old));

    assert_int_equal(ASN1_TIME_compare(X509_get0_notAfter(cert), X509_get0_notAfter(ca)), 0);
    X509_free(cert);
    X509_free(ca);
}

static void test_client_certificate_has_user_groups_and_the_authoritys_signature(void **state)
{
    static const char *const groups[] = {"system:masters", "lab"};
    CLEANUP(pki_free) struct pki *pki = open_ok(*state, NULL, NOW);
    CLEANUP(pki_pair_done) struct pki_pair pair = {0};
    struct err err = {0};
    char subject[256];
    X509 *cert, *ca = parse_cert(pki_ca_pem(pki));

    assert_int_equal(pki_issue_client(pki, "alice", groups, 2, NOW, 0, &pair, &err), 0);
    cert = parse_cert(pair.cert.data);
    X509_NAME_oneline(X509_get_subject_name(cert), subject, sizeof(subject));
    assert_string_equal(subject, "/O=system:masters/O=lab/CN=alice");
    assert_int_equal(X509_verify(cert, X509_get0_pubkey(ca)), 1);
    assert_int_equal(X509_check_purpose(cert, X509_PURPOSE_SSL_CLIENT, 0), 1);
    assert_int_equal(X509_check_purpose(cert, X509_PURPOSE_SSL_SERVER, 0), 0);
    assert_non_null(strstr(pair.key.data, "PRIVATE KEY"));
    X509_free(cert);
    X509_free(ca);
}

static void test_client_names_are_checked(void **state)
{
    static const char long_name[] =
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"; /* 65 */
    static const char *const bad[] = {"", "a\nb", "\xff", long_name};
    CLEANUP(pki_free) struct pki *pki = open_ok(*state, NULL, NOW);
    struct pki_pair pair = {0};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = {0};

        assert_int_equal(pki_issue_client(pki, bad[i], NULL, 0, NOW, 0, &pair, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
    }
}

static void test_kubeconfig_embeds_certificates_and_presets_the_namespace(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0}, ca = {0};
    struct json *doc;
    struct err err = {0};

    (void)state;
    kubeconfig_write(&text, &(struct kubeconfig){.cluster = "berth",
                                                 .server = "https://127.0.0.1:5443",
                                                 .ca_pem = "CA",
                                                 .user = "alice: \"x\"",
                                                 .ns = "alice",
                                                 .cert_pem = "CERT",
                                                 .key_pem = "KEY"});
    assert_int_equal(yaml_parse_one(buf_view(&text), &arena, &doc, &err), 0);
    assert_string_equal(json_at_string(doc, "clusters.0.cluster.server"), "https://127.0.0.1:5443");
    assert_true(
        buf_base64_decode(&ca, json_str(json_at(doc, "clusters.0.cluster.certificate-authority-data"))));
    assert_string_equal(ca.data, "CA");
    assert_string_equal(json_at_string(doc, "users.0.name"), "alice: \"x\"");
    assert_string_equal(json_at_string(doc, "contexts.0.context.namespace"), "alice");
    assert_string_equal(json_get_string(doc, "current-context"), "alice: \"x\"@berth");
    assert_null(json_at(doc, "users.0.user.token"));
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        IN_FOLDER(test_first_open_makes_authority_and_server_pair_with_private_keys),
        IN_FOLDER(test_second_open_keeps_authority_and_server_certificate),
        IN_FOLDER(test_server_certificate_is_renewed_thirty_days_before_its_end),
        IN_FOLDER(test_server_certificate_is_renewed_when_its_names_change),
        IN_FOLDER(test_server_certificate_is_for_local_names_and_extra_addresses),
        IN_FOLDER(test_bad_extra_name_is_refused_by_name),
        IN_FOLDER(test_lost_authority_key_is_an_error_not_a_new_authority),
        IN_FOLDER(test_expired_authority_is_an_error),
        IN_FOLDER(test_certificates_never_outlive_the_authority),
        IN_FOLDER(test_client_certificate_has_user_groups_and_the_authoritys_signature),
        IN_FOLDER(test_client_names_are_checked),
        cmocka_unit_test(test_kubeconfig_embeds_certificates_and_presets_the_namespace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
