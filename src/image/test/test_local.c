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
    is_named("Al.ice@lab", "x", "own.localhost/al.ice-lab-a659995935ad/x:latest");
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

static void test_persons_of_like_names_have_names_of_their_own(void **state)
{
    static const char *const people[] = {"alice", "Alice", "alice-3bc51062973c", "a@b", "a-b", "a/b"};
    char names[ARRAY_LEN(people)][IMAGE_REF_MAX];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(people); i++) {
        assert_int_equal(image_local_name(people[i], "x", names[i], NULL), 0);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(names[i], names[j]);
    }
}

static void test_only_owner_and_admins_may_run_what_is_named_in_full(void **state)
{
    static const char by_digest[] =
        "own.localhost/alice/x@sha256:0123456789012345678901234567890123456789012345678901234567890123";

    (void)state;
    assert_true(image_local_allowed("alice", "own.localhost/alice/x"));
    assert_true(image_local_allowed("alice", by_digest));
    assert_true(image_local_allowed(NULL, "own.localhost/alice/x"));
    assert_true(image_local_allowed("bob", "localhost/x"));
    assert_true(image_local_allowed("bob", "python:3.11"));
    assert_false(image_local_allowed("bob", "own.localhost/alice/x"));
    assert_false(image_local_allowed("bob", by_digest));
    assert_false(image_local_allowed("alic", "own.localhost/alice/x"));
    assert_false(image_local_allowed("Alice", "own.localhost/alice/x"));
    assert_false(image_local_allowed("", "own.localhost/alice/x"));
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
        cmocka_unit_test(test_persons_of_like_names_have_names_of_their_own),
        cmocka_unit_test(test_only_owner_and_admins_may_run_what_is_named_in_full),
        cmocka_unit_test(test_digests_and_nonsense_have_no_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
