/* Names of what was built here. */
#include "base/test/test.h"
#include "image/image.h"

#include <string.h>

static void is_named(const char *who, const char *reference, const char *expected)
{
    char name[IMAGE_REF_MAX];
    struct err err = {0};

    assert_int_equal(image_local_name(who, reference, name, &err), 0);
    assert_string_equal(name, expected);
}

static void test_admins_names_are_for_everybody(void **state)
{
    (void)state;
    is_named(NULL, "trainer", "localhost/trainer:latest");
    is_named(NULL, "docker.io/library/trainer:v2", "localhost/trainer:v2");
    is_named(NULL, "localhost/trainer", "localhost/trainer:latest");
    is_named(NULL, "me/net:1", "localhost/me/net:1");
}

static void test_a_persons_names_are_below_the_person(void **state)
{
    (void)state;
    is_named("alice", "trainer", "own.localhost/alice/trainer:latest");
    is_named("alice", "lab:5000/me/net:v2", "own.localhost/alice/lab-5000/me/net:v2");
    is_named("Al.ice@lab", "x", "own.localhost/al.ice-lab/x:latest");
}

static void test_no_person_reaches_another_ones_names(void **state)
{
    char name[IMAGE_REF_MAX];
    struct err err = {0};

    (void)state;
    is_named("bob", "own.localhost/alice/x", "own.localhost/bob/own.localhost/alice/x:latest");
    is_named("bob", "alice/x", "own.localhost/bob/alice/x:latest");
    assert_int_equal(image_local_name("bob", "../alice/x", name, &err), -1);
}

static void test_digests_and_nonsense_have_no_name(void **state)
{
    char name[IMAGE_REF_MAX];
    struct err err = {0};

    (void)state;
    assert_int_equal(
        image_local_name(NULL, "x@sha256:0123456789012345678901234567890123456789012345678901234567890123",
                         name, &err),
        -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_int_equal(image_local_name(NULL, "UPPER CASE", name, &err), -1);
    assert_int_equal(image_local_name(NULL, "", name, &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_admins_names_are_for_everybody),
        cmocka_unit_test(test_a_persons_names_are_below_the_person),
        cmocka_unit_test(test_no_person_reaches_another_ones_names),
        cmocka_unit_test(test_digests_and_nonsense_have_no_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
