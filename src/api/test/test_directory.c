#include "api/directory.h"
#include "base/clock.h"
#include "loop/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka needs the ones above before it */
#include <cmocka.h>

static struct loop *the_loop;
static struct directory *directory;
static atomic_int lookups;
static atomic_bool failing;
static int told;

static int fake(const char *name, uid_t uid, struct arena *arena, struct os_user *ret, struct err *err)
{
    static const char *const groups[] = {"lab"};

    atomic_fetch_add(&lookups, 1);
    if (atomic_load(&failing))
        return err_set(err, ERR_UNAVAILABLE, "away");
    *ret = (struct os_user){0};
    if (name ? strcmp(name, "ann") == 0 : uid == 1000)
        *ret = (struct os_user){.found = true,
                                .uid = 1000,
                                .gid = 1000,
                                .name = arena_strdup(arena, "ann"),
                                .home = "/home/ann",
                                .groups = groups,
                                .group_count = 1};
    return 0;
}

static void on_told(void *arg)
{
    (void)arg;
    told++;
}

static int setup(void **state)
{
    (void)state;
    the_loop = loop_new();
    directory = directory_new(the_loop, fake);
    atomic_store(&lookups, 0);
    atomic_store(&failing, false);
    told = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    directory_free(directory);
    loop_free(the_loop);
    return 0;
}

static int find(const char *name, uid_t uid, const struct os_user **ret, struct arena *arena, struct err *err)
{
    return directory_find(directory, name, uid, arena, ret, on_told, NULL, err);
}

static void turn_until_told(int count)
{
    while (told < count)
        assert_int_equal(loop_turn(the_loop, 1000, NULL), 0);
}

static void test_the_first_question_waits_and_the_second_is_answered(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct os_user *user = NULL;
    struct err err = {0};

    (void)state;
    assert_int_equal(find(NULL, 1000, &user, &arena, &err), 1);
    assert_int_equal(find(NULL, 1000, &user, &arena, &err), 1); /* the same question is asked once */
    turn_until_told(2);
    assert_int_equal(atomic_load(&lookups), 1);
    assert_int_equal(find(NULL, 1000, &user, &arena, &err), 0);
    assert_true(user->found);
    assert_string_equal(user->name, "ann");
    assert_string_equal(user->groups[0], "lab");
}

static void test_nobody_of_that_name_is_an_answer(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct os_user *user = NULL;
    struct err err = {0};

    (void)state;
    assert_int_equal(find("bob", 0, &user, &arena, &err), 1);
    turn_until_told(1);
    assert_int_equal(find("bob", 0, &user, &arena, &err), 0);
    assert_false(user->found);
}

static void test_a_directory_that_fails_is_an_error_and_nobody_else(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct os_user *user = NULL;
    struct err err = {0};

    (void)state;
    atomic_store(&failing, true);
    assert_int_equal(find(NULL, 1000, &user, &arena, &err), 1);
    turn_until_told(1);
    assert_int_equal(find(NULL, 1000, &user, &arena, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_null(user);
}

static void test_closing_tells_nobody(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct os_user *user = NULL;

    (void)state;
    assert_int_equal(find("ann", 0, &user, &arena, NULL), 1);
    directory_free(directory);
    assert_int_equal(loop_turn(the_loop, 0, NULL), 0);
    directory = directory_new(the_loop, fake);
    assert_int_equal(told, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_first_question_waits_and_the_second_is_answered, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_nobody_of_that_name_is_an_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_directory_that_fails_is_an_error_and_nobody_else, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_closing_tells_nobody, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
