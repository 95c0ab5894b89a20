#include "base/test/test.h"
#include "base/yaml.h"

static struct arena arena;

static int reset(void **state)
{
    (void)state;
    arena_done(&arena);
    return 0;
}

static const char *json_text(const struct json *value)
{
    CLEANUP(buf_done) struct buf buf = {0};

    json_write(&buf, value);
    return arena_strdup(&arena, buf.data);
}

static const char *read_one(const char *text)
{
    struct json *value = NULL;
    struct err err = {0};

    if (yaml_parse_one(str_from(text), &arena, &value, &err) < 0)
        fail_msg("%s: %s", text, err.msg);
    return json_text(value);
}

static const char *refused(struct str text)
{
    struct json *docs = NULL;
    struct err err = {0};

    assert_int_equal(yaml_parse(text, &arena, &docs, NULL, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    return arena_strdup(&arena, err.msg);
}

static const char *written(const char *json)
{
    CLEANUP(buf_done) struct buf buf = {0};
    struct json *value = NULL, *again = NULL;
    struct err err = {0};

    assert_int_equal(json_parse(str_from(json), &arena, &value, NULL, &err), 0);
    yaml_write(&buf, value);
    if (yaml_parse_one(buf_view(&buf), &arena, &again, &err) < 0)
        fail_msg("%s\n%s", buf.data, err.msg);
    assert_true(json_equal(value, again));
    return arena_strdup(&arena, buf.data);
}

static void test_plain_scalars_resolve_as_kubectl_does(void **state)
{
    static const char *const cases[][2] = {
        {"y", "true"},
        {"Y", "true"},
        {"yes", "true"},
        {"On", "true"},
        {"TRUE", "true"},
        {"n", "false"},
        {"No", "false"},
        {"off", "false"},
        {"False", "false"},
        {"yEs", "\"yEs\""},
        {"~", "null"},
        {"null", "null"},
        {"NULL", "null"},
        {"nULL", "\"nULL\""},
        {"12", "12"},
        {"+12", "12"},
        {"-12", "-12"},
        {"0644", "420"},
        {"0o17", "15"},
        {"0x1F", "31"},
        {"-0x10", "-16"},
        {"0b101", "5"},
        {"1_000", "1000"},
        {"0899", "899.0"},
        {"0x", "\"0x\""},
        {"18446744073709551615", "18446744073709551615"},
        {"99999999999999999999", "99999999999999999999"},
        {"0xffffffffffffffff", "18446744073709551615"},
        {"0xfffffffffffffffff", "\"0xfffffffffffffffff\""},
        {"1.5", "1.5"},
        {"1.", "1.0"},
        {".5", "0.5"},
        {"1e3", "1000.0"},
        {"-1.5E-2", "-0.015"},
        {"1e400", "\"1e400\""},
        {"1e", "\"1e\""},
        {".", "\".\""},
        {"-", "[null]"},
        {"-.", "\"-.\""},
        {"1.2.3", "\"1.2.3\""},
        {"2026-01-02", "\"2026-01-02\""},
        {"12:30", "\"12:30\""},
        {"100m", "\"100m\""},
        {"1Gi", "\"1Gi\""},
        {"\"12\"", "\"12\""},
        {"'y'", "\"y\""},
        {"|-\n  12", "\"12\""},
        {">-\n  true", "\"true\""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_string_equal(read_one(cases[i][0]), cases[i][1]);
}

static void test_tags_are_honoured(void **state)
{
    (void)state;
    assert_string_equal(
        read_one("[!!str 12, !!int \"12\", !!float 3, !!bool 'yes', !!null '', !!binary aGk=, ! 12]"),
        "[\"12\",12,3.0,true,null,\"hi\",\"12\"]");
    assert_string_equal(read_one("{a: !mine x, b: !!timestamp 2026-01-02, c: !!map {d: 1}}"),
                        "{\"a\":\"x\",\"b\":\"2026-01-02\",\"c\":{\"d\":1}}");
    assert_non_null(strstr(refused(STR("a: !!int x")), "line 1, column 4: value is no !!int"));
    assert_non_null(strstr(refused(STR("a: !!binary '*'")), "not base64"));
    assert_non_null(strstr(refused(STR("a: !!binary //4=")), "not UTF-8"));
}

static void test_keys_are_their_text(void **state)
{
    (void)state;
    assert_string_equal(read_one("{1: a, yes: b, ~: c, 'x y': d, ? e : f}"),
                        "{\"1\":\"a\",\"yes\":\"b\",\"~\":\"c\",\"x y\":\"d\",\"e\":\"f\"}");
    assert_non_null(strstr(refused(STR("{[a]: b}")), "a key must be a scalar"));
}

static void test_quoted_text_is_decoded(void **state)
{
    (void)state;
    assert_string_equal(read_one("'it''s ''''quoted'''''"), "\"it's ''quoted''\"");
    assert_string_equal(read_one("'a  \n  b\n\n\n  c'"), "\"a b\\n\\nc\"");
    assert_string_equal(read_one("\"a\\\\\\\n   b\\\n\n   c\""), "\"a\\\\b\\nc\"");
    assert_string_equal(read_one("\"x \\\n  y\\t\n  z\""), "\"x y\\t z\"");
    assert_string_equal(read_one("\"\\x41\\u00e9\\U0001F600\\0\\e\\/\\_\\N\""),
                        "\"A\xc3\xa9\xf0\x9f\x98\x80\\u0000\\u001b/\xc2\xa0\xc2\x85\"");
    assert_non_null(refused(STR("\"\\ud800\"")));
    assert_non_null(refused(STR("\"\\q\"")));
}

static void test_block_scalars(void **state)
{
    (void)state;
    assert_string_equal(read_one("d:\n  a: |\n  b: >-\n  c: x\ne:\n  - |\n  - z\n"),
                        "{\"d\":{\"a\":\"\",\"b\":\"\",\"c\":\"x\"},\"e\":[\"\",\"z\"]}");
    assert_string_equal(read_one("a: >-\n  x\n\n   y\n  z\n  w\n"), "{\"a\":\"x\\n\\n y\\nz w\"}");
    assert_string_equal(
        read_one("a: |\n  x\n   y\n\n  z\nb: |-\n  x\nc: |+\n  x\n\nd: >\n  x\n  y\n\n  z\ne: |2\n   x\n"),
        "{\"a\":\"x\\n y\\n\\nz\\n\",\"b\":\"x\",\"c\":\"x\\n\\n\",\"d\":\"x y\\nz\\n\",\"e\":\" x\\n\"}");
}

static void test_carriage_returns_are_line_ends(void **state)
{
    (void)state;
    assert_string_equal(read_one("a: |\r\n  x\r\n  y\r\nb: 'c\r\n\r\n  d'\r\n"),
                        "{\"a\":\"x\\ny\\n\",\"b\":\"c\\nd\"}");
}

static void test_aliases_are_copies(void **state)
{
    struct json *value;

    (void)state;
    assert_int_equal(
        yaml_parse_one(STR("a: &x {k: [1]}\nb: *x\n*k : 1\n? &k2 z\n: *k2\n"), &arena, &value, NULL), -1);
    assert_int_equal(yaml_parse_one(STR("a: &x {k: [1]}\nb: *x\nc: &n n1\n*n : 1\n"), &arena, &value, NULL),
                     0);
    assert_string_equal(json_text(value), "{\"a\":{\"k\":[1]},\"b\":{\"k\":[1]},\"c\":\"n1\",\"n1\":1}");
    json_push(&arena, json_at(value, "b.k"), json_of_int(2));
    assert_int_equal(json_at(value, "a.k")->len, 1);
    assert_non_null(strstr(refused(STR("a: *x")), "alias 'x' has no anchor"));
    assert_non_null(strstr(refused(STR("a: &x [*x]")), "anchor 'x' contains itself"));
    assert_non_null(strstr(refused(STR("a: &x 1\n---\nb: *x")), "alias 'x' has no anchor"));
}

static void test_small_text_cannot_explode(void **state)
{
    CLEANUP(buf_done) struct buf text = {0};

    (void)state;
    buf_puts(&text, "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 9; i++) {
        buf_printf(&text, "a%d: &a%d [", i, i);
        for (int j = 0; j < 10; j++)
            buf_printf(&text, "*a%d, ", i - 1);
        buf_puts(&text, "]\n");
    }
    assert_non_null(strstr(refused(buf_view(&text)), "more than 1000000 values"));
    buf_clear(&text);
    buf_puts(&text, "a: &a \"");
    for (int i = 0; i < 1 << 20; i++)
        buf_putc(&text, 'x');
    buf_puts(&text, "\"\nb: [");
    for (int i = 0; i < 100; i++)
        buf_puts(&text, "*a, ");
    buf_puts(&text, "]\n");
    assert_non_null(strstr(refused(buf_view(&text)), "bytes of text"));
    assert_true(arena.total < (size_t)256 << 20);
}

static void test_merges(void **state)
{
    (void)state;
    assert_string_equal(read_one("a: &a {x: 1, y: 2}\nb: &b {x: 9, z: 3}\nc: {y: 0, <<: *a}\n"
                                 "d: {<<: [*b, *a, {w: 1}], v: 0}\ne: {<<: {q: 1}, '<<': lit}\n"),
                        "{\"a\":{\"x\":1,\"y\":2},\"b\":{\"x\":9,\"z\":3},\"c\":{\"y\":0,\"x\":1},"
                        "\"d\":{\"v\":0,\"x\":9,\"z\":3,\"y\":2,\"w\":1},\"e\":{\"<<\":\"lit\",\"q\":1}}");
    assert_non_null(strstr(refused(STR("a: {<<: 1}")), "'<<' takes a mapping"));
    assert_non_null(strstr(refused(STR("a: {<<: [1]}")), "'<<' takes a mapping"));
    assert_non_null(strstr(refused(STR("a: {<<: [[{b: 1}]]}")), "'<<' takes a mapping"));
}

static void test_repeated_keys_are_errors_at_their_place(void **state)
{
    CLEANUP(buf_done) struct buf text = {0};

    (void)state;
    assert_string_equal(refused(STR("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n")),
                        "line 5, column 3: key 'c' is there already: `c: 3`");
    for (int i = 0; i < 500; i++)
        buf_printf(&text, "k%d: 1\n", i);
    buf_puts(&text, "k250: 2\n");
    assert_string_equal(refused(buf_view(&text)),
                        "line 501, column 1: key 'k250' is there already: `k250: 2`");
}

static void test_errors_show_place_and_line(void **state)
{
    (void)state;
    assert_string_equal(refused(STR("a: .inf")), "line 1, column 4: JSON has no number .inf: `a: .inf`");
    assert_true(starts_with(refused(STR("a: [1, 2\nb: 3\n")), "line "));
    assert_true(starts_with(refused(STR("a: b\n\tc: d\n")), "line 2, column "));
    assert_true(
        starts_with(refused(STR("a: 1\nb: \"x\n\n")), "line 2, column 4: found unexpected end of stream"));
    assert_true(starts_with(refused(STR("a: 1\nb: [1, 2\n")), "line 2, column 4: "));
    assert_true(starts_with(refused(STR("a: 1\nb: \x01")), "line 2, column 4: control characters"));
    assert_string_equal(refused(STR("a: 1\nb: \xff")), "line 2, column 4: not UTF-8: `b:`");
    assert_string_equal(refused(STR("a\0b")), "line 1, column 2: NUL byte: `a`");
}

static void test_documents_and_their_lines(void **state)
{
    struct json *docs;
    const int *lines;

    (void)state;
    assert_int_equal(yaml_parse(STR("# c\n---\na: 1\n---\n# none\n---\n\n- 2\n...\n---\n~\n---\n"), &arena,
                                &docs, &lines, NULL),
                     0);
    assert_string_equal(json_text(docs), "[{\"a\":1},[2],null]");
    assert_int_equal(lines[0], 3);
    assert_int_equal(lines[1], 8);
    assert_int_equal(lines[2], 11);
    assert_int_equal(yaml_parse(STR(""), &arena, &docs, &lines, NULL), 0);
    assert_int_equal(docs->len, 0);
    assert_int_equal(yaml_parse((struct str){NULL, 0}, &arena, &docs, NULL, NULL), 0);
    assert_int_equal(yaml_parse(STR("\n# only a comment\n"), &arena, &docs, NULL, NULL), 0);
    assert_int_equal(docs->len, 0);
    assert_int_equal(yaml_parse_one(STR("a: 1\n---\nb: 2\n"), &arena, &docs, NULL), -1);
    assert_int_equal(yaml_parse_one(STR("---\n"), &arena, &docs, NULL), -1);
}

static void test_depth_is_limited(void **state)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct json *docs;

    (void)state;
    for (int i = 0; i < YAML_DEPTH_MAX; i++)
        buf_putc(&text, '[');
    for (int i = 0; i < YAML_DEPTH_MAX; i++)
        buf_putc(&text, ']');
    assert_int_equal(yaml_parse(buf_view(&text), &arena, &docs, NULL, NULL), 0);
    buf_clear(&text);
    for (int i = 0; i < 20000; i++)
        buf_putc(&text, '[');
    assert_non_null(strstr(refused(buf_view(&text)), "nested too deeply"));
}

static void test_json_is_yaml(void **state)
{
    const char *text = " {\"a\":[1,-2.5,null,true,\"x\\n\\u00e9\\\"/\"],\"b\":{\"c\":{}}}";

    (void)state;
    assert_string_equal(read_one("{\"a\": \"\\ud83d\\ude00\"}"), "{\"a\":\"\xf0\x9f\x98\x80\"}");
    assert_non_null(
        strstr(refused(STR("{\"a\": 1,\n \"a\": 2}")), "line 2, column 2: key 'a' is there already"));
    assert_string_equal(read_one(text), "{\"a\":[1,-2.5,null,true,\"x\\n\xc3\xa9\\\"/\"],\"b\":{\"c\":{}}}");
}

static void test_written_as_kubectl_does(void **state)
{
    (void)state;
    assert_string_equal(
        written("{\"apiVersion\":\"v1\",\"metadata\":{\"labels\":{\"a\":\"1\",\"b\":\"x\"},\"e\":{}},"
                "\"items\":[{\"name\":\"n\",\"args\":[\"-c\",\"- x\"]},[1,[2]],[],\"s\"],\"n\":null}"),
        "apiVersion: v1\n"
        "metadata:\n"
        "  labels:\n"
        "    a: \"1\"\n"
        "    b: x\n"
        "  e: {}\n"
        "items:\n"
        "- name: \"n\"\n"
        "  args:\n"
        "  - -c\n"
        "  - '- x'\n"
        "- - 1\n"
        "  - - 2\n"
        "- []\n"
        "- s\n"
        "\"n\": null\n");
}

static void test_text_blocks_where_they_are_safe(void **state)
{
    (void)state;
    assert_string_equal(
        written("{\"a\":\"x\\n  y\\n\\nz\",\"b\":\"x\\n\",\"c\":[\"x\\ny\\n\\n\"],\"d\":\" x\\ny\",\"e\":\"x "
                "\\ny\"}"),
        "a: |-\n  x\n    y\n\n  z\nb: |\n  x\nc:\n- |+\n  x\n  y\n\nd: \" x\\ny\"\ne: \"x \\ny\"\n");
}

static void test_strings_are_quoted_where_they_must_be(void **state)
{
    static const char *const cases[][2] = {
        {"\"true\"", "\"true\"\n"},
        {"\"y\"", "\"y\"\n"},
        {"\"\"", "\"\"\n"},
        {"\"0x1f\"", "\"0x1f\"\n"},
        {"\"1:30\"", "\"1:30\"\n"},
        {"\"2026-01-02T03:04:05Z\"", "\"2026-01-02T03:04:05Z\"\n"},
        {"\"1e3\"", "\"1e3\"\n"},
        {"\"=\"", "\"=\"\n"},
        {"\"a: b\"", "'a: b'\n"},
        {"\"it's\"", "it's\n"},
        {"\"'s\"", "'''s'\n"},
        {"\"#x\"", "'#x'\n"},
        {"\"a #b\"", "'a #b'\n"},
        {"\"a:\"", "'a:'\n"},
        {"\" a\"", "' a'\n"},
        {"\"*a\"", "'*a'\n"},
        {"\"---\"", "'---'\n"},
        {"\"nginx:1.25\"", "nginx:1.25\n"},
        {"\"500m\"", "500m\n"},
        {"\"10.0.0.1\"", "\"10.0.0.1\"\n"},
        {"\"http://x/?a=b#c\"", "http://x/?a=b#c\n"},
        {"\"\\u0001\\u0085\\u2028\\ufeff\"", "\"\\x01\\x85\\u2028\\uFEFF\"\n"},
        {"\"\\u00e9\"", "\xc3\xa9\n"},
        {"1e21", "1.0e+21\n"},
        {"1e-7", "1.0e-07\n"},
        {"100.0", "100.0\n"},
        {"123456789012345678901234567890", "123456789012345678901234567890\n"},
        {"[]", "[]\n"},
        {"null", "null\n"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_string_equal(written(cases[i][0]), cases[i][1]);
}

static void test_long_keys_are_written_explicitly(void **state)
{
    CLEANUP(buf_done) struct buf text = {0};

    (void)state;
    buf_puts(&text, "{\"o\":{\"");
    for (int i = 0; i < 3000; i++)
        buf_putc(&text, 'k');
    buf_puts(&text, "\":{\"a\":1},\"b\":2}}");
    assert_non_null(strstr(written(text.data), "\n  ? kkk"));
}

#define TEST(name) cmocka_unit_test_teardown(name, reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_plain_scalars_resolve_as_kubectl_does),
        TEST(test_tags_are_honoured),
        TEST(test_keys_are_their_text),
        TEST(test_quoted_text_is_decoded),
        TEST(test_block_scalars),
        TEST(test_carriage_returns_are_line_ends),
        TEST(test_aliases_are_copies),
        TEST(test_small_text_cannot_explode),
        TEST(test_merges),
        TEST(test_repeated_keys_are_errors_at_their_place),
        TEST(test_errors_show_place_and_line),
        TEST(test_documents_and_their_lines),
        TEST(test_depth_is_limited),
        TEST(test_json_is_yaml),
        TEST(test_written_as_kubectl_does),
        TEST(test_text_blocks_where_they_are_safe),
        TEST(test_strings_are_quoted_where_they_must_be),
        TEST(test_long_keys_are_written_explicitly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
