/* apply_managed - the managers of an object's fields, read from and written to metadata.managedFields. Not
 * for others than apply and managed. */
#pragma once

#include "objects/apply_set.h"

struct manager {
    const char *name, *api_version, *subresource; /* subresource is "" for none */
    const char *time;                             /* RFC 3339; NULL: none */
    bool applied;                                 /* operation Apply, else Update */
    bool wrote;                                   /* this write is its own */
    struct json set;
};

struct managers {
    struct arena *arena;
    struct manager *v;
    size_t len, cap;
};

/* From metadata.managedFields (NULL: none). False: it is not what it should be; managers is empty then. */
bool managers_read(struct managers *managers, const struct json *managed_fields);
/* Replaces doc's metadata.managedFields; without managers it has none. The oldest are forgotten where there
 * are more than SCHEMA_MANAGERS_MAX, or fields of more than SCHEMA_MANAGED_BYTES; never whose write it is. */
void managers_write(struct managers *managers, struct json *doc);
struct manager *managers_find(const struct managers *managers, const struct manager *like); /* NULL: absent */
struct manager *managers_add(struct managers *managers, struct manager manager);
/* The set of each manager but `except` loses these fields; managers left without any vanish later. */
void managers_lose(struct managers *managers, const struct manager *except, const struct json *fields);
/* Merges the oldest Update entries under "ancient-changes" where there are more than ten. */
void managers_cap(struct managers *managers);
/* The fields of a live object that has no managers yet belong to "before-first-apply". */
void managers_adopt(struct managers *managers, struct walk *walk, const struct schema_type *type,
                    const char *api_version, const char *now, const struct json *live);
