/* Every LOCAL_DISK_SEC: what pods have on the disk, measured in a thread, against the limits of their
 * emptyDirs, containers and claims; and whether disk or memory of the machine run short. Pods over a limit,
 * and those that have to make room, are Evicted. Of a claim that is too full an event tells; where the file
 * system enforces limits (claims.c) nothing gets over them. */
#include "base/disk.h"

#include "base/clock.h"
#include "base/file.h"
#include "control/resources.h"
#include "engine/local/evict.h"
#include "engine/local/internal.h"
#include "loop/offload.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define DISK_LIMIT_SEC 600        /* of one measurement */
#define MEASURE_REST   20         /* times as long as one took is there no other */
#define FULL_BYTES     (64 << 10) /* less than that left of a limited claim: full */
#define STORAGE        "ephemeral-storage"

enum what { WHAT_EMPTY, WHAT_CONTAINER, WHAT_LOGS, WHAT_CLAIM };

struct measure {
    char uid[40];
    enum what what;
    char name[256]; /* of the volume, container or claim */
    char limit_text[32];
    char *path;
    int64_t limit, used; /* limit 0: none */
    bool enforced;       /* by the file system, which says what is used */
};

struct survey {
    VEC(struct measure) v;
    char *data_dir;
    int64_t disk_free, disk_total;
};

/* ---- in the thread ---- */

static void work(void *arg)
{
    struct survey *survey = arg;
    struct statvfs fs;

    setpriority(PRIO_PROCESS, (id_t)gettid(), 19); /* of this thread */
    VEC_EACH(&survey->v, it)
        if (!it->enforced)
            it->used = disk_tree_bytes(it->path);
    if (statvfs(survey->data_dir, &fs) == 0) {
        survey->disk_free = (int64_t)(fs.f_bavail * fs.f_frsize);
        survey->disk_total = (int64_t)(fs.f_blocks * fs.f_frsize);
    }
}

static void survey_free(void *arg)
{
    struct survey *survey = arg;

    VEC_EACH(&survey->v, it)
        free(it->path);
    vec_done(&survey->v);
    free(survey->data_dir);
    free(survey);
}

/* ---- what to measure ---- */

static void add(struct survey *survey, const struct local_pod *pod, enum what what, const char *name,
                char *path, const struct json *limit)
{
    struct measure m = {.what = what, .path = path};
    struct quantity q;

    snprintf(m.uid, sizeof(m.uid), "%s", pod->uid);
    snprintf(m.name, sizeof(m.name), "%s", name);
    snprintf(m.limit_text, sizeof(m.limit_text), "%s", json_string_or(limit, ""));
    if (quantity_from_json(limit, &q))
        m.limit = quantity_value(&q);
    m.enforced = claims_use(pod->engine, path, &m.used);
    vec_push(&survey->v, m);
}

static void add_claim(struct survey *survey, struct local_pod *pod, const char *name)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct object *claim = store_get(pod->engine->store, KIND_PVC, pod->ns, name);
    struct claim_dir dir;

    VEC_EACH(&survey->v, it) /* two pods may have the same */
        if (it->what == WHAT_CLAIM && streq(it->name, name) && streq(it->uid, pod->uid))
            return;
    if (claim && opens_claim_dir(pod, name, &arena, &dir, NULL) == 0 && dir.own)
        add(survey, pod, WHAT_CLAIM, name, mem_strdup(dir.path),
            json_at(object_json(claim, &arena), "spec.resources.requests.storage"));
}

static void add_pod(struct survey *survey, struct local_pod *pod)
{
    JSON_EACH(json_at(pod->doc, "spec.volumes"), it) {
        const struct json *empty = json_get(it, "emptyDir");
        const char *name = json_string_or(json_get(it, "name"), "");
        const char *claim = json_at_string(it, "persistentVolumeClaim.claimName");

        if (empty && !streq(json_get_string(empty, "medium"), "Memory"))
            add(survey, pod, WHAT_EMPTY, name, mem_printf("%s/volumes/%s", pod->dir, name),
                json_get(empty, "sizeLimit"));
        if (claim)
            add_claim(survey, pod, claim);
    }
    for (size_t i = 0; i < pod->facts.len; i++) {
        const struct ctr *ctr = &pod->facts.ctrs[i];

        const char *dir = image_mount_dir(pod->engine->images, ctr->id);

        if (dir)
            add(survey, pod, WHAT_CONTAINER, ctr->name, mem_strdup(dir),
                json_get(json_at(ctr->spec, "resources.limits"), STORAGE));
        add(survey, pod, WHAT_LOGS, ctr->name, mem_printf("%s/logs/%s", pod->dir, ctr->name), NULL);
    }
}

/* ---- what follows ---- */

__attribute__((format(printf, 2, 3))) static void evict(struct local_pod *pod, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (*pod->facts.fail_reason || pod->facts.ended || pod->facts.deleting)
        return;
    facts_fail(&pod->facts, "Evicted", text);
    pod_event(pod, "Warning", "Evicted", "%s", text);
    pod_queue(pod);
}

static int64_t sum_of(const struct survey *survey, const char *uid, const char *container)
{
    int64_t bytes = 0;

    VEC_EACH(&survey->v, it)
        if (it->what != WHAT_CLAIM && streq(it->uid, uid) &&
            (!container || (it->what != WHAT_EMPTY && streq(it->name, container))))
            bytes += it->used;
    return bytes;
}

static void check_claim(struct local_pod *pod, const struct measure *m)
{
    bool over = m->limit && m->used + (m->enforced ? FULL_BYTES : -1) >= m->limit;

    if (over && !pod->claim_said && m->enforced)
        pod_event(pod, "Warning", "VolumeFull",
                  "Claim \"%s\" holds %lld bytes of the %s it asked for; no more fit", m->name,
                  (long long)m->used, m->limit_text);
    else if (over && !pod->claim_said)
        pod_event(pod, "Warning", "VolumeTooFull",
                  "Claim \"%s\" holds %lld bytes, more than the %s it asked for", m->name, (long long)m->used,
                  m->limit_text);
    pod->claim_said = over;
}

static void check_limits(struct local_engine *engine, const struct survey *survey)
{
    VEC_EACH(&survey->v, it) {
        struct local_pod *pod = local_find(engine, it->uid);

        if (!pod || !pod->object)
            continue;
        if (it->what == WHAT_CLAIM)
            check_claim(pod, it);
        else if (it->limit && it->what == WHAT_EMPTY && it->used > it->limit)
            evict(pod, "Usage of EmptyDir volume \"%s\" exceeds the limit \"%s\". ", it->name,
                  it->limit_text);
        else if (it->limit && it->what == WHAT_CONTAINER && sum_of(survey, it->uid, it->name) > it->limit)
            evict(pod, "Container %s exceeded its local ephemeral storage limit \"%s\". ", it->name,
                  it->limit_text);
    }
}

static int64_t requested(struct local_pod *pod, const char *name)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct resource_list requests = {0};
    const struct quantity *q;

    pod_resources(json_get(pod->doc, "spec"), "requests", true, &arena, &requests);
    q = resource_list_find(&requests, name);
    return q ? quantity_value(q) : 0;
}

static int64_t memory_of(const struct local_pod *pod)
{
    struct runtime_stats stats;
    int64_t bytes = 0;

    for (size_t i = 0; i < pod->facts.len; i++)
        if (pod->facts.ctrs[i].state == CTR_RUNNING && pod->runs[i].container &&
            runtime_stats(pod->runs[i].container, &stats, NULL) == 0)
            bytes += (int64_t)stats.working_set_bytes;
    return bytes;
}

/* One pod has to go; the next look tells whether that was enough. survey NULL: for memory. */
static void make_room(struct local_engine *engine, const struct survey *survey, int64_t least, int64_t left)
{
    const char *name = survey ? STORAGE : "memory";
    VEC(struct evict_pod) figures = {0};
    VEC(struct local_pod *) pods = {0};
    struct str key;
    void *value;
    size_t at = 0;
    int chosen;

    while (map_next(engine->pods, &at, &key, &value)) {
        struct local_pod *pod = value;

        if (*pod->facts.fail_reason && !pod->facts.ended) { /* the last one is still leaving */
            vec_done(&figures);
            vec_done(&pods);
            return;
        }
        if (pod->facts.ended || pod->facts.deleting || !pod->object)
            continue;
        vec_push(&pods, pod);
        vec_push(&figures,
                 (struct evict_pod){survey ? sum_of(survey, pod->uid, NULL) : memory_of(pod),
                                    requested(pod, name), json_int(json_at(pod->doc, "spec.priority"), 0)});
    }
    chosen = evict_choose(figures.v, figures.len);
    if (pods.v && chosen >= 0)
        evict(pods.v[chosen], "The node was low on resource: %s. Threshold quantity: %lld, available: %lld. ",
              name, (long long)least, (long long)left);
    vec_done(&figures);
    vec_done(&pods);
}

/* Bytes; -1: not known. BERTH_MEMINFO is for tests. */
static int64_t memory_available(void)
{
    const char *path = getenv("BERTH_MEMINFO");
    CLEANUP(buf_done) struct buf text = {0};
    const char *line;

    if (file_read(path ? path : "/proc/meminfo", 1 << 16, &text, NULL) < 0 || !text.len)
        return -1;
    line = strstr(text.data, "MemAvailable:");
    return line ? strtoll(line + strlen("MemAvailable:"), NULL, 10) << 10 : -1;
}

static void look_at_machine(struct local_engine *engine, const struct survey *survey)
{
    int64_t memory = memory_available();

    engine->disk_short = survey->disk_total > 0 && evict_disk_short(survey->disk_free, survey->disk_total);
    engine->memory_short = memory >= 0 && memory < EVICT_MEMORY_BYTES;
    if (engine->disk_short)
        make_room(engine, survey, disk_mark(survey->disk_total), survey->disk_free);
    if (engine->memory_short)
        make_room(engine, NULL, EVICT_MEMORY_BYTES, memory);
}

static void done(void *owner, void *arg)
{
    struct local_engine *engine = owner;
    struct survey *survey = arg;

    int64_t took = clock_monotonic() - engine->measured_from, least = LOCAL_DISK_SEC * NSEC_PER_SEC;

    loop_timer_set(engine->disk_timer, took * MEASURE_REST > least ? took * MEASURE_REST : least);
    if (!survey)
        return;
    check_limits(engine, survey);
    look_at_machine(engine, survey);
    survey_free(survey);
}

static void disk_on_timer(void *arg)
{
    struct local_engine *engine = arg;
    struct survey *survey;
    struct str key;
    void *value;
    size_t at = 0;

    claims_sweep(engine);
    survey = NEW(struct survey);
    survey->data_dir = mem_strdup(engine->data_dir);
    while (map_next(engine->pods, &at, &key, &value)) {
        struct local_pod *pod = value;

        if (pod->object && !pod->facts.ended && pod->sandbox == SANDBOX_READY)
            add_pod(survey, pod);
    }
    engine->measured_from = clock_monotonic();
    if (offload_run(engine->offload, DISK_LIMIT_SEC, work, done, survey_free, engine, survey, NULL) < 0) {
        loop_timer_set(engine->disk_timer, LOCAL_DISK_SEC * NSEC_PER_SEC);
        survey_free(survey);
    }
}

void disk_start(struct local_engine *engine)
{
    engine->disk_timer = loop_timer_new(engine->loop, disk_on_timer, engine);
    loop_timer_set(engine->disk_timer, LOCAL_DISK_SEC * NSEC_PER_SEC);
}
