/* assets - the page's files as tools/embed-page made them of web/ at build time. */
#pragma once

#include <stddef.h>

struct page_asset {
    const char *name; /* "app.js" */
    const char *type; /* of content */
    const char *etag; /* with its quotes */
    const unsigned char *gzip;
    size_t gzip_len, len; /* compressed, and not */
};

extern const struct page_asset page_assets[];
extern const size_t page_asset_count;
extern const char page_asset_folder[]; /* "/assets/HASH/": all but index.html are below it */
