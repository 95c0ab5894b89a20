/* pull.c - pulls and imports. What is asked for is an image_pull; the work is a job: one process of
 * berth-image in a folder of its own. Several pulls wait for the same job when they want the same image with
 * the same credentials. Jobs run in the order they came, some at a time. What a job's process says arrives
 * line by line (work/work.h); its end, killed or not, ends the job. */
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "image/internal.h"
#include "image/sum.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define LOG_MODULE         "image"
#define LINES_MAX          (64 << 10) /* bytes of a line that has no end */
#define REGISTRIES_AT_ONCE 4          /* times pulls_max: how many pulls run at once */
#define VANISHED_MAX       2          /* times that an image may be removed while it is being pulled */

struct image_pull {
    struct images *images;
    struct job *job; /* NULL: the answer is known */
    const struct image_pull_events *events;
    void *arg;
    int64_t begun;
    struct loop_timer *answer; /* of what is known at once */
    const struct image *image;
    enum image_fail fail;
    char *sentence;
};

struct job {
    struct images *images;
    char *key; /* what pulls with the same can share; NULL: nothing any more */
    char *name;
    char *path; /* import */
    bool as;    /* read with these rights */
    uid_t uid;
    gid_t gid;
    VEC(gid_t) groups;
    struct image_ref ref;
    VEC(struct image_pull *) pulls;
    VEC(char *) auths; /* to be tried in this order; empty: none */
    size_t attempt;
    int vanished;
    bool ending;          /* its answers are being given */
    char *dir, *auth_dir; /* while it runs */
    pid_t pid;
    struct loop_child *child;
    int out;
    struct loop_io *io;
    struct buf lines;
    enum image_fail fail;
    char *sentence;
    char id[IMAGE_DIGEST_MAX]; /* success */
};

/* ---- answers ---- */

static void pull_free(struct image_pull *pull)
{
    struct images *images = pull->images;

    for (size_t i = 0; pull->answer && i < images->answers.len; i++) {
        if (images->answers.v[i] == pull) {
            vec_remove(&images->answers, i);
            break;
        }
    }
    loop_timer_free(pull->answer);
    image_drop(pull->image);
    free(pull->sentence);
    free(pull);
}

static void pull_answer(struct image_pull *pull, bool fetched)
{
    struct image_pull_result result = {
        .image = pull->image,
        .fetched = fetched,
        .fail = pull->fail,
        .sentence = pull->sentence,
        .took_ns = clock_monotonic() - pull->begun,
    };

    pull->events->done(pull->arg, &result);
    pull_free(pull);
}

static void on_answer(void *arg)
{
    pull_answer(arg, false);
}

/* Not from inside the call that asked. */
static void answer_later(struct image_pull *pull)
{
    pull->answer = loop_timer_new(pull->images->loop, on_answer, pull);
    loop_timer_set(pull->answer, 0);
    vec_push(&pull->images->answers, pull);
}

static struct image_pull *fail_later(struct image_pull *pull, enum image_fail fail, const char *sentence)
{
    pull->fail = fail;
    pull->sentence = mem_strdup(sentence);
    answer_later(pull);
    return pull;
}

/* ---- jobs ---- */

/* The credentials and certificates of a call: known by name, so nothing else is ever deleted here. */
static void remove_auth(struct job *job)
{
    static const char *const files[] = {"auth.json", "certs/ca.crt", "certs", "registries.conf"};

    if (!job->auth_dir)
        return;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        CLEANUP(free) char *path = mem_printf("%s/%s", job->auth_dir, files[i]);

        if (unlink(path) < 0)
            rmdir(path);
    }
    rmdir(job->auth_dir);
    free(TAKE_PTR(job->auth_dir));
}

static void job_clean(struct job *job)
{
    CLEANUP(free) char *request = NULL;

    loop_io_free(TAKE_PTR(job->io));
    loop_child_free(TAKE_PTR(job->child));
    fd_close(take_fd(&job->out));
    buf_done(&job->lines);
    job->pid = 0;
    remove_auth(job);
    if (!job->dir)
        return;
    request = mem_printf("%s/request.json", job->dir);
    unlink(request);
    if (rmdir(job->dir) < 0)
        images_discard(job->images, job->dir);
    free(TAKE_PTR(job->dir));
}

static void job_free(struct job *job)
{
    struct images *images = job->images;

    job_clean(job);
    for (size_t i = 0; i < images->jobs.len; i++) {
        if (images->jobs.v[i] == job) {
            vec_remove(&images->jobs, i);
            break;
        }
    }
    VEC_EACH(&job->auths, it) {
        explicit_bzero(*it, strlen(*it));
        free(*it);
    }
    vec_done(&job->auths);
    vec_done(&job->groups);
    vec_done(&job->pulls);
    free(job->key);
    free(job->name);
    free(job->path);
    free(job->sentence);
    free(job);
}

static void job_fail(struct job *job, enum image_fail fail, const char *sentence)
{
    if (job->fail != IMAGE_FAIL_NONE)
        return; /* the first reason is the reason */
    job->fail = fail;
    job->sentence = mem_strdup(sentence);
}

/* Everybody who waits gets the answer. A callback may cancel others. */
static void job_answer(struct job *job)
{
    const struct stored *stored = job->fail ? NULL : stored_by_id(job->images, job->id);

    while (job->pulls.len > 0) {
        struct image_pull *pull = job->pulls.v[0];

        vec_remove(&job->pulls, 0);
        pull->job = NULL;
        pull->image = stored ? image_hold(stored->image) : NULL;
        pull->fail = job->fail;
        pull->sentence = mem_strdup(job->sentence);
        pull_answer(pull, true);
        stored = job->fail ? NULL : stored_by_id(job->images, job->id);
    }
}

/* Takes up what the process has written. An image removed meanwhile is pulled once more: false then. */
static bool job_load(struct job *job)
{
    struct err err = {0};
    struct images *images = job->images;

    if (store_load_image(images, job->id, &err) < 0 || store_load_name(images, job->name, &err) < 0) {
        if (++job->vanished <= VANISHED_MAX)
            return false;
        job_fail(job, IMAGE_FAIL_OTHER, err.msg);
        return true;
    }
    store_touch(images, stored_by_id(images, job->id));
    return true;
}

static void on_start(void *arg)
{
    jobs_start(arg);
}

static void start_later(struct images *images)
{
    if (!images->start_timer)
        images->start_timer = loop_timer_new(images->loop, on_start, images);
    loop_timer_set(images->start_timer, 0);
}

static void job_end(struct job *job)
{
    struct images *images = job->images;
    bool again = false;

    job_clean(job);
    if (job->pulls.len > 0 && !job->fail)
        again = !job_load(job);
    if (job->pulls.len > 0 && job->fail == IMAGE_FAIL_UNAUTHORIZED && job->attempt + 1 < job->auths.len) {
        job->attempt++;
        again = true;
    }
    if (again) {
        job->fail = IMAGE_FAIL_NONE;
        free(TAKE_PTR(job->sentence));
        start_later(images);
        return;
    }
    free(TAKE_PTR(job->key)); /* who comes now gets a job of its own */
    if (job->fail && job->pulls.len > 0)
        log_info("image %s: %s: %s", job->name, image_fail_name(job->fail), job->sentence);
    job->ending = true;
    job_answer(job);
    job_free(job);
    start_later(images);
}

/* ---- what a job says ---- */

/* "NUMBER COUNT STEP DONE TOTAL DIGEST" */
static bool read_progress(struct str rest, char digest[IMAGE_DIGEST_MAX], struct image_progress *ret)
{
    int64_t n[5];
    struct str word;

    for (size_t i = 0; i < ARRAY_LEN(n); i++)
        if (!str_split(&rest, ' ', &word) || !str_to_int(word, &n[i]) || n[i] < 0)
            return false;
    if (n[2] > IMAGE_STEP_PRESENT || !image_digest_valid(rest))
        return false;
    snprintf(digest, IMAGE_DIGEST_MAX, "%.*s", STR_ARG(rest));
    *ret = (struct image_progress){
        .layer = digest,
        .step = (enum image_step)n[2],
        .done = n[3],
        .total = n[4],
        .number = (size_t)n[0],
        .count = (size_t)n[1],
    };
    return true;
}

static void on_layer(struct job *job, struct str rest)
{
    struct image_progress p;
    char digest[IMAGE_DIGEST_MAX];

    if (!read_progress(rest, digest, &p))
        return;
    /* By place: a callback may cancel its own or other pulls. */
    for (size_t i = 0; i < job->pulls.len; i++) {
        struct image_pull *pull = job->pulls.v[i];

        if (pull->events->progress)
            pull->events->progress(pull->arg, &p);
        if (i < job->pulls.len && job->pulls.v[i] != pull)
            i--;
    }
}

static void on_fail(struct job *job, struct str rest)
{
    CLEANUP(free) char *sentence = NULL;
    struct str kind;
    int64_t n;

    if (!str_split(&rest, ' ', &kind) || !str_to_int(kind, &n) || n <= IMAGE_FAIL_NONE ||
        n > IMAGE_FAIL_OTHER)
        n = IMAGE_FAIL_OTHER;
    sentence = mem_strndup(rest.s, utf8_valid_len(rest));
    job_fail(job, (enum image_fail)n, sentence);
    kill(-job->pid, SIGKILL); /* what it still has running is for nothing */
}

static void on_line(struct job *job, struct str line)
{
    if (str_starts(line, "layer "))
        on_layer(job, (struct str){line.s + 6, line.len - 6});
    else if (str_starts(line, "fail "))
        on_fail(job, (struct str){line.s + 5, line.len - 5});
    else if (str_starts(line, "done ") && image_digest_valid((struct str){line.s + 5, line.len - 5}))
        snprintf(job->id, sizeof(job->id), "%.*s", (int)line.len - 5, line.s + 5);
}

/* Returns false when nothing more is there now. */
static bool read_lines(struct job *job)
{
    ssize_t n = read(job->out, buf_reserve(&job->lines, 4096), 4096);
    const char *end;

    if (n <= 0)
        return n < 0 && errno == EINTR;
    job->lines.len += (size_t)n;
    while ((end = memchr(job->lines.data, '\n', job->lines.len)) != NULL) {
        size_t len = (size_t)(end - job->lines.data);
        CLEANUP(free) char *line = mem_strndup(job->lines.data, len);

        buf_drop(&job->lines, len + 1);
        on_line(job, (struct str){line, len});
    }
    if (job->lines.len > LINES_MAX)
        buf_clear(&job->lines);
    return true;
}

static void on_readable(void *arg, uint32_t events)
{
    struct job *job = arg;

    if (!read_lines(job) && (events & (EPOLLHUP | EPOLLERR)))
        loop_io_free(TAKE_PTR(job->io)); /* its end is told by the child */
}

static void on_child(void *arg, pid_t pid, int status)
{
    struct job *job = arg;

    while (read_lines(job))
        ;
    kill(-pid, SIGKILL); /* whatever it left */
    if (!job->id[0] || status != 0)
        job_fail(job, IMAGE_FAIL_OTHER, "the helper berth-image ended without saying why");
    job_end(job);
}

/* ---- starting ---- */

static int write_file(const char *folder, const char *name, struct str text, struct err *err)
{
    CLEANUP(free) char *path = mem_printf("%s/%s", folder, name);
    CLEANUP(fd_close) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0 || write(fd, text.s, text.len) != (ssize_t)text.len)
        return err_errno(err, errno, "write '%s'", path);
    return 0;
}

static const struct image_registry *find_registry(const struct images *images, const char *host)
{
    for (size_t i = 0; i < images->registries_len; i++)
        if (str_ieq(str_from(images->registries[i].host), str_from(host)))
            return &images->registries[i];
    return NULL;
}

/* skopeo takes certificates as a folder. */
static int write_ca(struct job *job, const struct image_registry *registry, struct arena *arena,
                    struct json *doc, struct err *err)
{
    CLEANUP(buf_done) struct buf text = {0};
    const char *certs = arena_printf(arena, "%s/certs", job->auth_dir);

    if (file_read(registry->ca_file, IMAGE_AUTH_MAX, &text, err) < 0)
        return -1;
    if (mkdir(certs, 0700) < 0)
        return err_errno(err, errno, "make '%s'", certs);
    json_set_string(arena, doc, "certDir", certs);
    return write_file(certs, "ca.crt", buf_view(&text), err);
}

static int write_mirror(struct job *job, const struct image_registry *registry, struct arena *arena,
                        struct json *doc, struct err *err)
{
    const char *text = arena_printf(arena,
                                    "[[registry]]\nprefix = \"%s\"\nlocation = \"%s\"\ninsecure = %s\n"
                                    "[[registry.mirror]]\nlocation = \"%s\"\ninsecure = %s\n",
                                    registry->host, registry->host, registry->insecure ? "true" : "false",
                                    registry->mirror, registry->mirror_insecure ? "true" : "false");

    json_set_string(arena, doc, "registriesConf", arena_printf(arena, "%s/registries.conf", job->auth_dir));
    return write_file(job->auth_dir, "registries.conf", str_from(text), err);
}

static void write_reader(const struct job *job, struct arena *arena, struct json *doc)
{
    struct json *as = json_set_object(arena, doc, "as"), *groups;

    json_set_int(arena, as, "uid", job->uid);
    json_set_int(arena, as, "gid", job->gid);
    groups = json_set_array(arena, as, "groups");
    VEC_EACH(&job->groups, it)
        json_push(arena, groups, json_of_int(*it));
}

static int write_request(struct job *job, struct err *err)
{
    const struct images *images = job->images;
    const struct image_registry *registry = find_registry(images, job->ref.host);
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};
    struct json *doc = json_new_object(&arena);

    json_set_string(&arena, doc, "dir", images->dir);
    json_set_string(&arena, doc, "name", job->name);
    if (job->path)
        json_set_string(&arena, doc, "path", job->path);
    if (job->as)
        write_reader(job, &arena, doc);
    if (images->skopeo)
        json_set_string(&arena, doc, "skopeo", images->skopeo);
    if (registry && registry->insecure)
        json_set_bool(&arena, doc, "insecure", true);
    json_set_int(&arena, doc, "stallSec", images->config.stall_sec);
    json_set_int(&arena, doc, "reserveBytes", images->config.reserve_bytes);
    json_set_int(&arena, doc, "unpackedMax", images->config.unpacked_max);
    json_set_int(&arena, doc, "filesMax", images->config.files_max);
    if (registry && registry->ca_file && write_ca(job, registry, &arena, doc, err) < 0)
        return -1;
    if (registry && registry->mirror && write_mirror(job, registry, &arena, doc, err) < 0)
        return -1;
    if (job->attempt < job->auths.len) {
        json_set_string(&arena, doc, "auth", arena_printf(&arena, "%s/auth.json", job->auth_dir));
        if (write_file(job->auth_dir, "auth.json", str_from(job->auths.v[job->attempt]), err) < 0)
            return -1;
    }
    json_write(&text, doc);
    return write_file(job->dir, "request.json", buf_view(&text), err);
}

static int job_start(struct job *job, struct err *err)
{
    struct images *images = job->images;
    const char *argv[] = {images->helper, job->path ? "import" : "pull", NULL, NULL};
    char random[17];

    random_hex(random, 8);
    job->dir = mem_printf("%s/staging/%s", images->dir, random);
    job->auth_dir = mem_printf("%s/auth-%s", images->run_dir, random);
    job->id[0] = '\0';
    if (!images->helper)
        return err_set(err, ERR_NOT_FOUND, "the program berth-image is missing");
    if (mkdir(job->dir, 0700) < 0 || mkdir(job->auth_dir, 0700) < 0)
        return err_errno(err, errno, "make '%s'", job->dir);
    if (write_request(job, err) < 0)
        return -1;
    argv[2] = job->dir;
    if (store_spawn(argv, &job->out, &job->pid, err) < 0)
        return -1;
    job->io = loop_io_new(images->loop, job->out, EPOLLIN, on_readable, job);
    job->child = loop_child_new(images->loop, job->pid, on_child, job, err);
    if (!job->child) {
        kill(-job->pid, SIGKILL);
        while (waitpid(job->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        return -1;
    }
    return 0;
}

/* Places are counted by registry as well: one that stalls must not hold up what comes from others. */
static bool has_place(const struct images *images, const struct job *job)
{
    size_t all = 0, same = 0, max = (size_t)images->config.pulls_max;

    VEC_EACH(&images->jobs, it) {
        all += (*it)->pid != 0;
        same += (*it)->pid != 0 && streq((*it)->ref.host, job->ref.host);
    }
    return same < max && all < max * REGISTRIES_AT_ONCE;
}

void jobs_start(struct images *images)
{
    struct err err = {0};

    for (size_t i = 0; i < images->jobs.len; i++) {
        struct job *job = images->jobs.v[i];

        if (job->pid || !has_place(images, job))
            continue;
        if (job_start(job, &err) < 0) {
            job_fail(job, err.sys == ENOSPC ? IMAGE_FAIL_NO_SPACE : IMAGE_FAIL_OTHER, err.msg);
            job_end(job);
            return; /* and goes on with the next in the next turn */
        }
    }
}

void jobs_end(struct images *images)
{
    while (images->jobs.len > 0) {
        struct job *job = images->jobs.v[0];

        if (job->pid) {
            kill(-job->pid, SIGKILL);
            while (waitpid(job->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        }
        while (job->pulls.len > 0)
            pull_free(vec_pop(&job->pulls));
        job_free(job);
    }
    vec_done(&images->jobs);
    while (images->answers.len > 0)
        pull_free(images->answers.v[0]);
    vec_done(&images->answers);
}

/* ---- asking ---- */

static void add_auth(struct job *job, struct str text)
{
    struct buf chosen = {0};

    if (auth_choose(text, &job->ref, &chosen))
        vec_push(&job->auths, buf_take(&chosen));
    buf_done(&chosen);
}

/* Those of the pull; the machine's own only where it brings none for this registry. */
static void add_auths(struct job *job, const struct image_pull_spec *spec)
{
    CLEANUP(free) char *path = mem_printf("%s/auth.json", job->images->dir);
    CLEANUP(buf_done) struct buf stored = {0};

    for (size_t i = 0; i < spec->auths_len; i++)
        add_auth(job, str_from(spec->auths[i]));
    if (job->auths.len == 0 && file_read(path, IMAGE_AUTH_MAX, &stored, NULL) == 0) {
        add_auth(job, buf_view(&stored));
        explicit_bzero(stored.data, stored.len);
    }
}

static void make_key(struct job *job)
{
    CLEANUP(sum_free) struct sum *sum = sum_new();
    char digest[IMAGE_DIGEST_MAX];

    VEC_EACH(&job->auths, it)
        sum_add(sum, *it, strlen(*it) + 1);
    sum_end(sum, digest);
    job->key = mem_printf("%s %s %s%u", job->name, digest, job->path ? job->path : "", job->uid);
}

/* The pull joins a job that does the same, or this one becomes a job of the store. */
static void join(struct image_pull *pull, struct job *job)
{
    struct images *images = job->images;

    make_key(job);
    VEC_EACH(&images->jobs, it) {
        if (streq((*it)->key, job->key)) {
            pull->job = *it;
            vec_push(&(*it)->pulls, pull);
            job_free(job);
            return;
        }
    }
    pull->job = job;
    vec_push(&job->pulls, pull);
    vec_push(&images->jobs, job);
    start_later(images);
}

static struct image_pull *pull_new(struct images *images, const struct image_pull_events *events, void *arg)
{
    struct image_pull *pull = NEW(struct image_pull);

    *pull = (struct image_pull){.images = images, .events = events, .arg = arg, .begun = clock_monotonic()};
    return pull;
}

static struct job *job_new(struct images *images, const struct image_ref *ref)
{
    struct job *job = NEW(struct job);
    char name[IMAGE_REF_MAX];

    image_ref_format(ref, name);
    *job = (struct job){.images = images, .ref = *ref, .name = mem_strdup(name), .out = -1};
    return job;
}

struct image_pull *images_pull(struct images *images, const struct image_pull_spec *spec,
                               const struct image_pull_events *events, void *arg)
{
    struct image_pull *pull = pull_new(images, events, arg);
    const struct image *here;
    struct image_ref ref;
    struct err err = {0};
    struct job *job;

    if (image_ref_parse(str_from(spec->image), &ref, &err) < 0)
        return fail_later(pull, IMAGE_FAIL_NAME, err.msg);
    here = spec->policy == IMAGE_ALWAYS ? NULL : images_find(images, spec->image);
    if (here) {
        pull->image = image_hold(here);
        answer_later(pull);
        return pull;
    }
    if (spec->policy == IMAGE_NEVER) {
        err_set(&err, ERR_NOT_FOUND, "image '%s' is not here and its pull policy is Never", spec->image);
        return fail_later(pull, IMAGE_FAIL_NEVER, err.msg);
    }
    job = job_new(images, &ref);
    add_auths(job, spec);
    join(pull, job);
    return pull;
}

struct image_pull *images_import(struct images *images, const char *path, const char *name,
                                 const struct image_pull_events *events, void *arg)
{
    return images_import_as(images, path, name, NULL, events, arg);
}

struct image_pull *images_import_as(struct images *images, const char *path, const char *name,
                                    const struct images_reader *reader,
                                    const struct image_pull_events *events, void *arg)
{
    struct image_pull *pull = pull_new(images, events, arg);
    struct image_ref ref;
    struct err err = {0};
    struct job *job;

    if (image_ref_parse(str_from(name), &ref, &err) < 0)
        return fail_later(pull, IMAGE_FAIL_NAME, err.msg);
    if (ref.digest[0])
        return fail_later(pull, IMAGE_FAIL_NAME, "an archive cannot be imported under a digest");
    if (path[0] != '/')
        return fail_later(pull, IMAGE_FAIL_OTHER, "the path of an archive must be absolute");
    job = job_new(images, &ref);
    job->path = mem_strdup(path);
    if (reader && reader->uid != 0) {
        job->as = true;
        job->uid = reader->uid;
        job->gid = reader->gid;
        for (size_t i = 0; i < reader->groups_len; i++)
            vec_push(&job->groups, reader->groups[i]);
    }
    join(pull, job);
    return pull;
}

void image_pull_cancel(struct image_pull *pull)
{
    struct job *job = pull->job;

    if (job) {
        for (size_t i = 0; i < job->pulls.len; i++) {
            if (job->pulls.v[i] == pull) {
                vec_remove(&job->pulls, i);
                break;
            }
        }
        if (job->pulls.len == 0 && !job->ending) {
            free(TAKE_PTR(job->key));
            job_fail(job, IMAGE_FAIL_OTHER, "cancelled");
            if (job->pid)
                kill(-job->pid, SIGKILL); /* its end cleans up */
            else
                job_free(job);
        }
    }
    pull_free(pull);
}
