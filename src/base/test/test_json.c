#include "base/json.h"
#include "base/test/test.h"

#include <locale.h>
#include <math.h>

static struct arena arena;

static int reset(void **state)
{
    (void)state;
    arena_done(&arena);
    return 0;
}

static struct json *parse(const char *text)
{
    struct json *value = NULL;
    struct err err = {0};

    if (json_parse(str_from(text), &arena, &value, NULL, &err) < 0)
        fail_msg("%s: %s", text, err.msg);
    return value;
}

static const char *text_of(const struct json *value)
{
    CLEANUP(buf_done) struct buf buf = {0};

    json_write(&buf, value);
    return arena_strdup(&arena, buf.data);
}

static void test_every_kind_survives(void **state)
{
    static const char *const texts[] = {
        "null",
        "true",
        "false",
        "0",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "-123456789012345678901234567890",
        "1.5",
        "0.1",
        "1e+21",
        "5e-324",
        "1.7976931348623157e+308",
        "100.0",
        "-0.0",
        "\"\"",
        "\"\xc3\xa9\xf0\x9f\x98\x80\"",
        "\"a\\\"b\\\\c\\n\\r\\t\\b\\f\\u0001\\u0000\"",
        "[]",
        "{}",
        "[1,[2,[]],{}]",
        "{\"a\":{\"b\":[{\"c\":null}]},\"\":1}",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        assert_string_equal(text_of(parse(texts[i])), texts[i]);
}

static void test_numbers_keep_their_kind(void **state)
{
    (void)state;
    assert_int_equal(parse("12")->type, JSON_INT);
    assert_int_equal(parse("-0")->type, JSON_INT);
    assert_int_equal(parse("18446744073709551616")->type, JSON_BIG);
    assert_int_equal(parse("1.0")->type, JSON_REAL);
    assert_int_equal(parse("1e2")->type, JSON_REAL);
    assert_true(parse("123456789012345678901234567890.5")->real == 123456789012345678901234567890.5);
    assert_true(parse("0.000000000000000000000000000000123")->real == 1.23e-31);
    assert_true(parse("9007199254740993.0")->real == 9007199254740993.0);
    assert_true(parse("1e-400")->real == 0);
}

static void test_reals_do_not_follow_the_locale(void **state)
{
    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) {
        print_message("the locale de_DE.UTF-8 is not installed\n");
        skip();
    }
    assert_string_equal(text_of(parse("[1.5,1234567.125]")), "[1.5,1234567.125]");
    setlocale(LC_ALL, "C");
}

static void test_escapes_are_decoded(void **state)
{
    struct json *value = parse("\"\\u00e9\\ud83d\\ude00\\u20AC\\/\\u0000x\"");

    (void)state;
    assert_true(str_eq(json_str(value), STR("\xc3\xa9\xf0\x9f\x98\x80\xe2\x82\xac/\0x")));
}

static void test_errors_tell_the_place(void **state)
{
    static const struct {
        const char *text, *msg;
    } bad[] = {
        {"", "line 1, column 1: text ends where a value should be"},
        {"  \n ", "line 2, column 2: text ends where a value should be"},
        {"{\n \"a\": tru}", "line 2, column 7: 't' where a value should be"},
        {"[1,]", "line 1, column 4: ']' where a value should be"},
        {"[1 2]", "line 1, column 4: '2' where ',' or ']' should be"},
        {"{\"a\" 1}", "line 1, column 6: '1' where ':' should be"},
        {"{\"a\":1,}", "line 1, column 8: '}' where a member name in quotes should be"},
        {"{a:1}", "line 1, column 2: 'a' where a member name in quotes should be"},
        {"1 x", "line 1, column 3: 'x' where the end should be"},
        {"01", "line 1, column 1: number with a leading zero"},
        {"-", "line 1, column 2: text ends where a digit should be"},
        {"1.", "line 1, column 3: text ends where a digit should be"},
        {"1e+", "line 1, column 4: text ends where a digit should be"},
        {"1e999", "line 1, column 1: number out of range"},
        {"\"abc", "line 1, column 5: string does not end"},
        {"\"a\nb\"", "line 1, column 3: control character in string"},
        {"\"\\q\"", "line 1, column 2: unknown escape in string"},
        {"\"\\u12g4\"", "line 1, column 2: \\u needs four hexadecimal digits"},
        {"\"\\ud800\"", "line 1, column 2: first half of a surrogate pair without the second"},
        {"\"\\ud800\\u0041\"", "line 1, column 2: first half of a surrogate pair without the second"},
        {"\"\\udc00\"", "line 1, column 2: second half of a surrogate pair without the first"},
        {"[\n\"\xff\"]", "line 2, column 2: not UTF-8"},
        {"NaN", "line 1, column 1: 'N' where a value should be"},
        {"+1", "line 1, column 1: '+' where a value should be"},
        {"\x01", "line 1, column 1: byte 0x01 where a value should be"},
        {"[\"a\\nb\",\n x]", "line 2, column 2: 'x' where a value should be"},
    };
    struct json *value;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CLEANUP(free) char *copy = strdup(bad[i].text);
        struct err err = {0};

        assert_int_equal(json_parse(str_from(bad[i].text), &arena, &value, NULL, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
        assert_string_equal(err.msg, bad[i].msg);
        assert_int_equal(json_parse_in_place(copy, strlen(copy), &arena, &value, &err), -1);
        assert_string_equal(err.msg, bad[i].msg);
    }
}

static void test_nul_bytes_are_no_end_of_text(void **state)
{
    struct json *value;

    (void)state;
    assert_int_equal(json_parse(STR("1\0"), &arena, &value, NULL, NULL), -1);
    assert_int_equal(json_parse(STR("[1,\0 2]"), &arena, &value, NULL, NULL), -1);
    assert_int_equal(json_parse(STR("\"a\0b\""), &arena, &value, NULL, NULL), -1);
}

static void test_depth_is_limited(void **state)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct err err = {0};
    struct json *value;

    (void)state;
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        buf_putc(&text, '[');
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        buf_putc(&text, ']');
    assert_int_equal(json_parse(buf_view(&text), &arena, &value, NULL, &err), 0);
    assert_string_equal(text_of(value), text.data);
    buf_clear(&text);
    for (int i = 0; i <= JSON_DEPTH_MAX; i++)
        buf_puts(&text, "{\"a\":");
    assert_int_equal(json_parse(buf_view(&text), &arena, &value, NULL, &err), -1);
    assert_non_null(strstr(err.msg, "nested too deeply"));
}

static void test_repeated_members_are_named_and_the_last_wins(void **state)
{
    CLEANUP(buf_done) struct buf dups = {0};
    struct json *value;

    (void)state;
    assert_int_equal(
        json_parse(STR("{\"a\":1,\"spec\":{\"r\":1,\"c\":[{},{\"n\":1,\"n\":2}],\"r\":2},\"a\":3}"), &arena,
                   &value, &dups, NULL),
        0);
    assert_string_equal(dups.data, "spec.c[1].n,spec.r,a");
    assert_string_equal(text_of(value), "{\"a\":3,\"spec\":{\"r\":2,\"c\":[{},{\"n\":2}]}}");
}

static void test_repeats_in_large_objects_are_found(void **state)
{
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(buf_done) struct buf dups = {0};
    struct json *value;

    (void)state;
    buf_putc(&text, '{');
    for (int i = 0; i < 2000; i++)
        buf_printf(&text, "\"k%d\":%d,", i % 1500, i);
    buf_puts(&text, "\"z\":0}");
    assert_int_equal(json_parse(buf_view(&text), &arena, &value, &dups, NULL), 0);
    assert_int_equal(value->len, 1501);
    assert_int_equal(json_int(json_get(value, "k3"), -1), 1503);
    assert_int_equal(json_int(json_get(value, "k600"), -1), 600);
    assert_true(str_starts(buf_view(&dups), "k0,k1,"));
    assert_true(str_ends(buf_view(&dups), ",k499"));
}

/* Each repeat would keep its whole path. */
static void test_paths_of_repeated_members_are_bounded(void **state)
{
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(buf_done) struct buf dups = {0};
    struct json *value;

    (void)state;
    for (int i = 0; i < 100; i++)
        buf_printf(&text, "{\"%0*d\":", 1000, i);
    buf_putc(&text, '{');
    for (int i = 0; i < 100000; i++)
        buf_puts(&text, "\"a\":0,");
    buf_puts(&text, "\"b\":0}");
    for (int i = 0; i < 100; i++)
        buf_putc(&text, '}');
    assert_int_equal(json_parse(buf_view(&text), &arena, &value, &dups, NULL), 0);
    assert_true(dups.len > JSON_DUPS_BYTES);
    assert_true(dups.len < text.len);
}

static void test_in_place_strings_point_into_the_text(void **state)
{
    char text[] = "{\"plain\":\"value\",\"esc\":\"a\\nb\",\"n\":12345678901234567890}";
    const char *s;
    struct json *value;

    (void)state;
    assert_int_equal(json_parse_in_place(text, sizeof(text) - 1, &arena, &value, NULL), 0);
    s = json_get_string(value, "plain");
    assert_true(s > text && s < text + sizeof(text));
    assert_string_equal(s, "value");
    assert_string_equal(json_get_string(value, "esc"), "a\nb");
    assert_string_equal(text_of(json_get(value, "n")), "12345678901234567890");
}

static void test_writing_is_valid_whatever_the_tree_holds(void **state)
{
    struct json *array = json_new_array(&arena), *deep = array;

    (void)state;
    json_push(&arena, array, json_of_real(NAN));
    json_push(&arena, array, json_of_real(-INFINITY));
    json_push(&arena, array, json_of_str(&arena, STR("a\xff\xe2\x82 \xc3\xa9\xed\xa0\x80z")));
    json_push(&arena, array, (struct json){.type = JSON_BIG, .len = 2, .string = "1x"});
    json_push(&arena, array, (struct json){.type = JSON_BIG, .len = 2, .string = "01"});
    assert_string_equal(text_of(array), "[null,null,\"a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd \xc3\xa9"
                                        "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\",null,null]");
    assert_string_equal(text_of(NULL), "null");
    for (int i = 0; i < 2 * JSON_DEPTH_MAX; i++)
        deep = json_push(&arena, deep, *json_new_array(&arena));
    parse(text_of(array));
}

static void test_strings_of_any_length_are_escaped(void **state)
{
    char text[70], back[70];

    (void)state;
    for (size_t len = 0; len < sizeof(text); len++)
        for (size_t at = 0; at <= len; at++) {
            struct json *value;

            memset(text, 'x', sizeof(text));
            if (at < len)
                text[at] = "\"\\\n\x1f"[at % 4];
            value = parse(text_of(&(struct json){.type = JSON_STRING, .len = (uint32_t)len, .string = text}));
            assert_int_equal(value->len, len);
            memcpy(back, value->string, len);
            assert_memory_equal(back, text, len);
        }
}

static void test_pretty_and_sorted(void **state)
{
    CLEANUP(buf_done) struct buf buf = {0};
    struct json *value = parse("{\"b\":[1,{}],\"a\":{\"d\":[],\"c\":\"x\"}}");

    (void)state;
    json_write_pretty(&buf, value, 2);
    assert_string_equal(
        buf.data, "{\n  \"b\": [\n    1,\n    {}\n  ],\n  \"a\": {\n    \"d\": [],\n    \"c\": \"x\"\n  "
                  "}\n}");
    buf_clear(&buf);
    json_write_sorted(&buf, value);
    assert_string_equal(buf.data, "{\"a\":{\"c\":\"x\",\"d\":[]},\"b\":[1,{}]}");
}

static void test_asking_a_missing_value_is_fine(void **state)
{
    struct json *value = parse("{\"a\":{\"b\":[{\"name\":\"x\"},7]},\"s\":\"t\",\"y\":true}");

    (void)state;
    assert_null(json_get(NULL, "a"));
    assert_null(json_get(json_get(value, "s"), "a"));
    assert_null(json_at(value, "a.b.2"));
    assert_null(json_at(value, "a.b.-1"));
    assert_null(json_at(value, "a.b.name"));
    assert_null(json_at(value, ""));
    assert_string_equal(json_at_string(value, "a.b.0.name"), "x");
    assert_int_equal(json_int(json_at(value, "a.b.1"), 0), 7);
    assert_null(json_at_string(value, "a.b"));
    assert_null(json_item(NULL, 0));
    assert_string_equal(json_string_or(NULL, "f"), "f");
    assert_null(json_str(NULL).s);
    assert_int_equal(json_int(NULL, 9), 9);
    assert_true(json_bool(json_get(value, "y")));
    assert_false(json_bool(json_get(value, "s")));
    assert_int_equal(json_len(NULL), 0);
    assert_int_equal(json_len(value), 3);
    assert_string_equal(json_type_name(NULL), "null");
    assert_string_equal(json_type_name(value), "object");
}

static void test_equality_is_by_value(void **state)
{
    static const struct {
        const char *a, *b;
        bool equal;
    } pairs[] = {
        {"1", "1.0", true},
        {"1", "1.5", false},
        {"9007199254740993", "9007199254740992.0", false},
        {"9223372036854775808", "9223372036854775808.0", true},
        {"9223372036854775809", "9223372036854775808.0", false},
        {"9223372036854775807", "9223372036854775808.0", false},
        {"9223372036854775808", "9223372036854775808", true},
        {"{\"a\":1,\"b\":[2]}", "{\"b\":[2],\"a\":1}", true},
        {"{\"a\":1}", "{\"b\":1}", false},
        {"{\"a\":1}", "{\"a\":1,\"b\":1}", false},
        {"[1,2]", "[2,1]", false},
        {"\"1\"", "1", false},
        {"null", "false", false},
        {"\"a\\u0000b\"", "\"a\\u0000c\"", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        assert_true(json_equal(parse(pairs[i].a), parse(pairs[i].b)) == pairs[i].equal);
        assert_true(json_equal(parse(pairs[i].b), parse(pairs[i].a)) == pairs[i].equal);
    }
    assert_true(json_equal(NULL, NULL));
    assert_false(json_equal(NULL, parse("null")));
}

static void test_setters_replace_in_place_or_append(void **state)
{
    struct json *object = json_new_object(&arena), *inner;

    (void)state;
    json_set_int(&arena, object, "n", 1);
    json_set_string(&arena, object, "s", "x");
    json_set_bool(&arena, object, "b", true);
    json_set_string(&arena, object, "none", NULL);
    json_set_int(&arena, object, "n", 2);
    inner = json_set_object(&arena, object, "o");
    json_set_int(&arena, inner, "i", 1);
    json_push_string(&arena, json_set_array(&arena, object, "a"), "y");
    assert_string_equal(text_of(object),
                        "{\"n\":2,\"s\":\"x\",\"b\":true,\"none\":null,\"o\":{\"i\":1},\"a\":[\"y\"]}");
    assert_int_equal(json_need_object(&arena, object, "o")->len, 1);
    assert_non_null(json_need_object(&arena, object, "none"));
    assert_non_null(json_need_object(&arena, object, "new"));
    assert_null(json_need_object(&arena, object, "s"));
    assert_true(json_remove(object, "s"));
    assert_false(json_remove(object, "s"));
}

/* Against a plain list of what should be there. */
static void test_index_stays_right_under_changes(void **state)
{
    struct json *object = json_new_object(&arena);
    bool there[200] = {0};
    unsigned seed = 7, count = 0;
    char key[16];

    (void)state;
    for (int step = 0; step < 20000; step++) {
        unsigned i;

        seed = seed * 1103515245 + 12345;
        i = (seed >> 16) % 200;
        snprintf(key, sizeof(key), "key-%u", i);
        assert_true((json_get(object, key) != NULL) == there[i]);
        if ((seed >> 8) % 3 == 0) {
            assert_true(json_remove(object, key) == there[i]);
            count -= there[i];
            there[i] = false;
        } else {
            json_set_int(&arena, object, key, i);
            count += !there[i];
            there[i] = true;
        }
        if (step % 97 == 0)
            json_sort_members(object);
        if (step % 501 == 0)
            object = json_copy(&arena, object);
        assert_int_equal(object->len, count);
    }
    JSON_EACH_MEMBER(object, it)
        assert_ptr_equal(json_get(object, it->key), &it->value);
}

static void test_arrays_insert_and_remove(void **state)
{
    struct json *array = json_new_array(&arena);

    (void)state;
    json_insert(&arena, array, 0, json_of_int(2));
    json_insert(&arena, array, 0, json_of_int(0));
    json_insert(&arena, array, 1, json_of_int(1));
    json_set_int(&arena, json_push_object(&arena, array), "k", 3);
    json_push(&arena, array, json_of_bool(false));
    json_remove_item(array, 1);
    assert_string_equal(text_of(array), "[0,2,{\"k\":3},false]");
}

static void test_copy_shares_nothing(void **state)
{
    struct arena other = {0};
    struct json *a = parse("{\"a\":[{\"b\":\"c\"}]}"), *b = json_copy(&other, a);

    (void)state;
    json_set_string(&other, json_at(b, "a.0"), "b", "changed");
    assert_string_equal(json_at_string(a, "a.0.b"), "c");
    arena_done(&arena);
    assert_string_equal(json_at_string(b, "a.0.b"), "changed");
    assert_null(json_copy(&other, NULL));
    arena_done(&other);
}

static void test_loops_over_other_types_do_nothing(void **state)
{
    struct json *value = parse("{\"a\":[1,2,3],\"e\":[],\"o\":{}}");
    int sum = 0;

    (void)state;
    JSON_EACH(json_get(value, "a"), it)
        sum += (int)json_int(it, 0);
    JSON_EACH(json_get(value, "e"), it)
        sum += 100;
    JSON_EACH(value, it)
        sum += 100;
    JSON_EACH_MEMBER(json_get(value, "a"), it)
        sum += 100;
    JSON_EACH_MEMBER(json_get(value, "none"), it)
        sum += 100;
    JSON_EACH_MEMBER(value, it)
        sum += 10;
    assert_int_equal(sum, 36);
}

#define TEST(name) cmocka_unit_test_teardown(name, reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_every_kind_survives),
        TEST(test_numbers_keep_their_kind),
        TEST(test_reals_do_not_follow_the_locale),
        TEST(test_escapes_are_decoded),
        TEST(test_errors_tell_the_place),
        TEST(test_nul_bytes_are_no_end_of_text),
        TEST(test_depth_is_limited),
        TEST(test_repeated_members_are_named_and_the_last_wins),
        TEST(test_repeats_in_large_objects_are_found),
        TEST(test_paths_of_repeated_members_are_bounded),
        TEST(test_in_place_strings_point_into_the_text),
        TEST(test_writing_is_valid_whatever_the_tree_holds),
        TEST(test_strings_of_any_length_are_escaped),
        TEST(test_pretty_and_sorted),
        TEST(test_asking_a_missing_value_is_fine),
        TEST(test_equality_is_by_value),
        TEST(test_setters_replace_in_place_or_append),
        TEST(test_index_stays_right_under_changes),
        TEST(test_arrays_insert_and_remove),
        TEST(test_copy_shares_nothing),
        TEST(test_loops_over_other_types_do_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
