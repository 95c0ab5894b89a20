/* fuzz_cdi - CDI files: whatever is taken can be resolved or refused with a reason. */
#include "gpu/cdi.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_edits(const struct cdi_edits *e)
{
    for (size_t i = 0; i < e->env_len; i++)
        if (!strchr(e->env[i], '='))
            abort();
    for (size_t i = 0; i < e->devices_len; i++)
        if (e->devices[i].path[0] != '/' || !e->devices[i].type)
            abort();
    for (size_t i = 0; i < e->mounts_len; i++)
        if (e->mounts[i].target[0] != '/')
            abort();
    for (size_t i = 0; i < e->hooks_len; i++)
        if (e->hooks[i].path[0] != '/' || !e->hooks[i].when)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(cdi_free) struct cdi *cdi = NULL;
    struct err err = {0};

    if (size > 65536)
        return 0;
    if (cdi_parse((struct str){(const char *)data, size}, "fuzz", &cdi, &err) < 0) {
        if (err.code == ERR_NONE || !err.msg[0])
            abort();
        return 0;
    }
    for (size_t i = 0; i < cdi_count(cdi) && i < 16; i++) {
        CLEANUP(arena_done) struct arena arena = {0};
        const char *name = cdi_name(cdi, i);
        struct cdi_edits edits = {0};

        if (!cdi_has(cdi, name))
            abort();
        if (cdi_resolve(cdi, &name, 1, &arena, &edits, &err) == 0)
            check_edits(&edits);
        else if (err.code == ERR_NONE || !err.msg[0])
            abort();
    }
    return 0;
}
