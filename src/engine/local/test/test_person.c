#include "base/file.h"
#include "base/test/test.h"
#include "engine/local/internal.h"

#include <ftw.h>
#include <sys/stat.h>

struct root {
    char dir[40];
};

static int set_up(void **state)
{
    struct root *r = NEW(struct root);

    snprintf(r->dir, sizeof(r->dir), "/tmp/berth-person-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    *state = r;
    return 0;
}

static int drop(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static int tear_down(void **state)
{
    struct root *r = *state;

    nftw(r->dir, drop, 16, FTW_DEPTH | FTW_PHYS);
    free(r);
    return 0;
}

static void put(const struct root *r, const char *path, const char *text)
{
    CLEANUP(free) char *full = mem_printf("%s%s", r->dir, path);
    struct err err = {0};

    assert_int_equal(file_write_atomic(full, str_from(text), 0644, &err), 0);
}

static void make(const struct root *r, const char *path)
{
    CLEANUP(free) char *full = mem_printf("%s%s", r->dir, path);

    assert_int_equal(mkdir(full, 0755), 0);
}

static void expect(const struct root *r, const char *path, const char *wanted)
{
    CLEANUP(free) char *full = mem_printf("%s%s", r->dir, path);
    CLEANUP(buf_done) struct buf text = {0};
    struct err err = {0};

    assert_int_equal(file_read(full, 4096, &text, &err), 0);
    assert_string_equal(text.data, wanted);
}

static struct pod_person lis(void)
{
    return (struct pod_person){
        .name = "lis", .group = "lab", .home = "/home/lis", .uid = getuid(), .gid = getgid()};
}

/* The line of lis, whose numbers are those of who runs the test. */
static char *line_of(const char *before, const char *shell, const char *after)
{
    return mem_printf("%slis:x:%u:%u::/home/lis:%s\n%s", before, (unsigned)getuid(), (unsigned)getgid(),
                      shell, after);
}

static void test_a_root_without_anything_gets_account_group_and_home(void **state)
{
    const struct pod_person person = lis();
    CLEANUP(free) char *account = line_of("", "/bin/sh", "");
    CLEANUP(free) char *group = mem_printf("lab:x:%u:\n", (unsigned)getgid());
    CLEANUP(free) char *home = mem_printf("%s/home/lis", ((struct root *)*state)->dir);
    struct stat st;

    make(*state, "/etc");
    person_add(((struct root *)*state)->dir, &person);
    person_add(((struct root *)*state)->dir, &person); /* once is enough */
    expect(*state, "/etc/passwd", account);
    expect(*state, "/etc/group", group);
    assert_int_equal(stat(home, &st), 0);
    assert_int_equal(st.st_uid, getuid());
}

static void test_further_groups_get_their_names(void **state)
{
    struct pod_person person = lis();
    CLEANUP(free)
    char *group = mem_printf("lab:x:%u:\nvision:x:70002:\nshared:x:70003:\n", (unsigned)getgid());

    make(*state, "/etc");
    person.group_lines = "vision:x:70002:\nshared:x:70003:\n";
    person_add(((struct root *)*state)->dir, &person);
    expect(*state, "/etc/group", group);
}

static void test_bash_is_the_shell_where_there_is_one(void **state)
{
    const struct pod_person person = lis();
    CLEANUP(free) char *account = line_of("a:x:70000:7::/:/bin/sh\n", "/bin/bash", "");

    make(*state, "/etc");
    make(*state, "/bin");
    put(*state, "/bin/bash", "");
    put(*state, "/etc/passwd", "a:x:70000:7::/:/bin/sh"); /* without a newline */
    person_add(((struct root *)*state)->dir, &person);
    expect(*state, "/etc/passwd", account);
}

static void test_another_of_that_name_or_number_comes_second(void **state)
{
    const struct pod_person person = lis();
    CLEANUP(free) char *same_id = mem_printf("other:x:%u:7::/:/bin/sh\n", (unsigned)getuid());
    CLEANUP(free) char *first = line_of("", "/bin/sh", same_id);
    CLEANUP(free) char *second = line_of("", "/bin/sh", "lis:x:70001:7::/:/bin/sh\n");

    make(*state, "/etc");
    put(*state, "/etc/passwd", same_id);
    person_add(((struct root *)*state)->dir, &person);
    expect(*state, "/etc/passwd", first);
    person_add(((struct root *)*state)->dir, &person);
    expect(*state, "/etc/passwd", first);
    put(*state, "/etc/passwd", "lis:x:70001:7::/:/bin/sh\n");
    person_add(((struct root *)*state)->dir, &person);
    expect(*state, "/etc/passwd", second);
}

static void test_links_lead_nowhere_but_into_the_root(void **state)
{
    const struct pod_person person = lis();
    CLEANUP(free) char *account = line_of("", "/bin/sh", "");
    CLEANUP(free) char *link = mem_printf("%s/etc/passwd", ((struct root *)*state)->dir);

    make(*state, "/etc");
    assert_int_equal(symlink("../../../../../berth-person-file", link), 0);
    person_add(((struct root *)*state)->dir, &person);
    expect(*state, "/berth-person-file", account);
    assert_int_not_equal(access("/berth-person-file", F_OK), 0);
}

static void test_a_folder_in_the_place_of_a_file_is_let_be(void **state)
{
    const struct pod_person person = lis();

    make(*state, "/etc");
    make(*state, "/etc/passwd");
    put(*state, "/home", "");
    person_add(((struct root *)*state)->dir, &person);
    expect(*state, "/home", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_root_without_anything_gets_account_group_and_home, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_further_groups_get_their_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bash_is_the_shell_where_there_is_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_another_of_that_name_or_number_comes_second, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_links_lead_nowhere_but_into_the_root, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_folder_in_the_place_of_a_file_is_let_be, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
