/* fuzz_selector - any text as label and as field selector, and as quantity: understood or refused with a
 * sentence; what is understood matches or does not. A quantity's canonical form reads back as itself. */
#include "base/cleanup.h"
#include "objects/kind.h"
#include "objects/quantity.h"
#include "objects/selector.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const fields[] = {"spec.nodeName", "status.phase", NULL};
static const struct kind kind = {.group = "", .version = "v1", .name = "Pod", .fields = fields};

static const char object_text[] =
    "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"uid\":\"u\","
    "\"resourceVersion\":\"7\",\"labels\":{\"a\":\"1\",\"b\":\"foo\",\"c\":\"\",\"x.y/z\":\"5\"}},"
    "\"spec\":{\"nodeName\":\"n1\"},\"status\":{\"phase\":\"Running\"}}";

static void must(bool ok, const char *what, const char *text)
{
    if (ok)
        return;
    fprintf(stderr, "%s: %s\n", what, text);
    abort();
}

static void check_quantity(struct str text)
{
    char first[QUANTITY_TEXT_MAX], second[QUANTITY_TEXT_MAX];
    struct quantity q, again;

    if (!quantity_parse(text, &q))
        return;
    quantity_format(&q, first);
    must(quantity_parse(str_from(first), &again), "canonical form is no quantity", first);
    must(quantity_cmp(&q, &again) == 0, "canonical form is another amount", first);
    must(streq(first, quantity_format(&again, second)), "canonical form is not canonical", first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(object_unref) struct object *object = NULL, *foreign = NULL;
    char *text = arena_strndup(&arena, (const char *)data, size);
    struct selector *selector;
    struct err err = {0};

    if (object_parse(&kind, str_from(object_text), &object, &err) < 0)
        abort();
    if (selector_parse(&kind, text, NULL, &arena, &selector, &err) == 0) {
        struct json *labels = json_at(object_json(object, &arena), "metadata.labels");

        must(selector_matches(selector, object) == selector_matches_labels(selector, labels),
             "matches the object but not its labels, or the other way round", text);
    } else {
        must(err.code == ERR_INVALID && err.msg[0], "refused without a reason", text);
    }
    err = (struct err){0};
    if (selector_parse(&kind, NULL, text, &arena, &selector, &err) == 0)
        selector_matches(selector, object);
    else
        must(err.code == ERR_INVALID && err.msg[0], "refused without a reason", text);
    check_quantity((struct str){(const char *)data, size});
    (void)object_parse(&kind, (struct str){(const char *)data, size}, &foreign, NULL);
    return 0;
}
