/* apply_walk - how the schema says a value is owned. Between apply_set.c and apply_walk.c only. */
#pragma once

#include "objects/apply_set.h"

enum typing_how {
    HOW_LEAF,    /* owned whole */
    HOW_MESSAGE, /* member by member, by `type` */
    HOW_MAP,     /* member by member, values by `field` */
    HOW_KEYED,   /* list, by key */
    HOW_SET,     /* list of scalars */
    HOW_UNKNOWN, /* not in the schema: objects member by member, the rest whole */
};

struct typing {
    enum typing_how how;
    const struct schema_type *type;
    const struct schema_field *field;
};

struct typing typing_root(const struct schema_type *type);
struct typing typing_member(const struct walk *walk, struct typing typing, struct str name);
struct typing typing_item(struct typing typing);
bool typing_names(struct typing typing, struct str name); /* is it a declared field? */

/* Nodes under construction: see apply_set.c. */
void set_mark(struct arena *arena, struct json *node);
void set_attach(struct arena *arena, struct json *parent, struct str key, const struct json *node);
