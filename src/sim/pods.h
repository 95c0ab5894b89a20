/* pods - what openb packs. Private to sim. */
#pragma once

#include "sim/trace.h"

#define POD_GPU 1000 /* thousandths of a GPU */

struct pod_shape {
    struct demand demand;
    struct labels selector;
    const char *spec; /* allowed models; NULL: any */
    uint32_t count;
};

struct pods {
    VEC(uint32_t) list; /* shapes, as pods come */
    VEC(struct pod_shape) shapes;
};
