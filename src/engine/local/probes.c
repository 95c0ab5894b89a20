/* Probes of a running container: startup, readiness, liveness; by a command in it, a TCP connection, an
 * HTTP or gRPC answer. Each has a timer and at most one try under way. While the startup probe has not
 * succeeded the other two wait. Readiness decides `ready`; liveness and startup that fail end the container.
 */
#include "base/clock.h"
#include "engine/local/ask.h"
#include "engine/local/internal.h"

#define PROBE_SAID_MAX 1024 /* bytes of a command's output in an event */

enum probe_kind { PROBE_STARTUP, PROBE_READINESS, PROBE_LIVENESS, PROBES };

static const struct {
    const char *key, *name;
} probe_kinds[PROBES] = {
    {"startupProbe", "Startup"},
    {"readinessProbe", "Readiness"},
    {"livenessProbe", "Liveness"},
};

struct pod_probe {
    struct local_run *run;
    enum probe_kind kind;
    const struct json *spec; /* a copy in the probes' arena; NULL: there is none */
    struct loop_timer *timer;
    int64_t failures, successes; /* in a row */
    bool busy;
    int64_t begun; /* of the try under way, monotonic */
    struct runtime_stream *exec;
    struct buf said; /* the beginning of what the command wrote */
    struct ask *ask;
};

struct probes {
    struct arena arena;
    struct pod_probe v[PROBES];
    bool started;
};

static struct ctr *ctr_of(const struct pod_probe *probe)
{
    return &probe->run->pod->facts.ctrs[probe->run->at];
}

static int64_t setting(const struct pod_probe *probe, const char *key, int64_t fallback)
{
    int64_t n = json_int(json_get(probe->spec, key), fallback);

    return n > 0 ? n : fallback;
}

static void let_go(struct pod_probe *probe)
{
    probe->busy = false;
    runtime_stream_free(TAKE_PTR(probe->exec));
    buf_done(&probe->said);
    ask_cancel(TAKE_PTR(probe->ask));
}

static void again(struct pod_probe *probe)
{
    loop_timer_set(probe->timer, setting(probe, "periodSeconds", 10) * NSEC_PER_SEC);
}

/* initialDelaySeconds count from the start of the container. */
static int64_t first_delay(const struct pod_probe *probe)
{
    int64_t at =
        ctr_of(probe)->started + json_int(json_get(probe->spec, "initialDelaySeconds"), 0) * NSEC_PER_SEC;
    int64_t left = at - clock_now();

    return left > 0 ? left : 0;
}

/* ---- what a try means ---- */

static void succeeded(struct pod_probe *probe)
{
    struct ctr *ctr = ctr_of(probe);
    struct probes *all = probe->run->probes;

    probe->failures = 0;
    probe->successes++;
    if (probe->kind == PROBE_STARTUP) {
        all->started = true;
        ctr->begun = true;
        ctr->ready = !all->v[PROBE_READINESS].spec;
        for (int i = PROBE_READINESS; i < PROBES; i++)
            if (all->v[i].spec)
                loop_timer_set(all->v[i].timer, first_delay(&all->v[i]));
    } else if (probe->kind == PROBE_READINESS && probe->successes >= setting(probe, "successThreshold", 1)) {
        ctr->ready = true;
    }
}

static void failed(struct pod_probe *probe, const char *why)
{
    struct local_run *run = probe->run;

    probe->successes = 0;
    probe->failures++;
    pod_event(run->pod, "Warning", "Unhealthy", "%s probe failed: %s", probe_kinds[probe->kind].name, why);
    if (probe->failures < setting(probe, "failureThreshold", 3))
        return;
    if (probe->kind == PROBE_READINESS) {
        ctr_of(probe)->ready = false;
        return;
    }
    pod_event(run->pod, "Normal", "Killing", "Container %s failed %s probe, will be restarted",
              ctr_of(probe)->name, probe->kind == PROBE_LIVENESS ? "liveness" : "startup");
    run->probe_failed = true;
}

/* Ends a try: why NULL is a success. probe_stop may have to come after. */
static void conclude(struct pod_probe *probe, const char *why)
{
    struct local_run *run = probe->run;
    const struct json *pod = run->pod->doc;

    let_go(probe);
    if (why)
        failed(probe, why);
    else
        succeeded(probe);
    pod_queue(run->pod);
    if (run->probe_failed && !run->stopping)
        run_stop(run, setting(probe, "terminationGracePeriodSeconds",
                              json_int(json_at(pod, "spec.terminationGracePeriodSeconds"), LOCAL_GRACE_SEC)));
    else if (probe->kind == PROBE_STARTUP && !why)
        loop_timer_stop(probe->timer); /* of its time-out: it has done its work */
    else
        again(probe);
}

/* ---- a command ---- */

static void exec_output(void *arg, struct runtime_stream *s, int fd, const char *data, size_t len)
{
    struct pod_probe *probe = arg;
    size_t room = PROBE_SAID_MAX - probe->said.len;

    (void)s;
    (void)fd;
    buf_add(&probe->said, data, len < room ? len : room);
}

/* What the command wrote says most; where it wrote nothing, its exit code. */
static void exec_ended(void *arg, struct runtime_stream *s, const struct runtime_exit *how)
{
    struct pod_probe *probe = arg;
    CLEANUP(free) char *why = NULL;

    (void)s;
    if (probe->said.len)
        why = mem_strndup(probe->said.data, utf8_valid_len(buf_view(&probe->said)));
    if (!why || !*why) {
        free(why);
        why = mem_printf("command ended with exit code %d", how ? how->code : -1);
    }
    conclude(probe, how && how->code == 0 ? NULL : why);
}

static void exec_failed(void *arg, struct runtime_stream *s, const char *sentence)
{
    CLEANUP(free) char *why = mem_strdup(sentence);

    (void)s;
    conclude(arg, why);
}

static void try_exec(struct pod_probe *probe, const struct json *command)
{
    static const struct runtime_stream_events events = {
        .output = exec_output, .ended = exec_ended, .failed = exec_failed};
    const char **argv = mem_zalloc((json_len(command) + 1) * sizeof(*argv));
    struct runtime_exec exec = {.args = argv};
    struct err err = {0};
    size_t n = 0;

    JSON_EACH(command, it)
        argv[n++] = json_string_or(it, "");
    if (n == 0 || runtime_exec(probe->run->container, &exec, &events, probe, &probe->exec, &err) < 0)
        conclude(probe, n ? err.msg : "no command");
    free(argv);
}

/* ---- a connection ---- */

static void answered(void *arg, const char *why)
{
    struct pod_probe *probe = arg;

    probe->ask = NULL;
    conclude(probe, why);
}

/* ---- time ---- */

static void begin(struct pod_probe *probe)
{
    struct local_run *run = probe->run;
    const struct json *command = json_at(probe->spec, "exec.command");
    const struct json *get = json_get(probe->spec, "httpGet"), *tcp = json_get(probe->spec, "tcpSocket");
    const struct json *grpc = json_get(probe->spec, "grpc");
    struct ask_what what = {.http = get,
                            .host = json_get_string(get ? get : tcp, "host"),
                            .grpc = grpc ? json_string_or(json_get(grpc, "service"), "") : NULL,
                            .port = ask_port(ctr_of(probe)->spec, json_get(get   ? get
                                                                           : tcp ? tcp
                                                                                 : grpc,
                                                                           "port"))};

    probe->busy = true;
    probe->begun = clock_monotonic();
    loop_timer_set(probe->timer, setting(probe, "timeoutSeconds", 1) * NSEC_PER_SEC);
    if (command)
        try_exec(probe, command);
    else if (what.port)
        probe->ask = ask_new(run->pod, &what, answered, probe);
    else
        conclude(probe, get || tcp || grpc ? "no such port" : NULL);
}

static void probes_on_timer(void *arg)
{
    struct pod_probe *probe = arg;

    if (probe->busy) {
        bool command = probe->exec != NULL;
        char why[64];

        if (command)
            runtime_stream_signal(probe->exec, 9);
        snprintf(why, sizeof(why), "%s timed out after %llds", command ? "command" : "the answer",
                 (long long)setting(probe, "timeoutSeconds", 1));
        conclude(probe, why);
    } else if (ctr_of(probe)->state == CTR_RUNNING && probe->run->container && !probe->run->stopping) {
        begin(probe);
    }
}

void probes_start(struct local_run *run, bool known)
{
    struct ctr *ctr = &run->pod->facts.ctrs[run->at];
    struct probes *probes;
    bool any = false, begun = known && ctr->begun, ready = known && ctr->ready;

    probes_stop(run);
    for (int i = 0; i < PROBES; i++)
        any = any || json_get(ctr->spec, probe_kinds[i].key);
    ctr->begun = begun || !json_get(ctr->spec, probe_kinds[PROBE_STARTUP].key);
    ctr->ready = ready || (ctr->begun && !json_get(ctr->spec, probe_kinds[PROBE_READINESS].key));
    run->probe_failed = false;
    if (!any)
        return;
    probes = NEW(struct probes);
    run->probes = probes;
    probes->started = ctr->begun;
    for (int i = 0; i < PROBES; i++) {
        struct pod_probe *probe = &probes->v[i];
        const struct json *spec = json_get(ctr->spec, probe_kinds[i].key);

        *probe = (struct pod_probe){.run = run, .kind = (enum probe_kind)i};
        if (!spec)
            continue;
        probe->spec = json_copy(&probes->arena, spec);
        probe->timer = loop_timer_new(run->pod->engine->loop, probes_on_timer, probe);
        if ((i == PROBE_STARTUP) != probes->started)
            loop_timer_set(probe->timer, first_delay(probe));
    }
}

void probes_stop(struct local_run *run)
{
    struct probes *probes = TAKE_PTR(run->probes);

    if (!probes)
        return;
    for (int i = 0; i < PROBES; i++) {
        let_go(&probes->v[i]);
        loop_timer_free(probes->v[i].timer);
    }
    arena_done(&probes->arena);
    free(probes);
}
