/* What containers and the node use. The kernel counts processor time since the start; a rate needs two
 * moments. Every USAGE_EVERY_SEC one is noted for each running container, so that `kubectl top` gets the rate
 * over the last ten to twenty seconds at once, and for a container younger than that the one since its start.
 */
#include "base/clock.h"
#include "base/file.h"
#include "engine/local/internal.h"

#define USAGE_EVERY_SEC 10
#define WINDOW_MIN_NSEC (5 * NSEC_PER_SEC) /* a shorter window is one before's too */
#define AGE_MIN_NSEC    (100 * NSEC_PER_MSEC)
#define PIDS_PART       4 /* of what the machine can have */
#define PIDS_MIN        1024
#define PIDS_MOST       65536
#define PROC_FILE_MAX   (1 << 20)

static void note(struct usage_point used[USAGE_POINTS], uint64_t cpu_ns, int restarts)
{
    used[1] = used[0];
    used[0] = (struct usage_point){clock_monotonic(), cpu_ns, restarts};
}

/* Fills in rate and window: from the newest point that is old enough, or from the start (wall clock; 0: not
 * known), to now. */
static void rate(const struct usage_point used[USAGE_POINTS], int restarts, uint64_t cpu_ns, int64_t started,
                 struct pod_usage *ret)
{
    int64_t now = clock_monotonic(), window = 0;
    uint64_t before = 0;

    ret->end = clock_now();
    for (size_t i = 0; i < USAGE_POINTS && window < WINDOW_MIN_NSEC; i++)
        if (used[i].at && used[i].restarts == restarts && used[i].cpu_ns <= cpu_ns) {
            window = now - used[i].at;
            before = used[i].cpu_ns;
        }
    if (window < WINDOW_MIN_NSEC && started) {
        window = ret->end - started;
        before = 0;
    }
    if (window < AGE_MIN_NSEC)
        window = AGE_MIN_NSEC;
    ret->window_ns = window;
    ret->cpu_nanos = (uint64_t)((double)(cpu_ns - before) * (double)NSEC_PER_SEC / (double)window);
}

/* ---- the node, from /proc ---- */

static uint64_t node_cpu(void)
{
    static const unsigned idle = 3, iowait = 4, counted = 8; /* then guests, which user has already */
    CLEANUP(buf_done) struct buf text = {0};
    struct str rest, line, word;
    uint64_t ticks = 0, n;

    if (file_read("/proc/stat", PROC_FILE_MAX, &text, NULL) < 0)
        return 0;
    rest = buf_view(&text);
    if (!str_split(&rest, '\n', &line) || !str_split(&line, ' ', &word))
        return 0;
    for (unsigned i = 0; i < counted && str_split(&line, ' ', &word);) {
        if (!word.len)
            continue;
        if (i != idle && i != iowait && str_to_uint(word, &n))
            ticks += n;
        i++;
    }
    return ticks * (uint64_t)(NSEC_PER_SEC / sysconf(_SC_CLK_TCK));
}

static uint64_t meminfo(const struct buf *text, const char *key)
{
    struct str rest = buf_view(text), line;
    uint64_t n = 0;

    while (str_split(&rest, '\n', &line))
        if (str_starts(line, key)) {
            for (size_t i = strlen(key); i < line.len && line.s[i] != 'k'; i++)
                if (line.s[i] >= '0' && line.s[i] <= '9')
                    n = n * 10 + (uint64_t)(line.s[i] - '0');
            return n << 10;
        }
    return 0;
}

bool usage_of_node(void *arg, const char *node, struct pod_usage *ret)
{
    struct local_engine *engine = arg;
    CLEANUP(buf_done) struct buf text = {0};
    uint64_t total, free;

    if (!streq(node, engine->node_name) || file_read("/proc/meminfo", PROC_FILE_MAX, &text, NULL) < 0)
        return false;
    total = meminfo(&text, "MemTotal:");
    free = meminfo(&text, "MemAvailable:");
    *ret = (struct pod_usage){.memory_bytes = total > free ? total - free : 0};
    rate(engine->used, 0, node_cpu(), 0, ret);
    return true;
}

int64_t usage_pids_max(void)
{
    static const char *const files[] = {"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"};
    uint64_t least = UINT32_MAX, n;

    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        CLEANUP(buf_done) struct buf text = {0};
        struct str rest, line;

        if (file_read(files[i], PROC_FILE_MAX, &text, NULL) < 0)
            continue;
        rest = buf_view(&text);
        if (str_split(&rest, '\n', &line) && str_to_uint(line, &n) && n < least)
            least = n;
    }
    least /= PIDS_PART;
    return (int64_t)(least < PIDS_MIN ? PIDS_MIN : least > PIDS_MOST ? PIDS_MOST : least);
}

/* ---- pods ---- */

void usage_of_pod(void *arg, const struct pod_ref *ref,
                  void (*fn)(void *fn_arg, const struct pod_usage *usage), void *fn_arg)
{
    const struct local_pod *pod = local_find(arg, ref->uid);

    for (size_t i = 0; pod && i < pod->facts.len; i++) {
        const struct ctr *ctr = &pod->facts.ctrs[i];
        const struct local_run *run = &pod->runs[i];
        struct pod_usage usage = {.container = ctr->name};
        struct runtime_stats stats;

        if (ctr->state != CTR_RUNNING || !run->container || runtime_stats(run->container, &stats, NULL) < 0)
            continue;
        usage.memory_bytes = stats.working_set_bytes;
        rate(run->used, ctr->restarts, stats.cpu_ns, ctr->started, &usage);
        fn(fn_arg, &usage);
    }
}

static void usage_on_timer(void *arg)
{
    struct local_engine *engine = arg;
    struct str key;
    void *value;
    size_t at = 0;

    note(engine->used, node_cpu(), 0);
    while (map_next(engine->pods, &at, &key, &value)) {
        const struct local_pod *pod = value;

        for (size_t i = 0; i < pod->facts.len; i++)
            if (pod->facts.ctrs[i].state == CTR_RUNNING && pod->runs[i].container)
                note(pod->runs[i].used, runtime_cpu(pod->runs[i].container), pod->facts.ctrs[i].restarts);
    }
    loop_timer_set(engine->usage_timer, USAGE_EVERY_SEC * NSEC_PER_SEC);
}

void usage_start(struct local_engine *engine)
{
    engine->usage_timer = loop_timer_new(engine->loop, usage_on_timer, engine);
    note(engine->used, node_cpu(), 0);
    loop_timer_set(engine->usage_timer, USAGE_EVERY_SEC * NSEC_PER_SEC);
}

void usage_stop(struct local_engine *engine)
{
    loop_timer_free(engine->usage_timer);
    engine->usage_timer = NULL;
}
