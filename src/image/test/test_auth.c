/* Which credentials fit a registry. */
#include "base/test/test.h"
#include "image/auth.h"

#include <stdio.h>

static const char *choose(const char *text, const char *reference)
{
    static char answer[512];
    CLEANUP(buf_done) struct buf ret = {0};
    struct image_ref ref;

    assert_int_equal(image_ref_parse(str_from(reference), &ref, NULL), 0);
    snprintf(answer, sizeof(answer), "%s", auth_choose(str_from(text), &ref, &ret) ? ret.data : "");
    return answer;
}

static void test_entry_is_chosen_by_host_and_path(void **state)
{
    static const char text[] =
        "{\"auths\":{\"lab:5000\":{\"auth\":\"YTph\"},\"https://lab:5000/team\":{\"auth\":\"Yjpi\"},"
        "\"https://index.docker.io/v1/\":{\"auth\":\"Yzpj\"},\"*.example.com\":{\"auth\":\"ZDpk\"},"
        "\"empty.org\":{}}}";

    (void)state;
    assert_string_equal(choose(text, "lab:5000/x"), "{\"auths\":{\"lab:5000\":{\"auth\":\"YTph\"}}}");
    assert_string_equal(choose(text, "lab:5000/team/x"), "{\"auths\":{\"lab:5000\":{\"auth\":\"Yjpi\"}}}");
    assert_string_equal(choose(text, "lab:5000/teams/x"), "{\"auths\":{\"lab:5000\":{\"auth\":\"YTph\"}}}");
    assert_string_equal(choose(text, "busybox"), "{\"auths\":{\"docker.io\":{\"auth\":\"Yzpj\"}}}");
    assert_string_equal(choose(text, "r.example.com/x"),
                        "{\"auths\":{\"r.example.com\":{\"auth\":\"ZDpk\"}}}");
    assert_string_equal(choose(text, "a.r.example.com/x"), "");
    assert_string_equal(choose(text, "lab:5001/x"), "");
    assert_string_equal(choose(text, "empty.org/x"), "");
}

static void test_old_forms_and_plain_passwords_work(void **state)
{
    (void)state;
    assert_string_equal(
        choose("{\"lab\":{\"auth\":\"YTph\"},\"lab.x\":{\"username\":\"u\",\"password\":\"p\"}}", "lab.x/a"),
        "{\"auths\":{\"lab.x\":{\"auth\":\"dTpw\"}}}");
    assert_string_equal(choose("no json", "lab.x/a"), "");
    assert_string_equal(choose("[]", "lab.x/a"), "");
    assert_string_equal(choose("{\"auths\":{\"lab.x\":{\"auth\":5}}}", "lab.x/a"), "");
}

static void test_login_is_added_replaced_and_removed(void **state)
{
    struct buf one = {0}, two = {0}, three = {0};
    struct err err = {0};

    (void)state;
    assert_int_equal(auth_edit(STR(""), "lab:5000", "u", "p", &one, &err), 0);
    assert_string_equal(one.data, "{\"auths\":{\"lab:5000\":{\"auth\":\"dTpw\"}}}");
    assert_int_equal(auth_edit(buf_view(&one), "docker.io", "v", "q", &two, &err), 0);
    assert_int_equal(auth_edit(buf_view(&two), "lab:5000", NULL, NULL, &three, &err), 0);
    assert_string_equal(three.data, "{\"auths\":{\"docker.io\":{\"auth\":\"djpx\"}}}");
    assert_int_equal(auth_edit(STR(""), "bad host", "u", "p", &one, &err), -1);
    assert_int_equal(auth_edit(STR(""), "host/path", "u", "p", &one, &err), -1);
    assert_int_equal(auth_edit(STR(""), "lab:5000", "u:x", "p", &one, &err), -1);
    buf_done(&one);
    buf_done(&two);
    buf_done(&three);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entry_is_chosen_by_host_and_path),
        cmocka_unit_test(test_old_forms_and_plain_passwords_work),
        cmocka_unit_test(test_login_is_added_replaced_and_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
