#include "base/cleanup.h"
#include "base/test/test.h"
#include "engine/local/bind.h"
#include "objects/names.h"

static void test_cards_of_the_annotation(void **state)
{
    static const struct {
        const char *text;
        uint64_t cards;
        bool share;
    } rows[] = {
        {"", 0, false},           {"0", 1, false},   {"1,3", 0xa, false}, {"0:8192", 1, true},
        {"0:100,2:100", 5, true}, {"x,1", 0, false}, {"64,1", 0, false},  {"-1", 0, false},
    };
    CLEANUP(arena_done) struct arena arena = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct json *pod = json_new_object(&arena);
        struct bind_need need;

        json_set_string(&arena,
                        json_set_object(&arena, json_set_object(&arena, pod, "metadata"), "annotations"),
                        CARDS_ANNOTATION, rows[i].text);
        bind_read(pod, &arena, &need);
        assert_int_equal(need.cards, rows[i].cards);
        assert_int_equal(need.share, rows[i].share);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cards_of_the_annotation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
