#include "api/traffic.h"

#include "base/mem.h"
#include "registry/access_table.h"

#include <stdio.h>

#define CODES_MAX 16 /* statuses of one route that are told apart; the last one: all others */

static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE", "other"};
#define METHODS ARRAY_LEN(methods)

/* What is asked of a kind. */
enum place { PLACE_ALL, PLACE_WATCH, PLACE_ONE, PLACE_BELOW, PLACES };
static const char *const place_tails[] = {
    [PLACE_ALL] = "", [PLACE_WATCH] = "?watch", [PLACE_ONE] = "/*", [PLACE_BELOW] = "/*/*"};

/* Beside the rows and the kinds. */
enum rest { REST_UNKNOWN, REST_REFUSED, RESTS };

struct cell {
    struct {
        int code; /* 0: none yet */
        uint64_t count;
    } codes[CODES_MAX];
    struct histogram took;
};

struct traffic {
    size_t len;
    struct cell **cells; /* [REST][METHOD], then a row each, then [KIND][PLACE][METHOD]; NULL: never used */
};

static size_t first_kind(void)
{
    return RESTS * METHODS + access_path_count;
}

struct traffic *traffic_new(void)
{
    struct traffic *traffic = NEW(struct traffic);

    traffic->len = first_kind() + kind_count * PLACES * METHODS;
    traffic->cells = mem_zalloc(traffic->len * sizeof(struct cell *));
    return traffic;
}

void traffic_free(struct traffic *traffic)
{
    if (!traffic)
        return;
    for (size_t i = 0; i < traffic->len; i++)
        free(traffic->cells[i]);
    free(traffic->cells);
    free(traffic);
}

static size_t method_at(const char *method)
{
    size_t at = 0;

    if (streq(method, "HEAD"))
        return 0;
    while (at + 1 < METHODS && !streq(methods[at], method))
        at++;
    return at;
}

static size_t cell_at(const struct traffic_route *route, const char *method)
{
    enum place place = route->watch ? PLACE_WATCH
                       : route->sub ? PLACE_BELOW
                       : route->one ? PLACE_ONE
                                    : PLACE_ALL;

    if (route->kind)
        return first_kind() + ((size_t)(route->kind - kinds) * PLACES + place) * METHODS + method_at(method);
    if (route->row)
        return RESTS * METHODS + (size_t)(route->row - access_paths);
    return REST_UNKNOWN * METHODS + method_at(method);
}

static struct cell *count(struct traffic *traffic, size_t at, int status)
{
    struct cell *cell = traffic->cells[at];
    size_t code = 0;

    if (!cell)
        cell = traffic->cells[at] = NEW(struct cell);
    while (code + 1 < CODES_MAX && cell->codes[code].code && cell->codes[code].code != status)
        code++;
    cell->codes[code].code = status;
    cell->codes[code].count++;
    return cell;
}

void traffic_answered(struct traffic *traffic, const struct traffic_route *route, const char *method,
                      int status, int64_t took_ns)
{
    struct cell *cell = count(traffic, cell_at(route, method), status);

    histogram_add(&cell->took, &histogram_latency, took_ns);
}

void traffic_refused(struct traffic *traffic, int status)
{
    (void)count(traffic, REST_REFUSED * METHODS + METHODS - 1, status);
}

/* ---- telling ---- */

struct labels_of {
    char route[192];
    const char *method;
};

static void name_cell(size_t at, struct labels_of *ret)
{
    if (at < RESTS * METHODS) {
        snprintf(ret->route, sizeof(ret->route), "%s", at / METHODS == REST_REFUSED ? "refused" : "unknown");
        ret->method = methods[at % METHODS];
    } else if (at < first_kind()) {
        const struct access_path *row = &access_paths[at - RESTS * METHODS];

        snprintf(ret->route, sizeof(ret->route), "%s", row->path);
        ret->method = row->method;
    } else {
        size_t i = at - first_kind();
        const struct kind *kind = &kinds[i / METHODS / PLACES];

        snprintf(ret->route, sizeof(ret->route), "%s/%s/%s%s", *kind->group ? "/apis" : "/api",
                 kind->api_version, kind->plural, place_tails[i / METHODS % PLACES]);
        ret->method = methods[i % METHODS];
    }
}

static void put_codes(const struct cell *cell, const struct labels_of *of, struct metrics *metrics)
{
    for (size_t i = 0; i < CODES_MAX && cell->codes[i].code; i++) {
        char code[16];

        if (i + 1 < CODES_MAX)
            snprintf(code, sizeof(code), "%d", cell->codes[i].code);
        else
            snprintf(code, sizeof(code), "other");
        metrics_count(metrics, METRIC_LABELS({"route", of->route}, {"method", of->method}, {"code", code}),
                      cell->codes[i].count);
    }
}

void traffic_metrics(const struct traffic *traffic, struct metrics *metrics)
{
    struct labels_of of;

    metrics_family(metrics, "berth_http_requests_total", METRIC_COUNTER,
                   "Requests that were answered, by route (a pattern, not a path), method and status.");
    for (size_t i = 0; i < traffic->len; i++)
        if (traffic->cells[i]) {
            name_cell(i, &of);
            put_codes(traffic->cells[i], &of, metrics);
        }
    metrics_family(
        metrics, "berth_http_request_duration_seconds", METRIC_HISTOGRAM,
        "From a complete request until its answer begins: for watches and logs, their first byte.");
    for (size_t i = 0; i < traffic->len; i++)
        if (traffic->cells[i] && traffic->cells[i]->took.count) {
            name_cell(i, &of);
            metrics_histogram(metrics, METRIC_LABELS({"route", of.route}, {"method", of.method}),
                              &traffic->cells[i]->took, &histogram_latency);
        }
}
