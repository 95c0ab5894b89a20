#include "base/cleanup.h"
#include "base/test/test.h"
#include "engine/local/env.h"

static struct arena arena;

static struct json *json(const char *text)
{
    struct json *doc;
    struct err err = {0};

    if (json_parse(str_from(text), &arena, &doc, NULL, &err) < 0)
        fail_msg("%s", err.msg);
    return doc;
}

static const struct json *find(void *arg, const char *kind, const char *name)
{
    (void)arg;
    if (streq(kind, "configmap") && streq(name, "settings"))
        return json("{\"data\":{\"rate\":\"0.1\",\"depth\":\"50\"}}");
    if (streq(kind, "secret") && streq(name, "keys"))
        return json("{\"data\":{\"token\":\"czNjcmV0\"}}");
    return NULL;
}

static const char *const pod_text =
    "{\"metadata\":{\"name\":\"train\",\"namespace\":\"lab\",\"uid\":\"u1\",\"labels\":{\"user\":\"ann\"}},"
    "\"spec\":{\"nodeName\":\"box\"}}";

static int fill(const char *container, struct env_list *list, struct err *err)
{
    struct env_world world = {.find = find, .pod_ip = "10.88.0.7", .host_ip = "192.0.2.1"};

    world.allocatable = json("{\"cpu\":\"8\",\"memory\":\"16Gi\"}");
    *list = (struct env_list){0};
    return env_fill(list, &arena, json(pod_text), json(container), &world, err);
}

/* NULL when absent. */
static const char *value_of(const struct env_list *list, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < list->len; i++)
        if (strncmp(list->v[i], name, len) == 0 && list->v[i][len] == '=')
            return list->v[i] + len + 1;
    return NULL;
}

static void test_values(void **state)
{
    static const struct {
        const char *container, *name, *value; /* value NULL: not set */
    } rows[] = {
        {"{\"env\":[{\"name\":\"A\",\"value\":\"x\"},{\"name\":\"B\",\"value\":\"$(A)-$(C)-$$(A)\"}]}", "B",
         "x-$(C)-$(A)"},
        {"{\"env\":[{\"name\":\"A\",\"value\":\"x\"},{\"name\":\"A\",\"value\":\"y\"}]}", "A", "y"},
        {"{\"env\":[{\"name\":\"N\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":\"metadata.name\"}}}]}", "N",
         "train"},
        {"{\"env\":[{\"name\":\"N\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":\"status.podIP\"}}}]}", "N",
         "10.88.0.7"},
        {"{\"env\":[{\"name\":\"N\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":\"metadata.labels['user']\"}}}"
         "]}",
         "N", "ann"},
        {"{\"env\":[{\"name\":\"N\",\"valueFrom\":{\"configMapKeyRef\":{\"name\":\"settings\",\"key\":"
         "\"rate\"}}}]}",
         "N", "0.1"},
        {"{\"env\":[{\"name\":\"N\",\"valueFrom\":{\"secretKeyRef\":{\"name\":\"keys\",\"key\":\"token\"}}}]"
         "}",
         "N", "s3cret"},
        {"{\"env\":[{\"name\":\"N\",\"valueFrom\":{\"secretKeyRef\":{\"name\":\"keys\",\"key\":\"no\","
         "\"optional\":true}}}]}",
         "N", NULL},
        {"{\"envFrom\":[{\"prefix\":\"CFG_\",\"configMapRef\":{\"name\":\"settings\"}}]}", "CFG_depth", "50"},
        {"{\"resources\":{\"limits\":{\"cpu\":\"1500m\"}},\"env\":[{\"name\":\"N\",\"valueFrom\":{"
         "\"resourceFieldRef\":{\"resource\":\"limits.cpu\"}}}]}",
         "N", "2"},
        {"{\"env\":[{\"name\":\"N\",\"valueFrom\":{\"resourceFieldRef\":{\"resource\":\"limits.memory\","
         "\"divisor\":\"1Mi\"}}}]}",
         "N", "16384"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct env_list list;
        struct err err = {0};

        if (fill(rows[i].container, &list, &err) < 0)
            fail_msg("%s: %s", rows[i].container, err.msg);
        if (!streq(value_of(&list, rows[i].name), rows[i].value))
            fail_msg("%s: '%s'", rows[i].container, value_of(&list, rows[i].name));
    }
}

/* Each variable twice the one before: the sum of a few is more than any machine has. */
static void test_values_that_double_are_refused(void **state)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct env_list list;
    struct err err = {0};

    (void)state;
    buf_puts(&text, "{\"env\":[{\"name\":\"A0\",\"value\":\"0123456789\"}");
    for (int i = 1; i < 60; i++)
        buf_printf(&text, ",{\"name\":\"A%d\",\"value\":\"$(A%d)$(A%d)\"}", i, i - 1, i - 1);
    buf_puts(&text, "]}");
    assert_int_equal(fill(text.data, &list, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_string_equal(err.msg, "variable A14 is longer than 128 KiB with what it refers to");
}

static void test_the_whole_environment_has_a_limit(void **state)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct env_list list;
    struct err err = {0};

    (void)state;
    buf_puts(&text, "{\"env\":[");
    for (int i = 0; i < 30; i++)
        buf_printf(&text, "%s{\"name\":\"A%d\",\"value\":\"%0100000d\"}", i ? "," : "", i, 0);
    buf_puts(&text, "]}");
    assert_int_equal(fill(text.data, &list, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
}

static void test_missing_key_is_named(void **state)
{
    struct env_list list;
    struct err err = {0};

    (void)state;
    assert_int_equal(fill("{\"env\":[{\"name\":\"N\",\"valueFrom\":{\"configMapKeyRef\":{\"name\":"
                          "\"settings\",\"key\":\"no\"}}}]}",
                          &list, &err),
                     -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_string_equal(err.msg, "couldn't find key no in ConfigMap settings");
    assert_int_equal(fill("{\"envFrom\":[{\"secretRef\":{\"name\":\"gone\"}}]}", &list, &err), -1);
    assert_string_equal(err.msg, "secret \"gone\" not found");
}

static int done(void **state)
{
    (void)state;
    arena_done(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_values_that_double_are_refused),
        cmocka_unit_test(test_the_whole_environment_has_a_limit),
        cmocka_unit_test(test_missing_key_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, done);
}
