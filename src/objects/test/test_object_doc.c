#include "base/cleanup.h"
#include "base/test/test.h"
#include "objects/kind.h"
#include "objects/object_doc.h"

static struct object *make(struct arena *arena, const char *name, size_t data_len)
{
    char *data = arena_alloc(arena, data_len + 1);
    struct json *doc = NULL;

    memset(data, 'x', data_len);
    data[data_len] = '\0';
    assert_int_equal(json_parse(str_from(arena_printf(
                                    arena,
                                    "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"ns\",\"uid\":\"u-%s\","
                                    "\"resourceVersion\":\"7\"},\"data\":{\"k\":\"%s\"}}",
                                    name, name, data)),
                                arena, &doc, NULL, NULL),
                     0);
    return object_new(kind_by_id(KIND_CONFIG_MAP), arena, doc);
}

static void test_a_text_is_parsed_once(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(object_unref) struct object *object = make(&arena, "a", 1);
    uint64_t before = object_parse_count();
    const struct json *doc = object_doc(object);

    (void)state;
    assert_ptr_equal(object_doc(object), doc);
    assert_string_equal(json_at_string(object_json(object, &arena), "metadata.name"), "a");
    object_docs_turn();
    assert_ptr_equal(object_doc(object), doc);
    assert_int_equal(object_parse_count() - before, 1);
    object_docs_turn();
}

static void test_a_document_that_is_handed_over_is_never_parsed(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(object_unref) struct object *object = make(&arena, "a", 1);
    CLEANUP(buf_done) struct buf text = {0};
    struct json *doc = object_json(object, &arena);
    uint64_t before;

    (void)state;
    json_remove(doc, "kind");
    object_doc_keep(object, doc);
    before = object_parse_count();
    json_write(&text, object_doc(object));
    assert_int_equal(object_parse_count(), before);
    assert_int_equal(text.len, object->text_len); /* the same text, its members in the same order */
    assert_memory_equal(text.data, object->text, text.len);
    object_docs_turn();
}

static void test_a_tree_of_ones_own_can_be_changed(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(object_unref) struct object *object = make(&arena, "a", 1);
    const struct json *shared = object_doc(object);
    struct json *own = object_json(object, &arena);

    (void)state;
    json_set_string(&arena, json_get(own, "data"), "k", "changed");
    assert_string_equal(json_at_string(shared, "data.k"), "x");
    object_docs_turn();
}

static void test_a_document_outlives_its_object_until_the_turn_is_over(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct object *object = make(&arena, "a", 1);
    const struct json *doc = object_doc(object);

    (void)state;
    object_unref(object);
    assert_string_equal(json_at_string(doc, "metadata.name"), "a");
    object_docs_turn();
    assert_int_equal(object_docs_bytes(), 0);
}

static void test_those_not_read_for_longest_go_first(void **state)
{
    enum { COUNT = 40, LEN = OBJECT_DOCS_BYTES / 16 };
    CLEANUP(arena_done) struct arena arena = {0};
    struct object *objects[COUNT];
    uint64_t before;

    (void)state;
    for (int i = 0; i < COUNT; i++) {
        objects[i] = make(&arena, "a", LEN);
        object_doc(objects[i]);
        object_doc(objects[0]);
        object_docs_turn();
        assert_true(object_docs_bytes() <= OBJECT_DOCS_BYTES);
    }
    before = object_parse_count();
    object_doc(objects[0]);
    object_doc(objects[COUNT - 1]);
    assert_int_equal(object_parse_count(), before);
    object_doc(objects[1]);
    assert_int_equal(object_parse_count(), before + 1);
    object_docs_turn();
    for (int i = 0; i < COUNT; i++)
        object_unref(objects[i]);
    assert_int_equal(object_docs_bytes(), 0);
}

static void test_what_is_read_in_one_turn_stays_until_its_end(void **state)
{
    enum { COUNT = 40, LEN = OBJECT_DOCS_BYTES / 16 };
    CLEANUP(arena_done) struct arena arena = {0};
    struct object *objects[COUNT];
    const struct json *docs[COUNT];

    (void)state;
    for (int i = 0; i < COUNT; i++) {
        objects[i] = make(&arena, "a", LEN);
        docs[i] = object_doc(objects[i]);
    }
    for (int i = 0; i < COUNT; i++)
        assert_string_equal(json_at_string(docs[i], "metadata.name"), "a");
    object_docs_turn();
    assert_true(object_docs_bytes() <= OBJECT_DOCS_BYTES);
    for (int i = 0; i < COUNT; i++)
        object_unref(objects[i]);
}

static void count(void *arg)
{
    ++*(int *)arg;
}

static void test_the_end_of_a_turn_is_asked_for_once(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(object_unref) struct object *object = make(&arena, "a", 1);
    int calls = 0;

    (void)state;
    object_docs_ask(count, &calls);
    object_doc(object);
    object_doc(object);
    assert_int_equal(calls, 1);
    object_docs_turn();
    object_doc(object);
    assert_int_equal(calls, 2);
    object_docs_ask(NULL, NULL);
    object_docs_turn();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_text_is_parsed_once),
        cmocka_unit_test(test_a_document_that_is_handed_over_is_never_parsed),
        cmocka_unit_test(test_a_tree_of_ones_own_can_be_changed),
        cmocka_unit_test(test_a_document_outlives_its_object_until_the_turn_is_over),
        cmocka_unit_test(test_those_not_read_for_longest_go_first),
        cmocka_unit_test(test_what_is_read_in_one_turn_stays_until_its_end),
        cmocka_unit_test(test_the_end_of_a_turn_is_asked_for_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
