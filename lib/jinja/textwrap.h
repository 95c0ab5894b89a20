/* textwrap - text for people and browsers: Python's textwrap.wrap, Jinja2's urlize, markupsafe's striptags.
 */
#pragma once

#include "jinja/run.h"

struct wrap {
    int64_t width;
    bool break_long, break_hyphens;
};
/* The lines of one paragraph, added to `lines`. */
int wrap_line(struct run *r, const struct wrap *w, struct str line, struct jlist *lines);

struct urlize {
    int64_t limit; /* below 0: none */
    bool nofollow;
    struct jv target; /* escaped; JV_MISSING: none */
    struct str rel;
    struct jlist *schemes; /* NULL: none */
};
int urlize_check(struct run *r, const struct urlize *u); /* FilterArgumentError for wrong schemes */
int put_urlized(struct run *r, struct buf *buf, const struct urlize *u, struct str escaped);

void put_stripped(struct buf *buf, struct str html); /* without tags, entities read */

struct html_entity {
    const char *name; /* "amp;", sorted */
    const char *text;
};
extern const struct html_entity html_entities[];
extern const size_t html_entities_len;
