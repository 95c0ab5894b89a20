/* Reading what the shim wrote down. The record is whole or not there (it is renamed into place), but a folder
 * can be damaged by hand or by a bad disk: what is no record is said to be none. */
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "runtime/runtime_internal.h"

#define RECORD_MAX 16384

int record_parse(struct str text, struct record *ret, struct err *err)
{
    struct record record = {.how.code = -1};
    int64_t code = -1, signal = 0, oom = 0;
    struct {
        const char *key;
        int64_t *value;
    } fields[] = {
        {"code=", &code},
        {"signal=", &signal},
        {"oom=", &oom},
        {"started=", &record.how.started},
        {"finished=", &record.how.finished},
        {"dropped=", &record.how.log_dropped},
    };
    struct str line;

    if (str_starts(text, "failed=")) {
        text = (struct str){text.s + 7, text.len - 7};
        while (text.len > 0 && text.s[text.len - 1] == '\n')
            text.len--;
        record.failed = mem_strndup(text.s, text.len);
        *ret = record;
        return 0;
    }
    while (str_split(&text, '\n', &line))
        for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
            size_t len = strlen(fields[i].key);

            if (str_starts(line, fields[i].key) &&
                !str_to_int((struct str){line.s + len, line.len - len}, fields[i].value))
                return err_set(err, ERR_INVALID, "exit record: '%.*s' has no number", STR_ARG(line));
        }
    if (code < 0 || code > 255 || signal < 0 || signal > 127)
        return err_set(err, ERR_INVALID, "exit record has no exit code");
    record.how.code = (int)code;
    record.how.signal = (int)signal;
    record.how.oom = oom > 0;
    *ret = record;
    return 0;
}

int record_read(const char *dir, struct record *ret, struct err *err)
{
    CLEANUP(free) char *path = mem_printf("%s/exit", dir);
    CLEANUP(buf_done) struct buf text = {0};

    if (file_read(path, RECORD_MAX, &text, err) < 0)
        return -1;
    return record_parse(buf_view(&text), ret, err);
}

char *oci_sentence(struct str line)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc;
    const char *msg = NULL;

    if (json_parse(line, &arena, &doc, NULL, NULL) == 0)
        msg = json_get_string(doc, "msg");
    return msg ? mem_strdup(msg) : mem_strndup(line.s, line.len);
}
