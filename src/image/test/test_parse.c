/* Manifests, indexes and configurations; the records made of them. */
#include "base/test/test.h"
#include "image/parse.h"
#include "image/record.h"
#include "image/sum.h"

#include <stdio.h>

#define A "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define C "sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

static const struct image_platform amd64 = {"linux", "amd64", ""};
static const struct image_platform armv7 = {"linux", "arm", "v7"};

static int parse(const char *text, struct image_platform platform, struct image_manifest *ret,
                 struct err *err)
{
    return image_manifest_parse(str_from(text), platform, ret, err);
}

static void test_manifest_has_config_and_layers(void **state)
{
    CLEANUP(image_manifest_done) struct image_manifest m = {0};
    struct err err = {0};

    (void)state;
    assert_int_equal(
        parse("{\"schemaVersion\":2,\"config\":{\"digest\":\"" A "\",\"size\":7},\"layers\":["
              "{\"mediaType\":\"application/vnd.docker.image.rootfs.diff.tar.gzip\",\"digest\":\"" B
              "\",\"size\":8},{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar+zstd\","
              "\"digest\":\"" C "\",\"size\":9}]}",
              amd64, &m, &err),
        0);
    assert_false(m.is_index);
    assert_string_equal(m.config.digest, A);
    assert_int_equal(m.layers_len, 2);
    assert_string_equal(m.layers[1].digest, C);
    assert_int_equal(m.layers[1].size, 9);
}

static void test_index_gives_this_machines_manifest(void **state)
{
    static const char text[] =
        "{\"schemaVersion\":2,\"manifests\":["
        "{\"digest\":\"" A "\",\"size\":1,\"platform\":{\"os\":\"unknown\",\"architecture\":\"unknown\"}},"
        "{\"digest\":\"" B "\",\"size\":2,\"platform\":{\"os\":\"linux\",\"architecture\":\"amd64\"}},"
        "{\"digest\":\"" C
        "\",\"size\":3,\"platform\":{\"os\":\"linux\",\"architecture\":\"arm\",\"variant\":\"v6\"}}]}";
    struct image_manifest m = {0};
    struct err err = {0};

    (void)state;
    assert_int_equal(parse(text, amd64, &m, &err), 0);
    assert_true(m.is_index);
    assert_string_equal(m.chosen.digest, B);
    assert_int_equal(parse(text, armv7, &m, &err), 0);
    assert_string_equal(m.chosen.digest, C);
    assert_int_equal(parse(text, (struct image_platform){"linux", "riscv64", ""}, &m, &err), -1);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    assert_string_equal(err.msg, "the image is not made for linux/riscv64");
}

static void test_what_is_no_manifest_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "null",
        "{\"schemaVersion\":1,\"fsLayers\":[]}",
        "{\"schemaVersion\":2}",
        "{\"schemaVersion\":2,\"layers\":[]}",
        "{\"schemaVersion\":2,\"config\":{\"digest\":\"" A "\"},\"layers\":[]}",
        "{\"schemaVersion\":2,\"config\":{\"digest\":\"" A "\",\"size\":-1},\"layers\":[]}",
        "{\"schemaVersion\":2,\"config\":{\"digest\":\"sha256:../../etc\",\"size\":1},\"layers\":[]}",
        "{\"schemaVersion\":2,\"config\":{\"digest\":\"" A "\",\"size\":1},\"layers\":[{}]}",
        "{\"schemaVersion\":2,\"config\":{\"digest\":\"" A "\",\"size\":1},\"layers\":[{\"digest\":\"" B
        "\",\"size\":1,\"mediaType\":\"application/vnd.cncf.helm.chart.content.v1.tar+gzip\"}]}",
        "{\"schemaVersion\":2,\"config\":{\"digest\":\"" A "\",\"size\":1},\"layers\":[{\"digest\":\"" B
        "\",\"size\":1,\"mediaType\":\"application/vnd.oci.image.layer.v1.tar+gzip+encrypted\"}]}",
        "{\"schemaVersion\":2,\"config\":{\"digest\":\"" A "\",\"size\":1},\"layers\":[{\"digest\":\"" B
        "\",\"size\":1,\"mediaType\":\"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip\"}]}",
    };
    struct image_manifest m = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = {0};

        if (parse(bad[i], amd64, &m, &err) == 0)
            fail_msg("taken: %s", bad[i]);
        assert_int_equal(err.code, ERR_INVALID);
    }
}

static void test_too_many_layers_are_refused(void **state)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct image_manifest m = {0};
    struct err err = {0};

    (void)state;
    buf_puts(&text, "{\"schemaVersion\":2,\"config\":{\"digest\":\"" A "\",\"size\":1},\"layers\":[");
    for (int i = 0; i <= IMAGE_LAYERS_MAX; i++)
        buf_printf(&text, "%s{\"digest\":\"" B "\",\"size\":1}", i ? "," : "");
    buf_puts(&text, "]}");
    assert_int_equal(image_manifest_parse(buf_view(&text), amd64, &m, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
}

static void test_config_must_fit_machine_and_manifest(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc;
    struct err err = {0};

    (void)state;
    assert_int_equal(image_config_parse(STR("{\"os\":\"linux\",\"architecture\":\"arm64\"}"), amd64, 0,
                                        &arena, &doc, &err),
                     -1);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    assert_int_equal(
        image_config_parse(STR("{\"rootfs\":{\"diff_ids\":[\"" A "\"]}}"), amd64, 2, &arena, &doc, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_int_equal(
        image_config_parse(STR("{\"config\":{\"Cmd\":[\"a\\u0000b\"]}}"), amd64, 0, &arena, &doc, &err), -1);
    assert_int_equal(image_config_parse(STR("{}"), amd64, 0, &arena, &doc, &err), 0);
}

static void test_record_reads_back_as_written(void **state)
{
    static const char config[] =
        "{\"os\":\"linux\",\"created\":\"2024-01-02T03:04:05Z\",\"config\":{\"Env\":[\"A=b\",\"PATH=/"
        "bin\"],\"Entrypoint\":"
        "[\"/init\"],\"Cmd\":[\"run\",\"\"],\"User\":\"me:us\",\"WorkingDir\":\"/"
        "w\",\"StopSignal\":\"SIGINT\","
        "\"ExposedPorts\":{\"80/tcp\":{}},\"Volumes\":{\"/v\":{}},\"Labels\":{\"berth.dev/keep\":\"true\"}}}";
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(image_drop) const struct image *image = NULL;
    struct image_layer layers[] = {{.digest = B, .size = 5, .unpacked = 50},
                                   {.digest = C, .size = 6, .unpacked = 60}};
    struct err err = {0};
    struct json *doc;

    (void)state;
    assert_int_equal(image_config_parse(str_from(config), amd64, 2, &arena, &doc, &err), 0);
    record_image_write(&text, A, B, doc, (struct record_layers){layers, 2}, 42);
    assert_int_equal(record_image_read(buf_view(&text), &image, &err), 0);
    assert_string_equal(image->id, A);
    assert_string_equal(image->digest, B);
    assert_int_equal(image->pulled, 42);
    assert_int_equal(image->created, INT64_C(1704164645) * 1000000000);
    assert_int_equal(image->size, 11);
    assert_int_equal(image->unpacked, 110);
    assert_int_equal(image->layers_len, 2);
    assert_string_equal(image->layers[1].digest, C);
    assert_string_equal(image->config.env[1], "PATH=/bin");
    assert_null(image->config.env[2]);
    assert_string_equal(image->config.entrypoint[0], "/init");
    assert_string_equal(image->config.cmd[1], "");
    assert_string_equal(image->config.user, "me:us");
    assert_string_equal(image->config.workdir, "/w");
    assert_string_equal(image->config.stop_signal, "SIGINT");
    assert_string_equal(image->config.ports[0], "80/tcp");
    assert_string_equal(image->config.volumes[0], "/v");
    assert_string_equal(image->config.labels[0].value, "true");
    assert_ptr_equal(image_hold(image), image);
    image_drop(image);
}

static void test_sha256_is_as_registries_write_it(void **state)
{
    char digest[IMAGE_DIGEST_MAX];

    (void)state;
    sum_of(STR("abc"), digest);
    assert_string_equal(digest, "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_true(image_digest_valid(str_from(digest)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_manifest_has_config_and_layers),
        cmocka_unit_test(test_index_gives_this_machines_manifest),
        cmocka_unit_test(test_what_is_no_manifest_is_refused),
        cmocka_unit_test(test_too_many_layers_are_refused),
        cmocka_unit_test(test_config_must_fit_machine_and_manifest),
        cmocka_unit_test(test_record_reads_back_as_written),
        cmocka_unit_test(test_sha256_is_as_registries_write_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
