/* References are read as Docker reads them, or refused. */
#include "base/test/test.h"
#include "image/image.h"

#include <stdio.h>

static void test_names_are_completed_as_docker_does(void **state)
{
    static const struct {
        const char *text, *full;
    } rows[] = {
        {"busybox", "docker.io/library/busybox:latest"},
        {"python:3.11-slim", "docker.io/library/python:3.11-slim"},
        {"pytorch/pytorch", "docker.io/pytorch/pytorch:latest"},
        {"docker.io/busybox", "docker.io/library/busybox:latest"},
        {"index.docker.io/a/b:c", "docker.io/a/b:c"},
        {"localhost/x", "localhost/x:latest"},
        {"localhost:5000/x/y:1", "localhost:5000/x/y:1"},
        {"lab:5000/me/net:v2", "lab:5000/me/net:v2"},
        {"ic-registry.epfl.ch/cvlab/lis/lab-base:cuda10", "ic-registry.epfl.ch/cvlab/lis/lab-base:cuda10"},
        {"127.0.0.1:5000/a", "127.0.0.1:5000/a:latest"},
        {"[::1]:5000/a", "[::1]:5000/a:latest"},
        {"[fe80::1]/a", "[fe80::1]/a:latest"},
        {"Host/a", "Host/a:latest"},
        {"a.b/c__d/e-f/g.h--i", "a.b/c__d/e-f/g.h--i:latest"},
        {"x@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
         "docker.io/library/x@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
        {"x:t@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
         "docker.io/library/x@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
        {"a/b:_T.-9", "docker.io/a/b:_T.-9"},
    };
    struct image_ref ref;
    struct err err = {0};
    char text[IMAGE_REF_MAX];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (image_ref_parse(str_from(rows[i].text), &ref, &err) < 0)
            fail_msg("%s: %s", rows[i].text, err.msg);
        image_ref_format(&ref, text);
        assert_string_equal(text, rows[i].full);
        assert_int_equal(image_ref_parse(str_from(text), &ref, &err), 0);
    }
}

static void test_what_is_no_reference_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "-x",
        "--help",
        "A",
        "a/B",
        "a//b",
        "/a",
        "a/",
        "a:",
        "a:b:c",
        "a b",
        "a\nb",
        "a$(id)",
        "a;b",
        "a:-t",
        "a:.t",
        "../a",
        "a/../b",
        "a._b",
        "a___b",
        "a..b",
        "_a",
        "a_",
        "a@sha256:12",
        "a@md5:0123456789abcdef0123456789abcdef",
        "a@sha256:0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef",
        "a@",
        "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "user:pass@host/a",
        "https://host/a",
        "host:99999/a",
        "host:0/a",
        "host:/a",
        "-host.x/a",
        "host-.x/a",
        "a..b/c",
        "[::1/a",
        "[zz]/a",
        "ä/b",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    };
    struct image_ref ref;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = {0};

        if (image_ref_parse(str_from(bad[i]), &ref, &err) == 0)
            fail_msg("'%s' was taken", bad[i]);
        assert_int_equal(err.code, ERR_INVALID);
        assert_true(err.msg[0]);
    }
    assert_int_equal(image_ref_parse((struct str){"a\0b", 3}, &ref, NULL), -1);
}

static void test_long_names_are_refused(void **state)
{
    char text[1000];
    struct image_ref ref;

    (void)state;
    memset(text, 'a', sizeof(text));
    assert_int_equal(image_ref_parse((struct str){text, 200}, &ref, NULL), 0);
    assert_int_equal(image_ref_parse((struct str){text, 256}, &ref, NULL), -1);
    assert_int_equal(image_ref_parse((struct str){text, 1000}, &ref, NULL), -1);
    text[1] = ':';
    assert_int_equal(image_ref_parse((struct str){text, 2 + 128}, &ref, NULL), 0);
    assert_int_equal(image_ref_parse((struct str){text, 2 + 129}, &ref, NULL), -1);
}

static void test_latest_is_pulled_always_by_default(void **state)
{
    struct image_ref ref;
    enum image_policy policy;

    (void)state;
    assert_int_equal(image_ref_parse(STR("a"), &ref, NULL), 0);
    assert_int_equal(image_policy_default(&ref), IMAGE_ALWAYS);
    assert_int_equal(image_ref_parse(STR("a:1"), &ref, NULL), 0);
    assert_int_equal(image_policy_default(&ref), IMAGE_IF_NOT_PRESENT);
    assert_int_equal(
        image_ref_parse(STR("a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"),
                        &ref, NULL),
        0);
    assert_int_equal(image_policy_default(&ref), IMAGE_IF_NOT_PRESENT);
    assert_true(image_policy_parse(STR("Never"), &policy) && policy == IMAGE_NEVER);
    assert_false(image_policy_parse(STR("never"), &policy));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_completed_as_docker_does),
        cmocka_unit_test(test_what_is_no_reference_is_refused),
        cmocka_unit_test(test_long_names_are_refused),
        cmocka_unit_test(test_latest_is_pulled_always_by_default),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
