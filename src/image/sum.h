/* sum - sha256 of bytes as they come, written as registries write it. */
#pragma once

#include "base/str.h"
#include "image/image.h"

struct sum;

struct sum *sum_new(void);
void sum_free(struct sum *sum); /* NULL is fine */
DEFINE_CLEANUP(struct sum *, sum_free);
void sum_add(struct sum *sum, const void *data, size_t len);
void sum_end(struct sum *sum, char digest[IMAGE_DIGEST_MAX]); /* "sha256:…"; only sum_free after it */

void sum_of(struct str data, char digest[IMAGE_DIGEST_MAX]);
/* Of the rest of a file, and how many bytes that is. */
int sum_of_fd(int fd, char digest[IMAGE_DIGEST_MAX], int64_t *size, struct err *err);
/* The hex digits of a valid digest. */
static inline const char *sum_hex(const char *digest)
{
    return digest + 7;
}
