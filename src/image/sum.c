/* sum.c - sha256 by OpenSSL, which uses the processor's instructions for it. */
#include "image/sum.h"

#include "base/mem.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>

#define READ_STEP (256 << 10)

struct sum {
    EVP_MD_CTX *ctx;
};

static void must(int ok)
{
    if (!ok) { /* out of memory, or an OpenSSL without SHA-256 */
        fputs("image: sha256 failed\n", stderr);
        abort();
    }
}

struct sum *sum_new(void)
{
    struct sum *sum = NEW(struct sum);

    sum->ctx = EVP_MD_CTX_new();
    must(sum->ctx && EVP_DigestInit_ex(sum->ctx, EVP_sha256(), NULL));
    return sum;
}

void sum_free(struct sum *sum)
{
    if (!sum)
        return;
    EVP_MD_CTX_free(sum->ctx);
    free(sum);
}

void sum_add(struct sum *sum, const void *data, size_t len)
{
    must(EVP_DigestUpdate(sum->ctx, data, len));
}

void sum_end(struct sum *sum, char digest[IMAGE_DIGEST_MAX])
{
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    must(EVP_DigestFinal_ex(sum->ctx, raw, &len) && len == 32);
    snprintf(digest, IMAGE_DIGEST_MAX, "sha256:");
    for (unsigned i = 0; i < len; i++)
        snprintf(digest + 7 + 2 * (size_t)i, 3, "%02x", raw[i]);
}

void sum_of(struct str data, char digest[IMAGE_DIGEST_MAX])
{
    CLEANUP(sum_free) struct sum *sum = sum_new();

    sum_add(sum, data.s, data.len);
    sum_end(sum, digest);
}

int sum_of_fd(int fd, char digest[IMAGE_DIGEST_MAX], int64_t *size, struct err *err)
{
    CLEANUP(sum_free) struct sum *sum = sum_new();
    CLEANUP(free) char *block = mem_alloc(READ_STEP);
    int64_t total = 0;
    ssize_t n;

    for (;;) {
        n = read(fd, block, READ_STEP);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, errno, "read");
        if (n == 0)
            break;
        sum_add(sum, block, (size_t)n);
        total += n;
    }
    sum_end(sum, digest);
    *size = total;
    return 0;
}
