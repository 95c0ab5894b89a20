/* The annotation that says which cards a pod has: what is read, written again, is the same. */
#include "queue/internal.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct slot slots[UNIT_SLOTS_MAX], again[UNIT_SLOTS_MAX];
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};
    uint32_t len = 0, len_again = 0;

    if (!cards_text_read(arena_strndup(&arena, (const char *)data, size), 7, slots, &len))
        return 0;
    if (len > UNIT_SLOTS_MAX)
        abort();
    for (uint32_t i = 0; i < len; i++) {
        if (slots[i].node != 7 || slots[i].card >= NODE_GPUS_MAX)
            abort();
        buf_printf(&text, "%s%u:%u", i ? "," : "", slots[i].card, slots[i].mib);
    }
    buf_putc(&text, '\0');
    if (!cards_text_read(text.data, 7, again, &len_again) || len != len_again ||
        memcmp(slots, again, len * sizeof(slots[0])) != 0)
        abort();
    return 0;
}
