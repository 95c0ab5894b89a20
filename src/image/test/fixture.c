/* fixture.c */
#include "fixture.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "image/parse.h"
#include "image/sum.h"
#include "image/work/tree.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/wait.h>

#define WAIT_NS (60 * NSEC_PER_SEC)

char fx_top[64];
char fx_registry[32];
char fx_tls_registry[32];
static pid_t registry_pid, tls_pid;

/* ---- processes ---- */

static pid_t spawn(const char *const *argv, const char *out)
{
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    if (posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ) != 0)
        pid = -1;
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

static int run_to(const char *const *argv, const char *out)
{
    pid_t pid = spawn(argv, out);
    int status = -1;

    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return status;
}

void fx_run(const char *const *argv)
{
    if (run_to(argv, "/dev/null") != 0)
        fail_msg("%s %s failed", argv[0], argv[1] ? argv[1] : "");
}

static bool on_path(const char *name)
{
    const char *argv[] = {"sh", "-c", NULL, NULL};
    CLEANUP(free) char *command = mem_printf("command -v %s", name);

    argv[2] = command;
    return run_to(argv, "/dev/null") == 0;
}

/* ---- the registry ---- */

static int free_port(void)
{
    CLEANUP(fd_close) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);

    if (bind(fd, (struct sockaddr *)&addr, len) < 0 || getsockname(fd, (struct sockaddr *)&addr, &len) < 0)
        return -1;
    return ntohs(addr.sin_port);
}

static bool answers(int port)
{
    struct sockaddr_in addr = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    for (int i = 0; i < 200; i++) {
        CLEANUP(fd_close) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
            return true;
        usleep(50000);
    }
    return false;
}

static void start_registry(void)
{
    CLEANUP(free) char *users = mem_printf("%s/htpasswd", fx_top);
    CLEANUP(free) char *config = mem_printf("%s/registry.yml", fx_top);
    CLEANUP(buf_done) struct buf text = {0};
    const char *const make_user[] = {"htpasswd", "-Bbn", USER, PASSWORD, NULL};
    const char *const serve[] = {"docker-registry", "serve", config, NULL};
    int port = free_port();

    if (!on_path("skopeo") || !on_path("docker-registry") || !on_path("htpasswd")) {
        printf("skipped: pulls, for want of skopeo, docker-registry or htpasswd (apache2-utils)\n");
        return;
    }
    buf_printf(&text,
               "version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s/registry}}\n"
               "http: {addr: '127.0.0.1:%d'}\nauth: {htpasswd: {realm: lab, path: %s}}\n",
               fx_top, port, users);
    if (run_to(make_user, users) != 0 || file_write_atomic(config, buf_view(&text), 0600, NULL) < 0)
        return;
    registry_pid = spawn(serve, "/dev/null");
    if (registry_pid > 0 && answers(port))
        snprintf(fx_registry, sizeof(fx_registry), "127.0.0.1:%d", port);
    else
        printf("skipped: pulls, since docker-registry does not start\n");
}

void fx_start_tls(const char *cert, const char *key)
{
    CLEANUP(free) char *config = mem_printf("%s/tls.yml", fx_top);
    CLEANUP(buf_done) struct buf text = {0};
    const char *const make_cert[] = {"openssl",
                                     "req",
                                     "-x509",
                                     "-newkey",
                                     "ec",
                                     "-pkeyopt",
                                     "ec_paramgen_curve:P-256",
                                     "-nodes",
                                     "-subj",
                                     "/CN=lab",
                                     "-addext",
                                     "subjectAltName=IP:127.0.0.1",
                                     "-days",
                                     "2",
                                     "-keyout",
                                     key,
                                     "-out",
                                     cert,
                                     NULL};
    const char *const serve[] = {"docker-registry", "serve", config, NULL};
    int port = free_port();

    fx_run(make_cert);
    buf_printf(&text,
               "version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s/tls-registry}}\n"
               "http: {addr: '127.0.0.1:%d', tls: {certificate: %s, key: %s}}\n",
               fx_top, port, cert, key);
    assert_int_equal(file_write_atomic(config, buf_view(&text), 0600, NULL), 0);
    tls_pid = spawn(serve, "/dev/null");
    assert_true(tls_pid > 0 && answers(port));
    snprintf(fx_tls_registry, sizeof(fx_tls_registry), "127.0.0.1:%d", port);
}

bool fx_has_registry(void)
{
    return fx_registry[0] != '\0';
}

int fx_start(void)
{
    if (geteuid() != 0) {
        printf("skipped: needs root\n");
        return -1;
    }
    snprintf(fx_top, sizeof(fx_top), "/var/tmp/berth-image-XXXXXX");
    if (!mkdtemp(fx_top))
        return -1;
    start_registry();
    return 0;
}

/* What a test that failed has left mounted. */
static void unmount_all(void)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct str rest, line, field;

    if (file_read("/proc/self/mountinfo", 16 << 20, &text, NULL) < 0)
        return;
    rest = buf_view(&text);
    while (str_split(&rest, '\n', &line)) {
        for (int i = 0; i < 5 && str_split(&line, ' ', &field); i++)
            ;
        if (field.len < 256 && str_starts(field, fx_top)) {
            CLEANUP(free) char *path = mem_strndup(field.s, field.len);

            umount2(path, MNT_DETACH);
        }
    }
}

void fx_stop(void)
{
    struct err err = {0};

    if (registry_pid > 0) {
        kill(registry_pid, SIGKILL);
        waitpid(registry_pid, NULL, 0);
    }
    if (tls_pid > 0) {
        kill(tls_pid, SIGKILL);
        waitpid(tls_pid, NULL, 0);
    }
    unmount_all();
    if (tree_remove(AT_FDCWD, fx_top, &err) < 0)
        printf("left behind: %s: %s\n", fx_top, err.msg);
}

/* ---- images to push ---- */

static char last_layers[200][IMAGE_DIGEST_MAX];

char *fx_blob(const char *dir, size_t layer)
{
    (void)dir;
    return last_layers[layer];
}

static void put_blob(const char *dir, struct str data, char digest[IMAGE_DIGEST_MAX])
{
    CLEANUP(free) char *path = NULL;

    sum_of(data, digest);
    path = mem_printf("%s/blobs/sha256/%s", dir, sum_hex(digest));
    assert_int_equal(file_write_atomic(path, data, 0644, NULL), 0);
}

/* The manifest's descriptor. */
static char *put_image(const char *dir, const struct fx_layer *layers, size_t len, const char *config,
                       const char *arch)
{
    CLEANUP(buf_done) struct buf doc = {0};
    CLEANUP(buf_done) struct buf manifest = {0};
    CLEANUP(buf_done) struct buf list = {0};
    char digest[IMAGE_DIGEST_MAX];

    buf_printf(&doc,
               "{\"architecture\":\"%s\",\"os\":\"linux\",\"config\":%s,\"rootfs\":{\"type\":\"layers\","
               "\"diff_ids\":[",
               arch, config ? config : "{}");
    for (size_t i = 0; i < len; i++) {
        CLEANUP(buf_done) struct buf plain = {0};
        CLEANUP(buf_done) struct buf packed = {0};

        tar_make(layers[i].rows, layers[i].len, "", &plain);
        tar_make(layers[i].rows, layers[i].len, layers[i].filter, &packed);
        sum_of(buf_view(&plain), digest);
        buf_printf(&doc, "%s\"%s\"", i ? "," : "", digest);
        put_blob(dir, buf_view(&packed), last_layers[i]);
        buf_printf(
            &list,
            "%s{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar%s%s\",\"digest\":\"%s\",\"size\":%zu}",
            i ? "," : "", layers[i].filter[0] ? "+" : "", layers[i].filter, last_layers[i], packed.len);
    }
    buf_puts(&doc, "]}}");
    put_blob(dir, buf_view(&doc), digest);
    buf_printf(
        &manifest,
        "{\"schemaVersion\":2,\"mediaType\":\"application/"
        "vnd.oci.image.manifest.v1+json\",\"config\":{\"mediaType\":"
        "\"application/vnd.oci.image.config.v1+json\",\"digest\":\"%s\",\"size\":%zu},\"layers\":[%s]}",
        digest, doc.len, list.len ? list.data : "");
    put_blob(dir, buf_view(&manifest), digest);
    return mem_printf(
        "{\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"digest\":\"%s\",\"size\":%zu,"
        "\"platform\":{\"os\":\"linux\",\"architecture\":\"%s\"}}",
        digest, manifest.len, arch);
}

void fx_layout(const char *dir, const struct fx_layer *layers, size_t len, const char *config, bool multi)
{
    CLEANUP(free) char *blobs = mem_printf("%s/blobs/sha256", dir);
    CLEANUP(free) char *mark = mem_printf("%s/oci-layout", dir);
    CLEANUP(free) char *index = mem_printf("%s/index.json", dir);
    CLEANUP(free) char *other = NULL;
    CLEANUP(free) char *own = NULL;
    CLEANUP(buf_done) struct buf text = {0};
    char digest[IMAGE_DIGEST_MAX];

    assert_int_equal(dir_make(blobs, 0755, NULL), 0);
    other = put_image(dir, layers, len, config, "s390x");
    own = put_image(dir, layers, len, config, image_platform_here().arch);
    if (multi) {
        buf_printf(&text,
                   "{\"schemaVersion\":2,\"mediaType\":\"application/"
                   "vnd.oci.image.index.v1+json\",\"manifests\":[%s,%s]}",
                   other, own);
        put_blob(dir, buf_view(&text), digest);
        free(own);
        own = mem_printf(
            "{\"mediaType\":\"application/vnd.oci.image.index.v1+json\",\"digest\":\"%s\",\"size\":%zu}",
            digest, text.len);
        buf_clear(&text);
    }
    buf_printf(&text, "{\"schemaVersion\":2,\"manifests\":[%s]}", own);
    assert_int_equal(file_write_atomic(index, buf_view(&text), 0644, NULL), 0);
    assert_int_equal(file_write_atomic(mark, STR("{\"imageLayoutVersion\":\"1.0.0\"}"), 0644, NULL), 0);
}

void fx_push(const char *dir, const char *name)
{
    CLEANUP(free) char *from = mem_printf("oci:%s", dir);
    CLEANUP(free) char *to = mem_printf("docker://%s/%s", fx_registry, name);
    const char *const argv[] = {"skopeo",
                                "--insecure-policy",
                                "copy",
                                "--all",
                                "--preserve-digests",
                                "--dest-tls-verify=false",
                                "--dest-creds=" USER ":" PASSWORD,
                                from,
                                to,
                                NULL};

    fx_run(argv);
}

void fx_damage(const char *digest)
{
    CLEANUP(free)
    char *path = mem_printf("%s/registry/docker/registry/v2/blobs/sha256/%.2s/%s/data", fx_top,
                            sum_hex(digest), sum_hex(digest));
    CLEANUP(fd_close) int fd = open(path, O_RDWR | O_CLOEXEC);
    char byte;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, 100), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, 100), 1);
}

/* ---- pulling ---- */

struct images *fx_open(struct loop *loop, const char *name, void (*change)(struct images_config *config))
{
    CLEANUP(free) char *dir = mem_printf("%s/%s", fx_top, name);
    CLEANUP(free) char *run = mem_printf("%s/run", fx_top);
    struct images_registry registry = {.host = fx_registry, .insecure = true};
    struct images_config config = {
        .helper = getenv("BERTH_IMAGE_HELPER"),
        .run_dir = run,
        .registries = &registry,
        .registries_len = 1,
        .reserve_bytes = -1,
        .gc_high_percent = -1,
        .stall_sec = 20,
    };
    struct images *images = NULL;
    struct err err = {0};

    if (change)
        change(&config);
    if (images_open(dir, loop, &config, &images, &err) < 0)
        fail_msg("%s", err.msg);
    return images;
}

static void on_progress(void *arg, const struct image_progress *progress)
{
    struct outcome *outcome = arg;

    outcome->steps++;
    outcome->unpacked += progress->step == IMAGE_STEP_DONE;
    assert_true(progress->number >= 1 && progress->number <= progress->count);
    assert_true(progress->done <= progress->total);
}

static void on_done(void *arg, const struct image_pull_result *result)
{
    struct outcome *outcome = arg;

    assert_false(outcome->done);
    outcome->done = true;
    outcome->ok = result->image != NULL;
    outcome->fetched = result->fetched;
    outcome->fail = result->fail;
    snprintf(outcome->sentence, sizeof(outcome->sentence), "%s", result->sentence ? result->sentence : "");
    if (result->image)
        snprintf(outcome->id, sizeof(outcome->id), "%s", result->image->id);
}

const struct image_pull_events fx_events = {on_progress, on_done};

void fx_wait(struct loop *loop, struct outcome *outcome)
{
    int64_t end = clock_monotonic() + WAIT_NS;

    while (!outcome->done && clock_monotonic() < end)
        loop_turn(loop, 200, NULL);
    if (!outcome->done)
        fail_msg("no answer within a minute");
}

struct outcome fx_pull(struct images *images, struct loop *loop, const char *image, enum image_policy policy,
                       const char *auth)
{
    struct outcome outcome = {0};
    struct image_pull_spec spec = {
        .image = image, .policy = policy, .auths = &auth, .auths_len = auth ? 1 : 0};

    images_pull(images, &spec, &fx_events, &outcome);
    assert_false(outcome.done);
    fx_wait(loop, &outcome);
    return outcome;
}

struct outcome fx_import(struct images *images, struct loop *loop, const char *path, const char *name)
{
    struct outcome outcome = {0};

    images_import(images, path, name, &fx_events, &outcome);
    fx_wait(loop, &outcome);
    return outcome;
}

const char *fx_auth(const char *password)
{
    static char text[512];

    snprintf(text, sizeof(text), "{\"auths\":{\"%s\":{\"username\":\"" USER "\",\"password\":\"%s\"}}}",
             fx_registry, password);
    return text;
}

char *fx_name(const char *text)
{
    static char names[8][256];
    static unsigned next;
    char *name = names[next++ % ARRAY_LEN(names)];

    snprintf(name, sizeof(names[0]), "%s/%s", fx_registry, text);
    return name;
}

size_t fx_count(const char *format, ...)
{
    char path[512];
    va_list ap;
    size_t n = 0;
    struct dirent *entry;
    DIR *dir;

    va_start(ap, format);
    vsnprintf(path, sizeof(path), format, ap);
    va_end(ap);
    dir = opendir(path);
    while (dir && (entry = readdir(dir)) != NULL)
        n += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n;
}

void fx_idle(struct loop *loop, const char *folder)
{
    int64_t end = clock_monotonic() + WAIT_NS;

    while (fx_count("%s/%s", fx_top, folder) > 0 && clock_monotonic() < end)
        loop_turn(loop, 20, NULL);
    assert_int_equal(fx_count("%s/%s", fx_top, folder), 0);
}
