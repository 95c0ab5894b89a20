/* What others put into objects must not steer the terminal of whoever reads it. */
#include "base/mem.h"
#include "cli/cli.h"

#include <stdarg.h>
#include <unistd.h>

void text_tame(char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i], next = i + 1 < len ? (unsigned char)text[i + 1] : 0;

        if ((c < ' ' && c != '\n' && c != '\t') || c == 0x7f)
            text[i] = '?';
        if (c == 0xc2 && next >= 0x80 && next < 0xa0) /* U+0080 to U+009F, which some terminals obey, too */
            text[i] = text[i + 1] = '?';
    }
}

static void tame(const char *text, size_t len)
{
    text_tame((char *)(uintptr_t)text, len); /* the arena's, which is ours */
}

void doc_tame(struct json *doc)
{
    if (json_is(doc, JSON_STRING))
        tame(doc->string, doc->len);
    JSON_EACH(doc, it)
        doc_tame(it);
    JSON_EACH_MEMBER(doc, it)
        doc_tame(&it->value);
}

void cli_vsay(FILE *out, const char *fmt, va_list ap)
{
    CLEANUP(buf_done) struct buf text = {0};

    buf_vprintf(&text, fmt, ap);
    if (text.len)
        text_tame(text.data, text.len);
    fputs(buf_view(&text).s, out);
}

void cli_say(FILE *out, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    cli_vsay(out, fmt, ap);
    va_end(ap);
}
