/* GET /metrics: what Prometheus reads. Nothing here touches the disk, and the answer does not wait for it: it
 * is wanted most when that is in trouble. What families there are stands in docs/monitoring.md, which
 * tests/e2e/test_metrics.py holds against the answer. */
#include "base/metrics.h"

#include "api/kube/kube.h"
#include "api/rest/rest.h"
#include "base/clock.h"
#include "queue/queue.h"

#define CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

static void gauge(struct metrics *metrics, const char *name, const char *help, double value)
{
    metrics_family(metrics, name, METRIC_GAUGE, help);
    metrics_gauge(metrics, NULL, value);
}

static void counter(struct metrics *metrics, const char *name, const char *help, uint64_t value)
{
    metrics_family(metrics, name, METRIC_COUNTER, help);
    metrics_count(metrics, NULL, value);
}

static void put_store(const struct store *store, struct metrics *metrics)
{
    struct store_stats stats;

    store_stats(store, &stats);
    counter(metrics, "berth_store_commits_total", "Transactions that were written to the disk.",
            stats.commits);
    counter(metrics, "berth_store_failed_commits_total",
            "Transactions that the disk refused; their requests got an error.", stats.failed_commits);
    counter(metrics, "berth_store_rows_total", "Rows that were written.", stats.rows);
    metrics_family(metrics, "berth_store_commit_seconds", METRIC_HISTOGRAM,
                   "How long a transaction takes, with the wait for the disk.");
    metrics_histogram(metrics, NULL, &stats.commit, &histogram_latency);
    gauge(metrics, "berth_store_waiting_seconds",
          "How long nothing has become durable although something waits to; 0: nothing does.",
          (double)stats.waiting_ns / NSEC_PER_SEC);
    gauge(metrics, "berth_store_revision", "The newest resourceVersion.", (double)store_revision(store));
    gauge(metrics, "berth_store_memory_bytes", "Text of objects and of past changes, in memory.",
          (double)stats.memory_bytes);
    gauge(metrics, "berth_store_window_changes", "Past changes that a watch can resume from.",
          (double)stats.window_changes);
    gauge(metrics, "berth_store_watches", "Watches of the store, Berth's own included.",
          (double)stats.watches);
    metrics_family(metrics, "berth_store_objects", METRIC_GAUGE, "Live objects, by kind.");
    for (size_t i = 0; i < kind_count; i++)
        if (kinds[i].stored)
            metrics_gauge(metrics, METRIC_LABELS({"kind", kinds[i].plural}),
                          (double)store_count(store, kinds[i].id, NULL));
}

void rest_metrics(struct call *call, const char *id)
{
    struct buf body = {0};
    struct metrics metrics = {.out = &body};
    const struct api *api = call->api;

    (void)id;
    metrics_family(&metrics, "berth_build_info", METRIC_GAUGE, "1, with the version as a label.");
    metrics_gauge(&metrics, METRIC_LABELS({"version", BERTH_VERSION}), 1);
    if (api->config.queue)
        queue_metrics(api->config.queue, &metrics, api->config.metrics_users);
    metrics_family(&metrics, "berth_loop_turn_seconds", METRIC_HISTOGRAM,
                   "How long a turn of the event loop takes: everybody else waits meanwhile.");
    metrics_histogram(&metrics, NULL, loop_turns(api->config.loop), &histogram_latency);
    put_store(call->store, &metrics);
    traffic_metrics(api->traffic, &metrics);
    gauge(&metrics, "berth_http_open_requests", "Requests under way, streams included.",
          (double)api->live_count);
    metrics_family(&metrics, "berth_http_streams", METRIC_GAUGE, "Open watches of objects and of the queue.");
    metrics_gauge(&metrics, METRIC_LABELS({"of", "objects"}), (double)kube_watches(api));
    metrics_gauge(&metrics, METRIC_LABELS({"of", "queue"}), (double)rest_streams(api));
    if (api->config.hooks.metrics)
        api->config.hooks.metrics(api->config.hooks.arg, &metrics);
    call->at_once = call->no_store = true;
    call_reply(call, 200, CONTENT_TYPE, &body);
}
