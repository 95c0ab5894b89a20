#include "base/test/test.h"
#include "base/yaml.h"
#include "tasks/values.h"

static struct json *yaml(struct arena *arena, const char *text)
{
    struct json *doc = NULL;

    assert_int_equal(yaml_parse_one(str_from(text), arena, &doc, NULL), 0);
    return doc;
}

static const char *missing(struct arena *arena, const char *description, const char *values)
{
    struct json *paths = json_new_array(arena), *wrong = json_new_array(arena);
    CLEANUP(buf_done) struct buf text = {0};

    values_missing(yaml(arena, description), yaml(arena, values), arena, paths, wrong);
    JSON_EACH(paths, it)
        buf_printf(&text, "%s ", json_string(it));
    JSON_EACH(wrong, it)
        buf_printf(&text, "%s ", json_string(it));
    return arena_strndup(arena, text.data ? text.data : "", text.len);
}

static void test_missing_paths(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    static const char *const description =
        "a: (Required) x\nb: {c: (Required) y, d: (Optional) z}\nmodel:\nempty: {}\n"
        "list:\n- {e: (Required) u, type: (Required) dataset}\n- {e: (Optional) u, type: (Optional) event}\n";

    (void)state;
    assert_string_equal(missing(&arena, description, "{}"), "a b.c list[0].e list[0].type ");
    assert_string_equal(missing(&arena, description, "{a: null, b: {c: 0}}"), "a list[0].e list[0].type ");
    assert_string_equal(
        missing(&arena, description, "{a: '', b: {c: x}, list: [{type: event}, {type: dataset}]}"),
        "list[1].e ");
    assert_string_equal(missing(&arena, description, "{a: 1, b: {c: 1}, list: [{e: 1}]}"), "list[0].type ");
    assert_string_equal(
        missing(&arena, description, "{a: 1, b: {c: 1}, more: 1, list: [{e: 1, type: dataset}, 7]}"), "");
    assert_string_equal(missing(&arena, description, "{a: 1, b: 2, list: {}}"),
                        "b: must be a map, not a number list: must be a list, not a object ");
}

/* Described items times items that are there: too many are refused, not compared. */
static void test_long_lists_are_not_compared_for_ever(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf description = {0}, values = {0};
    struct json *deep = json_new_object(&arena), *below;
    struct json *paths = json_new_array(&arena), *wrong = json_new_array(&arena);
    size_t before;
    const char *said;

    (void)state;
    buf_puts(&description, "a:\n");
    buf_puts(&values, "a:\n");
    for (int i = 0; i < 4000; i++) {
        buf_printf(&description, "- {type: (Required) t%d, x: (Required) y}\n", i);
        buf_printf(&values, "- {type: t%d}\n", 4000 - i);
    }
    said = missing(&arena, description.data, values.data);
    assert_non_null(strstr(said, "there are too many values to check against the description"));
    below = json_set_object(&arena, deep, arena_printf(&arena, "%0*d", 20000, 0));
    for (int i = 0; i < 4000; i++)
        json_set_string(&arena, below, arena_printf(&arena, "v%d", i), "(Required) x");
    before = arena.total;
    values_missing(deep, json_new_object(&arena), &arena, paths, wrong);
    assert_int_equal(json_len(paths), VALUES_PATHS_MAX);
    JSON_EACH(paths, it)
        assert_true(json_str(it).len < VALUES_PATH_BYTES + 64);
    assert_true(arena.total - before < 8 << 20);
}

static void test_merge_lets_the_upper_win_and_null_not(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *merged = values_merge(&arena, yaml(&arena, "{a: {x: 1, y: 2}, b: [1], c: 3}"),
                                       yaml(&arena, "{a: {y: 3, z: 4}, b: [2], c: null, d: 5}"));

    (void)state;
    assert_true(json_equal(merged, yaml(&arena, "{a: {x: 1, y: 3, z: 4}, b: [2], c: 3, d: 5}")));
}

static void test_locked_values_win_except_where_they_may_be_overridden(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *system = yaml(&arena, "{a: {x: 1, y: 2}, b: [1], c: null}"),
                *user = yaml(&arena, "{a: {x: 7, y: 8, z: 9}, b: [2], c: 3}"),
                *locked = json_new_array(&arena);

    (void)state;
    assert_true(json_equal(values_lock(&arena, system, user, NULL, locked),
                           yaml(&arena, "{a: {x: 1, y: 2, z: 9}, b: [1], c: 3}")));
    assert_true(json_equal(locked, json_get(yaml(&arena, "{v: [a.x, a.y, b]}"), "v")));
    assert_true(
        json_equal(values_lock(&arena, system, user, json_get(yaml(&arena, "{v: [a.y, bb]}"), "v"), NULL),
                   yaml(&arena, "{a: {x: 1, y: 8, z: 9}, b: [1], c: 3}")));
    assert_true(
        json_equal(values_lock(&arena, system, user, json_get(yaml(&arena, "{v: ['*']}"), "v"), NULL), user));
}

static void test_quoted_text_reads_back(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    static const char *const texts[] = {
        "it's", "a\nb\r\n\t", "{{ x }}", "\xc2\x85\xe2\x80\xa8\xef\xbb\xbf\x7f", "\xf0\x9f\x9a\x80", "''",
        "\\'",  "# - : ---",  "\x01\x1f"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct json value = json_of_string_ref(texts[i]), quoted = values_quoted(&value, &arena), *back;
        const char *document = arena_printf(&arena, "a: '%s'\n", json_string(&quoted));
        const char *text = json_get_string(yaml(&arena, document), "a");

        assert_int_equal(json_parse(str_from(text), &arena, &back, NULL, NULL), 0);
        assert_string_equal(json_string(back), texts[i]);
    }
}

static void test_slugs(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};

    (void)state;
    assert_string_equal(values_slug("mnist_softmax_cpu", 63, &arena), "mnist-softmax-cpu");
    assert_string_equal(values_slug("__A  b..C__", 63, &arena), "a-b-c");
    assert_string_equal(values_slug("123", 63, &arena), "");
    assert_string_equal(values_slug("abc-def", 4, &arena), "abc");
}

static void test_yaml_text_or_object(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json text = json_of_string_ref("a: 1\r\nb:\r\n  c: x\r\n"), number = json_of_int(7), *values;
    struct err err = {0};

    (void)state;
    assert_int_equal(values_read(&text, &arena, &values, &err), 0);
    assert_true(json_equal(values, yaml(&arena, "{a: 1, b: {c: x}}")));
    assert_int_equal(values_read(NULL, &arena, &values, &err), 0);
    assert_int_equal(json_len(values), 0);
    assert_int_equal(values_read(&number, &arena, &values, &err), -1);
    text = json_of_string_ref("[1]");
    assert_int_equal(values_read(&text, &arena, &values, &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_paths),
        cmocka_unit_test(test_long_lists_are_not_compared_for_ever),
        cmocka_unit_test(test_merge_lets_the_upper_win_and_null_not),
        cmocka_unit_test(test_locked_values_win_except_where_they_may_be_overridden),
        cmocka_unit_test(test_quoted_text_reads_back),
        cmocka_unit_test(test_slugs),
        cmocka_unit_test(test_yaml_text_or_object),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
