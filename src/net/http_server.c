/* The server: listeners, accepting, the end. */
#define LOG_MODULE "http"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/http_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define ACCEPTS_MAX     64   /* connections taken before others get their turn */
#define ACCEPT_RETRY_MS 100  /* after the process ran out of descriptors */
#define BACKLOG         4096 /* the kernel lowers it to net.core.somaxconn */

struct http_server *http_server_new(struct loop *loop, const struct http_config *config, http_handler handler,
                                    void *arg)
{
    struct http_server *server = mem_alloc(sizeof(*server));

    memset(server, 0, offsetof(struct http_server, head)); /* not the scratch space */
    server->loop = loop;
    server->listeners_end = &server->listeners;
    if (config)
        server->config = *config;
    if (server->config.body_max == 0)
        server->config.body_max = HTTP_BODY_MAX;
    if (server->config.conns_max == 0)
        server->config.conns_max = HTTP_CONNS_MAX;
    if (server->config.conns_each == 0)
        server->config.conns_each = HTTP_CONNS_EACH;
    if (server->config.conns_loopback == 0)
        server->config.conns_loopback = HTTP_CONNS_LOOPBACK;
    server->shares = map_new();
    server->server_name = mem_strdup(server->config.server_name);
    server->handler = handler;
    server->arg = arg;
    return server;
}

/* Stops listening; http_server_addr goes on to answer. The socket's file goes once: the next one of that name
 * may be a successor's. */
static void listener_close(struct listener *listener)
{
    loop_io_free(TAKE_PTR(listener->io));
    loop_timer_stop(listener->retry);
    fd_close(take_fd(&listener->fd));
    if (listener->path)
        unlink(listener->path);
    free(TAKE_PTR(listener->path));
}

static void listener_free(struct listener *listener)
{
    listener_close(listener);
    loop_timer_free(listener->retry);
    http_tls_free(listener->tls);
    free(listener->addr);
    free(listener);
}

void http_server_free(struct http_server *server)
{
    if (!server)
        return;
    while (server->conns)
        connection_destroy(server->conns);
    while (server->listeners) {
        struct listener *first = server->listeners;

        server->listeners = first->next;
        listener_free(first);
    }
    loop_timer_free(server->stop_timer);
    http_spares_free(server);
    buf_done(&server->records);
    map_free(server->shares);
    free(server->server_name);
    server->freed = true;
    if (!server->settle_due)
        free(server);
}

static bool is_loopback(const struct sockaddr_storage *addr)
{
    const struct sockaddr_in *v4 = (const void *)addr;
    const struct sockaddr_in6 *v6 = (const void *)addr;

    if (addr->ss_family == AF_INET)
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    if (addr->ss_family != AF_INET6)
        return false;
    return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) ||
           (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) && v6->sin6_addr.s6_addr[12] == 127);
}

/* "127.0.0.1:80", "[::1]:80"; IPv4 addresses on an IPv6 socket as IPv4. */
static void format_addr(const struct sockaddr_storage *addr, char *text, size_t size)
{
    const struct sockaddr_in *v4 = (const void *)addr;
    const struct sockaddr_in6 *v6 = (const void *)addr;
    char host[INET6_ADDRSTRLEN] = "?";

    if (addr->ss_family == AF_INET) {
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
        snprintf(text, size, "%s:%u", host, ntohs(v4->sin_port));
    } else if (addr->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
        inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], host, sizeof(host));
        snprintf(text, size, "%s:%u", host, ntohs(v6->sin6_port));
    } else if (addr->ss_family == AF_INET6) {
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
        snprintf(text, size, "[%s]:%u", host, ntohs(v6->sin6_port));
    } else {
        snprintf(text, size, "unix");
    }
}

/* Whose connection it is: the uid, the address, or of IPv6 the network that one host has for itself. */
static void share_name(const struct connection *conn, const struct sockaddr_storage *addr, char *text,
                       size_t size)
{
    const struct sockaddr_in6 *v6 = (const void *)addr;
    const char *colon = strrchr(conn->address, ':');

    if (conn->peer.unix_socket)
        snprintf(text, size, "uid %u", (unsigned)conn->peer.uid);
    else if (addr->ss_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) && !conn->peer.loopback)
        snprintf(text, size, "net %02x%02x:%02x%02x:%02x%02x:%02x%02x", v6->sin6_addr.s6_addr[0],
                 v6->sin6_addr.s6_addr[1], v6->sin6_addr.s6_addr[2], v6->sin6_addr.s6_addr[3],
                 v6->sin6_addr.s6_addr[4], v6->sin6_addr.s6_addr[5], v6->sin6_addr.s6_addr[6],
                 v6->sin6_addr.s6_addr[7]);
    else
        snprintf(text, size, "address %.*s", colon ? (int)(colon - conn->address) : 0, conn->address);
}

static void serve(struct listener *listener, int fd, const struct sockaddr_storage *addr)
{
    struct http_server *server = listener->server;
    struct connection *conn;
    char name[sizeof(conn->address) + 16];

    if (server->conn_count >= server->config.conns_max + HTTP_CONNS_RESERVE + HTTP_REFUSALS_MAX) {
        fd_close(fd);
        return;
    }
    conn = connection_new(server, fd, listener->tls);
    format_addr(addr, conn->address, sizeof(conn->address));
    conn->peer.loopback = is_loopback(addr);
    if (addr->ss_family == AF_UNIX) {
        struct ucred cred;
        socklen_t len = sizeof(cred);

        conn->peer.unix_socket = true;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0) {
            connection_fail(conn, "no credentials");
            return;
        }
        conn->peer.uid = cred.uid;
        conn->peer.gid = cred.gid;
        conn->peer.pid = cred.pid;
    }
    share_name(conn, addr, name, sizeof(name));
    http_share_join(conn, name,
                    conn->peer.unix_socket && (conn->peer.uid == 0 || conn->peer.uid == geteuid()));
    conn->refused = http_share_refusal(conn);
}

static void on_accept(void *arg, uint32_t events)
{
    struct listener *listener = arg;

    (void)events;
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        struct sockaddr_storage addr = {0};
        socklen_t len = sizeof(addr);
        int fd = accept4(listener->fd, (struct sockaddr *)&addr, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd >= 0) {
            serve(listener, fd, &addr);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            /* The connection stays in the backlog; epoll would report it again and again. */
            log_warn("cannot accept: %s", strerror(errno));
            loop_io_set(listener->io, 0);
            loop_timer_set(listener->retry, ACCEPT_RETRY_MS * NSEC_PER_MSEC);
            return;
        }
        if (errno == EAGAIN)
            return;
    }
}

static void on_retry(void *arg)
{
    struct listener *listener = arg;

    loop_io_set(listener->io, EPOLLIN);
}

static struct listener *listener_add(struct http_server *server, int fd)
{
    struct listener *listener = NEW(struct listener);

    listener->server = server;
    listener->fd = fd;
    listener->retry = loop_timer_new(server->loop, on_retry, listener);
    listener->io = loop_io_new(server->loop, fd, EPOLLIN, on_accept, listener);
    *server->listeners_end = listener;
    server->listeners_end = &listener->next;
    return listener;
}

/* "host:port" into its parts; "[v6]:port" without the brackets. */
static int split_addr(const char *addr, char *host, size_t size, const char **port, struct err *err)
{
    const char *colon = strrchr(addr, ':');
    size_t len = colon ? (size_t)(colon - addr) : 0;

    if (!colon || !colon[1])
        return err_set(err, ERR_INVALID, "no port in '%s'", addr);
    if (len >= 2 && addr[0] == '[' && addr[len - 1] == ']') {
        addr++;
        len -= 2;
    }
    if (len >= size)
        return err_set(err, ERR_INVALID, "too long a host in '%s'", addr);
    memcpy(host, addr, len);
    host[len] = '\0';
    *port = colon + 1;
    return 0;
}

/* Accepted sockets inherit these. */
static void set_options(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {SOL_SOCKET, SO_REUSEADDR, 1},   {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1}, /* notices hosts that vanished under an idle watch */
        {IPPROTO_TCP, TCP_KEEPIDLE, 60}, {IPPROTO_TCP, TCP_KEEPINTVL, 15},
        {IPPROTO_TCP, TCP_KEEPCNT, 4},
    };

    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
}

static int bind_tcp(const struct addrinfo *list, const char *addr, struct err *err)
{
    int saved = EADDRNOTAVAIL;

    for (const struct addrinfo *it = list; it; it = it->ai_next) {
        CLEANUP(fd_close) int fd = socket(it->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        const int off = 0;

        if (fd < 0) {
            saved = errno;
            continue;
        }
        set_options(fd);
        if (it->ai_family == AF_INET6)
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
        if (bind(fd, it->ai_addr, it->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
            return take_fd(&fd);
        saved = errno;
    }
    return err_errno(err, saved, "listen on '%s'", addr);
}

int http_listen_tcp(struct http_server *server, const char *addr, struct http_tls *tls, struct err *err)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM},
                    *list = NULL;
    struct sockaddr_storage bound = {0};
    socklen_t len = sizeof(bound);
    struct listener *listener;
    char host[256], text[64];
    const char *port = NULL;
    int fd, rc;

    if (split_addr(addr, host, sizeof(host), &port, err) < 0)
        return -1;
    if (!host[0])
        hints.ai_family = AF_INET6; /* takes IPv4 as well */
    rc = getaddrinfo(host[0] ? host : NULL, port, &hints, &list);
    if (rc != 0)
        return err_set(err, ERR_INVALID, "listen on '%s': %s", addr, gai_strerror(rc));
    fd = bind_tcp(list, addr, host[0] ? err : NULL);
    freeaddrinfo(list);
    if (fd < 0 && !host[0]) { /* a kernel without IPv6 */
        hints.ai_family = AF_INET;
        if (getaddrinfo(NULL, port, &hints, &list) != 0)
            return err_set(err, ERR_INVALID, "listen on '%s': no such address", addr);
        fd = bind_tcp(list, addr, err);
        freeaddrinfo(list);
    }
    if (fd < 0)
        return -1;
    listener = listener_add(server, fd);
    listener->tls = http_tls_ref(tls);
    if (getsockname(fd, (struct sockaddr *)&bound, &len) == 0)
        format_addr(&bound, text, sizeof(text));
    else
        snprintf(text, sizeof(text), "%s", addr);
    listener->addr = mem_strdup(text);
    return 0;
}

/* Whether the file is a socket that nobody serves any more. */
static int remove_stale(const struct sockaddr_un *addr, struct err *err)
{
    CLEANUP(fd_close) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct stat st;

    if (lstat(addr->sun_path, &st) < 0)
        return errno == ENOENT ? 0 : err_errno(err, errno, "'%s'", addr->sun_path);
    if (!S_ISSOCK(st.st_mode))
        return err_set(err, ERR_EXISTS, "'%s' is there and no socket", addr->sun_path);
    if (fd < 0)
        return err_errno(err, errno, "socket");
    if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0 || errno != ECONNREFUSED)
        return err_set(err, ERR_EXISTS, "'%s' is in use", addr->sun_path);
    if (unlink(addr->sun_path) < 0 && errno != ENOENT)
        return err_errno(err, errno, "remove '%s'", addr->sun_path);
    return 0;
}

int http_listen_unix(struct http_server *server, const char *path, mode_t mode, struct err *err)
{
    CLEANUP(fd_close) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un addr = {.sun_family = AF_UNIX};

    if (fd < 0)
        return err_errno(err, errno, "socket");
    if (strlen(path) >= sizeof(addr.sun_path))
        return err_set(err, ERR_INVALID, "'%s' is too long for a socket", path);
    memcpy(addr.sun_path, path, strlen(path) + 1);
    if (remove_stale(&addr, err) < 0)
        return -1;
    fchmod(fd, 0600); /* the mode of the file that bind makes: nobody else until chmod */
    if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        return err_errno(err, errno, "listen on '%s'", addr.sun_path);
    if (chmod(addr.sun_path, mode) < 0 || listen(fd, BACKLOG) < 0) {
        err_errno(err, errno, "listen on '%s'", addr.sun_path);
        unlink(addr.sun_path);
        return -1;
    }
    listener_add(server, take_fd(&fd))->path = mem_strdup(path);
    return 0;
}

unsigned http_server_conns(const struct http_server *server)
{
    return server->conn_count;
}

/* Requests on connections through the old one go on. */
int http_listen_again(struct http_server *server, const char *path, mode_t mode, struct err *err)
{
    struct listener *lost = NULL;
    struct stat st;

    for (struct listener *it = server->listeners; it && !server->stopping; it = it->next)
        if (it->path && streq(it->path, path))
            lost = it;
    if (!lost || lstat(path, &st) == 0 || errno != ENOENT)
        return 0;
    if (http_listen_unix(server, path, mode, err) < 0)
        return -1;
    free(TAKE_PTR(lost->path)); /* the file is the new one's */
    listener_close(lost);
    return 1;
}

const char *http_server_addr(const struct http_server *server, size_t n)
{
    for (const struct listener *it = server->listeners; it; it = it->next)
        if (it->addr && n-- == 0)
            return it->addr;
    return NULL;
}

static void stop_late(void *arg)
{
    struct http_server *server = arg;

    server->stop_late = true;
    for (struct connection *conn = server->conns; conn; conn = conn->next)
        connection_fail(conn, "the server stops");
    if (!server->conns)
        http_settle(server);
}

void http_server_stop(struct http_server *server, int timeout_ms, void (*done)(void *arg), void *arg)
{
    if (server->stopping)
        return;
    server->stopping = true;
    server->stop_done = done;
    server->stop_arg = arg;
    for (struct listener *it = server->listeners; it; it = it->next)
        listener_close(it);
    for (struct connection *conn = server->conns; conn; conn = conn->next)
        connection_dirty(conn);
    server->stop_timer = loop_timer_new(server->loop, stop_late, server);
    /* Without connections there is nothing to wait for, but `done` never comes from in here. */
    loop_timer_set(server->stop_timer, server->conns ? timeout_ms * NSEC_PER_MSEC : 0);
}
