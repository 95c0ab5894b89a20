/* What one caller holds of the server, so that nobody takes all of it: connections, and bytes of bodies that
 * wait. A connection counts for its peer (the uid, or the address); a large body for whoever the request
 * names (http_config.admit).
 *
 * A connection is idle while it has no request under way. Each share keeps its idle ones in the order in
 * which they became so: they make room, the oldest first, where a new one would be one too many. */
#include "base/mem.h"
#include "net/http_priv.h"

struct share *http_share_get(struct http_server *server, const char *name, bool reserve)
{
    struct share *share = map_get(server->shares, str_from(name));

    if (!share) {
        share = NEW(struct share);
        share->name = mem_strdup(name);
        map_set(server->shares, str_from(name), share);
    }
    share->reserve = share->reserve || reserve;
    share->refs++;
    return share;
}

void http_share_put(struct http_server *server, struct share *share)
{
    if (!share || --share->refs > 0)
        return;
    map_remove(server->shares, str_from(share->name));
    free(share->name);
    free(share);
}

void http_share_join(struct connection *conn, const char *name, bool reserve)
{
    conn->share = http_share_get(conn->server, name, reserve);
    conn->share->conns++;
}

void http_share_leave(struct connection *conn)
{
    if (!conn->share)
        return;
    http_share_busy(conn);
    conn->share->conns--;
    http_share_put(conn->server, TAKE_PTR(conn->share));
}

void http_share_busy(struct connection *conn)
{
    struct share *share = conn->share;

    if (!conn->idle)
        return;
    conn->idle = false;
    if (conn->idle_prev)
        conn->idle_prev->idle_next = conn->idle_next;
    else
        share->idle_first = conn->idle_next;
    if (conn->idle_next)
        conn->idle_next->idle_prev = conn->idle_prev;
    else
        share->idle_last = conn->idle_prev;
    conn->idle_prev = conn->idle_next = NULL;
}

/* A head that comes byte by byte keeps nobody from being idle, nor does a handshake. */
static bool is_idle(const struct connection *conn)
{
    return conn->line == 0 && conn->unsent == 0 && !conn->failed &&
           (conn->input == INPUT_HEAD || conn->input == INPUT_HANDSHAKE || conn->lingering);
}

void http_share_settle(struct connection *conn)
{
    struct share *share = conn->share;

    if (!share || conn->idle == is_idle(conn))
        return;
    if (conn->idle) {
        http_share_busy(conn);
        return;
    }
    conn->idle = true;
    conn->idle_prev = share->idle_last;
    if (share->idle_last)
        share->idle_last->idle_next = conn;
    else
        share->idle_first = conn;
    share->idle_last = conn;
}

/* False: none is idle. */
static bool evict(struct share *share)
{
    struct connection *oldest = share->idle_first;

    if (!oldest)
        return false;
    http_share_busy(oldest);
    connection_fail(oldest, "others need the connection");
    return true;
}

/* Who has the most connections among those that have idle ones. */
static struct share *largest(struct http_server *server)
{
    struct share *found = NULL;
    struct str key;
    size_t at = 0;
    void *value;

    while (map_next(server->shares, &at, &key, &value)) {
        struct share *it = value;

        if (it->idle_first && (!found || it->conns > found->conns))
            found = it;
    }
    return found;
}

const char *http_share_refusal(struct connection *conn)
{
    const struct http_config *config = &conn->server->config;
    struct share *share = conn->share, *most;

    if (!share->reserve &&
        share->conns > (conn->peer.loopback ? config->conns_loopback : config->conns_each) && !evict(share))
        return "too many connections from you: close some of them";
    if (conn->server->conn_count <= config->conns_max + (share->reserve ? HTTP_CONNS_RESERVE : 0))
        return NULL;
    most = largest(conn->server);
    return most && evict(most) ? NULL : "too many connections";
}

/* ---- bodies ---- */

const char *http_share_body(struct exchange *ex, size_t len, int *status)
{
    struct http_server *server = ex->conn->server;
    const struct share *payer = ex->payer;
    bool reserve = payer && payer->reserve;
    size_t *all = ex->large ? &server->large_bytes : &server->small_bytes;
    size_t max = !ex->large ? HTTP_SMALL_BODIES_MAX : HTTP_BODIES_MAX - (reserve ? 0 : HTTP_BODIES_RESERVE);

    *status = 429;
    if (payer && !reserve && len > HTTP_BODIES_EACH - payer->bytes)
        return "too many large requests of yours at once";
    *status = 503;
    if (len > max || *all > max - len)
        return "too many large requests at once";
    *all += len;
    if (payer)
        ex->payer->bytes += len;
    return NULL;
}

void http_share_body_gone(struct exchange *ex)
{
    struct http_server *server = ex->conn->server;

    *(ex->large ? &server->large_bytes : &server->small_bytes) -= ex->body.len;
    if (!ex->payer)
        return;
    ex->payer->bytes -= ex->body.len;
    http_share_put(server, TAKE_PTR(ex->payer));
}
