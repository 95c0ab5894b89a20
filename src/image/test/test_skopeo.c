/* What skopeo's words mean. */
#include "base/test/test.h"
#include "image/work/skopeo.h"

#include <stdio.h>

static void test_words_are_classified(void **state)
{
    static const struct {
        const char *text, *sentence;
        enum image_fail fail;
    } rows[] = {
        {"time=\"2026-01-01T00:00:00Z\" level=fatal msg=\"Error reading manifest v9 in lab:5000/x: manifest "
         "unknown: "
         "manifest unknown\"\n",
         "Error reading manifest v9 in lab:5000/x: manifest unknown: manifest unknown", IMAGE_FAIL_NOT_FOUND},
        {"time=\"x\" level=fatal msg=\"unable to retrieve auth token: invalid username/password: "
         "unauthorized\"",
         "unable to retrieve auth token: invalid username/password: unauthorized", IMAGE_FAIL_UNAUTHORIZED},
        {"level=fatal msg=\"Error: Get \\\"https://x/v2/\\\": dial tcp 1.2.3.4:443: connect: connection "
         "refused\"",
         "Error: Get \"https://x/v2/\": dial tcp 1.2.3.4:443: connect: connection refused",
         IMAGE_FAIL_UNREACHABLE},
        {"level=fatal msg=\"Error parsing image name \\\"docker://a/b:c\\\": reading manifest c in a/b: "
         "denied\"",
         "reading manifest c in a/b: denied", IMAGE_FAIL_UNAUTHORIZED},
        {"level=warning msg=\"first\"\nlevel=fatal msg=\"x509: certificate signed by unknown authority\"",
         "x509: certificate signed by unknown authority", IMAGE_FAIL_UNREACHABLE},
        {"requested access to the resource is denied", "requested access to the resource is denied",
         IMAGE_FAIL_UNAUTHORIZED},
        {"corrupted blob, expecting sha256:12", "corrupted blob, expecting sha256:12", IMAGE_FAIL_DIGEST},
        {"toomanyrequests: You have reached your pull rate limit",
         "toomanyrequests: You have reached your pull rate limit", IMAGE_FAIL_UNREACHABLE},
        {"something new", "something new", IMAGE_FAIL_OTHER},
        {"", "", IMAGE_FAIL_OTHER},
    };
    char sentence[200];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(skopeo_words(str_from(rows[i].text), sentence, sizeof(sentence)), rows[i].fail);
        assert_string_equal(sentence, rows[i].sentence);
    }
}

static void test_long_words_are_cut(void **state)
{
    char text[1000], sentence[50];

    (void)state;
    memset(text, 'x', sizeof(text));
    skopeo_words((struct str){text, sizeof(text)}, sentence, sizeof(sentence));
    assert_int_equal(strlen(sentence), 49);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_are_classified),
        cmocka_unit_test(test_long_words_are_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
