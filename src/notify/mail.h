/* mail - a handler of notify: hands messages to the machine's sendmail (any program that takes `-t -oi` and a
 * message on stdin). It runs as the daemon does and is killed after a minute. What it refuses for good (an
 * address or message that it cannot take) is given up, everything else is tried again.
 *
 * Payload: {"to": "ann@lab.example", "subject": "…", "text": "…", "time": T, "key": "…"}. */
#pragma once

#include "base/err.h"
#include "notify/notify.h"

#define MAIL_SENDMAIL    "/usr/sbin/sendmail"
#define MAIL_ADDRESS_MAX 254
#define MAIL_TIMEOUT_SEC 60

struct mail;

/* sendmail: path of the program. from: address the mails are from. */
struct mail *mail_new(struct loop *loop, const char *sendmail, const char *from);
void mail_free(struct mail *mail); /* after notify_free; NULL is fine */
const struct notify_handler *mail_handler(const struct mail *mail);

/* One address, "name@host" or the "name" of a user of this machine. ERR_INVALID. */
int mail_check_address(struct str address, struct err *err);
/* The message with its header; nothing in the arguments can add a line to the header. */
void mail_write(struct buf *out, const char *from, const struct json *payload);
