/* The store against a real registry, real mounts and a real process that is killed. Needs root. */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "fixture.h"
#include "image/sum.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const struct tar_row base_rows[] = {
    {'d', "etc", NULL, 0755},
    {'-', "etc/passwd", "root:x:0:0::/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\n"},
    {'-', "etc/group", "root:x:0:\nme:x:1000:\ngpu:x:44:me\n"},
    {'-', "etc/gone", "will be deleted"},
    {'d', "opt/old", NULL, 0755},
    {'-', "opt/old/file", "hidden by an opaque folder"},
    {'-', "bin/su", "setuid", 04755},
    {'d', "tmp", NULL, 01777},
};
static const struct tar_row top_rows[] = {
    {'-', "etc/.wh.gone"},       {'d', "opt/old", NULL, 0755}, {'-', "opt/old/.wh..wh..opq"},
    {'-', "opt/old/new", "new"}, {'-', "etc/motd", "hello"},
};
static const struct tar_row other_rows[] = {{'-', "other", "another image on the same base"}};
static const struct tar_row hostile_rows[] = {{'-', "../../../../evil", "evil"}};
static const struct tar_row big_rows[] = {{'-', "x", "y"}, {'-', "z", "another one that nobody else has"}};

#define LAYER(rows, filter)                                                                                  \
    {                                                                                                        \
        rows, ARRAY_LEN(rows), filter                                                                        \
    }
static const struct fx_layer two[] = {LAYER(base_rows, "gzip"), LAYER(top_rows, "zstd")};
static const struct fx_layer three[] = {LAYER(base_rows, "gzip"), LAYER(other_rows, "gzip")};
static const struct fx_layer hostile[] = {LAYER(base_rows, "gzip"), LAYER(hostile_rows, "gzip")};
static const struct fx_layer spoilt[] = {LAYER(base_rows, "gzip"), LAYER(big_rows, "gzip")};
static const char config[] = "{\"Env\":[\"PATH=/bin\"],\"Cmd\":[\"sh\"],\"User\":\"me\"}";

static struct loop *loop;

static int setup(void **state)
{
    (void)state;
    loop = loop_new();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    loop_free(loop);
    return 0;
}

static char *path_of(const char *name)
{
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % ARRAY_LEN(paths)];

    snprintf(path, sizeof(paths[0]), "%s/%s", fx_top, name);
    return path;
}

/* Pushed once for all tests. */
static void push_all(void)
{
    fx_layout(path_of("l-two"), two, ARRAY_LEN(two), config, true);
    fx_push(path_of("l-two"), "net:v1");
    fx_push(path_of("l-two"), "net:moves");
    fx_layout(path_of("l-three"), three, ARRAY_LEN(three), NULL, false);
    fx_push(path_of("l-three"), "deep/er/other:v1");
    fx_layout(path_of("l-hostile"), hostile, ARRAY_LEN(hostile), NULL, false);
    fx_push(path_of("l-hostile"), "hostile:v1");
    fx_layout(path_of("l-spoilt"), spoilt, ARRAY_LEN(spoilt), NULL, false);
    fx_push(path_of("l-spoilt"), "spoilt:v1");
    fx_damage(fx_blob(path_of("l-spoilt"), 1));
}

static void need_registry(void)
{
    if (!fx_has_registry()) {
        print_message("docker-registry or htpasswd is not installed\n");
        skip();
    }
}

static void expect_ok(struct outcome outcome)
{
    if (!outcome.ok)
        fail_msg("%s: %s", image_fail_name(outcome.fail), outcome.sentence);
}

static void expect_fail(struct outcome outcome, enum image_fail fail)
{
    if (outcome.fail != fail)
        fail_msg("'%s' (%s), not '%s'", image_fail_name(outcome.fail), outcome.sentence,
                 image_fail_name(fail));
    assert_true(outcome.sentence[0]);
    assert_null(strstr(outcome.sentence, PASSWORD));
    assert_null(strchr(outcome.sentence, '\n'));
}

/* ---- pulls ---- */

static void test_password_decides(void **state)
{
    struct images *images;
    const struct image *image;
    const char *auths[2];
    struct image_pull_spec spec = {.image = fx_name("net:v1"), .auths = auths, .auths_len = 2};
    struct outcome both = {0};
    CLEANUP(free) char *first = NULL;
    char pinned[IMAGE_REF_MAX], name[64];

    (void)state;
    need_registry();
    images = fx_open(loop, "s-password", NULL);
    expect_fail(fx_pull(images, loop, fx_name("net:v1"), IMAGE_IF_NOT_PRESENT, NULL),
                IMAGE_FAIL_UNAUTHORIZED);
    expect_fail(fx_pull(images, loop, fx_name("net:v1"), IMAGE_IF_NOT_PRESENT, fx_auth("wrong")),
                IMAGE_FAIL_UNAUTHORIZED);
    assert_null(images_find(images, fx_name("net:v1")));
    /* The first that fits is tried first, then the next. */
    first = mem_strdup(fx_auth("wrong"));
    auths[0] = first;
    auths[1] = fx_auth(PASSWORD);
    images_pull(images, &spec, &fx_events, &both);
    fx_wait(loop, &both);
    expect_ok(both);
    assert_true(both.fetched);
    assert_int_equal(both.unpacked, 2);
    image = images_find(images, fx_name("net:v1"));
    assert_non_null(image);
    assert_string_equal(image->id, both.id);
    assert_string_equal(image->config.user, "me");
    assert_string_equal(image->config.env[0], "PATH=/bin");
    assert_int_equal(image->layers_len, 2);
    images_pinned(images, fx_name("net:v1"), pinned);
    snprintf(name, sizeof(name), "%s/net@", fx_registry);
    assert_true(starts_with(pinned, name));
    assert_ptr_equal(images_find(images, pinned), image);
    assert_false(streq(image->digest, image->id)); /* came through an index */
    /* Here now: no password needed, nothing fetched. */
    both = fx_pull(images, loop, fx_name("net:v1"), IMAGE_IF_NOT_PRESENT, NULL);
    expect_ok(both);
    assert_false(both.fetched);
    expect_ok(fx_pull(images, loop, pinned, IMAGE_ALWAYS, fx_auth(PASSWORD)));
    assert_int_equal(fx_count("%s/run/image-auth", fx_top), 0);
    assert_int_equal(fx_count("%s/s-password/staging", fx_top), 0);
    images_free(images);
}

static void test_stored_login_is_used(void **state)
{
    struct images *images;
    struct err err = {0};
    struct stat st;

    (void)state;
    need_registry();
    images = fx_open(loop, "s-login", NULL);
    assert_int_equal(images_login(images, fx_registry, USER, PASSWORD, &err), 0);
    assert_int_equal(stat(path_of("s-login/auth.json"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    expect_ok(fx_pull(images, loop, fx_name("net:v1"), IMAGE_ALWAYS, NULL));
    assert_int_equal(images_login(images, fx_registry, NULL, NULL, &err), 0);
    expect_fail(fx_pull(images, loop, fx_name("net:v1"), IMAGE_ALWAYS, NULL), IMAGE_FAIL_UNAUTHORIZED);
    images_free(images);
}

static void test_failures_say_what_they_are(void **state)
{
    struct images *images;

    (void)state;
    need_registry();
    images = fx_open(loop, "s-fail", NULL);
    expect_fail(fx_pull(images, loop, "--help", IMAGE_ALWAYS, NULL), IMAGE_FAIL_NAME);
    expect_fail(fx_pull(images, loop, "none:v1", IMAGE_NEVER, NULL), IMAGE_FAIL_NEVER);
    expect_fail(fx_pull(images, loop, fx_name("net:none"), IMAGE_ALWAYS, fx_auth(PASSWORD)),
                IMAGE_FAIL_NOT_FOUND);
    expect_fail(fx_pull(images, loop, fx_name("none:v1"), IMAGE_ALWAYS, fx_auth(PASSWORD)),
                IMAGE_FAIL_NOT_FOUND);
    expect_fail(fx_pull(images, loop, "127.0.0.1:1/none:v1", IMAGE_ALWAYS, NULL), IMAGE_FAIL_UNREACHABLE);
    expect_fail(fx_pull(images, loop, fx_name("hostile:v1"), IMAGE_ALWAYS, fx_auth(PASSWORD)),
                IMAGE_FAIL_INVALID);
    assert_true(access("/evil", F_OK) < 0);
    expect_fail(fx_pull(images, loop, fx_name("spoilt:v1"), IMAGE_ALWAYS, fx_auth(PASSWORD)),
                IMAGE_FAIL_DIGEST);
    assert_null(images_find(images, fx_name("spoilt:v1")));
    /* The layer that was right stayed, and is not fetched again. */
    assert_int_equal(fx_count("%s/s-fail/layers", fx_top), 1);
    images_free(images);
    images = fx_open(loop, "s-fail", NULL);
    assert_int_equal(fx_count("%s/s-fail/layers", fx_top), 1);
    images_free(images);
    /* But not after the machine was started anew, since nothing has synced it. */
    assert_int_equal(file_write_atomic(path_of("s-fail/boot"), STR("another"), 0600, NULL), 0);
    images = fx_open(loop, "s-fail", NULL);
    assert_int_equal(fx_count("%s/s-fail/layers", fx_top), 0);
    expect_ok(fx_pull(images, loop, fx_name("net:v1"), IMAGE_ALWAYS, fx_auth(PASSWORD)));
    fx_idle(loop, "s-fail/trash");
    assert_int_equal(fx_count("%s/s-fail/staging", fx_top), 0);
    assert_int_equal(fx_count("%s/run/image-auth", fx_top), 0);
    images_free(images);
}

static void little_space(struct images_config *c)
{
    c->reserve_bytes = INT64_C(1) << 60;
}

static void few_files(struct images_config *c)
{
    c->files_max = 3;
}

static void test_limits_fail_the_pull_only(void **state)
{
    struct images *images;

    (void)state;
    need_registry();
    images = fx_open(loop, "s-space", little_space);
    expect_fail(fx_pull(images, loop, fx_name("net:v1"), IMAGE_ALWAYS, fx_auth(PASSWORD)),
                IMAGE_FAIL_NO_SPACE);
    images_free(images);
    images = fx_open(loop, "s-space", few_files);
    expect_fail(fx_pull(images, loop, fx_name("net:v1"), IMAGE_ALWAYS, fx_auth(PASSWORD)), IMAGE_FAIL_LIMIT);
    fx_idle(loop, "s-space/trash");
    assert_int_equal(fx_count("%s/s-space/layers", fx_top), 0);
    images_free(images);
}

static void short_stall(struct images_config *c)
{
    c->stall_sec = 1;
}

/* A server that takes connections and never says a word: the kernel does that for a socket nobody accepts
 * from. */
static int stalling_server(char name[64])
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);

    assert_int_equal(bind(fd, (struct sockaddr *)&addr, len), 0);
    assert_int_equal(listen(fd, 10), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
    snprintf(name, 64, "127.0.0.1:%d/stall:v1", ntohs(addr.sin_port));
    return fd;
}

static void test_stalling_registry_fails_that_pull_only(void **state)
{
    struct images *images;
    struct outcome stalled = {0};
    char name[64];
    int fd;

    (void)state;
    need_registry();
    fd = stalling_server(name);
    images = fx_open(loop, "s-stall", short_stall);
    images_pull(images, &(struct image_pull_spec){.image = name}, &fx_events, &stalled);
    expect_ok(fx_pull(images, loop, fx_name("net:v1"), IMAGE_ALWAYS, fx_auth(PASSWORD)));
    fx_wait(loop, &stalled);
    expect_fail(stalled, IMAGE_FAIL_STALLED);
    images_free(images);
    close(fd);
}

static char ca_file[512];

static void with_ca(struct images_config *c)
{
    static struct images_registry registry;

    registry = (struct images_registry){.host = fx_tls_registry, .ca_file = ca_file};
    c->registries = &registry;
}

static void without_ca(struct images_config *c)
{
    c->registries_len = 0;
}

static void test_certificate_of_our_own_is_believed_where_set(void **state)
{
    char name[64];
    struct images *images;

    (void)state;
    need_registry();
    snprintf(ca_file, sizeof(ca_file), "%s", path_of("tls.crt"));
    fx_start_tls(ca_file, path_of("tls.key"));
    snprintf(name, sizeof(name), "%s/none:v1", fx_tls_registry);
    images = fx_open(loop, "s-tls", without_ca);
    expect_fail(fx_pull(images, loop, name, IMAGE_ALWAYS, NULL), IMAGE_FAIL_UNREACHABLE);
    images_free(images);
    images = fx_open(loop, "s-tls", with_ca);
    expect_fail(fx_pull(images, loop, name, IMAGE_ALWAYS, NULL), IMAGE_FAIL_NOT_FOUND);
    assert_int_equal(fx_count("%s/run/image-auth", fx_top), 0);
    images_free(images);
}

static void test_cancelled_pull_says_nothing_and_leaves_nothing(void **state)
{
    struct images *images;
    struct outcome outcome = {0}, joined = {0};
    struct image_pull *pull, *second;
    int64_t end;
    char name[64];
    int fd;

    (void)state;
    need_registry();
    fd = stalling_server(name);
    images = fx_open(loop, "s-cancel", NULL);
    pull = images_pull(images, &(struct image_pull_spec){.image = name}, &fx_events, &outcome);
    second = images_pull(images, &(struct image_pull_spec){.image = name}, &fx_events, &joined);
    end = clock_monotonic() + 300 * NSEC_PER_MSEC;
    while (clock_monotonic() < end)
        loop_turn(loop, 50, NULL);
    assert_int_equal(fx_count("%s/s-cancel/staging", fx_top), 1); /* shared */
    image_pull_cancel(pull);
    loop_turn(loop, 50, NULL);
    assert_int_equal(fx_count("%s/s-cancel/staging", fx_top), 1);
    image_pull_cancel(second);
    fx_idle(loop, "s-cancel/staging");
    assert_false(outcome.done || joined.done);
    fx_idle(loop, "s-cancel/trash");
    /* Freed with a pull under way. */
    images_pull(images, &(struct image_pull_spec){.image = name}, &fx_events, &outcome);
    for (int i = 0; i < 5; i++)
        loop_turn(loop, 20, NULL);
    images_free(images);
    assert_false(outcome.done);
    close(fd);
}

static void test_pulls_at_once_share_fetches_and_layers(void **state)
{
    const char *auth = fx_auth(PASSWORD);
    struct images *images;
    struct outcome outcomes[8] = {0};
    size_t unpacked = 0;

    (void)state;
    need_registry();
    images = fx_open(loop, "s-share", NULL);
    for (size_t i = 0; i < ARRAY_LEN(outcomes); i++) {
        struct image_pull_spec spec = {
            .image = fx_name(i % 2 ? "net:v1" : "deep/er/other:v1"),
            .policy = IMAGE_ALWAYS,
            .auths = &auth,
            .auths_len = 1,
        };

        images_pull(images, &spec, &fx_events, &outcomes[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(outcomes); i++) {
        fx_wait(loop, &outcomes[i]);
        expect_ok(outcomes[i]);
    }
    for (size_t i = 0; i < 2; i++) /* one of each job; the others heard the same */
        unpacked += outcomes[i].unpacked;
    assert_int_equal(unpacked, 3); /* the base once, and one of each */
    assert_int_equal(fx_count("%s/s-share/layers", fx_top), 3);
    images_free(images);
}

static void test_moved_tag_is_seen_by_always_only(void **state)
{
    struct images *images;
    struct images_entry *list;
    struct outcome before, after;

    (void)state;
    need_registry();
    images = fx_open(loop, "s-move", NULL);
    before = fx_pull(images, loop, fx_name("net:moves"), IMAGE_ALWAYS, fx_auth(PASSWORD));
    expect_ok(before);
    fx_push(path_of("l-three"), "net:moves");
    after = fx_pull(images, loop, fx_name("net:moves"), IMAGE_IF_NOT_PRESENT, NULL);
    assert_string_equal(after.id, before.id);
    after = fx_pull(images, loop, fx_name("net:moves"), IMAGE_ALWAYS, fx_auth(PASSWORD));
    expect_ok(after);
    assert_string_not_equal(after.id, before.id);
    assert_int_equal(after.unpacked, 1); /* the base was here */
    assert_int_equal(images_list(images, &list), 2);
    assert_null(list[0].name); /* the older one has lost its name */
    assert_string_equal(list[1].image->id, after.id);
    free(list);
    images_free(images);
}

/* ---- archives ---- */

static void test_archives_are_imported(void **state)
{
    const char *const save[] = {"skopeo", "--insecure-policy", "copy", NULL, NULL, NULL};
    const char *argv[ARRAY_LEN(save)];
    CLEANUP(buf_done) struct buf tar = {0};
    CLEANUP(free) char *from = NULL;
    CLEANUP(free) char *plain = NULL;
    CLEANUP(free) char *docker = NULL;
    CLEANUP(free) char *oci = NULL;
    struct images *images;
    struct outcome outcome, again;

    (void)state;
    images = fx_open(loop, "s-import", NULL);
    fx_layout(path_of("l-import"), two, ARRAY_LEN(two), config, true);
    outcome = fx_import(images, loop, path_of("l-import"), "localhost/layout:v1");
    expect_ok(outcome);
    assert_int_equal(outcome.unpacked, 2);
    tar_make(base_rows, ARRAY_LEN(base_rows), "xz", &tar);
    assert_int_equal(file_write_atomic(path_of("root.tar.xz"), buf_view(&tar), 0600, NULL), 0);
    expect_ok(fx_import(images, loop, path_of("root.tar.xz"), "localhost/plain"));
    assert_string_equal(images_find(images, "localhost/plain")->config.cmd[0], "/bin/sh");
    expect_fail(fx_import(images, loop, path_of("nothing-there"), "x"), IMAGE_FAIL_NOT_FOUND);
    expect_fail(fx_import(images, loop, "/dev/null", "x"), IMAGE_FAIL_INVALID);
    expect_fail(fx_import(images, loop, path_of("l-import/index.json"), "x"), IMAGE_FAIL_INVALID);
    if (fx_has_registry()) { /* skopeo is here */
        memcpy(argv, save, sizeof(save));
        /* Docker's archives know no zstd. */
        fx_layout(path_of("l-gzip"), three, ARRAY_LEN(three), config, false);
        plain = mem_printf("oci:%s", path_of("l-gzip"));
        from = mem_printf("oci:%s", path_of("l-import"));
        docker = mem_printf("docker-archive:%s:x:y", path_of("docker.tar"));
        oci = mem_printf("oci-archive:%s:v1", path_of("oci.tar"));
        argv[3] = plain;
        argv[4] = docker;
        fx_run(argv);
        argv[3] = from;
        argv[4] = oci;
        fx_run(argv);
        expect_ok(fx_import(images, loop, path_of("docker.tar"), "localhost/docker:v1"));
        assert_string_equal(images_find(images, "localhost/docker:v1")->config.user, "me");
        again = fx_import(images, loop, path_of("oci.tar"), "localhost/oci:v1");
        expect_ok(again);
        assert_string_equal(again.id, outcome.id);
        assert_int_equal(again.unpacked, 0);
    }
    fx_idle(loop, "s-import/trash");
    assert_int_equal(fx_count("%s/s-import/staging", fx_top), 0);
    images_free(images);
}

/* ---- mounts ---- */

static bool there(const char *root, const char *name)
{
    CLEANUP(free) char *path = mem_printf("%s/%s", root, name);

    return access(path, F_OK) == 0;
}

static struct images *store_with_image(const char *name)
{
    struct images *images = fx_open(loop, name, NULL);

    fx_layout(path_of("l-mount"), two, ARRAY_LEN(two), config, false);
    expect_ok(fx_import(images, loop, path_of("l-mount"), "localhost/m:v1"));
    return images;
}

static void test_mount_shows_layers_and_keeps_writes_apart(void **state)
{
    struct images *images = store_with_image("s-mount");
    struct image_mount_spec spec = {
        .image = images_find(images, "localhost/m:v1"), .id = "c1", .dir = path_of("c1")};
    CLEANUP(free) char *root = NULL;
    CLEANUP(free) char *file = NULL;
    struct image_user user;
    struct err err = {0};
    int64_t begun = clock_monotonic();
    struct stat st;

    (void)state;
    if (image_mount(images, &spec, &root, &err) < 0)
        fail_msg("%s", err.msg);
    printf("mounted in %.2f ms\n", (double)(clock_monotonic() - begun) / 1e6);
    assert_true(there(root, "etc/motd"));
    assert_false(there(root, "etc/gone"));
    assert_false(there(root, "opt/old/file"));
    assert_true(there(root, "opt/old/new"));
    file = mem_printf("%s/bin/su", root);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 04755);
    assert_int_equal(stat(root, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    assert_int_equal(image_user(root, spec.image->config.user, &user, &err), 0);
    assert_int_equal(user.uid, 1000);
    assert_int_equal(user.groups[0], 44);
    assert_int_equal(unlink(file), 0);
    free(file);
    file = mem_printf("%s/written", root);
    assert_int_equal(file_write_atomic(file, STR("x"), 0600, &err), 0);
    assert_true(image_mounted(images, "c1"));
    assert_int_equal(image_mount(images, &spec, &root, &err), -1);
    assert_int_equal(err.code, ERR_EXISTS);
    assert_int_equal(images_remove(images, "localhost/m:v1", &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    /* Unmounted and mounted again it is as it was left; discarded it is as new. */
    assert_int_equal(image_unmount(images, "c1", false, &err), 0);
    assert_false(there(root, "etc"));
    free(TAKE_PTR(root));
    assert_int_equal(image_mount(images, &spec, &root, &err), 0);
    assert_true(there(root, "written"));
    assert_false(there(root, "bin/su"));
    assert_int_equal(image_unmount(images, "c1", true, &err), 0);
    free(TAKE_PTR(root));
    assert_int_equal(image_mount(images, &spec, &root, &err), 0);
    assert_false(there(root, "written"));
    assert_true(there(root, "bin/su"));
    assert_int_equal(image_unmount(images, "c1", true, &err), 0);
    assert_int_equal(image_unmount(images, "c1", true, &err), 0);
    fx_idle(loop, "s-mount/trash");
    assert_int_equal(fx_count("%s/c1", fx_top), 2); /* empty ones, for the next mount */
    images_free(images);
}

static void test_untouched_root_is_the_next_containers(void **state)
{
    struct images *images = store_with_image("s-spare");
    struct image_mount_spec spec = {.image = images_find(images, "localhost/m:v1"),
                                    .id = "c1",
                                    .dir = path_of("c-spare1"),
                                    .owner = "ann"};
    CLEANUP(free) char *first = NULL, *root = NULL, *file = NULL;
    struct stat st;

    (void)state;
    assert_int_equal(image_mount(images, &spec, &first, NULL), 0);
    assert_true(image_spare(images, "c1"));
    assert_false(image_mounted(images, "c1") || there(first, "etc"));
    spec.id = "c2";
    spec.dir = path_of("c-spare2");
    assert_int_equal(image_mount(images, &spec, &root, NULL), 0);
    assert_string_equal(image_mount_dir(images, "c2"), path_of("c-spare1"));
    assert_true(there(root, "etc/motd"));
    /* Its mode is another, then something lies in it. */
    assert_int_equal(chmod(root, 0700), 0);
    assert_false(image_spare(images, "c2"));
    assert_int_equal(chmod(root, 0755), 0);
    file = mem_printf("%s/written", root);
    assert_int_equal(file_write_atomic(file, STR("x"), 0600, NULL), 0);
    assert_false(image_spare(images, "c2"));
    assert_int_equal(image_unmount(images, "c2", true, NULL), 0);
    /* Spare ones do not keep an image. */
    free(TAKE_PTR(root));
    assert_int_equal(image_mount(images, &spec, &root, NULL), 0);
    assert_string_equal(image_mount_dir(images, "c2"), path_of("c-spare2"));
    assert_int_equal(stat(root, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    assert_true(image_spare(images, "c2"));
    assert_int_equal(images_remove(images, "localhost/m:v1", NULL), 0);
    fx_idle(loop, "s-spare/trash");
    assert_int_equal(fx_count("%s/s-spare/mounts", fx_top), 0);
    images_free(images);
}

/* A descriptor of the old root, passed on before its container ended, still reaches it. */
static void test_untouched_root_is_not_another_owners(void **state)
{
    struct images *images = store_with_image("s-owner");
    struct image_mount_spec spec = {
        .image = images_find(images, "localhost/m:v1"), .id = "c1", .dir = path_of("c-own1"), .owner = "ann"};
    CLEANUP(free) char *first = NULL, *second = NULL, *third = NULL;

    (void)state;
    assert_int_equal(image_mount(images, &spec, &first, NULL), 0);
    assert_true(image_spare(images, "c1"));
    spec =
        (struct image_mount_spec){.image = spec.image, .id = "c2", .dir = path_of("c-own2"), .owner = "bob"};
    assert_int_equal(image_mount(images, &spec, &second, NULL), 0);
    assert_string_equal(image_mount_dir(images, "c2"), path_of("c-own2"));
    spec = (struct image_mount_spec){.image = spec.image, .id = "c3", .dir = path_of("c-own3")};
    assert_int_equal(image_mount(images, &spec, &third, NULL), 0);
    assert_string_equal(image_mount_dir(images, "c3"), path_of("c-own3"));
    assert_false(image_spare(images, "c3")); /* nobody knows whose it was */
    assert_int_equal(image_unmount(images, "c2", true, NULL), 0);
    assert_int_equal(image_unmount(images, "c3", true, NULL), 0);
    assert_int_equal(images_remove(images, "localhost/m:v1", NULL), 0);
    fx_idle(loop, "s-owner/trash");
    images_free(images);
}

static void test_readonly_mount_takes_no_writes(void **state)
{
    struct images *images = store_with_image("s-ro");
    struct image_mount_spec spec = {.image = images_find(images, "localhost/m:v1"),
                                    .id = "c1",
                                    .dir = path_of("c-ro,with:odd\\name"),
                                    .readonly = true};
    CLEANUP(free) char *root = NULL;
    CLEANUP(free) char *file = NULL;
    struct err err = {0};

    (void)state;
    if (image_mount(images, &spec, &root, &err) < 0)
        fail_msg("%s", err.msg);
    assert_true(there(root, "etc/motd"));
    file = mem_printf("%s/x", root);
    assert_true(open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0 && errno == EROFS);
    assert_int_equal(image_unmount(images, "c1", true, &err), 0);
    images_free(images);
}

static void test_many_layers_can_be_mounted(void **state)
{
    static struct tar_row rows[IMAGE_LAYERS_MAX];
    static struct fx_layer layers[IMAGE_LAYERS_MAX];
    static char names[IMAGE_LAYERS_MAX][16];
    struct images *images = fx_open(loop, "s-many", NULL);
    struct image_mount_spec spec = {.id = "many", .dir = path_of("c-many")};
    CLEANUP(free) char *root = NULL;
    struct err err = {0};
    int64_t begun;

    (void)state;
    for (size_t i = 0; i < IMAGE_LAYERS_MAX; i++) {
        snprintf(names[i], sizeof(names[i]), "file%zu", i % 150); /* the last ten are the first again */
        rows[i] = (struct tar_row){'-', names[i], names[i]};
        layers[i] = (struct fx_layer){&rows[i], 1, ""};
    }
    fx_layout(path_of("l-many"), layers, IMAGE_LAYERS_MAX, NULL, false);
    expect_ok(fx_import(images, loop, path_of("l-many"), "localhost/many:v1"));
    assert_int_equal(fx_count("%s/s-many/layers", fx_top), 150);
    spec.image = images_find(images, "localhost/many:v1");
    begun = clock_monotonic();
    if (image_mount(images, &spec, &root, &err) < 0)
        fail_msg("%s", err.msg);
    printf("%d layers mounted in %.2f ms\n", IMAGE_LAYERS_MAX, (double)(clock_monotonic() - begun) / 1e6);
    assert_true(there(root, "file0") && there(root, "file149"));
    assert_int_equal(image_unmount(images, "many", true, &err), 0);
    images_free(images);
}

static void test_host_root_is_seen_and_not_changed(void **state)
{
    struct images *images = fx_open(loop, "s-host", NULL);
    CLEANUP(free) char *dir = mem_strdup(path_of("c-host"));
    CLEANUP(free) char *store = mem_strdup(path_of("s-host"));
    struct image_mount_spec spec = {.id = "h1", .dir = dir};
    const char *const hide[] = {"/usr/share/doc", NULL};
    CLEANUP(image_host_free) struct image_host *host = NULL;
    CLEANUP(free) char *root = NULL;
    CLEANUP(free) char *file = NULL;
    struct err err = {0};
    bool own = false, shadow = false;

    (void)state;
    if (image_mount(images, &spec, &root, &err) < 0)
        fail_msg("%s", err.msg);
    assert_true(there(root, "etc/passwd"));
    file = mem_printf("%s/etc/berth-was-here", root);
    assert_int_equal(file_write_atomic(file, STR("x"), 0600, &err), 0);
    assert_true(access("/etc/berth-was-here", F_OK) < 0);
    assert_int_equal(image_host_new(images, hide, &host, &err), 0);
    for (size_t i = 0; i < host->masked_len; i++) {
        own |= streq(host->masked[i], store);
        shadow |= streq(host->masked[i], "/etc/shadow");
    }
    assert_true(own && shadow);
    for (size_t i = 0; i < host->mounts_len; i++)
        assert_false(starts_with(host->mounts[i].path, "/proc") || streq(host->mounts[i].path, "/"));
    assert_true(starts_with(host->config.env[0], "PATH="));
    assert_int_equal(image_unmount(images, "h1", true, &err), 0);
    free(TAKE_PTR(root));
    spec.readonly = true;
    if (image_mount(images, &spec, &root, &err) < 0)
        fail_msg("%s", err.msg);
    assert_true(there(root, "etc/passwd"));
    assert_true(open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0 && errno == EROFS);
    assert_int_equal(image_unmount(images, "h1", true, &err), 0);
    images_free(images);
}

/* ---- what stays, what goes ---- */

static void make_old(const char *store, const char *id)
{
    CLEANUP(free) char *path = mem_printf("%s/%s/images/%s.json", fx_top, store, sum_hex(id));
    const struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};

    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void test_folders_that_a_layer_leaves_out_keep_owner_and_mode(void **state)
{
    static const struct tar_row base[] = {{'d', "tmp", .mode = 01777},
                                          {'d', "home", .mode = 0755},
                                          {'d', "home/me", .mode = 0700, .uid = 1234, .gid = 2345},
                                          {'d', "gone", .mode = 0700}};
    static const struct tar_row top[] = {
        {'-', "tmp/x", "x"}, {'-', "home/me/deep/y", "y"}, {'-', "new/z", "z"}, {'d', "home", .mode = 0711}};
    static const struct tar_row last[] = {{'-', "home/me/deep/w", "w"}};
    static const struct fx_layer layers[] = {LAYER(base, "gzip"), LAYER(top, "gzip"), LAYER(last, "gzip")};
    static const struct {
        const char *path;
        mode_t mode;
        uid_t uid;
    } rows[] = {{"tmp", 01777, 0},         {"home", 0711, 0}, {"home/me", 0700, 1234},
                {"home/me/deep", 0755, 0}, {"new", 0755, 0},  {"gone", 0700, 0}};
    struct images *images = fx_open(loop, "s-parents", NULL);
    struct image_mount_spec spec = {.id = "c1", .dir = path_of("c-parents")};
    CLEANUP(free) char *root = NULL;
    struct err err = {0};

    (void)state;
    fx_layout(path_of("l-parents"), layers, ARRAY_LEN(layers), NULL, false);
    expect_ok(fx_import(images, loop, path_of("l-parents"), "localhost/parents:v1"));
    spec.image = images_find(images, "localhost/parents:v1");
    if (image_mount(images, &spec, &root, &err) < 0)
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(free) char *path = mem_printf("%s/%s", root, rows[i].path);
        struct stat st;

        assert_int_equal(stat(path, &st), 0);
        if ((st.st_mode & 07777) != rows[i].mode || st.st_uid != rows[i].uid)
            fail_msg("%s: %o of %u", rows[i].path, st.st_mode & 07777, st.st_uid);
    }
    assert_int_equal(image_unmount(images, "c1", true, &err), 0);
    images_free(images);
}

static void test_collection_takes_what_nobody_needs(void **state)
{
    struct images *images = store_with_image("s-gc");
    struct image_mount_spec spec = {.id = "c1", .dir = path_of("c-gc")};
    CLEANUP(free) char *root = NULL;
    struct images_gc gc;
    struct err err = {0};
    struct outcome other;
    char id[IMAGE_DIGEST_MAX];

    (void)state;
    fx_layout(path_of("l-gc"), three, ARRAY_LEN(three), NULL, false);
    other = fx_import(images, loop, path_of("l-gc"), "localhost/other:v1");
    expect_ok(other);
    assert_int_equal(fx_count("%s/s-gc/layers", fx_top), 3);
    images_gc(images, &gc);
    assert_int_equal(gc.images, 0); /* used just now */
    snprintf(id, sizeof(id), "%s", images_find(images, "localhost/m:v1")->id);
    images_free(images);
    make_old("s-gc", id);
    make_old("s-gc", other.id);
    images = fx_open(loop, "s-gc", NULL);
    spec.image = images_find(images, "localhost/m:v1");
    assert_int_equal(image_mount(images, &spec, &root, &err), 0);
    images_gc(images, &gc);
    assert_int_equal(gc.images, 1);
    assert_int_equal(gc.layers, 1); /* the base is the other one's, too */
    assert_null(images_find(images, "localhost/other:v1"));
    make_old("s-gc", id);
    images_free(images);
    images = fx_open(loop, "s-gc", NULL); /* the mount is found again */
    images_gc(images, &gc);
    assert_int_equal(gc.images, 0);
    assert_true(there(root, "etc/motd"));
    assert_int_equal(image_unmount(images, "c1", true, &err), 0);
    expect_ok(fx_import(images, loop, path_of("l-mount"), "localhost/same:v2"));
    assert_int_equal(images_remove(images, "localhost/m:v1", &err), 0);
    assert_non_null(images_find(images, "localhost/same:v2"));
    assert_int_equal(images_remove(images, "localhost/same:v2", &err), 0);
    assert_int_equal(images_remove(images, "localhost/same:v2", &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    fx_idle(loop, "s-gc/layers");
    fx_idle(loop, "s-gc/trash");
    images_free(images);
}

static bool keep_none(void *arg, const char *id)
{
    (void)arg;
    return streq(id, "wanted");
}

/* A process that opens the store, mounts, pulls from a registry that stalls, and is killed. */
static void test_killed_process_leaves_nothing_half_done(void **state)
{
    struct images *images = store_with_image("s-kill");
    char name[64];
    int server = stalling_server(name), ready[2];
    struct err err = {0};
    char byte;
    pid_t pid;

    (void)state;
    images_free(images);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        struct loop *own = loop_new();
        struct image_mount_spec a = {.id = "wanted", .dir = path_of("c-wanted")};
        struct image_mount_spec b = {.id = "unwanted", .dir = path_of("c-unwanted")};
        struct outcome outcome = {0};
        char *root;

        images = fx_open(own, "s-kill", NULL);
        a.image = b.image = images_find(images, "localhost/m:v1");
        images_pull(images, &(struct image_pull_spec){.image = name}, &fx_events, &outcome);
        if (image_mount(images, &a, &root, &err) < 0 || image_mount(images, &b, &root, &err) < 0)
            _exit(1);
        for (int i = 0; i < 6; i++)
            loop_turn(own, 50, NULL);
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            loop_turn(own, 50, NULL);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(fx_count("%s/s-kill/staging", fx_top), 1);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    usleep(100000);
    /* What a cut off write leaves. */
    assert_int_equal(file_write_atomic(path_of("s-kill/images/half.json.1234.tmp"), STR("{"), 0600, &err), 0);
    assert_int_equal(file_write_atomic(path_of("s-kill/names/half.json.1234.tmp"), STR("{"), 0600, &err), 0);
    images = fx_open(loop, "s-kill", NULL);
    assert_int_equal(fx_count("%s/s-kill/staging", fx_top), 0);
    assert_int_equal(fx_count("%s/run/image-auth", fx_top), 0);
    assert_int_equal(fx_count("%s/s-kill/images", fx_top), 1);
    assert_int_equal(fx_count("%s/s-kill/names", fx_top), 1);
    assert_non_null(images_find(images, "localhost/m:v1"));
    assert_true(image_mounted(images, "wanted") && image_mounted(images, "unwanted"));
    images_sweep(images, keep_none, NULL);
    assert_true(image_mounted(images, "wanted"));
    assert_false(image_mounted(images, "unwanted"));
    assert_false(there(path_of("c-unwanted/root"), "etc"));
    assert_int_equal(image_unmount(images, "wanted", true, &err), 0);
    fx_idle(loop, "s-kill/trash");
    images_free(images);
    close(server);
    close(ready[0]);
    close(ready[1]);
}

/* Every layer in the store is whole. */
static void expect_whole_layers(const char *store)
{
    CLEANUP(free) char *path = mem_printf("%s/%s/layers", fx_top, store);
    DIR *dir = opendir(path);
    struct dirent *entry;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        CLEANUP(free) char *meta = mem_printf("%s/meta.json", entry->d_name);

        if (entry->d_name[0] == '.')
            continue;
        assert_true(there(path, meta));
        assert_int_equal(fx_count("%s/%s/fs", path, entry->d_name), 1);
    }
    closedir(dir);
}

static void test_killed_at_any_moment_goes_on_where_it_was(void **state)
{
    enum { LAYERS = 40, ROUNDS = 200 };
    static struct tar_row rows[LAYERS];
    static struct fx_layer layers[LAYERS];
    static char names[LAYERS][16];
    bool found = false;
    int round;

    (void)state;
    for (size_t i = 0; i < LAYERS; i++) {
        snprintf(names[i], sizeof(names[i]), "f%zu", i);
        rows[i] = (struct tar_row){'-', names[i], names[i]};
        layers[i] = (struct fx_layer){&rows[i], 1, "zstd"};
    }
    fx_layout(path_of("l-any"), layers, LAYERS, NULL, false);
    for (round = 0; round < ROUNDS && !found; round++) {
        struct images *images;
        unsigned char random;
        pid_t pid = fork();

        if (pid == 0) {
            struct loop *own = loop_new();
            struct outcome outcome = {0};

            images = fx_open(own, "s-any", NULL);
            images_import(images, path_of("l-any"), "localhost/any:v1", &fx_events, &outcome);
            while (!outcome.done)
                loop_turn(own, 50, NULL);
            _exit(outcome.ok ? 0 : 1);
        }
        random_bytes(&random, sizeof(random));
        usleep(20000 + 1200 * (useconds_t)random + 5000 * (useconds_t)round);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        expect_whole_layers("s-any");
        images = fx_open(loop, "s-any", NULL);
        found = images_find(images, "localhost/any:v1") != NULL;
        images_free(images);
    }
    printf("complete after being killed %d times\n", round);
    assert_true(found);
    assert_int_equal(fx_count("%s/s-any/layers", fx_top), LAYERS);
}

/* ---- with a person's rights ---- */

static void small_layers(struct images_config *c)
{
    c->unpacked_max = 64 << 10;
}

static struct outcome import_as(struct images *images, const char *path, uid_t uid)
{
    struct images_reader reader = {.uid = uid, .gid = uid};
    struct outcome outcome = {0};

    images_import_as(images, path, "localhost/theirs:v1", &reader, &fx_events, &outcome);
    fx_wait(loop, &outcome);
    return outcome;
}

static void test_import_reads_with_a_persons_rights(void **state)
{
    struct tar_row row = {'-', "hello", "hello"};
    struct fx_layer layer = {&row, 1, ""};
    const char *dir = path_of("l-theirs");
    CLEANUP(free) char *layout = mem_strdup(dir), *big = mem_printf("%s/big", dir);
    struct images *images = fx_open(loop, "s-theirs", NULL);

    (void)state;
    fx_layout(layout, &layer, 1, NULL, false);
    assert_int_equal(chmod(fx_top, 0755), 0);
    fx_run((const char *[]){"/bin/chown", "-R", "54321", layout, NULL});
    assert_int_equal(chmod(layout, 0700), 0);
    expect_fail(import_as(images, layout, 54322), IMAGE_FAIL_OTHER);
    assert_true(import_as(images, layout, 54321).ok);
    assert_non_null(images_find(images, "localhost/theirs:v1"));
    images_free(images);
    images = fx_open(loop, "s-theirs", small_layers);
    fx_run((const char *[]){"/bin/cp", "/bin/tar", big, NULL});
    assert_int_equal(chmod(big, 0644), 0);
    expect_fail(import_as(images, big, 54321), IMAGE_FAIL_NO_SPACE);
    images_free(images);
}

static void test_store_is_one_process_only_and_not_from_the_future(void **state)
{
    struct images *images = fx_open(loop, "s-lock", NULL), *second = NULL;
    struct err err = {0};

    (void)state;
    assert_int_equal(images_open(path_of("s-lock"), loop, NULL, &second, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    images_free(images);
    assert_int_equal(file_write_atomic(path_of("s-lock/version"), STR("9\n"), 0600, &err), 0);
    assert_int_equal(images_open(path_of("s-lock"), loop, NULL, &second, &err), -1);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_password_decides),
        TEST(test_stored_login_is_used),
        TEST(test_failures_say_what_they_are),
        TEST(test_limits_fail_the_pull_only),
        TEST(test_stalling_registry_fails_that_pull_only),
        TEST(test_certificate_of_our_own_is_believed_where_set),
        TEST(test_cancelled_pull_says_nothing_and_leaves_nothing),
        TEST(test_pulls_at_once_share_fetches_and_layers),
        TEST(test_moved_tag_is_seen_by_always_only),
        TEST(test_archives_are_imported),
        TEST(test_mount_shows_layers_and_keeps_writes_apart),
        TEST(test_untouched_root_is_the_next_containers),
        TEST(test_untouched_root_is_not_another_owners),
        TEST(test_readonly_mount_takes_no_writes),
        TEST(test_many_layers_can_be_mounted),
        TEST(test_host_root_is_seen_and_not_changed),
        TEST(test_folders_that_a_layer_leaves_out_keep_owner_and_mode),
        TEST(test_collection_takes_what_nobody_needs),
        TEST(test_killed_process_leaves_nothing_half_done),
        TEST(test_killed_at_any_moment_goes_on_where_it_was),
        TEST(test_import_reads_with_a_persons_rights),
        TEST(test_store_is_one_process_only_and_not_from_the_future),
    };
    int failed;

    if (fx_start() < 0)
        return 77;
    if (fx_has_registry())
        push_all();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    fx_stop();
    return failed;
}
