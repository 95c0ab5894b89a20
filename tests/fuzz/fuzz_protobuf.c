/* fuzz_protobuf - whatever bytes come, the decoder returns a document that its own schema finds nothing wrong
 * with, which is written and read again unchanged. Bodies without the mark of Kubernetes get one, and a kind.
 */
#include "base/cleanup.h"
#include "objects/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok, const char *what, const struct buf *text)
{
    if (ok)
        return;
    fprintf(stderr, "%s\n%s\n", what, text->data ? text->data : "");
    abort();
}

static void check(struct str body)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0}, checked = {0};
    CLEANUP(schema_report_done) struct schema_report report = {0};
    struct json *doc = NULL, *again = NULL;
    struct err err = {0};

    if (schema_from_protobuf(body, &arena, &doc, &err) < 0)
        return;
    json_write(&text, doc);
    must(json_parse(buf_view(&text), &arena, &again, NULL, &err) == 0, "own text does not parse", &text);
    must(json_equal(doc, again), "text reads back otherwise", &text);
    must(schema_check(schema_type_find(json_get_string(doc, "kind")), &arena, doc, true, &report, &err) == 0,
         err.msg, &text);
    must(report.unknown_count == 0, "unknown fields", &report.unknown);
    json_write(&checked, doc);
    must(str_eq(buf_view(&text), buf_view(&checked)), "the check changed it", &text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct {
        const char *api_version, *kind;
    } kinds[] = {
        {"v1", "Pod"}, {"v1", "Node"}, {"batch/v1", "Job"}, {"v1", "PersistentVolume"}, {"v1", "Service"}};
    CLEANUP(buf_done) struct buf body = {0};
    const char *version, *kind;

    check((struct str){(const char *)data, size});
    if (size < 1 || size > 1 << 20)
        return 0;
    version = kinds[data[0] % ARRAY_LEN(kinds)].api_version;
    kind = kinds[data[0] % ARRAY_LEN(kinds)].kind;
    buf_add(&body, "k8s", 4);
    buf_printf(&body, "\n%c\n%c%s\x12%c%s\x12", (int)(4 + strlen(version) + strlen(kind)),
               (int)strlen(version), version, (int)strlen(kind), kind);
    for (size_t n = size - 1;; n >>= 7) {
        buf_putc(&body, (char)((n & 0x7f) | (n > 0x7f ? 0x80 : 0)));
        if (n <= 0x7f)
            break;
    }
    buf_add(&body, data + 1, size - 1);
    check(buf_view(&body));
    return 0;
}
