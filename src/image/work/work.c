/* work.c - what pulls and imports have in common: the request, processes, the lines to the store, records. */
#include "image/work/work.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define REQUEST_MAX (1 << 20)

/* ---- the request ---- */

int work_load(const char *job, struct work *ret, struct fail *fail)
{
    struct work work = {.platform = image_platform_here()};
    CLEANUP(free) char *path = mem_printf("%s/request.json", job);
    CLEANUP(buf_done) struct buf text = {0};
    struct json *doc;

    if (file_read(path, REQUEST_MAX, &text, &fail->err) < 0 ||
        json_parse(buf_view(&text), &work.arena, &doc, NULL, &fail->err) < 0) {
        arena_done(&work.arena);
        return -1;
    }
    work.job = arena_strdup(&work.arena, job);
    work.dir = json_get_string(doc, "dir");
    work.name = json_get_string(doc, "name");
    work.path = json_get_string(doc, "path");
    work.skopeo = json_get_string(doc, "skopeo");
    work.auth = json_get_string(doc, "auth");
    work.cert_dir = json_get_string(doc, "certDir");
    work.registries_conf = json_get_string(doc, "registriesConf");
    work.as = json_get(doc, "as");
    work.insecure = json_bool(json_get(doc, "insecure"));
    work.stall_sec = (int)json_int(json_get(doc, "stallSec"), 60);
    work.reserve_bytes = json_int(json_get(doc, "reserveBytes"), 0);
    work.unpacked_max = json_int(json_get(doc, "unpackedMax"), 0);
    work.files_max = json_int(json_get(doc, "filesMax"), 0);
    if (!work.dir || !work.name || image_ref_parse(str_from(work.name), &work.ref, &fail->err) < 0) {
        arena_done(&work.arena);
        return fail_set(fail, IMAGE_FAIL_OTHER, "the request is incomplete");
    }
    *ret = work;
    return 0;
}

void work_done(struct work *work)
{
    arena_done(&work->arena);
}

/* ---- lines ---- */

void work_say(const char *fmt, ...)
{
    char line[WORK_LINE_MAX];
    va_list ap;
    int len;
    ssize_t unused;

    va_start(ap, fmt);
    len = vsnprintf(line, sizeof(line) - 1, fmt, ap);
    va_end(ap);
    if (len < 0)
        return;
    if (len > (int)sizeof(line) - 2)
        len = (int)sizeof(line) - 2;
    for (int i = 0; i < len; i++)
        if (line[i] == '\n' || line[i] == '\r')
            line[i] = ' ';
    line[len++] = '\n';
    unused = write(STDOUT_FILENO, line, (size_t)len); /* nobody listens: we are about to be killed */
    (void)unused;
}

void work_step(size_t number, size_t count, enum image_step step, int64_t done, int64_t total,
               const char *digest)
{
    work_say("layer %zu %zu %d %lld %lld %s", number, count, (int)step, (long long)done, (long long)total,
             digest);
}

/* ---- processes ---- */

/* HOME is the job's folder, so that no credentials or settings of root's are used. */
static char **child_env(const struct work *work, struct arena *arena)
{
    static const char *const passed[] = {"HTTP_PROXY",  "HTTPS_PROXY", "NO_PROXY",      "http_proxy",
                                         "https_proxy", "no_proxy",    "SSL_CERT_FILE", "SSL_CERT_DIR"};
    char **env = arena_zalloc(arena, (ARRAY_LEN(passed) + 6) * sizeof(*env));
    size_t len = 0;

    env[len++] = arena_strdup(arena, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    env[len++] = arena_strdup(arena, "LC_ALL=C.UTF-8");
    env[len++] = arena_printf(arena, "HOME=%s", work->job);
    env[len++] = arena_printf(arena, "XDG_RUNTIME_DIR=%s", work->job);
    env[len++] = arena_printf(arena, "TMPDIR=%s", work->job);
    for (size_t i = 0; i < ARRAY_LEN(passed); i++)
        if (getenv(passed[i]))
            env[len++] = arena_printf(arena, "%s=%s", passed[i], getenv(passed[i]));
    return env;
}

pid_t work_spawn(const struct work *work, const char *const *argv, int in, int out, int errors,
                 struct fail *fail)
{
    CLEANUP(arena_done) struct arena arena = {0};
    char **env = child_env(work, &arena);
    pid_t parent = getpid(), pid = fork();

    if (pid < 0)
        return err_errno(&fail->err, errno, "fork");
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        dup2(errors, STDERR_FILENO) < 0)
        _exit(127);
    execve(argv[0], (char *const *)(uintptr_t)argv, env);
    dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

void work_end(pid_t pid)
{
    if (pid <= 0)
        return;
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

int work_wait_readable(int fd, const struct work *work, const char *who, struct fail *fail)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int n;

    do
        n = poll(&p, 1, work->stall_sec * 1000);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_errno(&fail->err, errno, "poll");
    if (n == 0)
        return fail_set(fail, IMAGE_FAIL_STALLED, "%s has sent nothing for %d s", who, work->stall_sec);
    return 0;
}

/* ---- records ---- */

int work_name(const struct work *work, const char *id, const char *digest, struct fail *fail)
{
    CLEANUP(free) char *path = record_name_path(work->dir, work->name);
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(buf_done) struct buf old = {0};
    CLEANUP(record_name_done) struct record_name before = {0};
    struct record_name name = {.name = (char *)(uintptr_t)work->name, .pulled = clock_now()};

    snprintf(name.id, sizeof(name.id), "%s", id);
    snprintf(name.digest, sizeof(name.digest), "%s", digest);
    if (file_read(path, RECORD_FILE_MAX, &old, NULL) == 0 &&
        record_name_read(buf_view(&old), &before, NULL) == 0 && streq(before.id, id) &&
        streq(before.digest, digest))
        return 0;
    record_name_write(&text, &name);
    return file_write_atomic(path, buf_view(&text), 0600, &fail->err);
}

int work_record(const struct work *work, const char *id, const char *digest,
                const struct image_manifest *manifest, const struct json *config, struct fail *fail)
{
    CLEANUP(free) char *path = record_image_path(work->dir, id);
    CLEANUP(free) struct image_layer *layers = mem_zalloc((manifest->layers_len + 1) * sizeof(*layers));
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(fd_close) int store = -1;

    for (size_t i = 0; i < manifest->layers_len; i++) {
        memcpy(layers[i].digest, manifest->layers[i].digest, IMAGE_DIGEST_MAX);
        layers[i].size = manifest->layers[i].size;
        if (!record_layer_here(work->dir, layers[i].digest, &layers[i].unpacked))
            return fail_set(fail, IMAGE_FAIL_OTHER, "layer %s has vanished", layers[i].digest);
    }
    if (parents_adopt(work, manifest, fail) < 0)
        return -1;
    record_image_write(&text, id, digest, config, (struct record_layers){layers, manifest->layers_len},
                       clock_now());
    store = open(work->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store < 0 || syncfs(store) < 0)
        return err_errno(&fail->err, errno, "sync '%s'", work->dir);
    if (file_write_atomic(path, buf_view(&text), 0600, &fail->err) < 0)
        return -1;
    return work_name(work, id, digest, fail);
}

bool work_image_here(const struct work *work, const char *id)
{
    CLEANUP(free) char *path = record_image_path(work->dir, id);
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(image_drop) const struct image *image = NULL;

    if (file_read(path, RECORD_FILE_MAX, &text, NULL) < 0 ||
        record_image_read(buf_view(&text), &image, NULL) < 0)
        return false;
    for (size_t i = 0; i < image->layers_len; i++)
        if (!record_layer_here(work->dir, image->layers[i].digest, NULL))
            return false;
    return true;
}
