/* GET /v1/queue/ID/logs: what a job has written. A training job's earlier runs are in its log file, the
 * current one in its pod's log; both come one after the other, as one text. With tail= the pod's lines are
 * counted first, so that the file gives only those that are missing.
 *
 * follow= goes on until the job is over: over the time it waits and over the runs it has. A run that was
 * followed is added to the file when its pod goes; so many bytes of the file are then passed over. */
#include "api/kube/stream.h"
#include "api/rest/rest.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "queue/queue.h"
#include "upkeep/upkeep.h"

#include <fcntl.h>

#define CHUNK     (64 << 10)
#define HIGH      (512 << 10)           /* unread bytes from which nothing more is given */
#define TAIL_SCAN (4 << 20)             /* bytes of the file's end in which lines are looked for */
#define LOOK_NS   (200 * NSEC_PER_MSEC) /* between looks at a job that does not run */

enum logs_phase { COUNT, FILE_PART, POD_PART, WAIT };

struct logs {
    struct call *call;
    const struct pod_ops *ops;
    struct pod_ref pod; /* uid NULL: none */
    struct pod_log_options options;
    struct pod_log *log;
    enum logs_phase phase;
    int fd; /* of the file; -1: none */
    int64_t tail, counted;
    bool paused;
    const char *uid;             /* of the job */
    char followed[64];           /* uid of the pod that was followed last */
    int64_t live;                /* bytes that came from pods and are not in the file yet */
    struct loop_timer *timer;    /* NULL: it does not follow */
    struct unpacking *unpacking; /* NULL: the file is open, or there is none */
};

/* Outlives the request where the client leaves before the log is unpacked. */
struct unpacking {
    struct logs *logs; /* NULL: the client has left */
};

static void send_file(struct logs *l);

static void done(struct logs *l)
{
    if (l->log)
        l->ops->log_free(l->log);
    l->log = NULL;
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
    loop_timer_free(l->timer);
    l->timer = NULL;
    if (l->unpacking)
        l->unpacking->logs = NULL;
    l->unpacking = NULL;
}

static void queue_logs_on_gone(struct http_req *req)
{
    done(req->user);
    http_abandon(req);
}

static void queue_logs_on_drain(struct http_req *req)
{
    struct logs *l = req->user;

    l->paused = false;
    if (l->phase == FILE_PART)
        send_file(l);
    else if (l->phase == WAIT)
        loop_timer_set(l->timer, 0);
    else if (l->log)
        l->ops->log_pause(l->log, false);
}

static void queue_logs_on_data(void *arg, struct str data)
{
    struct logs *l = arg;

    if (l->phase == COUNT) {
        for (size_t i = 0; i < data.len; i++)
            l->counted += data.s[i] == '\n';
        return;
    }
    l->live += (int64_t)data.len;
    http_stream_write(l->call->req, data);
    if (!l->paused && http_stream_unsent(l->call->req) > HIGH) {
        l->paused = true;
        l->ops->log_pause(l->log, true);
        http_stream_on_drain(l->call->req, queue_logs_on_drain);
    }
}

/* Where the last `lines` lines of the file begin. */
static off_t tail_start(int fd, int64_t lines)
{
    off_t end = lseek(fd, 0, SEEK_END), at = end, floor = end > TAIL_SCAN ? end - TAIL_SCAN : 0;
    char piece[CHUNK];

    if (lines <= 0)
        return end;
    while (at > floor) {
        size_t want = at - floor < (off_t)sizeof(piece) ? (size_t)(at - floor) : sizeof(piece);

        if (pread(fd, piece, want, at - (off_t)want) != (ssize_t)want)
            return at;
        for (size_t i = want; i > 0; i--)
            if (piece[i - 1] == '\n' && at - (off_t)want + (off_t)i != end && --lines == 0)
                return at - (off_t)want + (off_t)i;
        at -= (off_t)want;
    }
    return at;
}

static void begin_file(struct logs *l)
{
    if (l->fd >= 0)
        lseek(l->fd, l->tail < 0 ? 0 : tail_start(l->fd, l->tail - l->counted), SEEK_SET);
    l->phase = FILE_PART;
    http_stream_begin(l->call->req, 200, "text/plain; charset=utf-8",
                      &(struct http_header){"Cache-Control", "no-store"}, 1);
    send_file(l);
}

static void queue_logs_on_end(void *arg, const struct err *err)
{
    struct logs *l = arg;

    l->ops->log_free(l->log);
    l->log = NULL;
    if (l->phase == COUNT) {
        begin_file(l);
        return;
    }
    if (!err && l->timer) {
        l->phase = WAIT;
        loop_timer_set(l->timer, 0);
        return;
    }
    done(l);
    if (err)
        http_abandon(l->call->req);
    else
        http_stream_end(l->call->req);
}

static int open_pod(struct logs *l, bool follow)
{
    static const struct pod_log_events events = {queue_logs_on_data, queue_logs_on_end};
    struct pod_log_options options = l->options;
    struct err err = {0};

    options.follow = follow;
    return l->ops && l->pod.uid ? l->ops->log(l->ops->arg, &l->pod, &options, &events, l, &l->log, &err) : -1;
}

/* The file, a piece at a time, then the pod. A pod that has written nothing yet is no error here. */
static void send_file(struct logs *l)
{
    char piece[CHUNK];
    ssize_t n = 0;

    while (l->fd >= 0 && http_stream_unsent(l->call->req) <= HIGH && (n = read(l->fd, piece, CHUNK)) > 0)
        http_stream_write(l->call->req, (struct str){piece, (size_t)n});
    if (l->fd >= 0 && n > 0) {
        http_stream_on_drain(l->call->req, queue_logs_on_drain);
        return;
    }
    l->phase = POD_PART;
    if (open_pod(l, l->options.follow) == 0) {
        snprintf(l->followed, sizeof(l->followed), "%s", l->pod.uid);
    } else if (l->timer) {
        l->phase = WAIT;
        loop_timer_set(l->timer, LOOK_NS);
    } else {
        done(l);
        http_stream_end(l->call->req);
    }
}

struct newest {
    const struct object *pod;
    const char *name; /* only this one; "": any */
    const char *created;
    struct arena *arena;
};

static void look_at_pod(void *arg, const struct object *object)
{
    struct newest *newest = arg;
    const char *created;

    if (object->kind->id != KIND_POD || (*newest->name && !streq(newest->name, object->name)))
        return;
    created = json_string_or(json_at(object_json(object, newest->arena), "metadata.creationTimestamp"), "");
    if (!newest->pod || strcmp(created, newest->created) >= 0) {
        newest->pod = object;
        newest->created = created;
    }
}

static const struct object *find_pod(struct call *call, const char *uid, struct arena *arena)
{
    const struct object *object = store_by_uid(call->store, uid);
    struct newest newest = {.name = query_string(call, "pod"), .arena = arena};

    if (object && object->kind->id == KIND_POD)
        return object;
    if (object)
        store_parts(call->store, object, look_at_pod, &newest);
    return newest.pod;
}

/* What the file has more; the part that came from pods already is passed over. False: there is more than the
 * client takes now. */
static bool send_more_of_file(struct logs *l)
{
    const char *path;
    char piece[CHUNK];
    ssize_t n = 0;

    if (l->fd < 0) {
        path = queue_log_path(l->call->api->config.queue, l->uid, l->call->arena);
        if (path)
            l->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    }
    while (l->fd >= 0 && http_stream_unsent(l->call->req) <= HIGH && (n = read(l->fd, piece, CHUNK)) > 0) {
        ssize_t known = l->live < n ? (ssize_t)l->live : n;

        l->live -= known;
        http_stream_write(l->call->req, (struct str){piece + known, (size_t)(n - known)});
    }
    return l->fd < 0 || (n <= 0 && http_stream_unsent(l->call->req) <= HIGH);
}

static bool is_over(struct logs *l, struct arena *arena)
{
    static const char *const states[] = {"Succeeded", "Failed", "Cancelled"};
    struct json *row = NULL;

    if (queue_job(l->call->api->config.queue, NULL, l->uid, NULL, arena, &row, NULL) < 0)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        if (streq(json_get_string(row, "state"), states[i]))
            return true;
    return false;
}

static void queue_logs_on_look(void *arg)
{
    struct logs *l = arg;
    CLEANUP(arena_done) struct arena arena = {0};
    bool over = is_over(l, &arena);
    const struct object *pod = find_pod(l->call, l->uid, &arena);

    if (!send_more_of_file(l)) { /* the rest first, as it is taken */
        http_stream_on_drain(l->call->req, queue_logs_on_drain);
        return;
    }
    if (pod && !streq(pod->uid, l->followed) &&
        *json_string_or(json_at(object_json(pod, &arena), "spec.nodeName"), "")) {
        l->pod = stream_pod_ref(pod, l->call->arena);
        if (!*l->options.container)
            l->options.container =
                arena_strdup(l->call->arena,
                             json_string_or(json_at(object_json(pod, &arena), "spec.containers.0.name"), ""));
        l->options.tail = -1;
        if (open_pod(l, true) == 0) {
            l->phase = POD_PART;
            snprintf(l->followed, sizeof(l->followed), "%s", l->pod.uid);
            return;
        }
    }
    if (!over) {
        loop_timer_set(l->timer, LOOK_NS);
        return;
    }
    done(l);
    http_stream_end(l->call->req);
}

static void read_options(struct logs *l, const struct object *pod)
{
    struct call *call = l->call;
    const char *container = query_string(call, "container");
    struct json *doc = pod ? object_json(pod, call->arena) : NULL;

    if (!*container)
        container = json_string_or(json_at(doc, "spec.containers.0.name"), "");
    l->options = (struct pod_log_options){
        .container = container,
        .previous = query_bool(call, "previous"),
        .follow = query_bool(call, "follow") && !query_bool(call, "previous"),
        .timestamps = query_bool(call, "timestamps"),
        .since = INT64_MIN,
        .tail = l->tail,
        .limit_bytes = -1,
    };
    if (pod && l->ops && *json_string_or(json_at(doc, "spec.nodeName"), ""))
        l->pod = stream_pod_ref(pod, call->arena);
}

/* Work of which no object is left: by its record. */
static bool was_theirs(struct call *call, const char *uid, const struct json *last)
{
    struct json *row = NULL;

    return access_is_admin(&call->who) ||
           (queue_job(call->api->config.queue, &call->who, uid, last, call->arena, &row, NULL) == 0 &&
            json_bool(json_get(row, "mine")));
}

/* A pod's log as the Kubernetes API would give it; what is left of pods that have gone, to who may end the
 * job, or could have. */
static bool may_read(struct call *call, const char *uid, const struct object *pod, const struct json *last)
{
    if (!pod && !store_by_uid(call->store, uid))
        return was_theirs(call, uid, last);
    if (!queue_may(call->api->config.queue, &call->who, uid, !pod))
        return false;
    return !pod || access_allowed(call->registry, &call->who,
                                  &(struct access){.verb = "get",
                                                   .kind = pod->kind,
                                                   .subresource = "log",
                                                   .ns = pod->ns,
                                                   .name = pod->name,
                                                   .path = ""});
}

static void begin(struct logs *l)
{
    if (l->fd < 0 || l->tail < 0 || open_pod(l, false) < 0)
        begin_file(l);
}

static void fail(struct logs *l, const struct err *err)
{
    struct call *call = l->call;

    call->req->gone = NULL;
    done(l);
    rest_fail_err(call, err);
}

static void queue_logs_on_unpacked(void *arg, int fd, const struct err *err)
{
    struct unpacking *unpacking = arg;
    struct logs *l = unpacking->logs;

    free(unpacking);
    if (!l) {
        if (fd >= 0)
            close(fd);
        return;
    }
    l->unpacking = NULL;
    if (err) {
        fail(l, err);
        return;
    }
    if (l->fd >= 0)
        close(l->fd);
    l->fd = fd;
    begin(l);
}

/* Of work that is over the log is compressed: a thread makes text of it. */
static void unpack(struct logs *l)
{
    struct err err = {0};

    l->unpacking = NEW(struct unpacking);
    l->unpacking->logs = l;
    if (upkeep_open_log(l->call->api->config.upkeep, l->uid, queue_logs_on_unpacked, l->unpacking, &err) == 0)
        return;
    free(TAKE_PTR(l->unpacking));
    fail(l, &err);
}

static void logs_begin(struct call *call, const char *id, const char *uid, const struct json *last)
{
    struct logs *l = arena_zalloc(call->arena, sizeof(*l));
    const char *path, *tail = query_string(call, "tail");
    const struct object *pod = find_pod(call, uid, call->arena);

    (void)id;
    *l = (struct logs){.call = call, .ops = call->api->config.pod_ops, .fd = -1, .tail = -1};
    if (*tail)
        str_to_int(str_from(tail), &l->tail);
    if (!may_read(call, uid, pod, last)) {
        failure_set(&call->failure, call->arena, 403, "Forbidden",
                    "the log is for the job's owner and for admins");
        rest_fail(call);
        return;
    }
    path = queue_log_path(call->api->config.queue, uid, call->arena);
    if (path)
        l->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    read_options(l, pod);
    l->uid = uid;
    if (l->options.follow && l->ops)
        l->timer = loop_timer_new(call->api->config.loop, queue_logs_on_look, l);
    call->req->user = l;
    call->req->gone = queue_logs_on_gone;
    if (upkeep_log_packed(call->api->config.upkeep, uid))
        unpack(l);
    else
        begin(l);
}

void rest_queue_logs(struct call *call, const char *id)
{
    const char *tail = query_string(call, "tail");
    int64_t lines = 0;

    if (*tail && (!str_to_int(str_from(tail), &lines) || lines < 0)) {
        failure_set(&call->failure, call->arena, 422, "Invalid", "tail: must be a number of lines, not '%s'",
                    tail);
        rest_fail(call);
        return;
    }
    rest_queue_with(call, id, logs_begin);
}
