/* libcurl's multi interface on our loop: curl tells which descriptors and which time it waits for, the loop
 * tells curl when one has come. The address is checked where the socket is made: that is the one which is
 * connected to.
 *
 * Names are looked up in a thread before curl is asked, and curl is told the addresses: it would wait for its
 * own look-up when the time of a transfer is over, and the loop with it. */
#include "notify/webhook.h"

#include "base/mem.h"
#include "loop/offload.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netdb.h>
#include <stdarg.h>

#define LOG_MODULE "notify"
#include "base/log.h"

#define BUSY_MAX 64 /* that are refused at once */

struct socket {
    struct webhook *webhook;
    struct loop_io *io;
    curl_socket_t fd;
};

struct transfer {
    struct webhook *webhook;
    struct notify_delivery *delivery;
    CURL *easy;
    struct curl_slist *headers;
    struct buf body;
    struct curl_slist *addresses; /* for curl, where the host is a name */
    size_t answer_bytes;
    bool refused;   /* by the policy */
    bool looking;   /* its name is being looked up; curl does not have it yet */
    bool cancelled; /* meanwhile */
    bool busy;      /* no thread was to be had for the look-up */
    struct transfer *next, *prev;
};

struct webhook {
    struct loop *loop;
    const struct policy *policy;
    char *ca_path;
    CURLM *multi;
    struct loop_timer *timer;
    struct transfer *transfers;
    struct offload *offload;
    struct loop_timer *busy;
    struct notify_handler handler;
};

/* Of a look-up; the thread's own. */
struct lookup {
    char *host, *port;
    struct buf entry; /* "+HOST:PORT:ADDRESS,ADDRESS", as CURLOPT_RESOLVE takes it; empty: none was found */
};

/* ---- transfers ---- */

static void transfer_done(struct transfer *transfer)
{
    if (!transfer->looking)
        curl_multi_remove_handle(transfer->webhook->multi, transfer->easy);
    curl_easy_cleanup(transfer->easy);
    curl_slist_free_all(transfer->headers);
    curl_slist_free_all(transfer->addresses);
    buf_done(&transfer->body);
    free(transfer);
}

static void transfer_free(struct transfer *transfer)
{
    if (transfer->next)
        transfer->next->prev = transfer->prev;
    if (transfer->prev)
        transfer->prev->next = transfer->next;
    else
        transfer->webhook->transfers = transfer->next;
    transfer_done(transfer);
}

static void finish(struct transfer *transfer, CURLcode code)
{
    struct notify_delivery *delivery = transfer->delivery;
    enum notify_result result = NOTIFY_RETRY;
    char why[NOTIFY_WHY_MAX];
    curl_off_t after = 0;
    long status = 0;

    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(transfer->easy, CURLINFO_RETRY_AFTER, &after);
    if (transfer->refused && status == 0)
        snprintf(why, sizeof(why), "its address is not allowed (setting callback-allow)");
    else if (status == 0 || (code != CURLE_OK && code != CURLE_WRITE_ERROR))
        snprintf(why, sizeof(why), "%s", curl_easy_strerror(code));
    else
        snprintf(why, sizeof(why), "it answered %ld%s", status,
                 status >= 300 && status < 400 ? " (redirects are not followed)" : "");
    if (status >= 200 && status < 300)
        result = NOTIFY_DELIVERED;
    else if (status == 410)
        result = NOTIFY_NEVER;
    transfer_free(transfer);
    notify_finished(delivery, result, why, after > 0 ? after : 0);
}

static void look_for_ends(struct webhook *webhook)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(webhook->multi, &left))) {
        struct transfer *transfer = NULL;

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&transfer);
        finish(transfer, message->data.result);
    }
}

static size_t on_answer(char *data, size_t size, size_t count, void *arg)
{
    struct transfer *transfer = arg;

    (void)data;
    transfer->answer_bytes += size * count;
    return transfer->answer_bytes > WEBHOOK_ANSWER_MAX ? 0 : size * count;
}

static curl_socket_t on_open(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct transfer *transfer = arg;

    (void)purpose;
    if (!policy_allows(transfer->webhook->policy, &address->addr)) {
        transfer->refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static void add_header(struct transfer *transfer, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add_header(struct transfer *transfer, const char *fmt, ...)
{
    CLEANUP(buf_done) struct buf line = {0};
    struct curl_slist *list;
    va_list ap;

    va_start(ap, fmt);
    buf_vprintf(&line, fmt, ap);
    va_end(ap);
    list = curl_slist_append(transfer->headers, line.data);
    if (list)
        transfer->headers = list;
}

static void set_options(struct transfer *transfer, const struct json *payload)
{
    CURL *easy = transfer->easy;

    add_header(transfer, "Content-Type: application/json");
    add_header(transfer, "Idempotency-Key: %s", json_string_or(json_get(payload, "key"), ""));
    add_header(transfer, "Expect:");
    JSON_EACH_MEMBER(json_get(payload, "headers"), it) {
        const char *value = json_string_or(&it->value, "");

        /* curl takes "Name:" as "without that header" and "Name;" as "with an empty one" */
        add_header(transfer, *value ? "%s: %s" : "%s;%s", it->key, value);
    }
    json_write(&transfer->body, json_get(payload, "body"));
    curl_easy_setopt(easy, CURLOPT_URL, json_string_or(json_get(payload, "url"), ""));
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, transfer->body.data);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)transfer->body.len);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "berth/" BERTH_VERSION);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    if (transfer->webhook->ca_path)
        curl_easy_setopt(easy, CURLOPT_CAINFO, transfer->webhook->ca_path);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)WEBHOOK_CONNECT_TIMEOUT);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, (long)WEBHOOK_TIMEOUT);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_answer);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, (char *)transfer);
}

/* ---- names ---- */

static void lookup_free(void *work)
{
    struct lookup *lookup = work;

    free(lookup->host);
    free(lookup->port);
    buf_done(&lookup->entry);
    free(lookup);
}

static void add_address(struct lookup *lookup, const struct addrinfo *it, int *count)
{
    char text[INET6_ADDRSTRLEN];
    const void *addr = it->ai_family == AF_INET ? (const void *)&((struct sockaddr_in *)it->ai_addr)->sin_addr
                                                : &((struct sockaddr_in6 *)it->ai_addr)->sin6_addr;

    if (*count >= WEBHOOK_ADDRESSES_MAX || !inet_ntop(it->ai_family, addr, text, sizeof(text)))
        return;
    buf_printf(&lookup->entry, "%s%s", (*count)++ ? "," : "", text);
}

/* Names below localhost are this machine, whatever a name server says (RFC 6761). */
static bool is_local(const char *host)
{
    static const char suffix[] = ".localhost";
    size_t len = strlen(host);

    return len >= sizeof(suffix) && strcasecmp(host + len - (sizeof(suffix) - 1), suffix) == 0;
}

/* In a thread. */
static void look_up(void *work)
{
    struct lookup *lookup = work;
    struct addrinfo hints = {.ai_flags = AI_ADDRCONFIG, .ai_socktype = SOCK_STREAM}, *list = NULL;
    int count = 0;

    if (getaddrinfo(is_local(lookup->host) ? "localhost" : lookup->host, NULL, &hints, &list) != 0)
        return;
    buf_printf(&lookup->entry, "+%s:%s:", lookup->host, lookup->port);
    for (const struct addrinfo *it = list; it; it = it->ai_next)
        if (it->ai_family == AF_INET || it->ai_family == AF_INET6)
            add_address(lookup, it, &count);
    freeaddrinfo(list);
    if (!count)
        buf_clear(&lookup->entry);
}

static void hand_over(struct transfer *transfer)
{
    transfer->looking = false;
    curl_multi_add_handle(transfer->webhook->multi,
                          transfer->easy); /* sets the timer, so the rest is the loop's */
}

static void give_up(struct transfer *transfer, const char *why)
{
    struct notify_delivery *delivery = transfer->delivery;

    transfer_free(transfer);
    notify_finished(delivery, NOTIFY_RETRY, why, 0);
}

static void on_looked_up(void *owner, void *work)
{
    struct transfer *transfer = owner;
    struct lookup *lookup = work;

    if (transfer->cancelled)
        transfer_free(transfer);
    else if (!lookup)
        give_up(transfer, "the name server does not answer");
    else if (!lookup->entry.len)
        give_up(transfer, curl_easy_strerror(CURLE_COULDNT_RESOLVE_HOST));
    else {
        transfer->addresses = curl_slist_append(NULL, lookup->entry.data);
        curl_easy_setopt(transfer->easy, CURLOPT_RESOLVE, transfer->addresses);
        hand_over(transfer);
    }
    if (lookup)
        lookup_free(lookup);
}

/* NULL: the host is an address, or there is none. */
static struct lookup *lookup_new(const char *url)
{
    CURLU *parts = curl_url();
    char *host = NULL, *port = NULL;
    struct in6_addr addr;
    struct lookup *lookup = NULL;

    if (curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
        curl_url_get(parts, CURLUPART_HOST, &host, CURLU_PUNYCODE) == CURLUE_OK &&
        curl_url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK && host[0] != '[' &&
        inet_pton(AF_INET, host, &addr) != 1) {
        lookup = NEW(struct lookup);
        lookup->host = mem_strdup(host);
        lookup->port = mem_strdup(port);
    }
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(parts);
    return lookup;
}

/* Those for which no thread was to be had. What is told may start others. */
static void on_busy(void *arg)
{
    struct webhook *webhook = arg;
    struct notify_delivery *refused[BUSY_MAX];
    size_t count = 0;

    for (struct transfer *it = webhook->transfers, *next; it; it = next) {
        next = it->next;
        if (!it->busy)
            continue;
        if (count == BUSY_MAX) {
            loop_timer_set(webhook->busy, 0);
            break;
        }
        refused[count++] = it->delivery;
        transfer_free(it);
    }
    for (size_t i = 0; i < count; i++)
        notify_finished(refused[i], NOTIFY_RETRY, "too many names are being looked up", 0);
}

static void start(void *arg, struct notify_delivery *delivery, const struct json *payload)
{
    struct webhook *webhook = arg;
    struct transfer *transfer = NEW(struct transfer);
    struct lookup *lookup = lookup_new(json_string_or(json_get(payload, "url"), ""));

    transfer->looking = true;
    transfer->webhook = webhook;
    transfer->delivery = delivery;
    transfer->easy = curl_easy_init();
    transfer->next = webhook->transfers;
    if (transfer->next)
        transfer->next->prev = transfer;
    webhook->transfers = transfer;
    set_options(transfer, payload);
    if (!lookup) {
        hand_over(transfer);
    } else if (offload_run(webhook->offload, WEBHOOK_CONNECT_TIMEOUT, look_up, on_looked_up, lookup_free,
                           transfer, lookup, NULL) < 0) {
        lookup_free(lookup);
        transfer->busy = true;
        loop_timer_set(webhook->busy, 0); /* never from inside the call */
    }
}

static void cancel(void *arg, struct notify_delivery *delivery)
{
    struct webhook *webhook = arg;

    for (struct transfer *it = webhook->transfers; it; it = it->next)
        if (it->delivery == delivery && !it->cancelled) {
            if (it->looking && !it->busy)
                it->cancelled = true;
            else
                transfer_free(it);
            return;
        }
}

/* ---- curl and the loop ---- */

static void on_io(void *arg, uint32_t events)
{
    struct socket *s = arg;
    struct webhook *webhook = s->webhook;
    int mask = (events & EPOLLIN ? CURL_CSELECT_IN : 0) | (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
               (events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
    int running;

    curl_multi_socket_action(webhook->multi, s->fd, mask, &running);
    look_for_ends(webhook);
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
    struct webhook *webhook = arg;
    struct socket *s = socket_arg;
    uint32_t events = (what & CURL_POLL_IN ? EPOLLIN : 0) | (what & CURL_POLL_OUT ? EPOLLOUT : 0);

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (s) {
            loop_io_free(s->io);
            free(s);
        }
        return 0;
    }
    if (s) {
        loop_io_set(s->io, events);
        return 0;
    }
    s = NEW(struct socket);
    s->webhook = webhook;
    s->fd = fd;
    s->io = loop_io_new(webhook->loop, fd, events, on_io, s);
    curl_multi_assign(webhook->multi, fd, s);
    return 0;
}

static int on_curl_timer(CURLM *multi, long timeout_ms, void *arg)
{
    struct webhook *webhook = arg;

    (void)multi;
    if (timeout_ms < 0)
        loop_timer_stop(webhook->timer);
    else
        loop_timer_set(webhook->timer, timeout_ms * NSEC_PER_MSEC);
    return 0;
}

static void on_timer(void *arg)
{
    struct webhook *webhook = arg;
    int running;

    curl_multi_socket_action(webhook->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    look_for_ends(webhook);
}

struct webhook *webhook_new(struct loop *loop, const struct policy *policy, const char *ca_path)
{
    struct webhook *webhook = NEW(struct webhook);

    curl_global_init(CURL_GLOBAL_DEFAULT);
    webhook->loop = loop;
    webhook->policy = policy;
    webhook->ca_path = mem_strdup(ca_path);
    webhook->timer = loop_timer_new(loop, on_timer, webhook);
    webhook->offload = offload_new(loop);
    webhook->busy = loop_timer_new(loop, on_busy, webhook);
    webhook->multi = curl_multi_init();
    webhook->handler = (struct notify_handler){"webhook", webhook, start, cancel};
    curl_multi_setopt(webhook->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(webhook->multi, CURLMOPT_SOCKETDATA, webhook);
    curl_multi_setopt(webhook->multi, CURLMOPT_TIMERFUNCTION, on_curl_timer);
    curl_multi_setopt(webhook->multi, CURLMOPT_TIMERDATA, webhook);
    curl_multi_setopt(webhook->multi, CURLMOPT_MAXCONNECTS, 32L);
    return webhook;
}

void webhook_free(struct webhook *webhook)
{
    if (!webhook)
        return;
    offload_close(webhook->offload);
    for (struct transfer *it = TAKE_PTR(webhook->transfers), *next; it; it = next) {
        next = it->next;
        transfer_done(it);
    }
    curl_multi_cleanup(webhook->multi);
    loop_timer_free(webhook->timer);
    loop_timer_free(webhook->busy);
    free(webhook->ca_path);
    free(webhook);
    curl_global_cleanup();
}

const struct notify_handler *webhook_handler(const struct webhook *webhook)
{
    return &webhook->handler;
}

/* ---- checks ---- */

static bool is_token(const char *s)
{
    return *s && strspn(s, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") ==
                     strlen(s);
}

static int check_header(const struct json_member *header, struct err *err)
{
    static const char *const ours[] = {"host",   "content-length", "transfer-encoding", "connection",
                                       "expect", "content-type",   "idempotency-key",   "upgrade"};
    struct str value = json_str(&header->value);

    if (strlen(header->key) != header->key_len || !is_token(header->key))
        return err_set(err, ERR_INVALID, "a header has a name that HTTP does not allow");
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        if (strcasecmp(ours[i], header->key) == 0)
            return err_set(err, ERR_INVALID, "header '%s' is Berth's own", header->key);
    if (!value.s)
        return err_set(err, ERR_INVALID, "header '%s': its value must be text", header->key);
    if (value.len > WEBHOOK_HEADER_MAX)
        return err_set(err, ERR_INVALID, "header '%s' is longer than %d bytes", header->key,
                       WEBHOOK_HEADER_MAX);
    for (size_t i = 0; i < value.len; i++)
        if ((unsigned char)value.s[i] < ' ' || value.s[i] == 0x7f)
            return err_set(err, ERR_INVALID, "header '%s' has a control character in its value", header->key);
    return 0;
}

static int check_url(const struct policy *policy, const char *url, struct err *err)
{
    CURLU *parts = curl_url();
    char *scheme = NULL, *host = NULL;
    int result = -1;

    if (curl_url_set(parts, CURLUPART_URL, url, 0) != CURLUE_OK ||
        curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
        curl_url_get(parts, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
        (!streq(scheme, "http") && !streq(scheme, "https")))
        err_set(err, ERR_INVALID, "must be a URL that begins with http:// or https://");
    else if (!policy_allows_host(policy, str_from(host)))
        err_set(err, ERR_FORBIDDEN,
                "%s is an address of this machine or network, which Berth calls only where the setting "
                "callback-allow says so",
                host);
    else
        result = 0;
    curl_free(scheme);
    curl_free(host);
    curl_url_cleanup(parts);
    return result;
}

int webhook_check(const struct policy *policy, const struct json *url, const struct json *headers,
                  struct err *err)
{
    const char *text = json_string(url);

    if (!text || strlen(text) != json_str(url).len || json_str(url).len > WEBHOOK_URL_MAX)
        return err_set(err, ERR_INVALID, "must be a URL of at most %d bytes", WEBHOOK_URL_MAX);
    if (headers && !json_is(headers, JSON_OBJECT) && !json_is(headers, JSON_NULL))
        return err_set(err, ERR_INVALID, "headers: must be names with their values");
    if (json_len(headers) > WEBHOOK_HEADERS_MAX)
        return err_set(err, ERR_INVALID, "headers: more than %d", WEBHOOK_HEADERS_MAX);
    JSON_EACH_MEMBER(headers, it)
        if (check_header(it, err) < 0)
            return -1;
    return check_url(policy, text, err);
}

static char *rebuilt(const char *url, bool path, struct arena *arena)
{
    static const CURLUPart secret[] = {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY,
                                       CURLUPART_FRAGMENT};
    CURLU *parts = curl_url();
    char *text = NULL, *ret;

    if (curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK) {
        for (size_t i = 0; i < ARRAY_LEN(secret); i++)
            curl_url_set(parts, secret[i], NULL, 0);
        if (!path)
            curl_url_set(parts, CURLUPART_PATH, NULL, 0);
        curl_url_get(parts, CURLUPART_URL, &text, path ? 0 : CURLU_DEFAULT_PORT);
    }
    ret = arena_strdup(arena, text ? text : "");
    curl_free(text);
    curl_url_cleanup(parts);
    return ret;
}

char *webhook_host(const char *url, struct arena *arena)
{
    return rebuilt(url, false, arena);
}

char *webhook_shown(const char *url, struct arena *arena)
{
    return rebuilt(url, true, arena);
}
