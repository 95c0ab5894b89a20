#include "base/test/test.h"
#include "engine/local/pull_share.h"

#define MB 1000000

static int add(struct pull_share *share, size_t number, enum image_step step, int64_t done, int64_t total)
{
    struct image_progress progress = {
        .layer = "sha256:0", .step = step, .done = done, .total = total, .number = number, .count = 2};

    return pull_share_add(share, &progress);
}

static void test_layers_count_by_their_bytes(void **state)
{
    struct pull_share share = {0};

    (void)state;
    add(&share, 1, IMAGE_STEP_DOWNLOADING, 0, 10 * MB);
    add(&share, 2, IMAGE_STEP_DOWNLOADING, 0, 90 * MB);
    assert_int_equal(add(&share, 1, IMAGE_STEP_DONE, 10 * MB, 10 * MB), 10);
    assert_int_equal(add(&share, 2, IMAGE_STEP_DOWNLOADING, 45 * MB, 90 * MB), 46);
    assert_int_equal(add(&share, 2, IMAGE_STEP_UNPACKING, 45 * MB, 90 * MB), 91);
    assert_int_equal(add(&share, 2, IMAGE_STEP_DONE, 90 * MB, 90 * MB), 100);
    pull_share_reset(&share);
}

static void test_an_unknown_layer_counts_as_the_average(void **state)
{
    struct pull_share share = {0};

    (void)state;
    assert_int_equal(add(&share, 1, IMAGE_STEP_PRESENT, 10 * MB, 10 * MB), 50);
    pull_share_reset(&share);
}

static void test_the_share_never_goes_back(void **state)
{
    struct pull_share share = {0};

    (void)state;
    assert_int_equal(add(&share, 1, IMAGE_STEP_DONE, 10 * MB, 10 * MB), 50);
    assert_int_equal(add(&share, 2, IMAGE_STEP_DOWNLOADING, 0, 90 * MB), 50);
    pull_share_reset(&share);
}

static void test_a_layer_out_of_range_is_passed_over(void **state)
{
    struct pull_share share = {0};

    (void)state;
    assert_int_equal(add(&share, 3, IMAGE_STEP_DONE, 1, 1), 0);
    assert_int_equal(add(&share, 0, IMAGE_STEP_DONE, 1, 1), 0);
    pull_share_reset(&share);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers_count_by_their_bytes),
        cmocka_unit_test(test_an_unknown_layer_counts_as_the_average),
        cmocka_unit_test(test_the_share_never_goes_back),
        cmocka_unit_test(test_a_layer_out_of_range_is_passed_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
