#include "base/cleanup.h"
#include "base/test/test.h"
#include "domain/node.h"

static void test_selectors_ask_for_every_label_and_know_alternatives(void **state)
{
    static const struct label have[] = {{"model", "V100"}, {"zone", "a"}};
    static const struct label any[] = {{"model", "A100|V100"}}, both[] = {{"model", "V100"}, {"zone", "b"}},
                              part[] = {{"model", "V10"}}, absent[] = {{"disk", "ssd"}};
    struct labels labels = {have, 2};

    (void)state;
    assert_true(labels_match(labels, (struct labels){0}));
    assert_true(labels_match(labels, (struct labels){any, 1}));
    assert_false(labels_match(labels, (struct labels){both, 2}));
    assert_false(labels_match(labels, (struct labels){part, 1}));
    assert_false(labels_match(labels, (struct labels){absent, 1}));
}

static void test_a_cluster_knows_its_largest_and_smallest(void **state)
{
    static const struct gpu big[] = {{.mem_mib = 24576}, {.mem_mib = 24576}}, small[] = {{.mem_mib = 8192}};
    static const struct node nodes[] = {{"a", .gpus = big, .gpu_count = 2},
                                        {"b", .gpus = small, .gpu_count = 1}};
    struct cluster cluster = {nodes, 2};

    (void)state;
    assert_int_equal(cluster_gpus(&cluster), 3);
    assert_int_equal(cluster_largest_node(&cluster), 2);
    assert_int_equal(cluster_largest_card(&cluster), 24576);
    assert_int_equal(cluster_smallest_card(&cluster, 0), 8192);
    assert_int_equal(cluster_smallest_card(&cluster, 9000), 24576);
    assert_int_equal(cluster_smallest_card(&cluster, 30000), 0);
}

static void test_resources_that_are_not_asked_for_always_fit(void **state)
{
    (void)state;
    assert_true(resources_fit((struct resources){0, 0}, (struct resources){-1, -1}));
    assert_false(resources_fit((struct resources){1, 0}, (struct resources){0, 5}));
    assert_int_equal(resources_times((struct resources){500, 0}, (struct resources){1600, 0}, 8), 3);
    assert_int_equal(resources_times((struct resources){0, 0}, (struct resources){0, 0}, 8), 8);
    assert_int_equal(resources_times((struct resources){1, 9}, (struct resources){9, 8}, 8), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_selectors_ask_for_every_label_and_know_alternatives),
        cmocka_unit_test(test_a_cluster_knows_its_largest_and_smallest),
        cmocka_unit_test(test_resources_that_are_not_asked_for_always_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
