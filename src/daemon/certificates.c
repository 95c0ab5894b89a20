#include "daemon/certificates.h"

#include "api/credentials.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "daemon/kubeconfig.h"
#include "daemon/pki.h"
#include "net/http.h"

#include <unistd.h>

#define LOG_MODULE  "pki"

#define LOOK_NSEC   (3600 * NSEC_PER_SEC)
#define ADMIN_TABLE "admin_kubeconfig" /* "serial" → of the file's certificate, "url" → where it points */

struct certificates {
    struct store *store;
    struct pki *pki;
    struct http_tls *tls;
    struct loop_timer *timer;
    const char *url;
};

static void certificates_on_timer(void *arg)
{
    struct certificates *certificates = arg;
    struct err err = {0};
    bool renewed = false;

    if (pki_renew_server(certificates->pki, clock_now(), &renewed, &err) < 0)
        log_error("cannot renew the server's certificate: %s", err.msg);
    else if (renewed)
        certificates_reload(certificates);
    loop_timer_set(certificates->timer, LOOK_NSEC);
}

void certificates_reload(struct certificates *certificates)
{
    const struct pki *pki = certificates ? certificates->pki : NULL;
    struct err err = {0};
    bool renewed = false;

    if (!pki)
        return;
    if (pki_renew_server(certificates->pki, clock_now(), &renewed, &err) < 0 ||
        http_tls_reload(certificates->tls, pki_server_cert_path(pki), pki_server_key_path(pki),
                        pki_ca_path(pki), &err) < 0)
        log_error("the server's certificate stays as it was: %s", err.msg);
    else
        log_info("the server's certificate was %s", renewed ? "renewed" : "read again");
}

/* Certificates of before this are not in the store, and count all the same (api/auth.c). */
static void mark_since(struct store *store)
{
    char time[CLOCK_TEXT_MAX];

    if (store_value(store, CERTIFICATES_SINCE_TABLE, CERTIFICATES_TABLE).s)
        return;
    clock_format(clock_now() - (PKI_SKEW_SEC + 1) * NSEC_PER_SEC, time);
    store_value_set(store, CERTIFICATES_SINCE_TABLE, CERTIFICATES_TABLE, str_from(time));
}

int certificates_open(struct loop *loop, struct store *store, const struct daemon_config *config,
                      struct certificates **ret, struct err *err)
{
    CLEANUP(certificates_free) struct certificates *certificates = NEW(struct certificates);
    CLEANUP(free) char *dir = mem_printf("%s/pki", config->data_dir);
    struct pki *pki;

    mark_since(store);
    if (!config->https)
        return 0;
    certificates->store = store;
    if (pki_open(dir, (const char *const *)config->extra_names.v, config->extra_names.len, clock_now(),
                 &certificates->pki, err) < 0)
        return -1;
    pki = certificates->pki;
    if (http_tls_new(pki_server_cert_path(pki), pki_server_key_path(pki), pki_ca_path(pki),
                     &certificates->tls, err) < 0)
        return -1;
    certificates->timer = loop_timer_new(loop, certificates_on_timer, certificates);
    loop_timer_set(certificates->timer, LOOK_NSEC);
    *ret = TAKE_PTR(certificates);
    return 0;
}

void certificates_free(struct certificates *certificates)
{
    if (!certificates)
        return;
    loop_timer_free(certificates->timer);
    http_tls_free(certificates->tls);
    pki_free(certificates->pki);
    free(certificates);
}

struct http_tls *certificates_tls(const struct certificates *certificates)
{
    return certificates ? certificates->tls : NULL;
}

void certificates_set_url(struct certificates *certificates, const char *https_url)
{
    if (certificates)
        certificates->url = https_url;
}

void certificates_ends(const struct certificates *certificates, int64_t *server, int64_t *authority)
{
    *server = pki_server_until(certificates->pki);
    *authority = pki_ca_until(certificates->pki);
}

int certificates_kubeconfig(void *arg, const char *user, const char *const *groups, const char *ns,
                            int64_t until, struct buf *ret, struct api_certificate *made, struct err *err)
{
    const struct certificates *certificates = arg;
    CLEANUP(pki_pair_done) struct pki_pair pair = {0};
    size_t count = 0;

    if (!certificates->url)
        return err_set(err, ERR_UNAVAILABLE, "this server has no HTTPS address");
    while (groups && groups[count])
        count++;
    if (pki_issue_client(certificates->pki, user, groups, count, clock_now(), until, &pair, err) < 0)
        return -1;
    kubeconfig_write(ret, &(struct kubeconfig){
                              .cluster = "berth",
                              .server = certificates->url,
                              .ca_pem = pki_ca_pem(certificates->pki),
                              .user = user,
                              .cert_pem = pair.cert.data,
                              .key_pem = pair.key.data,
                              .ns = ns,
                          });
    snprintf(made->serial, sizeof(made->serial), "%s", pair.serial);
    made->until = pair.until;
    return 0;
}

/* ---- the machine's admin ---- */

static bool admin_is_good(const struct certificates *certificates, const char *path)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct str serial = store_value(certificates->store, ADMIN_TABLE, "serial");
    const char *key = serial.s ? arena_strndup(&arena, serial.s, serial.len) : NULL;

    return key && access(path, R_OK) == 0 &&
           str_is(store_value(certificates->store, ADMIN_TABLE, "url"), certificates->url) &&
           credential_entry(certificates->store, CERTIFICATES_TABLE, key, &arena,
                            clock_now() + (int64_t)PKI_RENEW_DAYS * 86400 * NSEC_PER_SEC);
}

/* The last one's file was replaced: it need not be listed any more. */
static void forget_admin(struct certificates *certificates)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct str serial = store_value(certificates->store, ADMIN_TABLE, "serial");

    if (serial.s)
        store_value_set(certificates->store, CERTIFICATES_TABLE, arena_strndup(&arena, serial.s, serial.len),
                        (struct str){0});
}

static void keep_admin(struct certificates *certificates, const struct api_certificate *made)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};
    struct json *entry = json_new_object(&arena);
    char time[CLOCK_TEXT_MAX];

    json_set_string(&arena, entry, "id", made->serial);
    json_set_string(&arena, entry, "user", "system:admin");
    json_set_string(&arena, entry, "created", clock_format(clock_now(), time));
    json_set_string(&arena, entry, "expires", clock_format(made->until, time));
    json_push_string(&arena, json_set_array(&arena, entry, "groups"), GROUP_MASTERS);
    json_set_string(&arena, entry, "family", made->serial);
    json_set_string(&arena, entry, "description", "admin.kubeconfig");
    json_write(&text, entry);
    store_value_set(certificates->store, CERTIFICATES_TABLE, made->serial, buf_view(&text));
    store_value_set(certificates->store, ADMIN_TABLE, "serial", str_from(made->serial));
    store_value_set(certificates->store, ADMIN_TABLE, "url", str_from(certificates->url));
}

int certificates_write_admin(struct certificates *certificates, const char *path, struct err *err)
{
    static const char *const groups[] = {GROUP_MASTERS, NULL};
    CLEANUP(buf_done) struct buf text = {0};
    struct api_certificate made = {0};

    if (!certificates || admin_is_good(certificates, path))
        return 0;
    if (certificates_kubeconfig(certificates, "system:admin", groups, "default", 0, &text, &made, err) < 0 ||
        file_write_atomic(path, buf_view(&text), 0600, err) < 0)
        return -1;
    forget_admin(certificates);
    keep_admin(certificates, &made);
    return 0;
}
