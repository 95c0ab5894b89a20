/* fuzz_patch - any patch on any document: refused with a status, or a document that can be written and read
 * again. The patch itself is never changed, memory stays in proportion, and what is applied twice changes
 * nothing the second time. Input: a line with the kind of patch (j, m, s, a, u), a line with the document,
 * the rest is the patch. */
#include "base/cleanup.h"
#include "objects/patch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MEMORY_BASE  (64 << 20) /* JSON patch may copy 3 MiB of text */
#define MEMORY_TIMES 4000

static void must(bool ok, const char *what, const struct json *value)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (ok)
        return;
    if (value)
        json_write(&text, value);
    fprintf(stderr, "%s\n%s\n", what, text.data ? text.data : "");
    abort();
}

/* Reads back as it is, except that members may be repeated by nobody. */
static void check_document(struct arena *arena, const struct json *doc)
{
    CLEANUP(buf_done) struct buf text = {0}, dups = {0};
    struct json *again;
    struct err err = {0};

    json_write(&text, doc);
    must(json_parse(buf_view(&text), arena, &again, &dups, &err) == 0, err.msg, doc);
    must(dups.len == 0, "repeated members", doc);
    must(json_equal(doc, again), "reads back otherwise", doc);
}

static int apply_twice(struct arena *arena, const struct json *live, const struct json *patch,
                       struct json **ret, struct failure *failure)
{
    struct apply_request request = {.type = schema_type_find("Pod"),
                                    .api_version = "v1",
                                    .manager = "m",
                                    .subresource = "",
                                    .now = "2026-01-01T00:00:00Z"};
    struct json *again;
    int r = patch_apply(&request, arena, live, patch, ret, failure);

    request.force = true;
    if (r < 0 && failure->code == 409)
        r = patch_apply(&request, arena, live, patch, ret, failure);
    if (r < 0)
        return r;
    if (json_len(json_at(*ret, "metadata.managedFields")) == 0)
        return 0; /* nobody has anything: who applies next is the first, and is told so in a new entry */
    request.now = "2026-01-02T00:00:00Z";
    must(patch_apply(&request, arena, *ret, patch, &again, failure) == 0, "a second apply fails", *ret);
    must(json_equal(*ret, again), "a second apply changes something", again);
    return 0;
}

static int run(char type, struct arena *arena, struct json *doc, const struct json *patch, struct json **ret,
               struct failure *failure)
{
    struct apply_request request = {.type = schema_type_find("Pod"),
                                    .api_version = "v1",
                                    .manager = "u",
                                    .subresource = "",
                                    .now = "2026-01-01T00:00:00Z"};

    *ret = doc;
    switch (type) {
    case 'j':
        return patch_json(arena, doc, patch, failure);
    case 'm':
        return patch_merge(arena, doc, patch, failure);
    case 's':
        return patch_strategic(schema_type_find("Pod"), arena, doc, patch, failure);
    case 'a':
        return apply_twice(arena, doc, patch, ret, failure);
    default:
        *ret = json_copy(arena, patch);
        if ((*ret)->type != JSON_OBJECT)
            *ret = json_new_object(arena);
        managed_fields_update(&request, arena, json_is(doc, JSON_OBJECT) ? doc : NULL, *ret);
        return 0;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct str rest = {(const char *)data, size}, type, doc_text;
    struct json *doc, *patch, *copy, *result;
    struct failure failure = {0};

    if (size > 1 << 20 || !str_split(&rest, '\n', &type) || type.len != 1 ||
        !str_split(&rest, '\n', &doc_text) || json_parse(doc_text, &arena, &doc, NULL, NULL) < 0 ||
        json_parse(rest, &arena, &patch, NULL, NULL) < 0)
        return 0;
    copy = json_copy(&arena, patch);
    if (run(type.s[0], &arena, doc, patch, &result, &failure) == 0)
        check_document(&arena, result);
    else
        must(failure.code >= 400 && failure.message, "refused without a reason", patch);
    must(json_equal(patch, copy), "the patch was changed", patch);
    must(arena.total < MEMORY_BASE + MEMORY_TIMES * size, "too much memory", patch);
    return 0;
}
