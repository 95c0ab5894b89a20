/* postStart and preStop: a command, an HTTP GET or a sleep. A container has at most one under way. */
#include "base/clock.h"
#include "engine/local/ask.h"
#include "engine/local/internal.h"

#define HOOK_ARGS_MAX 256

struct hook {
    struct local_run *run;
    struct runtime_stream *exec;
    struct ask *ask;
    struct loop_timer *timer;
    char *why; /* NULL: it went well */
    hook_fn fn;
};

void hook_free(struct hook *hook)
{
    if (!hook)
        return;
    runtime_stream_free(hook->exec);
    ask_cancel(hook->ask);
    loop_timer_free(hook->timer);
    free(hook->why);
    free(hook);
}

/* Always from the timer: a stream must not be freed by its own callback. */
static void hooks_on_timer(void *arg)
{
    struct hook *hook = arg;
    struct local_run *run = hook->run;
    CLEANUP(free) char *why = TAKE_PTR(hook->why);
    hook_fn fn = hook->fn;

    run->hook = NULL;
    hook_free(hook);
    fn(run, why);
}

static void over(struct hook *hook, const char *why)
{
    hook->why = why ? mem_strdup(why) : NULL;
    loop_timer_set(hook->timer, 0);
}

static void exec_ended(void *arg, struct runtime_stream *s, const struct runtime_exit *how)
{
    char why[64];

    (void)s;
    snprintf(why, sizeof(why), "command ended with exit code %d", how ? how->code : -1);
    over(arg, how && how->code == 0 ? NULL : why);
}

static void exec_failed(void *arg, struct runtime_stream *s, const char *sentence)
{
    (void)s;
    over(arg, sentence);
}

static void answered(void *arg, const char *why)
{
    struct hook *hook = arg;

    hook->ask = NULL;
    over(hook, why);
}

static int begin(struct hook *hook, const struct json *handler, struct err *err)
{
    static const struct runtime_stream_events events = {.ended = exec_ended, .failed = exec_failed};
    const struct json *command = json_at(handler, "exec.command"), *get = json_get(handler, "httpGet");
    struct local_run *run = hook->run;
    struct ask_what what = {.http = get, .host = json_get_string(get, "host")};
    const char *argv[HOOK_ARGS_MAX];
    struct runtime_exec exec = {.args = argv};
    size_t n = 0;

    if (get) {
        what.port = ask_port(run->pod->facts.ctrs[run->at].spec, json_get(get, "port"));
        if (!what.port)
            return err_set(err, ERR_NOT_FOUND, "no such port");
        hook->ask = ask_new(run->pod, &what, answered, hook);
        return 0;
    }
    if (json_len(command) >= HOOK_ARGS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d arguments", HOOK_ARGS_MAX - 1);
    JSON_EACH(command, it)
        argv[n++] = json_string_or(it, "");
    argv[n] = NULL;
    return n ? runtime_exec(run->container, &exec, &events, hook, &hook->exec, err) : 0;
}

bool hook_start(struct local_run *run, const struct json *handler, int64_t limit_sec, hook_fn fn)
{
    int64_t sleep_sec = json_int(json_at(handler, "sleep.seconds"), 0);
    bool sleeps = json_get(handler, "sleep") != NULL;
    struct hook *hook;
    struct err err = {0};

    hook_free(TAKE_PTR(run->hook));
    if (!handler || (!sleeps && !json_get(handler, "exec") && !json_get(handler, "httpGet")))
        return false;
    hook = NEW(struct hook);
    hook->run = run;
    hook->fn = fn;
    hook->timer = loop_timer_new(run->pod->engine->loop, hooks_on_timer, hook);
    run->hook = hook;
    if (sleeps && (limit_sec < 0 || sleep_sec < limit_sec))
        limit_sec = sleep_sec;
    if (limit_sec >= 0)
        loop_timer_set(hook->timer, limit_sec * NSEC_PER_SEC);
    if (!sleeps && begin(hook, handler, &err) < 0)
        over(hook, err.msg);
    return true;
}
