/* Bodies made by Kubernetes' own encoder, and bytes that nobody should send. */
#include "base/cleanup.h"
#include "objects/schema.h"

/* cmocka.h wants the others before it */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
/* clang-format on */

static const struct {
    const char *kind, *hex, *text;
} bodies[] = {
#include "data/protobuf_bodies.inc"
};

static void add_hex(struct buf *buf, const char *hex)
{
    for (; *hex; hex += 2) {
        char digits[3] = {hex[0], hex[1], '\0'};

        buf_putc(buf, (char)strtoul(digits, NULL, 16));
    }
}

static void test_bodies_of_kubernetes_decode_to_their_json(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        CLEANUP(arena_done) struct arena arena = {0};
        CLEANUP(buf_done) struct buf body = {0}, text = {0};
        struct json *doc = NULL, *expected = NULL;
        struct err err = {0};

        add_hex(&body, bodies[i].hex);
        if (schema_from_protobuf(buf_view(&body), &arena, &doc, &err) < 0)
            fail_msg("%s: %s", bodies[i].kind, err.msg);
        assert_int_equal(json_parse(str_from(bodies[i].text), &arena, &expected, NULL, &err), 0);
        json_write(&text, doc);
        if (!json_equal(doc, expected))
            fail_msg("%s\n  is       %s\n  expected %s", bodies[i].kind, text.data, bodies[i].text);
        /* What comes out is what JSON requests must be, too. */
        assert_int_equal(schema_check(schema_type_find(bodies[i].kind), &arena, doc, false, NULL, &err), 0);
        assert_true(json_equal(doc, expected));
    }
}

static void test_every_cut_off_body_is_refused_or_shorter(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        CLEANUP(buf_done) struct buf body = {0};

        add_hex(&body, bodies[i].hex);
        for (size_t len = 0; len < body.len; len++) {
            CLEANUP(arena_done) struct arena arena = {0};
            struct json *doc = NULL;
            struct err err = {0};

            if (schema_from_protobuf((struct str){body.data, len}, &arena, &doc, &err) < 0)
                assert_true(err.msg[0] && (err.code == ERR_INVALID || err.code == ERR_UNSUPPORTED));
        }
    }
}

/* k8s\0 {1: {1: "v1", 2: kind}, 2: raw} */
static int decode(struct arena *arena, const char *kind, const char *raw_hex, struct json **ret,
                  struct err *err)
{
    CLEANUP(buf_done) struct buf body = {0}, raw = {0};

    add_hex(&raw, raw_hex);
    buf_add(&body, "k8s\0", 4);
    buf_printf(&body, "\n%c\n%cv1\x12%c%s", (int)(6 + strlen(kind)), 2, (int)strlen(kind), kind);
    assert_true(raw.len < 128);
    buf_printf(&body, "\x12%c", (int)raw.len);
    if (raw.len == 0)
        buf_putc(&body, '\0');
    buf_add(&body, raw.data, raw.len);
    if (raw.len == 0)
        body.len--;
    return schema_from_protobuf(buf_view(&body), arena, ret, err);
}

/* Kubernetes says where in its source the kinds are listed. */
#define SCHEME "in scheme \"pkg/runtime/scheme.go:110\""

static void assert_decodes(const char *kind, const char *raw_hex, const char *expected)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};
    struct json *doc = NULL;
    struct err err = {0};

    if (decode(&arena, kind, raw_hex, &doc, &err) < 0)
        fail_msg("%s %s: %s", kind, raw_hex, err.msg);
    json_write(&text, doc);
    assert_string_equal(text.data, expected);
}

static void assert_refused(const char *kind, const char *raw_hex, enum err_code code, const char *message)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc = NULL;
    struct err err = {0};

    assert_int_equal(decode(&arena, kind, raw_hex, &doc, &err), -1);
    assert_int_equal(err.code, code);
    assert_string_equal(err.msg, message);
}

static void test_unknown_numbers_are_skipped(void **state)
{
    (void)state;
    /* ConfigMap {99: 1, 98: fixed64, 97: "a", 96: fixed32, 4: false} */
    assert_decodes("ConfigMap",
                   "980601910600000000000000008a060161850600000000"
                   "2000",
                   "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"immutable\":false}");
}

static void test_plain_zero_is_absent_and_pointer_zero_is_kept(void **state)
{
    (void)state;
    /* Pod {2: {11: hostNetwork false, 4: terminationGracePeriodSeconds 0, 10: nodeName "", 27: share… false}}
     */
    assert_decodes("Pod",
                   "120958002000"
                   "5200"
                   "d80100",
                   "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"spec\":{\"terminationGracePeriodSeconds\":0,"
                   "\"shareProcessNamespace\":false}}");
    /* a later zero takes back an earlier value: nodeName "a", nodeName "" */
    assert_decodes("Pod",
                   "120552016152"
                   "00",
                   "{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}");
}

static void test_whole_numbers_may_be_packed(void **state)
{
    (void)state;
    /* Pod {2: {14: securityContext {4: supplementalGroups packed 1, 300}}} */
    assert_decodes("Pod",
                   "1207"
                   "7205"
                   "2203"
                   "01ac02",
                   "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"spec\":{\"securityContext\":{"
                   "\"supplementalGroups\":[1,300]}}}");
}

static void test_messages_that_come_twice_merge(void **state)
{
    (void)state;
    /* Pod {1: {1: name a}, 1: {3: namespace b}} */
    assert_decodes(
        "Pod",
        "0a030a0161"
        "0a031a0162",
        "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\",\"namespace\":\"b\"}}");
}

static void test_map_entries_may_lack_key_or_value(void **state)
{
    (void)state;
    /* ConfigMap {2: {}, 2: {1: "a"}}; ResourceQuota {2: {1: {1: "a"}}} */
    assert_decodes("ConfigMap",
                   "1200"
                   "12030a0161",
                   "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"data\":{\"\":\"\",\"a\":\"\"}}");
    assert_decodes("ResourceQuota",
                   "1205"
                   "0a030a0161",
                   "{\"kind\":\"ResourceQuota\",\"apiVersion\":\"v1\",\"spec\":{\"hard\":{\"a\":\"0\"}}}");
}

static void test_wrong_bytes_are_refused(void **state)
{
    (void)state;
    assert_refused("Pod", "0a05", ERR_INVALID, "protobuf: field is cut off or of unknown form");
    assert_refused("Pod", "0b", ERR_INVALID, "protobuf: field is cut off or of unknown form");
    assert_refused("Pod", "00", ERR_INVALID, "protobuf: bad field tag");
    assert_refused("Pod", "ffffffffffffffffffff7f", ERR_INVALID, "protobuf: bad field tag");
    assert_refused("Pod", "0801", ERR_INVALID, "protobuf: field metadata is of another type");
    assert_refused("Pod", "0a030a01ff", ERR_INVALID, "protobuf: string is not UTF-8");
    assert_refused("ConfigMap", "12030a01ff", ERR_INVALID, "protobuf: key is not UTF-8");
    assert_refused("ConfigMap", "1001", ERR_INVALID, "protobuf: field data is of another type");
    assert_refused(
        "ResourceQuota",
        "1209"
        "0a07120"
        "50a0378797a",
        ERR_INVALID,
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'");
    /* Pod {1: {8: creationTimestamp {1: 2^62}}} */
    assert_refused("Pod",
                   "0a0c"
                   "420a"
                   "08808080808080808040",
                   ERR_INVALID, "protobuf: time is out of range");
    assert_refused("Nothing", "", ERR_UNSUPPORTED,
                   "no kind \"Nothing\" is registered for version \"v1\" " SCHEME);
    assert_refused("Job", "", ERR_UNSUPPORTED, "no kind \"Job\" is registered for version \"v1\" " SCHEME);
    assert_refused("PodSpec", "", ERR_UNSUPPORTED,
                   "no kind \"PodSpec\" is registered for version \"v1\" " SCHEME);
    assert_refused("TrainingJob", "", ERR_UNSUPPORTED,
                   "no kind \"TrainingJob\" is registered for version \"v1\" " SCHEME);
}

static void test_bodies_without_the_mark_are_refused(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc = NULL;
    struct err err = {0};

    (void)state;
    assert_int_equal(schema_from_protobuf(STR("{}"), &arena, &doc, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_int_equal(schema_from_protobuf(STR(""), &arena, &doc, &err), -1);
}

static void test_small_bodies_cannot_grow_without_bound(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf body = {0};
    struct json *doc = NULL;
    struct err err = {0};
    size_t items = 3000000, len = items * 2;

    (void)state;
    /* Pod {2: {2: {}, 2: {}, …}}: two bytes a container */
    buf_add(&body, "k8s\0\n\x09\n\x02v1\x12\x03Pod\x12", 16);
    for (uint64_t n = len + 5; n; n >>= 7)
        buf_putc(&body, (char)((n & 0x7f) | (n > 0x7f ? 0x80 : 0)));
    buf_putc(&body, 0x12);
    for (uint64_t n = len; n; n >>= 7)
        buf_putc(&body, (char)((n & 0x7f) | (n > 0x7f ? 0x80 : 0)));
    for (size_t i = 0; i < items; i++)
        buf_add(&body, "\x12\0", 2);
    assert_int_equal(schema_from_protobuf(buf_view(&body), &arena, &doc, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bodies_of_kubernetes_decode_to_their_json),
        cmocka_unit_test(test_every_cut_off_body_is_refused_or_shorter),
        cmocka_unit_test(test_unknown_numbers_are_skipped),
        cmocka_unit_test(test_plain_zero_is_absent_and_pointer_zero_is_kept),
        cmocka_unit_test(test_whole_numbers_may_be_packed),
        cmocka_unit_test(test_messages_that_come_twice_merge),
        cmocka_unit_test(test_map_entries_may_lack_key_or_value),
        cmocka_unit_test(test_wrong_bytes_are_refused),
        cmocka_unit_test(test_bodies_without_the_mark_are_refused),
        cmocka_unit_test(test_small_bodies_cannot_grow_without_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
