/* The annotation that says which cards a pod has: what is read, written again, is the same. */
#include "objects/names.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct card_part parts[CARDS_MAX], again[CARDS_MAX];
    CLEANUP(arena_done) struct arena arena = {0};
    size_t len = 0, len_again = 0;

    if (!cards_read(arena_strndup(&arena, (const char *)data, size), parts, &len))
        return 0;
    if (len > CARDS_MAX)
        abort();
    for (size_t i = 0; i < len; i++)
        if (parts[i].card >= CARDS_MAX)
            abort();
    if (!cards_read(cards_write(&arena, parts, len), again, &len_again) || len != len_again ||
        memcmp(parts, again, len * sizeof(parts[0])) != 0)
        abort();
    return 0;
}
