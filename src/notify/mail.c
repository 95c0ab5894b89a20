/* Addresses go into the header alone, never into arguments, and are of few characters; other text in the
 * header is encoded (RFC 2047) where it is more than plain ASCII. */
#include "notify/mail.h"

#include "base/mem.h"
#include "base/vec.h"
#include "notify/program.h"

#include <ctype.h>
#include <sysexits.h>
#include <time.h>

#define WORD_BYTES 45 /* of text in one encoded word */

struct mail_sending {
    struct mail *mail;
    struct notify_delivery *delivery;
    struct program *program;
};

struct mail {
    struct loop *loop;
    char *sendmail, *from;
    VEC(struct mail_sending *) sending;
    struct notify_handler handler;
};

/* ---- messages ---- */

int mail_check_address(struct str address, struct err *err)
{
    static const char local[] = "!#$%&'*+-./=?^_`{|}~", host[] = ".-";
    bool in_host = false;

    if (address.len == 0 || address.len > MAIL_ADDRESS_MAX)
        return err_set(err, ERR_INVALID, "a mail address has 1 to %d characters", MAIL_ADDRESS_MAX);
    if (address.s[0] == '-' || address.s[0] == '@' || address.s[address.len - 1] == '@')
        return err_set(err, ERR_INVALID, "invalid mail address '%.*s'", STR_ARG(address));
    for (size_t i = 0; i < address.len; i++) {
        char c = address.s[i];

        if (c == '@' && !in_host)
            in_host = true;
        else if (!c || (!isascii(c)) || (!isalnum(c) && !strchr(in_host ? host : local, c)))
            return err_set(err, ERR_INVALID, "invalid mail address: one address is needed, name@host");
    }
    return 0;
}

static bool is_plain(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || (unsigned char)*text > '~')
            return false;
    return true;
}

/* Encoded words of whole characters. */
static void put_encoded(struct buf *out, const char *text)
{
    size_t len = strlen(text);

    while (len) {
        size_t part = len < WORD_BYTES ? len : WORD_BYTES;

        while (part > 1 && part < len && ((unsigned char)text[part] & 0xc0) == 0x80)
            part--;
        buf_puts(out, "=?UTF-8?B?");
        buf_base64(out, (struct str){text, part});
        buf_puts(out, part < len ? "?=\n " : "?=");
        text += part;
        len -= part;
    }
}

static void put_header(struct buf *out, const char *name, const char *text)
{
    buf_printf(out, "%s: ", name);
    if (is_plain(text) && strlen(text) < 900)
        buf_puts(out, text);
    else
        put_encoded(out, text);
    buf_putc(out, '\n');
}

static void put_date(struct buf *out, const struct json *time)
{
    static const char *const days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    int64_t at = 0;
    time_t seconds;
    struct tm tm;

    if (!json_string(time) || !clock_parse(json_str(time), &at))
        return;
    seconds = (time_t)(at / NSEC_PER_SEC);
    if (gmtime_r(&seconds, &tm))
        buf_printf(out, "Date: %s, %d %s %d %02d:%02d:%02d +0000\n", days[tm.tm_wday], tm.tm_mday,
                   months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

void mail_write(struct buf *out, const char *from, const struct json *payload)
{
    const char *at = strchr(from, '@'), *key = json_string_or(json_get(payload, "key"), "");
    const char *text = json_string_or(json_get(payload, "text"), "");

    buf_printf(out, "From: Berth <%s>\n", from);
    put_header(out, "To", json_string_or(json_get(payload, "to"), ""));
    put_header(out, "Subject", json_string_or(json_get(payload, "subject"), ""));
    put_date(out, json_get(payload, "time"));
    if (is_plain(key) && *key && !strpbrk(key, "<>@ "))
        buf_printf(out, "Message-ID: <%s@%s>\n", key, at ? at + 1 : "berth");
    buf_puts(out, "Auto-Submitted: auto-generated\n"
                  "MIME-Version: 1.0\n"
                  "Content-Type: text/plain; charset=UTF-8\n"
                  "Content-Transfer-Encoding: 8bit\n"
                  "\n");
    for (; *text; text++) /* lines end as sendmail wants them, and nothing else controls anything */
        buf_putc(out, (unsigned char)*text < ' ' && *text != '\n' ? ' ' : *text);
    buf_putc(out, '\n');
}

/* ---- sending ---- */

static void mail_forget(struct mail_sending *sending)
{
    struct mail *mail = sending->mail;

    for (size_t i = 0; i < mail->sending.len; i++)
        if (mail->sending.v[i] == sending) {
            vec_remove(&mail->sending, i);
            break;
        }
    free(sending);
}

/* What will not get better by trying again. */
static bool is_final(const struct program_end *end)
{
    return end->started &&
           (end->status == EX_DATAERR || end->status == EX_NOUSER || end->status == EX_NOHOST);
}

static void mail_ended(void *arg, const struct program_end *end)
{
    struct mail_sending *sending = arg;
    struct notify_delivery *delivery = sending->delivery;
    char why[NOTIFY_WHY_MAX];

    snprintf(why, sizeof(why), "sendmail %s", end->why);
    mail_forget(sending);
    notify_finished(delivery,
                    end->started && end->status == 0 ? NOTIFY_DELIVERED
                    : is_final(end)                  ? NOTIFY_NEVER
                                                     : NOTIFY_RETRY,
                    why, 0);
}

static void mail_start(void *arg, struct notify_delivery *delivery, const struct json *payload)
{
    struct mail *mail = arg;
    struct mail_sending *sending = NEW(struct mail_sending);
    CLEANUP(buf_done) struct buf message = {0};
    const char *const argv[] = {mail->sendmail, "-t", "-oi", NULL};

    mail_write(&message, mail->from, payload);
    *sending = (struct mail_sending){mail, delivery, NULL};
    vec_push(&mail->sending, sending);
    sending->program = program_start(
        mail->loop,
        &(struct program_spec){.argv = argv, .input = buf_view(&message), .timeout_sec = MAIL_TIMEOUT_SEC},
        mail_ended, sending);
}

static void mail_cancel(void *arg, struct notify_delivery *delivery)
{
    struct mail *mail = arg;

    VEC_EACH(&mail->sending, it)
        if ((*it)->delivery == delivery) {
            program_cancel((*it)->program);
            mail_forget(*it);
            return;
        }
}

struct mail *mail_new(struct loop *loop, const char *sendmail, const char *from)
{
    struct mail *mail = NEW(struct mail);

    mail->loop = loop;
    mail->sendmail = mem_strdup(sendmail);
    mail->from = mem_strdup(from);
    mail->handler = (struct notify_handler){"mail", mail, mail_start, mail_cancel};
    return mail;
}

void mail_free(struct mail *mail)
{
    if (!mail)
        return;
    VEC_EACH(&mail->sending, it) {
        program_cancel((*it)->program);
        free(*it);
    }
    vec_done(&mail->sending);
    free(mail->sendmail);
    free(mail->from);
    free(mail);
}

const struct notify_handler *mail_handler(const struct mail *mail)
{
    return &mail->handler;
}
