/* render_wire - what the daemon and berth-render say to each other over a socket: a head and the bytes it
 * announces, then an answer likewise. Both are of one build: berth-render refuses another's. */
#pragma once

#include "base/buf.h"
#include "jinja/jinja.h"

#include <stdint.h>

#define RENDER_MAGIC      0x62720001U
#define RENDER_TEXT_MAX   (1 << 20) /* bytes of a template's text */
#define RENDER_VALUES_MAX (8 << 20) /* of its values as JSON: those of a task, filled in */

enum render_flags {
    RENDER_STRICT = 1 << 0, /* names that are missing are errors, all named at once */
    RENDER_CHECK = 1 << 1,  /* only whether it compiles */
    RENDER_BRIEF = 1 << 2,  /* within RENDER_BRIEF_MS: somebody waits for it in the loop */
};

struct render_head {
    uint32_t magic, error_size; /* of struct jinja_error */
    uint32_t flags;
    uint32_t name_len, text_len, values_len;
};

struct render_answer {
    uint32_t magic;
    int32_t failed; /* 0: the text follows, else a struct jinja_error */
    uint32_t len;
};

/* Serves one end of a socket until the other is closed; the exit status. Limits of this process are set and
 * rights it does not need are given up. */
int render_serve(int fd);
/* The environments that it and the daemon render with. */
struct jinja *render_environment(bool strict, bool brief);
