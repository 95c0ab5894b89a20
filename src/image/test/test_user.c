/* Users of an image: its files decide, and cannot lead anywhere else. */
#include "base/file.h"
#include "base/mem.h"
#include "base/test/test.h"
#include "image/image.h"
#include "image/work/tree.h"

#include <fcntl.h>
#include <stdio.h>

static char root[64];

static void put(const char *path, const char *text)
{
    CLEANUP(free) char *full = mem_printf("%s/%s", root, path);
    struct err err = {0};

    assert_int_equal(file_write_atomic(full, str_from(text), 0644, &err), 0);
}

static int setup(void **state)
{
    CLEANUP(free) char *etc = NULL;

    (void)state;
    snprintf(root, sizeof(root), "/tmp/berth-user-XXXXXX");
    assert_non_null(mkdtemp(root));
    etc = mem_printf("%s/etc", root);
    return dir_make(etc, 0755, NULL);
}

static int teardown(void **state)
{
    (void)state;
    return tree_remove(AT_FDCWD, root, NULL);
}

static void put_usual(void)
{
    put("etc/passwd",
        "root:x:0:0:root:/root:/bin/bash\n# a comment\n\nbroken\nme:x:1000:100:Me:/home/me:/bin/sh\n"
        "7:x:77:78::relative:\nbig:x:99999999999:1::/:/x\n");
    put("etc/group", "root:x:0:\nusers:x:100:me\ndocker:x:999:you, me\naudio:x:29:me,me\nnobody:x:65534:\n");
}

static void test_names_and_numbers_are_found(void **state)
{
    struct image_user user;
    struct err err = {0};

    (void)state;
    put_usual();
    assert_int_equal(image_user(root, NULL, &user, &err), 0);
    assert_int_equal(user.uid, 0);
    assert_string_equal(user.home, "/root");
    assert_int_equal(image_user(root, "me", &user, &err), 0);
    assert_int_equal(user.uid, 1000);
    assert_int_equal(user.gid, 100);
    assert_string_equal(user.home, "/home/me");
    assert_string_equal(user.shell, "/bin/sh");
    assert_int_equal(user.groups_len, 2);
    assert_int_equal(user.groups[0], 999);
    assert_int_equal(user.groups[1], 29);
    assert_int_equal(image_user(root, "1000", &user, &err), 0);
    assert_string_equal(user.name, "me");
    assert_int_equal(image_user(root, "me:docker", &user, &err), 0);
    assert_int_equal(user.gid, 999);
    assert_int_equal(user.groups_len, 0);
    assert_int_equal(image_user(root, "1234:4321", &user, &err), 0);
    assert_int_equal(user.uid, 1234);
    assert_int_equal(user.gid, 4321);
    assert_string_equal(user.home, "/");
    assert_int_equal(image_user(root, "7", &user, &err), 0); /* a name that is a number */
    assert_int_equal(user.uid, 77);
    assert_string_equal(user.home, "/");
}

static void test_unknown_names_and_bad_texts_are_refused(void **state)
{
    static const struct {
        const char *text;
        enum err_code code;
    } rows[] = {
        {"you", ERR_NOT_FOUND},
        {"me:none", ERR_NOT_FOUND},
        {"big", ERR_NOT_FOUND},
        {"me:", ERR_INVALID},
        {":me", ERR_INVALID},
        {"a:b:c", ERR_INVALID},
        {"4294967295", ERR_INVALID},
        {"-1", ERR_NOT_FOUND},
        {"1000:4294967295", ERR_INVALID},
        {"99999999999999999999", ERR_INVALID},
    };
    struct image_user user;

    (void)state;
    put_usual();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};

        if (image_user(root, rows[i].text, &user, &err) == 0)
            fail_msg("'%s' was taken", rows[i].text);
        assert_int_equal(err.code, rows[i].code);
    }
}

static void test_links_stay_inside_the_image(void **state)
{
    CLEANUP(free) char *link = mem_printf("%s/etc/passwd", root);
    struct image_user user;
    struct err err = {0};

    (void)state;
    unlink(link);
    assert_int_equal(symlink("/etc/other", link), 0); /* the image's /etc/other, not the machine's */
    put("etc/other", "inside:x:5:5::/:\n");
    assert_int_equal(image_user(root, "inside", &user, &err), 0);
    unlink(link);
    assert_int_equal(symlink("../../../../../../../etc/passwd", link), 0); /* itself, then */
    assert_int_equal(image_user(root, "daemon", &user, &err), -1);
    unlink(link);
    assert_int_equal(mkfifo(link, 0600), 0); /* must not hang */
    assert_int_equal(image_user(root, "5", &user, &err), 0);
    assert_int_equal(user.uid, 5);
    unlink(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_numbers_are_found),
        cmocka_unit_test(test_unknown_names_and_bad_texts_are_refused),
        cmocka_unit_test(test_links_stay_inside_the_image),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
